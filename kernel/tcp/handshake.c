// SPDX-License-Identifier: GPL-2.0
/*
 * Handshake: how two ends agree on a channel, and how they close it.
 *
 * The passive end sends OPEN, because only then is the active end established
 * for certain. The active end answers ACCEPT or DECLINE. Each end may use its
 * own ring once the other has set XWAY_WORDS_OPEN.
 *
 * Each end sends CLOSE: a promise not to touch the other's half again, as the
 * flag in Figure 11 of the paper (XWAY, VEE 2008). It destroys its own half when
 * it has received the other's CLOSE, or when the socket is gone. What the other
 * end still reads is then the core's.
 */
#include <linux/llist.h>
#include <linux/nospec.h>
#include <linux/slab.h>

#include "client.h"
#include "conn.h"
#include "handshake.h"
#include "evict.h"
#include "ringsize.h"
#include "adopt.h"
#include "attach.h"
#include "timeout.h"

#define REFUSED_MAX 3

static int half_try(struct xway_conn *conn, u32 pages)
{
	void **ring = kcalloc(pages, sizeof(*ring), GFP_KERNEL);
	int err;

	if (!ring)
		return -ENOMEM;
	err = xway_chan_create(&conn->chan, pages, ring);
	if (err) {
		kfree(ring);
		return err;
	}
	/* The core's reference, until half_free(). */
	xway_conn_get(conn);
	conn->tx.pages = ring;
	return 0;
}

/*
 * Make our half: words, and a ring of at most @most pages. The link's lock is
 * held.
 */
static int half_make(struct xway_conn *conn, u32 most)
{
	struct xway_link *link = conn->chan.link;
	u32 pages, least = min(xway_ringsize_min(), most);
	int err;

	lockdep_assert_held(&link->lock);
	kfree(conn->tx.pages);	/* left by a channel that was declined */
	conn->tx.pages = NULL;
	for (pages = min(xway_ringsize_next(link), most); pages > least; pages /= 2)
		if (xway_link_has_room(link, pages, xway_ringsize_keep(pages)) &&
		    !half_try(conn, pages))
			break;
	if (pages <= least) {
		pages = least;
		err = half_try(conn, pages);
		if (err)
			return err;
	}
	xway_own(conn)->want_data = 1;
	conn->tx.size = pages * PAGE_SIZE;
	conn->tx.window = conn->tx.size;
	xway_ringsize_settle(conn);
	return 0;
}

/* Give up our half. If the peer may still touch it, the core keeps it. */
static void half_free(struct xway_conn *conn)
{
	xway_chan_destroy(&conn->chan);
	xway_conn_put(conn);
}

/* Map the peer's half. xway_chan_described() has checked @msg. */
static int half_map(struct xway_conn *conn, const struct xway_ctl *msg)
{
	void **ring;
	int err = -ENOSPC;

	if (!xway_rx_charge(conn, msg->ring_pages))
		return err;
	err = -ENOMEM;
	ring = kcalloc(msg->ring_pages, sizeof(*ring), GFP_KERNEL);
	if (!ring)
		goto err_charge;
	conn->rx.pages = ring;
	conn->rx.size = msg->ring_pages * PAGE_SIZE;
	/* Reading needs what is set above: xway_chan_map() sets chan.peer last. */
	err = xway_chan_map(&conn->chan, msg, ring);
	if (!err)
		return 0;
err_charge:
	xway_rx_free(conn);
	return err;
}

static void describe(struct xway_conn *conn, union xway_sock_ctl *msg)
{
	const struct xway_tuple *t = &conn->tuple;

	xway_chan_describe(&conn->chan, &msg->ctl);
	msg->family = t->family;
	msg->sport = t->sport;
	msg->dport = t->dport;
	memcpy(msg->saddr, t->saddr, sizeof(msg->saddr));
	memcpy(msg->daddr, t->daddr, sizeof(msg->daddr));
	msg->mac = xway_conn_mac(conn, conn->active);
}

/**
 * xway_words_flag() - set flags in the own words and tell the peer
 * @conn: connection with a channel; the caller sees @peer of it by RCU or holds
 *	the link's lock
 * @flag: XWAY_WORDS_*, one or more
 *
 * A full barrier separates the flags from what the caller looks at next.
 *
 * Context: any but hard interrupt.
 */
void xway_words_flag(struct xway_conn *conn, u32 flag)
{
	u32 was;

	spin_lock_bh(&conn->lock);
	was = xway_own(conn)->flags;
	WRITE_ONCE(xway_own(conn)->flags, was | flag);
	spin_unlock_bh(&conn->lock);
	/* The flags before what is looked at next:
	 * - by xway_chan_post() below, whether the last post was taken: pairs with
	 *   doorbell_take() at the peer;
	 * - by rx_leave(), the peer's prod: pairs with xway_tx_publish() there;
	 * - by conn_do_fallback(), the peer's gen: pairs with xway_tx_to_ring() there.
	 */
	virt_mb();
	if (!(was & flag))
		xway_chan_post(&conn->chan);
}

/*
 * Let the peer use its ring. If the socket has ended meanwhile, there is no
 * reader.
 */
static void flag_open(struct xway_conn *conn)
{
	u32 flags = XWAY_WORDS_OPEN;

	/* chan.peer before the flags: pairs with rx_refuse() */
	smp_mb();
	if (READ_ONCE(conn->flags) &
	    (BIT(XWAY_F_CLOSED) | BIT(XWAY_F_SHUT) | BIT(XWAY_F_DETACHED)))
		flags |= XWAY_WORDS_NO_READER;
	xway_words_flag(conn, flags);
}

/*
 * Begin to make a channel, which sleeps. From here on a fallback waits for the
 * channel's end before it detaches the socket: whoever sets XWAY_F_FALLBACK or
 * XWAY_F_DETACHED and then looks at the state sees it, or the flag is seen
 * here.
 * Return: false if it is too late for a channel.
 */
static bool begin(struct xway_conn *conn)
{
	if (conn->state != XWAY_CONN_TCP)
		return false;
	spin_lock_bh(&conn->lock);
	if (conn->sk && xway_conn_seems_taken(conn, conn->sk))
		xway_conn_fallback(conn, XWAY_R_KERNEL);
	spin_unlock_bh(&conn->lock);
	WRITE_ONCE(conn->state, XWAY_CONN_OPENING);
	/* Pairs with the atomic bit operations of xway_conn_fallback(),
	 * xway_conn_park() and xway_conn_detached()
	 */
	smp_mb();
	if (!(READ_ONCE(conn->flags) & (BIT(XWAY_F_FALLBACK) | BIT(XWAY_F_DETACHED) |
					BIT(XWAY_F_BAD))))
		return true;
	WRITE_ONCE(conn->state, XWAY_CONN_TCP);
	xway_conn_queue(conn);
	return false;
}

/* Why there is no channel now, but may be one later; or XWAY_R_NONE */
static enum xway_reason scarce(int err)
{
	return err == -ENOSPC ? XWAY_R_LIMIT :
	       err == -ENOMEM ? XWAY_R_MEMORY : XWAY_R_NONE;
}

/* This end or the peer has, or may have, no room for a ring of that size. */
static void refuse(struct xway_conn *conn)
{
	WRITE_ONCE(conn->refused, min(conn->refused + 1, REFUSED_MAX));
}

/* There is no channel, or not now. A fallback that has waited for it goes on. */
static void half_failed(struct xway_conn *conn, int err)
{
	WRITE_ONCE(conn->state, XWAY_CONN_TCP);
	if (scarce(err) != XWAY_R_NONE) {
		refuse(conn);
		xway_evict_postpone(conn, scarce(err));
	}
	xway_conn_queue(conn);
}

/*
 * The largest ring to ask for. A peer with less memory than this end declines what it
 * cannot map, without saying how much it could. So it is asked for less: a sixteenth,
 * then a quarter of that.
 */
static u32 most_pages(const struct xway_conn *conn)
{
	u8 n = READ_ONCE(conn->refused);

	return max(XWAY_RING_PAGES_MAX >> (n > 1 ? 2 * n : 0), xway_ringsize_min());
}

/**
 * xway_handshake_open() - ask the peer for a channel
 * @conn: connection whose passive end this is
 *
 * Context: the helper; may sleep.
 */
void xway_handshake_open(struct xway_conn *conn)
{
	struct xway_link *link = conn->chan.link;
	union xway_sock_ctl msg = { .ctl.type = XWAY_CTL_OPEN };
	int err = 0;

	mutex_lock(&link->lock);
	if (link->state != XWAY_LINK_UP) {
		/* Its end has the connection leave the link. */
		xway_evict_postpone(conn, XWAY_R_NONE);
	} else if (begin(conn)) {
		err = half_make(conn, most_pages(conn));
		if (err) {
			half_failed(conn, err);
		} else {
			describe(conn, &msg);
			xway_ctl_send(&xway_sockets, link, &msg.ctl);
		}
	}
	mutex_unlock(&link->lock);
	if (err && scarce(err) == XWAY_R_NONE)
		xway_conn_fallback(conn, XWAY_R_MEMORY);
}

static void ctl_reply(struct xway_link *link, u32 type, u32 chan, u32 arg)
{
	struct xway_ctl msg = { .type = type, .chan = chan, .arg = arg };

	xway_ctl_send(&xway_sockets, link, &msg);
}

/* Is the channel ending in a way that lets another one follow? */
static bool another_may_follow(struct xway_conn *conn)
{
	const struct xway_words *peer;
	bool ret;

	if (READ_ONCE(conn->flags) & (BIT(XWAY_F_PARK) | BIT(XWAY_F_GOT_CLOSE)))
		return true;
	/* Sockets were turned off and on: it is adopted once it has fallen back. */
	if (READ_ONCE(conn->reason) == XWAY_R_OFF)
		return true;
	rcu_read_lock();
	peer = rcu_dereference(conn->chan.peer);
	ret = peer && (READ_ONCE(peer->flags) & XWAY_WORDS_PARK);
	rcu_read_unlock();
	return ret;
}

/* Active end: the peer asks for a channel. */
static void ctl_open(struct xway_link *link, const union xway_sock_ctl *msg)
{
	union xway_sock_ctl answer = { .ctl.type = XWAY_CTL_ACCEPT,
				       .ctl.chan = msg->ctl.from };
	struct xway_conn *conn;
	struct xway_tuple t = {
		.family = msg->family,
		.sport = msg->sport,
		.dport = msg->dport,
	};
	u32 why;
	int err;

	memcpy(t.saddr, msg->saddr, sizeof(t.saddr));
	memcpy(t.daddr, msg->daddr, sizeof(t.daddr));
	conn = xway_conn_find(link, &t, msg->mac, &why);
	if (!conn) {
		if (why == XWAY_DECLINE_UNKNOWN)
			xway_adopt_missed();
		goto decline;
	}
	/* One channel at a time */
	if (test_bit(XWAY_F_ASKED, &conn->flags)) {
		why = another_may_follow(conn) ? XWAY_DECLINE_LATER : XWAY_DECLINE_OFF;
		goto put;
	}
	why = XWAY_DECLINE_LATER;
	if (xway_adopt_unsettled(conn))
		goto put;
	if (xway_evict_too_early(conn))
		goto put;
	why = XWAY_DECLINE_OFF;
	set_bit(XWAY_F_ASKED, &conn->flags);
	if (!begin(conn)) {
		if (another_may_follow(conn))
			why = XWAY_DECLINE_LATER;
		goto put;
	}
	/* No larger than the peer's ring, which is what the peer has room for. */
	err = xway_chan_described(&msg->ctl) ?
		      half_make(conn, msg->ctl.ring_pages) : -EPROTO;
	if (!err) {
		err = half_map(conn, &msg->ctl);
		if (err)
			half_free(conn);
	}
	if (err) {
		half_failed(conn, err);
		why = scarce(err) != XWAY_R_NONE ? XWAY_DECLINE_LATER :
						   XWAY_DECLINE_OFF;
		goto put;
	}
	xway_evict_begin(conn);
	flag_open(conn);
	WRITE_ONCE(conn->state, XWAY_CONN_OPEN);
	xway_timeout_begin();
	WRITE_ONCE(conn->tx.usable, !test_bit(XWAY_F_FALLBACK, &conn->flags));
	xway_count(CHANNELS);
	describe(conn, &answer);
	xway_ctl_send(&xway_sockets, link, &answer.ctl);
	/* A fallback that was asked for meanwhile must see the channel: the state before the
	 * flags, as in begin().
	 */
	smp_mb();
	if (test_bit(XWAY_F_FALLBACK, &conn->flags) ||
	    test_bit(XWAY_F_DETACHED, &conn->flags))
		xway_conn_queue(conn);
	xway_conn_put(conn);
	return;

put:
	xway_conn_put(conn);
decline:
	ctl_reply(link, XWAY_CTL_DECLINE, msg->ctl.from, why);
}

/*
 * The peer's ring is more than this end may map and keep, or there is no memory:
 * both ends park for a while.
 */
static void accept_later(struct xway_conn *conn, enum xway_reason why)
{
	if (xway_conn_park(conn, why) && why == XWAY_R_LIMIT)
		xway_evict_wish(conn->tl);
	if (test_bit(XWAY_F_PARK, &conn->flags))
		xway_words_flag(conn, XWAY_WORDS_FALLBACK | XWAY_WORDS_PARK);
}

/* Passive end: the peer has made its half. */
static void ctl_accept(struct xway_conn *conn, const union xway_sock_ctl *msg)
{
	int err;

	/* The link ends, and our half with it: xway_handshake_abort(). */
	if (conn->state != XWAY_CONN_OPENING)
		return;
	/* Whoever set one of these may have seen that there is no ring to read,
	 * and lets our half be closed. The peer does not use its ring without
	 * our XWAY_WORDS_OPEN.
	 */
	if (READ_ONCE(conn->flags) & (BIT(XWAY_F_FALLBACK) | BIT(XWAY_F_DETACHED) |
				      BIT(XWAY_F_BAD)))
		err = -ECANCELED;
	else if (xway_conn_mac(conn, true) != msg->mac ||
		 !xway_chan_described(&msg->ctl) ||
		 msg->ctl.ring_pages > conn->chan.ring_pages)
		err = -EPROTO;
	else
		err = half_map(conn, &msg->ctl);
	xway_evict_begin(conn);
	WRITE_ONCE(conn->state, XWAY_CONN_OPEN);
	xway_timeout_begin();
	if (err) {
		/* Nothing is mapped, but CLOSE needs the peer's number. */
		xway_chan_set_peer_id(&conn->chan, &msg->ctl);
		set_bit(XWAY_F_RX_CLOSED, &conn->flags);
		set_bit(XWAY_F_TX_CLOSED, &conn->flags);
		if (scarce(err) != XWAY_R_NONE)
			accept_later(conn, scarce(err));
		else if (err != -ECANCELED)
			xway_conn_fallback(conn, err == -EPROTO ? XWAY_R_PROOF :
								XWAY_R_MEMORY);
		xway_conn_queue(conn);
		return;
	}
	xway_count(CHANNELS);
	flag_open(conn);
	WRITE_ONCE(conn->tx.usable, !test_bit(XWAY_F_FALLBACK, &conn->flags));
	if (test_bit(XWAY_F_FALLBACK, &conn->flags) ||
	    test_bit(XWAY_F_DETACHED, &conn->flags))
		xway_conn_queue(conn);
	/* The peer may have posted the channel when nothing was mapped here. */
	xway_conn_wake(conn);
}

/*
 * Can the answer become another one? The peer may have room later, or be turned on, or load the
 * module for sockets, and adopt its end then. Or it has adopted it, and knows only the numbers
 * that follow from the bytes that were counted.
 */
static bool another_answer(struct xway_conn *conn, u32 answer)
{
	switch (answer) {
	case XWAY_DECLINE_MEMORY:	/* older peers, where we say LATER */
	case XWAY_DECLINE_LATER:
		refuse(conn);
		return true;
	case XWAY_DECLINE_AGAIN:
	case XWAY_DECLINE_SERVICE:
		xway_conn_await_adoption(conn);
		return true;
	case XWAY_DECLINE_UNKNOWN:
		return conn->adopt_until && time_before(jiffies, conn->adopt_until);
	case XWAY_DECLINE_PROOF:
		if (conn->proof || !memcmp(conn->isn[0], conn->isn[1], sizeof(conn->isn[0])))
			return false;
		WRITE_ONCE(conn->proof, true);
		return true;
	default:
		return false;
	}
}

static void ctl_decline(struct xway_conn *conn, const struct xway_ctl *msg)
{
	static const u8 why[] = {
		[XWAY_DECLINE_UNKNOWN] = XWAY_R_UNKNOWN,
		[XWAY_DECLINE_PROOF] = XWAY_R_PROOF,
		[XWAY_DECLINE_OFF] = XWAY_R_OFF,
	};
	u32 arg = msg->arg < ARRAY_SIZE(why) ? msg->arg : 0;

	WRITE_ONCE(conn->state, XWAY_CONN_TCP);
	half_free(conn);
	if (another_answer(conn, msg->arg))
		xway_evict_postpone(conn, msg->arg == XWAY_DECLINE_SERVICE ? XWAY_R_SERVICE :
									     XWAY_R_NONE);
	else
		xway_conn_fallback(conn,
				   why[array_index_nospec(arg, ARRAY_SIZE(why))] ?:
				 XWAY_R_UNKNOWN);
	/* A fallback that was asked for earlier has waited for this answer. */
	xway_conn_queue(conn);
}

/**
 * xway_handshake_ctl() - take a control message of a link
 * @link: the link, its lock held
 * @chan: channel that the message names, NULL for OPEN
 * @ctl: a private copy of the message
 *
 * Context: process, may sleep.
 * Return: false if no honest peer would have sent it.
 */
bool xway_handshake_ctl(struct xway_link *link, struct xway_chan *chan,
			const struct xway_ctl *ctl)
{
	const union xway_sock_ctl *msg =
		container_of(ctl, union xway_sock_ctl, ctl);
	struct xway_conn *conn;

	lockdep_assert_held(&link->lock);
	if (!chan) {
		if (link->state == XWAY_LINK_UP && xway_attach_is_on())
			ctl_open(link, msg);
		else	/* who is off may be on again */
			ctl_reply(link, XWAY_CTL_DECLINE, ctl->from,
				  xway_attach_is_on() ? XWAY_DECLINE_LATER :
							XWAY_DECLINE_AGAIN);
		return true;
	}
	conn = container_of(chan, struct xway_conn, chan);
	xway_conn_get(conn);
	switch (ctl->type) {
	case XWAY_CTL_ACCEPT:
		ctl_accept(conn, msg);
		break;
	case XWAY_CTL_DECLINE:
		ctl_decline(conn, ctl);
		break;
	case XWAY_CTL_CLOSE:
		set_bit(XWAY_F_GOT_CLOSE, &conn->flags);
		xway_conn_queue(conn);
		break;
	}
	xway_conn_put(conn);
	return true;
}

/* A grace period has passed: nobody writes the own words. */
static void closed_free(struct xway_conn *conn)
{
	mutex_lock(&conn->chan.link->lock);
	if (conn->chan.ring_pages)
		half_free(conn);
	mutex_unlock(&conn->chan.link->lock);
	xway_conn_put(conn);
}

/**
 * xway_handshake_free_work() - destroy the own half of a channel that is closed
 * @work: @free_work of the connection
 *
 * Context: process, a grace period after it was queued.
 */
void xway_handshake_free_work(struct work_struct *work)
{
	closed_free(container_of(to_rcu_work(work), struct xway_conn, free_work));
}

/*
 * Channels that wait for a grace period share it: when a link ends, thousands do. A helper
 * that waited itself would keep a thread each.
 */
static LLIST_HEAD(ending);

static void grace_passed(struct work_struct *work)
{
	struct xway_conn *conn, *next;
	struct llist_node *batch;

	batch = llist_del_all(&ending);
	synchronize_rcu_expedited();
	llist_for_each_entry_safe(conn, next, batch, ending) {
		if (test_bit(XWAY_F_LEAVING, &conn->flags)) {
			set_bit(XWAY_F_LEFT, &conn->flags);
			xway_conn_queue(conn);
			xway_conn_put(conn);
		} else {
			closed_free(conn);
		}
	}
}

static DECLARE_WORK(ending_work, grace_passed);

/* It is not on xway_conn_wq: a helper there that resets may wait for a socket's user. */
static void await_grace(struct xway_conn *conn)
{
	xway_conn_get(conn);
	if (llist_add(&conn->ending, &ending))
		queue_work(xway_core_wq, &ending_work);
}

/* Destroy the own half after a grace period. Context: link's lock held. */
static void free_later(struct xway_conn *conn)
{
	/* Before a suspend the whole domain waits for the link's end. */
	if (READ_ONCE(conn->chan.link->state) != XWAY_LINK_UP) {
		await_grace(conn);
		return;
	}
	xway_conn_get(conn);
	if (!queue_rcu_work(xway_core_wq, &conn->free_work))
		xway_conn_put(conn);
}

/*
 * Send CLOSE. RCU readers may still look at the peer's half, so it goes out only after them:
 * this is called once more then. rx.lock and the link's lock are held.
 */
static void send_close(struct xway_conn *conn, bool gone)
{
	if (!test_and_set_bit(XWAY_F_LEAVING, &conn->flags)) {
		rcu_assign_pointer(conn->chan.peer, NULL);
		await_grace(conn);
		return;
	}
	if (!test_bit(XWAY_F_LEFT, &conn->flags))
		return;
	clear_bit(XWAY_F_LEAVING, &conn->flags);
	WRITE_ONCE(conn->state, XWAY_CONN_CLOSING);
	/* After CLOSE the peer uses its pages again, and nobody here reads on. */
	if (gone)
		xway_rx_discard(conn);
	xway_chan_unmap(&conn->chan);
	ctl_reply(conn->chan.link, XWAY_CTL_CLOSE, conn->chan.peer_id, 0);
}

/* No connection is left. What the last has put may still run its last instructions. */
void xway_handshake_exit(void)
{
	cancel_work_sync(&ending_work);
}

/**
 * xway_handshake_close() - close a channel, as far as that is possible now
 * @conn: connection, its rx.lock held
 *
 * Sends CLOSE when nothing of the peer's half is needed any more. Destroys the
 * own half when the peer has sent CLOSE, too. It waits for that only while there is
 * a socket, and for the answer to OPEN only while the connection does not fall
 * back: a silent peer would keep the connection, and with it the module.
 *
 * Context: the helper; may sleep.
 */
void xway_handshake_close(struct xway_conn *conn)
{
	bool gone = test_bit(XWAY_F_DETACHED, &conn->flags);
	struct xway_link *link;

	lockdep_assert_held(&conn->rx.lock);
	/* It has no channel. Who gives it one looks at its flags afterwards. */
	if (xway_conn_waiting(conn))
		return;
	link = conn->chan.link;
	mutex_lock(&link->lock);
	/* OPEN is not answered, so nothing is mapped, and nobody uses our half. */
	if (conn->state == XWAY_CONN_OPENING &&
	    (gone || test_bit(XWAY_F_FALLBACK, &conn->flags))) {
		WRITE_ONCE(conn->state, XWAY_CONN_TCP);
		half_free(conn);
	}
	if (conn->state == XWAY_CONN_OPEN &&
	    (gone || (test_bit(XWAY_F_RX_CLOSED, &conn->flags) &&
		      test_bit(XWAY_F_TX_CLOSED, &conn->flags))))
		send_close(conn, gone);
	if (conn->state == XWAY_CONN_CLOSING &&
	    (test_and_clear_bit(XWAY_F_GOT_CLOSE, &conn->flags) || gone)) {
		free_later(conn);
		WRITE_ONCE(conn->state, XWAY_CONN_TCP);
	}
	mutex_unlock(&link->lock);
}

/**
 * xway_handshake_abort() - begin to end a channel whose peer answers no more
 * @conn: connection, its rx.lock held; its rings are not used any more
 *
 * Nobody finds the peer's half from now on, and no CLOSE is sent. A grace period later
 * xway_handshake_aborted() ends the channel.
 *
 * Context: process, may sleep.
 */
void xway_handshake_abort(struct xway_conn *conn)
{
	struct xway_link *link = conn->chan.link;

	lockdep_assert_held(&conn->rx.lock);
	rcu_assign_pointer(conn->chan.peer, NULL);
	mutex_lock(&link->lock);
	WRITE_ONCE(conn->state, XWAY_CONN_TCP);
	mutex_unlock(&link->lock);
}

/**
 * xway_handshake_aborted() - end a channel after xway_handshake_abort()
 * @conn: connection of a link that takes no new channels; nothing happens if it has no channel
 *
 * Our half needs no CLOSE, because the core frees no page that the peer still
 * maps.
 *
 * Context: process, may sleep; a grace period after xway_handshake_abort().
 */
void xway_handshake_aborted(struct xway_conn *conn)
{
	struct xway_link *link = conn->chan.link;

	mutex_lock(&link->lock);
	if (conn->chan.ring_pages) {
		xway_chan_unmap(&conn->chan);
		half_free(conn);
	}
	mutex_unlock(&link->lock);
}
