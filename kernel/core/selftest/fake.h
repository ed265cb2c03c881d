/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two links that are each other's peer, over a transport that does nothing by
 * itself.
 */
#ifndef _XWAY_FAKE_H
#define _XWAY_FAKE_H

#include "core/link.h"

/* How far up a test wants the links; what is above UP is its module's own. */
enum {
	MADE,		/* no arena yet */
	UP,
	ABOVE_UP
};

enum { P, A };		/* passive end, active end */

/**
 * struct xway_fake - the two links, and their transport
 * @link: by P and A
 * @may_share: so many pages may be shared yet
 * @held: does the peer hold on to pages?
 * @shared: pages that are
 * @mapped: pages that are, or were and are not unmapped
 * @notified: events sent
 * @lost: how often a session was found lost
 */
struct xway_fake {
	struct link *link[2];
	int may_share;
	bool held;
	int shared;
	int mapped;
	int notified;
	int lost;
};

extern struct xway_fake xway_fake;

static inline struct link *end(int which)
{
	return xway_fake.link[which];
}

/* What an event has an end do, now; more than once if it must. */
static inline void look(int which)
{
	int i;

	for (i = 0; i < 8; i++) {
		tasklet_schedule(&end(which)->bell.task);
		tasklet_kill(&end(which)->bell.task);
	}
}

bool xway_fake_make(void);
bool xway_fake_up(void);
void xway_fake_down(void);
void xway_fake_destroy(void);
struct link *xway_fake_other(int which);
bool xway_fake_take(int from, struct xway_ctl *msg);
bool xway_fake_give(int to, const struct xway_ctl *msg);

#endif /* _XWAY_FAKE_H */
