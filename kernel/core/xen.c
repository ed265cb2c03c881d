// SPDX-License-Identifier: GPL-2.0
/*
 * Transport "xen": grant table, event channel, and XenStore to set links up.
 *
 * xwayd in domain 0 lists the peers below this domain's "xway" and relays
 * offers (doc/xenstore.md). One watch queues one work item, which makes what
 * is listed true: everything here that sleeps runs in it, or in the freeze of
 * a platform device, which the suspend of a Xen guest calls.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/inet.h>
#include <linux/mm.h>
#include <linux/platform_device.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <net/ipv6.h>
#include <xen/events.h>
#include <xen/grant_table.h>
#include <xen/interface/event_channel.h>
#include <xen/page.h>
#include <xen/xen.h>
#include <xen/xenbus.h>
#include <asm/xen/hypercall.h>

#include "conn.h"
#include "link.h"
#include "addr.h"
#include "xen.h"

#define OFFER_VERSION 1

/* Jiffies after which what failed is tried again, at first and at most: a peer can
 * offer what cannot be taken up, for ever
 */
#define RETRY (HZ / 2)
#define RETRY_MAX (10 * HZ)

/* The most for own pages that are not given back yet: nothing tells when they are. */
#define RETRY_BUSY (2 * HZ)

/**
 * struct xen_peer - a domain that xwayd lists
 * @node: in peers
 * @domid: its number
 * @link: to it
 * @seen_nonce: of the last offer taken up, so that a stale one is not
 * @tried_nonce: of the last offer that was tried
 * @err: why there is no link, or 0
 * @retry_at: when it is tried again, in jiffies
 * @retry_in: and how long that was after the last time
 * @value: what xwayd says of it
 * @irq: of the event channel, 0 without one
 * @port: of the event channel, if it was allocated here
 * @eoi_irq: the interrupt that waits for xen_irq_lateeoi(), or 0; it may come
 *	before the call that binds it has returned
 * @lost: the link must end: 1 in order, 2 at once
 * @offered: the own offer is in XenStore
 * @listed: xwayd listed it in this round
 */
struct xen_peer {
	struct list_head node;
	domid_t domid;
	struct xway_link *link;
	u64 seen_nonce;
	u64 tried_nonce;
	int err;
	unsigned long retry_at;
	unsigned long retry_in;
	char *value;
	int irq;
	evtchn_port_t port;
	atomic_t eoi_irq;
	int lost;
	bool offered;
	bool listed;
};

static LIST_HEAD(peers);
static DEFINE_MUTEX(peers_lock);
static domid_t own_domid;
static bool frozen, stopping;
static bool relisted;	/* what xwayd lists is to be read */

static void sync_fn(struct work_struct *work);
static DECLARE_DELAYED_WORK(sync_work, sync_fn);

static void sync_soon(unsigned long delay)
{
	if (!READ_ONCE(stopping) && !READ_ONCE(frozen))
		mod_delayed_work(xway_link_wq, &sync_work, delay);
}

/* ---- the transport ---- */

static int xen_share(struct xway_link *link, struct page *page, u32 *ref)
{
	struct xen_peer *p = link->tp_data;
	int ret = gnttab_grant_foreign_access(p->domid, xen_page_to_gfn(page),
					      1);

	if (ret < 0)
		return ret;
	*ref = ret;
	return 0;
}

static int xen_unshare(struct xway_link *link, struct page *page, u32 ref)
{
	return gnttab_try_end_foreign_access(ref) ? 0 : -EBUSY;
}

static void xen_abandon(struct xway_link *link, struct page *page, u32 ref)
{
	gnttab_end_foreign_access(ref, page);
}

/*
 * Addresses for the peers' pages, which have none to spare otherwise. They are
 * got in batches and used in their order, so that the pages of a ring, mapped
 * one after the other, follow each other: see xway_ring_at().
 */
static DEFINE_MUTEX(spare_lock);
static struct page *spare[64];
static u32 spares;	/* the next to be used is the last */

static int later_first(const void *a, const void *b)
{
	const struct page *x = *(struct page *const *)a;
	const struct page *y = *(struct page *const *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

static int spare_take(struct page **page)
{
	int err = 0;

	mutex_lock(&spare_lock);
	if (!spares && !gnttab_alloc_pages(ARRAY_SIZE(spare), spare)) {
		spares = ARRAY_SIZE(spare);
		sort(spare, spares, sizeof(*spare), later_first, NULL);
	}
	if (spares)
		*page = spare[--spares];
	else
		err = gnttab_alloc_pages(1, page);
	mutex_unlock(&spare_lock);
	return err;
}

/*
 * Per page and read-only. No contiguous mapping: vmap() of granted pages does
 * not work in a PV guest.
 */
static int xen_map(struct xway_link *link, u32 ref, struct xway_mapping *m)
{
	struct xen_peer *p = link->tp_data;
	struct gnttab_map_grant_ref op;
	int err;

	err = spare_take(&m->page);
	if (err)
		return err;
	gnttab_set_map_op(&op, (unsigned long)page_address(m->page),
			  GNTMAP_host_map | GNTMAP_readonly, ref, p->domid);
	err = gnttab_map_refs(&op, NULL, &m->page, 1);
	if (!err && op.status != GNTST_okay)
		err = op.status == GNTST_no_space ? -ENOSPC : -EPROTO;
	if (err) {
		gnttab_free_pages(1, &m->page);
		return err;
	}
	m->addr = page_address(m->page);
	m->handle = op.handle;
	return 0;
}

static void xen_unmap(struct xway_link *link, struct xway_mapping *m)
{
	struct gnttab_unmap_grant_ref op;

	gnttab_set_unmap_op(&op, (unsigned long)m->addr,
			    GNTMAP_host_map | GNTMAP_readonly, m->handle);
	if (gnttab_unmap_refs(&op, NULL, &m->page, 1) || op.status) {
		pr_err("%s: cannot unmap a page: %d\n", link->name, op.status);
		return;		/* leak it: the mapping may still be there */
	}
	gnttab_free_pages(1, &m->page);
}

static void xen_notify(struct xway_link *link)
{
	struct xen_peer *p = link->tp_data;

	if (p->irq)
		notify_remote_via_irq(p->irq);
}

static void xen_seen(struct xway_link *link, bool idle)
{
	struct xen_peer *p = link->tp_data;
	int irq = atomic_xchg(&p->eoi_irq, 0);

	if (irq)
		xen_irq_lateeoi(irq, idle ? XEN_EOI_FLAG_SPURIOUS : 0);
}

static void xen_lost(struct xway_link *link)
{
	struct xen_peer *p = link->tp_data;

	WRITE_ONCE(p->lost, READ_ONCE(link->broken) ? 2 : 1);
	sync_soon(0);
}

static const struct xway_transport transport = {
	.name = "xen",
	.share = xen_share,
	.unshare = xen_unshare,
	.abandon = xen_abandon,
	.map = xen_map,
	.unmap = xen_unmap,
	.notify = xen_notify,
	.seen = xen_seen,
	.lost = xen_lost,
};

/* Hard interrupt: softirq does the work, and says when the next may come. */
static irqreturn_t interrupt(int irq, void *data)
{
	struct xen_peer *p = data;

	atomic_set(&p->eoi_irq, irq);
	tasklet_schedule(&p->link->bell_task);
	return IRQ_HANDLED;
}

/* ---- event channel ---- */

static int port_bind(struct xen_peer *p, evtchn_port_t port)
{
	int irq = bind_evtchn_to_irqhandler_lateeoi(port, interrupt, 0, "xway",
						    p);

	/* A failure may have closed the port, which may be another's by now:
	 * rather leave one open than close that.
	 */
	if (irq < 0)
		return irq;
	p->irq = irq;
	return 0;
}

static int port_alloc(struct xen_peer *p)
{
	struct evtchn_alloc_unbound op = {
		.dom = DOMID_SELF,
		.remote_dom = p->domid,
	};
	int err = HYPERVISOR_event_channel_op(EVTCHNOP_alloc_unbound, &op);

	if (err)
		return err;
	p->port = op.port;
	return port_bind(p, op.port);
}

static int port_join(struct xen_peer *p, evtchn_port_t remote)
{
	struct evtchn_bind_interdomain op = {
		.remote_dom = p->domid,
		.remote_port = remote,
	};
	int err = HYPERVISOR_event_channel_op(EVTCHNOP_bind_interdomain, &op);

	return err ?: port_bind(p, op.local_port);
}

static void port_close(struct xen_peer *p)
{
	int irq = p->irq;

	p->irq = 0;
	if (irq) {
		/* The tasklet may be about to say that it has seen the event:
		 * only then may the interrupt go.
		 */
		disable_irq(irq);
		tasklet_kill(&p->link->bell_task);
		unbind_from_irqhandler(irq, p);
	}
	atomic_set(&p->eoi_irq, 0);
	p->port = 0;
}

/* ---- offers ---- */

static void path_of(char *buf, size_t size, const char *dir, domid_t domid)
{
	snprintf(buf, size, "%s/%u", dir, domid);
}

static int offer(struct xen_peer *p)
{
	struct xway_link *link = p->link;
	char name[16];
	int err;

	mutex_lock(&link->lock);
	err = xway_link_prepare(link);
	mutex_unlock(&link->lock);
	if (err)
		return err;
	if (own_domid < p->domid && !p->irq) {
		err = port_alloc(p);
		if (err)
			return err;
	}
	snprintf(name, sizeof(name), "%u", p->domid);
	err = xenbus_printf(XBT_NIL, "data/xway", name, "%u %016llx %u %u",
			    OFFER_VERSION, link->nonce,
			    link->arena.slot[XWAY_PAGE_HEADER].ref, p->port);
	if (!err)
		p->offered = true;
	return err;
}

/* What xwayd relays is checked by it; the peer may be hostile all the same. */
static int parse_offer(const char *text, u64 *nonce, u32 *ref, u32 *port)
{
	unsigned int version, used = 0;

	if (sscanf(text, "%u %16llx %u %u%n", &version, nonce, ref, port,
		   &used) != 4 || text[used] || version != OFFER_VERSION)
		return -EINVAL;
	return 0;
}

/* Has it failed, and the time to try again not come? */
static bool too_early(const struct xen_peer *p)
{
	return p->err && time_before(jiffies, p->retry_at);
}

static int take_offer(struct xen_peer *p, const char *text)
{
	struct xway_link *link = p->link;
	u32 ref, port;
	u64 nonce;
	int err;

	if (parse_offer(text, &nonce, &ref, &port)) {
		if (p->seen_nonce != ~0ULL)
			pr_warn("%s: bad offer in xway/link/%u\n", link->name,
				p->domid);
		p->seen_nonce = ~0ULL;
		return 0;
	}
	if (nonce == p->seen_nonce)
		return 0;
	if (nonce == p->tried_nonce && too_early(p))
		return p->err;
	p->tried_nonce = nonce;
	if (READ_ONCE(link->state) != XWAY_LINK_WAITING) {
		/* It has begun a new life without ending the old one. */
		p->lost = 2;
		sync_soon(0);
		return 0;
	}
	if (own_domid > p->domid && !p->irq) {
		err = port_join(p, port);
		if (err)
			return err;
	}
	mutex_lock(&link->lock);
	err = xway_link_map(link, ref, nonce);
	mutex_unlock(&link->lock);
	/* Try again what may pass; its next offer may name another port. */
	if (err && own_domid > p->domid)
		port_close(p);
	if (!err || err == -EPROTO)
		p->seen_nonce = nonce;
	return err == -EPROTO ? 0 : err;
}

static void withdraw(struct xen_peer *p, bool dead, bool store)
{
	char name[16];

	xway_link_down(p->link, dead);
	port_close(p);
	if (p->offered && store) {
		snprintf(name, sizeof(name), "%u", p->domid);
		xenbus_rm(XBT_NIL, "data/xway", name);
	}
	p->offered = false;
	p->lost = 0;
}

/* ---- what xwayd says ---- */

static struct xen_peer *peer_find(domid_t domid)
{
	struct xen_peer *p;

	list_for_each_entry(p, &peers, node)
		if (p->domid == domid)
			return p;
	return NULL;
}

/* @value: what xwayd says of it, which begins with the UUID that it keeps */
static struct xen_peer *peer_new(domid_t domid, const char *value)
{
	struct xen_peer *p = kzalloc(sizeof(*p), GFP_KERNEL);
	char name[24], uuid[XWAY_PEER_ID];

	if (!p)
		return NULL;
	p->domid = domid;
	snprintf(name, sizeof(name), "xen:%u", domid);
	strscpy(uuid, value, min(sizeof(uuid), strcspn(value, " ") + 1));
	p->link = xway_link_create(&transport, p, name, uuid);
	if (!p->link) {
		kfree(p);
		return NULL;
	}
	list_add_tail(&p->node, &peers);
	return p;
}

static void peer_remove(struct xen_peer *p, bool dead, bool store)
{
	xway_addr_del_link(p->link);
	withdraw(p, dead, store);
	list_del(&p->node);
	/* The link may outlive us in the revoke_work, which needs no peer. */
	xway_link_destroy(p->link);
	kfree(p->value);
	kfree(p);
}

/* Return: 0 or -ENOMEM; what is no address, or another's, is left out. */
static int peer_addresses(struct xen_peer *p, const char *value)
{
	char *copy = kstrdup(value, GFP_KERNEL), *at = copy, *word;
	int err = 0;

	xway_addr_del_link(p->link);
	if (!copy)
		return -ENOMEM;
	strsep(&at, " ");	/* the UUID */
	while (err != -ENOMEM && (word = strsep(&at, " "))) {
		struct xway_addr a = {};

		if (!*word)
			continue;
		if (in4_pton(word, -1, (u8 *)a.addr, -1, NULL)) {
			a.family = AF_INET;
			a.prefix = 32;
		} else if (in6_pton(word, -1, (u8 *)a.addr, -1, NULL)) {
			a.family = AF_INET6;
			a.prefix = 128;
		} else {
			pr_warn("%s: \"%s\" is no address\n", p->link->name,
				word);
			continue;
		}
		err = xway_addr_add(&a, p->link, p->link);
		if (err)
			pr_warn("%s: address %s not added\n", p->link->name,
				word);
	}
	kfree(copy);
	return err == -ENOMEM ? err : 0;
}

static bool same_domain(const char *a, const char *b)
{
	size_t n = strcspn(a, " ");

	return n == strcspn(b, " ") && !memcmp(a, b, n);
}

/* Return: 0 or -ENOMEM. @value is kept, or freed. */
static int peer_update(domid_t domid, char *value)
{
	struct xen_peer *p = peer_find(domid);

	if (p && !strcmp(p->value, value)) {
		kfree(value);
		return 0;
	}
	if (p && (!strncmp(value, "gone ", 5) ||
		  !same_domain(p->value, value))) {
		/* Ended; or its number belongs to another domain now. */
		peer_remove(p, true, true);
		p = NULL;
	}
	if (!strncmp(value, "gone ", 5)) {
		kfree(value);
		return 0;
	}
	if (!p) {
		p = peer_new(domid, value);
		if (!p) {
			kfree(value);
			return -ENOMEM;
		}
	}
	kfree(p->value);
	p->value = value;
	if (!peer_addresses(p, value))
		return 0;
	/* As if it had never been listed: it is, the next time. */
	peer_remove(p, false, true);
	return -ENOMEM;
}

/* What xwayd says of a domain: NULL if nothing, or an error. */
static char *peer_read(const char *name, unsigned int *domid)
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

/* Return: 0, or an error, and then it is to be read again. */
static int read_peers(void)
{
	struct xen_peer *p, *next;
	unsigned int i, n = 0, domid;
	int err = 0;
	char **dir, **values;

	dir = xenbus_directory(XBT_NIL, "xway", "peer", &n);
	if (IS_ERR(dir)) {
		/* Not listed at all, or no answer: only the first is news. */
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
	list_for_each_entry(p, &peers, node)
		p->listed = false;
	/* An address may have moved from one to the other: first take, then
	 * give.
	 */
	for (i = 0; i < n; i++) {
		values[i] = peer_read(dir[i], &domid);
		p = values[i] ? peer_find(domid) : NULL;
		if (IS_ERR(values[i])) {
			err = PTR_ERR(values[i]);
			values[i] = NULL;
		} else if (p && strcmp(p->value, values[i])) {
			xway_addr_del_link(p->link);
		}
		if (p)
			p->listed = true;
	}
	list_for_each_entry_safe(p, next, &peers, node)
		if (!p->listed)
			peer_remove(p, false, true);
	for (i = 0; i < n; i++)
		if (values[i] && !kstrtouint(dir[i], 10, &domid))
			err = peer_update(domid, values[i]) ?: err;
	kfree(values);
	kfree(dir);
	return err;
}

static int peer_try(struct xen_peer *p)
{
	char path[32], *text;
	unsigned int len;
	int err;

	if (p->lost)
		withdraw(p, p->lost == 2, false);
	if (!p->offered) {
		if (too_early(p))
			return p->err;
		err = offer(p);
		if (err)
			return err;
	}
	path_of(path, sizeof(path), "xway/link", p->domid);
	text = xenbus_read(XBT_NIL, path, "", &len);
	if (IS_ERR(text))
		return PTR_ERR(text) == -ENOENT ? 0 : PTR_ERR(text);
	err = take_offer(p, text);
	kfree(text);
	return err;
}

/* Return: jiffies after which it is to be tried again; MAX_JIFFY_OFFSET for never */
static unsigned long peer_sync(struct xen_peer *p)
{
	bool early = too_early(p);
	int err = peer_try(p);

	if (!err) {
		/* A bad offer that is taken back, and comes again, is no news. */
		if (READ_ONCE(p->link->state) != XWAY_LINK_WAITING) {
			p->err = 0;
			p->retry_in = 0;
		}
		return MAX_JIFFY_OFFSET;
	}
	if (err != p->err && err != -EBUSY && err != -EAGAIN)
		pr_warn_ratelimited("%s: no link: %d\n", p->link->name, err);
	if (!early) {
		p->retry_in = clamp_t(unsigned long, 2 * p->retry_in, RETRY,
				      err == -EBUSY ? RETRY_BUSY : RETRY_MAX);
		p->retry_at = jiffies + p->retry_in;
	}
	p->err = err;
	return max_t(long, p->retry_at - jiffies, 1);
}

static void sync_fn(struct work_struct *work)
{
	/* As for link_work() */
	unsigned int noio = memalloc_noio_save();
	unsigned long next = MAX_JIFFY_OFFSET;
	struct xen_peer *p;
	unsigned int domid;

	mutex_lock(&peers_lock);
	if (frozen || stopping)
		goto out;
	if (xchg(&relisted, false)) {
		int n = xenbus_scanf(XBT_NIL, "domid", "", "%u", &domid);

		if (n == 1)
			own_domid = domid;
		if ((n < 0 && n != -ENOENT) || read_peers()) {
			WRITE_ONCE(relisted, true);
			next = RETRY;
		}
	}
	list_for_each_entry(p, &peers, node)
		next = min(next, peer_sync(p));
	/* Not if it has been asked for meanwhile, and sooner */
	if (next != MAX_JIFFY_OFFSET)
		queue_delayed_work(xway_link_wq, &sync_work, next);
out:
	mutex_unlock(&peers_lock);
	memalloc_noio_restore(noio);
}

static void watch_fired(struct xenbus_watch *watch, const char *path,
			const char *token)
{
	/* A peer's offer can come as often as xwayd relays it. */
	if (!strstarts(path, "xway/link/"))
		WRITE_ONCE(relisted, true);
	sync_soon(0);
}

static struct xenbus_watch watch = {
	.node = "xway",
	.callback = watch_fired,
};

static bool watching;

/* ---- suspend ---- */

/*
 * Processes are frozen, XenStore's watches are dead, but work items and the
 * doorbell to a live peer work. All connections go back to TCP, and nothing of
 * a peer stays mapped: a mapping left behind corrupts the saved image. Thaw
 * and restore alike begin new lives, since neither says which one it is.
 */
static int xen_freeze(struct device *dev)
{
	unsigned int noio = memalloc_noio_save();
	struct xen_peer *p;

	WRITE_ONCE(frozen, true);
	cancel_delayed_work_sync(&sync_work);
	mutex_lock(&peers_lock);
	/* All at once: the toolstack does not wait for one after the other. */
	list_for_each_entry(p, &peers, node)
		xway_link_drain(p->link);
	synchronize_rcu();
	list_for_each_entry(p, &peers, node)
		xway_conn_drain(p->link);
	list_for_each_entry(p, &peers, node)
		withdraw(p, false, false);
	mutex_unlock(&peers_lock);
	memalloc_noio_restore(noio);
	return 0;
}

static int xen_thaw(struct device *dev)
{
	struct xen_peer *p, *next;

	mutex_lock(&peers_lock);
	list_for_each_entry_safe(p, next, &peers, node)
		peer_remove(p, true, false);
	mutex_unlock(&peers_lock);
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

static int store_ready(struct notifier_block *nb, unsigned long event,
		       void *data)
{
	int err = register_xenbus_watch(&watch);

	watching = !err;
	if (err)
		pr_err("cannot watch XenStore: %d\n", err);
	return NOTIFY_DONE;
}

static struct notifier_block store_nb = { .notifier_call = store_ready };

int __init xway_xen_init(void)
{
	int err;

	if (!xen_domain())
		return 0;
	/* Disks and network cards live off the same table. */
	xway_arena_limit(gnttab_max_grant_frames() * (PAGE_SIZE / 8) * 3 / 8);
	err = platform_driver_register(&driver);
	if (err)
		return err;
	device = platform_device_register_simple("xway", -1, NULL, 0);
	if (IS_ERR(device)) {
		platform_driver_unregister(&driver);
		return PTR_ERR(device);
	}
	register_xenstore_notifier(&store_nb);
	return 0;
}

void xway_xen_exit(void)
{
	struct xen_peer *p, *next;

	if (!xen_domain())
		return;
	unregister_xenstore_notifier(&store_nb);
	if (watching)
		unregister_xenbus_watch(&watch);
	WRITE_ONCE(stopping, true);
	cancel_delayed_work_sync(&sync_work);
	mutex_lock(&peers_lock);
	list_for_each_entry_safe(p, next, &peers, node)
		peer_remove(p, false, true);
	mutex_unlock(&peers_lock);
	platform_device_unregister(device);
	platform_driver_unregister(&driver);
	gnttab_free_pages(spares, spare);
}
