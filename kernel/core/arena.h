/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_ARENA_H
#define _XWAY_ARENA_H

#include <linux/bitmap.h>

#include "wire.h"

struct link;
struct page;

/**
 * struct xway_arena - the pages that this domain shows one peer
 * @hdr: the header page; NULL without an arena
 * @bell: the doorbell page
 * @slot: for each number, the page (or NULL) and the reference by which the peer
 *	maps it
 * @pages: every number below this has, or had, a page
 * @slots: length of @slot
 * @shared: how many numbers have a page
 * @in_use: how many numbers are allocated, without the fixed pages
 * @peak: the largest @in_use since reclaim.c last looked
 * @allowed: reclaim.c leaves at least as many pages: the @peak before that look
 * @pressed: the kernel asked for pages, not long ago
 * @urgent_since: when it asked last, in jiffies
 * @withdrawn: pages that have lost their number and that the peer is to unmap
 * @n_withdrawn: length of @withdrawn; 0 if no UNMAP waits for an answer
 * @there: numbers that have a page
 * @used: numbers that are allocated, or have no page
 *
 * The link's lock guards all of it. The doorbell reads @hdr and @bell without it.
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
	bool urgent;
	unsigned long urgent_since;
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
void xway_arena_revoke_withdrawn(struct link *link);
void xway_arena_destroy(struct link *link);
void xway_arena_page_free(struct page *page);
void xway_arena_page_abandoned(void);

void xway_arena_init(void);
void xway_arena_limit(unsigned int pages);
extern unsigned int xway_pages_max;
u32 xway_arena_pages_total(void);
u32 xway_arena_pages_in_use(void);

#endif /* _XWAY_ARENA_H */
