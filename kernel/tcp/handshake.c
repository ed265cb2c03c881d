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
#include <linux/log2.h>
#include <linux/nospec.h>
#include <linux/slab.h>

#include "handshake.h"
#include "conn.h"
#include "evict.h"
#include "link.h"
#include "ringsize.h"
#include "attach.h"
#include "reclaim.h"

/*
 * Make our half: words, and a ring of at most so many pages. Called with the link's
 * mutex held.
 */
static int chan_make(struct xway_conn *conn, u32 most)
{
	struct xway_link *link = conn->link;
	u32 pages, least = min(xway_ringsize_min(), most), i;
	int err;

	lockdep_assert_held(&link->lock);
	kfree(conn->tx.pages);	/* of a channel that was declined */
	conn->tx.pages = NULL;
	for (pages = min(xway_ringsize_next(link), most); pages > least; pages /= 2)
		if (xway_arena_roomy(link, pages, xway_ringsize_keep(pages)) &&
		    !xway_arena_alloc(link, pages, &conn->ring_page))
			break;
	if (pages == least) {
		err = xway_arena_alloc(link, pages, &conn->ring_page);
		if (err)
			goto err_none;
	}
	err = -ENOMEM;
	conn->tx.pages = kcalloc(pages, sizeof(void *), GFP_KERNEL);
	if (!conn->tx.pages)
		goto err_ring;
	err = xway_link_chan_add(link, conn);
	if (err)
		goto err_pages;
	for (i = 0; i < pages; i++)
		conn->tx.pages[i] = xway_arena_addr(link, conn->ring_page + i);
	conn->tx.size = pages * PAGE_SIZE;
	conn->tx.window = conn->tx.size;
	conn->ring_pages = pages;	/* now there is something to free */
	xway_ringsize_settle(conn);
	return 0;

err_pages:
	kfree(conn->tx.pages);
	conn->tx.pages = NULL;
err_ring:
	xway_arena_free(link, conn->ring_page, pages);
err_none:
	/* The arena may have grown for nothing. */
	xway_reclaim_soon(link);
	return err;
}

/* Free our half. The peer has promised not to touch it, or has ended. */
static void chan_free(struct xway_conn *conn)
{
	struct xway_link *link = conn->link;

	lockdep_assert_held(&link->lock);
	xway_arena_free(link, conn->ring_page, conn->ring_pages);
	conn->ring_pages = 0;
	xway_link_chan_del(link, conn);
	xway_reclaim_soon(link);
}

/* The peer's half is not touched any more. */
static void chan_unmap(struct xway_conn *conn)
{
	xway_import_put(conn->link, conn->peer_ring_page, conn->peer_ring_pages);
	if (conn->peer_ring_pages)
		xway_import_put(conn->link, conn->peer_shm_page, 1);
	conn->peer_ring_pages = 0;
}

/* The peer's number of the channel, for which nothing is posted yet */
static void chan_answered(struct xway_conn *conn, const struct xway_ctl *msg)
{
	conn->peer_id = msg->from;
	conn->bell_last = conn->link->bell_prod - XWAY_BELLS - 1;
}

/* Is it a half of a channel that a control message describes? */
static bool valid_half(const struct xway_ctl *msg)
{
	return is_power_of_2(msg->ring_pages) &&
	       msg->ring_pages <= min(XWAY_RING_PAGES_MAX, xway_arena_pages_max()) &&
	       msg->shm_slot < XWAY_CHANS_PER_PAGE &&
	       msg->shm_page >= XWAY_PAGES_FIXED &&
	       msg->ring_page >= XWAY_PAGES_FIXED &&
	       msg->ring_page <= XWAY_ARENA_PAGES_MAX;
}

/* Map the peer's half, a valid one. */
static int chan_map(struct xway_conn *conn, const struct xway_ctl *msg)
{
	struct xway_link *link = conn->link;
	const void *shm;
	void **pages;
	u32 i;
	int err;

	lockdep_assert_held(&link->lock);
	shm = xway_import_get(link, msg->shm_page);
	if (IS_ERR(shm))
		return PTR_ERR(shm);
	err = -ENOSPC;
	if (!xway_rx_charge(conn, msg->ring_pages))
		goto err_shm;
	conn->rx_pages = msg->ring_pages;
	err = -ENOMEM;
	pages = kcalloc(msg->ring_pages, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		goto err_charge;
	for (i = 0; i < msg->ring_pages; i++) {
		const void *addr = xway_import_get(link, msg->ring_page + i);

		err = PTR_ERR_OR_ZERO(addr);
		if (err)
			goto err_pages;
		pages[i] = (void *)addr;
	}
	conn->peer_shm_page = msg->shm_page;
	conn->peer_ring_page = msg->ring_page;
	conn->peer_ring_pages = msg->ring_pages;
	conn->rx.pages = pages;
	conn->rx.size = msg->ring_pages * PAGE_SIZE;
	chan_answered(conn, msg);
	rcu_assign_pointer(conn->peer,
			   (const struct xway_words *)shm +
			   array_index_nospec(msg->shm_slot,
					      XWAY_CHANS_PER_PAGE));
	return 0;

err_pages:
	xway_import_put(link, msg->ring_page, i);
	kfree(pages);
err_charge:
	xway_rx_free(conn);
err_shm:
	xway_import_put(link, msg->shm_page, 1);
	return err;
}

static void chan_describe(struct xway_conn *conn, struct xway_ctl *msg)
{
	const struct xway_tuple *t = &conn->tuple;

	msg->from = conn->id;
	msg->shm_page = conn->shm_page;
	msg->shm_slot = conn->shm_slot;
	msg->ring_page = conn->ring_page;
	msg->ring_pages = conn->ring_pages;
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
	was = conn->own->flags;
	WRITE_ONCE(conn->own->flags, was | flag);
	spin_unlock_bh(&conn->lock);
	/* The flag before what is looked at: for xway_link_bell() below that is
	 * whether the last post was taken, pairs with bell_run() at the peer;
	 * for who sets NO_READER it is prod, pairs with xway_tx_publish().
	 */
	virt_mb();
	if (!(was & flag))
		xway_link_bell(conn->link, conn->peer_id, &conn->bell_last);
}

/* The ring may be used now. A socket that ended meanwhile has no reader. */
static void chan_flag_open(struct xway_conn *conn)
{
	u32 flags = XWAY_WORDS_OPEN;

	/* conn->peer before it: pairs with rx_leave() */
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
static bool chan_begin(struct xway_conn *conn)
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
static void chan_give_up(struct xway_conn *conn, int err)
{
	WRITE_ONCE(conn->state, XWAY_CONN_TCP);
	if (err == -ENOSPC)
		xway_evict_postpone(conn, true);
	xway_conn_queue(conn);
}

/* Helper, passive end: ask for a channel. */
void xway_handshake_open(struct xway_conn *conn)
{
	struct xway_link *link = conn->link;
	struct xway_ctl msg = { .type = XWAY_CTL_OPEN };
	int err = 0;

	mutex_lock(&link->lock);
	if (link->state != XWAY_LINK_UP) {
		err = -ENOTCONN;
	} else if (chan_begin(conn)) {
		err = chan_make(conn, XWAY_RING_PAGES_MAX);
		if (err) {
			chan_give_up(conn, err);
		} else {
			chan_describe(conn, &msg);
			xway_link_ctl_send(link, &msg);
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

	xway_link_ctl_send(link, &msg);
}

/* Has the peer given up the channel, and this side not followed yet? */
static bool resting(struct xway_conn *conn)
{
	const struct xway_words *peer;
	bool ret;

	if (READ_ONCE(conn->flags) & (BIT(XWAY_F_PARK) | BIT(XWAY_F_GOT_CLOSE)))
		return true;
	rcu_read_lock();
	peer = rcu_dereference(conn->peer);
	ret = peer && (READ_ONCE(peer->flags) & XWAY_WORDS_PARK);
	rcu_read_unlock();
	return ret;
}

/* Active end: the peer asks for a channel. */
static void ctl_open(struct xway_link *link, const struct xway_ctl *msg)
{
	struct xway_ctl answer = { .type = XWAY_CTL_ACCEPT,
				   .chan = msg->from };
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
	if (!chan_begin(conn))
		goto put;
	/* No larger than the peer's, which is what it has room for. */
	err = valid_half(msg) ? chan_make(conn, msg->ring_pages) : -EPROTO;
	if (!err) {
		err = chan_map(conn, msg);
		if (err)
			chan_free(conn);
	}
	if (err) {
		chan_give_up(conn, err);
		why = err == -ENOSPC ? XWAY_DECLINE_LATER : XWAY_DECLINE_MEMORY;
		goto put;
	}
	xway_evict_begin(conn);
	chan_flag_open(conn);
	WRITE_ONCE(conn->state, XWAY_CONN_OPEN);
	WRITE_ONCE(conn->tx.usable, !test_bit(XWAY_F_FALLBACK, &conn->flags));
	xway_count(CHANNELS);
	chan_describe(conn, &answer);
	xway_link_ctl_send(link, &answer);
	/* A return asked for meanwhile must see the channel. */
	if (test_bit(XWAY_F_FALLBACK, &conn->flags) ||
	    test_bit(XWAY_F_DETACHED, &conn->flags))
		xway_conn_queue(conn);
	xway_conn_put(conn);
	return;

put:
	xway_conn_put(conn);
decline:
	ctl_reply(link, XWAY_CTL_DECLINE, msg->from, why);
}

/* The peer may show more than we may map and keep: both give it up, for a while. */
static void accept_later(struct xway_conn *conn)
{
	if (xway_conn_park(conn, XWAY_R_LIMIT))
		xway_evict_wish(conn->link);
	if (test_bit(XWAY_F_PARK, &conn->flags))
		xway_words_flag(conn, XWAY_WORDS_FALLBACK | XWAY_WORDS_PARK);
}

/* Passive end: the peer has made its half. */
static void ctl_accept(struct xway_conn *conn, const struct xway_ctl *msg)
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
	else if (xway_conn_mac(conn, true) != msg->mac || !valid_half(msg) ||
		 msg->ring_pages > conn->ring_pages)
		err = -EPROTO;
	else
		err = chan_map(conn, msg);
	xway_evict_begin(conn);
	WRITE_ONCE(conn->state, XWAY_CONN_OPEN);
	if (err) {
		/* The peer may not use the ring before we say OPEN. */
		chan_answered(conn, msg);
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
	chan_flag_open(conn);
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
	};
	u32 arg = msg->arg < ARRAY_SIZE(why) ? msg->arg : 0;

	if (conn->state != XWAY_CONN_OPENING) {
		xway_conn_bad(conn);
		return;
	}
	WRITE_ONCE(conn->state, XWAY_CONN_TCP);
	chan_free(conn);
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
 * @link: the link, its mutex held
 * @msg: a private copy of the message
 *
 * Return: false if no honest peer could have sent it.
 */
bool xway_handshake_ctl(struct xway_link *link, const struct xway_ctl *msg)
{
	struct xway_conn *conn;

	lockdep_assert_held(&link->lock);
	if (msg->type == XWAY_CTL_UNMAP)
		return xway_reclaim_unmap(link, msg);
	if (msg->type == XWAY_CTL_UNMAPPED)
		return xway_reclaim_unmapped(link);
	if (msg->type == XWAY_CTL_OPEN) {
		if (link->state == XWAY_LINK_UP && xway_attach_is_on())
			ctl_open(link, msg);
		else
			ctl_reply(link, XWAY_CTL_DECLINE, msg->from,
				  XWAY_DECLINE_OFF);
		return true;
	}
	conn = xa_load(&link->chans, msg->chan);
	/* A peer that is late at the end of a link breaks no rule. */
	if (!conn)
		return link->state == XWAY_LINK_CLOSING;
	xway_conn_get(conn);
	switch (msg->type) {
	case XWAY_CTL_ACCEPT:
		ctl_accept(conn, msg);
		break;
	case XWAY_CTL_DECLINE:
		ctl_decline(conn, msg);
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
	default:
		xway_conn_put(conn);
		return false;
	}
	xway_conn_put(conn);
	return true;
}

/* After a grace period nobody writes our words any more. */
void xway_handshake_free_work(struct work_struct *work)
{
	struct xway_conn *conn = container_of(to_rcu_work(work),
					      struct xway_conn, free_work);

	mutex_lock(&conn->link->lock);
	if (conn->ring_pages)
		chan_free(conn);
	mutex_unlock(&conn->link->lock);
	xway_conn_put(conn);
}

/* Cleaner: say CLOSE when nothing of the peer is needed; free on its CLOSE. */
void xway_handshake_close(struct xway_conn *conn)
{
	struct xway_link *link = conn->link;
	bool gone = test_bit(XWAY_F_DETACHED, &conn->flags);

	lockdep_assert_held(&conn->rx.lock);
	mutex_lock(&link->lock);
	if (conn->state == XWAY_CONN_OPEN &&
	    (gone || (test_bit(XWAY_F_RX_CLOSED, &conn->flags) &&
		      test_bit(XWAY_F_TX_CLOSED, &conn->flags)))) {
		/* From here on RCU readers may still be looking at the peer,
		 * which is why our CLOSE goes out only after them.
		 */
		rcu_assign_pointer(conn->peer, NULL);
		WRITE_ONCE(conn->state, XWAY_CONN_CLOSING);
		mutex_unlock(&link->lock);
		synchronize_rcu_expedited();
		/* The peer uses its pages again; nobody reads them here. */
		if (gone)
			xway_rx_discard(conn);
		mutex_lock(&link->lock);
		chan_unmap(conn);
		ctl_reply(link, XWAY_CTL_CLOSE, conn->peer_id, 0);
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
 * Our half needs no CLOSE, because the revoke_work keeps pages that are still
 * mapped. May sleep.
 */
void xway_handshake_abort(struct xway_conn *conn)
{
	struct xway_link *link = conn->link;

	lockdep_assert_held(&conn->rx.lock);
	rcu_assign_pointer(conn->peer, NULL);
	synchronize_rcu_expedited();
	mutex_lock(&link->lock);
	WRITE_ONCE(conn->state, XWAY_CONN_TCP);
	chan_unmap(conn);
	if (conn->ring_pages)
		chan_free(conn);
	mutex_unlock(&link->lock);
}
