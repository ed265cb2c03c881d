/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Links inside the core: the part that clients do not see, and a link's life.
 */
#ifndef _XWAY_LINK_H
#define _XWAY_LINK_H

#include <linux/container_of.h>
#include <linux/interrupt.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "arena.h"
#include "core.h"
#include "import.h"
#include "peer.h"
#include "transport.h"

/**
 * struct doorbell - both directions of a link's doorbell
 * @task: takes the peer's posts and calls clients
 * @lock: the own bell ring
 * @prod: own posts made
 * @cons: the peer's posts taken
 * @overflow_seen: the peer's count of posts without a slot, as last looked at
 */
struct doorbell {
	struct tasklet_struct task;
	spinlock_t lock;	/* see above */
	u32 prod;
	u32 cons;
	u32 overflow_seen;
};

/**
 * struct ctl - both directions of a link's control messages; under its lock
 * @queue: own messages that found no slot
 * @queued: how many those are
 * @prod: own messages put
 * @cons: the peer's messages taken
 * @flush: tries again to put what is queued
 */
struct ctl {
	struct list_head queue;
	u32 queued;
	u32 prod;
	u32 cons;
	struct delayed_work flush;
};

/**
 * struct link - what joins this domain with a peer
 * @pub: what clients see; its @lock guards what has no other rule here
 * @node: in links
 * @tp: its transport
 * @tp_data: the transport's own
 * @lost: the membership's: the peer has ended the session, or has broken the
 *	rules: end it here and offer a new one. Context: any that may sleep; must
 *	not wait for @work.
 * @version: of what is in shared memory, that both ends speak
 * @broken: the peer has broken the rules
 * @was_up: before it began to end
 * @told_up: clients, a bit for each service, that know that it is up
 * @drain_by: when the session must have ended, in jiffies
 * @chans: channels by number, struct xway_chan; readers use RCU
 * @next_chan: for numbers
 * @words_page: pages of words by number / XWAY_CHANS_PER_PAGE, 0 if there is none
 * @words_used: how many words are in use in each
 * @work: control messages, and what else softirq leaves to a process
 *
 * The peer's pages may be read under the lock, or in an RCU read-side section
 * while the state is UP or CLOSING, or through a channel by its own rules.
 */
struct link {
	struct xway_link pub;
	struct rcu_head rcu;
	struct list_head node;
	const struct xway_transport *tp;
	void *tp_data;
	void (*lost)(struct link *link);
	u32 version;
	bool broken;
	bool was_up;
	u8 told_up;
	unsigned long drain_by;

	struct xway_arena arena;
	struct xway_arena_page dir[XWAY_DIRS];
	struct xway_import import;
	struct delayed_work reclaim;

	struct xarray chans;
	u32 next_chan;
	u32 words_page[XWAY_CHANS_MAX / XWAY_CHANS_PER_PAGE];
	u8 words_used[XWAY_CHANS_MAX / XWAY_CHANS_PER_PAGE];

	struct doorbell bell;
	struct ctl ctl;
	struct work_struct work;
};

static inline struct link *to_link(const struct xway_link *link)
{
	return container_of(link, struct link, pub);
}

/* link.c */
int xway_link_init(void);
void xway_link_exit(void);
struct link *xway_link_create(const struct xway_transport *tp, void *tp_data,
			 void (*lost)(struct link *link), const char *name,
			 const char *peer_id);
void xway_link_destroy(struct link *link);
int xway_link_prepare(struct link *link);
int xway_link_map(struct link *link, u32 ref, u64 nonce);
bool xway_link_check_up(struct link *link);
void xway_link_drain(struct link *link);
void xway_link_down(struct link *link, bool dead);
void xway_link_broken(struct link *link);
const char *xway_link_state_name(const struct link *link);

extern struct list_head xway_links;
extern struct mutex xway_links_lock;	/* the list above, and who its clients are */

/* client.c */
void xway_client_add_link(struct link *link);
void xway_client_del_link(struct link *link);
void xway_client_up(struct link *link);
void xway_client_drain(struct link *link);
void xway_client_abort(struct link *link);
long xway_client_reclaim(long wanted);
int xway_client_show(struct link *link, struct sk_buff *skb);
bool xway_client_open(struct link *link, const struct xway_ctl *msg);

/* doorbell.c */
void xway_doorbell_setup(struct link *link);
void xway_doorbell_reset(struct link *link);
void xway_doorbell_post(struct link *link, u32 chan, u32 *last);

/* ctl.c */
void xway_ctl_setup(struct link *link);
void xway_ctl_reset(struct link *link);
void xway_ctl_put(struct link *link, const struct xway_ctl *msg);
void xway_ctl_flush(struct link *link);
void xway_ctl_run(struct link *link);
void xway_ctl_forget(struct link *link);

#endif /* _XWAY_LINK_H */
