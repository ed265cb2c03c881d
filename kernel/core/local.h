/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_LOCAL_H
#define _XWAY_LOCAL_H

struct link;
struct xway_addr;

int xway_local_join(struct link *first, struct link *second);
int xway_local_add(const struct xway_addr *addr);
int xway_local_del(const struct xway_addr *addr);
int xway_local_init(void);
void xway_local_stop(void);
void xway_local_exit(void);

#endif /* _XWAY_LOCAL_H */
