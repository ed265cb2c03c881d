// SPDX-License-Identifier: GPL-2.0
/* Receiving from an attached socket: recvmsg, and whether it would wait. */
#include <linux/pagemap.h>
#include <net/busy_poll.h>
#include <net/tcp.h>

#include "calls.h"
#include "handshake.h"
#include "conn.h"
#include "attach.h"

/* Bytes of the user's memory to fault in before reading is tried again */
#define FAULT_IN (256 * 1024)

/* Times in a row that faulted-in memory may be gone again before it is used */
#define FAULTS_MAX 64

/* Turns in which rx_once() may learn of the peer's switches */
#define TURNS_MAX 16

/*
 * Take the socket's error, as TCP does, under its lock: who sends looks for an error and takes it
 * in two steps, and so does this.
 */
static noinline int rx_error(struct sock *sk)
{
	int err;

	lock_sock(sk);
	err = sock_error(sk);
	release_sock(sk);
	return err;
}

/* See rx_end(). Out of line, as most reads find that more may come. */
static noinline int rx_end_how(struct xway_conn *conn, struct sock *sk)
{
	int err;

	if (sock_flag(sk, SOCK_DONE))
		return 0;
	err = READ_ONCE(sk->sk_err) ? rx_error(sk) : 0;
	if (err)
		return err;
	if (!(READ_ONCE(sk->sk_shutdown) & RCV_SHUTDOWN) &&
	    READ_ONCE(sk->sk_state) != TCP_CLOSE)
		return -EAGAIN;
	/* The socket is not locked. A reset stores sk_err before these two:
	 * pairs with the barrier in tcp_reset(), or where the kernel has that
	 * one in tcp_done_with_error().
	 */
	smp_rmb();
	if (sock_flag(sk, SOCK_DONE))
		return 0;
	err = READ_ONCE(sk->sk_err) ? rx_error(sk) : 0;
	if (err)
		return err;
	if (READ_ONCE(sk->sk_shutdown) & RCV_SHUTDOWN)
		return 0;
	/* connect(), in another task, has attached the socket and is about to store its state;
	 * or all of it went by since the state was read.
	 */
	if (!READ_ONCE(conn->established))
		return -ENOTCONN;
	/* Pairs with the release by which TCP stores ESTABLISHED after that. */
	smp_rmb();
	if (READ_ONCE(sk->sk_state) != TCP_CLOSE)
		return -EAGAIN;
	/* The socket was disconnected, which detaches it first. Or the error of a reset was
	 * consumed by the sending direction, and the socket is about to be shut.
	 */
	smp_rmb();
	return test_bit(XWAY_F_DETACHED, &conn->flags) ? -ENOTCONN : 0;
}

/*
 * What TCP's own recvmsg returns if it has no bytes: 0, an error, or -EAGAIN to
 * wait. rx.lock is held.
 */
static int rx_end(struct xway_conn *conn, struct sock *sk)
{
	if (likely(!sock_flag(sk, SOCK_DONE) && !READ_ONCE(sk->sk_err) &&
		   !(READ_ONCE(sk->sk_shutdown) & RCV_SHUTDOWN) &&
		   READ_ONCE(sk->sk_state) != TCP_CLOSE))
		return -EAGAIN;
	return rx_end_how(conn, sk);
}

static bool rx_inq_wanted(const struct sock *sk, const struct msghdr *msg)
{
	return msg->msg_get_inq || tcp_sk(sk)->recvmsg_inq;
}

/*
 * Read from TCP. Page faults are off: a user's fault handler must not keep
 * rx.lock, for which the link's end waits. TCP_INQ has one answer for the whole
 * call, which is ours at its end. TCP's answer is removed here.
 */
static int rx_base(struct xway_conn *conn, struct sock *sk, struct msghdr *msg,
		   size_t len, int flags)
{
	void *control = msg->msg_control;
	size_t room = msg->msg_controllen, used, last;
	bool asked = msg->msg_get_inq;
	int ret;

	flags = (flags & ~MSG_WAITALL) | MSG_DONTWAIT;
	pagefault_disable();
	ret = xway_base_recvmsg(conn->base_prot, sk, msg, len, flags);
	pagefault_enable();
	/* Checked afterwards, because the option may be set during the call. */
	if (rx_inq_wanted(sk, msg)) {
		used = room - msg->msg_controllen;
		last = tcp_sk(sk)->recvmsg_inq ? CMSG_SPACE(sizeof(int)) : 0;
		/* A time stamp comes before it and stays. */
		used = used > last && !(flags & MSG_CMSG_COMPAT) ?
			used - last : 0;
		msg->msg_control = control + used;
		msg->msg_controllen = room - used;
		msg->msg_get_inq = asked;
	}
	return ret == -EFAULT ? -XWAY_AGAIN_FAULT : ret;
}

/*
 * Stamp bytes that came by ring. Nobody notes when bytes arrive there. So a
 * connection whose program asks for time stamps falls back, but these bytes are
 * read before. They came no later than now.
 *
 * @room: msg_controllen before the call. If it is less now, TCP has put a
 *	stamp.
 */
static void rx_stamp(struct sock *sk, struct msghdr *msg, size_t room)
{
	struct sk_buff *skb;

	if (likely(!xway_rx_stamps(sk)) || msg->msg_controllen != room)
		return;
	skb = alloc_skb(0, GFP_KERNEL);
	if (!skb)
		return;
	skb->tstamp = ktime_get_real();
	sock_recv_timestamp(msg, sk, skb);
	consume_skb(skb);
}

/**
 * xway_rx_unread() - unread bytes, as TCP counts them for TCP_CM_INQ
 * @conn: the socket's connection
 * @sk: the socket
 *
 * Context: process, may sleep.
 * Return: bytes of TCP and of the ring.
 */
u32 xway_rx_unread(struct xway_conn *conn, const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 n;

	/* Bytes move from the ring to TCP under this lock. */
	mutex_lock(&conn->rx.lock);
	n = xway_rx_inq(conn, sk,
			READ_ONCE(tp->rcv_nxt) - READ_ONCE(tp->copied_seq));
	mutex_unlock(&conn->rx.lock);
	return n;
}

static void rx_inq(struct xway_conn *conn, struct sock *sk, struct msghdr *msg)
{
	int inq = xway_rx_unread(conn, sk);

	/* As TCP does: the program reads on, to the end. */
	if (!inq && sock_flag(sk, SOCK_DONE))
		inq = 1;
	if (tcp_sk(sk)->recvmsg_inq)
		put_cmsg(msg, SOL_TCP, TCP_CM_INQ, sizeof(inq), &inq);
	msg->msg_inq = inq;
}

/* A read that has bytes ends before the urgent byte, as TCP's does. */
static bool rx_at_urgent(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return unlikely(READ_ONCE(tp->urg_data)) &&
	       READ_ONCE(tp->urg_seq) == READ_ONCE(tp->copied_seq);
}

/*
 * Peek on, past a ring stretch, into the TCP stretch after it. @end: sequence
 * number up to which it may be read.
 */
static int rx_peek_tcp(struct xway_conn *conn, struct sock *sk,
		       struct msghdr *msg, size_t len, int flags, u32 end)
{
	const struct xway_rx *rx = &conn->rx;
	int ret;

	if (rx->seen - rx->gen == 2)
		end = rx->mark[rx->gen & 1].seq;
	end -= READ_ONCE(tcp_sk(sk)->copied_seq);
	if ((s32)end <= 0 || rx_at_urgent(sk))
		return 0;
	ret = rx_base(conn, sk, msg, min_t(size_t, len, end), flags);
	xway_keep_error(sk, ret);
	return max(ret, 0);
}

/*
 * Peek at what TCP's queue has from sequence number @seq up to @end. The socket is
 * locked, and page faults are off.
 */
static int rx_peek_queue(struct sock *sk, struct msghdr *msg, size_t len,
			 int flags, u32 seq, u32 end)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct sk_buff *skb;
	u32 done = 0;

	/* A call that has bytes ends before the urgent byte. */
	if (unlikely(tp->urg_data) && !before(tp->urg_seq, seq) && before(tp->urg_seq, end))
		end = tp->urg_seq;
	len = min_t(size_t, len, end - seq);
	skb_queue_walk(&sk->sk_receive_queue, skb) {
		u32 at = seq + done - TCP_SKB_CB(skb)->seq, n;

		if (done == len || (s32)at < 0)
			break;
		if (at >= skb->len)
			continue;
		n = min_t(u32, skb->len - at, len - done);
		if (!(flags & MSG_TRUNC) && skb_copy_datagram_msg(skb, at, msg, n))
			break;
		done += n;
	}
	return done;
}

/*
 * Peek on, past a whole ring stretch that follows a TCP stretch, into the TCP stretch
 * after it. TCP's own peek begins with what is before the ring stretch. @end: sequence
 * number up to which it may be read.
 */
static int rx_peek_behind(struct xway_conn *conn, struct sock *sk,
			  struct msghdr *msg, size_t len, int flags, u32 end)
{
	u32 seq = conn->rx.mark[(conn->rx.gen + 1) & 1].seq;
	int ret;

	if (!after(end, seq))
		return 0;
	lock_sock(sk);
	pagefault_disable();
	ret = rx_peek_queue(sk, msg, len, flags, seq, end);
	pagefault_enable();
	release_sock(sk);
	return ret;
}

/*
 * A peek has got all of the TCP stretch. Peek on into what follows. Out of line, because
 * usual reads pay for what is inline. @end: as for rx_peek_behind()
 */
static noinline int rx_peek_on(struct xway_conn *conn, struct sock *sk,
			       struct msghdr *msg, size_t len, int flags, u32 end)
{
	const struct xway_rx *rx = &conn->rx;
	u32 ret = xway_rx_peek_next(conn, msg, len, flags);

	if (rx->seen - rx->gen == 2 && ret < len &&
	    ret == rx->mark[rx->gen & 1].idx - rx->cons)
		ret += rx_peek_behind(conn, sk, msg, len - ret, flags, end);
	return ret;
}

/*
 * Read once from where the stream is. The call has @copied bytes already.
 * rx.lock is held, so that deciding and reading are one step.
 *
 * Return: bytes; 0 if the call must end; -EAGAIN if there is nothing yet;
 * -XWAY_AGAIN_FAULT; or the socket's error.
 */
static int rx_once(struct xway_conn *conn, struct sock *sk, struct msghdr *msg,
		   size_t len, int copied, int flags)
{
	struct xway_rx *rx = &conn->rx;
	const struct tcp_sock *tp = tcp_sk(sk);
	/* Does a peek go on in the next stretch? Not with SO_PEEK_OFF: TCP
	 * would skip the offset once more.
	 */
	bool on = (flags & MSG_PEEK) && READ_ONCE(sk->sk_peek_off) < 0;
	u32 have, end, peek = 0, turns = 0;
	int ret;

	if ((flags & MSG_PEEK) && sk_peek_offset(sk, flags) > 0)
		peek = sk_peek_offset(sk, flags);
again:
	/* An honest peer needs only a few turns for its marks. */
	if (++turns > TURNS_MAX)
		xway_conn_bad(conn);
	if (test_bit(XWAY_F_BAD, &conn->flags))
		return rx->spilled ? rx_end(conn, sk) : -ECONNRESET;
	/* rcv_nxt before the marks. What TCP has by now was sent before any
	 * switch that is not seen here, so it may be read. Later bytes may come
	 * after such a switch.
	 */
	have = READ_ONCE(tp->rcv_nxt);
	/* Pairs with the release in tx_mark() at the peer. */
	smp_rmb();
	xway_rx_update(conn);
	if (xway_rx_advance(conn, sk))
		goto again;
	if (rx->gen & 1) {
		/* A read of 0 bytes waits for data, too. */
		if (!len && xway_rx_avail(conn))
			return 0;
		ret = xway_rx_ring(conn, msg, len, flags, peek);
		if (ret > 0 && (flags & MSG_PEEK))
			sk_peek_offset_fwd(sk, ret);
		else if (ret > 0)
			sk_peek_offset_bwd(sk, ret);
		if (ret > 0 && on && rx->seen != rx->gen &&
		    ret < len && ret == xway_rx_avail(conn))
			ret += rx_peek_tcp(conn, sk, msg, len - ret, flags,
					   have);
		if (ret)
			return ret;
		if (xway_rx_advance(conn, sk))
			goto again;
		ret = rx_end(conn, sk);
		/* The peer stored its last bytes before it sent FIN or RST:
		 * pairs with the full barrier in xway_ring_publish() there.
		 */
		smp_rmb();
		if (ret != -EAGAIN && xway_rx_avail(conn) > peek) {
			xway_keep_error(sk, ret);
			goto again;
		}
		if (ret != -EAGAIN && READ_ONCE(rx->seen) == rx->gen) {
			xway_rx_update(conn);
			if (rx->seen != rx->gen) {
				xway_keep_error(sk, ret);
				goto again;
			}
		}
		return ret;
	}
	end = have;
	if (rx->seen != rx->gen)
		have = rx->mark[(rx->gen + 1) & 1].seq;
	have -= READ_ONCE(tp->copied_seq);
	if (copied && rx_at_urgent(sk))
		return 0;
	if ((s32)have > 0) {
		ret = rx_base(conn, sk, msg, min_t(size_t, len, have), flags);
		if (ret > 0 && !(flags & MSG_PEEK))
			rx->tcp_bytes += ret;
		else if (ret > 0 && ret == have && on)
			ret += rx_peek_on(conn, sk, msg, len - ret, flags, end);
		return ret;
	}
	ret = rx_end(conn, sk);
	/* The end before rcv_nxt. TCP stores rcv_nxt first, without a write
	 * barrier; x86 keeps the order of stores.
	 */
	smp_rmb();
	if (ret != -EAGAIN && after(READ_ONCE(tp->rcv_nxt), READ_ONCE(tp->copied_seq))) {
		xway_keep_error(sk, ret);
		goto again;
	}
	return ret;
}

/* Is there a reason not to wait for bytes? */
static bool rx_ended(struct xway_conn *conn, struct sock *sk)
{
	return READ_ONCE(sk->sk_err) ||
	       (READ_ONCE(sk->sk_shutdown) & RCV_SHUTDOWN) ||
	       READ_ONCE(sk->sk_state) == TCP_CLOSE ||
	       sock_flag(sk, SOCK_DONE) ||
	       test_bit(XWAY_F_DETACHED, &conn->flags);
}

/* Does anybody wait for the socket, or want signals or calls? Makes a full barrier. */
static bool rx_watched(const struct xway_conn *conn, struct sock *sk)
{
	bool ret;

	rcu_read_lock();
	ret = skwq_has_sleeper(rcu_dereference(sk->sk_wq)) ||
	      sock_flag(sk, SOCK_FASYNC) || xway_conn_inside(conn);
	rcu_read_unlock();
	return ret;
}

/* Tell those who watch the socket that there are bytes. */
static void rx_tell(struct xway_conn *conn, struct sock *sk)
{
	if (xway_conn_inside(conn)) {
		xway_reader_tell(conn, sk);
		return;
	}
	local_bh_disable();
	xway_base_data_ready(sk);
	local_bh_enable();
}

/*
 * SO_BUSY_POLL, net.core.busy_read: look for bytes for a while before sleeping.
 * The peer sends no event meanwhile if nobody else waits. Return: is there
 * something to read?
 */
static bool rx_spin(struct xway_conn *conn, struct sock *sk)
{
	unsigned long start;

	if (!sk_can_busy_loop(sk))
		return false;
	start = busy_loop_current_time();
	xway_rx_disarm(conn);
	/* A task that fell asleep before the disarm has lost its request for an
	 * event: make it again. A task that falls asleep later makes its own.
	 */
	if (rx_watched(conn, sk)) {
		xway_rx_arm(conn, sk);
		if (xway_rx_readable(conn, sk, true))
			rx_tell(conn, sk);
	}
	do {
		if (xway_rx_readable(conn, sk, true))
			return true;
		if (rx_ended(conn, sk))
			break;
		cpu_relax();
	} while (!need_resched() && !signal_pending(current) &&
		 !sk_busy_loop_timeout(sk, start));
	return false;
}

/**
 * xway_woken() - woken_wake_function() of those who wait in calls of ours
 * @wait: entry of the wait queue
 * @mode: of tasks to wake
 * @sync: flags of the waker
 * @key: events
 *
 * It tells them from those who wait in TCP's: see adopt.c.
 *
 * Context: any, the wait queue's lock held.
 * Return: as woken_wake_function().
 */
int xway_woken(struct wait_queue_entry *wait, unsigned int mode, int sync, void *key)
{
	return woken_wake_function(wait, mode, sync, key);
}

/*
 * Sleep until there may be something to read. Return: 0; -EPIPE, as TCP does,
 * if the socket was disconnected meanwhile.
 */
static int rx_wait(struct xway_conn *conn, struct sock *sk, long *timeo)
{
	DEFINE_WAIT_FUNC(wait, xway_woken);
	int disconnects = READ_ONCE(sk->sk_disconnects);

	if (rx_spin(conn, sk))
		return 0;
	add_wait_queue(sk_sleep(sk), &wait);
	sk_set_bit(SOCKWQ_ASYNC_WAITDATA, sk);
	xway_rx_arm(conn, sk);
	if (!xway_rx_readable(conn, sk, true) && !rx_ended(conn, sk))
		*timeo = wait_woken(&wait, TASK_INTERRUPTIBLE, *timeo);
	sk_clear_bit(SOCKWQ_ASYNC_WAITDATA, sk);
	remove_wait_queue(sk_sleep(sk), &wait);
	return READ_ONCE(sk->sk_disconnects) == disconnects ? 0 : -EPIPE;
}

/*
 * Sleep until more than @had bytes are unread, or no more can come. Return: as
 * rx_wait().
 */
static int rx_wait_more(struct xway_conn *conn, struct sock *sk, long *timeo,
			u32 had)
{
	DEFINE_WAIT_FUNC(wait, xway_woken);
	int disconnects = READ_ONCE(sk->sk_disconnects);

	add_wait_queue(sk_sleep(sk), &wait);
	sk_set_bit(SOCKWQ_ASYNC_WAITDATA, sk);
	while (*timeo && !signal_pending(current)) {
		u32 prod = READ_ONCE(conn->rx.prod);

		xway_rx_arm(conn, sk);
		if (xway_rx_unread(conn, sk) > had || rx_ended(conn, sk))
			break;
		/* More bytes have come than were known when the event was asked
		 * for, but another reader took some. Ask again.
		 */
		if (READ_ONCE(conn->rx.prod) != prod)
			continue;
		*timeo = wait_woken(&wait, TASK_INTERRUPTIBLE, *timeo);
	}
	sk_clear_bit(SOCKWQ_ASYNC_WAITDATA, sk);
	remove_wait_queue(sk_sleep(sk), &wait);
	if (signal_pending(current))
		*timeo = 0;
	return READ_ONCE(sk->sk_disconnects) == disconnects ? 0 : -EPIPE;
}

/*
 * TCP makes a new edge for every arrival. So before the call ends, ask for an
 * event at the next byte if anybody watches the socket. If bytes came since the
 * call saw @prod, make the edge here.
 */
static void rx_rearm(struct xway_conn *conn, struct sock *sk, u32 prod)
{
	bool more;

	if (conn->state == XWAY_CONN_TCP || !rx_watched(conn, sk))
		return;
	xway_rx_arm(conn, sk);
	mutex_lock(&conn->rx.lock);
	xway_rx_avail(conn);
	more = conn->rx.prod != prod;
	mutex_unlock(&conn->rx.lock);
	if (more) {
		xway_rx_arm(conn, sk);
		/* Another reader may have taken them. */
		if (xway_rx_readable(conn, sk, true))
			rx_tell(conn, sk);
	}
}

/*
 * All bytes that came by ring are read: finish a fallback or a park. rx.lock is
 * held.
 */
static void rx_finish(struct xway_conn *conn, struct sock *sk)
{
	if (!test_bit(XWAY_F_FALLBACK, &conn->flags) ||
	    READ_ONCE(conn->state) != XWAY_CONN_TCP || !xway_rx_done(conn) ||
	    (test_bit(XWAY_F_PARK, &conn->flags) && xway_rx_requeued(conn, sk)))
		return;
	lock_sock(sk);
	/* What a cut has left to send is the helper's, which detaches then. Nor is a connection
	 * detached that is being reset: xway_disconnect() would not know.
	 */
	if (conn->sk == sk && !conn->tx.resend && !test_bit(XWAY_F_ABORTING, &conn->flags) &&
	    !xway_detach_or_park(conn, sk))
		xway_conn_queue(conn);	/* tries again until there is memory */
	release_sock(sk);
}

/*
 * Have the user's memory there for all that a peek may find. No more: a program may
 * peek with a buffer that it does not expect to fill.
 */
static noinline void rx_peek_fault_in(struct xway_conn *conn, const struct sock *sk,
				      struct msghdr *msg, size_t len)
{
	if (len > FAULT_IN)
		len = clamp_t(size_t, xway_rx_unread(conn, sk), FAULT_IN, len);
	fault_in_iov_iter_writeable(&msg->msg_iter, len);
}

/*
 * @held: the connection, with the caller's reference. It is exchanged for the
 *	fresh one if the connection parks during the call.
 */
static int do_recvmsg(struct xway_conn **held, struct sock *sk,
		      struct msghdr *msg, size_t len, int flags)
{
	struct xway_conn *conn = *held;
	long timeo = sock_rcvtimeo(sk, flags & MSG_DONTWAIT);
	int target = sock_rcvlowat(sk, flags & MSG_WAITALL, len);
	size_t most = SIZE_MAX;
	struct iov_iter start = msg->msg_iter;
	size_t room = msg->msg_controllen;
	int copied = 0, peeked = 0, faults = 0, ret;
	u32 prod = READ_ONCE(conn->rx.prod);
	bool looked = false, last = false;
	int disconnects = READ_ONCE(sk->sk_disconnects);

	/* A peek that finds memory missing in its middle does not try again. */
	if ((flags & (MSG_PEEK | MSG_TRUNC)) == MSG_PEEK)
		rx_peek_fault_in(conn, sk, msg, len);

	for (;;) {
		mutex_lock(&conn->rx.lock);
		if (test_bit(XWAY_F_DETACHED, &conn->flags)) {
			mutex_unlock(&conn->rx.lock);
			/* What follows is another connection's. */
			if (copied && READ_ONCE(sk->sk_disconnects) != disconnects)
				break;
			*held = xway_attached_again(conn, sk);
			if (*held != conn) {
				conn = *held;
				peeked = 0;
				last = false;
				continue;
			}
			if (!copied && timeo && xway_restart(sk))
				return -ERESTARTSYS;
			if (copied && rx_at_urgent(sk))
				break;
			/* TCP has what follows. MSG_WAITALL waits on there, and
			 * keeps the module meanwhile. Without it the call must
			 * not wait: TCP would wait for all of SO_RCVLOWAT once
			 * more.
			 */
			if (copied && (copied >= target || !(flags & MSG_WAITALL)))
				flags |= MSG_DONTWAIT;
			ret = xway_base_recvmsg(conn->base_prot, sk, msg,
						len - copied, flags);
			if (!copied) {
				if (ret > 0)
					rx_stamp(sk, msg, room);
				return ret;
			}
			xway_keep_error(sk, ret);
			if (ret < 0)
				break;	/* TCP has not told what is unread */
			rx_stamp(sk, msg, room);
			return copied + ret;
		}
		ret = rx_once(conn, sk, msg, min(most, len - copied), copied,
			      flags);
		most = SIZE_MAX;
		prod = conn->rx.prod;
		if (ret >= 0 || ret == -EAGAIN)
			rx_finish(conn, sk);
		mutex_unlock(&conn->rx.lock);

		if (ret == -XWAY_AGAIN_FAULT) {
			/* TCP copies a buffer whole or not at all. */
			most = min_t(size_t, len - copied, FAULT_IN);
			most -= fault_in_iov_iter_writeable(&msg->msg_iter,
							    most);
			if (most && ++faults < FAULTS_MAX)
				continue;
			copied = copied ?: -EFAULT;
			break;
		}
		if (ret > 0) {
			looked = false;
			faults = 0;
			copied += ret;
			if (copied == len)
				break;
			if (!(flags & MSG_PEEK)) {
				/* It may go on for long: MSG_WAITALL, or a fast sender. */
				if (unlikely(copied >= XWAY_WORTH_BYTES))
					xway_conn_want(conn);
				continue;
			}
			/* MSG_WAITALL: once there is more, peek again from the
			 * first byte. If that shows no more, the rest is past
			 * an urgent byte.
			 */
			if (copied >= target || copied == peeked || last ||
			    READ_ONCE(sk->sk_peek_off) >= 0)
				break;
			if (rx_wait_more(conn, sk, &timeo, copied))
				break;
			last = !timeo || rx_ended(conn, sk);
			peeked = copied;
			copied = 0;
			msg->msg_iter = start;
			continue;
		}
		if (ret != -EAGAIN) {
			/* If bytes were read, the error waits for the next call. */
			if (copied)
				xway_keep_error(sk, ret);
			else
				copied = ret;
			break;
		}
		if (copied >= target)
			break;
		if (!timeo) {
			/* Ask for an event, then look once more: EAGAIN
			 * promises an edge.
			 */
			xway_rx_arm(conn, sk);
			if (!looked && xway_rx_readable(conn, sk, false)) {
				looked = true;
				continue;
			}
			/* Another reader may have taken what was peeked. */
			copied = copied ?: peeked ?: -EAGAIN;
			break;
		}
		if (signal_pending(current)) {
			copied = copied ?: sock_intr_errno(timeo);
			break;
		}
		ret = rx_wait(conn, sk, &timeo);
		if (ret) {
			copied = copied ?: ret;
			break;
		}
	}
	if (copied > 0)
		rx_stamp(sk, msg, room);
	if (copied >= 0 && rx_inq_wanted(sk, msg))
		rx_inq(conn, sk, msg);
	if (copied > 0)
		rx_rearm(conn, sk, prod);
	return copied;
}

/**
 * xway_recvmsg() - recvmsg of our struct proto
 * @sk: a socket that is attached, or was a moment ago
 * @msg: where to
 * @len: at most so many bytes
 * @flags: MSG_*
 *
 * Context: process, may sleep; the socket is not locked.
 * Return: bytes; 0 at the end of the stream; or a negative errno.
 */
int xway_recvmsg(struct sock *sk, struct msghdr *msg, size_t len, int flags)
{
	struct xway_conn *conn = xway_attached(sk);
	int ret;

	if (!conn) {
		if (!(flags & MSG_DONTWAIT) && xway_restart(sk))
			return -ERESTARTSYS;
		xway_stray_enter();
		ret = xway_base_recvmsg(xway_base_of(sk), sk, msg, len, flags);
		xway_stray_leave();
		return ret;
	}
	if (unlikely((flags & (MSG_ERRQUEUE | MSG_OOB)) ||
		     tcp_sk(sk)->repair)) {
		ret = xway_base_recvmsg(conn->base_prot, sk, msg, len, flags);
	} else {
		if (sock_flag(sk, SOCK_RCVTSTAMP) || READ_ONCE(sk->sk_tsflags))
			xway_conn_fallback(conn, XWAY_R_TIMESTAMP);
		ret = do_recvmsg(&conn, sk, msg, len, flags);
		xway_conn_want(conn);
	}
	xway_conn_put(conn);
	return ret;
}

/**
 * xway_sock_is_readable() - for poll(): can bytes of the ring be read?
 * @sk: a socket that is attached, or was a moment ago
 *
 * Asks for an event at the next byte, too.
 *
 * Context: process or softirq; no lock is held.
 * Return: false also if there are fewer than SO_RCVLOWAT.
 */
bool xway_sock_is_readable(struct sock *sk)
{
	struct xway_conn *conn;
	bool ret = false;

	rcu_read_lock();
	conn = xway_attached_rcu(sk);
	if (conn) {
		xway_rx_arm(conn, sk);
		ret = xway_rx_readable(conn, sk, false) &&
		      !xway_rx_low(conn, sk);
	}
	rcu_read_unlock();
	return ret;
}
