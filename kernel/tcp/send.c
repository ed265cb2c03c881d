// SPDX-License-Identifier: GPL-2.0
/* Sending by an attached socket: sendmsg, and whether it would wait. */
#include <net/tcp.h>

#include "adopt.h"
#include "calls.h"
#include "handshake.h"
#include "conn.h"
#include "attach.h"
#include "tx.h"

/* TCP gets a long send() in pieces of so many bytes while a ring may come. */
#define TCP_PIECE 65536

/* Bytes that may be copied with softirqs off */
#define SHORT_MAX 4096

/**
 * xway_stream_memory_free() - can bytes be sent without waiting, for poll()?
 * @sk: a socket that is attached, or was a moment ago
 * @wake: for TCP's own
 *
 * On the ring this asks for an event, too.
 *
 * Context: process or softirq.
 * Return: true if the ring, or TCP, takes bytes.
 */
bool xway_stream_memory_free(const struct sock *sk, int wake)
{
	struct xway_conn *conn;
	bool ret;

	rcu_read_lock();
	conn = xway_attached_rcu(sk);
	if (conn && (READ_ONCE(conn->tx.gen) & 1))
		ret = xway_tx_writeable(conn, sk);
	else if (conn && unlikely(READ_ONCE(conn->tx.resend)))
		/* TCP asks, too, when it is given what comes first. */
		ret = READ_ONCE(conn->tx.resending);
	else
		ret = xway_base_of(sk)->stream_memory_free(sk, wake);
	rcu_read_unlock();
	return ret;
}

/*
 * Why the ring cannot carry the message, or XWAY_R_NONE. The connection falls
 * back then.
 */
static __always_inline enum xway_reason
tx_refusal(struct xway_conn *conn, const struct sock *sk,
	   const struct msghdr *msg)
{
	if (msg->msg_controllen || READ_ONCE(sk->sk_tsflags))
		return XWAY_R_TIMESTAMP;
	if (tcp_sk(sk)->repair)
		return XWAY_R_REPAIR;
	/* TCP's timer keeps SO_MAX_PACING_RATE. */
	if (READ_ONCE(sk->sk_max_pacing_rate) != ~0UL)
		return XWAY_R_OPTION;
	/* A user inside the kernel reads TCP's queue: the peer's answer must
	 * come by TCP.
	 */
	if (xway_conn_taken(conn, sk))
		return XWAY_R_KERNEL;
	return XWAY_R_NONE;
}

static enum xway_reason tx_refusal_by_flags(const struct sock *sk,
					    const struct msghdr *msg)
{
	if (msg->msg_flags & MSG_OOB)
		return XWAY_R_OOB;
	if ((msg->msg_flags & MSG_ZEROCOPY) && !msg->msg_ubuf &&
	    sock_flag(sk, SOCK_ZEROCOPY))
		return XWAY_R_ZEROCOPY;
	/* The kernel swaps by it: it must never wait for memory. */
	if (sk->sk_kern_sock && sock_flag(sk, SOCK_MEMALLOC))
		return XWAY_R_KERNEL;
	return XWAY_R_NONE;
}

static void tx_refuse(struct xway_conn *conn, struct sock *sk,
		      enum xway_reason why)
{
	WRITE_ONCE(conn->tx.usable, false);
	xway_tx_to_tcp(conn, sk);
	xway_conn_fallback(conn, why);
}

static int tx_tcp(struct xway_conn *conn, struct sock *sk, struct msghdr *msg,
		  size_t piece)
{
	size_t left = msg_data_left(msg);
	int ret;

	if (piece < left)
		iov_iter_truncate(&msg->msg_iter, piece);
	/* It may wait, and others look at it meanwhile: adopt.c. */
	conn->tx.in_tcp++;
	ret = tcp_sendmsg_locked(sk, msg, min(piece, left));
	conn->tx.in_tcp--;
	if (piece < left)
		iov_iter_reexpand(&msg->msg_iter,
				  left - (ret > 0 ? ret : 0));
	if (ret > 0)
		conn->tx.tcp_bytes += ret;
	return ret;
}

/* Does the direction that the next byte will go take bytes? */
static bool tx_ready(struct xway_conn *conn, const struct sock *sk)
{
	return READ_ONCE(conn->tx.gen) & 1 ? xway_tx_writeable(conn, sk) :
					     !READ_ONCE(conn->tx.resend);
}

/*
 * While the call had not the socket's lock the socket was disconnected: it may have another
 * connection by now.
 */
static bool tx_disconnected(const struct xway_conn *conn)
{
	return test_bit(XWAY_F_DETACHED, &conn->flags) &&
	       ((conn->tx.gen & 1) || conn->tx.resend);
}

/*
 * Sleep until the ring has room, bytes that a cut has left are sent, or waiting makes
 * no sense any more.
 * Return: 0, or -EPIPE if the socket was disconnected meanwhile.
 */
static int tx_wait(struct xway_conn *conn, struct sock *sk, long *timeo)
{
	DEFINE_WAIT_FUNC(wait, xway_woken);
	int ret;

	add_wait_queue(sk_sleep(sk), &wait);
	sk_set_bit(SOCKWQ_ASYNC_NOSPACE, sk);
	set_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
	sk->sk_write_pending++;
	ret = sk_wait_event(sk, timeo,
			    READ_ONCE(sk->sk_err) ||
			    (READ_ONCE(sk->sk_shutdown) & SEND_SHUTDOWN) ||
			    test_bit(XWAY_F_DETACHED, &conn->flags) ||
			    tx_ready(conn, sk), &wait);
	sk->sk_write_pending--;
	remove_wait_queue(sk_sleep(sk), &wait);
	if (tx_disconnected(conn))
		return -EPIPE;
	return min(ret, 0);
}

/*
 * The next byte finds no room. Wait for some if the call may wait.
 * Return: 0 to try again; or the errno, as for sk_stream_error(), that ends the call.
 */
static int tx_no_room(struct xway_conn *conn, struct sock *sk, long *timeo)
{
	if (!*timeo) {
		set_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
		sk_set_bit(SOCKWQ_ASYNC_NOSPACE, sk);
		/* Ask for an event. If half of the window is free by now, there
		 * is room.
		 */
		return (conn->tx.gen & 1) && xway_tx_writeable(conn, sk) &&
		       xway_tx_look(conn, sk) ? 0 : -EAGAIN;
	}
	if (signal_pending(current))
		return sock_intr_errno(*timeo);
	return tx_wait(conn, sk, timeo);
}

/*
 * The memory of the next bytes is not there. Others may send meanwhile, as they may while TCP
 * waits for room. Return: 0 to try again, or the errno that ends the call.
 */
static int tx_fault_in(struct xway_conn *conn, struct sock *sk, struct msghdr *msg)
{
	size_t want = min_t(size_t, msg_data_left(msg), conn->tx.size), missing;
	int disconnects = READ_ONCE(sk->sk_disconnects);

	sk->sk_write_pending++;	/* nobody switches to a ring meanwhile: see xway_tx_to_ring() */
	release_sock(sk);
	missing = fault_in_iov_iter_readable(&msg->msg_iter, want);
	lock_sock(sk);
	sk->sk_write_pending--;
	if (READ_ONCE(sk->sk_disconnects) != disconnects || tx_disconnected(conn))
		return -EPIPE;
	if (fatal_signal_pending(current))
		return -EINTR;
	return missing == want ? -EFAULT : 0;
}

/* Can the socket go by ring now, or later after a park? */
static bool may_have_ring(const struct xway_conn *conn)
{
	unsigned long flags = READ_ONCE(conn->flags);

	return !(flags & BIT(XWAY_F_FALLBACK)) || (flags & BIT(XWAY_F_PARK));
}

static bool tx_ended(const struct sock *sk)
{
	return sk->sk_err || (sk->sk_shutdown & SEND_SHUTDOWN);
}

/*
 * @held: the connection, with the caller's reference. It is exchanged for the
 *	fresh one if the connection parks during the call.
 */
static int do_sendmsg(struct xway_conn **held, struct sock *sk,
		      struct msghdr *msg)
{
	struct xway_conn *conn = *held;
	long timeo = sock_sndtimeo(sk, msg->msg_flags & MSG_DONTWAIT);
	unsigned int flags = msg->msg_flags;
	enum xway_reason why = tx_refusal_by_flags(sk, msg) ?:
			       tx_refusal(conn, sk, msg);
	bool faulted = false;
	int copied = 0, ret;

	if (unlikely(why != XWAY_R_NONE))
		tx_refuse(conn, sk, why);
	do {
		size_t piece = SIZE_MAX;

		if (!(conn->tx.gen & 1) && !xway_tx_to_ring(conn, sk)) {
			if (unlikely(test_bit(XWAY_F_LOOK, &conn->flags)))
				xway_adopt_look(conn, sk);
			/* What a cut has left comes first. */
			if (unlikely(!xway_tx_resend(conn, sk))) {
				ret = tx_ended(sk) ? -EPIPE :
						     tx_no_room(conn, sk, &timeo);
				if (!ret)
					continue;
				copied = copied ?: sk_stream_error(sk, flags, ret);
				break;
			}
			/* A timeout of SO_SNDTIMEO would begin anew for each
			 * piece.
			 */
			if (may_have_ring(conn) && !(flags & MSG_OOB) &&
			    (!timeo || timeo == MAX_SCHEDULE_TIMEOUT))
				piece = TCP_PIECE;
			if (copied) {
				if (tx_ended(sk))
					break;
				msg->msg_flags |= MSG_NOSIGNAL;
			}
			ret = tx_tcp(conn, sk, msg, piece);
			msg->msg_flags = flags;
			if (ret < 0) {
				if (copied)
					xway_keep_error(sk, ret);
				else
					copied = ret;
				break;
			}
			copied += ret;
			if (ret < piece)
				break;
			/* Much may have changed while TCP slept. */
			if (test_bit(XWAY_F_DETACHED, &conn->flags))
				conn = *held = xway_attached_again(conn, sk);
			why = tx_refusal(conn, sk, msg);
			if (unlikely(why != XWAY_R_NONE))
				tx_refuse(conn, sk, why);
			xway_conn_want(conn);
			continue;
		}
		if (tx_ended(sk)) {
			if (!copied)
				copied = sk_stream_error(sk, flags, -EPIPE);
			break;
		}
		ret = xway_tx_put(conn, sk, msg, copied, faulted);
		faulted = ret == -XWAY_AGAIN_FAULT;
		if (ret > 0) {
			copied += ret;
			continue;
		}
		if (ret == -EPIPE) {
			xway_tx_discard(conn);
			continue;
		}
		ret = faulted ? tx_fault_in(conn, sk, msg) :
				tx_no_room(conn, sk, &timeo);
		if (ret) {
			copied = copied ?: sk_stream_error(sk, flags, ret);
			break;
		}
	} while (msg_data_left(msg));
	return copied;
}

/*
 * Copy into free room a message that is not one buffer, lies in two pieces of
 * the ring, or has a bad address. Out of line, because inline it would take the
 * registers that copy_short() needs.
 */
static noinline bool copy_pieces(const struct xway_tx *tx, struct msghdr *msg,
				 u32 len)
{
	u32 got = xway_tx_copy(tx, msg, len);

	if (got < len)
		iov_iter_revert(&msg->msg_iter, got);
	return got == len;
}

/*
 * Copy a short message. The usual one is one buffer, as of write() and send(),
 * and lies in one piece in the ring. It is copied directly: _copy_from_iter()
 * costs more than copying a few bytes does.
 *
 * Return: false, with @msg as it was, if its memory is not there.
 */
static __always_inline bool copy_short(const struct xway_tx *tx,
				       struct msghdr *msg, u32 len)
{
	struct iov_iter *from = &msg->msg_iter;
	const void __user *user;
	u32 n = len;
	void *at;

	if (!iter_is_ubuf(from))
		return copy_pieces(tx, msg, len);
	at = xway_ring_at(tx->pages, tx->prod, tx->size, &n);
	user = from->ubuf + from->iov_offset;
	if (n != len || !access_ok(user, len))
		return copy_pieces(tx, msg, len);
	user = xway_user_address(user);
	instrument_copy_from_user_before(at, user, len);
	n = raw_copy_from_user(at, user, len);
	instrument_copy_from_user_after(at, user, len, n);
	if (unlikely(n))
		return false;
	from->iov_offset += len;
	from->count -= len;
	return true;
}

/*
 * Put a short message into the ring. Return: false, with @msg as it was, if its
 * memory is not there, or the peer has closed its socket.
 */
static __always_inline bool put_short(struct xway_conn *conn,
				      struct msghdr *msg, u32 len)
{
	bool copied;

	pagefault_disable();
	copied = copy_short(&conn->tx, msg, len);
	pagefault_enable();
	return likely(copied) && xway_tx_publish(conn, msg, len);
}

/*
 * Most messages are short, and find the ring in use and room in it. The
 * socket's spinlock is enough for them: the socket has no owner and gets none,
 * so the connection stays attached.
 * Return: false, with nothing sent, if anything is otherwise.
 */
static bool send_short(struct sock *sk, struct msghdr *msg, u32 len)
{
	struct xway_conn *conn;
	bool done;

	spin_lock_bh(&sk->sk_lock.slock);
	conn = xway_attached_rcu(sk);
	done = conn && !sock_owned_by_user_nocheck(sk) &&
	       conn->tx.until - conn->tx.prod >= len &&
	       /* Nobody tells us when SO_SNDBUF is set. */
	       (!(sk->sk_userlocks & SOCK_SNDBUF_LOCK) ||
		xway_tx_room(&conn->tx, sk) >= len) && !tx_ended(sk) &&
	       tx_refusal(conn, sk, msg) == XWAY_R_NONE &&
	       put_short(conn, msg, len);
	spin_unlock_bh(&sk->sk_lock.slock);
	return done;
}

/**
 * xway_sendmsg() - sendmsg of our struct proto
 * @sk: a socket that is attached, or was a moment ago
 * @msg: the message
 * @size: its bytes
 *
 * Context: process, may sleep; the socket is not locked.
 * Return: bytes sent, or a negative errno.
 */
int xway_sendmsg(struct sock *sk, struct msghdr *msg, size_t size)
{
	struct xway_conn *conn = xway_attached(sk);
	const struct proto *prot = READ_ONCE(sk->sk_prot);
	int ret;

	if (!conn) {
		if (!(msg->msg_flags & MSG_DONTWAIT) && xway_restart(sk))
			return -ERESTARTSYS;
		/* The socket was detached since the call began. It may have
		 * another owner now, such as kernel TLS.
		 */
		if (prot->sendmsg == xway_sendmsg)
			prot = xway_base_of(sk);
		xway_stray_enter();
		ret = prot->sendmsg(sk, msg, size);
		xway_stray_leave();
		return ret;
	}
	lock_sock(sk);
	if (unlikely(test_bit(XWAY_F_DETACHED, &conn->flags)))
		conn = xway_attached_again(conn, sk);
	/* TCP says what is wrong with MSG_FASTOPEN on a connection. */
	if (unlikely(test_bit(XWAY_F_DETACHED, &conn->flags) || !size ||
		     (msg->msg_flags & MSG_FASTOPEN)))
		ret = tcp_sendmsg_locked(sk, msg, size);
	else
		ret = do_sendmsg(&conn, sk, msg);
	/* One that has waited may have got room without an event. A reader inside the
	 * kernel needs a call all the same: nfsd reads nothing until it may send.
	 */
	if (unlikely(xway_conn_inside(conn)) && test_bit(SOCK_NOSPACE, &sk->sk_socket->flags))
		set_bit(XWAY_F_TELL, &conn->flags);
	release_sock(sk);
	xway_conn_want(conn);
	xway_conn_put(conn);
	return ret;
}

/**
 * xway_sock_sendmsg() - sendmsg of our struct proto_ops
 * @sock: its socket is attached, or was a moment ago
 * @msg: the message
 * @size: its bytes
 *
 * In the place of inet_sendmsg(), which costs a short message too much.
 *
 * Context: process, may sleep; the socket is not locked.
 * Return: bytes sent, or a negative errno.
 */
int xway_sock_sendmsg(struct socket *sock, struct msghdr *msg, size_t size)
{
	const unsigned int plain = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE;
	struct sock *sk = sock->sk;

	if (likely(size - 1 < SHORT_MAX && !(msg->msg_flags & ~plain) &&
		   send_short(sk, msg, size)))
		return size;
	/* As inet_send_prepare(), but an attached socket is bound already. */
	sock_rps_record_flow(sk);
	return xway_sendmsg(sk, msg, size);
}
