/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_CORE_NETLINK_H
#define _XWAY_CORE_NETLINK_H

int xway_core_netlink_init(void);
void xway_core_netlink_exit(void);

#endif /* _XWAY_CORE_NETLINK_H */
