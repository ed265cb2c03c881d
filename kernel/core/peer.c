// SPDX-License-Identifier: GPL-2.0
/*
 * Peers: pages that a domain makes us keep, counted by its UUID.
 *
 * A peer gets a new link when it was suspended, or when it left the policy and came
 * back. Pages of the old link that are unread or still mapped count on. Otherwise a
 * peer could exceed its limit with each new link.
 *
 * A spill may not fail, so what may be spilled is limited for all peers together, too.
 */
#include <linux/export.h>
#include <linux/init.h>
#include <linux/minmax.h>
#include <linux/mm.h>
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

const char *xway_peer_id(const struct xway_peer *peer)
{
	return peer->id;
}
EXPORT_SYMBOL_GPL(xway_peer_id);

/* Pages charged for all peers together, and the most; an eighth of the memory */
static atomic_t charged_total = ATOMIC_INIT(0);
unsigned int xway_charged_max;

/**
 * xway_peer_part() - how far may the pages of all peers go for one of them?
 * @all: the most that all peers together may have
 * @held: what this one would have
 *
 * The last eighth is for peers that have little, so that two which take all that they can
 * leave enough for a link, and some connections, with a third.
 *
 * Context: any.
 * Return: pages of all peers.
 */
u32 xway_peer_part(u32 all, u32 held)
{
	return held > max(all / 128, 32u) ? all - all / 8 : all;
}

/* Count pages, unless there would be more than @most. */
static bool charge(atomic_t *charged, u32 pages, u32 most)
{
	int old = atomic_read(charged);

	do {
		/* The limit may have been lowered since: test it alone first. */
		if (old > most || pages > most - old)
			return false;
	} while (!atomic_try_cmpxchg(charged, &old, old + pages));
	return true;
}

bool xway_peer_charge(struct xway_peer *peer, u32 pages)
{
	if (!charge(&peer->charged, pages, xway_link_pages_max()))
		return false;
	if (charge(&charged_total, pages,
		   xway_peer_part(xway_charged_max, atomic_read(&peer->charged))))
		return true;
	atomic_sub(pages, &peer->charged);
	return false;
}
EXPORT_SYMBOL_GPL(xway_peer_charge);

void xway_peer_uncharge(struct xway_peer *peer, u32 pages)
{
	atomic_sub(pages, &peer->charged);
	atomic_sub(pages, &charged_total);
}
EXPORT_SYMBOL_GPL(xway_peer_uncharge);

/* Set what all peers together may have us keep. Context: initialization. */
void __init xway_peer_init(void)
{
	xway_charged_max = min(totalram_pages() / 8, (unsigned long)INT_MAX);
}
