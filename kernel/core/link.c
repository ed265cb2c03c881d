// SPDX-License-Identifier: GPL-2.0
/*
 * Links and their sessions: create; then for each session prepare, map, up, drain and
 * down; destroy.
 */
#include <linux/export.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "heartbeat.h"
#include "link.h"
#include "reclaim.h"
#include "stats.h"
#include "trace.h"

/* Interval of looks at a peer that has not answered yet, in jiffies */
#define ANSWER (HZ / 2)

/* Time for clients to end their channels when a session ends, in jiffies */
#define DRAIN (5 * HZ)

/* Time that is left to clients once the peer says CLOSING, in jiffies */
#define CLOSED HZ

/* Interval of looks whether the peer says so, in jiffies */
#define DRAIN_POLL (HZ / 100)

LIST_HEAD(xway_links);

/* The list, and the table of clients. Under it clients hear of links, and take a link's
 * lock and mutexes of their own. It is taken under the locks of membership only: see
 * doc/locking.md.
 */
DEFINE_MUTEX(xway_links_lock);
struct workqueue_struct *xway_core_wq;
EXPORT_SYMBOL_GPL(xway_core_wq);

/**
 * xway_link_state_name() - the state of a link, for users
 * @link: the link
 *
 * Context: any.
 * Return: a name of XWAY_A_PEER_STATE.
 */
const char *xway_link_state_name(const struct link *link)
{
	switch (READ_ONCE(link->pub.state)) {
	case XWAY_LINK_WAITING:
		return "waiting";
	case XWAY_LINK_CONNECTING:
		return "connecting";
	case XWAY_LINK_UP:
		return "up";
	default:
		return "closing";
	}
}

/**
 * xway_link_broken() - the peer has broken a rule of the link: end the session
 * @link: the link
 *
 * Context: any.
 */
void xway_link_broken(struct link *link)
{
	if (!READ_ONCE(link->broken)) {
		WRITE_ONCE(link->broken, true);
		xway_core_count(VIOLATIONS);
		queue_work(xway_core_wq, &link->work);
	}
}

/* Has the peer ended its channels, and takes no messages any more? It may unsay it. */
static void see_closing(struct link *link)
{
	if (link->peer_closing || !link->import.hdr ||
	    READ_ONCE(link->import.hdr->state) != XWAY_ARENA_CLOSING)
		return;
	link->peer_closing = true;
	if (link->pub.state == XWAY_LINK_CLOSING && time_before(jiffies + CLOSED, link->drain_by))
		link->drain_by = jiffies + CLOSED;
}

static void link_work(struct work_struct *work)
{
	struct link *link = container_of(work, struct link, work);
	/* I/O that an allocation waits for may need this lock: see core.h. */
	unsigned int noio = memalloc_noio_save();
	bool closing = false;

	mutex_lock(&link->pub.lock);
	/* Look again: a peer that begins a new session instead sends no event. */
	if (link->pub.state == XWAY_LINK_CONNECTING && !xway_link_check_up(link))
		queue_delayed_work(xway_core_wq, &link->ctl.flush, ANSWER);
	xway_ctl_flush(link);
	if (link->pub.state == XWAY_LINK_UP || link->pub.state == XWAY_LINK_CLOSING)
		xway_ctl_run(link);
	if (link->pub.state == XWAY_LINK_UP || link->pub.state == XWAY_LINK_CONNECTING) {
		/* An honest peer says CLOSING only after its channels have ended. */
		see_closing(link);
		closing = link->peer_closing || link->broken || link->gone || link->late;
	}
	mutex_unlock(&link->pub.lock);
	if (closing)
		link->session_lost(link);
	memalloc_noio_restore(noio);
}

/**
 * xway_link_create() - create a link, and tell the clients of it
 * @tp: the transport
 * @tp_data: private to the transport
 * @session_lost: see struct link
 * @name: name of the link, for users
 * @peer_id: id of the peer, see struct xway_peer
 *
 * Context: process; takes xway_links_lock.
 * Return: the link, with a reference for the caller; NULL if there is no memory.
 */
struct link *xway_link_create(const struct xway_transport *tp, void *tp_data,
			      void (*session_lost)(struct link *link), const char *name,
			 const char *peer_id)
{
	struct link *link = kvzalloc(sizeof(*link), GFP_KERNEL);

	if (!link)
		return NULL;
	link->pub.peer = xway_peer_get(peer_id);
	if (!link->pub.peer) {
		kvfree(link);
		return NULL;
	}
	refcount_set(&link->pub.ref, 1);
	link->tp = tp;
	link->tp_data = tp_data;
	link->session_lost = session_lost;
	strscpy(link->pub.name, name, sizeof(link->pub.name));
	mutex_init(&link->pub.lock);
	INIT_LIST_HEAD(&link->ending);
	xa_init(&link->import.maps);
	xa_init_flags(&link->chans, XA_FLAGS_ALLOC);
	init_waitqueue_head(&link->drained);
	INIT_WORK(&link->work, link_work);
	xway_ctl_setup(link);
	xway_doorbell_setup(link);
	xway_reclaim_setup(link);
	mutex_lock(&xway_links_lock);
	might_lock(&link->pub.lock);	/* tells lockdep the order, with no client too */
	list_add_tail(&link->node, &xway_links);
	xway_client_add_link(link);
	mutex_unlock(&xway_links_lock);
	return link;
}

u32 xway_link_version(const struct xway_link *link)
{
	return READ_ONCE(to_link(link)->version);
}
EXPORT_SYMBOL_GPL(xway_link_version);

void xway_link_free(struct xway_link *pub)
{
	struct link *link = to_link(pub);
	int i;

	xa_destroy(&link->chans);
	for (i = 0; i < XWAY_SERVICES; i++)
		kfree(link->policy[i]);
	xway_peer_put(pub->peer);
	kvfree_rcu(link, rcu);
}
EXPORT_SYMBOL_GPL(xway_link_free);

/**
 * xway_link_prepare() - begin a session: make an arena with a new nonce
 * @link: the link; nothing happens if it has an arena
 *
 * Context: process, link's lock held.
 * Return: 0; -EBUSY while the peer has unrevoked pages; or an errno of
 * xway_arena_create().
 */
int xway_link_prepare(struct link *link)
{
	lockdep_assert_held(&link->pub.lock);
	if (link->arena.hdr)
		return 0;
	if (atomic_read(&link->pub.peer->unrevoked))
		return -EBUSY;
	link->pub.nonce = get_random_u64();
	link->pub.state = XWAY_LINK_WAITING;
	link->broken = false;
	link->gone = false;
	link->late = false;
	link->awake = 0;
	link->peer_closing = false;
	link->told_up = 0;
	xway_doorbell_reset(link);
	xway_ctl_reset(link);
	xway_heartbeat_reset(link);
	memset(link->words_page, 0, sizeof(link->words_page));
	memset(link->words_used, 0, sizeof(link->words_used));
	return xway_arena_create(link);
}

/**
 * xway_link_map() - map the arena that the peer has offered
 * @link: a prepared link
 * @ref: the transport's reference of the peer's header page
 * @nonce: nonce of the peer's arena
 *
 * The link comes up once the peer's header says that the peer has mapped our arena:
 * see xway_link_check_up().
 *
 * Context: process, link's lock held.
 * Return: 0; -EAGAIN if the offer is of an old session; or an errno of
 * xway_import_open().
 */
int xway_link_map(struct link *link, u32 ref, u64 nonce)
{
	u64 told;
	int err;

	lockdep_assert_held(&link->pub.lock);
	err = xway_import_open(link, ref, nonce);
	if (err)
		return err;
	/* The peer may be ending the session of this offer. It could not revoke
	 * its arena if we mapped it now.
	 */
	told = READ_ONCE(link->import.hdr->peer_nonce);
	if ((told && told != link->pub.nonce) ||
	    READ_ONCE(link->import.hdr->state) == XWAY_ARENA_CLOSING) {
		xway_import_close(link);
		return -EAGAIN;
	}
	link->pub.peer_nonce = nonce;
	WRITE_ONCE(link->arena.hdr->peer_nonce, nonce);
	/* Nonce before state: pairs with xway_link_check_up() at the peer. */
	virt_store_release(&link->arena.hdr->state, XWAY_ARENA_UP);
	/* Own state before the load of the peer's in xway_link_check_up(): pairs
	 * with this barrier at the peer. At least one end sees the other UP.
	 */
	virt_mb();
	/* The whole import before the state: pairs with doorbell_run(). */
	smp_store_release(&link->pub.state, XWAY_LINK_CONNECTING);
	link->tp->notify(link);
	if (!xway_link_check_up(link))
		queue_delayed_work(xway_core_wq, &link->ctl.flush, ANSWER);
	return 0;
}

/**
 * xway_link_check_up() - has the peer mapped our arena?
 * @link: the link
 *
 * Context: process, link's lock held.
 * Return: true if this call has brought the link up.
 */
bool xway_link_check_up(struct link *link)
{
	const struct xway_header *peer = link->import.hdr;

	lockdep_assert_held(&link->pub.lock);
	if (link->pub.state != XWAY_LINK_CONNECTING)
		return false;
	/* Nonce after state: pairs with xway_link_map() at the peer. */
	if (virt_load_acquire(&peer->state) != XWAY_ARENA_UP ||
	    READ_ONCE(peer->peer_nonce) != link->pub.nonce)
		return false;
	WRITE_ONCE(link->pub.state, XWAY_LINK_UP);
	xway_core_count(LINKS_UP);
	trace_xway_link(link->pub.name, "up");
	xway_client_up(link);
	tasklet_schedule(&link->bell.task);
	return true;
}

/**
 * xway_link_drain() - begin to end a session: no channel may open any more
 * @link: the link
 *
 * This is the first step of xway_link_down(), so that several links can end at once.
 * The caller waits for a grace period before xway_client_drain(): see
 * xway_link_is_up().
 *
 * Context: process; takes the link's lock.
 */
void xway_link_drain(struct link *link)
{
	mutex_lock(&link->pub.lock);
	if (link->arena.hdr && link->pub.state != XWAY_LINK_DEAD &&
	    link->pub.state != XWAY_LINK_CLOSING) {
		link->was_up = link->pub.state == XWAY_LINK_UP;
		link->drain_by = jiffies + (link->peer_closing ? CLOSED : DRAIN);
		link->told = false;
		/* There may be no import yet: pairs with doorbell_run(), which
		 * tests for it after the state.
		 */
		smp_store_release(&link->pub.state, XWAY_LINK_CLOSING);
	}
	mutex_unlock(&link->pub.lock);
}

/* Tell the clients, once: with a thousand channels each time takes a while. */
static void tell_clients(struct link *link)
{
	if (!link->told)
		xway_client_drain(link);
	link->told = true;
}

/**
 * xway_links_drain() - begin to end several sessions
 * @ending: the links, by their @ending; the list is empty afterwards
 *
 * The caller ends each with xway_link_down(). All of them have the same few seconds to
 * drain, however many peers hang.
 *
 * Context: process; takes the links' locks one after another, may sleep.
 */
void xway_links_drain(struct list_head *ending)
{
	struct link *link, *next;

	if (list_empty(ending))
		return;
	list_for_each_entry(link, ending, ending)
		xway_link_drain(link);
	/* Expedited here and in what follows: before a save and after it the whole domain
	 * stands still meanwhile.
	 */
	synchronize_rcu_expedited();
	list_for_each_entry_safe(link, next, ending, ending) {
		if (READ_ONCE(link->pub.state) == XWAY_LINK_CLOSING)
			tell_clients(link);
		list_del_init(&link->ending);
	}
}

/*
 * Is a session that ends done with its channels and messages, or is its time over?
 * @left: set to whether a channel is left
 */
static bool drain_over(struct link *link, bool dead, bool *left)
{
	bool over;

	mutex_lock(&link->pub.lock);
	see_closing(link);
	*left = link->pub.n_chans;
	over = dead || READ_ONCE(link->broken) || READ_ONCE(link->gone) ||
	       (!*left && !link->ctl.queued) || time_after(jiffies, link->drain_by);
	mutex_unlock(&link->pub.lock);
	return over;
}

/*
 * Wait until channels have ended and messages are sent, at most until drain_by, and
 * not at all for a dead peer. Return: true if no channel is left.
 */
static bool link_drained(struct link *link, bool dead)
{
	bool left;

	while (!drain_over(link, dead, &left))
		wait_event_timeout(link->drained, !READ_ONCE(link->pub.n_chans) &&
				   !READ_ONCE(link->ctl.queued), DRAIN_POLL);
	return !left;
}

/**
 * xway_link_down() - end a session
 * @link: the link; nothing happens if it has no session
 * @dead: the peer is gone, or has broken the rules: do not wait for it
 *
 * Order: no channel may open (state); channels end; no tasklet and no work item runs;
 * no reader is left (RCU); unmap the peer's pages; revoke the own ones.
 *
 * Context: process; takes xway_links_lock, and the link's lock; may sleep for seconds, or
 * longer where a program keeps a socket's lock (doc/locking.md).
 * Return: true if the peer has broken the rules, or kept channels.
 */
bool xway_link_down(struct link *link, bool dead)
{
	bool rude;

	xway_link_drain(link);
	if (READ_ONCE(link->pub.state) != XWAY_LINK_CLOSING)
		return false;
	synchronize_rcu_expedited();
	if (!dead)
		tell_clients(link);
	rude = !link_drained(link, dead);
	if (rude || dead)
		xway_client_abort(link, dead || xway_link_gone(&link->pub));
	rude = READ_ONCE(link->broken) || (rude && !dead);
	/* A client that is being unregistered was not called. It ends its channels
	 * while this lock is held: see xway_client_unregister().
	 */
	mutex_lock(&xway_links_lock);
	mutex_unlock(&xway_links_lock);

	mutex_lock(&link->pub.lock);
	WRITE_ONCE(link->pub.state, XWAY_LINK_DEAD);
	/* The channels' last words before CLOSING: pairs with link_work() at the
	 * peer, which ends the session only after it has released its lock.
	 */
	virt_store_release(&link->arena.hdr->state, XWAY_ARENA_CLOSING);
	/* CLOSING before the event: doorbell_run() at the peer then loads it. */
	virt_mb();
	if (link->import.hdr)
		link->tp->notify(link);
	xway_ctl_forget(link);
	mutex_unlock(&link->pub.lock);

	cancel_delayed_work_sync(&link->ctl.flush);
	cancel_delayed_work_sync(&link->reclaim);
	xway_doorbell_stop(link);
	/* A work item that found this session lost must not end the next one. */
	cancel_work_sync(&link->work);
	synchronize_rcu_expedited();

	mutex_lock(&link->pub.lock);
	xway_chan_forget(link);
	xway_import_close(link);
	xway_arena_destroy(link);
	mutex_unlock(&link->pub.lock);
	if (link->was_up)
		xway_core_count(LINKS_DOWN);
	trace_xway_link(link->pub.name, dead ? "dead" : "down");
	return rude;
}

/**
 * xway_link_destroy() - forget a link that is down, and tell the clients
 * @link: the link; the caller's reference is dropped
 *
 * Context: process; takes xway_links_lock.
 */
void xway_link_destroy(struct link *link)
{
	mutex_lock(&xway_links_lock);
	list_del(&link->node);
	xway_client_del_link(link);
	mutex_unlock(&xway_links_lock);
	/* An event may have come since xway_link_down(). */
	xway_doorbell_stop(link);
	cancel_work_sync(&link->work);
	xway_link_put(&link->pub);
}

/* Return: 0 or -ENOMEM. */
int __init xway_link_init(void)
{
	xway_core_wq = alloc_workqueue("xway_link",
				       WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return xway_core_wq ? 0 : -ENOMEM;
}

/* No link is left. */
void xway_link_exit(void)
{
	destroy_workqueue(xway_core_wq);
}
