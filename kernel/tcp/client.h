/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_CLIENT_H
#define _XWAY_CLIENT_H

#include <linux/atomic.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>

#include "core/core.h"
#include "stats.h"

/**
 * struct xway_fill - senders of a link that fill their rings, see ringsize.c
 * @lock: guards the rest; @period and @window are also read without it
 * @period: number of the period that is counted
 * @now: connections that have filled their rings in it
 * @before: connections that filled their rings in the period before
 * @window: bytes that each of them may have in its ring
 */
struct xway_fill {
	spinlock_t lock;	/* guards the rest */
	unsigned long period;
	u32 now;
	u32 before;
	u32 window;
};

/**
 * struct xway_tcp_link - what sockets keep for a link
 * @ref: @data of the link has one, and each connection
 * @rcu: for freeing it
 * @link: the link, with a reference
 * @fill: how many senders fill their rings
 * @rings_wanted: connections that found no pages for a ring, see evict.c
 * @rings_wanted_at: when the last of them wanted one, in jiffies
 * @conns: connections that are attached, or detached and not freed yet
 * @cut_by: when a CUT that the peer has begun is waited for no longer, because the link
 *	ends, in jiffies
 * @close_by: the same for sockets that are closed, see xway_tx_cut_late()
 * @base: bytes of connections that are freed, from XWAY_N_TX_RING on
 */
struct xway_tcp_link {
	refcount_t ref;
	struct rcu_head rcu;
	struct xway_link *link;
	struct xway_fill fill;
	atomic_t rings_wanted;
	unsigned long rings_wanted_at;
	atomic_t conns;
	unsigned long cut_by;
	unsigned long close_by;
	atomic64_t base[XWAY_LINK_COUNTERS];
};

extern const struct xway_client xway_sockets;
extern struct xway_tcp_link xway_no_link;

struct xway_tcp_link *xway_tcp_link_get(struct xway_link *link);
void xway_tcp_link_put(struct xway_tcp_link *tl);

int xway_client_init(void);
void xway_client_exit(void);

#endif /* _XWAY_CLIENT_H */
