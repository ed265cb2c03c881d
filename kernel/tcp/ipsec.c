// SPDX-License-Identifier: GPL-2.0
/*
 * IPsec: a connection whose packets a policy has encrypted, signed or refused
 * stays on TCP, because a ring is plain memory. So does one whose route leads
 * into a tunnel, which may encrypt, too.
 *
 * The question is the one that TCP asks before it sends: is the route that the
 * socket has still valid, and if not, which is? The kernel makes routes invalid
 * when a policy, a route, an address or a mark of the socket changes. So the
 * answer has all that counts for TCP: selectors, priorities, marks and the
 * policies of the socket itself. It is asked when it can matter, and never for
 * a message:
 *
 * - as a connection is established: its packets have just taken a route;
 * - at each switch to the ring;
 * - once a second while there is a channel, if the route is not valid any more.
 *
 * A policy for what comes in makes routes invalid, too. Whether it would let the
 * peer's packets pass is asked with a packet that is made for that, and with
 * which nothing else happens.
 */
#include <linux/if_arp.h>
#include <linux/inetdevice.h>
#include <net/tcp.h>
#include <net/xfrm.h>

#include "attach.h"
#include "conn.h"
#include "ipsec.h"

/*
 * Xfrm interfaces and WireGuard; VTI and other tunnels of IP in IP. Tunnels of
 * Ethernet frames cannot be told from a network card.
 */
static bool tunnel(const struct net_device *dev)
{
	switch (dev->type) {
	case ARPHRD_NONE:
	case ARPHRD_TUNNEL:
	case ARPHRD_TUNNEL6:
	case ARPHRD_SIT:
	case ARPHRD_IPGRE:
	case ARPHRD_IP6GRE:
	case ARPHRD_PPP:
		return true;
	}
	return false;
}

/**
 * xway_ipsec_set() - has a socket, or its route, an IPsec policy?
 * @sk: the socket
 *
 * Believes the route that the socket has, if it has one.
 *
 * Context: any.
 * Return: true if packets of the connection are transformed, or take a tunnel.
 */
bool xway_ipsec_set(const struct sock *sk)
{
	const struct dst_entry *dst;
	bool ret;

	if (rcu_access_pointer(sk->sk_policy[XFRM_POLICY_IN]) ||
	    rcu_access_pointer(sk->sk_policy[XFRM_POLICY_OUT]))
		return true;
	rcu_read_lock();
	dst = rcu_dereference(sk->sk_dst_cache);
	/* While a policy waits for its keys, packets are discarded or queued. */
	ret = dst && (dst_xfrm(dst) || dst->output == dst_discard_out ||
		      (dst->flags & DST_XFRM_QUEUE) || tunnel(dst->dev));
	rcu_read_unlock();
	return ret;
}

static void put_ipv4(struct sk_buff *skb, const struct xway_tuple *tuple)
{
	struct iphdr *ip = skb_put_zero(skb, sizeof(*ip));

	ip->version = 4;
	ip->ihl = sizeof(*ip) / 4;
	ip->tot_len = htons(sizeof(*ip) + sizeof(struct tcphdr));
	ip->ttl = 64;
	ip->protocol = IPPROTO_TCP;
	ip->saddr = tuple->saddr[0];
	ip->daddr = tuple->daddr[0];
}

static void put_ipv6(struct sk_buff *skb, const struct xway_tuple *tuple)
{
	struct ipv6hdr *ip = skb_put_zero(skb, sizeof(*ip));

	ip->version = 6;
	ip->payload_len = htons(sizeof(struct tcphdr));
	ip->nexthdr = IPPROTO_TCP;
	ip->hop_limit = 64;
	memcpy(&ip->saddr, tuple->saddr, sizeof(ip->saddr));
	memcpy(&ip->daddr, tuple->daddr, sizeof(ip->daddr));
}

/* Make a packet as the peer sends them; NULL without memory. */
static struct sk_buff *peer_packet(const struct xway_tuple *tuple)
{
	struct sk_buff *skb = alloc_skb(sizeof(struct ipv6hdr) + sizeof(struct tcphdr), GFP_ATOMIC);
	struct tcphdr *tcp;

	if (!skb)
		return NULL;
	skb_reset_network_header(skb);
	if (tuple->family == AF_INET6)
		put_ipv6(skb, tuple);
	else
		put_ipv4(skb, tuple);
	skb->protocol = htons(tuple->family == AF_INET6 ? ETH_P_IPV6 : ETH_P_IP);
	skb_set_transport_header(skb, skb->len);
	tcp = skb_put_zero(skb, sizeof(*tcp));
	tcp->source = tuple->sport;
	tcp->dest = tuple->dport;
	tcp->doff = sizeof(*tcp) / 4;
	tcp->ack = 1;
	return skb;
}

/* Where the connection's packets come in: by the last one, or where its own leave. */
static struct net_device *input_device(const struct sock *sk)
{
	const struct dst_entry *dst = rcu_dereference(sk->sk_dst_cache);
	struct net_device *dev = dev_get_by_index_rcu(sock_net(sk), sk->sk_rx_dst_ifindex);

	return dev || !dst ? dev : dst->dev;
}

/*
 * Would a policy refuse the peer's packets, since they come as they are? The socket's own
 * policies are not asked here: see xway_ipsec_set(). If so, Xfrm's statistics count it.
 * Return: as xway_ipsec_check().
 */
static int refused_inward(struct sock *sk)
{
	const struct net *net = sock_net(sk);
	struct in_device *in_dev;
	struct xway_tuple tuple;
	struct dst_entry *dst;
	struct sk_buff *skb;
	int err = -EAGAIN;

	if (!READ_ONCE(net->xfrm.policy_count[XFRM_POLICY_IN]) &&
	    READ_ONCE(net->xfrm.policy_default[XFRM_POLICY_IN]) == XFRM_USERPOLICY_ACCEPT)
		return 0;
	/* From the peer to here, whichever end has called connect() */
	xway_attach_tuple(sk, false, &tuple);
	skb = peer_packet(&tuple);
	if (!skb)
		return -EAGAIN;
	rcu_read_lock();
	skb->dev = input_device(sk);
	if (skb->dev) {
		skb->skb_iif = skb->dev->ifindex;
		/* Both say that the device's policies are turned off, as for loopback. */
		in_dev = __in_dev_get_rcu(skb->dev);
		if (tuple.family == AF_INET && in_dev && IN_DEV_ORCONF(in_dev, NOPOLICY))
			IPCB(skb)->flags |= IPSKB_NOPOLICY;
		dst = rcu_dereference(sk->sk_rx_dst);
		if (dst)
			skb_dst_set_noref(skb, dst);
		err = xfrm_policy_check(NULL, XFRM_POLICY_IN, skb, tuple.family) ? 0 : -EPERM;
	}
	consume_skb(skb);
	rcu_read_unlock();
	return err;
}

/**
 * xway_ipsec_check() - does IPsec forbid a connection to leave TCP now?
 * @sk: its established socket, locked
 *
 * Has TCP find a route if it has no valid one, as it would before its next
 * packet.
 *
 * Context: process or RCU read-side section.
 * Return: 0; -EPERM if it does; -EAGAIN if there is no route or no memory now, and
 * so nobody knows.
 */
int xway_ipsec_check(struct sock *sk)
{
	int err;

	sock_owned_by_me(sk);
	err = inet_csk(sk)->icsk_af_ops->rebuild_header(sk);
	if (err == -EPERM || xway_ipsec_set(sk))
		return -EPERM;
	return err ? -EAGAIN : refused_inward(sk);
}

/* Would TCP look for another route before its next packet? See __sk_dst_check(). */
static bool route_is_stale(const struct sock *sk)
{
	struct dst_entry *dst;
	u32 cookie = 0;
	bool ret;

#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6)
		cookie = READ_ONCE(inet6_sk(sk)->dst_cookie);
#endif
	rcu_read_lock();
	dst = rcu_dereference(sk->sk_dst_cache);
	ret = !dst || (READ_ONCE(dst->obsolete) && !dst->ops->check(dst, cookie));
	rcu_read_unlock();
	return ret;
}

/**
 * xway_ipsec_look() - has anything changed for a connection with a channel?
 * @conn: the connection
 *
 * If so, its helper asks, with the socket locked.
 *
 * Context: process, RCU read-side section.
 */
void xway_ipsec_look(struct xway_conn *conn)
{
	struct sock *sk;

	if (test_bit(XWAY_F_FALLBACK, &conn->flags))
		return;
	sk = xway_conn_hold_sk(conn);
	if (!sk)
		return;
	if (route_is_stale(sk) || xway_ipsec_set(sk)) {
		set_bit(XWAY_F_POLICY, &conn->flags);
		xway_conn_queue(conn);
	}
	sock_put(sk);
}
