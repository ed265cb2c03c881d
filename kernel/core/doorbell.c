// SPDX-License-Identifier: GPL-2.0
/*
 * The doorbell: a ring of channel numbers in the arena of the domain that posts.
 *
 * A channel is posted again only after the peer has taken its last post. So an idle
 * reader costs one slot and one event, however much arrives. (Fido, USENIX ATC 2009,
 * section 3.3.2, likewise signals again only after the last signal was picked up.)
 * When the ring is full, the sender counts an overflow instead of posting, and the
 * peer looks at all channels.
 */
#include "link.h"
#include "ring.h"
#include "stats.h"

/* Posts that are copied at a time */
#define BATCH 64

/**
 * xway_doorbell_post() - make the peer look at a channel
 * @link: the link
 * @chan: the peer's number of the channel, or XWAY_POST_CTL
 * @last: private to this function: own bell_prod after the channel's last post
 *
 * The caller has stored what the peer is to find, and has made a full barrier: see
 * doorbell_run().
 *
 * Context: any but hard interrupt; link's lock held, or as xway_chan_post().
 */
void xway_doorbell_post(struct link *link, u32 chan, u32 *last)
{
	struct doorbell *bell = &link->bell;
	const struct xway_header *peer;
	struct xway_header *own;
	u32 cons, old;
	bool ring;

	spin_lock_bh(&bell->lock);
	peer = READ_ONCE(link->import.hdr);
	own = READ_ONCE(link->arena.hdr);
	if (!peer || !own || READ_ONCE(link->pub.state) == XWAY_LINK_DEAD)
		goto out;
	cons = READ_ONCE(peer->bell_cons);
	old = bell->prod;
	if (*last - cons - 1 < old - cons) {
		/* The last post is not taken yet: the peer looks after it takes it. */
		xway_core_count(DOORBELL_POSTS_SAVED);
		goto out;
	}
	xway_core_count(DOORBELL_POSTS);
	if (old - cons >= XWAY_DOORBELL_SLOTS) {
		WRITE_ONCE(own->bell_overflow, own->bell_overflow + 1);
		ring = true;
	} else {
		WRITE_ONCE(link->arena.bell[old % XWAY_DOORBELL_SLOTS], chan);
		*last = bell->prod = old + 1;
		ring = xway_ring_publish(&own->bell_prod, old + 1, old,
					 &peer->bell_event);
	}
	if (ring) {
		xway_core_count(EVENTS_SENT);
		link->tp->notify(link);
	}
out:
	spin_unlock_bh(&bell->lock);
}

void xway_chan_post(struct xway_chan *chan)
{
	/* Under a lock of the client's nobody clears @peer. */
	lockdep_assert(rcu_read_lock_any_held() || lockdep_is_held(&chan->link->lock) ||
		       rcu_access_pointer(chan->peer));
	xway_doorbell_post(to_link(chan->link), chan->peer_id, &chan->last_post);
}
EXPORT_SYMBOL_GPL(xway_chan_post);

/* @chan: what is in the table of channels; a value is a tombstone, see chan.c */
static void dispatch_chan(struct xway_chan *chan)
{
	if (chan && !xa_is_value(chan))
		chan->client->event(chan);
}

static void dispatch(struct link *link, u32 nr)
{
	if (nr == XWAY_POST_CTL)
		queue_work(xway_core_wq, &link->work);
	else
		dispatch_chan(xa_load(&link->chans, nr));
}

static void dispatch_all(struct link *link)
{
	struct xway_chan *chan;
	unsigned long nr;

	xa_for_each(&link->chans, nr, chan)
		dispatch_chan(chan);
	queue_work(xway_core_wq, &link->work);
}

/* Tasklet: take the peer's posts and call the clients of the channels. */
static void doorbell_run(struct tasklet_struct *t)
{
	struct link *link = from_tasklet(link, t, bell.task);
	struct doorbell *bell = &link->bell;
	const struct xway_header *peer;
	struct xway_header *own;
	const u32 *posts;
	u32 ids[BATCH], prod, n, i, budget = 8 * BATCH;
	enum xway_link_state state;
	bool scanned = false;
	bool idle = true;

	rcu_read_lock();
	/* An event can come before the import is whole; the state tells. Pairs
	 * with xway_link_map() and xway_link_drain().
	 */
	state = smp_load_acquire(&link->pub.state);
	if (state == XWAY_LINK_WAITING || state == XWAY_LINK_DEAD ||
	    READ_ONCE(link->broken))
		goto out;
	peer = link->import.hdr;
	/* The session may end before the peer's arena was mapped. */
	if (!peer)
		goto out;
	own = link->arena.hdr;
	posts = link->import.bell;
	if (state == XWAY_LINK_CONNECTING)
		queue_work(xway_core_wq, &link->work);
	xway_core_count(EVENTS_RECEIVED);
	do {
		/* Posts after count: pairs with xway_doorbell_post() at the peer. */
		while ((prod = virt_load_acquire(&peer->bell_prod)) !=
		       bell->cons) {
			if (prod - bell->cons > XWAY_DOORBELL_SLOTS) {
				xway_link_broken(link);
				goto out;
			}
			idle = false;
			n = min_t(u32, prod - bell->cons, BATCH);
			for (i = 0; i < n; i++) {
				u32 at = bell->cons + i;

				ids[i] = READ_ONCE(posts[at % XWAY_DOORBELL_SLOTS]);
			}
			bell->cons += n;
			/* Copy before bell_cons frees the slots: pairs with the
			 * load of bell_cons in xway_doorbell_post() at the peer.
			 */
			virt_store_release(&own->bell_cons, bell->cons);
			/* bell_cons before the look at the channels. Otherwise
			 * the peer could load the old bell_cons after the look,
			 * and not post because its last post seems not taken.
			 * Pairs with the full barrier that each caller of
			 * xway_doorbell_post() at the peer has made.
			 */
			virt_mb();
			for (i = 0; i < n; i++)
				dispatch(link, ids[i]);
			if (budget <= n) {
				tasklet_schedule(&bell->task);
				goto out;
			}
			budget -= n;
		}
		n = READ_ONCE(peer->bell_overflow);
		if (n != bell->overflow_seen && !scanned) {
			bell->overflow_seen = n;
			scanned = true;
			idle = false;
			dispatch_all(link);
		}
		xway_ring_arm(&own->bell_event, bell->cons + 1);
	} while (READ_ONCE(peer->bell_prod) != bell->cons);
	if (READ_ONCE(peer->state) == XWAY_ARENA_CLOSING)
		queue_work(xway_core_wq, &link->work);
out:
	rcu_read_unlock();
	link->tp->seen(link, idle);
}

/* Initialize a new link. Context: any. */
void xway_doorbell_setup(struct link *link)
{
	spin_lock_init(&link->bell.lock);
	tasklet_setup(&link->bell.task, doorbell_run);
}

/* Initialize a new session. Context: link's lock held, state WAITING. */
void xway_doorbell_reset(struct link *link)
{
	link->bell.prod = 0;
	link->bell.cons = 0;
	link->bell.overflow_seen = 0;
}
