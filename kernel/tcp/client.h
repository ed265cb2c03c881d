/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_CLIENT_H
#define _XWAY_CLIENT_H

#include <linux/atomic.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>

#include "core/core.h"
#include "stats.h"

/**
 * struct xway_fill - who fills its ring, see ringsize.c
 * @period: of time, that is counted
 * @now: connections that have filled theirs in it
 * @before: those of the period before
 * @window: bytes that each may fill
 */
struct xway_fill {
	spinlock_t lock;	/* all but reading @window */
	unsigned long period;
	u32 now;
	u32 before;
	u32 window;
};

/**
 * struct xway_tcp_link - what sockets keep for a link
 * @ref: the link's @data has one, and each connection
 * @link: with a reference
 * @fill: see above
 * @rings_wanted: by connections that found no pages, see evict.c
 * @rings_wanted_at: when the last of them wanted one, in jiffies
 * @conns: connections that are attached, or not yet at their end
 * @base: bytes of connections that have ended
 */
struct xway_tcp_link {
	refcount_t ref;
	struct rcu_head rcu;
	struct xway_link *link;
	struct xway_fill fill;
	atomic_t rings_wanted;
	unsigned long rings_wanted_at;
	atomic_t conns;
	atomic64_t base[XWAY_LINK_COUNTERS];
};

extern const struct xway_client xway_sockets;

struct xway_tcp_link *xway_tcp_link_get(struct xway_link *link);
void xway_tcp_link_put(struct xway_tcp_link *tl);

int xway_client_init(void);
void xway_client_exit(void);

#endif /* _XWAY_CLIENT_H */
