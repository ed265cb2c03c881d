// SPDX-License-Identifier: GPL-2.0
/*
 * Peers: who a domain is, and what it has us keep.
 *
 * The link to a peer ends and another begins when the peer is saved, or is taken
 * out of the policy and put back. What is left of the first, unread or still
 * mapped, goes on to count. Otherwise a peer could have all of it anew with each
 * new link.
 */
#include <linux/export.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "arena.h"
#include "core.h"
#include "peer.h"

static LIST_HEAD(peers);
static DEFINE_SPINLOCK(peers_lock);

static struct xway_peer *peer_find(const char *id)
{
	struct xway_peer *peer;

	lockdep_assert_held(&peers_lock);
	list_for_each_entry(peer, &peers, node)
		if (!strcmp(peer->id, id))
			return peer;
	return NULL;
}

/**
 * xway_peer_get() - the peer of a name
 * @id: what names the peer
 *
 * May sleep. Return: it, with a reference, or NULL without memory.
 */
struct xway_peer *xway_peer_get(const char *id)
{
	struct xway_peer *fresh = kzalloc(sizeof(*fresh), GFP_KERNEL);
	struct xway_peer *peer;

	if (!fresh)
		return NULL;
	strscpy(fresh->id, id, sizeof(fresh->id));
	refcount_set(&fresh->ref, 1);
	spin_lock_bh(&peers_lock);
	peer = peer_find(fresh->id);
	/* The last reference goes under the lock: there is one. */
	if (peer)
		refcount_inc(&peer->ref);
	else
		list_add(&fresh->node, &peers);
	spin_unlock_bh(&peers_lock);
	if (!peer)
		return fresh;
	kfree(fresh);
	return peer;
}

/* One more reference on a peer that the caller has one on. Context: any. */
struct xway_peer *xway_peer_hold(struct xway_peer *peer)
{
	refcount_inc(&peer->ref);
	return peer;
}

/* Any context but a hard interrupt */
void xway_peer_put(struct xway_peer *peer)
{
	bool last;

	spin_lock_bh(&peers_lock);
	last = refcount_dec_and_test(&peer->ref);
	if (last)
		list_del(&peer->node);
	spin_unlock_bh(&peers_lock);
	if (last)
		kfree(peer);
}

/**
 * xway_peer_charge() - may a client keep pages for a peer?
 * @peer: the peer
 * @pages: how many
 *
 * For what a peer decides the size of: its ring while it is mapped, and copies of
 * what it has put there and nobody has read. All clients and all links with the
 * peer together may have as many as its arena may. An honest peer that is set up
 * as we are has no more.
 *
 * Context: process or softirq. Return: true if they count now.
 */
bool xway_peer_charge(struct xway_peer *peer, u32 pages)
{
	int most = xway_arena_pages_max();
	int old = atomic_read(&peer->charged);

	do {
		if (old + (int)pages > most)
			return false;
	} while (!atomic_try_cmpxchg(&peer->charged, &old, old + (int)pages));
	return true;
}
EXPORT_SYMBOL_GPL(xway_peer_charge);

/**
 * xway_peer_uncharge() - pages are not kept any more
 * @peer: the peer
 * @pages: how many of those that were charged
 *
 * Context: any.
 */
void xway_peer_uncharge(struct xway_peer *peer, u32 pages)
{
	atomic_sub(pages, &peer->charged);
}
EXPORT_SYMBOL_GPL(xway_peer_uncharge);
