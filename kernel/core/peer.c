// SPDX-License-Identifier: GPL-2.0
/*
 * Peers: pages that a domain makes us keep, counted by its UUID.
 *
 * A peer gets a new link when it was suspended, or when it left the policy and came
 * back. Pages of the old link that are unread or still mapped count on. Otherwise a
 * peer could exceed its limit with each new link.
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
 * xway_peer_get() - find or make the peer of an id
 * @id: the peer's id, see struct xway_peer; only XWAY_PEER_ID - 1 bytes count
 *
 * Context: process, may sleep.
 * Return: the peer, with a reference for the caller; NULL if there is no memory.
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
	/* xway_peer_put() drops the last reference under the lock: it is not 0. */
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

/**
 * xway_peer_hold() - take one more reference on a peer
 * @peer: the peer; the caller has a reference
 *
 * Context: any.
 * Return: @peer.
 */
struct xway_peer *xway_peer_hold(struct xway_peer *peer)
{
	refcount_inc(&peer->ref);
	return peer;
}

/**
 * xway_peer_put() - drop a reference on a peer
 * @peer: the peer
 *
 * Context: any but hard interrupt.
 */
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

bool xway_peer_charge(struct xway_peer *peer, u32 pages)
{
	u32 most = xway_arena_pages_max();
	int old = atomic_read(&peer->charged);

	do {
		/* The limit may have been lowered since: test it alone first. */
		if (old > most || pages > most - old)
			return false;
	} while (!atomic_try_cmpxchg(&peer->charged, &old, old + pages));
	return true;
}
EXPORT_SYMBOL_GPL(xway_peer_charge);

void xway_peer_uncharge(struct xway_peer *peer, u32 pages)
{
	atomic_sub(pages, &peer->charged);
}
EXPORT_SYMBOL_GPL(xway_peer_uncharge);
