/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for the generic netlink families of the core and of its clients.
 */
#ifndef _XWAY_GENL_H
#define _XWAY_GENL_H

#include <linux/capability.h>
#include <net/genetlink.h>
#include <net/net_namespace.h>

#include "uapi/linux/xway.h"

/*
 * What is of the whole machine is shown and changed in the initial network namespace alone.
 * Many a container has CAP_NET_ADMIN in the initial user namespace, meant for its own network.
 *
 * Return: 0; -EPERM, explained in the extended ACK, in another one.
 */
static inline int xway_genl_need_initial(const struct net *net, struct netlink_ext_ack *extack)
{
	if (net_eq(net, &init_net))
		return 0;
	NL_SET_ERR_MSG(extack, "only connections are shown in this network namespace");
	return -EPERM;
}

/*
 * What changes something does so for the whole machine. So it needs CAP_NET_ADMIN in the
 * initial user namespace, of whoever has sent @skb and of whoever has made its socket: a
 * privileged program may be given an unprivileged one's socket to write to.
 *
 * Return: 0; -EPERM, explained in the extended ACK, without CAP_NET_ADMIN, or as
 * xway_genl_need_initial().
 */
static inline int xway_genl_need_admin(struct sk_buff *skb, struct genl_info *info)
{
	if (netlink_capable(skb, CAP_NET_ADMIN))
		return xway_genl_need_initial(genl_info_net(info), info->extack);
	NL_SET_ERR_MSG(info->extack, "needs CAP_NET_ADMIN");
	return -EPERM;
}

/*
 * Begin a reply, which is of the whole machine: set @skb and @hdr.
 * Return: 0, -ENOMEM or -EMSGSIZE, or as xway_genl_need_initial().
 */
static inline int xway_genl_reply_start(struct genl_info *info,
					const struct genl_family *family,
					struct sk_buff **skb, void **hdr)
{
	int err = xway_genl_need_initial(genl_info_net(info), info->extack);

	if (err)
		return err;
	*skb = nlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	if (!*skb)
		return -ENOMEM;
	*hdr = genlmsg_put_reply(*skb, info, family, 0, info->genlhdr->cmd);
	if (*hdr)
		return 0;
	nlmsg_free(*skb);
	return -EMSGSIZE;
}

/* Return: 0 or -EMSGSIZE. */
static inline int xway_genl_put_u64(struct sk_buff *skb, int attr, u64 value)
{
	return nla_put_u64_64bit(skb, attr, value, XWAY_A_PAD);
}

/* Put a XWAY_A_COUNTER. Return: 0 or -EMSGSIZE. */
static inline int xway_genl_put_counter(struct sk_buff *skb, const char *name,
					u64 value)
{
	struct nlattr *nest = nla_nest_start(skb, XWAY_A_COUNTER);

	if (!nest || nla_put_string(skb, XWAY_A_NAME, name) ||
	    xway_genl_put_u64(skb, XWAY_A_VALUE, value))
		return -EMSGSIZE;
	nla_nest_end(skb, nest);
	return 0;
}

#endif /* _XWAY_GENL_H */
