/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_NETLINK_H
#define _XWAY_NETLINK_H

struct sk_buff;
struct xway_link;

int xway_netlink_init(void);
void xway_netlink_exit(void);
int xway_netlink_show(struct xway_link *link, struct sk_buff *skb);

#endif /* _XWAY_NETLINK_H */
