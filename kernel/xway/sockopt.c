// SPDX-License-Identifier: GPL-2.0
/*
 * Options and requests of a held socket, and what it refuses.
 */
#include <asm/ioctls.h>
#include <linux/net.h>
#include <linux/sockios.h>
#include <net/tcp.h>

#include "calls.h"
#include "conn.h"
#include "switch.h"

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
static bool give_back(const struct sock *sk, enum xway_reason why)
{
	struct xway_conn *conn;
	bool held = true;
	int i;

	for (i = 0; i < 100 && held; i++) {
		if (i && signal_pending(current))
			break;
		if (i)
			schedule_timeout_interruptible(1 + HZ / 100);
		/* Another one each time, if one that rested is in its place. */
		conn = xway_switch_conn(sk);
		held = conn;
		if (conn) {
			xway_conn_return(conn, why);
			xway_conn_put(conn);
		}
	}
	return held;
}

/*
 * Options that TCP refuses on a held socket: bring it back first.
 */
int xway_setsockopt(struct sock *sk, int level, int optname, sockptr_t optval,
		    unsigned int optlen)
{
	struct xway_conn *conn = xway_switch_conn(sk);
	enum xway_reason why = opt_refusal(level, optname);
	int ret;

	if (conn && why != XWAY_R_NONE)
		give_back(sk, why);
	if (!conn)
		xway_stray_enter();
	ret = xway_base_of(sk)->setsockopt(sk, level, optname, optval, optlen);
	if (!conn)
		xway_stray_leave();
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

/* What TCP answers when no page can be mapped: all is left to recv(). */
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

/* Zero-copy receive would read TCP's bytes past ours: bring it back first. */
int xway_getsockopt(struct sock *sk, int level, int optname,
		    char __user *optval, int __user *optlen)
{
	struct xway_conn *conn = xway_switch_conn(sk);
	int ret;

	if (conn && level == SOL_TCP && optname == TCP_ZEROCOPY_RECEIVE &&
	    give_back(sk, XWAY_R_ZEROCOPY)) {
		ret = zerocopy_none(conn, sk, optval, optlen);
		xway_conn_put(conn);
		return ret;
	}
	/* The upper-layer protocol is ours, and the program asked for none. */
	if (conn && level == SOL_TCP && optname == TCP_ULP) {
		xway_conn_put(conn);
		return put_user(0, optlen);
	}
	if (!conn)
		xway_stray_enter();
	ret = xway_base_of(sk)->getsockopt(sk, level, optname, optval, optlen);
	if (!ret && conn && level == SOL_TCP && optname == TCP_INFO) {
		if (READ_ONCE(conn->sk) == sk)
			ret = info_fill(conn, optval, optlen);
		else	/* Detaching adds them to TCP's, the socket locked. */
			ret = xway_base_of(sk)->getsockopt(sk, level, optname,
							   optval, optlen);
	}
	if (!conn)
		xway_stray_leave();
	else
		xway_conn_put(conn);
	return ret;
}

/* The ring's unread bytes. */
static u32 ring_inq(struct xway_conn *conn)
{
	lockdep_assert_held(&conn->rx.lock);
	if (test_bit(XWAY_F_GONE, &conn->flags))
		return 0;
	xway_rx_update(conn);
	return xway_rx_avail(conn);
}

/* What SIOCINQ answers. Under rx.lock no byte moves from the ring to TCP. */
static u32 sock_inq(struct xway_conn *conn, struct sock *sk)
{
	bool slow;
	u32 n;

	mutex_lock(&conn->rx.lock);
	slow = lock_sock_fast(sk);
	n = ring_inq(conn) + tcp_inq(sk);
	unlock_sock_fast(sk, slow);
	mutex_unlock(&conn->rx.lock);
	return n;
}

int xway_ioctl(struct sock *sk, int cmd, xway_ioctl_arg_t arg)
{
	struct xway_conn *conn = xway_switch_conn(sk);
	u32 ring = 0;
	int ret;

	if (conn && cmd == SIOCINQ) {
		ret = xway_ioctl_put(arg, sock_inq(conn, sk));
		xway_conn_put(conn);
		return ret;
	}
	/* Before TCP is asked: bytes only move from the ring to TCP. */
	if (conn && cmd == SIOCATMARK) {
		mutex_lock(&conn->rx.lock);
		ring = ring_inq(conn);
		mutex_unlock(&conn->rx.lock);
	}
	xway_stray_enter();
	ret = xway_base_of(sk)->ioctl(sk, cmd, arg);
	/* The urgent byte came by TCP, after what is in the ring. */
	if (!ret && ring)
		ret = xway_ioctl_put(arg, 0);
	xway_stray_leave();
	if (conn)
		xway_conn_put(conn);
	return ret;
}

int xway_peek_len(struct socket *sock)
{
	struct xway_conn *conn = xway_switch_conn(sock->sk);
	int n;

	if (!conn)
		return xway_base_ops(sock->sk)->peek_len(sock);
	n = sock_inq(conn, sock->sk);
	xway_conn_put(conn);
	return n;
}

/* A later user inside the kernel that reads past recvmsg must not attach. */
int xway_read_sock(struct sock *sk, read_descriptor_t *desc,
		   sk_read_actor_t actor)
{
	return -EBUSY;
}

int xway_read_skb(struct sock *sk, skb_read_actor_t actor)
{
	return -EBUSY;
}

/* TCP is silent below the low-water mark, and the ring with it: stay on TCP. */
int xway_set_rcvlowat(struct sock *sk, int val)
{
	struct xway_conn *conn = xway_switch_conn(sk);

	if (conn) {
		if (val > 1)
			xway_conn_return(conn, XWAY_R_OPTION);
		xway_conn_put(conn);
	}
	return xway_base_ops(sk)->set_rcvlowat(sk, val);
}

/* An offset counts in one queue, and ring and TCP are two: stay on TCP. */
int xway_set_peek_off(struct sock *sk, int val)
{
	if (val >= 0)
		give_back(sk, XWAY_R_OPTION);
	return xway_base_ops(sk)->set_peek_off(sk, val);
}

/*
 * For zero-copy receive, which only TCP has. Mapping is no more than a mark on
 * the area, so nobody need wait here, where the address space is locked.
 */
int xway_mmap(struct file *file, struct socket *sock,
	      struct vm_area_struct *vma)
{
	struct xway_conn *conn = xway_switch_conn(sock->sk);

	if (conn) {
		xway_conn_return(conn, XWAY_R_ZEROCOPY);
		xway_conn_put(conn);
	}
	return xway_base_ops(sock->sk)->mmap(file, sock, vma);
}
