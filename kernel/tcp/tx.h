/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bytes into the ring: what every message goes through, short or long. Inline,
 * because of a short one it is most of the work.
 *
 * The caller has locked the socket: as its owner, or by its spinlock.
 */
#ifndef _XWAY_TX_H
#define _XWAY_TX_H

#include <linux/uio.h>
#include <net/tcp.h>

#include "conn.h"
#include "core/core.h"

/*
 * Bytes that may be in the ring. A program that has set SO_SNDBUF wants no more
 * under way than that, and what the peer has offered to keep.
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

/* Bytes that fit, as far as is known without asking the peer's index. */
static inline u32 xway_tx_room(const struct xway_tx *tx, const struct sock *sk)
{
	u32 used = tx->prod - tx->cons, window = xway_tx_window(tx, sk);
	u32 unsent = tcp_notsent_lowat(tcp_sk(sk));

	/* TCP_NOTSENT_LOWAT bounds what xway_tx_backlog() counts. */
	if (unsent < window / 2)
		window = window / 2 + unsent;
	/* There may be more in it than one may put there now. */
	return used < window ? window - used : 0;
}

/*
 * Copy into free room what nobody sees yet. Return: bytes copied.
 *
 * Not by copy_from_iter(), which would look up with each call whether the ring's
 * pages are an object of a slab's: they are whole pages, and a piece ends where
 * they do.
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

/*
 * Let the peer see @len more bytes. Context: RCU read-side section, or softirqs
 * off. Return: false, with @msg as it was, if the peer has closed its socket.
 */
static inline bool xway_tx_publish(struct xway_conn *conn, struct msghdr *msg,
				   u32 len)
{
	struct xway_tx *tx = &conn->tx;
	const struct xway_words *peer =
		rcu_dereference_check(conn->chan.peer, rcu_read_lock_bh_held());
	u32 old = tx->prod;
	bool ring;

	/* A peer that is shut, but not closed, must not see what it refuses. */
	if (unlikely(!peer || (READ_ONCE(peer->flags) & XWAY_WORDS_NO_READER)))
		goto gone;
	/* Before the peer can see it: softirq compares it with cons. */
	WRITE_ONCE(tx->prod, old + len);
	ring = xway_ring_publish(&xway_own(conn)->prod, old + len, old,
				 &peer->want_data);
	/* The reader's close sets the flag and then looks at prod; we stored
	 * prod and now look at the flag. One sees the other: it resets, or these
	 * bytes go by TCP and earn a reset there.
	 */
	if (unlikely(READ_ONCE(peer->flags) & XWAY_WORDS_NO_READER))
		goto gone;
	if (ring) {
		/* It has read all else: who only watches asks for events, too. */
		if (READ_ONCE(peer->cons) == old)
			WRITE_ONCE(tx->empty_at, jiffies);
		xway_chan_bell(&conn->chan);
	}
	tx->ring_bytes += len;
	return true;

gone:
	iov_iter_revert(&msg->msg_iter, len);
	return false;
}

#endif /* _XWAY_TX_H */
