// SPDX-License-Identifier: GPL-2.0
/*
 * Imports: the pages of the peer's arena that are mapped here.
 *
 * All functions sleep and are called under the link's lock.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/nospec.h>
#include <linux/slab.h>

#include "arena.h"
#include "link.h"

static int import_map(struct link *link, u32 ref, struct xway_mapping *m)
{
	int err = -ENOSPC;

	/* A peer may show no more than it is shown, and its directories. */
	if (link->import.mapped < xway_arena_pages_max() + XWAY_DIRS)
		err = link->tp->map(link, ref, m);
	if (!err)
		link->import.mapped++;
	return err;
}

static void import_unmap(struct link *link, struct xway_mapping *m)
{
	link->tp->unmap(link, m);
	link->import.mapped--;
}

/* Map what the peer says its page of that number is. */
static struct xway_mapping *import_add(struct link *link, u32 nr, u32 ref)
{
	struct xway_mapping *m = kzalloc(sizeof(*m), GFP_KERNEL);
	int err;

	if (!m)
		return ERR_PTR(-ENOMEM);
	err = import_map(link, ref, m);
	if (err)
		goto err_free;
	err = xa_err(xa_store(&link->import.maps, nr, m, GFP_KERNEL));
	if (err)
		goto err_unmap;
	return m;

err_unmap:
	import_unmap(link, m);
err_free:
	kfree(m);
	return ERR_PTR(err);
}

/* Map a page of the peer's arena, once. */
static struct xway_mapping *import_page(struct link *link, u32 nr)
{
	struct xway_import *in = &link->import;
	const struct xway_header *hdr = in->hdr;
	struct xway_mapping *m;
	u32 d, ref;
	int err;

	lockdep_assert_held(&link->pub.lock);
	m = xa_load(&in->maps, nr);
	if (m)
		return m;
	/* Entries after their count: pairs with arena_grow() at the peer. */
	if (!hdr || nr >= virt_load_acquire(&hdr->pages) ||
	    nr >= XWAY_ARENA_PAGES_MAX)
		return ERR_PTR(-EPROTO);
	d = array_index_nospec(nr / XWAY_REFS_PER_DIR, XWAY_DIRS);
	if (!in->dir[d].addr) {
		err = import_map(link, READ_ONCE(hdr->dirs[d]), &in->dir[d]);
		if (err)
			return ERR_PTR(err);
	}
	ref = READ_ONCE(((const u32 *)in->dir[d].addr)[nr % XWAY_REFS_PER_DIR]);
	return import_add(link, nr, ref);
}

/**
 * xway_import_get() - have a page of the peer's arena stay mapped
 * @link: the link
 * @nr: number of the page, as the peer gave it: any value
 *
 * Return: its address, or an ERR_PTR: -EPROTO for a number or a reference that
 * the peer has not shared, -ENOSPC if it shows too much, -ENOMEM.
 */
const void *xway_import_get(struct link *link, u32 nr)
{
	struct xway_mapping *m = import_page(link, nr);

	if (IS_ERR(m))
		return ERR_CAST(m);
	m->users++;
	return m->addr;
}

/* They may be unmapped, but are not until the peer asks for it or is gone. */
void xway_import_put(struct link *link, u32 first, u32 pages)
{
	struct xway_mapping *m;
	u32 i;

	lockdep_assert_held(&link->pub.lock);
	for (i = 0; i < pages; i++) {
		m = xa_load(&link->import.maps, first + i);
		if (!WARN_ON_ONCE(!m || !m->users))
			m->users--;
	}
}

/**
 * xway_import_unmap() - the peer takes pages out of its arena: unmap them
 * @link: the link
 * @first: the first of them, as the peer gave it: any value
 * @pages: how many
 *
 * Return: false, with nothing done, if a channel uses one: no honest peer takes
 * away what it has not been told CLOSE of.
 */
bool xway_import_unmap(struct link *link, u32 first, u32 pages)
{
	struct xway_import *in = &link->import;
	struct xway_mapping *m;
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
		import_unmap(link, m);
		kfree(m);
	}
	return true;
}

/* Return: the newest version that both ends speak, or 0 if there is none. */
static u32 import_version(struct link *link, const struct xway_header *hdr)
{
	u32 oldest = READ_ONCE(hdr->version);
	u32 newest = max(READ_ONCE(hdr->version_max), oldest);

	if (oldest <= XWAY_WIRE_NEWEST && newest >= XWAY_WIRE_OLDEST)
		return min_t(u32, newest, XWAY_WIRE_NEWEST);
	pr_warn_ratelimited("%s: no link: its shared memory has versions %u to %u, this module's %u to %u\n",
			    link->pub.name, oldest, newest, XWAY_WIRE_OLDEST,
			    XWAY_WIRE_NEWEST);
	return 0;
}

/**
 * xway_import_open() - map the fixed pages of the peer's arena
 * @link: the link
 * @ref: what the peer said its first page is
 * @nonce: what the peer said its nonce is
 *
 * Return: 0; -EPROTO if what is found there is no arena of that nonce and of a
 * version known here; or an errno of the transport. On error nothing is mapped.
 */
int xway_import_open(struct link *link, u32 ref, u64 nonce)
{
	struct xway_import *in = &link->import;
	struct xway_mapping *hdr, *bell, *ctl;
	int err;

	lockdep_assert_held(&link->pub.lock);
	hdr = import_add(link, XWAY_PAGE_HEADER, ref);
	if (IS_ERR(hdr))
		return PTR_ERR(hdr);
	in->hdr = hdr->addr;
	err = -EPROTO;
	/* Pairs with xway_arena_create() at the peer. */
	if (virt_load_acquire(&in->hdr->magic) != XWAY_MAGIC ||
	    READ_ONCE(in->hdr->nonce) != nonce)
		goto err_close;
	link->version = import_version(link, in->hdr);
	if (!link->version)
		goto err_close;
	bell = import_page(link, XWAY_PAGE_BELL);
	ctl = import_page(link, XWAY_PAGE_CTL);
	err = PTR_ERR_OR_ZERO(bell) ?: PTR_ERR_OR_ZERO(ctl);
	if (err)
		goto err_close;
	in->bell = bell->addr;
	in->ctl = ctl->addr;
	return 0;

err_close:
	xway_import_close(link);
	return err;
}

/**
 * xway_import_close() - unmap everything of the peer
 * @link: the link; nobody reads the peer's pages any more
 */
void xway_import_close(struct link *link)
{
	struct xway_import *in = &link->import;
	struct xway_mapping *m;
	unsigned long nr;
	int i;

	xa_for_each(&in->maps, nr, m) {
		link->tp->unmap(link, m);
		kfree(m);
	}
	xa_destroy(&in->maps);
	for (i = 0; i < XWAY_DIRS; i++)
		if (in->dir[i].addr)
			link->tp->unmap(link, &in->dir[i]);
	memset(in->dir, 0, sizeof(in->dir));
	in->hdr = NULL;
	in->bell = NULL;
	in->ctl = NULL;
	in->mapped = 0;
}
