/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_EVICT_H
#define _XWAY_EVICT_H

#include <linux/types.h>

#include "stats.h"

struct xway_conn;
struct xway_tcp_link;

void xway_evict_begin(struct xway_conn *conn);
void xway_evict_replace(struct xway_conn *fresh, const struct xway_conn *conn);
bool xway_evict_too_early(const struct xway_conn *conn);
void xway_evict_wish(struct xway_tcp_link *tl);
void xway_evict_postpone(struct xway_conn *conn, enum xway_reason why);
long xway_evict_reclaim(long *wanted);
int xway_evict_init(void);
void xway_evict_exit(void);

#endif /* _XWAY_EVICT_H */
