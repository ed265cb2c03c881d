// SPDX-License-Identifier: GPL-2.0
/* Tests of the doorbell */
#include <linux/delay.h>
#include <linux/jiffies.h>

#include "core/stats.h"
#include "ends.h"

/* As for a channel that was never posted, near index 0 */
#define UNPOSTED (-(u32)XWAY_DOORBELL_SLOTS - 1)

static void bell(u32 chan, u32 *last)
{
	rcu_read_lock();
	xway_doorbell_post(end(A), chan, last);
	rcu_read_unlock();
}

static void begin_bells(u32 at)
{
	look(P);
	end(A)->bell.prod = at;
	end(A)->arena.hdr->bell_prod = at;
	end(P)->bell.cons = at;
	end(P)->arena.hdr->bell_cons = at;
	end(P)->arena.hdr->bell_event = at + 1;
	xway_fake.notified = 0;
}

static bool bell_accounts(u32 at)
{
	u64 sent = xway_core_counted(CORE_N_DOORBELL_POSTS);
	u64 saved = xway_core_counted(CORE_N_DOORBELL_POSTS_SAVED);
	struct xway_header *own = end(A)->arena.hdr;
	u32 before = own->bell_overflow, unposted = at - XWAY_DOORBELL_SLOTS - 1, i;
	u32 last = unposted, lost = unposted, full = at + XWAY_DOORBELL_SLOTS;

	begin_bells(at);
	bell(1000, &last);
	EXPECT(xway_fake.notified == 1 && own->bell_prod == at + 1);
	EXPECT(last == at + 1);
	/* Still due: nothing more to say. */
	bell(1000, &last);
	EXPECT(xway_fake.notified == 1 && own->bell_prod == at + 1);
	EXPECT(xway_core_counted(CORE_N_DOORBELL_POSTS_SAVED) == saved + 1);
	/* Another is posted, without a second event. */
	for (i = 1; i < XWAY_DOORBELL_SLOTS; i++) {
		last = unposted;
		bell(1000 + i, &last);
	}
	EXPECT(xway_fake.notified == 1 && own->bell_prod == full);
	EXPECT(own->bell_overflow == before);
	bell(fake_client.chan[P].id, &lost);
	EXPECT(xway_fake.notified == 2 && own->bell_prod == full);
	EXPECT(own->bell_overflow == before + 1 && lost == unposted);
	bell(fake_client.chan[P].id, &lost);
	EXPECT(xway_fake.notified == 3 && own->bell_overflow == before + 2);
	EXPECT(xway_core_counted(CORE_N_DOORBELL_POSTS) == sent + XWAY_DOORBELL_SLOTS + 2);

	/* The channel whose post found no slot is looked at nevertheless. */
	fake_client.events[P] = 0;
	look(P);
	EXPECT(fake_client.events[P] == 1);
	EXPECT(end(P)->bell.overflow_seen == before + 2);
	EXPECT(end(P)->arena.hdr->bell_cons == full);
	EXPECT(end(P)->arena.hdr->bell_event == full + 1);
	fake_client.events[P] = 0;
	look(P);
	EXPECT(!fake_client.events[P]);
	bell(fake_client.chan[P].id, &lost);
	EXPECT(xway_fake.notified == 4 && own->bell_prod == full + 1);
	look(P);
	EXPECT(fake_client.events[P] == 1);
	return true;
}

static bool bells(void)
{
	EXPECT(bell_accounts(0));
	EXPECT(bell_accounts(0xffffff00));
	EXPECT(bell_accounts(0x7ffffffe));
	EXPECT(!end(P)->broken);
	return true;
}

static bool bell_lies(void)
{
	u64 before = xway_core_counted(CORE_N_VIOLATIONS);
	u32 at = end(P)->bell.cons;

	end(A)->arena.hdr->bell_prod = at + XWAY_DOORBELL_SLOTS + 1;
	look(P);
	flush_workqueue(xway_core_wq);
	EXPECT(end(P)->broken && xway_fake.lost == 1);
	EXPECT(xway_core_counted(CORE_N_VIOLATIONS) == before + 1);
	EXPECT(end(P)->bell.cons == at);
	return true;
}

/* A peer posts without end by writing to its own memory. For a quarter of a second the
 * tasklet runs again and again. Return: the posts that it takes, and whether it rested.
 */
static u32 posted_without_end(u32 chan, unsigned long *took, bool *rested)
{
	struct xway_header *liar = end(A)->arena.hdr;
	unsigned long start = jiffies;
	u32 from = end(P)->bell.cons, i;

	for (i = 0; i < XWAY_DOORBELL_SLOTS; i++)
		end(A)->arena.bell[i] = chan;
	*rested = false;
	while (time_before(jiffies, start + HZ / 4)) {
		WRITE_ONCE(liar->bell_prod, READ_ONCE(end(P)->bell.cons) +
					    XWAY_DOORBELL_SLOTS);
		look_once(P);
		*rested |= READ_ONCE(end(P)->bell.resting);
	}
	*took = jiffies - start;
	return end(P)->bell.cons - from;
}

/* Each 4 ms, or jiffy, has 2048 idle looks, and what is left of the last run's 512. */
static u32 most_idle(unsigned long took)
{
	return (took / max(HZ / 250, 1) + 2) * (2048 + 512);
}

static bool bell_without_end(void)
{
	u32 id = fake_client.chan[P].id, n[4];
	unsigned long took[4];
	bool rested;

	/* Nothing has that number. */
	look(P);
	n[0] = posted_without_end(1000, &took[0], &rested);
	/* A channel, whose words do not change */
	fake_client.bored = true;
	n[1] = posted_without_end(id, &took[1], &rested);
	/* The control bell, without a message */
	n[2] = posted_without_end(XWAY_POST_CTL, &took[2], &rested);
	EXPECT(n[0] >= 2048 && n[0] <= most_idle(took[0]));
	EXPECT(n[1] >= 2048 && n[1] <= most_idle(took[1]));
	EXPECT(n[2] >= 2048 && n[2] <= most_idle(took[2]));
	/* What is new is never held up. */
	fake_client.bored = false;
	look(P);
	n[3] = posted_without_end(id, &took[3], &rested);
	EXPECT(n[3] >= 2048 && !rested);
	EXPECT(!end(P)->broken);
	return true;
}

/* The transport hears whether an event was worth it. */
static bool bell_idle(void)
{
	u32 id = fake_client.chan[P].id, last, i;
	int *seen = xway_fake.seen;
	unsigned long took;
	bool rested;

	begin_bells(0);
	seen[0] = 0;
	seen[1] = 0;
	look_once(P);
	EXPECT(seen[0] == 1 && !seen[1]);
	last = UNPOSTED;
	bell(1000, &last);
	look_once(P);
	EXPECT(seen[0] == 2 && !seen[1]);
	last = UNPOSTED;
	bell(id, &last);
	look_once(P);
	EXPECT(seen[0] == 2 && seen[1] == 1);
	fake_client.bored = true;
	last = UNPOSTED;
	bell(id, &last);
	look_once(P);
	EXPECT(seen[0] == 3 && seen[1] == 1);
	/* One beat, but no second one at once */
	end(P)->bell.ctl_seen = end(A)->arena.hdr->ctl_prod;
	end(P)->bell.beat_at = jiffies - HZ;
	for (i = 0; i < 2; i++) {
		last = end(A)->bell.prod - XWAY_DOORBELL_SLOTS - 1;
		bell(XWAY_POST_CTL, &last);
		look_once(P);
		EXPECT(seen[0] == 3 + i && seen[1] == 2);
	}
	/* While the doorbell rests no event is allowed, afterwards it is. */
	posted_without_end(1000, &took, &rested);
	look(P);
	seen[0] = 0;
	seen[1] = 0;
	end(P)->bell.resting = true;
	look_once(P);
	EXPECT(!seen[0] && !seen[1]);
	mod_delayed_work(xway_core_wq, &end(P)->bell.later, 0);
	flush_delayed_work(&end(P)->bell.later);
	look_once(P);
	EXPECT(seen[0] && !seen[1]);
	return true;
}

/* An overflow has all channels looked at: not for each, and not all at once. */
static bool bell_overflows(void)
{
	struct xway_header *liar = end(A)->arena.hdr;
	struct doorbell *bell = &end(P)->bell;
	unsigned long start;
	int events, i, found;
	bool ended[2];

	look(P);
	fake_client.events[P] = 0;
	start = jiffies;
	for (i = 0; i < 1000; i++) {
		WRITE_ONCE(liar->bell_overflow, liar->bell_overflow + 1);
		look_once(P);
	}
	events = fake_client.events[P];
	EXPECT(events && events <= 1 + (int)(jiffies - start));
	/* The last one counts nevertheless, with no further event. */
	for (i = 0; i < 100 && READ_ONCE(bell->overflow_seen) != liar->bell_overflow; i++)
		msleep(20);
	EXPECT(bell->overflow_seen == liar->bell_overflow);

	/* Many channels, with something new in one of them, or in none: all are looked at. */
	look(P);
	for (i = 1000; i < 4000; i++)
		if (xa_err(xa_store(&end(P)->chans, i, xa_mk_value(0), GFP_KERNEL)))
			break;
	start = jiffies;
	while (!time_after(jiffies, start))
		cpu_relax();
	for (found = 1; found >= 0; found--) {
		fake_client.bored = !found;
		WRITE_ONCE(liar->bell_overflow, liar->bell_overflow + 1);
		look(P);
		msleep(20);
		look(P);
		ended[found] = !bell->scanning && bell->overflow_seen == liar->bell_overflow;
	}
	for (i--; i >= 1000; i--)
		xa_erase(&end(P)->chans, i);
	EXPECT(ended[0] && ended[1]);
	return true;
}

const struct xway_test doorbell_tests[] = {
	{ "bells", bells, CHANNEL },
	{ "bell_idle", bell_idle, CHANNEL },
	{ "bell_without_end", bell_without_end, CHANNEL },
	{ "bell_overflows", bell_overflows, CHANNEL },
	{ "bell_lies", bell_lies, UP },
	{}
};
