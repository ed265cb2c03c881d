/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_PEER_H
#define _XWAY_PEER_H

#include <linux/list.h>
#include <linux/refcount.h>

#include "core.h"

/**
 * struct xway_peer - another domain, and the pages that it makes us keep
 * @node: in the list of peers
 * @ref: references: one for each link and for each unrevoked page
 * @id: the domain's UUID, which stays when the domain id changes; with the transport
 *	"local" the name of the link
 * @charged: pages that clients keep for it, see xway_peer_charge()
 * @unrevoked: own pages that it still maps, though the session is over or it has
 *	said UNMAPPED
 */
struct xway_peer {
	struct list_head node;
	refcount_t ref;
	char id[XWAY_PEER_ID];
	atomic_t charged;
	atomic_t unrevoked;
};

extern unsigned int xway_charged_max;
u32 xway_peer_part(u32 all, u32 held);
void xway_peer_init(void);
struct xway_peer *xway_peer_get(const char *id);
struct xway_peer *xway_peer_hold(struct xway_peer *peer);
void xway_peer_put(struct xway_peer *peer);

#endif /* _XWAY_PEER_H */
