/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_PEER_H
#define _XWAY_PEER_H

#include <linux/list.h>
#include <linux/refcount.h>

#define XWAY_PEER_ID 40	/* what names a peer, with its end */

/**
 * struct xway_peer - memory that one peer has us keep, link after link
 * @id: what names the peer, whatever number it has
 * @rx_pages: pages of its rings that are mapped, or were copied out and not read
 * @unrevoked: own pages that it still maps though their link has ended, or though it
 *	has said that it does not
 */
struct xway_peer {
	struct list_head node;
	refcount_t ref;
	char id[XWAY_PEER_ID];
	atomic_t rx_pages;
	atomic_t unrevoked;
};

struct xway_peer *xway_peer_get(const char *id);
void xway_peer_put(struct xway_peer *peer);

#endif /* _XWAY_PEER_H */
