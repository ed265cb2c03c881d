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
 */
#include <linux/if_arp.h>
#include <net/tcp.h>
#include <net/xfrm.h>

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

/**
 * xway_ipsec_check() - does IPsec forbid a connection to leave TCP now?
 * @sk: its established socket, locked
 *
 * Has TCP find a route if it has no valid one, as it would before its next
 * packet.
 *
 * Context: process or RCU read-side section.
 * Return: 0; -EPERM if it does; -EAGAIN if there is no route now, and so nobody
 * knows.
 */
int xway_ipsec_check(struct sock *sk)
{
	int err;

	sock_owned_by_me(sk);
	err = inet_csk(sk)->icsk_af_ops->rebuild_header(sk);
	if (err == -EPERM || xway_ipsec_set(sk))
		return -EPERM;
	return err ? -EAGAIN : 0;
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
