// SPDX-License-Identifier: GPL-2.0
/*
 * Links: their life. What joins two domains begins and ends again and again;
 * each time is a session.
 */
#include <linux/delay.h>
#include <linux/export.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "link.h"
#include "reclaim.h"
#include "stats.h"
#include "trace.h"

/* Jiffies after which a peer that has not answered is looked at again */
#define ANSWER (HZ / 2)

/* Jiffies that clients have to end their channels when a session ends */
#define DRAIN (5 * HZ)

/* Jiffies for what is under way when the peer has ended the session */
#define CLOSED HZ

LIST_HEAD(xway_links);
DEFINE_MUTEX(xway_links_lock);	/* the list above, and the clients */
struct workqueue_struct *xway_link_wq;
EXPORT_SYMBOL_GPL(xway_link_wq);

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

/* A peer that breaks the protocol of the link loses the link. */
void xway_link_broken(struct link *link)
{
	if (!READ_ONCE(link->broken)) {
		WRITE_ONCE(link->broken, true);
		core_count(VIOLATIONS);
		queue_work(xway_link_wq, &link->work);
	}
}

static void link_work(struct work_struct *work)
{
	struct link *link = container_of(work, struct link, work);
	/* Clients wait for this lock, and reclaim may wait for them. */
	unsigned int noio = memalloc_noio_save();
	bool closing;

	mutex_lock(&link->pub.lock);
	/* A peer that began a new session instead of answering tells nobody. */
	if (link->pub.state == XWAY_LINK_CONNECTING && !xway_link_check_up(link))
		queue_delayed_work(xway_link_wq, &link->ctl.flush, ANSWER);
	xway_ctl_flush(link);
	if (link->pub.state == XWAY_LINK_UP || link->pub.state == XWAY_LINK_CLOSING)
		xway_ctl_run(link);
	closing = (link->pub.state == XWAY_LINK_UP ||
		   link->pub.state == XWAY_LINK_CONNECTING) &&
		  (link->broken || READ_ONCE(link->import.hdr->state) ==
				   XWAY_ARENA_CLOSING);
	mutex_unlock(&link->pub.lock);
	/* An orderly peer closes only after its channels have ended. */
	if (closing)
		link->lost(link);
	memalloc_noio_restore(noio);
}

/**
 * xway_link_create() - a link to a peer that has not answered yet
 * @tp: its transport
 * @tp_data: the transport's own
 * @lost: see struct link
 * @name: what users see
 * @peer_id: what names the peer, also when another link to it has another name
 *
 * Return: the link with one reference, or NULL.
 */
struct link *xway_link_create(const struct xway_transport *tp, void *tp_data,
			 void (*lost)(struct link *link), const char *name,
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
	link->lost = lost;
	strscpy(link->pub.name, name, sizeof(link->pub.name));
	mutex_init(&link->pub.lock);
	xa_init(&link->import.maps);
	xa_init_flags(&link->chans, XA_FLAGS_ALLOC);
	INIT_WORK(&link->work, link_work);
	xway_ctl_setup(link);
	xway_doorbell_setup(link);
	xway_reclaim_setup(link);
	mutex_lock(&xway_links_lock);
	list_add_tail(&link->node, &xway_links);
	xway_client_add_link(link);
	mutex_unlock(&xway_links_lock);
	return link;
}

/* The last reference is gone. Context: any but hard interrupt. */
void xway_link_free(struct xway_link *pub)
{
	struct link *link = to_link(pub);

	xa_destroy(&link->chans);
	xway_peer_put(pub->peer);
	kvfree_rcu(link, rcu);
}
EXPORT_SYMBOL_GPL(xway_link_free);

/**
 * xway_link_prepare() - make an arena with a new nonce, to be offered
 * @link: a link without one
 *
 * Return: 0; -EBUSY while the peer still maps pages of an earlier session; else as
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
	link->told_up = 0;
	xway_doorbell_reset(link);
	xway_ctl_reset(link);
	memset(link->words_page, 0, sizeof(link->words_page));
	memset(link->words_used, 0, sizeof(link->words_used));
	return xway_arena_create(link);
}

/**
 * xway_link_map() - the peer has offered its arena: map it
 * @link: a prepared link
 * @ref: grant reference, or the like, of the peer's first page
 * @nonce: of the peer's arena
 *
 * The link is up when the peer has said in its header that it maps this side's
 * arena of this nonce.
 *
 * Return: 0; -EAGAIN if the offer is an old one; or as xway_import_open().
 */
int xway_link_map(struct link *link, u32 ref, u64 nonce)
{
	u64 told;
	int err;

	lockdep_assert_held(&link->pub.lock);
	err = xway_import_open(link, ref, nonce);
	if (err)
		return err;
	/* The offer may be of a session that ends: mapped, it could not end. */
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
	/* Own state before the look at the peer's: pairs with this very line
	 * there, and one of the two sees the other UP.
	 */
	virt_mb();
	/* The import is whole: pairs with doorbell_run(). */
	smp_store_release(&link->pub.state, XWAY_LINK_CONNECTING);
	link->tp->notify(link);
	if (!xway_link_check_up(link))
		queue_delayed_work(xway_link_wq, &link->ctl.flush, ANSWER);
	return 0;
}

/**
 * xway_link_check_up() - has the peer mapped this side's arena?
 * @link: a link, its lock held
 *
 * Return: true if the link has come up by that.
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
	core_count(LINKS_UP);
	trace_xway_link(link->pub.name, "up");
	xway_client_up(link);
	tasklet_schedule(&link->bell.task);
	return true;
}

/**
 * xway_link_drain() - no new channels: this session is to end
 * @link: the link
 *
 * The first part of xway_link_down(), so that several links can end at once. Those
 * who saw the link up are known to their clients after a grace period.
 */
void xway_link_drain(struct link *link)
{
	mutex_lock(&link->pub.lock);
	if (link->arena.hdr && link->pub.state != XWAY_LINK_DEAD &&
	    link->pub.state != XWAY_LINK_CLOSING) {
		link->was_up = link->pub.state == XWAY_LINK_UP;
		link->drain_by = jiffies + DRAIN;
		/* There may be no import: pairs with doorbell_run(). */
		smp_store_release(&link->pub.state, XWAY_LINK_CLOSING);
	}
	mutex_unlock(&link->pub.lock);
}

/* Wait, as long as the session may, until its channels have ended. */
static bool link_drained(struct link *link, bool dead)
{
	unsigned long until = link->drain_by;
	bool closing = false;
	u32 left, queued;

	for (;;) {
		mutex_lock(&link->pub.lock);
		left = link->pub.n_chans;
		queued = link->ctl.queued;
		/* It has ended its own and takes no message any more. */
		if (!closing && link->import.hdr &&
		    READ_ONCE(link->import.hdr->state) == XWAY_ARENA_CLOSING) {
			closing = true;
			if (time_before(jiffies + CLOSED, until))
				until = jiffies + CLOSED;
		}
		mutex_unlock(&link->pub.lock);
		if ((!left && !queued) || dead || time_after(jiffies, until))
			return !left;
		usleep_range(5000, 10000);
	}
}

/**
 * xway_link_down() - end this session
 * @link: the link
 * @dead: the peer is gone or is not to be talked to: do not wait for it
 *
 * Order: no new channels (state), channels end, no more softirq, no more
 * readers (RCU), unmap, withdraw. May sleep for seconds.
 */
void xway_link_down(struct link *link, bool dead)
{
	xway_link_drain(link);
	if (READ_ONCE(link->pub.state) != XWAY_LINK_CLOSING)
		return;
	synchronize_rcu();
	if (!dead)
		xway_client_drain(link);
	if (!link_drained(link, dead) || dead)
		xway_client_abort(link);

	mutex_lock(&link->pub.lock);
	WRITE_ONCE(link->pub.state, XWAY_LINK_DEAD);
	/* The last words before it: pairs with link_work() at the peer, which
	 * sees it under its lock and ends the link after letting go of that.
	 */
	virt_store_release(&link->arena.hdr->state, XWAY_ARENA_CLOSING);
	/* Before the event: pairs with doorbell_run(), which looks once it came. */
	virt_mb();
	if (link->import.hdr)
		link->tp->notify(link);
	xway_ctl_forget(link);
	mutex_unlock(&link->pub.lock);

	cancel_delayed_work_sync(&link->ctl.flush);
	cancel_delayed_work_sync(&link->reclaim);
	tasklet_kill(&link->bell.task);
	/* One that found this session lost must not end the next. */
	cancel_work_sync(&link->work);
	synchronize_rcu();

	mutex_lock(&link->pub.lock);
	xway_import_close(link);
	xway_arena_destroy(link);
	mutex_unlock(&link->pub.lock);
	if (link->was_up)
		core_count(LINKS_DOWN);
	trace_xway_link(link->pub.name, dead ? "dead" : "down");
}

/**
 * xway_link_destroy() - forget a link that is down
 * @link: the link; the caller's reference is dropped
 */
void xway_link_destroy(struct link *link)
{
	mutex_lock(&xway_links_lock);
	list_del(&link->node);
	xway_client_del_link(link);
	mutex_unlock(&xway_links_lock);
	/* The other end may have notified since this one went down. */
	tasklet_kill(&link->bell.task);
	cancel_work_sync(&link->work);
	xway_link_put(&link->pub);
}

int __init xway_link_init(void)
{
	xway_link_wq = alloc_workqueue("xway_link",
				       WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return xway_link_wq ? 0 : -ENOMEM;
}

void xway_link_exit(void)
{
	destroy_workqueue(xway_link_wq);
}
