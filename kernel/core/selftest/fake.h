/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two links that are each other's peer. Their transport delivers no event: a test
 * calls look() where an event would come.
 */
#ifndef _XWAY_FAKE_H
#define _XWAY_FAKE_H

#include <linux/delay.h>
#include <linux/jiffies.h>

#include "core/link.h"

/* What is set up before a test; each level includes those before it. */
enum {
	MADE,		/* the links, without arenas */
	UP,		/* the links are up */
	ABOVE_UP	/* first level of a module's own */
};

enum { P, A };		/* passive end, active end */

/**
 * struct xway_fake - the two links and their transport
 * @link: the links, by P and A
 * @may_share: how many more pages the transport lets the ends share
 * @held: true if the peer does not unmap the pages that are revoked
 * @gone: true if the peers have ended
 * @shared: how many pages are shared
 * @mapped: how many pages are mapped
 * @notified: how many events were sent
 * @lost: how many times a link called @session_lost
 * @seen: how many events were handled, first those that brought nothing new
 *
 * Works of both ends share and map pages at the same time. What is counted without
 * atomics only a test's own calls count.
 */
struct xway_fake {
	struct link *link[2];
	atomic_t may_share;
	bool held;
	bool gone;
	atomic_t shared;
	atomic_t mapped;
	int notified;
	int lost;
	int seen[2];
};

extern struct xway_fake xway_fake;

static inline struct link *end(int which)
{
	return xway_fake.link[which];
}

/* Run the tasklet of an end's doorbell once, if it does not rest. */
static inline void look_once(int which)
{
	tasklet_schedule(&end(which)->bell.task);
	tasklet_kill(&end(which)->bell.task);
}

/* Run the tasklet of an end's doorbell now. One run takes a limited number of posts. What
 * it has left for later is done, too.
 */
static inline void look(int which)
{
	int i;

	for (i = 0; i < 8; i++) {
		look_once(which);
		if (!delayed_work_pending(&end(which)->bell.later))
			continue;
		/* A second scan is not for the same jiffy. */
		msleep(jiffies_to_msecs(1));
		flush_delayed_work(&end(which)->bell.later);
	}
	tasklet_kill(&end(which)->bell.task);
}

bool xway_fake_make(void);
bool xway_fake_up(void);
void xway_fake_down(void);
void xway_fake_end(int which, bool dead);
void xway_fake_destroy(void);
struct link *xway_fake_other(int which);
bool xway_fake_list(int which, __be32 addr);
bool xway_fake_take(int from, struct xway_ctl *msg);
bool xway_fake_give(int to, const struct xway_ctl *msg);

#endif /* _XWAY_FAKE_H */
