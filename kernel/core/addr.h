/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_ADDR_H
#define _XWAY_ADDR_H

#include <linux/rhashtable-types.h>
#include <linux/types.h>

struct xway_link;

/**
 * struct xway_addr - an IP address or a prefix
 * @family: AF_INET or AF_INET6; AF_INET for IPv4-mapped addresses too
 * @prefix: length in bits, 0 to 32 or 0 to 128
 * @addr: the address: one word for IPv4, four for IPv6; all other bits are 0
 */
struct xway_addr {
	u16 family;
	u16 prefix;
	__be32 addr[4];
};

int xway_addr_add(const struct xway_addr *addr, struct xway_link *active,
		  struct xway_link *passive);
int xway_addr_del(const struct xway_addr *addr, const struct xway_link *link);
bool xway_addr_keep(struct xway_link *link, const struct xway_addr *list,
		    unsigned int n);
void xway_addr_del_link(struct xway_link *link);
int xway_addr_each(struct xway_link *link,
		   int (*fn)(const struct xway_addr *addr, void *arg),
		   void *arg);

int xway_addr_own(const struct xway_addr *list, unsigned int n);

int xway_addr_init(void);
void xway_addr_exit(void);

#endif /* _XWAY_ADDR_H */
