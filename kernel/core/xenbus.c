// SPDX-License-Identifier: GPL-2.0
/*
 * Membership: who is a peer, and how links to peers begin and end.
 *
 * xwayd in domain 0 lists the peers below this domain's node "xway" in XenStore, and
 * relays offers (doc/xenstore.md). A watch on this node queues a work item, which
 * creates links, and has them end, until they agree with the list. A session ends in a
 * work item of its member. Else everything that sleeps runs in this work item, or in the
 * freeze callback of a platform device, which the kernel calls when a Xen guest is
 * suspended (drivers/xen/manage.c), or in a notifier, as another kernel takes over.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/platform_device.h>
#include <linux/reboot.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <xen/xen.h>
#include <xen/xenbus.h>

#include "addr.h"
#include "link.h"
#include "value.h"
#include "xen.h"
#include "xenbus.h"

/* Time until a failed member is tried again, the first time and at most, in jiffies.
 * It doubles each time, because a peer can make bad offers for ever.
 */
#define RETRY (HZ / 2)
#define RETRY_MAX (10 * HZ)

/* What kexec waits for at most: links drain for 5 seconds, and then pages are unmapped. */
#define RESTART_WAIT (10 * HZ)

/* At most, while pages are unrevoked: nothing tells when the peer unmaps them */
#define RETRY_BUSY (2 * HZ)

/* END_AT_ONCE: the peer has broken the rules or has ended, and is not waited for. */
enum session_end { END_NOT, END_ORDERLY, END_AT_ONCE };

/**
 * struct member - a domain that xwayd lists as a peer
 * @node: in members
 * @port: the event channel to the domain
 * @link: the link to the domain
 * @seen_nonce: nonce of the last offer that is done with: mapped, or bad. It is not
 *	tried again.
 * @tried_nonce: nonce of the last offer that was tried
 * @err: negative errno of the last try; 0 after a success
 * @retry_at: when to try again, in jiffies
 * @retry_in: the last delay of a try, in jiffies
 * @value: value of the domain's node, from xwayd: UUID and addresses
 * @addrs: addresses of @value
 * @n_addrs: how many
 * @incomplete: some of @addrs may be missing in the address table
 * @lost: the address table has lost some, which clients do not know yet
 * @end: how the session must end, if it must
 * @leave: ends the session
 * @leaving: @leave was queued, and what it has done was not seen yet
 * @left: @leave has ended the session
 * @rude: what that has returned
 * @removed: the domain is no peer any more; the member goes once its session has ended
 * @offered: the own offer is in XenStore
 * @listed: xwayd lists the domain; for read_members()
 *
 * members_lock guards all of it, but for @end, @left and @rude.
 */
struct member {
	struct list_head node;
	struct xen_port port;
	struct link *link;
	u64 seen_nonce;
	u64 tried_nonce;
	int err;
	unsigned long retry_at;
	unsigned long retry_in;
	char *value;
	struct xway_addr *addrs;
	unsigned int n_addrs;
	enum session_end end;
	struct work_struct leave;
	bool leaving;
	bool left;
	bool rude;
	bool removed;
	bool incomplete;
	bool lost;
	bool offered;
	bool listed;
};

static LIST_HEAD(members);
static DEFINE_MUTEX(members_lock);
static domid_t own_domid;
static bool frozen, stopping;	/* suspended; being unloaded */
static bool relisted;	/* the list of xwayd must be read again */

static void sync_fn(struct work_struct *work);
static DECLARE_DELAYED_WORK(sync_work, sync_fn);

static void sync_soon(unsigned long delay)
{
	if (!READ_ONCE(stopping) && !READ_ONCE(frozen))
		mod_delayed_work(xway_core_wq, &sync_work, delay);
}

/* @session_lost of a link, see struct link. */
static void member_lost(struct link *link)
{
	struct member *m = container_of(link->tp_data, struct member, port);

	WRITE_ONCE(m->end, READ_ONCE(link->broken) || READ_ONCE(link->gone) ?
			   END_AT_ONCE : END_ORDERLY);
	sync_soon(0);
}

/* ---- offers ---- */

static void path_of(char *buf, size_t size, const char *dir, domid_t domid)
{
	snprintf(buf, size, "%s/%u", dir, domid);
}

/* Begin a session, and write the own offer. Return: 0 or a negative errno. */
static int offer(struct member *m)
{
	struct link *link = m->link;
	char name[16];
	int err;

	mutex_lock(&link->pub.lock);
	err = xway_link_prepare(link);
	mutex_unlock(&link->pub.lock);
	if (err)
		return err;
	if (own_domid < m->port.domid && !m->port.irq) {
		err = xway_xen_port_alloc(&m->port);
		if (err)
			return err;
	}
	snprintf(name, sizeof(name), "%u", m->port.domid);
	err = xenbus_printf(XBT_NIL, "data/xway", name, "%u %016llx %u %u",
			    XWAY_OFFER_VERSION, link->pub.nonce,
			    link->arena.slot[XWAY_PAGE_HEADER].ref, m->port.port);
	if (!err)
		m->offered = true;
	return err;
}

/* Has the last try failed, and is it too early for the next one? */
static bool too_early(const struct member *m)
{
	return m->err && time_before(jiffies, m->retry_at);
}

/* Take up the peer's offer. Return: 0 if there is nothing to try again, or an errno. */
static int take_offer(struct member *m, const char *text)
{
	struct link *link = m->link;
	u32 ref, port;
	u64 nonce;
	int err;

	if (!xway_value_offer(text, &nonce, &ref, &port)) {
		if (m->seen_nonce != ~0ULL)
			pr_warn("%s: bad offer in xway/link/%u\n", link->pub.name,
				m->port.domid);
		m->seen_nonce = ~0ULL;
		return 0;
	}
	if (nonce == m->seen_nonce)
		return 0;
	if (nonce == m->tried_nonce && too_early(m))
		return m->err;
	m->tried_nonce = nonce;
	if (READ_ONCE(link->pub.state) != XWAY_LINK_WAITING) {
		/* The peer has begun a new session without ending the old one. */
		m->end = END_AT_ONCE;
		sync_soon(0);
		return 0;
	}
	if (own_domid > m->port.domid && !m->port.irq) {
		err = xway_xen_port_join(&m->port, port);
		if (err)
			return err;
	}
	mutex_lock(&link->pub.lock);
	err = xway_link_map(link, ref, nonce);
	mutex_unlock(&link->pub.lock);
	/* Close the port: the peer's next offer may name another one. -EPROTO is
	 * final for this offer; other errors may pass, so it is tried again.
	 */
	if (err && own_domid > m->port.domid)
		xway_xen_port_close(&m->port);
	if (!err || err == -EPROTO)
		m->seen_nonce = nonce;
	return err == -EPROTO ? 0 : err;
}

static void withdraw_offer(struct member *m)
{
	char name[16];

	if (m->offered) {
		snprintf(name, sizeof(name), "%u", m->port.domid);
		xenbus_rm(XBT_NIL, "data/xway", name);
	}
	m->offered = false;
}

/*
 * Work: end a session. The end waits for the peer, for some seconds, and for whoever keeps
 * a socket's lock. So each member has a work item for it, and no lock of membership is held:
 * nobody waits for another member's peer.
 */
static void leave_fn(struct work_struct *work)
{
	struct member *m = container_of(work, struct member, leave);
	/* See link_work(). */
	unsigned int noio = memalloc_noio_save();

	m->rude = xway_link_down(m->link, READ_ONCE(m->end) == END_AT_ONCE);
	memalloc_noio_restore(noio);
	/* The above before the flag: pairs with member_left(), which may free the member. */
	smp_store_release(&m->left, true);
	sync_soon(0);
}

static void member_leave(struct member *m)
{
	if (m->leaving)
		return;
	m->leaving = true;
	queue_work(xway_core_wq, &m->leave);
}

static void try_later(struct member *m, int err, unsigned long most)
{
	m->retry_in = clamp(2 * m->retry_in, (unsigned long)RETRY, most);
	m->retry_at = jiffies + m->retry_in;
	m->err = err;
}

/*
 * Has the session ended that was to end? A peer that has broken the rules, or kept channels,
 * begins the next one later each time: an end costs more here than there.
 */
static bool member_left(struct member *m)
{
	/* See leave_fn(). */
	if (!smp_load_acquire(&m->left))
		return false;
	/* It uses nothing of the member any more, so that may go while it returns. To wait for
	 * it in a work item of the same workqueue is what lockdep forbids.
	 */
	m->leaving = false;
	m->left = false;
	xway_xen_port_close(&m->port);
	m->offered = false;
	m->end = END_NOT;
	if (m->rude) {
		try_later(m, -EAGAIN, RETRY_MAX);
	} else {
		m->err = 0;
		m->retry_in = 0;
	}
	return true;
}

/* End the session while nothing else can begin: for a suspend, or as the module goes. */
static void end_session(struct member *m)
{
	flush_work(&m->leave);
	xway_link_down(m->link, false);
	xway_xen_port_close(&m->port);
}

/* ---- what xwayd says ---- */

static struct member *member_find(domid_t domid)
{
	struct member *m;

	list_for_each_entry(m, &members, node)
		if (m->port.domid == domid && !m->removed)
			return m;
	return NULL;
}

/* @value: value of the domain's node. It begins with the UUID, the id of the peer. */
static struct member *member_new(domid_t domid, const char *value)
{
	struct member *m = kzalloc(sizeof(*m), GFP_KERNEL);
	char name[24], uuid[XWAY_PEER_ID];

	if (!m)
		return NULL;
	m->port.domid = domid;
	INIT_WORK(&m->leave, leave_fn);
	snprintf(name, sizeof(name), "xen:%u", domid);
	strscpy(uuid, value, min(sizeof(uuid), strcspn(value, " ") + 1));
	m->link = xway_link_create(&xway_xen_transport, &m->port, member_lost, name,
				   uuid);
	if (!m->link) {
		kfree(m);
		return NULL;
	}
	m->port.link = m->link;
	list_add_tail(&m->node, &members);
	return m;
}

/* Its session has ended. */
static void member_free(struct member *m)
{
	list_del(&m->node);
	/* Connections may have references on the link, but it uses no member now. */
	xway_link_destroy(m->link);
	kfree(m->value);
	kfree(m->addrs);
	kfree(m);
}

/*
 * The domain is no peer any more, and may be one again, or another domain with its id,
 * before its session has ended. @end: END_AT_ONCE if it has ended itself.
 */
static void member_remove(struct member *m, enum session_end end)
{
	m->removed = true;
	m->end = end;
	if (end == END_AT_ONCE)
		WRITE_ONCE(m->link->gone, true);
	/* No connection begins on the way. */
	xway_addr_del_link(&m->link->pub);
	withdraw_offer(m);
	member_leave(m);
}

/* Remove the members that xwayd does not list. Their sessions end at the same time. */
static void members_leave(void)
{
	struct member *m;

	list_for_each_entry(m, &members, node)
		if (!m->listed && !m->removed)
			member_remove(m, END_ORDERLY);
}

/* End all sessions, which wait for their peers together. */
static void end_sessions(void)
{
	struct member *m;
	LIST_HEAD(ending);

	list_for_each_entry(m, &members, node)
		list_add_tail(&m->link->ending, &ending);
	xway_links_drain(&ending);
	list_for_each_entry(m, &members, node)
		end_session(m);
}

/*
 * Take up the addresses in a member's new value. Those that it has lost leave the
 * table, so that another member can have them. The others are added by member_add().
 * Return: 0 or -ENOMEM.
 */
static int member_addresses(struct member *m, const char *value)
{
	struct xway_link *link = &m->link->pub;
	struct xway_addr *addrs;
	int n = xway_value_addresses(value, link->name, &addrs);

	if (n < 0)
		return n;
	kfree(m->addrs);
	m->addrs = addrs;
	m->n_addrs = n;
	m->incomplete = true;
	m->lost |= xway_addr_keep(link, addrs, n);
	return 0;
}

/*
 * Add a member's addresses, if some are missing in the table. One that another
 * member has is left out for now: xwayd writes one node after another, so the other
 * member may only be about to lose it. Then its change has us try again.
 * Return: 0 or -ENOMEM.
 */
static int member_add(struct member *m)
{
	struct xway_link *link = &m->link->pub;
	bool incomplete = false;
	unsigned int i;
	int err;

	for (i = 0; i < m->n_addrs && m->incomplete; i++) {
		const struct xway_addr *a = &m->addrs[i];

		err = xway_addr_add(a, link, link);
		if (err == -EEXIST) {
			rcu_read_lock();
			incomplete |= xway_addr_find(a->family, a->addr, true) != link;
			rcu_read_unlock();
		} else if (err) {
			return err;
		}
	}
	m->incomplete = incomplete;
	return 0;
}

/*
 * Was it a peer until now, under this id or another one, and has its session not ended yet?
 * An offer would end that at once at the peer; and clients keep for a peer's next link what
 * they have for its last one.
 */
static bool still_ends(domid_t domid, const char *value)
{
	const struct member *m;

	list_for_each_entry(m, &members, node)
		if (m->removed && (m->port.domid == domid ||
				   (m->value && xway_value_same_domain(m->value, value))))
			return true;
	return false;
}

/* The node of a domain has @value, which this function frees or keeps.
 * Return: 0, -ENOMEM, or -EBUSY: its last session has not ended yet.
 */
static int member_update(domid_t domid, char *value)
{
	struct member *m = member_find(domid);

	if (m && !strcmp(m->value, value)) {
		kfree(value);
		return 0;
	}
	if (m && (xway_value_gone(value) || !xway_value_same_domain(m->value, value))) {
		/* The domain has ended, or another domain has its id now. */
		member_remove(m, END_AT_ONCE);
		m = NULL;
	}
	if (xway_value_gone(value)) {
		kfree(value);
		return 0;
	}
	if (!m && still_ends(domid, value)) {
		kfree(value);
		return -EBUSY;
	}
	if (!m) {
		m = member_new(domid, value);
		if (!m) {
			kfree(value);
			return -ENOMEM;
		}
	}
	if (member_addresses(m, value)) {
		if (!m->value)
			member_remove(m, END_ORDERLY);
		kfree(value);
		return -ENOMEM;
	}
	kfree(m->value);
	m->value = value;
	return 0;
}

/* Services that need a word of domain 0, and the directories that have it */
static const struct {
	u16 service;
	const char *dir;
} policies[] = {
	{ XWAY_SERVICE_NET, "xway/net" },
};

/* Read what domain 0 says of services for a member. Return: 0 or a negative errno. */
static int member_policy(struct member *m)
{
	char path[32], *text;
	unsigned int len;
	int i, err = 0;

	for (i = 0; i < ARRAY_SIZE(policies); i++) {
		path_of(path, sizeof(path), policies[i].dir, m->port.domid);
		text = xenbus_read(XBT_NIL, path, "", &len);
		if (text == ERR_PTR(-ENOENT))
			text = NULL;
		if (IS_ERR(text)) {
			err = PTR_ERR(text);
			continue;
		}
		err = xway_client_policy(m->link, policies[i].service, text) ?: err;
		kfree(text);
	}
	return err;
}

/* Return: value of the domain's node; NULL if there is none; or an ERR_PTR. */
static char *member_read(const char *name, unsigned int *domid)
{
	unsigned int len;
	char path[32], *value;

	if (kstrtouint(name, 10, domid) || *domid >= DOMID_FIRST_RESERVED ||
	    *domid == own_domid)
		return NULL;
	path_of(path, sizeof(path), "xway/peer", *domid);
	value = xenbus_read(XBT_NIL, path, "", &len);
	return value == ERR_PTR(-ENOENT) ? NULL : value;
}

/* Read which addresses are this domain's own. Return: 0 or a negative errno. */
static int read_self(void)
{
	struct xway_addr *addrs;
	unsigned int len;
	char *value = xenbus_read(XBT_NIL, "xway/self", "", &len);
	int n;

	/* An older xwayd does not say. */
	if (value == ERR_PTR(-ENOENT))
		return xway_addr_own(NULL, 0);
	if (IS_ERR(value))
		return PTR_ERR(value);
	n = xway_value_addresses(value, "xway/self", &addrs);
	kfree(value);
	if (n < 0)
		return n;
	n = xway_addr_own(addrs, n);
	kfree(addrs);
	return n;
}

/* Make members agree with xwayd's list. Return: 0, or an errno: read it again. */
static int read_members(void)
{
	struct member *m;
	unsigned int i, n = 0, domid;
	int err = 0;
	char **dir, **values;

	dir = xenbus_directory(XBT_NIL, "xway", "peer", &n);
	if (IS_ERR(dir)) {
		/* No list means no peers. Other errors say nothing about peers. */
		if (PTR_ERR(dir) != -ENOENT)
			return PTR_ERR(dir);
		dir = NULL;
		n = 0;
	}
	values = kcalloc(n, sizeof(*values), GFP_KERNEL);
	if (!values) {
		kfree(dir);
		return -ENOMEM;
	}
	list_for_each_entry(m, &members, node)
		m->listed = false;
	for (i = 0; i < n; i++) {
		values[i] = member_read(dir[i], &domid);
		m = values[i] ? member_find(domid) : NULL;
		if (IS_ERR(values[i])) {
			err = PTR_ERR(values[i]);
			values[i] = NULL;
		}
		if (m)
			m->listed = true;
	}
	members_leave();
	/* Who has ended goes first: it may be back already, with another number. */
	for (i = 0; i < n; i++) {
		if (values[i] && xway_value_gone(values[i]) && !kstrtouint(dir[i], 10, &domid)) {
			err = member_update(domid, values[i]) ?: err;
			values[i] = NULL;
		}
	}
	for (i = 0; i < n; i++)
		if (values[i] && !kstrtouint(dir[i], 10, &domid))
			err = member_update(domid, values[i]) ?: err;
	/* An address may have moved from one member to another. So all members have
	 * lost theirs before one gets another's.
	 */
	list_for_each_entry(m, &members, node)
		if (!m->removed)
			err = member_add(m) ?: member_policy(m) ?: err;
	list_for_each_entry(m, &members, node) {
		if (m->lost && !m->removed)
			xway_client_addresses(m->link);
		m->lost = false;
	}
	kfree(values);
	kfree(dir);
	return err;
}

/* Do what is next for a member. Return: 0, or an errno: try again later. */
static int member_try(struct member *m)
{
	char path[32], *text;
	unsigned int len;
	int err;

	if (!m->offered) {
		if (too_early(m))
			return m->err;
		err = offer(m);
		if (err)
			return err;
	}
	path_of(path, sizeof(path), "xway/link", m->port.domid);
	text = xenbus_read(XBT_NIL, path, "", &len);
	if (IS_ERR(text))
		return PTR_ERR(text) == -ENOENT ? 0 : PTR_ERR(text);
	err = take_offer(m, text);
	kfree(text);
	return err;
}

/* Return: time until the member must be tried again, in jiffies; MAX_JIFFY_OFFSET
 * if it need not be.
 */
static unsigned long member_sync(struct member *m)
{
	bool early = too_early(m);
	int err = member_try(m);

	if (!err) {
		/* A session that ends well ends the delays: a peer can repeat a bad offer. */
		if (READ_ONCE(m->link->pub.state) != XWAY_LINK_WAITING)
			m->err = 0;
		return MAX_JIFFY_OFFSET;
	}
	if (err != m->err && err != -EBUSY && err != -EAGAIN)
		pr_warn_ratelimited("%s: no link: %pe\n", m->link->pub.name, ERR_PTR(err));
	if (!early)
		try_later(m, err, err == -EBUSY ? RETRY_BUSY : RETRY_MAX);
	m->err = err;
	return max_t(long, m->retry_at - jiffies, 1);
}

static void watch_fired(struct xenbus_watch *watch, const char *path,
			const char *token)
{
	/* Do not read the list for each offer: a peer can make many. */
	if (!strstarts(path, "xway/link/"))
		WRITE_ONCE(relisted, true);
	sync_soon(0);
}

static struct xenbus_watch watch = {
	.node = "xway",
	.callback = watch_fired,
};

/* Once: the kernel sets it again after a suspend. */
static bool watching;

/* XenStore may have no watch left for this domain, or no memory. */
static bool watch_begin(void)
{
	int err = register_xenbus_watch(&watch);

	if (err)
		pr_err_once("cannot watch XenStore, trying again: %d\n", err);
	watching = !err;
	return watching;
}

static void sync_fn(struct work_struct *work)
{
	/* See link_work(). */
	unsigned int noio = memalloc_noio_save();
	unsigned long next = MAX_JIFFY_OFFSET;
	struct member *m, *then;
	unsigned int domid;

	mutex_lock(&members_lock);
	if (frozen || stopping)
		goto out;
	if (!watching && !watch_begin()) {
		queue_delayed_work(xway_core_wq, &sync_work, RETRY_MAX);
		goto out;
	}
	/* First, as some may be listed again. */
	list_for_each_entry_safe(m, then, &members, node)
		if (m->removed && member_left(m))
			member_free(m);
	if (xchg(&relisted, false)) {
		int n = xenbus_scanf(XBT_NIL, "domid", "", "%u", &domid);

		if (n == 1)
			own_domid = domid;
		if ((n < 0 && n != -ENOENT) || read_self() || read_members()) {
			WRITE_ONCE(relisted, true);
			next = RETRY;
		}
	}
	list_for_each_entry(m, &members, node) {
		if (READ_ONCE(m->end) != END_NOT)
			member_leave(m);
		/* leave_fn() has us look again. */
		if (!m->removed && (!m->leaving || member_left(m)))
			next = min(next, member_sync(m));
	}
	/* Does nothing if the work is queued already, to run sooner. */
	if (next != MAX_JIFFY_OFFSET)
		queue_delayed_work(xway_core_wq, &sync_work, next);
out:
	mutex_unlock(&members_lock);
	memalloc_noio_restore(noio);
}

/* ---- suspend ---- */

/*
 * In the freeze callback, processes are frozen and watches of XenStore do not fire,
 * but work items run, and the doorbell to a live peer works. All connections
 * park. No page of a peer stays mapped: a mapping left behind would corrupt
 * the saved image. Thaw (this domain goes on) and restore (it goes on from its image)
 * both forget all peers, and new sessions begin. They do the same, because neither
 * tells for certain which of the two has happened.
 */
static void leave_all(void)
{
	WRITE_ONCE(frozen, true);
	cancel_delayed_work_sync(&sync_work);
	mutex_lock(&members_lock);
	/* All links at once: the toolstack does not wait long enough for each in turn. */
	end_sessions();
	mutex_unlock(&members_lock);
}

static int xen_freeze(struct device *dev)
{
	unsigned int noio = memalloc_noio_save();

	leave_all();
	memalloc_noio_restore(noio);
	return 0;
}

static int xen_thaw(struct device *dev)
{
	struct member *m, *next;

	mutex_lock(&members_lock);
	list_for_each_entry_safe(m, next, &members, node) {
		xway_addr_del_link(&m->link->pub);
		member_free(m);
	}
	mutex_unlock(&members_lock);
	WRITE_ONCE(relisted, true);
	WRITE_ONCE(frozen, false);
	sync_soon(HZ / 4);
	return 0;
}

static const struct dev_pm_ops pm_ops = {
	.freeze = xen_freeze,
	.thaw = xen_thaw,
	.restore = xen_thaw,
};

static struct platform_driver driver = {
	.driver = { .name = "xway", .pm = &pm_ops },
};

static struct platform_device *device;

static DECLARE_COMPLETION(left);

static void restart_fn(struct work_struct *work)
{
	leave_all();
	complete(&left);
}

static DECLARE_WORK(restart_work, restart_fn);

/*
 * kexec in an HVM guest: Xen resets the domain, but it keeps what the domain has mapped, and
 * the next kernel would not know of it (kernel_kexec(); IMA tells it in the same way). A
 * crash leaves no time for that. Programs run on, unlike in xen_freeze(), and one whose page
 * fault never ends may keep a socket's lock that the end of a session wants.
 */
static int restarting(struct notifier_block *nb, unsigned long event, void *command)
{
	if (event != SYS_RESTART || !command || strcmp(command, "kexec reboot"))
		return NOTIFY_DONE;
	queue_work(xway_core_wq, &restart_work);
	if (!wait_for_completion_timeout(&left, RESTART_WAIT))
		pr_warn("some peers are still in use, as another kernel takes over\n");
	return NOTIFY_DONE;
}

static struct notifier_block restart_nb = { .notifier_call = restarting };

/* XenStore can be used now. */
static int store_ready(struct notifier_block *nb, unsigned long event,
		       void *data)
{
	sync_soon(0);
	return NOTIFY_DONE;
}

static struct notifier_block store_nb = { .notifier_call = store_ready };

/**
 * xway_xenbus_init() - begin to make links, if this is a Xen guest
 *
 * Context: initialization, last: links begin from here on.
 * Return: 0 or a negative errno.
 */
int __init xway_xenbus_init(void)
{
	int err;

	if (!xen_domain())
		return 0;
	xway_xen_init();
	err = platform_driver_register(&driver);
	if (err)
		return err;
	device = platform_device_register_simple("xway", -1, NULL, 0);
	if (IS_ERR(device)) {
		platform_driver_unregister(&driver);
		return PTR_ERR(device);
	}
	err = register_reboot_notifier(&restart_nb);
	if (err) {
		platform_device_unregister(device);
		platform_driver_unregister(&driver);
		return err;
	}
	register_xenstore_notifier(&store_nb);
	return 0;
}

/* End all links. Context: process, unload; may sleep for seconds. */
void xway_xenbus_exit(void)
{
	struct member *m, *next;

	if (!xen_domain())
		return;
	unregister_xenstore_notifier(&store_nb);
	WRITE_ONCE(stopping, true);
	cancel_delayed_work_sync(&sync_work);
	if (watching)
		unregister_xenbus_watch(&watch);
	mutex_lock(&members_lock);
	/* No connection begins on the way. */
	list_for_each_entry(m, &members, node)
		xway_addr_del_link(&m->link->pub);
	end_sessions();
	list_for_each_entry_safe(m, next, &members, node) {
		withdraw_offer(m);
		member_free(m);
	}
	mutex_unlock(&members_lock);
	/* Until here there was something that a restart must not leave behind. */
	unregister_reboot_notifier(&restart_nb);
	cancel_work_sync(&restart_work);
	platform_device_unregister(device);
	platform_driver_unregister(&driver);
	xway_xen_exit();
}
