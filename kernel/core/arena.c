// SPDX-License-Identifier: GPL-2.0
/*
 * Arenas: the pages that this domain shows a peer.
 *
 * A page of an arena is zeroed when it is allocated, contains nothing but what the
 * peer may see, and is freed only after it was revoked.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "arena.h"
#include "link.h"
#include "revoke.h"

/* Pages by which an arena grows, if it may */
#define ARENA_CHUNK 32

/* Largest order of contiguous pages that an arena tries to get: 64 pages */
#define CONTIG_ORDER 6

/* Smallest value of both parameters: the fixed pages, a directory and a few small
 * rings. With less no connection could have a ring.
 */
#define PARAM_PAGES_MIN 16u

/* Default of pages_max, if this is at most an eighth of the memory */
#define PAGES_MAX 16384u

/* Largest value of pages_max; the transport may lower it */
static unsigned int pages_max_limit = 1u << 20;

static int pages_max_set(const char *val, const struct kernel_param *kp);

static const struct kernel_param_ops pages_max_ops = {
	.set = pages_max_set,
	.get = param_get_uint,
};

unsigned int xway_pages_max;
module_param_cb(pages_max, &pages_max_ops, &xway_pages_max, 0644);
MODULE_PARM_DESC(pages_max, "pages that all arenas together may have, by default 16384 or an eighth of the memory");

static unsigned int peer_pages_max = 12288;
module_param_cb(peer_pages_max, &pages_max_ops, &peer_pages_max, 0644);
MODULE_PARM_DESC(peer_pages_max, "pages that the arena of one peer may have, at most three quarters of pages_max");

u32 xway_link_pages_max(void)
{
	u32 all = READ_ONCE(xway_pages_max);

	return min(READ_ONCE(peer_pages_max), max(all - all / 4, PARAM_PAGES_MIN));
}
EXPORT_SYMBOL_GPL(xway_link_pages_max);

static int pages_max_set(const char *val, const struct kernel_param *kp)
{
	unsigned int max = kp->arg == &peer_pages_max ? XWAY_ARENA_PAGES_MAX :
							pages_max_limit;
	int err = param_set_uint_minmax(val, kp, PARAM_PAGES_MIN, max);

	if (err)
		pr_err("%s=%.*s: must be a number from %u to %u\n", kp->name,
		       (int)strcspn(val, "\n"), val, PARAM_PAGES_MIN, max);
	return err;
}

/* Set pages_max to its default, unless the user has set it. */
void __init xway_arena_init(void)
{
	if (!xway_pages_max)
		xway_pages_max = clamp_t(unsigned long, totalram_pages() / 8,
					 PARAM_PAGES_MIN, PAGES_MAX);
}

/**
 * xway_arena_limit() - the transport cannot share more pages than this
 * @pages: limit of all arenas together
 *
 * Context: initialization, after xway_arena_init().
 */
void __init xway_arena_limit(unsigned int pages)
{
	pages_max_limit = max(PARAM_PAGES_MIN, min(pages, pages_max_limit));
	xway_pages_max = min(xway_pages_max, pages_max_limit);
}

static atomic_t pages_total = ATOMIC_INIT(0);
static atomic_t pages_in_use = ATOMIC_INIT(0);

/* Pages of all arenas, unrevoked pages included. Context: any. */
u32 xway_arena_pages_total(void)
{
	return atomic_read(&pages_total);
}

/* Pages of all arenas that channels use. Context: any. */
u32 xway_arena_pages_in_use(void)
{
	return atomic_read(&pages_in_use);
}

static void arena_count(struct xway_arena *a, int pages)
{
	a->in_use += pages;
	a->peak = max(a->peak, a->in_use);
	atomic_add(pages, &pages_in_use);
}

/* Free a page that is revoked. Context: process. */
void xway_arena_page_free(struct page *page)
{
	__free_page(page);
	atomic_dec(&pages_total);
}

/* Do not count a page any more, which the transport frees later. Context: process. */
void xway_arena_page_abandoned(void)
{
	atomic_dec(&pages_total);
}

/* A stock of contiguous pages, which make copies faster: see xway_ring_at() */
struct run {
	struct page *next;
	u32 left;
	int order;		/* largest order to try; 0: single pages */
};

static struct page *run_take(struct run *run, u32 wanted)
{
	gfp_t gfp = GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN;

	while (!run->left) {
		int order = min(ilog2(wanted), run->order);

		if (!order)
			return alloc_page(gfp);
		/* Only what is free now: no reclaim, no compaction, and no use of
		 * the reserves. Single pages serve as well.
		 */
		run->next = alloc_pages((gfp & ~__GFP_RECLAIM) |
					__GFP_NOMEMALLOC, order);
		if (run->next) {
			split_page(run->next, order);
			run->left = 1 << order;
		} else {
			run->order = order - 1;
		}
	}
	run->left--;
	return run->next++;
}

static void run_end(struct run *run)
{
	while (run->left--)
		__free_page(run->next++);
}

/* Allocate one page, of @run or alone, and share it with the peer. */
static int arena_add(struct link *link, struct run *run, u32 wanted,
		     struct page **out, u32 *ref)
{
	struct page *page;
	int err;

	if (atomic_inc_return(&pages_total) > READ_ONCE(xway_pages_max)) {
		err = -ENOSPC;
		goto err_count;
	}
	page = run_take(run, wanted);
	if (!page) {
		err = -ENOMEM;
		goto err_count;
	}
	err = link->tp->share(link, page, ref);
	if (err)
		goto err_page;
	*out = page;
	return 0;

err_page:
	__free_page(page);
err_count:
	atomic_dec(&pages_total);
	return err;
}

/* The directory's entry for page @nr */
static u32 *arena_dir(struct link *link, u32 nr)
{
	u32 *dir = page_address(link->dir[nr / XWAY_REFS_PER_DIR].page);

	return &dir[nr % XWAY_REFS_PER_DIR];
}

/*
 * Give pages to @pages consecutive numbers: to the first ones that have no page, or
 * to new numbers at the end. A directory page has no number; the header lists it.
 */
static int arena_grow(struct link *link, u32 pages)
{
	struct xway_arena *a = &link->arena;
	/* Withdrawn and unrevoked pages count, since the peer still has them. */
	u32 held = a->shared + a->n_withdrawn + atomic_read(&link->pub.peer->unrevoked) + pages;
	u32 total = xway_arena_pages_total() + pages, i;
	struct run run = { .order = CONTIG_ORDER }, none = {};
	unsigned long first;
	int err = 0;

	/* All pages or none: a part does not make a ring, but others could use it. */
	if (held > xway_link_pages_max() ||
	    total > xway_peer_part(READ_ONCE(xway_pages_max), held))
		return -ENOSPC;
	first = bitmap_find_next_zero_area(a->there, a->pages, 0, pages, 0);
	if (first + pages > a->pages)
		first = a->pages;
	if (first + pages > XWAY_ARENA_PAGES_MAX)
		return -ENOSPC;
	if (first + pages > a->slots) {
		u32 slots = roundup_pow_of_two(first + pages);
		void *slot = kvcalloc(slots, sizeof(*a->slot), GFP_KERNEL);

		if (!slot)
			return -ENOMEM;
		if (a->slot)
			memcpy(slot, a->slot, a->pages * sizeof(*a->slot));
		kvfree(a->slot);
		a->slot = slot;
		a->slots = slots;
	}
	for (i = 0; i < pages; i++) {
		u32 nr = first + i, d = nr / XWAY_REFS_PER_DIR;
		struct xway_arena_page *slot = &a->slot[nr];

		if (!link->dir[d].page) {
			err = arena_add(link, &none, 1, &link->dir[d].page,
					&link->dir[d].ref);
			if (err)
				break;
		}
		err = arena_add(link, &run, pages - i, &slot->page, &slot->ref);
		if (err)
			break;
		WRITE_ONCE(*arena_dir(link, nr), slot->ref);
		__set_bit(nr, a->there);
		__clear_bit(nr, a->used);
		a->shared++;
		a->pages = max(a->pages, nr + 1);
		if (a->hdr)
			WRITE_ONCE(a->hdr->dirs[d], link->dir[d].ref);
	}
	run_end(&run);
	if (a->hdr) {
		/* Entries before their count: pairs with import_page() at the peer. */
		virt_store_release(&a->hdr->pages, a->pages);
	}
	return err;
}

/**
 * xway_arena_create() - make the fixed pages of a link's own arena
 * @link: a link without an arena; its nonce is set
 *
 * Context: process, link's lock held.
 * Return: 0; -ENOMEM; -ENOSPC if a limit of pages is reached; or the transport's
 * errno. On error the link has no arena.
 */
int xway_arena_create(struct link *link)
{
	struct xway_arena *a = &link->arena;
	struct xway_header *hdr;
	int err;

	lockdep_assert_held(&link->pub.lock);
	err = arena_grow(link, XWAY_PAGES_FIXED);
	if (err) {
		xway_arena_destroy(link);
		return err;
	}
	bitmap_set(a->used, 0, XWAY_PAGES_FIXED);
	hdr = page_address(a->slot[XWAY_PAGE_HEADER].page);
	hdr->version = XWAY_WIRE_OLDEST;
	hdr->version_max = XWAY_WIRE_NEWEST;
	hdr->nonce = link->pub.nonce;
	hdr->dirs[0] = link->dir[0].ref;
	hdr->pages = a->pages;
	hdr->bell_event = 1;
	/* Header before magic: pairs with xway_import_open() at the peer. */
	virt_store_release(&hdr->magic, XWAY_MAGIC);
	a->bell = page_address(a->slot[XWAY_PAGE_BELL].page);
	a->hdr = hdr;
	return 0;
}

/* Set @nr to the first of @pages consecutive free pages, if there are such. */
static bool arena_has(struct xway_arena *a, u32 pages, unsigned long *nr)
{
	*nr = bitmap_find_next_zero_area(a->used, a->pages, 0, pages, 0);
	return *nr < a->pages && *nr + pages <= a->pages;
}

/**
 * xway_arena_alloc() - allocate pages of the own arena
 * @link: the link
 * @pages: how many, with consecutive numbers
 * @first: set to the first number
 *
 * The arena grows if it has not enough free pages in a row.
 *
 * Context: process, link's lock held.
 * Return: 0; -ENOSPC if the arena may not grow; -ENOMEM; or the transport's errno.
 */
int xway_arena_alloc(struct link *link, u32 pages, u32 *first)
{
	struct xway_arena *a = &link->arena;
	unsigned long nr;
	int err;

	lockdep_assert_held(&link->pub.lock);
	if (!arena_has(a, pages, &nr)) {
		err = arena_grow(link, max_t(u32, pages, ARENA_CHUNK));
		if (err && pages < ARENA_CHUNK && !arena_has(a, pages, &nr))
			err = arena_grow(link, pages);
		/* An arena that grew by a part of a chunk may have enough. */
		if (!arena_has(a, pages, &nr))
			return err;
	}
	bitmap_set(a->used, nr, pages);
	arena_count(a, pages);
	*first = nr;
	return 0;
}

/**
 * xway_arena_free() - free pages of the own arena
 * @link: the link
 * @first: the first number
 * @pages: how many
 *
 * The pages stay shared until they are reclaimed.
 *
 * Context: process, link's lock held.
 */
void xway_arena_free(struct link *link, u32 first, u32 pages)
{
	struct xway_arena *a = &link->arena;

	lockdep_assert_held(&link->pub.lock);
	bitmap_clear(a->used, first, pages);
	arena_count(a, -pages);
}

/**
 * xway_arena_withdraw() - take free pages out of the own arena
 * @link: the link
 * @most: how many at most; those with the highest numbers
 * @first: set to the lowest number
 *
 * The caller sends the peer UNMAP. The numbers may get new pages at once: messages
 * arrive in order, so the peer unmaps the old pages before it hears of new ones.
 * The old pages stay shared until xway_arena_revoke_withdrawn().
 *
 * Context: process, link's lock held.
 * Return: how many pages were withdrawn; 0 too while an UNMAP waits for an answer.
 */
u32 xway_arena_withdraw(struct link *link, u32 most, u32 *first)
{
	struct xway_arena *a = &link->arena;
	u32 end = a->pages, n = 0, i;

	lockdep_assert_held(&link->pub.lock);
	/* One UNMAP at a time: the next one waits for the answer. */
	if (a->n_withdrawn)
		return 0;
	while (end && test_bit(end - 1, a->used))
		end--;
	while (n < most && n < end && !test_bit(end - 1 - n, a->used))
		n++;
	if (!n)
		return 0;
	a->withdrawn = kvmalloc_array(n, sizeof(*a->withdrawn), GFP_KERNEL);
	if (!a->withdrawn)
		return 0;
	*first = end - n;
	for (i = 0; i < n; i++) {
		a->withdrawn[i] = a->slot[*first + i];
		a->slot[*first + i].page = NULL;
		WRITE_ONCE(*arena_dir(link, *first + i), 0);
	}
	bitmap_clear(a->there, *first, n);
	bitmap_set(a->used, *first, n);
	a->shared -= n;
	a->n_withdrawn = n;
	return n;
}

/**
 * xway_arena_revoke_withdrawn() - revoke the withdrawn pages
 * @link: the link; the peer says that it has unmapped them, or the session is over
 *
 * A page that the peer still maps becomes unrevoked, see revoke.c.
 *
 * Context: process, link's lock held.
 */
void xway_arena_revoke_withdrawn(struct link *link)
{
	struct xway_arena *a = &link->arena;
	u32 i;

	for (i = 0; i < a->n_withdrawn; i++)
		xway_revoke(link, a->withdrawn[i].page, a->withdrawn[i].ref);
	kvfree(a->withdrawn);
	a->withdrawn = NULL;
	a->n_withdrawn = 0;
}

/**
 * xway_arena_addr() - address of a page of the own arena
 * @link: the link
 * @nr: number of the page, which is allocated
 *
 * Context: link's lock held.
 * Return: the address.
 */
void *xway_arena_addr(struct link *link, u32 nr)
{
	return page_address(link->arena.slot[nr].page);
}

bool xway_link_has_room(struct xway_link *pub, u32 pages, u32 keep)
{
	struct xway_arena *a = &to_link(pub)->arena;
	unsigned long nr;

	lockdep_assert_held(&pub->lock);
	return a->in_use + pages + keep <= xway_link_pages_max() &&
	       (xway_arena_pages_total() < READ_ONCE(xway_pages_max) / 8 * 7 ||
		arena_has(a, pages, &nr));
}
EXPORT_SYMBOL_GPL(xway_link_has_room);

/**
 * xway_arena_destroy() - revoke all pages of the own arena
 * @link: the link; no channel uses the arena any more
 *
 * Pages that the peer still maps become unrevoked, see revoke.c.
 *
 * Context: process, link's lock held.
 */
void xway_arena_destroy(struct link *link)
{
	struct xway_arena *a = &link->arena;
	u32 i;

	xway_arena_revoke_withdrawn(link);
	for (i = 0; i < a->pages; i++)
		if (a->slot[i].page)
			xway_revoke(link, a->slot[i].page,
				    a->slot[i].ref);
	for (i = 0; i < XWAY_DIRS; i++)
		if (link->dir[i].page)
			xway_revoke(link, link->dir[i].page,
				    link->dir[i].ref);
	memset(link->dir, 0, sizeof(link->dir));
	kvfree(a->slot);
	arena_count(a, -a->in_use);
	memset(a, 0, sizeof(*a));
}
