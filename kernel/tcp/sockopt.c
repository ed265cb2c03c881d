// SPDX-License-Identifier: GPL-2.0
/* Options and requests of an attached socket, and what it refuses. */
#include <asm/ioctls.h>
#include <linux/net.h>
#include <linux/sockios.h>
#include <net/tcp.h>

#include "calls.h"
#include "conn.h"
#include "attach.h"

/* Options for which the connection must fall back first */
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
	if (level == SOL_IP &&
	    (optname == IP_XFRM_POLICY || optname == IP_IPSEC_POLICY))
		return XWAY_R_IPSEC;
	if (level == SOL_IPV6) {
		switch (optname) {
		case IPV6_XFRM_POLICY:
		case IPV6_IPSEC_POLICY:
			return XWAY_R_IPSEC;
		case IPV6_ADDRFORM:
			return XWAY_R_OPTION;
		}
	}
	return XWAY_R_NONE;
}

/*
 * Have a connection fall back, and wait until its socket is detached. The peer
 * has to do its part, so there is a limit, about four seconds. Only a fatal
 * signal ends the wait, because TCP's own calls do not fail for a signal.
 * Return: if the socket is still attached, its connection with a reference.
 */
static struct xway_conn *fallback_and_wait(const struct sock *sk, enum xway_reason why)
{
	/* another one each time, if a fresh one has replaced it */
	struct xway_conn *conn = xway_attached(sk);
	int i;

	for (i = 0; i < 400 && conn; i++) {
		xway_conn_fallback(conn, why);
		if (i && fatal_signal_pending(current))
			break;
		/* The reference keeps the module while this sleeps. */
		if (i)
			schedule_timeout_killable(1 + HZ / 100);
		xway_conn_put(conn);
		conn = xway_attached(sk);
	}
	return conn;
}

/*
 * TCP's own option calls may sleep in a page fault that never ends. A reference
 * on the connection keeps the module meanwhile. A call without a connection is
 * a stray, for which unloading waits.
 */
static struct xway_conn *call_enter(const struct sock *sk)
{
	struct xway_conn *conn = xway_attached(sk);

	if (!conn)
		xway_stray_enter();
	return conn;
}

static void call_leave(struct xway_conn *conn)
{
	if (conn)
		xway_conn_put(conn);
	else
		xway_stray_leave();
}

/*
 * Return: the connection of the socket, with a reference and with its rx.lock
 * held, or NULL. While that is held, no byte moves from the ring to TCP.
 */
static struct xway_conn *lock_rx(const struct sock *sk)
{
	struct xway_conn *conn = xway_attached(sk), *fresh;

	while (conn) {
		mutex_lock(&conn->rx.lock);
		if (!test_bit(XWAY_F_DETACHED, &conn->flags))
			break;
		mutex_unlock(&conn->rx.lock);
		fresh = xway_attached_again(conn, sk);
		if (fresh == conn) {
			xway_conn_put(conn);
			return NULL;
		}
		conn = fresh;
	}
	return conn;
}

static void unlock_rx(struct xway_conn *conn)
{
	mutex_unlock(&conn->rx.lock);
	xway_conn_put(conn);
}

/**
 * xway_setsockopt() - setsockopt of our struct proto
 * @sk: a socket that is attached, or was a moment ago
 * @level: level of the option
 * @optname: the option
 * @optval: its value
 * @optlen: bytes of the value
 *
 * If the ring cannot do what the option asks for, the connection falls back
 * first.
 *
 * Context: process, may sleep; the socket is not locked.
 * Return: as TCP's own.
 */
int xway_setsockopt(struct sock *sk, int level, int optname, sockptr_t optval,
		    unsigned int optlen)
{
	enum xway_reason why = opt_refusal(level, optname);
	struct xway_conn *entered = call_enter(sk), *conn = NULL;
	int ret;

	if (why != XWAY_R_NONE)
		conn = fallback_and_wait(sk, why);
	if (conn)
		xway_conn_put(conn);
	ret = xway_base_of(sk)->setsockopt(sk, level, optname, optval, optlen);
	/* The helper looks again how long a sender may wait. */
	if (entered && level == SOL_TCP && optname == TCP_USER_TIMEOUT)
		xway_conn_queue(entered);
	/* The next message must look again how much the ring may hold. */
	if (entered && level == SOL_TCP && optname == TCP_NOTSENT_LOWAT) {
		lock_sock(sk);
		conn = xway_attached_rcu(sk);
		if (conn)
			conn->tx.until = conn->tx.prod;
		release_sock(sk);
	}
	call_leave(entered);
	return ret;
}

/* Add bytes of the ring to a field of TCP_INFO, which has @size bytes at @at. */
static int info_add(char __user *optval, int len, size_t at, size_t size,
		    u64 bytes)
{
	u64 n = 0;

	if (len < (int)(at + size))
		return 0;
	/* Little-endian, as all machines that Xen runs on. */
	if (copy_from_user(&n, optval + at, size))
		return -EFAULT;
	n += bytes;
	return copy_to_user(optval + at, &n, size) ? -EFAULT : 0;
}

static int info_fill(struct xway_conn *conn, const struct sock *sk,
		     char __user *optval, int __user *optlen)
{
	u32 unsent = xway_tx_backlog(conn, sk);
	u64 sent = READ_ONCE(conn->tx.ring_bytes), received;
	int len;

	sent -= min_t(u64, sent, unsent);
	mutex_lock(&conn->rx.lock);
	received = conn->rx.ring_bytes + xway_rx_avail(conn);
	mutex_unlock(&conn->rx.lock);
#define AT(name) offsetof(struct tcp_info, tcpi_##name)
	return get_user(len, optlen) ?:
	       info_add(optval, len, AT(notsent_bytes), 4, unsent) ?:
	       info_add(optval, len, AT(bytes_acked), 8, sent) ?:
	       info_add(optval, len, AT(bytes_sent), 8, sent) ?:
	       info_add(optval, len, AT(bytes_received), 8, received);
#undef AT
}

/*
 * TCP_ZEROCOPY_RECEIVE as TCP answers it if no page can be mapped: recv() is to
 * copy all.
 */
static int zerocopy_none(struct xway_conn *conn, struct sock *sk,
			 char __user *optval, int __user *optlen)
{
	struct tcp_zerocopy_receive zc = {};
	int len;

	if (get_user(len, optlen))
		return -EFAULT;
	if (len < (int)offsetofend(struct tcp_zerocopy_receive, length))
		return -EINVAL;
	len = min_t(int, len, sizeof(zc));
	if (copy_from_user(&zc, optval, len))
		return -EFAULT;
	zc.recv_skip_hint = xway_rx_unread(conn, sk);
	if (!zc.recv_skip_hint && sock_flag(sk, SOCK_DONE))
		return -EIO;
	zc.length = 0;
	zc.inq = zc.recv_skip_hint;
	zc.err = 0;
	zc.copybuf_len = 0;
	zc.msg_flags = 0;
	return put_user(len, optlen) ?:
	       copy_to_user(optval, &zc, len) ? -EFAULT : 0;
}

static int info_get(struct sock *sk, char __user *optval, int __user *optlen)
{
	struct xway_conn *conn;
	int ret;

	do {
		conn = xway_attached(sk);
		ret = xway_base_of(sk)->getsockopt(sk, SOL_TCP, TCP_INFO,
						   optval, optlen);
		if (ret || !conn)
			break;
		/* xway_detach() has added the ring's bytes to TCP's meanwhile:
		 * ask TCP again.
		 */
		if (READ_ONCE(conn->sk) == sk) {
			ret = info_fill(conn, sk, optval, optlen);
			break;
		}
		xway_conn_put(conn);
	} while (true);
	if (conn)
		xway_conn_put(conn);
	return ret;
}

static int do_getsockopt(struct sock *sk, int level, int optname,
			 char __user *optval, int __user *optlen)
{
	struct xway_conn *conn = NULL;
	int ret = 0;

	if (level == SOL_TCP && optname == TCP_INFO)
		return info_get(sk, optval, optlen);
	/* It would read TCP's bytes before the ring's. */
	if (level == SOL_TCP && optname == TCP_ZEROCOPY_RECEIVE) {
		conn = fallback_and_wait(sk, XWAY_R_ZEROCOPY);
		if (conn)
			ret = zerocopy_none(conn, sk, optval, optlen);
	}
	/* The slot is ours, but the program has asked for no ULP. */
	if (level == SOL_TCP && optname == TCP_ULP) {
		conn = xway_attached(sk);
		if (conn)
			ret = put_user(0, optlen);
	}
	if (!conn)
		return xway_base_of(sk)->getsockopt(sk, level, optname, optval,
						    optlen);
	xway_conn_put(conn);
	return ret;
}

/**
 * xway_getsockopt() - getsockopt of our struct proto
 * @sk: a socket that is attached, or was a moment ago
 * @level: level of the option
 * @optname: the option
 * @optval: where its value goes
 * @optlen: bytes of the value
 *
 * Context: process, may sleep; the socket is not locked.
 * Return: as TCP's own.
 */
int xway_getsockopt(struct sock *sk, int level, int optname,
		    char __user *optval, int __user *optlen)
{
	struct xway_conn *entered = call_enter(sk);
	int ret = do_getsockopt(sk, level, optname, optval, optlen);

	call_leave(entered);
	return ret;
}

/* Unread bytes of the ring */
static u32 ring_inq(struct xway_conn *conn)
{
	lockdep_assert_held(&conn->rx.lock);
	xway_rx_update(conn);
	return xway_rx_avail(conn);
}

/* What SIOCINQ answers */
static u32 sock_inq(struct xway_conn *conn, struct sock *sk)
{
	bool slow;
	u32 n;

	lockdep_assert_held(&conn->rx.lock);
	slow = lock_sock_fast(sk);
	n = xway_rx_inq(conn, sk, tcp_inq(sk));
	unlock_sock_fast(sk, slow);
	return n;
}

static u32 sock_backlog(const struct sock *sk)
{
	struct xway_conn *conn = xway_attached(sk);
	u32 n = 0;

	if (conn) {
		n = xway_tx_backlog(conn, sk);
		xway_conn_put(conn);
	}
	return n;
}

/**
 * xway_ioctl() - ioctl of our struct proto
 * @sk: a socket that is attached, or was a moment ago
 * @cmd: SIOC*
 * @arg: see xway_ioctl_put()
 *
 * Context: process, may sleep; the socket is not locked.
 * Return: as TCP's own.
 */
int xway_ioctl(struct sock *sk, int cmd, xway_ioctl_arg_t arg)
{
	struct xway_conn *conn = NULL;
	u32 ring = 0, backlog = 0;
	int ret;

	if (cmd == SIOCOUTQ || cmd == SIOCOUTQNSD)
		backlog = sock_backlog(sk);
	if (cmd == SIOCINQ || cmd == SIOCATMARK)
		conn = lock_rx(sk);
	if (conn && cmd == SIOCINQ) {
		u32 n = sock_inq(conn, sk);

		mutex_unlock(&conn->rx.lock);
		ret = xway_ioctl_put(arg, n);
		xway_conn_put(conn);
		return ret;
	}
	/* Before TCP is asked: bytes move from the ring to TCP, never back. */
	if (conn) {
		ring = ring_inq(conn);
		unlock_rx(conn);
	}
	xway_stray_enter();
	ret = xway_base_of(sk)->ioctl(sk, cmd, arg);
	/* The urgent byte came by TCP, after what is in the ring. */
	if (!ret && ring)
		ret = xway_ioctl_put(arg, 0);
	/* TCP's bytes from before have arrived if half the ring is full. */
	if (!ret && backlog)
		ret = xway_ioctl_put(arg, backlog);
	xway_stray_leave();
	return ret;
}

/**
 * xway_peek_len() - unread bytes, as peek_len of our struct proto_ops
 * @sock: its socket is attached, or was a moment ago
 *
 * Context: process, may sleep.
 * Return: bytes of TCP and of the ring.
 */
int xway_peek_len(struct socket *sock)
{
	struct xway_conn *conn = lock_rx(sock->sk);
	int n;

	if (!conn)
		return xway_base_ops(sock->sk)->peek_len(sock);
	n = sock_inq(conn, sock->sk);
	unlock_rx(conn);
	return n;
}

/**
 * xway_read_sock() - reading by a user inside the kernel
 * @sk: an attached socket
 * @desc: for TCP's own
 * @actor: for TCP's own
 *
 * It would read past recvmsg. It finds nothing until the socket is detached,
 * and xway_detach() then tells it that there are bytes.
 *
 * Context: the socket is locked.
 * Return: -EAGAIN
 */
int xway_read_sock(struct sock *sk, read_descriptor_t *desc,
		   sk_read_actor_t actor)
{
	struct xway_conn *conn = xway_attached_rcu(sk);

	if (conn)
		xway_conn_fallback(conn, XWAY_R_KERNEL);
	return -EAGAIN;
}

/**
 * xway_read_skb() - as xway_read_sock()
 * @sk: an attached socket
 * @actor: for TCP's own
 *
 * Return: -EAGAIN
 */
int xway_read_skb(struct sock *sk, skb_read_actor_t actor)
{
	return xway_read_sock(sk, NULL, NULL);
}

/**
 * xway_set_rcvlowat() - SO_RCVLOWAT
 * @sk: a socket that is attached, or was a moment ago; locked
 * @val: bytes
 *
 * Each of TCP and the ring would wait silently for so many bytes of its own, so
 * the connection falls back.
 *
 * Context: process.
 * Return: as TCP's own.
 */
int xway_set_rcvlowat(struct sock *sk, int val)
{
	struct xway_conn *conn = xway_attached(sk);

	if (conn) {
		if (val > 1)
			xway_conn_fallback(conn, XWAY_R_OPTION);
		xway_conn_put(conn);
	}
	return xway_base_ops(sk)->set_rcvlowat(sk, val);
}

/**
 * xway_set_peek_off() - SO_PEEK_OFF
 * @sk: a socket that is attached, or was a moment ago
 * @val: bytes; negative: off
 *
 * An offset counts in one queue, but TCP and the ring are two. So the
 * connection falls back first.
 *
 * Context: process, may sleep.
 * Return: as TCP's own.
 */
int xway_set_peek_off(struct sock *sk, int val)
{
	struct xway_conn *conn = val >= 0 ? fallback_and_wait(sk, XWAY_R_OPTION) : NULL;

	if (conn)
		xway_conn_put(conn);
	return xway_base_ops(sk)->set_peek_off(sk, val);
}

/**
 * xway_mmap() - mmap of our struct proto_ops, for zero-copy receive
 * @file: the socket's file
 * @sock: its socket is attached, or was a moment ago
 * @vma: the area
 *
 * Only TCP has zero-copy receive, so the connection falls back. Mapping only
 * marks the area, so nobody need wait for that here, where the address space is
 * locked.
 *
 * Context: process.
 * Return: as TCP's own.
 */
int xway_mmap(struct file *file, struct socket *sock,
	      struct vm_area_struct *vma)
{
	struct xway_conn *conn = xway_attached(sock->sk);

	if (conn) {
		xway_conn_fallback(conn, XWAY_R_ZEROCOPY);
		xway_conn_put(conn);
	}
	return xway_base_ops(sock->sk)->mmap(file, sock, vma);
}
