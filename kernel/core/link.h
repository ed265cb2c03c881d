/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Links inside the core: the part that clients do not see.
 */
#ifndef _XWAY_LINK_H
#define _XWAY_LINK_H

#include <linux/container_of.h>
#include <linux/interrupt.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "arena.h"
#include "core.h"
#include "import.h"
#include "peer.h"
#include "transport.h"

/**
 * struct doorbell - both directions of a link's doorbell
 * @task: takes the peer's posts and calls clients: doorbell_run()
 * @lock: guards @prod and the own doorbell page
 * @prod: own posts made, modulo 2^32
 * @cons: the peer's posts taken, modulo 2^32; only @task changes it
 * @later: runs @task again: after a rest, or when the next scan is due
 * @resting: @task does nothing until @later runs
 * @news: a run found something new since the transport's @seen was called
 * @scanning: all channels are being looked at, up to now those below @scan
 * @scanned: there was a scan in this session
 * @overflow_seen: the peer's bell_overflow when the last scan began
 * @ctl_seen: the peer's ctl_prod at its last control bell
 * @scan: the next channel of the scan
 * @scan_looks: channels that this scan has looked at
 * @scan_found: it has found something new
 * @vain: looks of the last scan, if it has found nothing and no rest has followed yet
 * @scanned_at: when the last scan ended, in jiffies
 * @beat_at: when the last beat came, in jiffies
 * @idle: looks since @idle_since that found nothing new
 * @idle_since: in jiffies
 *
 * Only @task changes those for which nothing else is said, and the beginning of a session.
 */
struct doorbell {
	struct tasklet_struct task;
	spinlock_t lock;	/* own posts */
	u32 prod;
	u32 cons;
	struct delayed_work later;
	bool resting;
	bool news;
	bool scanning;
	bool scanned;
	bool scan_found;
	u32 overflow_seen;
	u32 ctl_seen;
	unsigned long scan;
	u32 scan_looks;
	u32 vain;
	unsigned long scanned_at;
	unsigned long beat_at;
	u32 idle;
	unsigned long idle_since;
};

/**
 * struct heart - whether the peer's kernel runs, under the link's lock
 * @asked: a beat was sent in this session
 * @sign: what heartbeat_sign() said when the last beat was sent
 * @last: private to xway_doorbell_post()
 * @at: when the last beat was sent, or last found not to be taken, in jiffies
 * @silent: seconds in which the peer gave no sign; read without the lock, too
 */
struct heart {
	bool asked;
	u32 sign;
	u32 last;
	unsigned long at;
	unsigned int silent;
};

/**
 * struct ctl - both directions of a link's control messages, under the link's lock
 * @queue: own messages that found no slot yet, struct item
 * @queued: length of @queue; the doorbell reads it and @prod without the lock
 * @prod: own messages sent, modulo 2^32
 * @cons: the peer's messages taken, modulo 2^32
 * @flush: sends the messages of @queue
 */
struct ctl {
	struct list_head queue;
	u32 queued;
	u32 prod;
	u32 cons;
	struct delayed_work flush;
};

/**
 * struct link - a link
 * @pub: the part that clients see. Its lock guards all members for which nothing
 *	else is said.
 * @rcu: to free the link
 * @node: in xway_links
 * @tp: the transport
 * @tp_data: private to the transport
 * @session_lost: callback of membership: the peer has ended the session, or has broken the
 *	rules. Membership ends the session and offers a new one. Context: process;
 *	@work calls it, so it must not wait for @work.
 * @version: the version of wire.h that this session uses
 * @broken: the peer has broken the rules of the link
 * @gone: the transport says that the peer has ended
 * @late: the peer runs, and has owed an answer for too long
 * @awake: seconds in which it did so since answer.c marked what it owes
 * @peer_closing: the peer has said that it ends the session
 * @was_up: the session was up before it began to end
 * @told_up: a bit for each service whose client was told that the session is up
 * @policy: what domain 0 says of each service, or NULL; under xway_links_lock
 * @ending: in a list for xway_links_drain(), which is its caller's
 * @told: the clients know that it ends
 * @drain_by: when the clients must have ended their channels, in jiffies
 * @drained: is woken when there is no channel, and when no message waits for a slot
 * @arena: the own arena
 * @dir: the directory pages of the own arena
 * @import: the peer's arena
 * @reclaim: looks whether pages of the arena can be reclaimed
 * @chans: channels by number, struct xway_chan, or a value, see chan.c; readers use RCU
 * @next_chan: where xa_alloc_cyclic() begins
 * @words_page: for each group of XWAY_CHANS_PER_PAGE numbers, the page of the own
 *	arena with their words; 0 if there is none
 * @words_used: channels of each group
 * @bell: the doorbell
 * @ctl: the control messages
 * @heart: the heartbeat
 * @work: takes control messages, and does what the tasklet must leave to a process
 *
 * Who may read the peer's pages: code that holds the lock; code in an RCU read-side
 * section that has seen @import.hdr, and a state other than WAITING and DEAD; users
 * of a channel, see struct xway_chan.
 */
struct link {
	struct xway_link pub;
	struct rcu_head rcu;
	struct list_head node;
	const struct xway_transport *tp;
	void *tp_data;
	void (*session_lost)(struct link *link);
	u32 version;
	bool broken;
	bool gone;
	bool late;
	unsigned int awake;
	bool peer_closing;
	bool was_up;
	bool told;
	u8 told_up;
	char *policy[XWAY_SERVICES];
	struct list_head ending;
	unsigned long drain_by;
	wait_queue_head_t drained;

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
	struct heart heart;
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
			      void (*session_lost)(struct link *link), const char *name,
			 const char *peer_id);
void xway_link_destroy(struct link *link);
int xway_link_prepare(struct link *link);
int xway_link_map(struct link *link, u32 ref, u64 nonce);
bool xway_link_check_up(struct link *link);
void xway_link_drain(struct link *link);
void xway_links_drain(struct list_head *ending);
bool xway_link_down(struct link *link, bool dead);
void xway_link_broken(struct link *link);
const char *xway_link_state_name(const struct link *link);

extern struct list_head xway_links;
extern struct mutex xway_links_lock;

/* client.c */
int xway_clients_init(void);
void xway_clients_exit(void);
void xway_client_add_link(struct link *link);
void xway_client_del_link(struct link *link);
int xway_client_policy(struct link *link, u16 service, const char *text);
void xway_client_up(struct link *link);
void xway_client_drain(struct link *link);
void xway_client_abort(struct link *link, bool dead);
void xway_client_addresses(struct link *link);
long xway_client_reclaim(long wanted);
int xway_client_show(struct link *link, struct sk_buff *skb);
bool xway_client_open(struct link *link, const struct xway_ctl *msg);

/* chan.c */
bool xway_chan_ctl(struct link *link, const struct xway_ctl *msg);
void xway_chan_asks(const struct xway_chan *chan);
bool xway_chan_owed(const struct link *link);
bool xway_chan_mark_late(struct link *link);
void xway_chan_forget(struct link *link);

/* doorbell.c */
void xway_doorbell_setup(struct link *link);
void xway_doorbell_stop(struct link *link);
void xway_doorbell_reset(struct link *link);
void xway_doorbell_post(struct link *link, u32 chan, u32 *last);

/* ctl.c */
extern unsigned int xway_ctl_queued_max;
void xway_ctl_init(void);
void xway_ctl_setup(struct link *link);
void xway_ctl_reset(struct link *link);
void xway_ctl_put(struct link *link, const struct xway_ctl *msg);
bool xway_ctl_has_room(const struct link *link);
void xway_ctl_flush(struct link *link);
void xway_ctl_run(struct link *link);
bool xway_ctl_handle(struct link *link, const struct xway_ctl *msg);
void xway_ctl_forget(struct link *link);

#endif /* _XWAY_LINK_H */
