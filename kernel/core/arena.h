/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_ARENA_H
#define _XWAY_ARENA_H

#include <linux/bitmap.h>

#include "wire.h"

struct link;
struct page;

/**
 * struct xway_arena - the pages that this domain shows one peer
 * @hdr: first page
 * @bell: the bell page, for those without the mutex that guards @slot
 * @slot: the pages and what the peer needs to map them
 * @pages: numbers that pages have had, from 0 on
 * @shared: how many of them have one
 * @there: those
 * @used: numbers in use, or without a page
 * @in_use: how many are in use, without the fixed pages and directories
 * @peak: the most that were since reclaim.c looked
 * @allowed: what it leaves of them
 * @pressed: the kernel has asked for pages, at @pressed_at, not long ago
 * @withdrawn: pages without a number, which the peer is to unmap
 * @n_withdrawn: how many those are
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
	u32 shared;
	u32 in_use;
	u32 peak;
	u32 allowed;
	bool pressed;
	unsigned long pressed_at;
	struct xway_arena_page *withdrawn;
	u32 n_withdrawn;
	DECLARE_BITMAP(there, XWAY_ARENA_PAGES_MAX);
	DECLARE_BITMAP(used, XWAY_ARENA_PAGES_MAX);
};

int xway_arena_create(struct link *link);
int xway_arena_alloc(struct link *link, u32 pages, u32 *first);
void xway_arena_free(struct link *link, u32 first, u32 pages);
void *xway_arena_addr(struct link *link, u32 nr);
u32 xway_arena_withdraw(struct link *link, u32 most, u32 *first);
void xway_arena_withdrawn(struct link *link);
void xway_arena_destroy(struct link *link);
void xway_arena_page_free(struct page *page);
void xway_arena_page_left(void);

void xway_arena_init(void);
void xway_arena_limit(unsigned int pages);
extern unsigned int xway_pages_max;
u32 xway_arena_pages_max(void);
u32 xway_arena_pages_total(void);
u32 xway_arena_pages_in_use(void);

#endif /* _XWAY_ARENA_H */
