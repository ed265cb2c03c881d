// SPDX-License-Identifier: GPL-2.0
/*
 * Revoking: a page that a peer was shown is freed only when the peer cannot read
 * it any more.
 *
 * A page that the peer still maps is unrevoked. A work item tries to revoke it
 * until the peer has unmapped it. Until then no new session with this peer begins,
 * so a peer cannot keep the pages of more than one arena.
 */
#include <linux/delay.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "arena.h"
#include "link.h"
#include "peer.h"
#include "revoke.h"
#include "transport.h"

/* Jiffies between two tries */
#define RETRY (HZ / 4)

/* An unrevoked page. Its link may be gone; its peer and the transport are not. */
struct unrevoked {
	struct list_head node;
	const struct xway_transport *tp;
	struct xway_peer *peer;
	struct page *page;
	u32 ref;
};

static LIST_HEAD(pages);
static DEFINE_MUTEX(pages_lock);
static atomic_t count = ATOMIC_INIT(0);

static void retry(struct work_struct *work);
static DECLARE_DELAYED_WORK(retry_work, retry);

/* Number of unrevoked pages, of all peers. Context: any. */
u32 xway_unrevoked(void)
{
	return atomic_read(&count);
}

static void forget(struct unrevoked *u)
{
	list_del(&u->node);
	atomic_dec(&count);
	atomic_dec(&u->peer->unrevoked);
	xway_peer_put(u->peer);
	kfree(u);
}

static void retry(struct work_struct *work)
{
	struct unrevoked *u, *next;

	mutex_lock(&pages_lock);
	list_for_each_entry_safe(u, next, &pages, node) {
		if (u->tp->unshare(u->page, u->ref))
			continue;
		xway_arena_page_free(u->page);
		forget(u);
	}
	if (!list_empty(&pages))
		queue_delayed_work(xway_core_wq, &retry_work, RETRY);
	mutex_unlock(&pages_lock);
}

/**
 * xway_revoke() - free a page of an arena once the peer cannot read it
 * @link: the link of the arena
 * @page: the page, which nobody uses any more in this domain
 * @ref: the reference by which the peer maps it
 *
 * Context: process, may sleep.
 */
void xway_revoke(struct link *link, struct page *page, u32 ref)
{
	struct unrevoked *u;

	if (!link->tp->unshare(page, ref)) {
		xway_arena_page_free(page);
		return;
	}
	u = kmalloc(sizeof(*u), GFP_KERNEL | __GFP_NOFAIL);
	u->tp = link->tp;
	u->peer = xway_peer_hold(link->pub.peer);
	u->page = page;
	u->ref = ref;
	atomic_inc(&u->peer->unrevoked);
	atomic_inc(&count);
	mutex_lock(&pages_lock);
	list_add(&u->node, &pages);
	mutex_unlock(&pages_lock);
	queue_delayed_work(xway_core_wq, &retry_work, 1);
}

/**
 * xway_revoke_flush() - leave no unrevoked page behind, before the module is unloaded
 *
 * Peers have two seconds to unmap. The transport then takes over the pages that are
 * left, and frees each when its peer has unmapped it.
 *
 * Context: process, may sleep; nobody calls xway_revoke() any more.
 */
void xway_revoke_flush(void)
{
	struct unrevoked *u, *next;
	int i;

	for (i = 0; i < 100 && xway_unrevoked(); i++) {
		mod_delayed_work(xway_core_wq, &retry_work, 0);
		msleep(20);
	}
	cancel_delayed_work_sync(&retry_work);
	list_for_each_entry_safe(u, next, &pages, node) {
		u->tp->abandon(u->page, u->ref);
		xway_arena_page_abandoned();
		forget(u);
	}
}
