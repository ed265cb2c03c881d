/* SPDX-License-Identifier: GPL-2.0 */
/* The calls of an attached socket, and what they share. */
#ifndef _XWAY_CALLS_H
#define _XWAY_CALLS_H

#include <net/sock.h>

#include "compat.h"

struct xway_conn;

/* proto.c: TCP's own tables, and calls without a connection */
struct proto *xway_base_of(const struct sock *sk);
const struct proto_ops *xway_base_ops(const struct sock *sk);
void xway_stray_enter(void);
void xway_stray_leave(void);
bool xway_restart(const struct sock *sk);
int xway_disconnect(struct sock *sk, int flags);

/**
 * xway_keep_error() - keep the socket's error for the next call
 * @sk: the socket
 * @err: negative errno that a call got from it
 *
 * A call that has moved bytes returns their number, and TCP leaves the error to
 * the next call. But TCP does not know of bytes that went by ring, and has
 * cleared the error. Errors of the call itself are not kept.
 *
 * Context: any.
 */
static inline void xway_keep_error(struct sock *sk, int err)
{
	switch (-err) {
	case EAGAIN:
	case EFAULT:
	case EINTR:
	case EINVAL:
	case ENOBUFS:
	case ENOMEM:
	case ENOTCONN:
	case EPIPE:
		return;
	}
	if (err < 0 && err > -ERESTARTSYS)	/* others are the kernel's own */
		WRITE_ONCE(sk->sk_err, -err);
}

/**
 * xway_rx_stamps() - does the program ask when bytes arrived?
 * @sk: the socket
 *
 * Context: any.
 * Return: true if it has set SO_TIMESTAMP or the like.
 */
static inline bool xway_rx_stamps(const struct sock *sk)
{
	return sock_flag(sk, SOCK_RCVTSTAMP) ||
	       (READ_ONCE(sk->sk_tsflags) & SOF_TIMESTAMPING_RX_SOFTWARE);
}

/* recv.c */
int xway_woken(struct wait_queue_entry *wait, unsigned int mode, int sync, void *key);
int xway_recvmsg(struct sock *sk, struct msghdr *msg, size_t len, int flags);
bool xway_sock_is_readable(struct sock *sk);
u32 xway_rx_unread(struct xway_conn *conn, const struct sock *sk);

/* send.c */
int xway_sendmsg(struct sock *sk, struct msghdr *msg, size_t size);
int xway_sock_sendmsg(struct socket *sock, struct msghdr *msg, size_t size);
bool xway_stream_memory_free(const struct sock *sk, int wake);

/* sockopt.c */
int xway_setsockopt(struct sock *sk, int level, int optname, sockptr_t optval,
		    unsigned int optlen);
int xway_getsockopt(struct sock *sk, int level, int optname,
		    char __user *optval, int __user *optlen);
int xway_ioctl(struct sock *sk, int cmd, xway_ioctl_arg_t arg);
int xway_peek_len(struct socket *sock);
int xway_read_sock(struct sock *sk, read_descriptor_t *desc,
		   sk_read_actor_t actor);
int xway_read_skb(struct sock *sk, skb_read_actor_t actor);
int xway_set_rcvlowat(struct sock *sk, int val);
int xway_set_peek_off(struct sock *sk, int val);
int xway_mmap(struct file *file, struct socket *sock,
	      struct vm_area_struct *vma);

#endif /* _XWAY_CALLS_H */
