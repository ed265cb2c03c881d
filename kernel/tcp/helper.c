// SPDX-License-Identifier: GPL-2.0
/*
 * The helper: the work item of a connection. It opens and closes the channel, and has
 * the connection leave the ring. The paper (XWAY, VEE 2008) calls the two parts of that
 * work helper and cleaner.
 */
#include <linux/sched/mm.h>
#include <net/tcp.h>

#include "attach.h"
#include "conn.h"
#include "handshake.h"
#include "ipsec.h"
#include "ringsize.h"

/*
 * Jiffies after which a fallback that could not end is tried again, at first
 * and at most. Tries become rare because a peer can announce TCP bytes that
 * never come.
 */
#define RETRY (HZ / 10)
#define RETRY_MAX (3 * HZ)

/*
 * Jiffies after which a connection parks if its ring is full and nobody reads:
 * TCP has room for more unread bytes than a ring. See stall_limit().
 */
#define STALL HZ

/*
 * The same if that was so before and each end waits for the other to read: it is
 * soon believed again.
 */
#define STALL_AGAIN max(HZ / 50, 1)

/*
 * Jiffies after which a fallback cuts the peer's direction, if the peer has not fallen
 * back: it is paused or slow. Less than the core's DRAIN, which is for all that follows.
 */
#define CUT (3 * HZ)

/* Have the helper look after @delay jiffies, or earlier if it is queued already. */
static void conn_queue_in(struct xway_conn *conn, unsigned long delay)
{
	xway_conn_get(conn);
	if (!queue_delayed_work(xway_conn_wq, &conn->work, delay))
		xway_conn_put(conn);
}

/*
 * Try a fallback again, each time after twice as long. Looks of the helper for
 * other reasons do not lengthen that time.
 */
static void conn_retry(struct xway_conn *conn)
{
	if (!time_before(jiffies, conn->retry_at)) {
		conn->retry_in = clamp_t(unsigned long, 2 * conn->retry_in,
					 RETRY, RETRY_MAX);
		conn->retry_at = jiffies + conn->retry_in;
	}
	set_bit(XWAY_F_RETRY, &conn->flags);
	conn_queue_in(conn, conn->retry_at - jiffies);
}

/*
 * Detach a socket that nobody has accepted yet. lock_sock() is forbidden here:
 * inet_csk_listen_stop() insists that nobody owns such a child.
 */
static bool conn_detach_unaccepted(struct xway_conn *conn, struct sock *sk)
{
	bool unaccepted;

	local_bh_disable();
	bh_lock_sock(sk);
	unaccepted = !sk->sk_socket && !sock_owned_by_user(sk);
	if (unaccepted && conn->sk == sk)
		xway_detach(conn, sk);
	bh_unlock_sock(sk);
	local_bh_enable();
	return unaccepted;
}

/*
 * lock_sock() for the helper, which waits for nobody: a program's call keeps the lock until a
 * page fault of its has ended, and helpers that wait would keep those of others from running.
 * Return: false if somebody has the lock; the helper runs again when that one releases it, or in
 * a second, if the socket has other functions by then.
 */
static bool conn_lock(struct xway_conn *conn, struct sock *sk)
{
	bool owned;

	spin_lock_bh(&sk->sk_lock.slock);
	owned = sock_owned_by_user_nocheck(sk);
	if (owned)
		set_bit(XWAY_F_LATER, &conn->flags);	/* for xway_release_cb() */
	else
		sk->sk_lock.owned = 1;
	spin_unlock_bh(&sk->sk_lock.slock);
	if (owned)
		conn_queue_in(conn, HZ);
	else
		mutex_acquire(&sk->sk_lock.dep_map, 0, 1, _RET_IP_);
	return !owned;
}

/* Does nobody have the lock? If so, it is free for a moment; as conn_lock() else. */
static bool conn_is_free(struct xway_conn *conn, struct sock *sk)
{
	bool free = conn_lock(conn, sk);

	if (free)
		release_sock(sk);
	return free;
}

/**
 * xway_conn_reset() - reset a connection, unless the socket has a fresh one by now
 * @conn: connection
 * @sk: its socket
 * @err: what its user gets to see, a positive errno
 *
 * tcp_abort() takes the lock by itself, so the socket gets no fresh one before that has ended:
 * xway_disconnect() waits.
 *
 * Context: process, may sleep; the socket is not locked.
 */
void xway_conn_reset(struct xway_conn *conn, struct sock *sk, int err)
{
	bool mine;

	/* The helper and the end of a link may both be here. */
	wait_on_bit_lock(&conn->flags, XWAY_F_ABORTING, TASK_UNINTERRUPTIBLE);
	lock_sock(sk);
	/* One that was reset is not reset again. */
	mine = conn->sk == sk && sk->sk_state != TCP_CLOSE;
	release_sock(sk);
	if (mine)
		tcp_abort(sk, err);
	lock_sock(sk);
	if (conn->sk == sk)
		xway_tx_discard(conn);
	release_sock(sk);
	clear_and_wake_up_bit(XWAY_F_ABORTING, &conn->flags);
}

/*
 * A user inside the kernel has read past the place of bytes that were still to
 * come. So nothing more may be read but the error. The socket is locked; the
 * caller resets the connection.
 */
static void conn_lost(struct xway_conn *conn, struct sock *sk)
{
	xway_rx_discard(conn);
	__skb_queue_purge(&sk->sk_receive_queue);
	WRITE_ONCE(tcp_sk(sk)->copied_seq, tcp_sk(sk)->rcv_nxt);
	sock_reset_flag(sk, SOCK_DONE);
	if (sk->sk_state == TCP_CLOSE)
		WRITE_ONCE(sk->sk_err, ECONNRESET);
}

/**
 * xway_conn_words() - how the own words say that a connection falls back or parks
 * @conn: connection
 *
 * If sockets are turned off here, they may be turned on again: the peer parks, and asks now and
 * then.
 *
 * Context: any.
 * Return: XWAY_WORDS_*
 */
u32 xway_conn_words(const struct xway_conn *conn)
{
	if (test_bit(XWAY_F_PARK, &conn->flags) || READ_ONCE(conn->reason) == XWAY_R_OFF ||
	    !xway_attach_is_on())
		return XWAY_WORDS_FALLBACK | XWAY_WORDS_PARK;
	return XWAY_WORDS_FALLBACK;
}

/**
 * xway_conn_may_cut() - does the peer know what to do if this end cuts?
 * @conn: connection
 *
 * Context: any.
 */
bool xway_conn_may_cut(const struct xway_conn *conn)
{
	return xway_link_version(conn->chan.link) >= XWAY_WIRE_CUT;
}

/*
 * The channel is open, and the peer was told to fall back. Spill what it has left in
 * its ring. If it still sends by ring after a while, cut. A connection that parks has
 * time while its link is up: it stays attached in any case. rx.lock and the socket's
 * lock are held.
 */
static void conn_spill(struct xway_conn *conn)
{
	s32 left;

	xway_rx_update(conn);
	if ((conn->rx.seen & 1) && xway_conn_may_cut(conn) &&
	    !(test_bit(XWAY_F_PARK, &conn->flags) &&
	      xway_link_is_up(conn->chan.link))) {
		if (!conn->cut_at)
			conn->cut_at = (u32)(jiffies + CUT) ?: 1;
		left = conn->cut_at - (u32)jiffies;
		/* If the peer has ended, the link ends, and so does the
		 * connection.
		 */
		if (left > 0)
			conn_queue_in(conn, left);
		else if (!xway_link_gone(conn->chan.link))
			xway_rx_cut(conn);
	}
	if (!(conn->rx.seen & 1) && !xway_rx_spill(conn, false))
		set_bit(XWAY_F_RX_CLOSED, &conn->flags);
}

/*
 * Switch sending to TCP. Once the peer sends by TCP, too, spill and requeue the
 * rest of its ring, and detach the socket or park. rx.lock is held.
 * Return: false, with nothing done, if somebody has the socket's lock.
 */
static bool conn_do_fallback(struct xway_conn *conn, struct sock *sk)
{
	enum xway_conn_state state;
	bool resent, late;
	int err;

	if (!conn_lock(conn, sk))
		return false;
	if (conn->sk != sk) {
		release_sock(sk);
		return true;
	}
	WRITE_ONCE(conn->tx.usable, false);
	xway_tx_to_tcp(conn, sk);
	resent = xway_tx_resend(conn, sk);
	if (resent)
		set_bit(XWAY_F_TX_CLOSED, &conn->flags);
	else
		conn_retry(conn);
	/* The peer has begun a cut and does not end it, for several seconds. What is
	 * to leave for good cannot wait for that.
	 */
	late = !resent && !conn->tx.cut_known && conn->retry_in == RETRY_MAX &&
	       !test_bit(XWAY_F_PARK, &conn->flags);
	if (conn->state == XWAY_CONN_OPEN && rcu_access_pointer(conn->chan.peer)) {
		rcu_read_lock();
		xway_words_flag(conn, xway_conn_words(conn));
		rcu_read_unlock();
		conn_spill(conn);
	}
	while (xway_rx_advance(conn, sk))
		;
	err = xway_rx_requeue(conn, sk);
	if (err == -EILSEQ)
		conn_lost(conn, sk);
	/* In state OPENING xway_handshake_close() gives up our half first. */
	state = READ_ONCE(conn->state);
	if (!err && resent && state != XWAY_CONN_OPEN && state != XWAY_CONN_OPENING &&
	    !test_bit(XWAY_F_BAD, &conn->flags) &&
	    !xway_detach_or_park(conn, sk))
		conn_retry(conn);
	release_sock(sk);
	if (err == -EILSEQ || err == -ETIME || late) {
		xway_conn_reset(conn, sk, ECONNRESET);
		xway_conn_queue(conn);
	}
	return true;
}

/*
 * Jiffies after which a full ring that nobody reads is left for TCP's queues. TCP_USER_TIMEOUT
 * is TCP's to count, from the first probe of a closed window, so most of it is left for that.
 */
static unsigned long stall_limit(const struct sock *sk, unsigned long usual)
{
	unsigned int ms = READ_ONCE(inet_csk(sk)->icsk_user_timeout);

	return ms ? clamp(msecs_to_jiffies(ms) / 4, 1UL, usual) : usual;
}

/* Jiffies after which the helper looks at a sender that waits */
static unsigned long look_after(const struct xway_conn *conn, const struct sock *sk)
{
	/* Its helper may count one more meanwhile: that look is early or late, no harm. */
	return stall_limit(sk, READ_ONCE(conn->stalls) ? STALL_AGAIN : STALL);
}

/**
 * xway_conn_waits() - a sender begins to wait for room in the ring
 * @conn: connection, whose XWAY_F_WAITING the caller has set
 * @sk: its socket
 *
 * The helper looks in time how long it has waited, see conn_check_wait().
 *
 * Context: any but hard interrupt.
 */
void xway_conn_waits(struct xway_conn *conn, const struct sock *sk)
{
	if (refcount_inc_not_zero(&conn->ref) &&
	    !queue_delayed_work(xway_conn_wq, &conn->work, look_after(conn, sk)))
		xway_conn_put(conn);
}

/* The ring may be full and nobody reads. Then the connection parks: TCP has room for more. */
static void conn_check_wait(struct xway_conn *conn, struct sock *sk)
{
	bool again = conn->stalls && !xway_rx_empty(conn);
	unsigned long stall = stall_limit(sk, again ? STALL_AGAIN : STALL), waited;
	bool stalled;

	clear_bit(XWAY_F_WAITING, &conn->flags);
	/* A sender that began to wait and still saw the bit set is seen below:
	 * pairs with xway_tx_writeable().
	 */
	smp_mb__after_atomic();
	if (!conn_lock(conn, sk)) {
		set_bit(XWAY_F_WAITING, &conn->flags);
		return;
	}
	stalled = conn->sk == sk && xway_tx_stalled(conn, sk, &waited);
	release_sock(sk);
	if (!stalled)
		return;
	if (waited >= stall) {
		if (xway_conn_park(conn, XWAY_R_STALLED) && conn->stalls < U8_MAX)
			WRITE_ONCE(conn->stalls, conn->stalls + 1);
	} else {
		set_bit(XWAY_F_WAITING, &conn->flags);
		conn_queue_in(conn, min(stall - waited, look_after(conn, sk)));
	}
}

/* The route is not valid any more, or IPsec has a say. rx.lock is held. */
static void conn_check_policy(struct xway_conn *conn, struct sock *sk)
{
	bool denied;

	if (!conn_lock(conn, sk))
		return;
	clear_bit(XWAY_F_POLICY, &conn->flags);
	/* Without a route the next look asks again. */
	denied = conn->sk == sk && xway_ipsec_check(sk) == -EPERM;
	release_sock(sk);
	if (denied)
		xway_conn_fallback(conn, XWAY_R_IPSEC);
}

/*
 * The peer falls back or parks: so do we, in this run of the helper. If it has closed the channel
 * before it had our answer, it has said nothing, and may ask again, as one that was turned off
 * does once it is on.
 */
static void conn_peer_fell_back(struct xway_conn *conn, u32 flags, bool closed)
{
	if (closed && !(flags & (XWAY_WORDS_OPEN | XWAY_WORDS_FALLBACK)))
		flags |= XWAY_WORDS_FALLBACK | XWAY_WORDS_PARK;
	if (!(flags & XWAY_WORDS_FALLBACK))
		return;
	if (flags & XWAY_WORDS_PARK) {
		/* It may have been turned off there, and adopts its end when that is over. */
		xway_conn_await_adoption(conn);
		if (xway_conn_set_park(conn))
			xway_conn_reason(conn, xway_link_is_up(conn->chan.link) ?
					       XWAY_R_IDLE : XWAY_R_LINK);
		return;
	}
	xway_conn_fallback(conn, XWAY_R_PEER);
}

/*
 * The peer has sent CLOSE, and takes nothing more by ring. If it has cut, bytes may be left that
 * TCP does not take yet. It says CUT before CLOSE. The socket is locked, and may have another
 * connection by now. Return: true if nothing is left to send.
 */
static bool conn_send_rest(struct xway_conn *conn, struct sock *sk)
{
	if (conn->sk != sk)
		return true;
	if (!xway_tx_resend(conn, sk) && !conn->tx.cut_known)
		xway_conn_bad(conn);
	if (conn->tx.resend)
		return false;
	xway_tx_discard(conn);
	return true;
}

/* The peer broke the protocol: nothing that it says counts any more. rx.lock is held. */
static void conn_reset_bad(struct xway_conn *conn, struct sock *sk)
{
	mutex_unlock(&conn->rx.lock);
	xway_conn_reset(conn, sk, ECONNRESET);
	mutex_lock(&conn->rx.lock);
	xway_rx_discard(conn);
	set_bit(XWAY_F_RX_CLOSED, &conn->flags);
	set_bit(XWAY_F_TX_CLOSED, &conn->flags);
}

/**
 * xway_conn_work() - the helper
 * @work: @work of the connection
 *
 * Context: process, may sleep; a work item of xway_conn_wq.
 */
void xway_conn_work(struct work_struct *work)
{
	struct xway_conn *conn = container_of(to_delayed_work(work),
					      struct xway_conn, work);
	/* Reclaim may write to a disk or a file system by this very connection. */
	unsigned int noio = memalloc_noio_save();
	bool again = test_and_clear_bit(XWAY_F_RETRY, &conn->flags);
	unsigned long flags = READ_ONCE(conn->flags);
	enum xway_conn_state state = conn->state;
	const struct xway_words *peer;
	bool closed, busy = false;
	struct sock *sk;

	if (test_and_clear_bit(XWAY_F_WANT_OPEN, &conn->flags))
		xway_handshake_open(conn);
	if (test_and_clear_bit(XWAY_F_GROW, &conn->flags) &&
	    xway_ringsize_grows(conn))
		xway_conn_park(conn, XWAY_R_GROW);

	closed = test_bit(XWAY_F_GOT_CLOSE, &conn->flags);
	/* GOT_CLOSE before the peer's flags: the peer set them before it sent
	 * CLOSE. Pairs with the release in ctl_put() at the peer.
	 */
	smp_rmb();

	mutex_lock(&conn->rx.lock);
	rcu_read_lock();
	peer = rcu_dereference(conn->chan.peer);
	if (peer)
		conn_peer_fell_back(conn, READ_ONCE(peer->flags), closed);
	rcu_read_unlock();

	sk = xway_conn_hold_sk(conn);
	if (sk && sk->sk_socket && test_bit(XWAY_F_POLICY, &conn->flags))
		conn_check_policy(conn, sk);
	if (sk && test_bit(XWAY_F_BAD, &conn->flags)) {
		busy = !conn_is_free(conn, sk);
		if (!busy)
			conn_reset_bad(conn, sk);
	} else if (sk && test_bit(XWAY_F_FALLBACK, &conn->flags) &&
		   !(!sk->sk_socket && conn_detach_unaccepted(conn, sk))) {
		busy = !conn_do_fallback(conn, sk);
	}
	/* Not before that: what a cut has left to send is known only then. */
	if (sk && closed && !busy && conn_lock(conn, sk)) {
		/* The peer has sent CLOSE. Spill what it left, so that it can
		 * free its half, however slowly the program reads.
		 */
		if (conn_send_rest(conn, sk))
			set_bit(XWAY_F_TX_CLOSED, &conn->flags);
		release_sock(sk);
		xway_rx_spill(conn, true);
		set_bit(XWAY_F_RX_CLOSED, &conn->flags);
		conn->rx.cut = false;	/* an orderly end: no byte is missing */
	}
	xway_handshake_close(conn);
	if (sk && test_bit(XWAY_F_FALLBACK, &conn->flags) &&
	    conn->state != XWAY_CONN_OPEN && READ_ONCE(conn->sk) == sk &&
	    !test_bit(XWAY_F_BAD, &conn->flags))
		conn_do_fallback(conn, sk);
	if (!again || flags != READ_ONCE(conn->flags) || state != conn->state)
		xway_conn_wake(conn);
	/* TCP bytes from before the ring's are under way, or memory is short. */
	if (sk && READ_ONCE(conn->sk) == sk && conn->rx.spilled &&
	    test_bit(XWAY_F_FALLBACK, &conn->flags) && !xway_rx_done(conn))
		conn_retry(conn);
	/* The peer may have run again since timeout.c looked. */
	if (sk && test_bit(XWAY_F_TIMED_OUT, &conn->flags) && conn_is_free(conn, sk) &&
	    test_and_clear_bit(XWAY_F_TIMED_OUT, &conn->flags) &&
	    READ_ONCE(conn->silent) && !xway_tx_empty(conn))
		xway_conn_reset(conn, sk, ETIMEDOUT);
	else if (sk && test_bit(XWAY_F_WAITING, &conn->flags))
		conn_check_wait(conn, sk);
	mutex_unlock(&conn->rx.lock);
	if (sk)
		sock_put(sk);
	xway_conn_put(conn);
	memalloc_noio_restore(noio);
}
