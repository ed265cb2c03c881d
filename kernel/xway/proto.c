// SPDX-License-Identifier: GPL-2.0
/*
 * The protocol: what the calls of a held socket do instead of TCP's own.
 *
 * Each call takes a reference on the connection and works on whichever of ring
 * and TCP the stream is on. A call that finds the socket given back meanwhile
 * goes to TCP; if it has not moved a byte it does so by restarting the system
 * call, so that no sleeper keeps the module's text.
 */
#include <asm/ioctls.h>
#include <linux/net.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/splice.h>
#include <linux/sockios.h>
#include <linux/wait_bit.h>
#include <net/inet_common.h>
#include <net/tcp.h>
#include <net/transp_v6.h>

#define _XWAY_PROTO_COMPAT
#include "compat.h"
#include "channel.h"
#include "conn.h"
#include "link.h"
#include "proto.h"
#include "switch.h"

/* While a channel may come, TCP gets a long send() in pieces of this size. */
#define TCP_PIECE 65536

/* Bytes of the user's memory to fault in before reading is tried again */
#define FAULT_IN (256 * 1024)

/* Turns in which a reader may learn of its peer's switches */
#define TURNS_MAX 16

enum { V4, V6, FAMILIES };

static struct proto prots[FAMILIES];
static struct proto_ops ops[FAMILIES];
static const struct proto_ops *base_ops[FAMILIES];

/*
 * Calls that entered through our tables after the socket was given back. They
 * have no connection to hold, and exit waits for them.
 */
static atomic_t strays = ATOMIC_INIT(0);

static void stray_enter(void)
{
	atomic_inc(&strays);
}

static void stray_leave(void)
{
	if (atomic_dec_and_test(&strays))
		wake_up_var(&strays);
}

static struct proto *base_of(const struct sock *sk)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6)
		return &tcpv6_prot;
#endif
	return &tcp_prot;
}

static int family_of(const struct sock *sk)
{
	return sk->sk_family == AF_INET6 ? V6 : V4;
}

bool xway_proto_is_base(const struct proto *prot)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (prot == &tcpv6_prot)
		return true;
#endif
	return prot == &tcp_prot;
}

struct proto *xway_proto_of(const struct sock *sk)
{
	return &prots[family_of(sk)];
}

/* Swap sock->ops for ours if it is the table we copied. Socket locked. */
void xway_proto_take_ops(struct sock *sk)
{
	int f = family_of(sk);
	struct socket *sock = sk->sk_socket;

	if (READ_ONCE(sock->ops) == base_ops[f])
		WRITE_ONCE(sock->ops, &ops[f]);
}

void xway_proto_give_ops(struct sock *sk)
{
	int f = family_of(sk);
	struct socket *sock = sk->sk_socket;

	if (READ_ONCE(sock->ops) == &ops[f])
		WRITE_ONCE(sock->ops, base_ops[f]);
}

/*
 * accept() grafts the socket and then releases the child's lock, before there
 * is a descriptor: nobody can have loaded sock->ops for a call yet.
 */
static void xway_release_cb(struct sock *sk)
{
	if (sk->sk_socket)
		xway_proto_take_ops(sk);
	base_of(sk)->release_cb(sk);
}

/*
 * Restart the system call, now that the socket is TCP's own. Return: false for
 * callers that cannot be restarted (io_uring, threads of the kernel).
 */
static bool restart(void)
{
	if (current->flags & (PF_KTHREAD | PF_IO_WORKER))
		return false;
	set_thread_flag(TIF_NOTIFY_SIGNAL);
	return true;
}

/* ---- receiving ---- */

/* How TCP's own recvmsg ends when it has no bytes: 0, an error, or -EAGAIN. */
static int rx_end(struct sock *sk)
{
	if (sock_flag(sk, SOCK_DONE))
		return 0;
	if (sk->sk_err)
		return sock_error(sk);
	if (sk->sk_shutdown & RCV_SHUTDOWN)
		return 0;
	if (sk->sk_state == TCP_CLOSE)
		return -ENOTCONN;
	return -EAGAIN;
}

static bool rx_inq_wanted(const struct sock *sk, const struct msghdr *msg)
{
	return msg->msg_get_inq || tcp_sk(sk)->recvmsg_inq;
}

/*
 * Page faults are off: a user's fault handler must not keep rx.lock, which the
 * link's end waits for. One answer about unread bytes serves the whole call,
 * ours at its end.
 */
static int rx_base(struct xway_conn *conn, struct sock *sk, struct msghdr *msg,
		   size_t len, int flags, int *addr_len)
{
	struct msghdr plain, *to = msg;
	int ret;

	if (rx_inq_wanted(sk, msg)) {
		plain = *msg;
		plain.msg_control = NULL;
		plain.msg_controllen = 0;
		plain.msg_get_inq = 0;
		to = &plain;
	}
	flags = (flags & ~MSG_WAITALL) | MSG_DONTWAIT;
	pagefault_disable();
	ret = conn->base_prot->recvmsg(sk, to, len, flags, addr_len);
	pagefault_enable();
	if (to != msg)
		msg->msg_iter = plain.msg_iter;
	return ret == -EFAULT ? -XWAY_AGAIN_FAULT : ret;
}

/* Bytes that are there to be read, as TCP counts them for TCP_CM_INQ. */
static u32 rx_unread(struct xway_conn *conn, const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 n = READ_ONCE(tp->rcv_nxt) - READ_ONCE(tp->copied_seq);

	if (n && (sk->sk_shutdown & RCV_SHUTDOWN) && !sock_flag(sk, SOCK_DONE))
		n--;
	mutex_lock(&conn->rx.lock);
	n += xway_rx_avail(conn);
	mutex_unlock(&conn->rx.lock);
	return n;
}

static void rx_inq(struct xway_conn *conn, struct sock *sk, struct msghdr *msg)
{
	int inq = rx_unread(conn, sk);

	if (!inq && (sk->sk_shutdown & RCV_SHUTDOWN))
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

/* Peek at the TCP stretch that comes after the ring stretch being read. */
static int rx_peek_tcp(struct xway_conn *conn, struct sock *sk,
		       struct msghdr *msg, size_t len, int flags,
		       int *addr_len, u32 end)
{
	const struct xway_rx *rx = &conn->rx;
	int ret;

	if (rx->seen - rx->gen == 2)
		end = rx->mark[rx->gen & 1].seq;
	end -= READ_ONCE(tcp_sk(sk)->copied_seq);
	if ((s32)end <= 0 || rx_at_urgent(sk))
		return 0;
	ret = rx_base(conn, sk, msg, min_t(size_t, len, end), flags, addr_len);
	return max(ret, 0);
}

/*
 * Read once from where the stream is; the call has @copied bytes already.
 * rx.lock is held, so that the decision and the reading are one.
 *
 * Return: bytes; 0 where the call must end; -EAGAIN if nothing is there;
 * -XWAY_AGAIN_FAULT; or the socket's error.
 */
static int rx_once(struct xway_conn *conn, struct sock *sk, struct msghdr *msg,
		   size_t len, int copied, int flags, int *addr_len)
{
	struct xway_rx *rx = &conn->rx;
	const struct tcp_sock *tp = tcp_sk(sk);
	/* Does a peek go on in the next stretch? TCP would skip once more. */
	bool on = (flags & MSG_PEEK) && READ_ONCE(sk->sk_peek_off) < 0;
	u32 have, peek = 0, turns = 0;
	int ret;

	if ((flags & MSG_PEEK) && sk_peek_offset(sk, flags) > 0)
		peek = sk_peek_offset(sk, flags);
again:
	/* An honest peer needs a few turns for its marks, and no more. */
	if (++turns > TURNS_MAX)
		xway_conn_bad(conn);
	if (test_bit(XWAY_F_BAD, &conn->flags))
		return rx->spilled ? rx_end(sk) : -ECONNRESET;
	/* What TCP had before the marks are looked at was sent before any
	 * switch that we do not see: safe to read. Later bytes may not be.
	 */
	have = READ_ONCE(tp->rcv_nxt);
	/* Pairs with the release in tx_mark(), before TCP sends what follows. */
	smp_rmb();
	xway_rx_update(conn);
	if (xway_rx_advance(conn, sk))
		goto again;
	if (rx->gen & 1) {
		ret = xway_rx_ring(conn, msg, len, flags, peek);
		if (ret > 0 && (flags & MSG_PEEK))
			sk_peek_offset_fwd(sk, ret);
		else if (ret > 0)
			sk_peek_offset_bwd(sk, ret);
		if (ret > 0 && on && rx->seen != rx->gen &&
		    ret < len && ret == xway_rx_avail(conn))
			ret += rx_peek_tcp(conn, sk, msg, len - ret, flags,
					   addr_len, have);
		if (ret)
			return ret;
		if (xway_rx_advance(conn, sk))
			goto again;
		ret = rx_end(sk);
		/* The peer stored its last bytes before it sent FIN or RST:
		 * pairs with the full barrier in xway_ring_publish() there.
		 */
		smp_rmb();
		if (ret != -EAGAIN && xway_rx_avail(conn) > peek) {
			if (ret < 0 && ret != -ENOTCONN)
				WRITE_ONCE(sk->sk_err, -ret);
			goto again;
		}
		if (ret != -EAGAIN && READ_ONCE(rx->seen) == rx->gen) {
			xway_rx_update(conn);
			if (rx->seen != rx->gen)
				goto again;
		}
		return ret;
	}
	if (rx->seen != rx->gen)
		have = rx->mark[(rx->gen + 1) & 1].seq;
	have -= READ_ONCE(tp->copied_seq);
	if (copied && rx_at_urgent(sk))
		return 0;
	if ((s32)have > 0) {
		ret = rx_base(conn, sk, msg, min_t(size_t, len, have), flags,
			      addr_len);
		if (ret > 0 && !(flags & MSG_PEEK))
			rx->tcp_bytes += ret;
		else if (ret > 0 && ret == have && on)
			ret += xway_rx_peek_next(conn, msg, len - ret, flags);
		return ret;
	}
	ret = rx_end(sk);
	/* rcv_nxt after the end: TCP stores it before the end. It has no write
	 * barrier between the two; x86 keeps the order of stores.
	 */
	smp_rmb();
	if (ret == 0 && READ_ONCE(tp->rcv_nxt) != READ_ONCE(tp->copied_seq))
		goto again;
	return ret;
}

static bool rx_ended(struct xway_conn *conn, struct sock *sk)
{
	return READ_ONCE(sk->sk_err) ||
	       (READ_ONCE(sk->sk_shutdown) & RCV_SHUTDOWN) ||
	       READ_ONCE(sk->sk_state) == TCP_CLOSE ||
	       sock_flag(sk, SOCK_DONE) ||
	       test_bit(XWAY_F_GONE, &conn->flags);
}

static long rx_wait(struct xway_conn *conn, struct sock *sk, long timeo)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);

	add_wait_queue(sk_sleep(sk), &wait);
	sk_set_bit(SOCKWQ_ASYNC_WAITDATA, sk);
	xway_rx_arm(conn);
	if (!xway_rx_readable(conn, sk, true) && !rx_ended(conn, sk))
		timeo = wait_woken(&wait, TASK_INTERRUPTIBLE, timeo);
	sk_clear_bit(SOCKWQ_ASYNC_WAITDATA, sk);
	remove_wait_queue(sk_sleep(sk), &wait);
	return timeo;
}

/* Sleep until more than @had bytes are unread, or no more can come. */
static long rx_wait_more(struct xway_conn *conn, struct sock *sk, long timeo,
			 u32 had)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);

	add_wait_queue(sk_sleep(sk), &wait);
	sk_set_bit(SOCKWQ_ASYNC_WAITDATA, sk);
	while (timeo && !signal_pending(current)) {
		xway_rx_arm(conn);
		if (rx_unread(conn, sk) > had || rx_ended(conn, sk))
			break;
		timeo = wait_woken(&wait, TASK_INTERRUPTIBLE, timeo);
	}
	sk_clear_bit(SOCKWQ_ASYNC_WAITDATA, sk);
	remove_wait_queue(sk_sleep(sk), &wait);
	return signal_pending(current) ? 0 : timeo;
}

/*
 * TCP makes a new edge for every arrival. So before the call ends, if anybody
 * watches the socket, ask for an event at the next byte; and if one came since
 * we looked, make the edge ourselves.
 */
static void rx_rearm(struct xway_conn *conn, struct sock *sk)
{
	u32 prod = READ_ONCE(conn->rx.prod);
	bool watched;

	rcu_read_lock();
	watched = skwq_has_sleeper(rcu_dereference(sk->sk_wq)) ||
		  sock_flag(sk, SOCK_FASYNC);
	rcu_read_unlock();
	if (conn->state == XWAY_CONN_TCP)
		return;
	/* Signals may be asked for later, and nobody tells us. */
	if (watched || prod == READ_ONCE(conn->rx.cons))
		xway_rx_arm(conn);
	if (!watched)
		return;
	mutex_lock(&conn->rx.lock);
	xway_rx_avail(conn);
	watched = conn->rx.prod != prod;
	mutex_unlock(&conn->rx.lock);
	if (watched) {
		xway_rx_arm(conn);
		local_bh_disable();
		conn->data_ready(sk);
		local_bh_enable();
	}
}

/* The reader has read all that did not come by TCP: let the socket go. */
static void rx_finish(struct xway_conn *conn, struct sock *sk)
{
	if (!test_bit(XWAY_F_RETURN, &conn->flags) ||
	    conn->state != XWAY_CONN_TCP || !xway_rx_done(conn))
		return;
	lock_sock(sk);
	if (conn->sk == sk)
		xway_switch_detach(conn, sk);
	release_sock(sk);
}

static int do_recvmsg(struct xway_conn *conn, struct sock *sk,
		      struct msghdr *msg, size_t len, int flags, int *addr_len)
{
	long timeo = sock_rcvtimeo(sk, flags & MSG_DONTWAIT);
	int target = sock_rcvlowat(sk, flags & MSG_WAITALL, len);
	size_t most = SIZE_MAX;
	struct iov_iter start = msg->msg_iter;
	int copied = 0, peeked = 0, ret;
	bool looked = false;

	for (;;) {
		mutex_lock(&conn->rx.lock);
		if (test_bit(XWAY_F_GONE, &conn->flags)) {
			mutex_unlock(&conn->rx.lock);
			if (copied >= target)
				return copied;
			if (!copied && timeo && restart())
				return -ERESTARTSYS;
			/* MSG_WAITALL has its due; our text waits with it. */
			ret = conn->base_prot->recvmsg(sk, msg, len - copied,
						       flags, addr_len);
			return copied ? copied + max(ret, 0) : ret;
		}
		ret = rx_once(conn, sk, msg, min(most, len - copied), copied,
			      flags, addr_len);
		most = SIZE_MAX;
		if (ret >= 0 || ret == -EAGAIN)
			rx_finish(conn, sk);
		mutex_unlock(&conn->rx.lock);

		if (ret == -XWAY_AGAIN_FAULT) {
			/* TCP copies a buffer whole or not at all. */
			most = min_t(size_t, len - copied, FAULT_IN);
			most -= fault_in_iov_iter_writeable(&msg->msg_iter,
							    most);
			if (most)
				continue;
			copied = copied ?: -EFAULT;
			break;
		}
		if (ret > 0) {
			looked = false;
			copied += ret;
			if (copied == len)
				break;
			if (!(flags & MSG_PEEK))
				continue;
			/* MSG_WAITALL: peek again, from the first byte, once
			 * there are more; if a peek then shows no more, the
			 * rest is past the next switch.
			 */
			if (copied >= target || copied == peeked ||
			    READ_ONCE(sk->sk_peek_off) >= 0)
				break;
			timeo = rx_wait_more(conn, sk, timeo, copied);
			if (!timeo || rx_ended(conn, sk))
				break;
			peeked = copied;
			copied = 0;
			msg->msg_iter = start;
			continue;
		}
		if (ret != -EAGAIN) {
			/* An error waits for the next call if bytes were read. */
			if (copied && ret < 0 && ret != -ENOTCONN &&
			    ret != -EFAULT)
				WRITE_ONCE(sk->sk_err, -ret);
			if (!copied)
				copied = ret;
			break;
		}
		if (copied >= target)
			break;
		if (!timeo) {
			/* Arm, then look once more: the edge after EAGAIN. */
			xway_rx_arm(conn);
			if (!looked && xway_rx_readable(conn, sk, false)) {
				looked = true;
				continue;
			}
			copied = copied ?: -EAGAIN;
			break;
		}
		if (signal_pending(current)) {
			copied = copied ?: sock_intr_errno(timeo);
			break;
		}
		timeo = rx_wait(conn, sk, timeo);
	}
	if (copied >= 0 && rx_inq_wanted(sk, msg))
		rx_inq(conn, sk, msg);
	if (copied > 0)
		rx_rearm(conn, sk);
	return copied;
}

static int xway_recvmsg(struct sock *sk, struct msghdr *msg, size_t len,
			int flags, int *addr_len)
{
	struct xway_conn *conn = xway_switch_conn(sk);
	int ret;

	if (!conn) {
		if (!(flags & MSG_DONTWAIT) && restart())
			return -ERESTARTSYS;
		stray_enter();
		ret = base_of(sk)->recvmsg(sk, msg, len, flags, addr_len);
		stray_leave();
		return ret;
	}
	if (unlikely((flags & (MSG_ERRQUEUE | MSG_OOB)) || !len ||
		     tcp_sk(sk)->repair)) {
		ret = conn->base_prot->recvmsg(sk, msg, len, flags, addr_len);
	} else {
		if (sock_flag(sk, SOCK_RCVTSTAMP) || READ_ONCE(sk->sk_tsflags))
			xway_conn_return(conn, XWAY_R_TIMESTAMP);
		ret = do_recvmsg(conn, sk, msg, len, flags, addr_len);
		xway_conn_want(conn);
	}
	xway_conn_put(conn);
	return ret;
}

static bool xway_sock_is_readable(struct sock *sk)
{
	struct xway_conn *conn;
	bool ret = false;

	rcu_read_lock();
	conn = xway_switch_conn_rcu(sk);
	if (conn) {
		xway_rx_arm(conn);
		ret = xway_rx_readable(conn, sk, false) &&
		      !xway_rx_low(conn, sk);
	}
	rcu_read_unlock();
	return ret;
}

/* ---- sending ---- */

static bool xway_stream_memory_free(const struct sock *sk, int wake)
{
	struct xway_conn *conn;
	bool ret;

	rcu_read_lock();
	conn = xway_switch_conn_rcu(sk);
	ret = conn && (READ_ONCE(conn->tx.gen) & 1) ?
		xway_tx_writeable(conn) :
		base_of(sk)->stream_memory_free(sk, wake);
	rcu_read_unlock();
	return ret;
}

/* What the ring does not carry, this connection carries by TCP from now on. */
static enum xway_reason tx_refusal(const struct sock *sk,
				   const struct msghdr *msg)
{
	if (msg->msg_flags & MSG_OOB)
		return XWAY_R_OOB;
	if ((msg->msg_flags & MSG_ZEROCOPY) && !msg->msg_ubuf &&
	    sock_flag(sk, SOCK_ZEROCOPY))
		return XWAY_R_ZEROCOPY;
	if (msg->msg_controllen || READ_ONCE(sk->sk_tsflags))
		return XWAY_R_TIMESTAMP;
	if (tcp_sk(sk)->repair)
		return XWAY_R_REPAIR;
	return XWAY_R_NONE;
}

static int tx_tcp(struct xway_conn *conn, struct sock *sk, struct msghdr *msg,
		  size_t piece)
{
	size_t left = msg_data_left(msg);
	int ret;

	if (piece < left)
		iov_iter_truncate(&msg->msg_iter, piece);
	ret = tcp_sendmsg_locked(sk, msg, min(piece, left));
	if (piece < left)
		iov_iter_reexpand(&msg->msg_iter,
				  left - (ret > 0 ? ret : 0));
	if (ret > 0) {
		conn->tx.tcp_bytes += ret;
		conn->tx.more = msg->msg_flags & MSG_MORE;
	}
	return ret;
}

/* Sleep until the ring has room or the wait makes no sense any more. */
static void tx_wait(struct xway_conn *conn, struct sock *sk, long *timeo)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);

	add_wait_queue(sk_sleep(sk), &wait);
	sk_set_bit(SOCKWQ_ASYNC_NOSPACE, sk);
	set_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
	sk->sk_write_pending++;
	sk_wait_event(sk, timeo,
		      READ_ONCE(sk->sk_err) ||
		      (READ_ONCE(sk->sk_shutdown) & SEND_SHUTDOWN) ||
		      !(READ_ONCE(conn->tx.gen) & 1) ||
		      xway_tx_writeable(conn), &wait);
	sk->sk_write_pending--;
	remove_wait_queue(sk_sleep(sk), &wait);
}

static bool tx_ended(const struct sock *sk)
{
	return sk->sk_err || (sk->sk_shutdown & SEND_SHUTDOWN);
}

static int do_sendmsg(struct xway_conn *conn, struct sock *sk,
		      struct msghdr *msg)
{
	long timeo = sock_sndtimeo(sk, msg->msg_flags & MSG_DONTWAIT);
	unsigned int flags = msg->msg_flags;
	enum xway_reason why = tx_refusal(sk, msg);
	int copied = 0, ret;

	if (unlikely(why != XWAY_R_NONE)) {
		WRITE_ONCE(conn->tx.usable, false);
		xway_tx_to_tcp(conn, sk);
		xway_conn_return(conn, why);
	}
	do {
		size_t piece = SIZE_MAX;

		if (!(conn->tx.gen & 1) && !xway_tx_to_ring(conn, sk)) {
			if (!test_bit(XWAY_F_RETURN, &conn->flags) &&
			    !(flags & (MSG_OOB | MSG_FASTOPEN)))
				piece = TCP_PIECE;
			if (copied) {
				if (tx_ended(sk))
					break;
				msg->msg_flags |= MSG_NOSIGNAL;
			}
			ret = tx_tcp(conn, sk, msg, piece);
			msg->msg_flags = flags;
			if (ret < 0) {
				/* TCP keeps an error for the next call if it
				 * took bytes; it does not know of the earlier.
				 */
				if (copied && (ret == -ECONNRESET ||
					       ret == -ETIMEDOUT ||
					       ret == -EHOSTUNREACH ||
					       ret == -ENETUNREACH))
					WRITE_ONCE(sk->sk_err, -ret);
				copied = copied ?: ret;
				break;
			}
			copied += ret;
			if (ret < piece)
				break;
			continue;
		}
		if (tx_ended(sk)) {
			if (!copied)
				copied = sk_stream_error(sk, flags, -EPIPE);
			break;
		}
		ret = xway_tx_put(conn, sk, msg);
		if (ret > 0) {
			copied += ret;
			continue;
		}
		if (ret == -EPIPE) {
			xway_tx_drop(conn);
			continue;
		}
		if (ret != -EAGAIN) {
			copied = copied ?: ret;
			break;
		}
		if (!timeo) {
			set_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
			sk_set_bit(SOCKWQ_ASYNC_NOSPACE, sk);
			/* Arm; if half of it is free by now, there was room. */
			if (xway_tx_writeable(conn) && xway_tx_room(conn)) {
				conn->tx.cons = conn->tx.prod - conn->tx.size +
						xway_tx_room(conn);
				continue;
			}
			copied = copied ?: -EAGAIN;
			break;
		}
		if (signal_pending(current)) {
			copied = copied ?: sock_intr_errno(timeo);
			break;
		}
		tx_wait(conn, sk, &timeo);
	} while (msg_data_left(msg));
	return copied;
}

static int xway_sendmsg(struct sock *sk, struct msghdr *msg, size_t size)
{
	struct xway_conn *conn = xway_switch_conn(sk);
	int ret;

	if (!conn) {
		if (!(msg->msg_flags & MSG_DONTWAIT) && restart())
			return -ERESTARTSYS;
		stray_enter();
		ret = base_of(sk)->sendmsg(sk, msg, size);
		stray_leave();
		return ret;
	}
	lock_sock(sk);
	if (unlikely(test_bit(XWAY_F_GONE, &conn->flags) || !size))
		ret = tcp_sendmsg_locked(sk, msg, size);
	else
		ret = do_sendmsg(conn, sk, msg);
	release_sock(sk);
	xway_conn_want(conn);
	xway_conn_put(conn);
	return ret;
}

/* ---- the end ---- */

/* Say that nobody reads here any more; then, are there bytes nobody read? */
static bool rx_leave(struct xway_conn *conn)
{
	rcu_read_lock();
	/* Its barrier pairs with the writer's in xway_tx_put(). */
	if (rcu_access_pointer(conn->peer))
		xway_chan_flag(conn, XWAY_CHAN_NO_READER);
	rcu_read_unlock();
	xway_rx_update(conn);
	xway_rx_avail(conn);
	return conn->rx.prod != conn->rx.cons;
}

static void xway_close(struct sock *sk, long timeout)
{
	struct xway_conn *conn = xway_switch_conn(sk);

	if (!conn) {
		stray_enter();
		base_of(sk)->close(sk, timeout);
		stray_leave();
		return;
	}
	mutex_lock(&conn->rx.lock);
	lock_sock(sk);
	if (conn->sk == sk) {
		if (rx_leave(conn)) {
			/* As __tcp_close() does for bytes nobody has read. */
			sock_set_flag(sk, SOCK_LINGER);
			sk->sk_lingertime = 0;
		}
		xway_count(CLOSED);
		xway_switch_detach(conn, sk);
	}
	release_sock(sk);
	mutex_unlock(&conn->rx.lock);
	conn->base_prot->close(sk, timeout);
	xway_conn_put(conn);
}

/* connect() to AF_UNSPEC, with the socket locked: TCP resets the peer. */
static int xway_disconnect(struct sock *sk, int flags)
{
	struct xway_conn *conn = xway_switch_conn(sk);
	int ret;

	if (!conn) {
		stray_enter();
		ret = base_of(sk)->disconnect(sk, flags);
		stray_leave();
		return ret;
	}
	xway_switch_detach(conn, sk);
	ret = conn->base_prot->disconnect(sk, flags);
	xway_conn_put(conn);
	return ret;
}

/* A child that nobody accepted. Softirq, or the listener's close. */
static void xway_destroy(struct sock *sk)
{
	struct xway_conn *conn = xway_switch_conn(sk);

	if (conn)
		xway_switch_detach(conn, sk);
	base_of(sk)->destroy(sk);
	if (conn)
		xway_conn_put(conn);
}

/* ---- options and the rest ---- */

static enum xway_reason opt_refusal(int level, int optname)
{
	if (level == SOL_TCP) {
		switch (optname) {
		case TCP_ULP:
			return XWAY_R_ULP;
		case TCP_REPAIR:
			return XWAY_R_REPAIR;
		case TCP_MD5SIG:
		case TCP_MD5SIG_EXT:
			return XWAY_R_OPTION;
		}
	}
	if (level == SOL_IPV6 && optname == IPV6_ADDRFORM)
		return XWAY_R_OPTION;
	return XWAY_R_NONE;
}

/*
 * Bring a connection back to TCP. The peer has to do its part, so this waits,
 * but not for ever. Return: is the socket still held?
 */
static bool conn_give_back(struct xway_conn *conn, enum xway_reason why)
{
	int i;

	xway_conn_return(conn, why);
	for (i = 0; i < 100 && !test_bit(XWAY_F_GONE, &conn->flags) &&
	     !signal_pending(current); i++)
		schedule_timeout_interruptible(1 + HZ / 100);
	return !test_bit(XWAY_F_GONE, &conn->flags);
}

/*
 * Options that TCP refuses on a held socket: bring it back first.
 */
static int xway_setsockopt(struct sock *sk, int level, int optname,
			   sockptr_t optval, unsigned int optlen)
{
	struct xway_conn *conn = xway_switch_conn(sk);
	enum xway_reason why = opt_refusal(level, optname);
	int ret;

	if (conn && why != XWAY_R_NONE)
		conn_give_back(conn, why);
	if (!conn)
		stray_enter();
	ret = base_of(sk)->setsockopt(sk, level, optname, optval, optlen);
	if (!conn)
		stray_leave();
	else
		xway_conn_put(conn);
	return ret;
}

/* TCP_INFO: the ring's bytes count as TCP's do. */
static int info_add(char __user *optval, int len, size_t at, u64 bytes)
{
	u64 n;

	if (len < (int)(at + sizeof(n)))
		return 0;
	if (copy_from_user(&n, optval + at, sizeof(n)))
		return -EFAULT;
	n += bytes;
	return copy_to_user(optval + at, &n, sizeof(n)) ? -EFAULT : 0;
}

static int info_fill(struct xway_conn *conn, char __user *optval,
		     int __user *optlen)
{
	u64 sent = READ_ONCE(conn->tx.ring_bytes), received;
	int len;

	mutex_lock(&conn->rx.lock);
	received = conn->rx.ring_bytes + xway_rx_avail(conn);
	mutex_unlock(&conn->rx.lock);
#define AT(field) offsetof(struct tcp_info, tcpi_bytes_##field)
	return get_user(len, optlen) ?:
	       info_add(optval, len, AT(acked), sent) ?:
	       info_add(optval, len, AT(sent), sent) ?:
	       info_add(optval, len, AT(received), received);
#undef AT
}

/* Zero-copy receive would read TCP's bytes past ours. */
static int xway_getsockopt(struct sock *sk, int level, int optname,
			   char __user *optval, int __user *optlen)
{
	struct xway_conn *conn = xway_switch_conn(sk);
	int ret;

	if (conn && level == SOL_TCP && optname == TCP_ZEROCOPY_RECEIVE &&
	    conn_give_back(conn, XWAY_R_ZEROCOPY)) {
		xway_conn_put(conn);
		/* As TCP says without a mapping, which we refuse to make. */
		return -EINVAL;
	}
	/* The upper-layer protocol is ours, and the program asked for none. */
	if (conn && level == SOL_TCP && optname == TCP_ULP) {
		xway_conn_put(conn);
		return put_user(0, optlen);
	}
	if (!conn)
		stray_enter();
	ret = base_of(sk)->getsockopt(sk, level, optname, optval, optlen);
	if (!ret && conn && level == SOL_TCP && optname == TCP_INFO) {
		if (READ_ONCE(conn->sk) == sk)
			ret = info_fill(conn, optval, optlen);
		else	/* Detaching adds them to TCP's, the socket locked. */
			ret = base_of(sk)->getsockopt(sk, level, optname,
						      optval, optlen);
	}
	if (!conn)
		stray_leave();
	else
		xway_conn_put(conn);
	return ret;
}

/* Bytes that a reader could have now from the ring. */
static int ring_inq(struct sock *sk)
{
	struct xway_conn *conn = xway_switch_conn(sk);
	int n = 0;

	if (!conn)
		return 0;
	mutex_lock(&conn->rx.lock);
	if (!test_bit(XWAY_F_GONE, &conn->flags)) {
		xway_rx_update(conn);
		n = xway_rx_avail(conn);
	}
	mutex_unlock(&conn->rx.lock);
	xway_conn_put(conn);
	return n;
}

static int xway_ioctl(struct sock *sk, int cmd, xway_ioctl_arg_t arg)
{
	int ret, n;

	stray_enter();
	ret = base_of(sk)->ioctl(sk, cmd, arg);
	if (!ret && cmd == SIOCINQ)
		ret = xway_ioctl_get(arg, &n) ?:
		      xway_ioctl_put(arg, n + ring_inq(sk));
	/* The urgent byte came by TCP, after what is in the ring. */
	if (!ret && cmd == SIOCATMARK && ring_inq(sk))
		ret = xway_ioctl_put(arg, 0);
	stray_leave();
	return ret;
}

static int xway_peek_len(struct socket *sock)
{
	return base_ops[family_of(sock->sk)]->peek_len(sock) +
	       ring_inq(sock->sk);
}

/* A later user inside the kernel that reads past recvmsg must not attach. */
static int xway_read_sock(struct sock *sk, read_descriptor_t *desc,
			  sk_read_actor_t actor)
{
	return -EBUSY;
}

static int xway_read_skb(struct sock *sk, skb_read_actor_t actor)
{
	return -EBUSY;
}

/* TCP is silent below the low-water mark, and the ring with it: stay on TCP. */
static int xway_set_rcvlowat(struct sock *sk, int val)
{
	struct xway_conn *conn = xway_switch_conn(sk);

	if (conn) {
		if (val > 1)
			xway_conn_return(conn, XWAY_R_OPTION);
		xway_conn_put(conn);
	}
	return base_ops[family_of(sk)]->set_rcvlowat(sk, val);
}

/* An offset counts in one queue, and ring and TCP are two: stay on TCP. */
static int xway_set_peek_off(struct sock *sk, int val)
{
	struct xway_conn *conn = xway_switch_conn(sk);

	if (conn) {
		/* Nobody gives back a socket that is locked for this call. */
		if (val >= 0 && sock_owned_by_user_nocheck(sk))
			xway_conn_return(conn, XWAY_R_OPTION);
		else if (val >= 0)
			conn_give_back(conn, XWAY_R_OPTION);
		xway_conn_put(conn);
	}
	return base_ops[family_of(sk)]->set_peek_off(sk, val);
}

static void proto_fill(int f, const struct proto *base)
{
	struct proto *p = &prots[f];

	*p = *base;
	p->close = xway_close;
	p->disconnect = xway_disconnect;
	p->destroy = xway_destroy;
	p->ioctl = xway_ioctl;
	p->setsockopt = xway_setsockopt;
	p->getsockopt = xway_getsockopt;
	p->sendmsg = xway_sendmsg;
	p->recvmsg = xway_recvmsg;
	p->release_cb = xway_release_cb;
	p->stream_memory_free = xway_stream_memory_free;
	p->sock_is_readable = xway_sock_is_readable;
	p->psock_update_sk_prot = NULL;
	xway_proto_compat(p);
}

static int ops_fill(int f, int family)
{
	struct socket *sock;
	int err;

	/* The IPv6 table is not exported; a socket knows it. */
	err = sock_create_kern(&init_net, family, SOCK_STREAM, IPPROTO_TCP,
			       &sock);
	if (err)
		return err;
	base_ops[f] = sock->ops;
	sock_release(sock);
	ops[f] = *base_ops[f];
	xway_ops_compat(&ops[f]);
	ops[f].mmap = sock_no_mmap;
	ops[f].peek_len = xway_peek_len;
	ops[f].read_sock = xway_read_sock;
	ops[f].read_skb = xway_read_skb;
	ops[f].set_rcvlowat = xway_set_rcvlowat;
	if (base_ops[f]->set_peek_off)
		ops[f].set_peek_off = xway_set_peek_off;
	return 0;
}

int __init xway_proto_init(void)
{
	int err;

	proto_fill(V4, &tcp_prot);
	err = ops_fill(V4, PF_INET);
#if IS_ENABLED(CONFIG_IPV6)
	if (!err) {
		proto_fill(V6, &tcpv6_prot);
		err = ops_fill(V6, PF_INET6);
		/* Booted without IPv6: there will be no such socket. */
		if (err == -EAFNOSUPPORT)
			err = 0;
	}
#endif
	return err;
}

/*
 * No socket has our tables any more. A task may still be between loading a
 * table and entering a call, or between leaving and returning; none of them
 * sleeps there.
 */
void xway_proto_exit(void)
{
	synchronize_rcu();
	synchronize_rcu_tasks();
	wait_var_event(&strays, !atomic_read(&strays));
	synchronize_rcu_tasks();
}
