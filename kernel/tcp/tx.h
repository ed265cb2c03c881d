/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bytes into the ring: what every message goes through, short or long. It is
 * inline, because it is most of the work for a short message.
 *
 * The caller has locked the socket, as its owner or by its spinlock.
 */
#ifndef _XWAY_TX_H
#define _XWAY_TX_H

#include <linux/uio.h>
#include <net/tcp.h>

#include "conn.h"
#include "core/core.h"

/**
 * xway_tx_window() - bytes that may be in the ring
 * @tx: sending
 * @sk: its socket
 *
 * A program that has set SO_SNDBUF wants no more bytes under way than that, and
 * what the peer has offered to keep.
 *
 * Context: any.
 * Return: bytes, at most the size of the ring.
 */
static inline u32 xway_tx_window(const struct xway_tx *tx,
				 const struct sock *sk)
{
	u32 window = READ_ONCE(tx->window);

	if (likely(!(sk->sk_userlocks & SOCK_SNDBUF_LOCK)))
		return window;
	return min(window, (u32)READ_ONCE(sk->sk_sndbuf) / 2 +
			   READ_ONCE(tcp_sk(sk)->max_window));
}

/**
 * xway_tx_room() - bytes that fit, without a look at the peer's index
 * @tx: sending
 * @sk: its socket, locked
 *
 * Context: process or softirqs off.
 * Return: bytes.
 */
static inline u32 xway_tx_room(const struct xway_tx *tx, const struct sock *sk)
{
	u32 used = tx->prod - tx->cons, window = xway_tx_window(tx, sk);
	u32 unsent = tcp_notsent_lowat(tcp_sk(sk));

	/* TCP_NOTSENT_LOWAT limits what xway_tx_backlog() counts. */
	if (unsent < window / 2)
		window = window / 2 + unsent;
	/* The ring may hold more than may be put there now. */
	return used < window ? window - used : 0;
}

/**
 * xway_tx_copy() - copy into free room; nobody sees the bytes yet
 * @tx: sending
 * @msg: the bytes; the iterator advances
 * @len: bytes to copy, for which there is room
 *
 * Not by copy_from_iter(), which checks with each call whether the ring's pages
 * are part of a slab object. They are whole pages, and no piece goes beyond
 * them.
 *
 * Context: process; page faults are off.
 * Return: bytes copied.
 */
static inline u32 xway_tx_copy(const struct xway_tx *tx, struct msghdr *msg,
			       u32 len)
{
	u32 done = 0;

	do {
		u32 n = len - done;
		void *at = xway_ring_at(tx->pages, tx->prod + done, tx->size,
					&n);
		u32 got = _copy_from_iter(at, n, &msg->msg_iter);

		done += got;
		if (got < n)
			break;
	} while (done < len);
	return done;
}

/**
 * xway_tx_publish() - let the peer see more bytes
 * @conn: connection; its socket is locked
 * @msg: where the bytes came from
 * @len: how many
 *
 * Context: RCU read-side section, or softirqs off.
 * Return: false, with @msg as it was, if the peer has closed its socket.
 */
static inline bool xway_tx_publish(struct xway_conn *conn, struct msghdr *msg,
				   u32 len)
{
	struct xway_tx *tx = &conn->tx;
	const struct xway_words *peer =
		rcu_dereference_check(conn->chan.peer, rcu_read_lock_bh_held());
	u32 old = tx->prod;
	bool ring;

	/* A peer whose socket is shut, but not closed, must not see bytes that
	 * it refuses.
	 */
	if (unlikely(!peer || (READ_ONCE(peer->flags) & XWAY_WORDS_NO_READER)))
		goto gone;
	/* Before the peer can see the bytes: softirq compares prod with cons. */
	WRITE_ONCE(tx->prod, old + len);
	ring = xway_ring_publish(&xway_own(conn)->prod, old + len, old,
				 &peer->want_data);
	/* prod before the flag: pairs with xway_words_flag() in the peer's
	 * rx_refuse(), after which rx_leave() looks at prod. One of the two
	 * sees the other: the peer resets, or these bytes go by TCP, which
	 * answers with a reset.
	 */
	if (unlikely(READ_ONCE(peer->flags) & XWAY_WORDS_NO_READER))
		goto gone;
	if (ring) {
		/* The reader had read everything. One that only polls asks for
		 * events, too.
		 */
		if (READ_ONCE(peer->cons) == old)
			WRITE_ONCE(tx->empty_at, jiffies);
		xway_chan_post(&conn->chan);
	}
	tx->ring_bytes += len;
	return true;

gone:
	iov_iter_revert(&msg->msg_iter, len);
	return false;
}

#endif /* _XWAY_TX_H */
