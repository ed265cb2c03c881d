/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_IDLE_H
#define _XWAY_IDLE_H

#include <linux/types.h>

struct xway_conn;
struct xway_link;

void xway_idle_begin(struct xway_conn *conn);
void xway_idle_renew(struct xway_conn *fresh, const struct xway_conn *conn);
bool xway_idle_too_early(const struct xway_conn *conn);
void xway_idle_wish(struct xway_link *link);
void xway_idle_postpone(struct xway_conn *conn, bool here);
long xway_idle_shrink(long wanted);
int xway_idle_init(void);
void xway_idle_exit(void);

#endif /* _XWAY_IDLE_H */
