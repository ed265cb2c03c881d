/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The differences of kernels, from Linux 6.1 on. No other file of code knows
 * them; some are found out by the Kbuilds. Each is asked for by what the kernel has, if
 * that can be asked, not by its version: stable releases and distributions take over what
 * they like. doc/porting.md tells them.
 */
#ifndef _XWAY_COMPAT_H
#define _XWAY_COMPAT_H

#include <linux/version.h>

/* There is no upper bound: a kernel that is newer than all we know may do. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "xway needs Linux 6.1 or later"
#endif

#ifdef _XWAY_SHRINKER_COMPAT
#include <linux/shrinker.h>
#include <linux/slab.h>

typedef unsigned long xway_shrinker_fn(struct shrinker *, struct shrink_control *);

/* Linux 6.7 and later allocate shrinkers themselves. */
#ifdef SHRINKER_ALLOCATED
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

/* For sock_rps_record_flow(), which was in net/sock.h before Linux 6.9; tcp/Kbuild looks. */
#ifdef XWAY_HAVE_NET_RPS_H
#include <net/rps.h>
#endif

/* Stable releases, too, have added the last argument. */
static inline void xway_tcp_send_ack(struct sock *sk)
{
	void (*two)(struct sock *, u32) = (void *)__tcp_send_ack;
	void (*three)(struct sock *, u32, u16) = (void *)__tcp_send_ack;

	if (__builtin_types_compatible_p(typeof(__tcp_send_ack), typeof(*two)))
		two(sk, tcp_sk(sk)->rcv_nxt);
	else
		three(sk, tcp_sk(sk)->rcv_nxt, 0);
}

/* The longest time between two retransmissions, in jiffies; Linux 6.15 lets it be set. */
static inline unsigned int xway_rto_max(const struct sock *sk)
{
#ifdef TCP_RTO_MAX_MS
	return tcp_rto_max(sk);
#else
	return TCP_RTO_MAX;
#endif
}

/* The last argument of proto.ioctl: a kernel int since Linux 6.5, and a user's before */
#define XWAY_IOCTL_IN_KERNEL							\
	__builtin_types_compatible_p(typeof(((struct proto *)NULL)->ioctl),	\
				     int (*)(struct sock *, int, int *))
typedef typeof(__builtin_choose_expr(XWAY_IOCTL_IN_KERNEL, (int *)NULL, 0UL)) xway_ioctl_arg_t;

static inline int xway_ioctl_put(xway_ioctl_arg_t arg, int n)
{
	unsigned long to = (unsigned long)arg;

	if (!XWAY_IOCTL_IN_KERNEL)
		return put_user(n, (int __user *)to);
	*(int *)to = n;
	return 0;
}

/* TCP's recvmsg. Before Linux 7.1 it returns the length of the address by an argument. */
static inline int xway_base_recvmsg(const struct proto *base, struct sock *sk,
				    struct msghdr *msg, size_t len, int flags)
{
	int (*four)(struct sock *, struct msghdr *, size_t, int) =
		(void *)base->recvmsg;
	int (*five)(struct sock *, struct msghdr *, size_t, int, int *) =
		(void *)base->recvmsg;

	if (__builtin_types_compatible_p(typeof(base->recvmsg), typeof(four)))
		return four(sk, msg, len, flags);
	msg->msg_namelen = 0;
	return five(sk, msg, len, flags, &msg->msg_namelen);
}

/*
 * Does accept() of an MPTCP listener know a child that is a TCP socket by its family?
 * Before 6.12.60 and 6.18 it asks whether sk_prot is TCP's own, and takes another one
 * for MPTCP's. It also does so in all releases between the two series.
 */
#define XWAY_MPTCP_CHILDREN \
	(LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0) || \
	 (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 60) && \
	  LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)))

/* An address that access_ok() has let pass, made safe against speculation past it */
static inline const void __user *xway_user_address(const void __user *p)
{
#ifdef can_do_masked_user_access
	if (can_do_masked_user_access())
		return mask_user_address(p);
#endif
	barrier_nospec();
	return p;
}
#endif /* _XWAY_TCP_COMPAT */

#ifdef _XWAY_PROTO_COMPAT
#include "tcp/calls.h"

/* Our recvmsg, for kernels whose inet_recvmsg() sets msg_namelen to *@addr_len */
static inline int xway_recvmsg_addr_len(struct sock *sk, struct msghdr *msg,
					size_t len, int flags, int *addr_len)
{
	int ret = xway_recvmsg(sk, msg, len, flags);

	*addr_len = msg->msg_namelen;
	return ret;
}

static inline void xway_proto_recvmsg(struct proto *p)
{
	if (__builtin_types_compatible_p(typeof(p->recvmsg), typeof(xway_recvmsg) *))
		p->recvmsg = (void *)xway_recvmsg;
	else
		p->recvmsg = (void *)xway_recvmsg_addr_len;
}

/* Linux 6.5 has removed sendpage with this flag of its, and the old ways of splice().
 * MSG_SPLICE_PAGES, which came instead, says nothing: stable releases of 6.1 have it, too.
 */
#ifndef MSG_SENDPAGE_NOTLAST
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

#ifdef _XWAY_NET_COMPAT
#include <linux/netdev_features.h>
#include <uapi/linux/virtio_net.h>

/* net/Kbuild looks: it is one header before Linux 6.6. */
#ifdef XWAY_HAVE_PAGE_POOL_HELPERS_H
#include <net/page_pool/helpers.h>
#else
#include <net/page_pool.h>
#endif

/* It too: the classes of a device's locks are in linux/netdevice.h before Linux 6.15. */
#ifdef XWAY_HAVE_NETDEV_LOCK_H
#include <net/netdev_lock.h>
#endif

/* UDP segments have a number in the virtio header since Linux 6.2. */
#ifdef VIRTIO_NET_HDR_GSO_UDP_L4
#define XWAY_NETIF_F_USO NETIF_F_GSO_UDP_L4
#define XWAY_VIRTIO_GSO_USO VIRTIO_NET_HDR_GSO_UDP_L4
#else
#define XWAY_NETIF_F_USO 0
#define XWAY_VIRTIO_GSO_USO 5	/* virtio 1.2, section 5.1.6 */
#endif

#include <linux/dim.h>
#include <linux/netdevice.h>
#include <net/sch_generic.h>

/* Since Linux 6.2 any device can be renamed while it is up. */
#ifndef IFF_LIVE_RENAME_OK
#define IFF_LIVE_RENAME_OK 0
#endif

/* May the device be moved into another network namespace? */
static inline void xway_set_netns_local(struct net_device *dev, bool local)
{
#if defined(XWAY_HAVE_NETNS_IMMUTABLE)
	dev->netns_immutable = local;
#elif defined(XWAY_HAVE_NETNS_LOCAL)
	dev->netns_local = local;
#else
	if (local)
		dev->features |= NETIF_F_NETNS_LOCAL;
	else
		dev->features &= ~NETIF_F_NETNS_LOCAL;
#endif
}

/*
 * Are packets about to be put into a queue by somebody else? Since Linux 6.19 those who send at
 * once leave that to one of them.
 */
static inline bool xway_qdisc_defers(struct Qdisc *q)
{
#ifdef XWAY_HAVE_QDISC_DEFER
	if (!llist_empty(&q->defer_list))
		return true;
	smp_rmb();	/* who has taken them from there has the lock until they are in the queue */
	if (!(q->flags & TCQ_F_NOLOCK) && spin_is_locked(qdisc_lock(q)))
		return true;
	smp_rmb();	/* who has put them there, and is done, has let it be seen */
#endif
	return false;
}

/* Does somebody look at what is sent before it is in the queue? Since Linux 6.6 there is tcx. */
static inline bool xway_has_egress_filter(const struct net_device *dev)
{
	bool ret = false;

#ifdef CONFIG_NETFILTER_EGRESS
	ret |= !!rcu_access_pointer(dev->nf_hooks_egress);
#endif
#if defined(CONFIG_NET_XGRESS)
	ret |= !!rcu_access_pointer(dev->tcx_egress);
#elif defined(CONFIG_NET_CLS_ACT)
	ret |= !!rcu_access_pointer(dev->miniq_egress);
#endif
	return ret;
}

/* How long NAPI waits for more; the NAPI has the setting since Linux 6.13, before the device. */
#ifdef XWAY_HAVE_NAPI_CONFIG
#define XWAY_NAPI_DEFERS_EACH 1
#else
#define XWAY_NAPI_DEFERS_EACH 0
#endif
static inline void xway_napi_defer(struct napi_struct *napi, u64 ns)
{
#ifdef XWAY_HAVE_NAPI_CONFIG
	WRITE_ONCE(napi->gro_flush_timeout, ns);
	WRITE_ONCE(napi->defer_hard_irqs, ns ? 1 : 0);
#else
	WRITE_ONCE(napi->dev->gro_flush_timeout, ns);
	WRITE_ONCE(napi->dev->napi_defer_hard_irqs, ns ? 1 : 0);
#endif
}

/* A kernel that no driver of its own asks for DIM has none. */
#define XWAY_HAVE_DIM IS_REACHABLE(CONFIG_DIMLIB)

/* Since Linux 6.13 the sample comes by its address. */
static inline void xway_net_dim(struct dim *dim, const struct dim_sample *sample)
{
#if XWAY_HAVE_DIM
	void (*by_value)(struct dim *, struct dim_sample) = (void *)net_dim;
	void (*by_address)(struct dim *, const struct dim_sample *) = (void *)net_dim;

	if (__builtin_types_compatible_p(typeof(net_dim), typeof(*by_value)))
		by_value(dim, *sample);
	else
		by_address(dim, sample);
#endif
}

static inline u32 xway_dim_usecs(const struct dim *dim)
{
#if XWAY_HAVE_DIM
	return net_dim_get_rx_moderation(dim->mode, dim->profile_ix).usec;
#else
	return 0;
#endif
}
#endif /* _XWAY_NET_COMPAT */

#endif /* _XWAY_COMPAT_H */
