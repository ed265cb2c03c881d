// SPDX-License-Identifier: GPL-2.0
/*
 * Channels: how the helper opens them and the cleaner closes them.
 *
 * A channel is opened by the passive end, whose peer is then established for
 * certain: OPEN, ACCEPT. Each end may use the other's ring once the other has
 * said XWAY_WORDS_OPEN in its words. A channel ends when each end has sent
 * CLOSE, which promises not to touch the other's half again (the flag of the
 * paper's Figure 11), and has received the other's.
 */
#include <linux/nospec.h>
#include <linux/slab.h>

#include "client.h"
#include "conn.h"
#include "handshake.h"
#include "evict.h"
#include "core/core.h"
#include "ringsize.h"
#include "attach.h"

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
	/* The core has it now; half_free() takes that back. */
	xway_conn_get(conn);
	conn->tx.pages = ring;
	return 0;
}

/*
 * Make our half: words, and a ring of at most so many pages. Called with the link's
 * lock held.
 */
static int half_make(struct xway_conn *conn, u32 most)
{
	struct xway_link *link = conn->chan.link;
	u32 pages, least = min(xway_ringsize_min(), most);
	int err;

	lockdep_assert_held(&link->lock);
	kfree(conn->tx.pages);	/* of a channel that was declined */
	conn->tx.pages = NULL;
	for (pages = min(xway_ringsize_next(link), most); pages > least; pages /= 2)
		if (xway_link_roomy(link, pages, xway_ringsize_keep(pages)) &&
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

/* Free our half. The peer has promised not to touch it, or has ended. */
static void half_free(struct xway_conn *conn)
{
	xway_chan_destroy(&conn->chan);
	xway_conn_put(conn);
}

/* Map the peer's half, which a valid message describes. */
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
	/* What it reads by is there before the peer's words are. */
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
 * xway_words_flag() - tell the peer a state of this side
 * @conn: connection with a channel; the caller sees @peer by RCU or holds the
 *	link's mutex
 * @flag: XWAY_CHAN_*
 *
 * A full barrier separates the flag from what the caller looks at next.
 */
void xway_words_flag(struct xway_conn *conn, u32 flag)
{
	u32 was;

	spin_lock_bh(&conn->lock);
	was = xway_own(conn)->flags;
	WRITE_ONCE(xway_own(conn)->flags, was | flag);
	spin_unlock_bh(&conn->lock);
	/* The flag before what is looked at: for xway_chan_bell() below that is
	 * whether the last post was taken, pairs with doorbell_run() at the peer;
	 * for who sets NO_READER it is prod, pairs with xway_tx_publish().
	 */
	virt_mb();
	if (!(was & flag))
		xway_chan_bell(&conn->chan);
}

/* The ring may be used now. A socket that ended meanwhile has no reader. */
static void flag_open(struct xway_conn *conn)
{
	u32 flags = XWAY_WORDS_OPEN;

	/* conn->chan.peer before it: pairs with rx_leave() */
	smp_mb();
	if (READ_ONCE(conn->flags) &
	    (BIT(XWAY_F_CLOSED) | BIT(XWAY_F_SHUT) | BIT(XWAY_F_DETACHED)))
		flags |= XWAY_WORDS_NO_READER;
	xway_words_flag(conn, flags);
}

/*
 * Making a channel sleeps. From here on a return waits for its end before the
 * socket is detached: whoever sets RETURN or GONE and then looks at the state
 * sees it, or is seen here. Return: false if it is too late for a channel.
 */
static bool begin(struct xway_conn *conn)
{
	if (conn->state != XWAY_CONN_TCP)
		return false;
	spin_lock_bh(&conn->lock);
	if (conn->sk && xway_conn_taken(conn, conn->sk))
		xway_conn_fallback(conn, XWAY_R_KERNEL);
	spin_unlock_bh(&conn->lock);
	WRITE_ONCE(conn->state, XWAY_CONN_OPENING);
	/* Pairs with the atomic set_bit() of whoever returns or detaches */
	smp_mb();
	if (!(READ_ONCE(conn->flags) & (BIT(XWAY_F_FALLBACK) | BIT(XWAY_F_DETACHED) |
					BIT(XWAY_F_BAD))))
		return true;
	WRITE_ONCE(conn->state, XWAY_CONN_TCP);
	xway_conn_queue(conn);
	return false;
}

/* There will be none, or not now: a return that waited goes on. */
static void give_up(struct xway_conn *conn, int err)
{
	WRITE_ONCE(conn->state, XWAY_CONN_TCP);
	if (err == -ENOSPC)
		xway_evict_postpone(conn, true);
	xway_conn_queue(conn);
}

/* Helper, passive end: ask for a channel. */
void xway_handshake_open(struct xway_conn *conn)
{
	struct xway_link *link = conn->chan.link;
	union xway_sock_ctl msg = { .ctl.type = XWAY_CTL_OPEN };
	int err = 0;

	mutex_lock(&link->lock);
	if (link->state != XWAY_LINK_UP) {
		err = -ENOTCONN;
	} else if (begin(conn)) {
		err = half_make(conn, XWAY_RING_PAGES_MAX);
		if (err) {
			give_up(conn, err);
		} else {
			describe(conn, &msg);
			xway_ctl_send(&xway_sockets, link, &msg.ctl);
		}
	}
	mutex_unlock(&link->lock);
	if (err && err != -ENOSPC)
		xway_conn_fallback(conn, err == -ENOTCONN ? XWAY_R_LINK :
						       XWAY_R_MEMORY);
}

static void ctl_reply(struct xway_link *link, u32 type, u32 chan, u32 arg)
{
	struct xway_ctl msg = { .type = type, .chan = chan, .arg = arg };

	xway_ctl_send(&xway_sockets, link, &msg);
}

/* Has the peer given up the channel, and this side not followed yet? */
static bool resting(struct xway_conn *conn)
{
	const struct xway_words *peer;
	bool ret;

	if (READ_ONCE(conn->flags) & (BIT(XWAY_F_PARK) | BIT(XWAY_F_GOT_CLOSE)))
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
	if (!conn)
		goto decline;
	/* One channel at a time, and not too often. */
	if (test_bit(XWAY_F_ASKED, &conn->flags)) {
		why = resting(conn) ? XWAY_DECLINE_LATER : XWAY_DECLINE_OFF;
		goto put;
	}
	why = XWAY_DECLINE_LATER;
	if (xway_evict_too_early(conn))
		goto put;
	why = XWAY_DECLINE_OFF;
	set_bit(XWAY_F_ASKED, &conn->flags);
	if (!begin(conn))
		goto put;
	/* No larger than the peer's, which is what it has room for. */
	err = xway_chan_described(&msg->ctl) ?
		      half_make(conn, msg->ctl.ring_pages) : -EPROTO;
	if (!err) {
		err = half_map(conn, &msg->ctl);
		if (err)
			half_free(conn);
	}
	if (err) {
		give_up(conn, err);
		why = err == -ENOSPC ? XWAY_DECLINE_LATER : XWAY_DECLINE_MEMORY;
		goto put;
	}
	xway_evict_begin(conn);
	flag_open(conn);
	WRITE_ONCE(conn->state, XWAY_CONN_OPEN);
	WRITE_ONCE(conn->tx.usable, !test_bit(XWAY_F_FALLBACK, &conn->flags));
	xway_count(CHANNELS);
	describe(conn, &answer);
	xway_ctl_send(&xway_sockets, link, &answer.ctl);
	/* A return asked for meanwhile must see the channel. */
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

/* The peer may show more than we may map and keep: both give it up, for a while. */
static void accept_later(struct xway_conn *conn)
{
	if (xway_conn_park(conn, XWAY_R_LIMIT))
		xway_evict_wish(conn->tl);
	if (test_bit(XWAY_F_PARK, &conn->flags))
		xway_words_flag(conn, XWAY_WORDS_FALLBACK | XWAY_WORDS_PARK);
}

/* Passive end: the peer has made its half. */
static void ctl_accept(struct xway_conn *conn, const union xway_sock_ctl *msg)
{
	int err;

	if (conn->state != XWAY_CONN_OPENING) {
		xway_conn_bad(conn);
		return;
	}
	/* Who sets these flags may have seen that there is no ring to read, and
	 * now lets go of our half. Without our OPEN the peer does not use its.
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
	if (err) {
		/* The peer may not use the ring before we say OPEN. */
		xway_chan_answered(&conn->chan, &msg->ctl);
		set_bit(XWAY_F_RX_CLOSED, &conn->flags);
		set_bit(XWAY_F_TX_CLOSED, &conn->flags);
		if (err == -ENOSPC)
			accept_later(conn);
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
	/* The peer may have rung while there was nothing here to look at. */
	xway_conn_wake(conn);
}

static void ctl_decline(struct xway_conn *conn, const struct xway_ctl *msg)
{
	static const u8 why[] = {
		[XWAY_DECLINE_UNKNOWN] = XWAY_R_UNKNOWN,
		[XWAY_DECLINE_PROOF] = XWAY_R_PROOF,
		[XWAY_DECLINE_OFF] = XWAY_R_OFF,
		[XWAY_DECLINE_MEMORY] = XWAY_R_MEMORY,
		[XWAY_DECLINE_SERVICE] = XWAY_R_SERVICE,
	};
	u32 arg = msg->arg < ARRAY_SIZE(why) ? msg->arg : 0;

	if (conn->state != XWAY_CONN_OPENING) {
		xway_conn_bad(conn);
		return;
	}
	WRITE_ONCE(conn->state, XWAY_CONN_TCP);
	half_free(conn);
	if (msg->arg == XWAY_DECLINE_LATER)
		xway_evict_postpone(conn, false);
	else
		xway_conn_fallback(conn,
				 why[array_index_nospec(arg, ARRAY_SIZE(why))] ?:
				 XWAY_R_UNKNOWN);
	/* A return asked for earlier has waited for this answer. */
	xway_conn_queue(conn);
}

/**
 * xway_handshake_ctl() - take a control message of a link
 * @link: the link, its lock held
 * @chan: channel that the message names, NULL for OPEN
 * @ctl: a private copy of the message
 *
 * Return: false if no honest peer could have sent it.
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
		else
			ctl_reply(link, XWAY_CTL_DECLINE, ctl->from,
				  XWAY_DECLINE_OFF);
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
		/* Its half must have been accepted before it is closed. */
		if (conn->state == XWAY_CONN_OPENING) {
			xway_conn_bad(conn);
			break;
		}
		set_bit(XWAY_F_GOT_CLOSE, &conn->flags);
		xway_conn_queue(conn);
		break;
	}
	xway_conn_put(conn);
	return true;
}

/* After a grace period nobody writes our words any more. */
void xway_handshake_free_work(struct work_struct *work)
{
	struct xway_conn *conn = container_of(to_rcu_work(work),
					      struct xway_conn, free_work);

	mutex_lock(&conn->chan.link->lock);
	if (conn->chan.ring_pages)
		half_free(conn);
	mutex_unlock(&conn->chan.link->lock);
	xway_conn_put(conn);
}

/* Cleaner: say CLOSE when nothing of the peer is needed; free on its CLOSE. */
void xway_handshake_close(struct xway_conn *conn)
{
	struct xway_link *link = conn->chan.link;
	bool gone = test_bit(XWAY_F_DETACHED, &conn->flags);

	lockdep_assert_held(&conn->rx.lock);
	mutex_lock(&link->lock);
	if (conn->state == XWAY_CONN_OPEN &&
	    (gone || (test_bit(XWAY_F_RX_CLOSED, &conn->flags) &&
		      test_bit(XWAY_F_TX_CLOSED, &conn->flags)))) {
		/* From here on RCU readers may still be looking at the peer,
		 * which is why our CLOSE goes out only after them.
		 */
		rcu_assign_pointer(conn->chan.peer, NULL);
		WRITE_ONCE(conn->state, XWAY_CONN_CLOSING);
		mutex_unlock(&link->lock);
		synchronize_rcu_expedited();
		/* The peer uses its pages again; nobody reads them here. */
		if (gone)
			xway_rx_discard(conn);
		mutex_lock(&link->lock);
		xway_chan_unmap(&conn->chan);
		ctl_reply(link, XWAY_CTL_CLOSE, conn->chan.peer_id, 0);
	}
	if (conn->state == XWAY_CONN_CLOSING &&
	    test_and_clear_bit(XWAY_F_GOT_CLOSE, &conn->flags)) {
		xway_conn_get(conn);
		/* Not behind helpers that wait for a socket's user */
		if (!queue_rcu_work(xway_link_wq, &conn->free_work))
			xway_conn_put(conn);
		WRITE_ONCE(conn->state, XWAY_CONN_TCP);
	}
	mutex_unlock(&link->lock);
}

/**
 * xway_handshake_abort() - end a channel whose peer answers no more
 * @conn: connection; nothing is read from or written to the rings any more
 *
 * Our half needs no CLOSE: the core frees no page that is still mapped. May sleep.
 */
void xway_handshake_abort(struct xway_conn *conn)
{
	struct xway_link *link = conn->chan.link;

	lockdep_assert_held(&conn->rx.lock);
	rcu_assign_pointer(conn->chan.peer, NULL);
	synchronize_rcu_expedited();
	mutex_lock(&link->lock);
	WRITE_ONCE(conn->state, XWAY_CONN_TCP);
	xway_chan_unmap(&conn->chan);
	if (conn->chan.ring_pages)
		half_free(conn);
	mutex_unlock(&link->lock);
}
