/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_REVOKE_H
#define _XWAY_REVOKE_H

#include <linux/types.h>

struct link;
struct page;

void xway_revoke(struct link *link, struct page *page, u32 ref);
void xway_revoke_flush(void);
u32 xway_unrevoked(void);

#endif /* _XWAY_REVOKE_H */
