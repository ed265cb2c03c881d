// SPDX-License-Identifier: GPL-2.0
/*
 * Imports: the pages of the peer's arena that are mapped here.
 *
 * A page is mapped when a channel first needs it. It stays mapped until the peer
 * asks for it (UNMAP) or the session ends.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/nospec.h>
#include <linux/slab.h>

#include "arena.h"
#include "link.h"

/* Map the first pages of @refs. Return: how many, or a negative errno. */
static int import_map(struct link *link, const u32 *refs, struct xway_mapping **m, u32 n)
{
	/* A peer may show as many pages as we may show it, and its directories. */
	u32 most = xway_link_pages_max() + XWAY_DIRS, mapped = link->import.mapped;
	int ret;

	if (mapped >= most)
		return -ENOSPC;
	ret = link->tp->map(link, refs, m, min(n, most - mapped));
	if (ret > 0)
		link->import.mapped += ret;
	return ret;
}

static void import_unmap(struct link *link, struct xway_mapping **m, u32 n)
{
	link->tp->unmap(link, m, n);
	link->import.mapped -= n;
}

/* Pages that are to be mapped, or unmapped, together */
struct batch {
	u32 n;
	u32 nr[XWAY_MAP_BATCH];
	u32 ref[XWAY_MAP_BATCH];
	struct xway_mapping *m[XWAY_MAP_BATCH];
};

/*
 * Map the pages of a batch, and empty it. On error the pages before the first one that
 * failed stay mapped for the next channel.
 */
static int batch_map(struct link *link, struct batch *b)
{
	u32 mapped = 0, n, i;
	int ret = 0, err = 0;

	for (n = 0; n < b->n; n++) {
		b->m[n] = kzalloc(sizeof(*b->m[n]), GFP_KERNEL);
		if (!b->m[n]) {
			err = -ENOMEM;
			break;
		}
	}
	for (; mapped < n; mapped += ret) {
		ret = import_map(link, b->ref + mapped, b->m + mapped, n - mapped);
		if (ret < 0) {
			err = ret;
			break;
		}
	}
	for (i = 0; i < mapped; i++) {
		ret = xa_err(xa_store(&link->import.maps, b->nr[i], b->m[i], GFP_KERNEL));
		if (ret) {
			err = ret;
			import_unmap(link, &b->m[i], 1);
			kfree(b->m[i]);
		}
	}
	while (n > mapped)
		kfree(b->m[--n]);
	b->n = 0;
	return err;
}

/* Unmap the pages of a batch, and empty it. */
static void batch_unmap(struct link *link, struct batch *b)
{
	if (!b->n)
		return;
	import_unmap(link, b->m, b->n);
	kfree_bulk(b->n, (void **)b->m);
	b->n = 0;
}

static void batch_unmap_add(struct link *link, struct batch *b, struct xway_mapping *m)
{
	b->m[b->n++] = m;
	if (b->n == XWAY_MAP_BATCH)
		batch_unmap(link, b);
}

static int batch_map_add(struct link *link, struct batch *b, u32 nr, u32 ref)
{
	b->nr[b->n] = nr;
	b->ref[b->n++] = ref;
	return b->n == XWAY_MAP_BATCH ? batch_map(link, b) : 0;
}

/* The reference of the peer's page @nr */
static int import_ref(struct link *link, u32 nr, u32 *ref)
{
	struct xway_import *in = &link->import;
	const struct xway_header *hdr = in->hdr;
	struct xway_mapping *dir;
	u32 d;

	/* Entries after their count: pairs with arena_grow() at the peer. */
	if (!hdr || nr >= virt_load_acquire(&hdr->pages) ||
	    nr >= XWAY_ARENA_PAGES_MAX)
		return -EPROTO;
	d = array_index_nospec(nr / XWAY_REFS_PER_DIR, XWAY_DIRS);
	dir = &in->dir[d];
	if (!dir->addr) {
		u32 at = READ_ONCE(hdr->dirs[d]);
		int ret = import_map(link, &at, &dir, 1);

		if (ret < 0)
			return ret;
	}
	*ref = READ_ONCE(((const u32 *)dir->addr)[nr % XWAY_REFS_PER_DIR]);
	return 0;
}

/**
 * xway_import_get() - map pages of the peer's arena, and use them
 * @link: the link
 * @first: number of the first page; the peer has sent it, so it may be any
 * @pages: how many
 * @addr: set to their addresses; the pages may only be read
 *
 * Context: process, link's lock held.
 * Return: 0; -EPROTO for a number or a reference that the peer has not shared; -ENOSPC
 * if the peer shows more pages than may be mapped; -ENOMEM. On error none is used.
 */
int xway_import_get(struct link *link, u32 first, u32 pages, void **addr)
{
	XA_STATE(xas, &link->import.maps, first);
	struct xway_mapping *m;
	struct batch b = {};
	int err = 0;
	u32 ref, i;

	lockdep_assert_held(&link->pub.lock);
	for (i = 0; i < pages && !err; i++) {
		if (xa_load(&link->import.maps, first + i))
			continue;
		err = import_ref(link, first + i, &ref) ?:
		      batch_map_add(link, &b, first + i, ref);
	}
	if (!err && b.n)
		err = batch_map(link, &b);
	if (err)
		return err;
	rcu_read_lock();
	xas_for_each(&xas, m, first + pages - 1) {
		m->users++;
		*addr++ = (void *)m->addr;
	}
	rcu_read_unlock();
	return 0;
}

/**
 * xway_import_put() - stop using pages of the peer's arena
 * @link: the link
 * @first: number of the first page
 * @pages: how many; xway_import_get() was called for each
 *
 * The pages stay mapped for the next channel.
 *
 * Context: process, link's lock held.
 */
void xway_import_put(struct link *link, u32 first, u32 pages)
{
	XA_STATE(xas, &link->import.maps, first);
	struct xway_mapping *m;
	u32 n = 0;

	lockdep_assert_held(&link->pub.lock);
	rcu_read_lock();
	xas_for_each(&xas, m, first + pages - 1) {
		if (!m->users)
			continue;
		m->users--;
		n++;
	}
	rcu_read_unlock();
	WARN_ON_ONCE(n != pages);
}

/**
 * xway_import_unmap() - unmap pages that the peer withdraws
 * @link: the link
 * @first: number of the first page; the peer has sent it, so it may be any
 * @pages: how many; any number too
 *
 * Context: process, link's lock held.
 * Return: true; false, with nothing unmapped, if the range is bad or a channel uses
 * one of the pages. An honest peer withdraws a page only after we have sent CLOSE.
 */
bool xway_import_unmap(struct link *link, u32 first, u32 pages)
{
	struct xway_import *in = &link->import;
	struct xway_mapping *m;
	struct batch b = {};
	unsigned long nr;

	lockdep_assert_held(&link->pub.lock);
	if (first < XWAY_PAGES_FIXED || first > XWAY_ARENA_PAGES_MAX || !pages ||
	    pages > XWAY_ARENA_PAGES_MAX - first)
		return false;
	xa_for_each_range(&in->maps, nr, m, first, first + pages - 1)
		if (m->users)
			return false;
	xa_for_each_range(&in->maps, nr, m, first, first + pages - 1) {
		xa_erase(&in->maps, nr);
		batch_unmap_add(link, &b, m);
	}
	batch_unmap(link, &b);
	return true;
}

/* The newest version that both ends speak. Return: 0 if there is none. */
static u32 import_version(struct link *link, const struct xway_header *hdr)
{
	u32 oldest = READ_ONCE(hdr->version);
	u32 newest = max(READ_ONCE(hdr->version_max), oldest);

	if (oldest <= XWAY_WIRE_NEWEST && newest >= XWAY_WIRE_OLDEST)
		return min_t(u32, newest, XWAY_WIRE_NEWEST);
	pr_warn_ratelimited("%s: no link: the peer speaks protocol versions %u to %u, this module %u to %u\n",
			    link->pub.name, oldest, newest, XWAY_WIRE_OLDEST,
			    XWAY_WIRE_NEWEST);
	return 0;
}

/**
 * xway_import_open() - map the fixed pages of the peer's arena
 * @link: the link
 * @ref: reference of the peer's header page, from its offer
 * @nonce: the peer's nonce, from its offer
 *
 * Context: process, link's lock held.
 * Return: 0; -EPROTO if the page is not the header of an arena with this nonce and
 * a version that this module speaks; -ENOMEM; or an errno of the transport. On
 * error nothing is mapped.
 */
int xway_import_open(struct link *link, u32 ref, u64 nonce)
{
	struct xway_import *in = &link->import;
	struct batch b = { .n = 1, .nr = { XWAY_PAGE_HEADER }, .ref = { ref } };
	void *page[XWAY_PAGES_FIXED];
	int err;

	lockdep_assert_held(&link->pub.lock);
	err = batch_map(link, &b);
	if (err)
		return err;
	in->hdr = ((struct xway_mapping *)xa_load(&in->maps, XWAY_PAGE_HEADER))->addr;
	err = -EPROTO;
	/* Header after magic: pairs with xway_arena_create() at the peer. */
	if (virt_load_acquire(&in->hdr->magic) != XWAY_MAGIC ||
	    READ_ONCE(in->hdr->nonce) != nonce)
		goto err_close;
	link->version = import_version(link, in->hdr);
	if (!link->version)
		goto err_close;
	err = xway_import_get(link, 0, XWAY_PAGES_FIXED, page);
	if (err)
		goto err_close;
	in->bell = page[XWAY_PAGE_BELL];
	in->ctl = page[XWAY_PAGE_CTL];
	return 0;

err_close:
	xway_import_close(link);
	return err;
}

/**
 * xway_import_close() - unmap all pages of the peer
 * @link: the link; nobody reads the peer's pages any more
 *
 * Context: process, link's lock held.
 */
void xway_import_close(struct link *link)
{
	struct xway_import *in = &link->import;
	XA_STATE(xas, &in->maps, 0);
	struct xway_mapping *m, *dir;
	struct batch b = {};
	int i;

	/* There are thousands, and a guest that is saved stands still: not xa_for_each(). */
	rcu_read_lock();
	xas_for_each(&xas, m, ULONG_MAX) {
		b.m[b.n++] = m;
		if (b.n == XWAY_MAP_BATCH) {
			xas_pause(&xas);
			rcu_read_unlock();
			batch_unmap(link, &b);
			rcu_read_lock();
		}
	}
	rcu_read_unlock();
	batch_unmap(link, &b);
	xa_destroy(&in->maps);
	for (i = 0; i < XWAY_DIRS; i++) {
		dir = &in->dir[i];
		if (dir->addr)
			import_unmap(link, &dir, 1);
	}
	memset(in->dir, 0, sizeof(in->dir));
	in->hdr = NULL;
	in->bell = NULL;
	in->ctl = NULL;
	in->mapped = 0;
}
