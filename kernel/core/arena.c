// SPDX-License-Identifier: GPL-2.0
/*
 * Arenas: the pages a domain shows its peer.
 *
 * They hold nothing else, are zeroed, and are freed only after they were revoked.
 * All functions sleep and are called under the link's lock.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "arena.h"
#include "link.h"
#include "revoke.h"

#define ARENA_CHUNK 32

/* Pages that follow each other are looked for 64 at a time, then fewer. */
#define RUN_ORDER 6

/* A link's own pages and one small ring; less would be the same as off. */
#define PAGES_MAX_MIN 16u

/* By default */
#define PAGES_MAX 16384u

static unsigned int pages_max_max = 1u << 20;

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
MODULE_PARM_DESC(peer_pages_max, "pages that the arena of one peer may have");

/* Pages that the arena of one peer may have */
u32 xway_arena_pages_max(void)
{
	return READ_ONCE(peer_pages_max);
}

/**
 * xway_link_pages_max() - pages that the arena of a link may have at most
 *
 * Context: any.
 */
u32 xway_link_pages_max(void)
{
	return min(xway_arena_pages_max(), READ_ONCE(xway_pages_max));
}
EXPORT_SYMBOL_GPL(xway_link_pages_max);

static int pages_max_set(const char *val, const struct kernel_param *kp)
{
	unsigned int max = kp->arg == &peer_pages_max ? XWAY_ARENA_PAGES_MAX :
							pages_max_max;
	int err = param_set_uint_minmax(val, kp, PAGES_MAX_MIN, max);

	if (err)
		pr_err("%s=%.*s: must be a number from %u to %u\n", kp->name,
		       (int)strcspn(val, "\n"), val, PAGES_MAX_MIN, max);
	return err;
}

void __init xway_arena_init(void)
{
	if (!xway_pages_max)
		xway_pages_max = clamp_t(unsigned long, totalram_pages() / 8,
					 PAGES_MAX_MIN, PAGES_MAX);
}

/**
 * xway_arena_limit() - the transport can not share more pages than this
 * @pages: all peers together, now and later
 */
void __init xway_arena_limit(unsigned int pages)
{
	pages_max_max = max(PAGES_MAX_MIN, min(pages, pages_max_max));
	xway_pages_max = min(xway_pages_max, pages_max_max);
}

static atomic_t pages_total = ATOMIC_INIT(0);
static atomic_t pages_in_use = ATOMIC_INIT(0);

u32 xway_arena_pages_total(void)
{
	return atomic_read(&pages_total);
}

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

/* A page is revoked: free it. */
void xway_arena_page_free(struct page *page)
{
	__free_page(page);
	atomic_dec(&pages_total);
}

/* A page was given up for good; the transport frees it some time. */
void xway_arena_page_left(void)
{
	atomic_dec(&pages_total);
}

/* Pages that follow each other, if there are such: see xway_ring_at(). */
struct run {
	struct page *next;
	u32 left;
	int order;		/* of the longest to look for; 0: single pages */
};

static struct page *run_take(struct run *run, u32 wanted)
{
	gfp_t gfp = GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN;

	while (!run->left) {
		int order = min(ilog2(wanted), run->order);

		if (!order)
			return alloc_page(gfp);
		/* Those that are free: nothing is moved or written for them, nor
		 * what is kept for those who can not wait touched.
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

static u32 *arena_dir(struct link *link, u32 nr)
{
	u32 *dir = page_address(link->dir[nr / XWAY_REFS_PER_DIR].page);

	return &dir[nr % XWAY_REFS_PER_DIR];
}

/*
 * Numbers that lost their pages get new ones; if there are not enough of them in
 * a row, new numbers do. A directory is itself a page of the arena, but listed in
 * the header alone.
 */
static int arena_grow(struct link *link, u32 pages)
{
	struct xway_arena *a = &link->arena;
	u32 max = READ_ONCE(xway_pages_max), i;
	struct run run = { .order = RUN_ORDER }, none = {};
	unsigned long first;
	int err = 0;

	/* The last sixteenth is for those that have little yet. */
	if (a->shared > max / 2)
		max -= max / 16;
	/* Not a part of it, which serves nobody and is what others need. What the
	 * peer keeps mapped counts, whatever it said about it.
	 */
	if (a->shared + a->n_withdrawn + atomic_read(&link->pub.peer->unrevoked) +
	    pages > xway_arena_pages_max() || xway_arena_pages_total() + pages > max)
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
		/* Entries before their count: pairs with import_page(). */
		virt_store_release(&a->hdr->pages, a->pages);
	}
	return err;
}

/**
 * xway_arena_create() - make the fixed pages of a link's own arena
 * @link: the link; its nonce is set
 *
 * Return: 0 or -ENOMEM, -ENOSPC, or the transport's errno; on error nothing is
 * left.
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
	/* The header before what names it: pairs with xway_import_open(). */
	virt_store_release(&hdr->magic, XWAY_MAGIC);
	a->bell = page_address(a->slot[XWAY_PAGE_BELL].page);
	a->hdr = hdr;
	return 0;
}

static bool arena_has(struct xway_arena *a, u32 pages, unsigned long *nr)
{
	*nr = bitmap_find_next_zero_area(a->used, a->pages, 0, pages, 0);
	return *nr < a->pages && *nr + pages <= a->pages;
}

/**
 * xway_arena_alloc() - take consecutive page numbers of the own arena
 * @link: the link
 * @pages: how many
 * @first: the first of them
 *
 * Return: 0, or -ENOSPC or -ENOMEM when the arena can not grow.
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
		/* A part of the chunk may be enough. */
		if (!arena_has(a, pages, &nr))
			return err;
	}
	bitmap_set(a->used, nr, pages);
	arena_count(a, pages);
	*first = nr;
	return 0;
}

void xway_arena_free(struct link *link, u32 first, u32 pages)
{
	struct xway_arena *a = &link->arena;

	lockdep_assert_held(&link->pub.lock);
	bitmap_clear(a->used, first, pages);
	arena_count(a, -pages);
}

/**
 * xway_arena_withdraw() - take pages that are not in use out of the own arena
 * @link: the link
 * @most: how many at most; those with the highest numbers
 * @first: number of the first of them
 *
 * Their numbers may be used again at once: what the peer is told in their order
 * is that it unmaps these, and then where others are. These remain shared until
 * xway_arena_withdrawn().
 *
 * Return: how many were taken out.
 */
u32 xway_arena_withdraw(struct link *link, u32 most, u32 *first)
{
	struct xway_arena *a = &link->arena;
	u32 end = a->pages, n = 0, i;

	lockdep_assert_held(&link->pub.lock);
	/* The peer answers one message before it gets the next. */
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

/* The peer says that it has unmapped them: if it lies they are unrevoked. */
void xway_arena_withdrawn(struct link *link)
{
	struct xway_arena *a = &link->arena;
	u32 i;

	for (i = 0; i < a->n_withdrawn; i++)
		xway_revoke(link, a->withdrawn[i].page, a->withdrawn[i].ref);
	kvfree(a->withdrawn);
	a->withdrawn = NULL;
	a->n_withdrawn = 0;
}

void *xway_arena_addr(struct link *link, u32 nr)
{
	return page_address(link->arena.slot[nr].page);
}

/**
 * xway_link_roomy() - is there plenty left, for a large ring?
 * @pub: the link, its lock held
 * @pages: pages of that ring
 * @keep: pages of xway_link_pages_max() that must be left for small rings
 *
 * Arenas shrink slowly. So what this one has may be used, but it may not grow for
 * a large ring when not much is left for the links to come.
 */
bool xway_link_roomy(struct xway_link *pub, u32 pages, u32 keep)
{
	struct xway_arena *a = &to_link(pub)->arena;
	unsigned long nr;

	lockdep_assert_held(&pub->lock);
	return a->in_use + pages + keep <= xway_link_pages_max() &&
	       (xway_arena_pages_total() < READ_ONCE(xway_pages_max) / 8 * 7 ||
		arena_has(a, pages, &nr));
}
EXPORT_SYMBOL_GPL(xway_link_roomy);

/**
 * xway_arena_destroy() - withdraw and free the own arena
 * @link: the link; no channel uses the arena any more
 *
 * Pages that the peer still maps are unrevoked, see revoke.c.
 */
void xway_arena_destroy(struct link *link)
{
	struct xway_arena *a = &link->arena;
	u32 i;

	xway_arena_withdrawn(link);
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
