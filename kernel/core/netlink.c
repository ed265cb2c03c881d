// SPDX-License-Identifier: GPL-2.0
/*
 * Generic netlink family "xway_core": memory, links, counters, and the addresses of
 * the transport "local". include/uapi/linux/xway.h describes the attributes.
 */
#include <linux/module.h>
#include <net/sock.h>

#include "addr.h"
#include "genl.h"
#include "link.h"
#include "local.h"
#include "netlink.h"
#include "revoke.h"
#include "stats.h"

static struct genl_family family;

static int get_doit(struct sk_buff *in, struct genl_info *info)
{
	u32 channels = 0;
	struct link *link;
	struct sk_buff *skb;
	void *hdr;
	int err;

	mutex_lock(&xway_links_lock);
	list_for_each_entry(link, &xway_links, node)
		channels += READ_ONCE(link->pub.n_chans);
	mutex_unlock(&xway_links_lock);
	err = xway_genl_reply_start(info, &family, &skb, &hdr);
	if (err)
		return err;
	if (nla_put_string(skb, XWAY_A_VERSION, XWAY_VERSION) ||
	    nla_put_u32(skb, XWAY_A_CHANNELS, channels) ||
	    nla_put_u32(skb, XWAY_A_PAGES, xway_arena_pages_total()) ||
	    nla_put_u32(skb, XWAY_A_PAGES_USED,
			xway_arena_pages_in_use()) ||
	    nla_put_u32(skb, XWAY_A_PAGES_MAX, READ_ONCE(xway_pages_max)) ||
	    nla_put_u32(skb, XWAY_A_UNREVOKED, xway_unrevoked())) {
		nlmsg_free(skb);
		return -EMSGSIZE;
	}
	genlmsg_end(skb, hdr);
	return genlmsg_reply(skb, info);
}

static int stats_doit(struct sk_buff *in, struct genl_info *info)
{
	struct nlattr *nest;
	struct sk_buff *skb;
	void *hdr;
	int i, err;

	err = xway_genl_reply_start(info, &family, &skb, &hdr);
	if (err)
		return err;
	nest = nla_nest_start(skb, XWAY_A_STATS);
	if (!nest)
		goto full;
	for (i = 0; i < CORE_COUNTERS_MAX; i++)
		if (xway_genl_put_counter(skb, xway_core_counter_names[i], xway_core_counted(i)))
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

static int put_peer(struct sk_buff *skb, struct link *link)
{
	u32 channels, pages, used, mapped, silent = xway_link_silent(&link->pub);

	mutex_lock(&link->pub.lock);
	channels = link->pub.n_chans;
	pages = link->arena.shared;
	used = link->arena.in_use;
	mapped = link->import.mapped;
	mutex_unlock(&link->pub.lock);
	if (nla_put_string(skb, XWAY_A_PEER_NAME, link->pub.name) ||
	    nla_put_string(skb, XWAY_A_PEER_STATE, xway_link_state_name(link)) ||
	    xway_addr_each(&link->pub, put_addr, skb) ||
	    nla_put_u32(skb, XWAY_A_CHANNELS, channels) ||
	    nla_put_u32(skb, XWAY_A_PAGES, pages) ||
	    nla_put_u32(skb, XWAY_A_PAGES_USED, used) ||
	    nla_put_u32(skb, XWAY_A_PAGES_MAPPED, mapped) ||
	    nla_put_u32(skb, XWAY_A_SILENT, silent))
		return -EMSGSIZE;
	return xway_client_show(link, skb);
}

/* args[0] is the number of links that are dumped already. A link that is destroyed
 * between two messages of a dump can make the dump skip another one.
 */
static int peer_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	int err = xway_genl_need_initial(sock_net(skb->sk), cb->extack);
	struct link *link;
	long at = 0;

	if (err)
		return err;
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

/* The address or prefix of a request. Return: 0 or a negative errno. */
static int addr_of(struct sk_buff *skb, struct genl_info *info, struct xway_addr *addr)
{
	struct nlattr *a = info->attrs[XWAY_A_ADDR];
	struct nlattr *p = info->attrs[XWAY_A_PREFIX];
	int i, bits, err = xway_genl_need_admin(skb, info);

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
	int err = addr_of(skb, info, &addr);

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
	int err = addr_of(skb, info, &addr);

	if (!err)
		err = xway_local_del(&addr);
	if (err == -ENOENT)
		NL_SET_ERR_MSG(info->extack, "no peer has this prefix");
	return err;
}

static const struct nla_policy policy[XWAY_A_MAX + 1] = {
	[XWAY_A_ADDR] = NLA_POLICY_RANGE(NLA_BINARY, 4, 16),
	[XWAY_A_PREFIX] = NLA_POLICY_MAX(NLA_U8, 128),
};

static const struct genl_small_ops small_ops[] = {
	{ .cmd = XWAY_CMD_GET, .doit = get_doit },
	{ .cmd = XWAY_CMD_GET_PEER, .dumpit = peer_dumpit },
	{ .cmd = XWAY_CMD_GET_STATS, .doit = stats_doit },
	{ .cmd = XWAY_CMD_LOCAL_ADD, .doit = local_add_doit },
	{ .cmd = XWAY_CMD_LOCAL_DEL, .doit = local_del_doit },
};

static struct genl_family family = {
	.name = XWAY_CORE_GENL_NAME,
	.version = XWAY_GENL_VERSION,
	.maxattr = XWAY_A_MAX,
	.policy = policy,
	.netnsok = true,
	.module = THIS_MODULE,
	.small_ops = small_ops,
	.n_small_ops = ARRAY_SIZE(small_ops),
	.resv_start_op = __XWAY_CMD_MAX,
};

/* Return: 0 or a negative errno. */
int __init xway_core_netlink_init(void)
{
	return genl_register_family(&family);
}

void xway_core_netlink_exit(void)
{
	genl_unregister_family(&family);
}
