// SPDX-License-Identifier: GPL-2.0
/*
 * Generic netlink family "xway": on and off, connections, counters and reasons.
 * The attributes are described in include/uapi/linux/xway.h.
 */
#include <linux/module.h>
#include <net/sock.h>

#include "compat.h"
#include "client.h"
#include "conn.h"
#include "core/genl.h"
#include "netlink.h"
#include "others.h"
#include "attach.h"

static struct genl_family family;

static int get_doit(struct sk_buff *in, struct genl_info *info)
{
	struct sk_buff *skb;
	void *hdr;
	int err;

	err = xway_genl_reply_start(info, &family, &skb, &hdr);
	if (err)
		return err;
	if (nla_put_u8(skb, XWAY_A_ON, xway_attach_is_on()) ||
	    nla_put_string(skb, XWAY_A_VERSION, XWAY_VERSION) ||
	    nla_put_u32(skb, XWAY_A_CONNS, xway_conn_count())) {
		nlmsg_free(skb);
		return -EMSGSIZE;
	}
	genlmsg_end(skb, hdr);
	return genlmsg_reply(skb, info);
}

static int set_doit(struct sk_buff *skb, struct genl_info *info)
{
	int err = xway_genl_need_admin(skb, info);

	if (err)
		return err;
	if (GENL_REQ_ATTR_CHECK(info, XWAY_A_ON)) {
		NL_SET_ERR_MSG(info->extack, "attribute \"on\" is missing");
		return -EINVAL;
	}
	xway_attach_set(nla_get_u8(info->attrs[XWAY_A_ON]));
	return 0;
}

/* Tries to add up without the lock: a connection that is freed spoils a try */
#define LOOKS 4

/* Add up freed connections and live ones: of one link, or of all if @tl is NULL. */
static void sum(const struct xway_tcp_link *tl, u64 *n)
{
	struct xway_conn *conn;
	int i;

	for (i = 0; i < XWAY_LINK_COUNTERS; i++)
		n[i] = tl ? atomic64_read(&tl->base[i]) :
			    xway_counted(XWAY_N_TX_RING + i);
	list_for_each_entry_rcu(conn, &xway_conns, all,
				lockdep_is_held(&xway_conns_lock)) {
		if (tl && READ_ONCE(conn->tl) != tl)
			continue;
		n[0] += READ_ONCE(conn->tx.ring_bytes);
		n[1] += READ_ONCE(conn->tx.tcp_bytes);
		n[2] += READ_ONCE(conn->rx.ring_bytes);
		n[3] += READ_ONCE(conn->rx.tcp_bytes);
	}
}

/*
 * Bytes of one link's connections, or of all. A connection that is freed
 * meanwhile must be in exactly one of the two sums. Anybody may ask again and
 * again, so the lock is taken only if connections are freed all the time:
 * softirqs want it, too.
 */
static void carried(const struct xway_tcp_link *tl, u64 *n)
{
	unsigned int seq;
	int i;

	for (i = 0; i < LOOKS; i++) {
		rcu_read_lock();
		seq = read_seqcount_begin(&xway_conns_seq);
		sum(tl, n);
		rcu_read_unlock();
		if (!read_seqcount_retry(&xway_conns_seq, seq))
			return;
		cond_resched();
	}
	spin_lock_bh(&xway_conns_lock);
	sum(tl, n);
	spin_unlock_bh(&xway_conns_lock);
}

/**
 * xway_netlink_show() - put what sockets know of a link into the core's message
 * @link: the link
 * @skb: the message
 *
 * Context: process, may sleep.
 * Return: 0 or -EMSGSIZE.
 */
int xway_netlink_show(struct xway_link *link, struct sk_buff *skb)
{
	/* It stays until this returns, see struct xway_client. */
	const struct xway_tcp_link *tl =
		rcu_dereference_protected(link->data[XWAY_SERVICE_SOCKETS], true);
	u64 bytes[XWAY_LINK_COUNTERS];
	struct nlattr *service, *nest;
	int i;

	if (!tl)
		return 0;
	carried(tl, bytes);
	service = nla_nest_start(skb, XWAY_A_SERVICE);
	if (!service || nla_put_string(skb, XWAY_A_NAME, xway_sockets.name) ||
	    nla_put_u32(skb, XWAY_A_CONNS, atomic_read(&tl->conns)))
		return -EMSGSIZE;
	nest = nla_nest_start(skb, XWAY_A_STATS);
	if (!nest)
		return -EMSGSIZE;
	for (i = 0; i < XWAY_LINK_COUNTERS; i++)
		if (xway_genl_put_counter(skb, xway_counter_names[XWAY_N_TX_RING + i],
					  bytes[i]))
			return -EMSGSIZE;
	nla_nest_end(skb, nest);
	nla_nest_end(skb, service);
	return 0;
}

static int stats_doit(struct sk_buff *in, struct genl_info *info)
{
	u64 bytes[XWAY_LINK_COUNTERS];
	struct nlattr *nest;
	struct sk_buff *skb;
	void *hdr;
	int i, err;

	err = xway_genl_reply_start(info, &family, &skb, &hdr);
	if (err)
		return err;
	carried(NULL, bytes);
	nest = nla_nest_start(skb, XWAY_A_STATS);
	if (!nest)
		goto full;
	for (i = 0; i < XWAY_COUNTERS_MAX; i++) {
		u64 v = i < XWAY_N_TX_RING ? xway_counted(i) :
					     bytes[i - XWAY_N_TX_RING];

		if (xway_genl_put_counter(skb, xway_counter_names[i], v))
			goto full;
	}
	nla_nest_end(skb, nest);
	nest = nla_nest_start(skb, XWAY_A_FALLBACKS);
	if (!nest)
		goto full;
	for (i = 1; i < XWAY_REASONS_MAX; i++)
		if (xway_genl_put_counter(skb, xway_reason_names[i],
					  atomic64_read(&xway_reasons[i])))
			goto full;
	nla_nest_end(skb, nest);
	genlmsg_end(skb, hdr);
	return genlmsg_reply(skb, info);

full:
	nlmsg_free(skb);
	return -EMSGSIZE;
}

/*
 * The socket of a connection, as far as it can be shown.
 * @net: the only network namespace whose connections may be shown, as inet_diag does
 *	it; NULL for all
 * Return: false if the connection must not be shown.
 */
static bool socket_of(struct xway_conn *conn, const struct net *net, u64 *inode, u32 *netns)
{
	struct sock *sk;
	bool ret;

	*inode = 0;
	*netns = 0;
	spin_lock_bh(&conn->lock);
	sk = conn->sk;
	/* Without its socket nobody knows whose it was. */
	ret = !net || (sk && net_eq(sock_net(sk), net));
	if (sk && ret) {
		*inode = sock_i_ino(sk);
		*netns = sock_net(sk)->ns.inum;
	}
	spin_unlock_bh(&conn->lock);
	return ret;
}

/* Addresses and ports. @active: this is the end that connected, by @t */
static int put_ends(struct sk_buff *skb, const struct xway_tuple *t, bool active)
{
	const __be32 *near = active ? t->saddr : t->daddr;
	const __be32 *far = active ? t->daddr : t->saddr;
	int len = t->family == AF_INET ? 4 : 16;

	if (nla_put(skb, XWAY_A_LOCAL, len, near) ||
	    nla_put(skb, XWAY_A_REMOTE, len, far) ||
	    nla_put_u16(skb, XWAY_A_LOCAL_PORT, ntohs(active ? t->sport : t->dport)) ||
	    nla_put_u16(skb, XWAY_A_REMOTE_PORT, ntohs(active ? t->dport : t->sport)))
		return -EMSGSIZE;
	return 0;
}

/* Return: 0; -EMSGSIZE; -ENOENT if the connection must not be shown, see socket_of(). */
static int put_conn(struct sk_buff *skb, struct xway_conn *conn, const struct net *net)
{
	const struct xway_link *link = xway_conn_link(conn);
	enum xway_reason why = conn->reason;
	const char *rx;
	u32 netns;
	u64 inode;

	if (!socket_of(conn, net, &inode, &netns))
		return -ENOENT;
	rx = READ_ONCE(conn->rx.spilled) && !xway_rx_done(conn) ? "spill" :
	     READ_ONCE(conn->rx.gen) & 1 ? "ring" : "tcp";
	if (why == XWAY_R_NONE && !xway_link_is_up(link))
		why = XWAY_R_LINK;
	if (nla_put_string(skb, XWAY_A_PEER_NAME, link->name) ||
	    put_ends(skb, &conn->tuple, conn->active) ||
	    nla_put_string(skb, XWAY_A_STATE, xway_conn_state_name(conn)) ||
	    nla_put_string(skb, XWAY_A_TX,
			   READ_ONCE(conn->tx.gen) & 1 ? "ring" : "tcp") ||
	    nla_put_string(skb, XWAY_A_RX, rx) ||
	    (why != XWAY_R_NONE &&
	     nla_put_string(skb, XWAY_A_REASON, xway_reason_names[why])) ||
	    xway_genl_put_u64(skb, XWAY_A_TX_RING, READ_ONCE(conn->tx.ring_bytes)) ||
	    xway_genl_put_u64(skb, XWAY_A_TX_TCP, READ_ONCE(conn->tx.tcp_bytes)) ||
	    xway_genl_put_u64(skb, XWAY_A_RX_RING, READ_ONCE(conn->rx.ring_bytes)) ||
	    xway_genl_put_u64(skb, XWAY_A_RX_TCP, READ_ONCE(conn->rx.tcp_bytes)) ||
	    nla_put_u32(skb, XWAY_A_RING_SIZE, READ_ONCE(conn->tx.size)) ||
	    xway_genl_put_u64(skb, XWAY_A_INODE, inode) ||
	    nla_put_u32(skb, XWAY_A_NETNS, netns))
		return -EMSGSIZE;
	return 0;
}

/* The namespace whose connections may be shown; NULL for all */
static const struct net *shown_to(const struct sk_buff *skb, const struct netlink_callback *cb)
{
	const struct net *net = sock_net(skb->sk);

	/* Who may change the modules, and enter any namespace, sees all. */
	return netlink_capable(cb->skb, CAP_NET_ADMIN) && net_eq(net, &init_net) ? NULL : net;
}

static int conn_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	const struct net *net = shown_to(skb, cb);
	struct xway_conn *conn;
	long at = 0;

	rcu_read_lock();
	list_for_each_entry_rcu(conn, &xway_conns, all) {
		void *hdr;

		if (at++ < cb->args[0])
			continue;
		if (!READ_ONCE(conn->established)) {
			cb->args[0] = at;
			continue;
		}
		hdr = genlmsg_put(skb, NETLINK_CB(cb->skb).portid,
				  cb->nlh->nlmsg_seq, &family, NLM_F_MULTI,
				  XWAY_CMD_GET_CONN);
		if (!hdr)
			break;
		/* The connection's last reference may take the link with it:
		 * hold one.
		 */
		if (refcount_inc_not_zero(&conn->ref)) {
			int err = put_conn(skb, conn, net);

			xway_conn_put(conn);
			if (err)
				genlmsg_cancel(skb, hdr);
			if (err == -EMSGSIZE)
				break;
			if (!err)
				genlmsg_end(skb, hdr);
		} else {
			genlmsg_cancel(skb, hdr);
		}
		cb->args[0] = at;
	}
	rcu_read_unlock();
	return skb->len;
}

/* Return: 0; -EMSGSIZE; -ENOENT if it is not to be shown. */
static int put_other(struct sk_buff *skb, struct sock *sk)
{
	const struct xway_link *link;
	enum xway_reason why;
	int err = -ENOENT;
	struct xway_tuple t;
	u32 netns = 0;
	bool shown;

	local_bh_disable();
	bh_lock_sock(sk);
	xway_attach_tuple(sk, true, &t);
	shown = xway_attach_why_not(sk, &why);
	/* A socket of the kernel's may have no reference on its namespace. */
	if (sk->sk_net_refcnt)
		netns = sock_net(sk)->ns.inum;
	bh_unlock_sock(sk);
	local_bh_enable();
	if (!shown)
		return -ENOENT;
	rcu_read_lock();
	link = xway_addr_find(t.family, t.daddr, true);
	if (link)
		err = nla_put_string(skb, XWAY_A_PEER_NAME, link->name);
	rcu_read_unlock();
	if (err)
		return err;
	if (put_ends(skb, &t, true) ||
	    nla_put_string(skb, XWAY_A_STATE, "not-attached") ||
	    (why != XWAY_R_NONE &&
	     nla_put_string(skb, XWAY_A_REASON, xway_reason_names[why])) ||
	    xway_genl_put_u64(skb, XWAY_A_INODE, sock_i_ino(sk)) ||
	    nla_put_u32(skb, XWAY_A_NETNS, netns))
		return -EMSGSIZE;
	return 0;
}

static int other_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	const struct net *net = shown_to(skb, cb);
	u32 bucket = cb->args[0], nth = cb->args[1];
	struct sock *sk;
	int err = 0;

	while (err != -EMSGSIZE && (sk = xway_others_next(net, &bucket, &nth))) {
		void *hdr = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
					&family, NLM_F_MULTI, XWAY_CMD_GET_OTHER);

		err = hdr ? put_other(skb, sk) : -EMSGSIZE;
		if (hdr && err)
			genlmsg_cancel(skb, hdr);
		else if (hdr)
			genlmsg_end(skb, hdr);
		sock_put(sk);
	}
	cb->args[0] = bucket;
	cb->args[1] = err == -EMSGSIZE ? nth - 1 : nth;
	return skb->len;
}

static const struct nla_policy policy[XWAY_A_MAX + 1] = {
	[XWAY_A_ON] = NLA_POLICY_MAX(NLA_U8, 1),
};

static const struct genl_small_ops small_ops[] = {
	{ .cmd = XWAY_CMD_GET, .doit = get_doit },
	{ .cmd = XWAY_CMD_SET, .doit = set_doit },
	{ .cmd = XWAY_CMD_GET_CONN, .dumpit = conn_dumpit },
	{ .cmd = XWAY_CMD_GET_OTHER, .dumpit = other_dumpit },
	{ .cmd = XWAY_CMD_GET_STATS, .doit = stats_doit },
};

static struct genl_family family = {
	.name = XWAY_GENL_NAME,
	.version = XWAY_GENL_VERSION,
	.maxattr = XWAY_A_MAX,
	.policy = policy,
	.netnsok = true,
	.module = THIS_MODULE,
	.small_ops = small_ops,
	.n_small_ops = ARRAY_SIZE(small_ops),
	.resv_start_op = __XWAY_CMD_MAX,
};

/**
 * xway_netlink_init() - register the family
 *
 * Return: 0, or as genl_register_family().
 */
int __init xway_netlink_init(void)
{
	return genl_register_family(&family);
}

/**
 * xway_netlink_exit() - remove the family
 */
void xway_netlink_exit(void)
{
	genl_unregister_family(&family);
}
