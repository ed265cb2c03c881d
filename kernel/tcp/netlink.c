// SPDX-License-Identifier: GPL-2.0
/*
 * Generic netlink: state, peers, connections, statistics. The attributes are
 * described in include/uapi/linux/xway.h.
 */
#include <linux/capability.h>
#include <net/genetlink.h>
#include <net/sock.h>

#include "compat.h"
#include "conn.h"
#include "link.h"
#include "local.h"
#include "netlink.h"
#include "addr.h"
#include "attach.h"
#include "uapi/linux/xway.h"

static struct genl_family family;

static int put_u64(struct sk_buff *skb, int attr, u64 value)
{
	return nla_put_u64_64bit(skb, attr, value, XWAY_A_PAD);
}

static int need_admin(struct genl_info *info)
{
	if (capable(CAP_NET_ADMIN))
		return 0;
	NL_SET_ERR_MSG(info->extack, "needs CAP_NET_ADMIN");
	return -EPERM;
}

static int reply_start(struct genl_info *info, struct sk_buff **skb, void **hdr)
{
	*skb = nlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	if (!*skb)
		return -ENOMEM;
	*hdr = genlmsg_put_reply(*skb, info, &family, 0, info->genlhdr->cmd);
	if (*hdr)
		return 0;
	nlmsg_free(*skb);
	return -EMSGSIZE;
}

static int get_doit(struct sk_buff *in, struct genl_info *info)
{
	u32 channels = 0;
	struct xway_link *link;
	struct sk_buff *skb;
	void *hdr;
	int err;

	mutex_lock(&xway_links_lock);
	list_for_each_entry(link, &xway_links, node) {
		mutex_lock(&link->lock);
		channels += link->n_chans;
		mutex_unlock(&link->lock);
	}
	mutex_unlock(&xway_links_lock);
	err = reply_start(info, &skb, &hdr);
	if (err)
		return err;
	if (nla_put_u8(skb, XWAY_A_ON, xway_attach_is_on()) ||
	    nla_put_string(skb, XWAY_A_VERSION, XWAY_VERSION) ||
	    nla_put_u32(skb, XWAY_A_CONNS, xway_conn_count()) ||
	    nla_put_u32(skb, XWAY_A_CHANNELS, channels) ||
	    nla_put_u32(skb, XWAY_A_PAGES, xway_arena_pages_total()) ||
	    nla_put_u32(skb, XWAY_A_PAGES_USED,
			xway_arena_pages_in_use()) ||
	    nla_put_u32(skb, XWAY_A_PAGES_MAX, READ_ONCE(xway_pages_max)) ||
	    nla_put_u32(skb, XWAY_A_UNREVOKED, xway_arena_unrevoked())) {
		nlmsg_free(skb);
		return -EMSGSIZE;
	}
	genlmsg_end(skb, hdr);
	return genlmsg_reply(skb, info);
}

static int set_doit(struct sk_buff *skb, struct genl_info *info)
{
	int err = need_admin(info);

	if (err)
		return err;
	if (GENL_REQ_ATTR_CHECK(info, XWAY_A_ON)) {
		NL_SET_ERR_MSG(info->extack, "attribute \"on\" is missing");
		return -EINVAL;
	}
	xway_attach_set(nla_get_u8(info->attrs[XWAY_A_ON]));
	return 0;
}

static int put_named(struct sk_buff *skb, const char *name, u64 value)
{
	struct nlattr *nest = nla_nest_start(skb, XWAY_A_COUNTER);

	if (!nest || nla_put_string(skb, XWAY_A_NAME, name) ||
	    put_u64(skb, XWAY_A_VALUE, value))
		return -EMSGSIZE;
	nla_nest_end(skb, nest);
	return 0;
}

/* Walks of the list that a connection which ends may spoil */
#define LOOKS 4

/* The sums of those that ended, and the live ones. */
static void sum(struct xway_link *link, u64 *n)
{
	struct xway_conn *conn;
	int i;

	for (i = 0; i < XWAY_LINK_COUNTERS; i++)
		n[i] = link ? atomic64_read(&link->base[i]) :
			      xway_counted(XWAY_N_TX_RING + i);
	list_for_each_entry_rcu(conn, &xway_conns, all,
				lockdep_is_held(&xway_conns_lock)) {
		if (link && conn->link != link)
			continue;
		n[0] += READ_ONCE(conn->tx.ring_bytes);
		n[1] += READ_ONCE(conn->tx.tcp_bytes);
		n[2] += READ_ONCE(conn->rx.ring_bytes);
		n[3] += READ_ONCE(conn->rx.tcp_bytes);
	}
}

/*
 * Bytes of one link's connections or of all. One that ends meanwhile must be in one
 * of the two sums. Anybody may ask, again and again: softirqs that want the lock do
 * not wait for a walk of all, unless connections end all the time.
 */
static void carried(struct xway_link *link, u64 *n)
{
	unsigned int seq;
	int i;

	for (i = 0; i < LOOKS; i++) {
		rcu_read_lock();
		seq = read_seqcount_begin(&xway_conns_seq);
		sum(link, n);
		rcu_read_unlock();
		if (!read_seqcount_retry(&xway_conns_seq, seq))
			return;
		cond_resched();
	}
	spin_lock_bh(&xway_conns_lock);
	sum(link, n);
	spin_unlock_bh(&xway_conns_lock);
}

static int stats_doit(struct sk_buff *in, struct genl_info *info)
{
	u64 bytes[XWAY_LINK_COUNTERS];
	struct nlattr *nest;
	struct sk_buff *skb;
	void *hdr;
	int i, err;

	carried(NULL, bytes);
	err = reply_start(info, &skb, &hdr);
	if (err)
		return err;
	nest = nla_nest_start(skb, XWAY_A_STATS);
	if (!nest)
		goto full;
	for (i = 0; i < XWAY_COUNTERS_MAX; i++) {
		u64 v = i < XWAY_N_TX_RING ? xway_counted(i) :
					     bytes[i - XWAY_N_TX_RING];

		if (put_named(skb, xway_counter_names[i], v))
			goto full;
	}
	nla_nest_end(skb, nest);
	nest = nla_nest_start(skb, XWAY_A_FALLBACKS);
	if (!nest)
		goto full;
	for (i = 1; i < XWAY_REASONS_MAX; i++)
		if (put_named(skb, xway_reason_names[i],
			      atomic64_read(&xway_reasons[i])))
			goto full;
	nla_nest_end(skb, nest);
	genlmsg_end(skb, hdr);
	return genlmsg_reply(skb, info);

full:
	nlmsg_free(skb);
	return -EMSGSIZE;
}

static int put_addr(const struct xway_addr *addr, void *skb)
{
	struct nlattr *nest = nla_nest_start(skb, XWAY_A_PEER_ADDR);

	if (!nest ||
	    nla_put(skb, XWAY_A_ADDR, addr->family == AF_INET ? 4 : 16,
		    addr->addr) ||
	    nla_put_u8(skb, XWAY_A_PREFIX, addr->prefix))
		return -EMSGSIZE;
	nla_nest_end(skb, nest);
	return 0;
}

static int put_peer(struct sk_buff *skb, struct xway_link *link)
{
	u64 bytes[XWAY_LINK_COUNTERS];
	struct nlattr *nest;
	u32 channels, pages, used, mapped;
	int i;

	mutex_lock(&link->lock);
	channels = link->n_chans;
	pages = link->arena.shared;
	used = link->arena.in_use;
	mapped = link->import.mapped;
	mutex_unlock(&link->lock);
	carried(link, bytes);
	if (nla_put_string(skb, XWAY_A_PEER_NAME, link->name) ||
	    nla_put_string(skb, XWAY_A_PEER_STATE,
			   xway_link_state_name(link)) ||
	    xway_addr_each(link, put_addr, skb) ||
	    nla_put_u32(skb, XWAY_A_CONNS, atomic_read(&link->conns)) ||
	    nla_put_u32(skb, XWAY_A_CHANNELS, channels) ||
	    nla_put_u32(skb, XWAY_A_PAGES, pages) ||
	    nla_put_u32(skb, XWAY_A_PAGES_USED, used) ||
	    nla_put_u32(skb, XWAY_A_PAGES_MAPPED, mapped))
		return -EMSGSIZE;
	nest = nla_nest_start(skb, XWAY_A_STATS);
	if (!nest)
		return -EMSGSIZE;
	for (i = 0; i < XWAY_LINK_COUNTERS; i++)
		if (put_named(skb, xway_counter_names[XWAY_N_TX_RING + i],
			      bytes[i]))
			return -EMSGSIZE;
	nla_nest_end(skb, nest);
	return 0;
}

/* Dumps number the objects; one that goes meanwhile may hide another. */
static int peer_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct xway_link *link;
	long at = 0;

	mutex_lock(&xway_links_lock);
	list_for_each_entry(link, &xway_links, node) {
		void *hdr;

		if (at++ < cb->args[0])
			continue;
		hdr = genlmsg_put(skb, NETLINK_CB(cb->skb).portid,
				  cb->nlh->nlmsg_seq, &family, NLM_F_MULTI,
				  XWAY_CMD_GET_PEER);
		if (!hdr)
			break;
		if (put_peer(skb, link)) {
			genlmsg_cancel(skb, hdr);
			break;
		}
		genlmsg_end(skb, hdr);
		cb->args[0] = at;
	}
	mutex_unlock(&xway_links_lock);
	return skb->len;
}

static void socket_of(struct xway_conn *conn, u64 *inode, u32 *netns)
{
	struct sock *sk;

	*inode = 0;
	*netns = 0;
	spin_lock_bh(&conn->lock);
	sk = conn->sk;
	if (sk) {
		*inode = sock_i_ino(sk);
		*netns = sock_net(sk)->ns.inum;
	}
	spin_unlock_bh(&conn->lock);
}

static int put_conn(struct sk_buff *skb, struct xway_conn *conn)
{
	const struct xway_tuple *t = &conn->tuple;
	const __be32 *near = conn->active ? t->saddr : t->daddr;
	const __be32 *far = conn->active ? t->daddr : t->saddr;
	int len = t->family == AF_INET ? 4 : 16;
	const char *rx;
	u32 netns;
	u64 inode;

	socket_of(conn, &inode, &netns);
	rx = READ_ONCE(conn->rx.spilled) && !xway_rx_done(conn) ? "spill" :
	     READ_ONCE(conn->rx.gen) & 1 ? "ring" : "tcp";
	if (nla_put_string(skb, XWAY_A_PEER_NAME, conn->link->name) ||
	    nla_put(skb, XWAY_A_LOCAL, len, near) ||
	    nla_put(skb, XWAY_A_REMOTE, len, far) ||
	    nla_put_u16(skb, XWAY_A_LOCAL_PORT,
			ntohs(conn->active ? t->sport : t->dport)) ||
	    nla_put_u16(skb, XWAY_A_REMOTE_PORT,
			ntohs(conn->active ? t->dport : t->sport)) ||
	    nla_put_string(skb, XWAY_A_STATE, xway_conn_state_name(conn)) ||
	    nla_put_string(skb, XWAY_A_TX,
			   READ_ONCE(conn->tx.gen) & 1 ? "ring" : "tcp") ||
	    nla_put_string(skb, XWAY_A_RX, rx) ||
	    (conn->reason && nla_put_string(skb, XWAY_A_REASON,
				xway_reason_names[conn->reason])) ||
	    put_u64(skb, XWAY_A_TX_RING, READ_ONCE(conn->tx.ring_bytes)) ||
	    put_u64(skb, XWAY_A_TX_TCP, READ_ONCE(conn->tx.tcp_bytes)) ||
	    put_u64(skb, XWAY_A_RX_RING, READ_ONCE(conn->rx.ring_bytes)) ||
	    put_u64(skb, XWAY_A_RX_TCP, READ_ONCE(conn->rx.tcp_bytes)) ||
	    nla_put_u32(skb, XWAY_A_RING_SIZE, READ_ONCE(conn->tx.size)) ||
	    put_u64(skb, XWAY_A_INODE, inode) ||
	    nla_put_u32(skb, XWAY_A_NETNS, netns))
		return -EMSGSIZE;
	return 0;
}

static int conn_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
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
		/* Its link may go with its last reference: take one. */
		if (refcount_inc_not_zero(&conn->ref)) {
			int err = put_conn(skb, conn);

			xway_conn_put(conn);
			if (err) {
				genlmsg_cancel(skb, hdr);
				break;
			}
			genlmsg_end(skb, hdr);
		} else {
			genlmsg_cancel(skb, hdr);
		}
		cb->args[0] = at;
	}
	rcu_read_unlock();
	return skb->len;
}

static int addr_of(struct genl_info *info, struct xway_addr *addr)
{
	struct nlattr *a = info->attrs[XWAY_A_ADDR];
	struct nlattr *p = info->attrs[XWAY_A_PREFIX];
	int i, bits, err = need_admin(info);

	if (err)
		return err;
	if (!a || !p) {
		NL_SET_ERR_MSG(info->extack,
			       "needs attributes \"addr\" and \"prefix\"");
		return -EINVAL;
	}
	if (nla_len(a) != 4 && nla_len(a) != 16) {
		NL_SET_ERR_MSG_ATTR(info->extack, a,
				    "an address has 4 or 16 bytes");
		return -EINVAL;
	}
	memset(addr, 0, sizeof(*addr));
	addr->family = nla_len(a) == 4 ? AF_INET : AF_INET6;
	addr->prefix = nla_get_u8(p);
	if (addr->prefix > nla_len(a) * 8) {
		NL_SET_ERR_MSG_ATTR(info->extack, p,
				    "the prefix is longer than the address");
		return -EINVAL;
	}
	nla_memcpy(addr->addr, a, sizeof(addr->addr));
	for (i = 0, bits = addr->prefix; i < 4; i++, bits -= min(bits, 32)) {
		u32 mask = bits >= 32 ? ~0U : bits ? ~0U << (32 - bits) : 0;

		if (ntohl(addr->addr[i]) & ~mask) {
			NL_SET_ERR_MSG_ATTR(info->extack, a,
					    "the address has bits beyond its prefix");
			return -EINVAL;
		}
	}
	return 0;
}

static int local_add_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct xway_addr addr;
	int err = addr_of(info, &addr);

	if (!err)
		err = xway_local_add(&addr);
	if (err == -EEXIST)
		NL_SET_ERR_MSG(info->extack,
			       "this prefix belongs to a peer already");
	return err;
}

static int local_del_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct xway_addr addr;
	int err = addr_of(info, &addr);

	if (!err)
		err = xway_local_del(&addr);
	if (err == -ENOENT)
		NL_SET_ERR_MSG(info->extack, "no peer has this prefix");
	return err;
}

static const struct nla_policy policy[XWAY_A_MAX + 1] = {
	[XWAY_A_ON] = NLA_POLICY_MAX(NLA_U8, 1),
	[XWAY_A_ADDR] = NLA_POLICY_RANGE(NLA_BINARY, 4, 16),
	[XWAY_A_PREFIX] = NLA_POLICY_MAX(NLA_U8, 128),
};

static const struct genl_small_ops small_ops[] = {
	{ .cmd = XWAY_CMD_GET, .doit = get_doit },
	{ .cmd = XWAY_CMD_SET, .doit = set_doit },
	{ .cmd = XWAY_CMD_GET_PEER, .dumpit = peer_dumpit },
	{ .cmd = XWAY_CMD_GET_CONN, .dumpit = conn_dumpit },
	{ .cmd = XWAY_CMD_GET_STATS, .doit = stats_doit },
	{ .cmd = XWAY_CMD_LOCAL_ADD, .doit = local_add_doit },
	{ .cmd = XWAY_CMD_LOCAL_DEL, .doit = local_del_doit },
};

static struct genl_family family = {
	.name = XWAY_GENL_NAME,
	.version = XWAY_GENL_VERSION,
	.maxattr = XWAY_A_MAX,
	.policy = policy,
	.module = THIS_MODULE,
	.small_ops = small_ops,
	.n_small_ops = ARRAY_SIZE(small_ops),
	.resv_start_op = __XWAY_CMD_MAX,
};

int __init xway_netlink_init(void)
{
	return genl_register_family(&family);
}

void xway_netlink_exit(void)
{
	genl_unregister_family(&family);
}
