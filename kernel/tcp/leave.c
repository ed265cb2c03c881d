// SPDX-License-Identifier: GPL-2.0
/*
 * Leave: what all connections of a link do when it ends, or its peer loses an address.
 */
#include <net/tcp.h>

#include "attach.h"
#include "client.h"
#include "conn.h"
#include "handshake.h"

/* Jiffies for which the end of a link waits for cuts that its peer has only begun */
#define CUT_LATE HZ

/*
 * The channel ends now, without the peer. Bring both directions to TCP, if no byte is
 * lost by that. rx.lock and the socket's lock are held.
 *
 * What this end has put into its ring stays readable to a peer that runs again: it
 * finds our mark, and revoke.c keeps the pages until it has unmapped them. What the peer
 * has put into its own is cut: our words stay readable, too.
 *
 * A peer that has ended has marked and cut before, or never will. Its last words are
 * still mapped here.
 *
 * Return: false if bytes may be lost.
 */
static bool conn_leave_rings(struct xway_conn *conn, struct sock *sk, bool dead)
{
	bool cut = !dead && xway_conn_may_cut(conn), kept;

	WRITE_ONCE(conn->tx.usable, false);
	if (rcu_access_pointer(conn->chan.peer)) {
		if (cut) {
			rcu_read_lock();
			xway_words_flag(conn, xway_conn_words(conn));
			rcu_read_unlock();
		}
		if (cut || xway_tx_is_cut(conn))
			xway_tx_to_tcp(conn, sk);
	}
	kept = xway_tx_keep(conn, sk);
	xway_rx_update(conn);
	if (cut)
		xway_rx_cut(conn);
	return kept && !(conn->tx.gen & 1) && !(conn->rx.seen & 1);
}

/*
 * The peer answers no more. What it has published is spilled. Our half needs no
 * CLOSE, because revoke.c keeps pages that the peer still maps. A direction
 * that is on a ring may have lost bytes, and then the connection is reset. Others
 * park: the peer may have a new link soon.
 */
static void conn_abort_link(struct xway_conn *conn, bool dead)
{
	struct xway_link *link = conn->chan.link;
	bool had, lossy = false;
	struct sock *sk;

	xway_conn_reason(conn, XWAY_R_GONE);
	/* Either ctl_accept() sees this flag, or its ring is seen below. The helper
	 * is not queued before, because it would switch.
	 */
	if (!xway_conn_set_park(conn))
		set_bit(XWAY_F_FALLBACK, &conn->flags);
	mutex_lock(&conn->rx.lock);
	mutex_lock(&link->lock);
	had = conn->chan.ring_pages;
	mutex_unlock(&link->lock);
	sk = xway_conn_hold_sk(conn);
	if (had) {
		if (sk) {
			lock_sock(sk);
			/* Else the socket may have another connection by now. */
			lossy = conn->sk == sk && !conn_leave_rings(conn, sk, dead);
			release_sock(sk);
		}
		xway_rx_spill(conn, true);
		set_bit(XWAY_F_RX_CLOSED, &conn->flags);
		set_bit(XWAY_F_TX_CLOSED, &conn->flags);
		if (sk && (lossy || conn->rx.cut))
			xway_conn_reset(conn, sk, ECONNRESET);
		xway_handshake_abort(conn);
	}
	xway_conn_queue(conn);
	mutex_unlock(&conn->rx.lock);
	if (sk)
		sock_put(sk);
}

static void conn_drain(struct xway_conn *conn)
{
	struct xway_link *link = conn->chan.link;

	/* One that parks already had time while the link was up. */
	if (!xway_conn_park(conn, XWAY_R_LINK)) {
		if (test_bit(XWAY_F_PARK, &conn->flags))
			xway_conn_queue(conn);
		else
			xway_conn_fallback(conn, XWAY_R_LINK);
	}
	/* Also without a socket: the peer spills what it has not read of our
	 * ring.
	 */
	mutex_lock(&link->lock);
	if (conn->chan.ring_pages && conn->state != XWAY_CONN_OPENING)
		xway_words_flag(conn, xway_conn_words(conn));
	mutex_unlock(&link->lock);
}

/* Call @visit, which may sleep, for each connection of a link. */
static void conn_each(struct xway_link *link,
		      void (*visit)(struct xway_conn *conn))
{
	struct xway_conn *conn;

	rcu_read_lock();
	list_for_each_entry_rcu(conn, &xway_conns, all) {
		if (READ_ONCE(conn->chan.link) != link || !xway_conn_stop(conn))
			continue;
		visit(conn);
		xway_conn_continue(conn);
	}
	rcu_read_unlock();
}

/**
 * xway_conn_drain() - have each connection leave a link
 * @link: a link that takes no new channels
 *
 * They park, and wait for the next link to the peer. This does not wait for that.
 *
 * Context: process, may sleep.
 */
void xway_conn_drain(struct xway_link *link)
{
	conn_each(link, conn_drain);
}

static void conn_abort_silent(struct xway_conn *conn)
{
	conn_abort_link(conn, false);
}

static void conn_abort_dead(struct xway_conn *conn)
{
	conn_abort_link(conn, true);
}

/**
 * xway_conn_abort() - take each connection that is left off a link
 * @link: a link that takes no new channels, and whose peer answers no more
 * @dead: the peer is gone for good, or lies
 *
 * A connection that may have lost bytes is reset.
 *
 * Context: process, may sleep.
 */
void xway_conn_abort(struct xway_link *link, bool dead)
{
	struct xway_tcp_link *tl = xway_tcp_link_get(link);

	if (!tl)
		return;	/* and no connection */
	WRITE_ONCE(tl->cut_by, jiffies + CUT_LATE);
	xway_tcp_link_put(tl);
	conn_each(link, dead ? conn_abort_dead : conn_abort_silent);
	synchronize_rcu_expedited();	/* one for all of them */
	conn_each(link, xway_handshake_aborted);
}

static void conn_check_address(struct xway_conn *conn)
{
	struct sock *sk = xway_conn_hold_sk(conn);

	if (!sk)
		return;
	if (!xway_attach_listed(conn, sk))
		xway_conn_park(conn, XWAY_R_ADDRESS);
	sock_put(sk);
}

/**
 * xway_conn_addresses() - the peer of a link has lost an address
 * @link: the link
 *
 * Each connection whose far address is not the peer's any more parks, so that what
 * is sent from now on reaches whoever has the address. Does not wait for that.
 *
 * Context: process, may sleep.
 */
void xway_conn_addresses(struct xway_link *link)
{
	conn_each(link, conn_check_address);
}
