/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_ARENA_H
#define _XWAY_ARENA_H

#include <linux/bitmap.h>

#include "transport.h"
#include "wire.h"

struct xway_link;

/**
 * struct xway_arena - the pages that this domain shows one peer
 * @hdr: first page
 * @bell: the bell page, for those without the mutex that guards @slot
 * @slot: the pages and what the peer needs to map them
 * @pages: number of pages in @slot
 * @used: pages in use, by number
 * @in_use: how many those are, without the fixed pages and directories
 */
struct xway_arena {
	struct xway_header *hdr;
	u32 *bell;
	struct xway_arena_page {
		struct page *page;
		u32 ref;
	} *slot;
	u32 pages;
	u32 slots;
	u32 in_use;
	DECLARE_BITMAP(used, XWAY_ARENA_PAGES_MAX);
};

int xway_arena_create(struct xway_link *link);
int xway_arena_alloc(struct xway_link *link, u32 pages, u32 *first);
void xway_arena_free(struct xway_link *link, u32 first, u32 pages);
void xway_arena_keep(struct xway_link *link, u32 pages);
void *xway_arena_addr(struct xway_link *link, u32 nr);
bool xway_arena_roomy(struct xway_link *link, u32 pages, u32 keep);
void xway_arena_destroy(struct xway_link *link);
void xway_arena_flush(void);

void xway_arena_limit(unsigned int pages);
extern unsigned int xway_pages_max;
u32 xway_peer_pages(void);
u32 xway_arena_pages_total(void);
u32 xway_arena_pages_in_use(void);
u32 xway_arena_unrevoked(void);

#endif /* _XWAY_ARENA_H */
