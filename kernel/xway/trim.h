/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_TRIM_H
#define _XWAY_TRIM_H

#include <linux/types.h>

struct xway_ctl;
struct xway_link;

void xway_trim_init(struct xway_link *link);
void xway_trim_soon(struct xway_link *link);
u32 xway_trim_could(const struct xway_link *link);
void xway_trim_press(struct xway_link *link);
bool xway_trim_pressed(const struct xway_link *link);
bool xway_trim_view(struct xway_link *link, const struct xway_ctl *msg);
bool xway_trim_done(struct xway_link *link);

#endif /* _XWAY_TRIM_H */
