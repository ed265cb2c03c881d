/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The differences of kernel versions, 6.1 to 6.12. No other file knows them.
 */
#ifndef _XWAY_COMPAT_H
#define _XWAY_COMPAT_H

#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0) || \
	LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
#error "xway supports Linux 6.1 to 6.12"
#endif

#ifdef _XWAY_SHRINKER_COMPAT
#include <linux/shrinker.h>
#include <linux/slab.h>

/* Shrinkers are allocated by the kernel since 6.7. */
typedef unsigned long xway_shrinker_fn(struct shrinker *, struct shrink_control *);

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
static inline struct shrinker *xway_shrinker_start(const char *name,
						   xway_shrinker_fn *count,
						   xway_shrinker_fn *scan)
{
	struct shrinker *s = shrinker_alloc(0, "%s", name);

	if (!s)
		return NULL;
	s->count_objects = count;
	s->scan_objects = scan;
	shrinker_register(s);
	return s;
}

static inline void xway_shrinker_stop(struct shrinker *s)
{
	shrinker_free(s);
}
#else
static inline struct shrinker *xway_shrinker_start(const char *name,
						   xway_shrinker_fn *count,
						   xway_shrinker_fn *scan)
{
	struct shrinker *s = kzalloc(sizeof(*s), GFP_KERNEL);

	if (!s)
		return NULL;
	s->count_objects = count;
	s->scan_objects = scan;
	s->seeks = DEFAULT_SEEKS;
	if (!register_shrinker(s, "%s", name))
		return s;
	kfree(s);
	return NULL;
}

static inline void xway_shrinker_stop(struct shrinker *s)
{
	unregister_shrinker(s);
	kfree(s);
}
#endif
#endif /* _XWAY_SHRINKER_COMPAT */

#ifdef _XWAY_TCP_COMPAT
#include <linux/uaccess.h>
#include <net/tcp.h>

/* sock_rps_record_flow() is in net/rps.h since 6.9, and in net/sock.h before. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 9, 0)
#include <net/rps.h>
#endif

/* Stable releases have added the last argument. So test the type, not the version. */
static inline void xway_tcp_send_ack(struct sock *sk)
{
	void (*two)(struct sock *, u32) = (void *)__tcp_send_ack;
	void (*three)(struct sock *, u32, u16) = (void *)__tcp_send_ack;

	if (__builtin_types_compatible_p(typeof(__tcp_send_ack), typeof(*two)))
		two(sk, tcp_sk(sk)->rcv_nxt);
	else
		three(sk, tcp_sk(sk)->rcv_nxt, 0);
}

/* The argument of proto.ioctl: a user address; since 6.5 a pointer to a kernel int */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
typedef int *xway_ioctl_arg_t;

static inline int xway_ioctl_put(xway_ioctl_arg_t arg, int n)
{
	*arg = n;
	return 0;
}
#else
typedef unsigned long xway_ioctl_arg_t;

static inline int xway_ioctl_put(xway_ioctl_arg_t arg, int n)
{
	return put_user(n, (int __user *)arg);
}
#endif

/* An address that access_ok() has let pass, made safe against speculation past it */
static inline const void __user *xway_user_address(const void __user *p)
{
#ifdef can_do_masked_user_access
	return mask_user_address(p);
#else
	barrier_nospec();
	return p;
#endif
}
#endif /* _XWAY_TCP_COMPAT */

#ifdef _XWAY_PROTO_COMPAT
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
/* Without splice_read, splice() copies by our recvmsg. */
static inline void xway_ops_compat(struct proto_ops *ops)
{
	ops->splice_read = NULL;
}

static inline void xway_proto_compat(struct proto *p)
{
}
#else
static inline ssize_t xway_splice_read(struct socket *sock, loff_t *ppos,
				       struct pipe_inode_info *pipe,
				       size_t len, unsigned int flags)
{
	ssize_t ret;

	/* Keep this code: it may sleep in TCP's recvmsg after the socket is detached. */
	if (!try_module_get(THIS_MODULE))
		return -EAGAIN;
	ret = generic_file_splice_read(sock->file, ppos, pipe, len, flags);
	module_put(THIS_MODULE);
	return ret;
}

/* Not NULL: this kernel loads the pointer twice, and detaching changes it between. */
static inline void xway_ops_compat(struct proto_ops *ops)
{
	ops->splice_read = xway_splice_read;
}

/* Without sendpage, sendfile() calls our sendmsg. */
static inline void xway_proto_compat(struct proto *p)
{
	p->sendpage = NULL;
}
#endif
#endif /* _XWAY_PROTO_COMPAT */

#endif /* _XWAY_COMPAT_H */
