/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_NETLINK_H
#define _XWAY_NETLINK_H

int xway_netlink_init(void);
void xway_netlink_exit(void);

#endif /* _XWAY_NETLINK_H */
