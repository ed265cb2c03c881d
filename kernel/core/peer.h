/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_PEER_H
#define _XWAY_PEER_H

#include <linux/list.h>
#include <linux/refcount.h>

#define XWAY_PEER_ID 40	/* bytes of what names a peer, with their end */

/**
 * struct xway_peer - another domain, and what it has us keep, link after link
 * @node: in peers
 * @ref: each link and each unrevoked page has one
 * @id: its UUID, or what else names it: its number may change
 * @charged: pages of its rings that clients have mapped, or copied and not read
 * @unrevoked: own pages that it still maps though their session has ended, or though
 *	it has said that it does not
 */
struct xway_peer {
	struct list_head node;
	refcount_t ref;
	char id[XWAY_PEER_ID];
	atomic_t charged;
	atomic_t unrevoked;
};

struct xway_peer *xway_peer_get(const char *id);
struct xway_peer *xway_peer_hold(struct xway_peer *peer);
void xway_peer_put(struct xway_peer *peer);

#endif /* _XWAY_PEER_H */
