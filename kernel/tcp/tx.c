// SPDX-License-Identifier: GPL-2.0
/*
 * Sending: switches between TCP and ring, and bytes into the ring.
 *
 * The caller of each function has locked the socket, except where a function's
 * context says otherwise.
 */
#include <linux/delay.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <net/tcp.h>

#include "calls.h"
#include "client.h"
#include "conn.h"
#include "ipsec.h"
#include "ringsize.h"
#include "trace.h"
#include "tx.h"

/* Bytes of a message that are put before a waiting reader hears of the first */
#define TX_STRETCH 16384u

/* A size of TCP's buffer that no ring fills, and that sums do not overflow */
#define SNDBUF_ANY (INT_MAX / 2)

/* Time between looks for a CUT that is late */
#define CUT_LOOK_MS 20

/* How long a link's sockets that are closed wait for CUTs, all together in how long a time */
#define CLOSE_LATE HZ
#define CLOSE_LATE_EACH (10 * HZ)

/* The ring is given up, or soon will be. */
#define TX_OVER (BIT(XWAY_F_FALLBACK) | BIT(XWAY_F_TX_CLOSED) | BIT(XWAY_F_DETACHED))

/* Switch: write a mark where TCP's bytes and the ring's now stand. */
static void tx_mark(struct xway_conn *conn, struct sock *sk)
{
	struct xway_words *own = xway_own(conn);
	u32 gen = conn->tx.gen + 1;

	WRITE_ONCE(own->mark[gen & 1].seq, tcp_sk(sk)->write_seq);
	WRITE_ONCE(own->mark[gen & 1].idx, conn->tx.prod);
	conn->tx.until = conn->tx.prod;
	/* The mark before the number, and the number before TCP's next byte:
	 * pairs with xway_rx_update() and the read barrier in rx_once() at the
	 * peer.
	 */
	virt_store_release(&own->gen, gen);
	WRITE_ONCE(conn->tx.gen, gen);
	trace_xway_switch(conn, tcp_sk(sk)->write_seq);
}

/*
 * TCP_CORK or MSG_MORE may have TCP keep back a tail until more bytes come by
 * TCP. None will, and the peer's reader needs the tail before the ring's bytes.
 * PUSH has queued bytes sent; tcp_release_cb() does that as this call ends.
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

/* Does the peer cut, or has it? RCU read-side section. */
static bool tx_cutting(struct xway_conn *conn)
{
	const struct xway_words *peer = rcu_dereference(conn->chan.peer);

	return peer && (READ_ONCE(peer->flags) & XWAY_WORDS_CUTTING);
}

/**
 * xway_tx_to_ring() - switch this direction to the ring if that is possible now
 * @conn: connection
 * @sk: its socket, locked
 *
 * The mark needs the TCP sequence number at which TCP's bytes end. That is
 * certain only if no task sleeps in the middle of tcp_sendmsg_locked(), which
 * unlocks the socket while it waits. sk_write_pending counts these tasks.
 *
 * Context: process.
 * Return: true if bytes now go to the ring.
 */
bool xway_tx_to_ring(struct xway_conn *conn, struct sock *sk)
{
	const struct xway_words *peer;
	bool ok = false;
	u32 flags;
	int err;

	sock_owned_by_me(sk);
	/* A peer that cuts ring after ring, and lets TCP send nothing, must not have
	 * TCP keep them all.
	 */
	if (READ_ONCE(sk->sk_wmem_queued) / 2 > READ_ONCE(sk->sk_sndbuf))
		return false;
	if (!conn->tx.usable || conn->tx.resend ||
	    (READ_ONCE(conn->flags) & TX_OVER) || sk->sk_write_pending || sk->sk_err ||
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
	err = ok ? xway_ipsec_check(sk) : 0;
	if (err) {
		rcu_read_unlock();
		if (err == -EPERM)
			xway_conn_fallback(conn, XWAY_R_IPSEC);
		return false;
	}
	if (ok) {
		tx_mark(conn, sk);
		/* The number before the peer's flag: pairs with
		 * xway_words_flag() in the peer's conn_do_fallback(), which
		 * sets the flag and then looks at the number. One of the two
		 * sees the other. The peer spills what it sees.
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
 * xway_tx_to_tcp() - switch this direction to TCP
 * @conn: connection
 * @sk: its socket, locked
 *
 * The mark is stored before the next TCP byte is sent, so whoever sees that
 * byte can see the mark. If the peer cuts, it may have missed the mark. Nothing
 * may be sent by TCP then before xway_tx_resend() is true.
 *
 * Context: process.
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
		/* The mark before
		 * - the question whether a post is due: pairs with doorbell_take()
		 *   at the peer;
		 * - the look at CUTTING: pairs with xway_rx_cut() there.
		 */
		virt_mb();
		if (tx_cutting(conn))
			WRITE_ONCE(conn->tx.resend, true);
		xway_chan_post(&conn->chan);
	} else {
		/* The channel has ended: there is nobody to tell. */
		xway_tx_discard(conn);
	}
	rcu_read_unlock();
}

/* Has the peer closed its socket, or ended the channel? */
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
 * xway_tx_discard() - switch this direction to TCP without a mark
 * @conn: connection whose peer does not read the ring any more; its socket is
 *	locked
 *
 * TCP then answers the next bytes with a reset, as it would without a channel.
 *
 * Context: process.
 */
void xway_tx_discard(struct xway_conn *conn)
{
	WRITE_ONCE(conn->tx.usable, false);
	conn->tx.until = conn->tx.prod;
	if (conn->tx.gen & 1)
		WRITE_ONCE(conn->tx.gen, conn->tx.gen + 1);
	WRITE_ONCE(conn->tx.resend, false);
}

/**
 * xway_tx_is_cut() - has the peer ended this direction's stretch on the ring?
 * @conn: connection
 *
 * Context: any.
 * Return: true from the moment at which the peer begins to.
 */
bool xway_tx_is_cut(struct xway_conn *conn)
{
	bool ret;

	rcu_read_lock();
	ret = tx_cutting(conn);
	rcu_read_unlock();
	return ret;
}

/*
 * Learn up to which index the peer has taken the ring. Return: false if it has not
 * said so yet. There are but a few instructions between CUTTING and CUT.
 */
static bool tx_know_cut(struct xway_conn *conn)
{
	const struct xway_words *peer;
	struct xway_tx *tx = &conn->tx;
	u32 cut, unread;

	if (tx->cut_known)
		return true;
	rcu_read_lock();
	peer = rcu_dereference(conn->chan.peer);
	/* The flag before the index: pairs with xway_rx_cut() at the peer. */
	if (peer && (virt_load_acquire(&peer->flags) & XWAY_WORDS_CUT)) {
		cut = READ_ONCE(peer->cut);
		/* Nor can it have taken less than it has said. */
		tx->cut_known = xway_ring_unread(tx->prod, cut, tx->prod - tx->cons, &unread);
		if (tx->cut_known)
			tx->resent = cut;
		else
			xway_conn_bad(conn);
	}
	rcu_read_unlock();
	return tx->cut_known;
}

/*
 * Give TCP a piece of the ring, without waiting. The bytes have been taken from the
 * program, so they may be more than TCP's buffer is to hold; a FIN that the program
 * has asked for was kept back; and an error of an ICMP message, which TCP would take for
 * an answer to this call, is the program's.
 */
static int tx_give(struct xway_conn *conn, struct sock *sk, void *at, u32 len)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct kvec vec = { .iov_base = at, .iov_len = len };
	int sndbuf = READ_ONCE(sk->sk_sndbuf), ret;
	u8 shut = sk->sk_shutdown & SEND_SHUTDOWN;
	int err = xchg(&sk->sk_err, 0);

	iov_iter_kvec(&msg.msg_iter, WRITE, &vec, 1, len);
	WRITE_ONCE(sk->sk_sndbuf, SNDBUF_ANY);
	WRITE_ONCE(sk->sk_shutdown, sk->sk_shutdown & ~SEND_SHUTDOWN);
	WRITE_ONCE(conn->tx.resending, true);
	ret = tcp_sendmsg_locked(sk, &msg, len);
	WRITE_ONCE(conn->tx.resending, false);
	/* TCP may have handled segments meanwhile. They may have shut the other
	 * direction, or both.
	 */
	WRITE_ONCE(sk->sk_shutdown, sk->sk_shutdown | shut);
	/* It lowers its buffer when memory is short. */
	WRITE_ONCE(sk->sk_sndbuf, min(READ_ONCE(sk->sk_sndbuf), sndbuf));
	if (ret < 0)
		xway_keep_error(sk, ret);
	if (err) {
		/* Who looked for it in between has not found it: tell again. */
		cmpxchg(&sk->sk_err, 0, err);
		sk->sk_error_report(sk);
	}
	return ret;
}

/*
 * Does TCP take bytes? If not, FIN is sent, or the connection has ended. Before it was
 * sent no cut was seen, so the peer has taken all: see xway_tx_may_fin().
 */
static bool tx_takes(const struct sock *sk)
{
	return (1 << sk->sk_state) & (TCPF_ESTABLISHED | TCPF_CLOSE_WAIT);
}

/* All is sent, or there is nobody any more to send it to. */
static void tx_resent(struct xway_conn *conn, struct sock *sk)
{
	struct xway_tx *tx = &conn->tx;

	WRITE_ONCE(tx->resend, false);
	if (tx->fin) {
		tx->fin = false;
		conn->base_prot->shutdown(sk, SEND_SHUTDOWN);
	}
	/* Those who wait to send may be all that is left to do. */
	xway_conn_wake(conn);
	xway_conn_queue(conn);
}

/**
 * xway_tx_resend() - send by TCP what the peer has not taken from the ring
 * @conn: connection whose sending direction is on TCP
 * @sk: its socket, locked
 *
 * Whoever gives TCP bytes or a FIN calls this before, so that these bytes are the
 * first ones. It does not wait. The helper calls it again until it is true.
 *
 * Context: process, may sleep for memory.
 * Return: true if there are no such bytes any more.
 */
bool xway_tx_resend(struct xway_conn *conn, struct sock *sk)
{
	struct xway_tx *tx = &conn->tx;
	int ret;

	sock_owned_by_me(sk);
	if (likely(!tx->resend))
		return true;
	if (tx_takes(sk) && !tx_know_cut(conn))
		return false;
	while (tx_takes(sk) && tx->resent != tx->prod) {
		u32 n = tx->prod - tx->resent;
		void *at = xway_ring_at(tx->pages, tx->resent, tx->size, &n);

		ret = tx_give(conn, sk, at, n);
		if (ret <= 0)
			return false;
		tx->resent += ret;
		tx->ring_bytes -= ret;
		tx->tcp_bytes += ret;
		xway_count_add(RESENT_BYTES, ret);
	}
	tx_resent(conn, sk);
	return true;
}

/* Replace the own ring by a private copy of what is still to be sent. */
static void tx_copy(struct xway_tx *tx)
{
	void **pages = kcalloc(tx->size / PAGE_SIZE, sizeof(*pages),
			       GFP_KERNEL | __GFP_NOFAIL);
	u32 at, n;

	for (at = tx->resent; at != tx->prod; at += n) {
		u32 nr = (at & (tx->size - 1)) / RING_PAGE_SIZE;
		void *from;

		n = min(tx->prod - at, RING_PAGE_SIZE - at % RING_PAGE_SIZE);
		from = xway_ring_at(tx->pages, at, tx->size, &n);
		if (!pages[nr])
			pages[nr] = (void *)__get_free_page(GFP_KERNEL |
							    __GFP_NOFAIL);
		memcpy(pages[nr] + offset_in_page(from), from, n);
	}
	kfree(tx->pages);
	tx->pages = pages;
	tx->kept = true;
}

/**
 * xway_tx_keep() - make what is still to be resent independent of the channel
 * @conn: connection whose channel is about to end without the peer
 * @sk: its socket, locked
 *
 * A peer that was stopped between CUTTING and CUT, or lies, is waited for until @cut_by
 * of the link: all connections together must not keep the link from ending.
 *
 * Context: process, may sleep.
 * Return: false if nobody will ever know what the peer has taken: bytes may be lost.
 */
bool xway_tx_keep(struct xway_conn *conn, struct sock *sk)
{
	if (xway_tx_resend(conn, sk))
		return true;
	while (!tx_know_cut(conn)) {
		if (time_after(jiffies, READ_ONCE(conn->tl->cut_by)) ||
		    test_bit(XWAY_F_BAD, &conn->flags))
			return false;
		msleep(CUT_LOOK_MS);
	}
	if (!xway_tx_resend(conn, sk) && !conn->tx.kept)
		tx_copy(&conn->tx);
	return true;
}

/**
 * xway_tx_may_fin() - may TCP send a FIN now?
 * @conn: connection
 * @sk: its socket, locked
 *
 * If the peer cuts, bytes of the ring may have to go before.
 *
 * Context: process, may sleep for memory.
 * Return: false if bytes are left; call again.
 */
bool xway_tx_may_fin(struct xway_conn *conn, struct sock *sk)
{
	/* The last index before the look at CUTTING: pairs with xway_rx_cut() at
	 * the peer, which then sees that index.
	 */
	virt_mb();
	if ((conn->tx.gen & 1) && xway_tx_is_cut(conn))
		xway_tx_to_tcp(conn, sk);
	return xway_tx_resend(conn, sk);
}

/**
 * xway_tx_cut_late() - has a CUT that the peer has begun been waited for long enough?
 * @conn: connection whose socket is being closed
 *
 * A peer that lies must not have each close() sleep. Those of a link together wait for
 * CLOSE_LATE in CLOSE_LATE_EACH.
 *
 * Context: process, the socket is locked.
 * Return: false if CUT is there, or may be waited for.
 */
bool xway_tx_cut_late(struct xway_conn *conn)
{
	unsigned long *by = &conn->tl->close_by, was = READ_ONCE(*by);

	if (!conn->tx.resend || tx_know_cut(conn))
		return false;
	if (!was || time_after(jiffies, was - CLOSE_LATE + CLOSE_LATE_EACH)) {
		cmpxchg(by, was, (jiffies + CLOSE_LATE) | 1);
		return false;
	}
	return time_after(jiffies, was);
}

/**
 * xway_tx_free() - free what is kept of the own ring
 * @conn: connection that nobody uses any more
 *
 * Context: any but hard interrupt.
 */
void xway_tx_free(struct xway_conn *conn)
{
	struct xway_tx *tx = &conn->tx;
	u32 i;

	for (i = 0; tx->kept && i < tx->size / PAGE_SIZE; i++)
		if (tx->pages[i])
			free_page((unsigned long)tx->pages[i]);
	kfree(tx->pages);
}

/*
 * Bytes in the own ring. It counts as full without a peer, or if the peer's
 * index is dishonest.
 */
static u32 tx_used(struct xway_conn *conn)
{
	const struct xway_words *peer;
	u32 used, ret = conn->tx.size, prod, cons;

	rcu_read_lock();
	peer = rcu_dereference(conn->chan.peer);
	while (peer) {
		prod = READ_ONCE(conn->tx.prod);
		/* prod before cons: poll() does not hold the socket's lock, and
		 * a sender may be at work. An older cons would not go with a
		 * newer prod.
		 */
		smp_rmb();
		/* cons before room is used: pairs with rx_publish() at the peer. */
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

/**
 * xway_tx_empty() - has the peer read all that is in the own ring?
 * @conn: connection
 *
 * Context: any.
 * Return: false also without a peer.
 */
bool xway_tx_empty(struct xway_conn *conn)
{
	return !tx_used(conn);
}

/**
 * xway_tx_look() - learn how far the reader is
 * @conn: connection whose sending direction is on the ring
 * @sk: its socket, locked
 *
 * Context: process.
 * Return: bytes for which there is room.
 */
u32 xway_tx_look(struct xway_conn *conn, const struct sock *sk)
{
	conn->tx.cons = conn->tx.prod - tx_used(conn);
	return xway_tx_room(&conn->tx, sk);
}

/*
 * Bytes of a message that are put at once. A waiting reader begins after
 * TX_STRETCH bytes, and hears of more whenever that has doubled. A reader that
 * has much unread hears of more only when it is as much again: if the two
 * processors share no cache, each index that is published costs the reader's a
 * cache line.
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
 * xway_tx_put() - copy one stretch of a message into the ring
 * @conn: connection whose sending direction is on the ring
 * @sk: its socket, locked
 * @msg: the bytes; the iterator advances
 * @before: bytes of the message that are in the ring already
 * @faulted: the caller has faulted in the message's memory, so a part of it will do
 *
 * Context: process.
 * Return: bytes put; -EAGAIN if the ring holds what it may; -XWAY_AGAIN_FAULT if the
 * caller must fault in the user's memory without the socket's lock and try again; -EPIPE
 * if the peer has closed its socket: then nothing was taken from @msg.
 */
int xway_tx_put(struct xway_conn *conn, struct sock *sk, struct msghdr *msg,
		u32 before, bool faulted)
{
	struct xway_tx *tx = &conn->tx;
	u32 room, len, got;
	bool seen;

	sock_owned_by_me(sk);
	len = tx_stretch(conn, msg_data_left(msg), before);
	room = xway_tx_room(tx, sk);
	if (room < len) {
		/* The window changes only here: a sender that asks for an event
		 * must go by the same one.
		 */
		WRITE_ONCE(tx->window, xway_ringsize_window(conn));
		room = xway_tx_look(conn, sk);
	}
	tx->until = tx->prod + room;
	if (!room)
		return tx_reader_gone(conn) ||
		       test_bit(XWAY_F_BAD, &conn->flags) ? -EPIPE : -EAGAIN;
	/* Whoever waits for the lock must not wait for a user's fault handler. */
	len = min(len, room);
	pagefault_disable();
	got = xway_tx_copy(tx, msg, len);
	pagefault_enable();
	/* A message that is not there yet goes as a whole: others may send in between. */
	if (unlikely(!got || (got < len && !faulted))) {
		iov_iter_revert(&msg->msg_iter, got);
		return -XWAY_AGAIN_FAULT;
	}
	rcu_read_lock();
	seen = xway_tx_publish(conn, msg, got);
	rcu_read_unlock();
	return seen ? got : -EPIPE;
}

/**
 * xway_tx_backlog() - bytes in the ring that count as not arrived yet
 * @conn: connection
 * @sk: its socket
 *
 * The ring stands for the queues of both ends. The first half of what it may
 * hold stands for the receiver's queue: bytes there have arrived.
 *
 * Context: any.
 * Return: bytes; 0 if nobody reads the ring.
 */
u32 xway_tx_backlog(struct xway_conn *conn, const struct sock *sk)
{
	const struct xway_tx *tx = &conn->tx;
	u32 half, used;

	/* What a cut has left is neither there nor with TCP. */
	if (unlikely(READ_ONCE(tx->resend)))
		return READ_ONCE(tx->prod) - (READ_ONCE(tx->cut_known) ?
					      READ_ONCE(tx->resent) :
					      READ_ONCE(tx->cons));
	/* Asked before tx_used(), because the peer may not be there yet, and
	 * after it, because the peer may have gone: without a peer the ring
	 * counts as full.
	 */
	if (tx_reader_gone(conn))
		return 0;
	half = xway_tx_window(&conn->tx, sk) / 2;
	used = tx_used(conn);
	return used > half && !tx_reader_gone(conn) ? used - half : 0;
}

/*
 * Is half of the window free? Yes also if the reader is gone: a call then tells
 * what happened.
 */
static bool tx_half_free(struct xway_conn *conn, u32 window)
{
	return tx_used(conn) <= window / 2 || tx_reader_gone(conn);
}

/**
 * xway_tx_writeable() - does poll() say that the ring takes bytes?
 * @conn: connection whose sending direction is on the ring
 * @sk: its socket
 *
 * If less than half of the window is free, this asks for an event, which comes
 * when half of it is.
 *
 * Context: any but hard interrupt; the socket need not be locked.
 * Return: true if half of the window is free, or nobody reads the ring.
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
			/* The peer may have passed the index before it was
			 * stored. The index may have replaced the request of
			 * another task, which sleeps, and which the peer has
			 * passed since: wake all.
			 */
			xway_conn_queue(conn);
			return true;
		}
		/* If another sender went on meanwhile, the peer may have passed
		 * the index that was asked for though there is still no room:
		 * ask again.
		 */
	} while (READ_ONCE(conn->tx.prod) != prod);
	if (window == READ_ONCE(conn->tx.window))
		xway_ringsize_full(conn);
	/* A sender that waits has set SOCK_NOSPACE before: pairs with
	 * conn_check_wait(), which clears the bit and then looks for one.
	 */
	if (!test_bit(XWAY_F_WAITING, &conn->flags) &&
	    !test_and_set_bit(XWAY_F_WAITING, &conn->flags))
		xway_conn_waits(conn, sk);
	return false;
}

/*
 * A sum that changes whenever the peer's program reads bytes of the ring or of
 * TCP.
 */
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

/*
 * TCP would make the sender wait, too: its buffer is full of bytes that were
 * not delivered.
 */
static bool tcp_full(const struct sock *sk)
{
	return tcp_sk(sk)->snd_una != tcp_sk(sk)->write_seq &&
	       sk->sk_wmem_queued >= READ_ONCE(sk->sk_sndbuf);
}

/**
 * xway_tx_stalled() - does a sender wait for room in vain?
 * @conn: connection
 * @sk: its socket, locked
 * @waited: set, if the result is true, to jiffies since this was first true or
 *	the peer last read something
 *
 * Context: process.
 * Return: true if a sender waits for room.
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
