// SPDX-License-Identifier: GPL-2.0
/* Tests of the heartbeat */
#include "ends.h"

/* Ask as if so many jiffies had passed since the last beat. */
static unsigned int ask(unsigned long later)
{
	end(A)->heart.at -= later;
	return xway_link_silent(&end(A)->pub);
}

/* The time without an answer counts by looks, and ends with the first answer. */
static bool heart_beats(void)
{
	look(P);
	look(A);
	xway_fake.notified = 0;
	EXPECT(!ask(0));
	EXPECT(xway_fake.notified == 1);
	EXPECT(!ask(HZ / 4) && !ask(HZ / 4));
	EXPECT(ask(HZ) == 1 && ask(0) == 1);
	/* This end may have been stopped meanwhile: it is one look. */
	EXPECT(ask(60 * HZ) == 2);
	EXPECT(xway_fake.notified == 1);
	look(P);
	EXPECT(!ask(HZ));
	/* That was the next beat. */
	EXPECT(xway_fake.notified == 2);
	EXPECT(ask(HZ) == 1);
	look(P);
	EXPECT(!ask(HZ));
	EXPECT(!end(P)->broken && !xway_fake.lost);
	return true;
}

/* A post that found no slot is not taken either, and any post that is taken is an answer. */
static bool heart_beats_full(void)
{
	u32 last, i;

	look(P);
	look(A);
	for (i = 0; i < XWAY_DOORBELL_SLOTS; i++) {
		last = end(A)->bell.prod;
		rcu_read_lock();
		xway_doorbell_post(end(A), 1000 + i, &last);
		rcu_read_unlock();
	}
	EXPECT(!ask(0) && ask(HZ) == 1);
	look(P);
	EXPECT(!ask(HZ));
	return true;
}

/* The session of a peer that has ended ends, though nobody says so. */
static bool heart_stops(void)
{
	EXPECT(!ask(0) && ask(HZ) == 1);
	xway_fake.gone = true;
	EXPECT(ask(HZ) == 2);
	flush_workqueue(xway_core_wq);
	EXPECT(end(A)->gone && xway_fake.lost == 1);
	/* It is said once. */
	ask(HZ);
	flush_workqueue(xway_core_wq);
	EXPECT(xway_fake.lost == 1);
	return true;
}

const struct xway_test heartbeat_tests[] = {
	{ "heart_beats", heart_beats, UP },
	{ "heart_beats_full", heart_beats_full, UP },
	{ "heart_stops", heart_stops, UP },
	{}
};
