// SPDX-License-Identifier: GPL-2.0
/* Tests of the doorbell */
#include "core/stats.h"
#include "ends.h"

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

const struct xway_test doorbell_tests[] = {
	{ "bells", bells, CHANNEL },
	{ "bell_lies", bell_lies, UP },
	{}
};
