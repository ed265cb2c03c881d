// SPDX-License-Identifier: GPL-2.0
/*
 * A link: one per pair of domains. Doorbell, control messages, channel table.
 *
 * The doorbell is a ring of channel numbers in the ringer's arena. A channel
 * is posted again only after its last post was taken, so an idle reader costs
 * one slot and one event however much arrives. When the ring is full the
 * ringer counts an overflow instead, and the other side looks at all channels.
 */
#include <linux/nospec.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "handshake.h"
#include "conn.h"
#include "link.h"
#include "stats.h"
#include "trace.h"
#include "reclaim.h"

#define BELL_BATCH 64

/* Jiffies after which a peer that has not answered is looked at again */
#define ANSWER (HZ / 2)

/* Jiffies that connections have to go back to TCP when a link ends */
#define DRAIN (5 * HZ)

/* Messages that find no slot: for each channel of the peer an answer, and for
 * each of ours a CLOSE and, its number being free again, an OPEN; TRIM, TRIMMED.
 */
#define CTL_QUEUE_MAX (3 * XWAY_CHANS_MAX + 2)

LIST_HEAD(xway_links);
DEFINE_MUTEX(xway_links_lock);	/* the list above */
struct workqueue_struct *xway_link_wq;

struct ctl_item {
	struct list_head node;
	struct xway_ctl msg;
};

const char *xway_link_state_name(const struct xway_link *link)
{
	switch (READ_ONCE(link->state)) {
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
static void link_broken(struct xway_link *link)
{
	if (!READ_ONCE(link->broken)) {
		WRITE_ONCE(link->broken, true);
		xway_count(VIOLATIONS);
		queue_work(xway_link_wq, &link->work);
	}
}

/**
 * xway_link_bell() - make the peer look at a channel
 * @link: the link
 * @chan: the peer's number of the channel, or XWAY_BELL_CTL
 * @last: where this channel was last posted, for this function alone
 *
 * Context: any but hard interrupt; caller is in an RCU read-side section or
 * holds the link's mutex.
 */
void xway_link_bell(struct xway_link *link, u32 chan, u32 *last)
{
	const struct xway_header *peer;
	struct xway_header *own;
	u32 cons, old;
	bool ring;

	spin_lock_bh(&link->bell_lock);
	peer = READ_ONCE(link->import.hdr);
	own = READ_ONCE(link->arena.hdr);
	if (!peer || !own || READ_ONCE(link->state) == XWAY_LINK_DEAD)
		goto out;
	cons = READ_ONCE(peer->bell_cons);
	old = link->bell_prod;
	if (*last - cons - 1 < old - cons) {
		/* Not taken yet: the peer will look after it takes the post. */
		xway_count(DOORBELL_POSTS_SAVED);
		goto out;
	}
	xway_count(DOORBELL_POSTS);
	if (old - cons >= XWAY_BELLS) {
		WRITE_ONCE(own->bell_overflow, own->bell_overflow + 1);
		ring = true;
	} else {
		WRITE_ONCE(link->arena.bell[old % XWAY_BELLS], chan);
		*last = link->bell_prod = old + 1;
		ring = xway_ring_publish(&own->bell_prod, old + 1, old,
					 &peer->bell_event);
	}
	if (ring) {
		xway_count(EVENTS_SENT);
		link->tp->notify(link);
	}
out:
	spin_unlock_bh(&link->bell_lock);
}

static void bell_dispatch(struct xway_link *link, u32 chan)
{
	struct xway_conn *conn;

	if (chan == XWAY_BELL_CTL) {
		queue_work(xway_link_wq, &link->work);
		return;
	}
	conn = xa_load(&link->chans, chan);
	if (conn)
		xway_conn_event(conn);
}

/* Softirq: take the peer's posts and look at the channels they name. */
static void bell_run(struct tasklet_struct *t)
{
	struct xway_link *link = from_tasklet(link, t, bell_task);
	const struct xway_header *peer;
	struct xway_header *own;
	const u32 *posts;
	u32 ids[BELL_BATCH], prod, n, i, budget = 8 * BELL_BATCH;
	enum xway_link_state state;
	bool scanned = false;
	bool idle = true;

	rcu_read_lock();
	/* An event can come before the view is whole: the state says it is.
	 * Pairs with xway_link_map().
	 */
	state = smp_load_acquire(&link->state);
	if (state == XWAY_LINK_WAITING || state == XWAY_LINK_DEAD ||
	    READ_ONCE(link->broken))
		goto out;
	peer = link->import.hdr;
	/* It may end before the peer has begun. */
	if (!peer)
		goto out;
	own = link->arena.hdr;
	posts = link->import.bell;
	if (state == XWAY_LINK_CONNECTING)
		queue_work(xway_link_wq, &link->work);
	xway_count(EVENTS_RECEIVED);
	do {
		/* Posts after their count: pairs with xway_link_bell(). */
		while ((prod = virt_load_acquire(&peer->bell_prod)) !=
		       link->bell_cons) {
			if (prod - link->bell_cons > XWAY_BELLS) {
				link_broken(link);
				goto out;
			}
			idle = false;
			n = min_t(u32, prod - link->bell_cons, BELL_BATCH);
			for (i = 0; i < n; i++) {
				u32 at = link->bell_cons + i;

				ids[i] = READ_ONCE(posts[at % XWAY_BELLS]);
			}
			link->bell_cons += n;
			/* Copied before a slot is used again: pairs with the
			 * test of bell_cons in xway_link_bell().
			 */
			virt_store_release(&own->bell_cons, link->bell_cons);
			/* Look at the channels only after the posts are free,
			 * or a ringer could think that its post is still due:
			 * pairs with the barrier that each ringer makes before
			 * xway_link_bell() looks at bell_cons.
			 */
			virt_mb();
			for (i = 0; i < n; i++)
				bell_dispatch(link, ids[i]);
			if (budget <= n) {
				tasklet_schedule(&link->bell_task);
				goto out;
			}
			budget -= n;
		}
		n = READ_ONCE(peer->bell_overflow);
		if (n != link->bell_overflow_seen && !scanned) {
			struct xway_conn *conn;
			unsigned long id;

			link->bell_overflow_seen = n;
			scanned = true;
			idle = false;
			xa_for_each(&link->chans, id, conn)
				xway_conn_event(conn);
			queue_work(xway_link_wq, &link->work);
		}
		xway_ring_arm(&own->bell_event, link->bell_cons + 1);
	} while (READ_ONCE(peer->bell_prod) != link->bell_cons);
	if (READ_ONCE(peer->state) == XWAY_ARENA_CLOSING)
		queue_work(xway_link_wq, &link->work);
out:
	rcu_read_unlock();
	link->tp->seen(link, idle);
}

static bool ctl_put(struct xway_link *link, const struct xway_ctl *msg)
{
	struct xway_header *own = link->arena.hdr;
	struct xway_ctl *slots = xway_arena_addr(link, XWAY_PAGE_CTL);

	if (link->ctl_prod - READ_ONCE(link->import.hdr->ctl_cons) >= XWAY_CTLS)
		return false;
	slots[link->ctl_prod % XWAY_CTLS] = *msg;
	/* The message before its count: pairs with ctl_run() at the peer. */
	virt_store_release(&own->ctl_prod, ++link->ctl_prod);
	return true;
}

static void ctl_flush(struct xway_link *link)
{
	struct ctl_item *item, *next;
	/* The control ring must be seen now: a post in the ring may be old. */
	u32 last = link->bell_prod - XWAY_BELLS - 1;
	bool put = false;

	lockdep_assert_held(&link->lock);
	list_for_each_entry_safe(item, next, &link->ctl_queue, node) {
		if (!link->import.hdr || !ctl_put(link, &item->msg))
			break;
		list_del(&item->node);
		kfree(item);
		link->ctl_queued--;
		put = true;
	}
	if (put)
		xway_link_bell(link, XWAY_BELL_CTL, &last);
	if (!list_empty(&link->ctl_queue) && link->import.hdr)
		queue_delayed_work(xway_link_wq, &link->flush, 1);
}

static void flush_work_fn(struct work_struct *work)
{
	struct xway_link *link = container_of(to_delayed_work(work),
					      struct xway_link, flush);
	/* Connections wait for this lock, and reclaim may wait for them. */
	unsigned int noio = memalloc_noio_save();

	mutex_lock(&link->lock);
	ctl_flush(link);
	if (link->state == XWAY_LINK_CONNECTING)
		queue_work(xway_link_wq, &link->work);
	mutex_unlock(&link->lock);
	memalloc_noio_restore(noio);
}

/**
 * xway_link_ctl_send() - send a control message
 * @link: the link, its mutex held
 * @msg: the message, copied
 *
 * Messages arrive in order. One that finds the ring full waits in a queue; a
 * peer that asks and asks, and takes no answer, loses the link.
 */
void xway_link_ctl_send(struct xway_link *link, const struct xway_ctl *msg)
{
	struct ctl_item *item;

	lockdep_assert_held(&link->lock);
	if (!link->import.hdr)
		return;
	if (link->ctl_queued >= CTL_QUEUE_MAX) {
		link_broken(link);
		return;
	}
	link->ctl_queued++;
	item = kmalloc(sizeof(*item), GFP_KERNEL | __GFP_NOFAIL);
	item->msg = *msg;
	list_add_tail(&item->node, &link->ctl_queue);
	ctl_flush(link);
}

static void ctl_run(struct xway_link *link)
{
	struct xway_ctl msg;
	u32 prod;

	lockdep_assert_held(&link->lock);
	if (!link->import.hdr || !link->import.ctl)
		return;
	/* Messages after their count: pairs with ctl_put() at the peer. */
	prod = virt_load_acquire(&link->import.hdr->ctl_prod);
	if (prod - link->ctl_cons > XWAY_CTLS) {
		link_broken(link);
		return;
	}
	/* Also while our own messages find no room: were both sides to wait for
	 * the other to take first, neither ever would.
	 */
	while (link->ctl_cons != prod && !READ_ONCE(link->broken)) {
		/* Copied once; what is checked is what is used. */
		memcpy(&msg, &link->import.ctl[link->ctl_cons % XWAY_CTLS],
		       sizeof(msg));
		barrier();
		link->ctl_cons++;
		/* Copied before the slot is used again: pairs with the test of
		 * ctl_cons in ctl_put() at the peer.
		 */
		virt_store_release(&link->arena.hdr->ctl_cons, link->ctl_cons);
		if (!xway_handshake_ctl(link, &msg)) {
			link_broken(link);
			return;
		}
	}
}

static void link_work(struct work_struct *work)
{
	struct xway_link *link = container_of(work, struct xway_link, work);
	unsigned int noio = memalloc_noio_save();	/* as above */
	bool closing;

	mutex_lock(&link->lock);
	/* One that began a new life instead of answering tells nobody. */
	if (link->state == XWAY_LINK_CONNECTING && !xway_link_check_up(link))
		queue_delayed_work(xway_link_wq, &link->flush, ANSWER);
	ctl_flush(link);
	if (link->state == XWAY_LINK_UP || link->state == XWAY_LINK_CLOSING)
		ctl_run(link);
	closing = (link->state == XWAY_LINK_UP ||
		   link->state == XWAY_LINK_CONNECTING) &&
		  (link->broken || READ_ONCE(link->import.hdr->state) ==
				   XWAY_ARENA_CLOSING);
	mutex_unlock(&link->lock);
	/* An orderly peer closes only after its connections have returned. */
	if (closing)
		link->tp->lost(link);
	memalloc_noio_restore(noio);
}

/**
 * xway_link_chan_add() - give a connection a number and a place to show words
 * @link: the link, its mutex held
 * @conn: the connection; its id and own pointer are set
 *
 * Return: 0, -ENOSPC or -ENOMEM.
 */
int xway_link_chan_add(struct xway_link *link, struct xway_conn *conn)
{
	u32 id, page, slot;
	int err;

	lockdep_assert_held(&link->lock);
	err = xa_alloc_cyclic(&link->chans, &id, NULL,
			      XA_LIMIT(0, XWAY_CHANS_MAX - 1),
			      &link->next_chan, GFP_KERNEL);
	/* Low numbers first keep the pages few. */
	link->next_chan = 0;
	if (err < 0)
		return err == -EBUSY ? -ENOSPC : err;
	page = id / XWAY_CHANS_PER_PAGE;
	slot = id % XWAY_CHANS_PER_PAGE;
	if (!link->shm_page[page]) {
		err = xway_arena_alloc(link, 1, &link->shm_page[page]);
		if (err) {
			link->shm_page[page] = 0;
			xa_erase(&link->chans, id);
			return err;
		}
	}
	link->shm_chans[page]++;
	conn->id = id;
	conn->own = (struct xway_words *)
		xway_arena_addr(link, link->shm_page[page]) + slot;
	memset(conn->own, 0, sizeof(*conn->own));
	conn->own->want_data = 1;
	conn->shm_page = link->shm_page[page];
	conn->shm_slot = slot;
	xway_conn_get(conn);
	xa_store(&link->chans, id, conn, GFP_KERNEL);
	WRITE_ONCE(link->n_chans, link->n_chans + 1);
	return 0;
}

void xway_link_chan_del(struct xway_link *link, struct xway_conn *conn)
{
	u32 page = conn->id / XWAY_CHANS_PER_PAGE;

	lockdep_assert_held(&link->lock);
	if (!--link->shm_chans[page]) {
		xway_arena_free(link, link->shm_page[page], 1);
		link->shm_page[page] = 0;
	}
	xa_erase(&link->chans, conn->id);
	WRITE_ONCE(link->n_chans, link->n_chans - 1);
	conn->own = NULL;
	xway_conn_put(conn);
}

/**
 * xway_link_create() - a link to a peer that has not answered yet
 * @tp: its transport
 * @tp_data: the transport's own
 * @name: what users see
 * @id: what names the peer, also when another link to it has another name
 *
 * Return: the link with one reference, or NULL.
 */
struct xway_link *xway_link_create(const struct xway_transport *tp,
				   void *tp_data, const char *name,
				   const char *id)
{
	struct xway_link *link = kvzalloc(sizeof(*link), GFP_KERNEL);

	if (!link)
		return NULL;
	link->peer = xway_peer_get(id);
	if (!link->peer) {
		kvfree(link);
		return NULL;
	}
	refcount_set(&link->ref, 1);
	link->tp = tp;
	link->tp_data = tp_data;
	strscpy(link->name, name, sizeof(link->name));
	mutex_init(&link->lock);
	spin_lock_init(&link->bell_lock);
	spin_lock_init(&link->fill.lock);
	link->fill.window = U32_MAX;
	xa_init(&link->import.maps);
	xa_init_flags(&link->chans, XA_FLAGS_ALLOC);
	INIT_LIST_HEAD(&link->ctl_queue);
	INIT_WORK(&link->work, link_work);
	INIT_DELAYED_WORK(&link->flush, flush_work_fn);
	xway_reclaim_setup(link);
	tasklet_setup(&link->bell_task, bell_run);
	mutex_lock(&xway_links_lock);
	list_add_tail(&link->node, &xway_links);
	mutex_unlock(&xway_links_lock);
	return link;
}

void xway_link_free(struct xway_link *link)
{
	xa_destroy(&link->chans);
	xway_peer_put(link->peer);
	kvfree_rcu(link, rcu);
}

/**
 * xway_link_prepare() - make an arena with a new nonce, to be offered
 * @link: a link without one
 *
 * Return: 0; -EBUSY while the peer still maps pages of an earlier life; else as
 * xway_arena_create().
 */
int xway_link_prepare(struct xway_link *link)
{
	lockdep_assert_held(&link->lock);
	if (link->arena.hdr)
		return 0;
	if (atomic_read(&link->peer->unrevoked))
		return -EBUSY;
	link->nonce = get_random_u64();
	link->state = XWAY_LINK_WAITING;
	link->broken = false;
	link->bell_prod = 0;
	link->bell_cons = 0;
	link->bell_overflow_seen = 0;
	link->ctl_prod = 0;
	link->ctl_cons = 0;
	memset(link->shm_page, 0, sizeof(link->shm_page));
	memset(link->shm_chans, 0, sizeof(link->shm_chans));
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
int xway_link_map(struct xway_link *link, u32 ref, u64 nonce)
{
	u64 told;
	int err;

	lockdep_assert_held(&link->lock);
	err = xway_import_open(link, ref, nonce);
	if (err)
		return err;
	/* The offer may be of a life that ends: mapped, it could not end. */
	told = READ_ONCE(link->import.hdr->peer_nonce);
	if ((told && told != link->nonce) ||
	    READ_ONCE(link->import.hdr->state) == XWAY_ARENA_CLOSING) {
		xway_import_close(link);
		return -EAGAIN;
	}
	link->peer_nonce = nonce;
	WRITE_ONCE(link->arena.hdr->peer_nonce, nonce);
	/* Nonce before state: pairs with xway_link_check_up() at the peer. */
	virt_store_release(&link->arena.hdr->state, XWAY_ARENA_UP);
	/* Own state before the look at the peer's: pairs with this very line
	 * there, and one of the two sees the other UP.
	 */
	virt_mb();
	/* The view is whole: pairs with bell_run(). */
	smp_store_release(&link->state, XWAY_LINK_CONNECTING);
	link->tp->notify(link);
	if (!xway_link_check_up(link))
		queue_delayed_work(xway_link_wq, &link->flush, ANSWER);
	return 0;
}

bool xway_link_check_up(struct xway_link *link)
{
	const struct xway_header *peer = link->import.hdr;

	lockdep_assert_held(&link->lock);
	if (link->state != XWAY_LINK_CONNECTING)
		return false;
	/* Nonce after state: pairs with xway_link_map() at the peer. */
	if (virt_load_acquire(&peer->state) != XWAY_ARENA_UP ||
	    READ_ONCE(peer->peer_nonce) != link->nonce)
		return false;
	WRITE_ONCE(link->state, XWAY_LINK_UP);
	xway_count(LINKS_UP);
	trace_xway_link(link->name, "up");
	tasklet_schedule(&link->bell_task);
	return true;
}

/**
 * xway_link_drain() - no new channels: this life of a link is to end
 * @link: the link
 *
 * The first part of xway_link_down(), so that several links can end at once.
 * After a grace period who saw it up has put its connection into the list.
 */
void xway_link_drain(struct xway_link *link)
{
	mutex_lock(&link->lock);
	if (link->arena.hdr && link->state != XWAY_LINK_DEAD &&
	    link->state != XWAY_LINK_CLOSING) {
		link->was_up = link->state == XWAY_LINK_UP;
		link->drain_by = jiffies + DRAIN;
		/* There may be no view: pairs with bell_run(). */
		smp_store_release(&link->state, XWAY_LINK_CLOSING);
	}
	mutex_unlock(&link->lock);
}

/**
 * xway_link_down() - end this life of a link
 * @link: the link
 * @dead: the peer is gone or is not to be talked to: do not wait for it
 *
 * Order: no new channels (state), connections off the rings, no more softirq,
 * no more readers (RCU), unmap, withdraw. May sleep for seconds.
 */
void xway_link_down(struct xway_link *link, bool dead)
{
	struct ctl_item *item, *next;

	xway_link_drain(link);
	if (READ_ONCE(link->state) != XWAY_LINK_CLOSING)
		return;
	synchronize_rcu();
	if (!dead)
		xway_conn_drain(link);
	xway_conn_leave(link, dead);

	mutex_lock(&link->lock);
	WRITE_ONCE(link->state, XWAY_LINK_DEAD);
	/* The last words before it: pairs with link_work() at the peer, which
	 * sees it under its lock and ends the link after letting go of that.
	 */
	virt_store_release(&link->arena.hdr->state, XWAY_ARENA_CLOSING);
	/* Before the event: pairs with bell_run(), which looks once it came. */
	virt_mb();
	if (link->import.hdr)
		link->tp->notify(link);
	link->ctl_queued = 0;
	list_for_each_entry_safe(item, next, &link->ctl_queue, node) {
		list_del(&item->node);
		kfree(item);
	}
	mutex_unlock(&link->lock);

	cancel_delayed_work_sync(&link->flush);
	cancel_delayed_work_sync(&link->reclaim);
	tasklet_kill(&link->bell_task);
	/* One that found this life lost must not end the next. */
	cancel_work_sync(&link->work);
	synchronize_rcu();

	mutex_lock(&link->lock);
	xway_import_close(link);
	xway_arena_destroy(link);
	mutex_unlock(&link->lock);
	if (link->was_up)
		xway_count(LINKS_DOWN);
	trace_xway_link(link->name, dead ? "dead" : "down");
}

/**
 * xway_link_destroy() - forget a link that is down
 * @link: the link; the caller's reference is dropped
 */
void xway_link_destroy(struct xway_link *link)
{
	mutex_lock(&xway_links_lock);
	list_del(&link->node);
	mutex_unlock(&xway_links_lock);
	/* The other end may have notified since this one went down. */
	tasklet_kill(&link->bell_task);
	cancel_work_sync(&link->work);
	xway_link_put(link);
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
