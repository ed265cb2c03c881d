// SPDX-License-Identifier: GPL-2.0
/* What MMNet puts into the core's netlink messages; see include/uapi/linux/xway.h. */
#include "core/genl.h"
#include "mmnet.h"

/* See @show in core.h. */
int mm_netlink_show(struct xway_link *link, struct sk_buff *skb)
{
	/* It stays until this returns, see struct xway_client. */
	struct mm_port *port =
		rcu_dereference_protected(link->data[XWAY_SERVICE_NET], true);
	struct nlattr *service, *nest;
	u32 kib, peer_kib;
	char vifs[128];
	int i;

	if (!port)
		return 0;
	service = nla_nest_start(skb, XWAY_A_SERVICE);
	if (!service || nla_put_string(skb, XWAY_A_NAME, mm_client.name) ||
	    nla_put_string(skb, XWAY_A_DEVICE, port->dev->name) ||
	    nla_put_string(skb, XWAY_A_STATE, mm_device_state(port)))
		return -EMSGSIZE;
	mm_pairs_names(port, vifs, sizeof(vifs));
	mm_port_rings(port, &kib, &peer_kib);
	if (nla_put_string(skb, XWAY_A_VIFS, vifs) ||
	    nla_put_u32(skb, XWAY_A_RING_KIB, kib) ||
	    nla_put_u32(skb, XWAY_A_PEER_RING_KIB, peer_kib) ||
	    nla_put_u32(skb, XWAY_A_RX_USECS, READ_ONCE(port->queue[0].rx_usecs)) ||
	    nla_put_u8(skb, XWAY_A_ADAPTIVE_RX, READ_ONCE(port->adaptive)) ||
	    nla_put_u32(skb, XWAY_A_QUEUES, READ_ONCE(port->live)))
		return -EMSGSIZE;
	nest = nla_nest_start(skb, XWAY_A_STATS);
	if (!nest)
		return -EMSGSIZE;
	for (i = 0; i < MM_COUNTS; i++)
		if (xway_genl_put_counter(skb, mm_count_names[i], mm_device_count(port, i)))
			return -EMSGSIZE;
	nla_nest_end(skb, nest);
	nla_nest_end(skb, service);
	return 0;
}
