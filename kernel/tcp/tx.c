// SPDX-License-Identifier: GPL-2.0
/*
 * Sending: the switch between TCP and ring, and bytes into the ring.
 *
 * All functions are called with the socket locked by the caller, except
 * xway_tx_writeable(), which anybody may ask.
 */
#include <linux/tcp.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <net/tcp.h>

#include "conn.h"
#include "core/core.h"
#include "ringsize.h"
#include "trace.h"
#include "tx.h"

/* Bytes that are put before the reader, if it waits for them, hears of the first */
#define TX_STRETCH 16384u

/* The ring is given up, or soon will be. */
#define TX_OVER (BIT(XWAY_F_FALLBACK) | BIT(XWAY_F_TX_CLOSED) | BIT(XWAY_F_DETACHED))

static void tx_mark(struct xway_conn *conn, struct sock *sk)
{
	struct xway_words *own = xway_own(conn);
	u32 gen = conn->tx.gen + 1;

	WRITE_ONCE(own->mark[gen & 1].seq, tcp_sk(sk)->write_seq);
	WRITE_ONCE(own->mark[gen & 1].idx, conn->tx.prod);
	conn->tx.until = conn->tx.prod;
	/* The mark before it, TCP's next byte after it: pairs with
	 * xway_rx_update() and the read barrier in rx_once() at the peer.
	 */
	virt_store_release(&own->gen, gen);
	WRITE_ONCE(conn->tx.gen, gen);
	trace_xway_switch(conn, tcp_sk(sk)->write_seq);
}

/*
 * TCP may keep back a tail, under TCP_CORK or MSG_MORE, for bytes that will now
 * not come by TCP, and the reader of the ring would wait for it. PUSH overrides
 * that for what is queued; tcp_release_cb() sends it as this call ends.
 */
static void tx_push_tail(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (READ_ONCE(tp->snd_nxt) == tp->write_seq)
		return;
	tp->nonagle |= TCP_NAGLE_PUSH;
	if (!test_and_set_bit(TCP_TSQ_DEFERRED, &sk->sk_tsq_flags))
		sock_hold(sk);
}

/**
 * xway_tx_to_ring() - switch this direction to the ring if that is right now
 * @conn: connection
 * @sk: its locked socket
 *
 * The TCP sequence number at which TCP's bytes end is the same at both ends. It
 * is one only if nobody sleeps in the middle of tcp_sendmsg_locked(), which
 * lets go of the socket's lock: sk_write_pending counts those.
 *
 * Return: true if bytes now go to the ring.
 */
bool xway_tx_to_ring(struct xway_conn *conn, struct sock *sk)
{
	const struct xway_words *peer;
	bool ok = false;
	u32 flags;

	sock_owned_by_me(sk);
	if (!conn->tx.usable || (READ_ONCE(conn->flags) & TX_OVER) ||
	    sk->sk_write_pending || sk->sk_err ||
	    !((1 << sk->sk_state) & (TCPF_ESTABLISHED | TCPF_CLOSE_WAIT)) ||
	    (sk->sk_shutdown & SEND_SHUTDOWN))
		return false;
	rcu_read_lock();
	peer = rcu_dereference(conn->chan.peer);
	if (peer) {
		flags = READ_ONCE(peer->flags);
		ok = (flags & XWAY_WORDS_OPEN) &&
		     !(flags & (XWAY_WORDS_FALLBACK | XWAY_WORDS_NO_READER |
				XWAY_WORDS_HOLD)) &&
		     READ_ONCE(peer->gen_done) == conn->tx.gen;
	}
	if (ok) {
		tx_mark(conn, sk);
		/* The peer's conn_do_fallback() sets the flag and then looks at
		 * gen; one sees the other. It copies out what it sees.
		 */
		virt_mb();
		ok = !(READ_ONCE(peer->flags) & XWAY_WORDS_FALLBACK);
	}
	rcu_read_unlock();
	if (!ok) {
		xway_tx_to_tcp(conn, sk);
		return false;
	}
	tx_push_tail(sk);
	xway_count(TO_RING);
	return true;
}

/**
 * xway_tx_to_tcp() - switch this direction back to TCP
 * @conn: connection
 * @sk: its locked socket
 *
 * The mark is stored before the first TCP byte after it is sent, so whoever
 * sees that byte can see the mark.
 */
void xway_tx_to_tcp(struct xway_conn *conn, struct sock *sk)
{
	sock_owned_by_me(sk);
	if (!(conn->tx.gen & 1))
		return;
	rcu_read_lock();
	if (rcu_access_pointer(conn->chan.peer)) {
		tx_mark(conn, sk);
		xway_count(TO_TCP);
		/* The mark before the question whether a post is due: pairs
		 * with bell_run() at the peer.
		 */
		virt_mb();
		xway_chan_bell(&conn->chan);
	} else {
		/* The channel has ended: there is nobody to tell. */
		xway_tx_discard(conn);
	}
	rcu_read_unlock();
}

/* Has the peer closed its socket? */
static bool tx_reader_gone(struct xway_conn *conn)
{
	const struct xway_words *peer;
	bool gone;

	rcu_read_lock();
	peer = rcu_dereference(conn->chan.peer);
	gone = !peer || (READ_ONCE(peer->flags) & XWAY_WORDS_NO_READER);
	rcu_read_unlock();
	return gone;
}

/**
 * xway_tx_discard() - this direction is TCP's again, without a mark
 * @conn: connection whose peer reads the ring no more
 *
 * TCP then answers the bytes with a reset, as it would have without us.
 */
void xway_tx_discard(struct xway_conn *conn)
{
	WRITE_ONCE(conn->tx.usable, false);
	conn->tx.until = conn->tx.prod;
	if (conn->tx.gen & 1)
		WRITE_ONCE(conn->tx.gen, conn->tx.gen + 1);
}

/* Bytes in the ring; all of it without a peer, or one with a dishonest index. */
static u32 tx_used(struct xway_conn *conn)
{
	const struct xway_words *peer;
	u32 used, ret = conn->tx.size, prod, cons;

	rcu_read_lock();
	peer = rcu_dereference(conn->chan.peer);
	while (peer) {
		prod = READ_ONCE(conn->tx.prod);
		/* Who polls does not hold the socket's lock, and a sender may be
		 * at work: an older cons would not go with a newer prod.
		 */
		smp_rmb();
		/* Room is used after it: pairs with rx_publish(). */
		cons = virt_load_acquire(&peer->cons);
		if (xway_ring_unread(prod, cons, conn->tx.size, &used)) {
			ret = used;
			break;
		}
		if (READ_ONCE(conn->tx.prod) == prod) {
			xway_conn_bad(conn);
			break;
		}
	}
	rcu_read_unlock();
	return ret;
}

/* Has the peer read all that is in the own ring? Context: any. */
bool xway_tx_empty(struct xway_conn *conn)
{
	return !tx_used(conn);
}

/**
 * xway_tx_look() - learn how far the reader is
 * @conn: connection whose sending direction is on the ring
 * @sk: its locked socket
 *
 * Return: the room there is, in bytes.
 */
u32 xway_tx_look(struct xway_conn *conn, const struct sock *sk)
{
	conn->tx.cons = conn->tx.prod - tx_used(conn);
	return xway_tx_room(&conn->tx, sk);
}

/*
 * Bytes that are put at once. A reader that waits begins after TX_STRETCH, and hears
 * of more whenever that has doubled. One that has much to read hears of as much again:
 * where two processors share no cache, each time that it is told costs it the line.
 */
static u32 tx_stretch(struct xway_conn *conn, size_t left, u32 before)
{
	u32 most = max(READ_ONCE(conn->tx.window) / 4, TX_STRETCH);

	if (left <= TX_STRETCH)
		return left;
	most = clamp(max(before, tx_used(conn)), TX_STRETCH, most);
	return min_t(size_t, left, most);
}

/**
 * xway_tx_put() - copy one stretch into the ring
 * @conn: connection whose sending direction is on the ring
 * @sk: its locked socket
 * @msg: the bytes; the iterator advances
 * @before: bytes of the message that are in the ring already
 *
 * Return: bytes put; -EAGAIN if it holds what it may; -EFAULT; -EPIPE if the peer
 * has closed its socket, and then nothing was taken from @msg.
 */
int xway_tx_put(struct xway_conn *conn, struct sock *sk, struct msghdr *msg,
		u32 before)
{
	struct xway_tx *tx = &conn->tx;
	u32 room, len;
	bool seen;

	sock_owned_by_me(sk);
	len = tx_stretch(conn, msg_data_left(msg), before);
	room = xway_tx_room(tx, sk);
	if (room < len) {
		/* Nowhere else: who asks to be woken must go by the same. */
		WRITE_ONCE(tx->window, xway_ringsize_window(conn));
		room = xway_tx_look(conn, sk);
	}
	tx->until = tx->prod + room;
	if (!room)
		return tx_reader_gone(conn) ||
		       test_bit(XWAY_F_BAD, &conn->flags) ? -EPIPE : -EAGAIN;
	len = xway_tx_copy(tx, msg, min(len, room));
	if (!len)
		return -EFAULT;
	rcu_read_lock();
	seen = xway_tx_publish(conn, msg, len);
	rcu_read_unlock();
	return seen ? len : -EPIPE;
}

/**
 * xway_tx_backlog() - bytes in the ring that by TCP would still be at the sender
 * @conn: connection
 * @sk: its socket
 *
 * The ring is the queues of both ends at once. Half of what may be in it stands
 * for the receiver's: bytes there have arrived. Context: any.
 */
u32 xway_tx_backlog(struct xway_conn *conn, const struct sock *sk)
{
	u32 half, used;

	/* Before it, as the peer may just come; after it, as it may have gone:
	 * without one the ring counts as full.
	 */
	if (tx_reader_gone(conn))
		return 0;
	half = xway_tx_window(&conn->tx, sk) / 2;
	used = tx_used(conn);
	return used > half && !tx_reader_gone(conn) ? used - half : 0;
}

/* Is half of it free? Without a reader the call tells what happened. */
static bool tx_half_free(struct xway_conn *conn, u32 window)
{
	return tx_used(conn) <= window / 2 || tx_reader_gone(conn);
}

/**
 * xway_tx_writeable() - does poll() say that the ring takes bytes?
 * @conn: connection whose sending direction is on the ring
 * @sk: its socket
 *
 * Says no, and asks for an event, when less than half of what may be filled is
 * free; the event comes when half of it is.
 */
bool xway_tx_writeable(struct xway_conn *conn, const struct sock *sk)
{
	u32 prod, window = xway_tx_window(&conn->tx, sk);

	if (tx_half_free(conn, window))
		return true;
	do {
		prod = READ_ONCE(conn->tx.prod);
		rcu_read_lock();
		if (rcu_access_pointer(conn->chan.peer))
			xway_ring_arm(&xway_own(conn)->want_room, prod - window / 2);
		rcu_read_unlock();
		if (tx_half_free(conn, window)) {
			/* The peer may have passed that index before it was
			 * stored, and it was stored over that of another who
			 * sleeps, and whose the peer has passed since.
			 */
			xway_conn_queue(conn);
			return true;
		}
		/* If another sender went on meanwhile, the peer may have passed
		 * the index that was asked for, and there is still no room.
		 */
	} while (READ_ONCE(conn->tx.prod) != prod);
	if (window == READ_ONCE(conn->tx.window))
		xway_ringsize_full(conn);
	/* Who waits has said so before: pairs with conn_limit(). */
	if (!test_bit(XWAY_F_LIMITED, &conn->flags) &&
	    !test_and_set_bit(XWAY_F_LIMITED, &conn->flags))
		xway_conn_limit(conn, sk);
	return false;
}

/* What changes as soon as the peer's program reads: of the ring or TCP's bytes. */
static u32 tx_progress(struct xway_conn *conn, const struct sock *sk)
{
	const struct xway_words *peer;
	u32 ret = tcp_wnd_end(tcp_sk(sk));

	rcu_read_lock();
	peer = rcu_dereference(conn->chan.peer);
	if (peer)
		ret += READ_ONCE(peer->cons) + READ_ONCE(peer->gen_done);
	rcu_read_unlock();
	return ret;
}

/* It would make the sender wait as well, for what it has not delivered. */
static bool tcp_full(const struct sock *sk)
{
	return tcp_sk(sk)->snd_una != tcp_sk(sk)->write_seq &&
	       sk->sk_wmem_queued >= READ_ONCE(sk->sk_sndbuf);
}

/**
 * xway_tx_stalled() - does who sends wait for room, and since when in vain?
 * @conn: connection
 * @sk: its locked socket
 * @waited: set to jiffies since it was first asked, or the peer read something
 */
bool xway_tx_stalled(struct xway_conn *conn, struct sock *sk,
		     unsigned long *waited)
{
	struct xway_tx *tx = &conn->tx;
	u32 progress;

	sock_owned_by_me(sk);
	if (!(tx->gen & 1) || sk->sk_err || !sk->sk_socket ||
	    (sk->sk_shutdown & SEND_SHUTDOWN) ||
	    (!sk->sk_write_pending &&
	     !test_bit(SOCK_NOSPACE, &sk->sk_socket->flags)) ||
	    tx_half_free(conn, xway_tx_window(tx, sk))) {
		tx->limited = false;
		return false;
	}
	progress = tx_progress(conn, sk);
	if (!tx->limited || tx->progress != progress || tcp_full(sk)) {
		tx->limited = true;
		tx->progress = progress;
		tx->progress_at = jiffies;
	}
	*waited = jiffies - tx->progress_at;
	return true;
}
