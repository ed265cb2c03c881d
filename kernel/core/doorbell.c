// SPDX-License-Identifier: GPL-2.0
/*
 * The doorbell: a ring of channel numbers in the arena of the domain that posts.
 *
 * A channel is posted again only after the peer has taken its last post. So an idle
 * reader costs one slot and one event, however much arrives. (Fido, USENIX ATC 2009,
 * section 3.3.2, likewise signals again only after the last signal was picked up.)
 * When the ring is full, the sender counts an overflow instead of posting, and the
 * peer looks at all channels. doc/models/doorbell.pml is a model of this.
 *
 * A peer can post without end, and without an event, by writing to its own memory. So a
 * run of the tasklet takes a limited number of posts. A look at a channel that finds
 * nothing new is *idle*. After a number of idle looks the doorbell rests for some
 * milliseconds. Honest peers cause few: they post what they have changed.
 */
#include <linux/jiffies.h>
#include <linux/minmax.h>

#include "link.h"
#include "ring.h"
#include "stats.h"

/* Posts that are copied at a time */
#define BATCH 64

/* Looks of one run: posts, and channels after an overflow */
#define BUDGET (8 * BATCH)

/* After so many idle looks within REST the doorbell rests for REST, in jiffies: 4 ms or
 * more, since the first jiffy may be nearly over. doc/design/trust.md says what a peer
 * can take by that.
 */
#define IDLE_MAX (4 * BUDGET)
#define REST (max(HZ / 250, 1) + 1)

/* A beat is new if the last one is so old, in jiffies: see heartbeat.c */
#define BEAT_MIN (HZ / 4)

/**
 * xway_doorbell_post() - make the peer look at a channel
 * @link: the link
 * @chan: the peer's number of the channel, or XWAY_POST_CTL
 * @last: private to this function: own bell_prod after the channel's last post
 *
 * The caller has stored what the peer is to find, and has made a full barrier: see
 * doorbell_take().
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

/* @chan: what is in the table of channels; a value is a tombstone, see chan.c
 * Return: true if the client has found something new.
 */
static bool dispatch_chan(struct xway_chan *chan)
{
	return chan && !xa_is_value(chan) && chan->client->event(chan);
}

/*
 * The peer has posted the control bell. Without a new message, and without room for what
 * waits for it, it is a beat, which changes nothing; an honest peer sends one or two a second.
 */
static bool dispatch_ctl(struct link *link, const struct xway_header *peer)
{
	struct doorbell *bell = &link->bell;
	u32 prod = READ_ONCE(peer->ctl_prod);

	/* It counts once for each time that the work item sends some. */
	if (prod == bell->ctl_seen && xway_ctl_has_room(link))
		return queue_work(xway_core_wq, &link->work);
	if (prod == bell->ctl_seen && time_before(jiffies, bell->beat_at + BEAT_MIN))
		return false;
	if (prod == bell->ctl_seen)
		bell->beat_at = jiffies;
	bell->ctl_seen = prod;
	queue_work(xway_core_wq, &link->work);
	return true;
}

static bool dispatch(struct link *link, const struct xway_header *peer, u32 nr)
{
	if (nr == XWAY_POST_CTL)
		return dispatch_ctl(link, peer);
	return dispatch_chan(xa_load(&link->chans, nr));
}

/*
 * The peer may have had no slot for a post: look at all channels, as far as the budget
 * goes, and in the next run at those that are left. A scan is judged as a whole, since
 * most channels may be idle: after one that has found nothing the doorbell may rest. A
 * jiffy has one scan at most, since little makes the peer have us look at all channels.
 *
 * Return: true if there is nothing left to look at.
 */
static bool doorbell_scan(struct link *link, const struct xway_header *peer, u32 *budget)
{
	struct doorbell *bell = &link->bell;
	struct xway_chan *chan;
	unsigned long nr;
	u32 n;

	if (!bell->scanning) {
		/* Overflow before the channels: pairs with xway_doorbell_post(), whose
		 * caller has stored what the peer is to find.
		 */
		n = virt_load_acquire(&peer->bell_overflow);
		if (n == bell->overflow_seen)
			return true;
		/* The scan may find something, and no event waits for it. */
		bell->news = true;
		if (bell->scanned && time_after_eq(bell->scanned_at, jiffies)) {
			queue_delayed_work(xway_core_wq, &bell->later, 1);
			return true;
		}
		/* One that is counted from here on is for the next scan. */
		bell->overflow_seen = n;
		bell->scanning = true;
		bell->scan = 0;
		bell->scan_looks = 0;
		bell->scan_found = false;
		queue_work(xway_core_wq, &link->work);
	}
	xa_for_each_start(&link->chans, nr, chan, bell->scan) {
		if (!*budget) {
			bell->scan = nr;
			return false;
		}
		--*budget;
		bell->scan_looks++;
		bell->scan_found |= dispatch_chan(chan);
	}
	bell->scanning = false;
	bell->scanned = true;
	bell->scanned_at = jiffies;
	bell->vain = bell->scan_found ? 0 : bell->scan_looks;
	return true;
}

/* Take the peer's posts. Return: true if some may be left when the budget is used up. */
static bool doorbell_take(struct link *link, const struct xway_header *peer, u32 *budget,
			  u32 *idle)
{
	struct xway_header *own = link->arena.hdr;
	struct doorbell *bell = &link->bell;
	const u32 *posts = link->import.bell;
	u32 ids[BATCH], prod, n, i;
	bool taken;

	do {
		taken = false;
		/* Posts after count: pairs with xway_doorbell_post() at the peer. */
		while ((prod = virt_load_acquire(&peer->bell_prod)) !=
		       bell->cons) {
			if (prod - bell->cons > XWAY_DOORBELL_SLOTS) {
				xway_link_broken(link);
				return false;
			}
			n = min3(prod - bell->cons, (u32)BATCH, *budget);
			if (!n)
				return true;
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
			for (i = 0; i < n; i++) {
				if (dispatch(link, peer, ids[i]))
					bell->news = true;
				else
					++*idle;
			}
			*budget -= n;
			taken = true;
		}
		if (!doorbell_scan(link, peer, budget))
			return true;
		xway_ring_arm(&own->bell_event, bell->cons + 1);
		if (READ_ONCE(peer->bell_prod) == bell->cons)
			return false;
		/* An index that goes to and fro must not keep this loop running. */
		*idle += !taken;
	} while (*budget && --*budget);
	return true;
}

/* Count idle looks. Return: true if the doorbell is to rest. */
static bool doorbell_tired(struct doorbell *bell, u32 idle)
{
	if (time_after_eq(jiffies, bell->idle_since + REST)) {
		bell->idle_since = jiffies;
		bell->idle = 0;
	}
	bell->idle += idle;
	return bell->idle >= IDLE_MAX;
}

/* Tasklet: take the peer's posts and call the clients of the channels. */
static void doorbell_run(struct tasklet_struct *t)
{
	struct link *link = from_tasklet(link, t, bell.task);
	struct doorbell *bell = &link->bell;
	u32 budget = BUDGET, idle = 0;
	const struct xway_header *peer;
	enum xway_link_state state;
	bool more = false;

	/* No further event comes before @seen is called, and doorbell_later() runs this. */
	if (READ_ONCE(bell->resting))
		return;
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
	if (state == XWAY_LINK_CONNECTING)
		queue_work(xway_core_wq, &link->work);
	xway_core_count(EVENTS_RECEIVED);
	more = doorbell_take(link, peer, &budget, &idle);
	if (READ_ONCE(peer->state) == XWAY_ARENA_CLOSING)
		queue_work(xway_core_wq, &link->work);
	if (doorbell_tired(bell, idle) || bell->vain >= IDLE_MAX) {
		/* A vain scan of many channels has taken longer. */
		unsigned long rest = REST * max(1u, bell->vain / IDLE_MAX);

		bell->idle = 0;
		bell->vain = 0;
		WRITE_ONCE(bell->resting, true);
		mod_delayed_work(xway_core_wq, &bell->later, rest);
		more = true;
	} else if (more) {
		tasklet_schedule(&bell->task);
	}
out:
	rcu_read_unlock();
	if (more)
		return;
	link->tp->seen(link, !bell->news);
	bell->news = false;
}

/* The doorbell has rested, or may scan again. */
static void doorbell_later(struct work_struct *work)
{
	struct doorbell *bell = container_of(to_delayed_work(work), struct doorbell, later);

	WRITE_ONCE(bell->resting, false);
	tasklet_schedule(&bell->task);
}

/* Initialize a new link. Context: any. */
void xway_doorbell_setup(struct link *link)
{
	spin_lock_init(&link->bell.lock);
	tasklet_setup(&link->bell.task, doorbell_run);
	INIT_DELAYED_WORK(&link->bell.later, doorbell_later);
}

/**
 * xway_doorbell_stop() - let the tasklet end for good
 * @link: the link, whose state is DEAD, or which is down
 *
 * The tasklet may be scheduled again, but finds the state and queues nothing.
 *
 * Context: process, may sleep.
 */
void xway_doorbell_stop(struct link *link)
{
	tasklet_kill(&link->bell.task);
	cancel_delayed_work_sync(&link->bell.later);
	tasklet_kill(&link->bell.task);
}

/* Initialize a new session. Context: link's lock held, state WAITING. */
void xway_doorbell_reset(struct link *link)
{
	struct doorbell *bell = &link->bell;

	bell->prod = 0;
	bell->cons = 0;
	bell->ctl_seen = 0;
	bell->beat_at = jiffies - BEAT_MIN;
	bell->overflow_seen = 0;
	bell->scanning = false;
	bell->scanned = false;
	bell->vain = 0;
	bell->news = false;
	bell->idle = 0;
	bell->idle_since = jiffies;
	WRITE_ONCE(bell->resting, false);
}
