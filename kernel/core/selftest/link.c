// SPDX-License-Identifier: GPL-2.0
/* Tests of sessions */
#include <linux/delay.h>

#include "ends.h"

/* A peer may ring before it shows anything, and while that is no longer wanted. */
static bool link_ends_waiting(void)
{
	EXPECT(!prepare(A));
	tasklet_schedule(&end(A)->bell.task);
	tasklet_kill(&end(A)->bell.task);
	xway_link_drain(end(A));
	EXPECT(end(A)->pub.state == XWAY_LINK_CLOSING && !end(A)->import.hdr);
	tasklet_schedule(&end(A)->bell.task);
	tasklet_kill(&end(A)->bell.task);	/* once it has run */
	return true;
}

/* An offer outlives what it offers, and who ends may not say so. */
static bool link_past_life(void)
{
	struct xway_header *hdr;
	int i;

	EXPECT(!prepare(A) && !prepare(P));
	hdr = end(A)->arena.hdr;
	hdr->peer_nonce = end(P)->pub.nonce + 1;
	EXPECT(map(P) == -EAGAIN);
	hdr->peer_nonce = end(P)->pub.nonce;
	hdr->state = XWAY_ARENA_CLOSING;
	EXPECT(map(P) == -EAGAIN);
	EXPECT(!atomic_read(&xway_fake.mapped) && !end(P)->import.hdr);
	EXPECT(end(P)->pub.state == XWAY_LINK_WAITING);
	hdr->peer_nonce = 0;
	hdr->state = XWAY_ARENA_INIT;
	EXPECT(!map(P));
	EXPECT(end(P)->pub.state == XWAY_LINK_CONNECTING && !xway_fake.lost);
	hdr->state = XWAY_ARENA_CLOSING;
	for (i = 0; i < 100 && !READ_ONCE(xway_fake.lost); i++)
		msleep(50);
	EXPECT(xway_fake.lost);
	return true;
}

/* Peers that hang are waited for together, not one after another. */
static bool links_end_together(void)
{
	unsigned long start = jiffies;
	LIST_HEAD(ending);
	int i;

	for (i = 0; i < 2; i++)
		list_add_tail(&end(i)->ending, &ending);
	fake_client.drained = 0;
	xway_links_drain(&ending);
	EXPECT(list_empty(&ending) && list_empty(&end(P)->ending));
	/* All have left before anyone is waited for. */
	EXPECT(fake_client.drained == 2);
	for (i = 0; i < 2; i++) {
		EXPECT(end(i)->pub.state == XWAY_LINK_CLOSING);
		EXPECT(time_before_eq(end(i)->drain_by, start + 6 * HZ));
		/* Do not wait that long. */
		end(i)->drain_by = jiffies + HZ / 4;
	}
	start = jiffies;
	for (i = 0; i < 2; i++) {
		xway_link_down(end(i), false);
		EXPECT(end(i)->pub.state == XWAY_LINK_DEAD);
	}
	EXPECT(time_before(jiffies, start + 3 * HZ));
	/* What is down has nothing to drain. */
	list_add_tail(&end(P)->ending, &ending);
	xway_links_drain(&ending);
	EXPECT(end(P)->pub.state == XWAY_LINK_DEAD);
	return true;
}

/* A peer that says that it ends, and unsays it, has no more time for that. */
static bool link_end_unsaid(void)
{
	struct xway_header *hdr = end(A)->arena.hdr;
	unsigned long start;
	int i;

	WRITE_ONCE(hdr->state, XWAY_ARENA_CLOSING);
	tasklet_schedule(&end(P)->bell.task);
	for (i = 0; i < 100 && !READ_ONCE(xway_fake.lost); i++)
		msleep(50);
	EXPECT(xway_fake.lost);
	WRITE_ONCE(hdr->state, XWAY_ARENA_UP);
	/* A channel is left. */
	start = jiffies;
	EXPECT(xway_link_down(end(P), false));
	EXPECT(time_before(jiffies, start + 3 * HZ));
	return true;
}

const struct xway_test link_tests[] = {
	{ "link_end_unsaid", link_end_unsaid, CHANNEL },
	{ "links_end_together", links_end_together, CHANNEL },
	{ "link_ends_waiting", link_ends_waiting, MADE },
	{ "link_past_life", link_past_life, MADE },
	{}
};
