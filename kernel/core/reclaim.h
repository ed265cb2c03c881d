/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_RECLAIM_H
#define _XWAY_RECLAIM_H

#include <linux/types.h>

struct xway_ctl;
struct xway_link;

void xway_reclaim_setup(struct xway_link *link);
void xway_reclaim_soon(struct xway_link *link);
u32 xway_reclaim_could(const struct xway_link *link);
void xway_reclaim_press(struct xway_link *link);
bool xway_reclaim_pressed(const struct xway_link *link);
bool xway_reclaim_unmap(struct xway_link *link, const struct xway_ctl *msg);
bool xway_reclaim_unmapped(struct xway_link *link);

int xway_reclaim_init(void);
void xway_reclaim_exit(void);

#endif /* _XWAY_RECLAIM_H */
