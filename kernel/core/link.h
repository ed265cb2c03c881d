/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_LINK_H
#define _XWAY_LINK_H

#include <linux/interrupt.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "arena.h"
#include "peer.h"
#include "stats.h"
#include "transport.h"
#include "import.h"
#include "wire.h"

struct xway_conn;

/*
 * WAITING: no peer yet. UP: both arenas are mapped. CLOSING: connections are
 * returning to TCP. DEAD: nothing of the peer is touched any more.
 */
enum xway_link_state {
	XWAY_LINK_WAITING,
	XWAY_LINK_CONNECTING,
	XWAY_LINK_UP,
	XWAY_LINK_CLOSING,
	XWAY_LINK_DEAD,
};

/**
 * struct xway_fill - who fills its ring, see size.c
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
 * struct xway_link - what joins this domain to one other
 * @lock: arena, import, control messages, making and freeing of channels
 * @bell_lock: the own bell ring
 * @chans: channels by number, struct xway_conn; readers use RCU
 *
 * The peer's pages may be read under @lock, or in an RCU read-side section
 * while @state is UP or CLOSING, or through a channel by its own rules.
 */
struct xway_link {
	refcount_t ref;
	struct rcu_head rcu;
	struct list_head node;
	const struct xway_transport *tp;
	void *tp_data;
	char name[24];
	struct xway_peer *peer;	/* those of other links to the peer, too */
	enum xway_link_state state;
	struct mutex lock;	/* see above */
	struct xway_arena arena;
	struct xway_arena_page dir[XWAY_DIRS];
	struct xway_import import;
	struct xway_fill fill;
	atomic_t rings_wanted;	/* by connections that found no pages */
	unsigned long rings_wanted_at;
	u64 nonce;
	u64 peer_nonce;
	bool was_up;		/* before it began to end */
	unsigned long drain_by;	/* when it must have ended, in jiffies */

	struct xarray chans;
	u32 next_chan;
	u32 n_chans;
	u32 shm_page[XWAY_CHANS_MAX / XWAY_CHANS_PER_PAGE];
	u8 shm_chans[XWAY_CHANS_MAX / XWAY_CHANS_PER_PAGE];

	struct tasklet_struct bell_task;
	spinlock_t bell_lock;	/* see above */
	u32 bell_prod;
	u32 bell_cons;
	u32 bell_overflow_seen;

	struct work_struct work;
	struct delayed_work flush;
	struct delayed_work reclaim;
	struct list_head ctl_queue;
	u32 ctl_queued;
	u32 ctl_prod;
	u32 ctl_cons;
	bool broken;

	atomic_t conns;
	atomic64_t base[XWAY_LINK_COUNTERS];
};

int xway_link_init(void);
void xway_link_exit(void);
struct xway_link *xway_link_create(const struct xway_transport *tp,
				   void *tp_data, const char *name,
				   const char *id);
void xway_link_destroy(struct xway_link *link);
int xway_link_prepare(struct xway_link *link);
int xway_link_map(struct xway_link *link, u32 ref, u64 nonce);
bool xway_link_check_up(struct xway_link *link);
void xway_link_drain(struct xway_link *link);
void xway_link_down(struct xway_link *link, bool dead);
void xway_link_free(struct xway_link *link);

static inline struct xway_link *xway_link_get(struct xway_link *link)
{
	refcount_inc(&link->ref);
	return link;
}

static inline void xway_link_put(struct xway_link *link)
{
	if (refcount_dec_and_test(&link->ref))
		xway_link_free(link);
}

void xway_link_bell(struct xway_link *link, u32 chan, u32 *last);
void xway_link_ctl_send(struct xway_link *link, const struct xway_ctl *msg);
int xway_link_chan_add(struct xway_link *link, struct xway_conn *conn);
void xway_link_chan_del(struct xway_link *link, struct xway_conn *conn);
const char *xway_link_state_name(const struct xway_link *link);

extern struct workqueue_struct *xway_link_wq;
extern struct list_head xway_links;
extern struct mutex xway_links_lock;

#endif /* _XWAY_LINK_H */
