/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_RECLAIM_H
#define _XWAY_RECLAIM_H

#include <linux/types.h>

struct xway_ctl;
struct link;

void xway_reclaim_setup(struct link *link);
void xway_reclaim_soon(struct link *link);
u32 xway_reclaimable(const struct link *link);
bool xway_reclaim_unmap(struct link *link, const struct xway_ctl *msg);
bool xway_reclaim_unmapped(struct link *link);

int xway_reclaim_init(void);
void xway_reclaim_exit(void);

#endif /* _XWAY_RECLAIM_H */
