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

static int import_map(struct link *link, u32 ref, struct xway_mapping *m)
{
	int err = -ENOSPC;

	/* A peer may show as many pages as we may show it, and its directories. */
	if (link->import.mapped < xway_link_pages_max() + XWAY_DIRS)
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

/* Map the page of reference @ref as the peer's page @nr. */
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

/* The mapping of the peer's page @nr, which is made if there is none */
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
 * xway_import_get() - map a page of the peer's arena, and use it
 * @link: the link
 * @nr: number of the page; the peer has sent it, so it may be any
 *
 * Context: process, link's lock held.
 * Return: its address, or an ERR_PTR: -EPROTO for a number or a reference that the
 * peer has not shared; -ENOSPC if the peer shows more pages than may be mapped;
 * -ENOMEM.
 */
const void *xway_import_get(struct link *link, u32 nr)
{
	struct xway_mapping *m = import_page(link, nr);

	if (IS_ERR(m))
		return ERR_CAST(m);
	m->users++;
	return m->addr;
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
	struct xway_mapping *hdr, *bell, *ctl;
	int err;

	lockdep_assert_held(&link->pub.lock);
	hdr = import_add(link, XWAY_PAGE_HEADER, ref);
	if (IS_ERR(hdr))
		return PTR_ERR(hdr);
	in->hdr = hdr->addr;
	err = -EPROTO;
	/* Header after magic: pairs with xway_arena_create() at the peer. */
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
 * xway_import_close() - unmap all pages of the peer
 * @link: the link; nobody reads the peer's pages any more
 *
 * Context: process, link's lock held.
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
