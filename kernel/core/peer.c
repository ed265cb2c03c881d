// SPDX-License-Identifier: GPL-2.0
/*
 * Debts: what a peer has us keep, and what limits are for.
 *
 * A peer's link ends and another begins as it is saved, or taken out of the policy
 * and put back. What is left of the first, unread or still mapped, counts on: a
 * peer would have all over again with each new link otherwise.
 */
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

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
 * xway_peer_get() - the peers of a peer
 * @id: what names the peer
 *
 * May sleep. Return: them, with a reference, or NULL without memory.
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
