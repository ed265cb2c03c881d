/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_RINGSIZE_H
#define _XWAY_RINGSIZE_H

#include <linux/types.h>

struct xway_conn;
struct xway_link;

u32 xway_ringsize_next(const struct xway_link *link);
u32 xway_ringsize_keep(u32 pages);
u32 xway_ringsize_min(void);
u32 xway_ringsize_window(const struct xway_conn *conn);
void xway_ringsize_full(struct xway_conn *conn);
void xway_ringsize_settle(struct xway_conn *conn);
bool xway_ringsize_grows(struct xway_conn *conn);
void xway_ringsize_replace(struct xway_conn *fresh, const struct xway_conn *conn);
int xway_ringsize_init(void);

#endif /* _XWAY_RINGSIZE_H */
