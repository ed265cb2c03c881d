// SPDX-License-Identifier: GPL-2.0
/*
 * Transport "local": between the network namespaces of one kernel, or a kernel and
 * itself. It has two links, each the other's peer: one for the ends that connect, one
 * for the ends that accept. It uses all of the core but the parts for Xen.
 */
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "link.h"
#include "local.h"
#include "addr.h"

static struct link *ends[2];	/* passive, active */
static DEFINE_MUTEX(lock);		/* guards running, and the ends' sessions */
static bool running;

static struct link *other(const struct link *link)
{
	return link == ends[0] ? ends[1] : ends[0];
}

static int local_share(struct link *link, struct page *page, u32 *ref)
{
	*ref = page_to_pfn(page);
	return 0;
}

static int local_unshare(struct page *page, u32 ref)
{
	/* The peer's mappings are references on the page. */
	return page_count(page) > 1 ? -EBUSY : 0;
}

static void local_abandon(struct page *page, u32 ref)
{
	__free_page(page);
}

static int local_map(struct link *link, const u32 *refs, struct xway_mapping **m, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++) {
		m[i]->page = pfn_to_page(refs[i]);
		get_page(m[i]->page);
		m[i]->addr = page_address(m[i]->page);
	}
	return n;
}

static void local_unmap(struct link *link, struct xway_mapping **m, u32 n)
{
	while (n--)
		put_page(m[n]->page);
}

static void local_notify(struct link *link)
{
	tasklet_schedule(&other(link)->bell.task);
}

static void local_seen(struct link *link, bool idle)
{
}

static void local_lost(struct link *link)
{
	/* Both ends are this module's own, and bring_down() ends them. */
}

static const struct xway_transport transport = {
	.name = "local",
	.share = local_share,
	.unshare = local_unshare,
	.abandon = local_abandon,
	.map = local_map,
	.unmap = local_unmap,
	.notify = local_notify,
	.seen = local_seen,
};

/**
 * xway_local_join() - begin a session between two links of this kernel
 * @first: the link that maps the other's arena first
 * @second: the other link
 *
 * Context: process; takes the links' locks one after another, may sleep.
 * Return: 0; an errno of xway_link_prepare() or xway_link_map(): the caller ends what has
 * begun, by xway_link_down().
 */
int xway_local_join(struct link *first, struct link *second)
{
	struct link *const both[] = { first, second };
	/* See link_work(). */
	unsigned int noio = memalloc_noio_save();
	int i, err = 0;

	for (i = 0; i < 2 && !err; i++) {
		mutex_lock(&both[i]->pub.lock);
		err = xway_link_prepare(both[i]);
		mutex_unlock(&both[i]->pub.lock);
	}
	for (i = 0; i < 2 && !err; i++) {
		mutex_lock(&both[i]->pub.lock);
		err = xway_link_map(both[i], both[!i]->arena.slot[0].ref,
				    both[!i]->pub.nonce);
		mutex_unlock(&both[i]->pub.lock);
	}
	if (!err) {
		mutex_lock(&first->pub.lock);
		xway_link_check_up(first);
		mutex_unlock(&first->pub.lock);
	}
	memalloc_noio_restore(noio);
	return err;
}

static void bring_down(void)
{
	/* Draining one link drains the other too: each channel has an end on both. */
	xway_link_down(ends[1], false);
	xway_link_down(ends[0], false);
}

/**
 * xway_local_add() - accelerate connections to addresses of this kernel
 * @addr: an address or a prefix
 *
 * Context: process, may sleep.
 * Return: 0; -EEXIST if the prefix belongs to a peer already; -EBUSY while pages of
 * an earlier session are unrevoked; -ENOMEM; -ENOSPC if a limit of pages is reached.
 */
int xway_local_add(const struct xway_addr *addr)
{
	int err = 0;

	mutex_lock(&lock);
	if (!running) {
		err = xway_local_join(ends[0], ends[1]);
		if (err)
			bring_down();
		else
			running = true;
	}
	if (!err)
		err = xway_addr_add(addr, &ends[1]->pub, &ends[0]->pub);
	mutex_unlock(&lock);
	return err;
}

/**
 * xway_local_del() - undo xway_local_add()
 * @addr: the same address or prefix
 *
 * Connections of addresses that no prefix has any more leave the rings.
 *
 * Context: process, may sleep.
 * Return: 0; -ENOENT if xway_local_add() has not added this prefix.
 */
int xway_local_del(const struct xway_addr *addr)
{
	int i, err = xway_addr_del(addr, &ends[0]->pub);

	for (i = 0; i < 2 && !err; i++)
		xway_client_addresses(ends[i]);
	return err;
}

/* Create both links, without a session. Return: 0 or -ENOMEM. */
int __init xway_local_init(void)
{
	ends[0] = xway_link_create(&transport, NULL, local_lost, "local:passive",
				   "local:passive");
	ends[1] = xway_link_create(&transport, NULL, local_lost, "local:active",
				   "local:active");
	if (ends[0] && ends[1] && !xway_client_policy(ends[0], XWAY_SERVICE_NET, "") &&
	    !xway_client_policy(ends[1], XWAY_SERVICE_NET, ""))
		return 0;
	xway_local_exit();
	return -ENOMEM;
}

/* Remove all addresses, and end both sessions. Context: process, may sleep. */
void xway_local_stop(void)
{
	xway_addr_del_link(&ends[0]->pub);
	mutex_lock(&lock);
	if (running)
		bring_down();
	running = false;
	mutex_unlock(&lock);
}

/* Destroy both links, after xway_local_stop(). Context: process, may sleep. */
void xway_local_exit(void)
{
	int i;

	for (i = 0; i < 2; i++)
		if (ends[i])
			xway_link_destroy(ends[i]);
}
