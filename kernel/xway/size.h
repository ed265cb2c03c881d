/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_SIZE_H
#define _XWAY_SIZE_H

#include <linux/types.h>

struct xway_conn;
struct xway_link;

u32 xway_size_ring(const struct xway_link *link);
u32 xway_size_keep(u32 pages);
u32 xway_size_ring_min(void);
u32 xway_size_window(const struct xway_conn *conn);
void xway_size_full(struct xway_conn *conn);
void xway_size_settle(struct xway_conn *conn);
bool xway_size_grows(struct xway_conn *conn);
void xway_size_renew(struct xway_conn *fresh, const struct xway_conn *conn);
int xway_size_init(void);

#endif /* _XWAY_SIZE_H */
