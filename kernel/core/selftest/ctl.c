// SPDX-License-Identifier: GPL-2.0
/* Tests of control messages and of their services */
#include "core/stats.h"
#include "ends.h"

/* With no room for its own messages a side still takes the other's. */
static bool ctl_both_full(void)
{
	struct xway_ctl msg = { .type = XWAY_CTL_OPEN, .from = 1 };
	u32 i;

	mutex_lock(&end(P)->pub.lock);
	for (i = 0; i < XWAY_CTLS + 1; i++)
		xway_ctl_put(end(P), &msg);
	mutex_unlock(&end(P)->pub.lock);
	EXPECT(end(P)->ctl.queued == 1);
	mutex_lock(&end(A)->pub.lock);
	for (i = 0; i < XWAY_CTLS + 1; i++)
		xway_ctl_put(end(A), &msg);
	mutex_unlock(&end(A)->pub.lock);
	EXPECT(end(A)->ctl.queued == 1);

	queue_work(xway_core_wq, &end(P)->work);
	flush_work(&end(P)->work);
	/* A declining answer to each */
	EXPECT(end(P)->ctl.cons == XWAY_CTLS && !end(P)->broken);
	EXPECT(end(P)->ctl.queued == XWAY_CTLS + 1);

	mutex_lock(&end(P)->pub.lock);
	end(P)->ctl.queued += 3 * XWAY_CHANS_MAX;
	xway_ctl_put(end(P), &msg);
	end(P)->ctl.queued -= 3 * XWAY_CHANS_MAX;
	mutex_unlock(&end(P)->pub.lock);
	EXPECT(end(P)->broken && end(P)->ctl.queued == XWAY_CTLS + 1);
	return true;
}

/* Have an end queue messages until it takes its peer for a liar. Return: how many. */
static u32 queued_until_broken(int which)
{
	struct xway_ctl msg = { .type = XWAY_CTL_OPEN, .from = 1 };
	u32 i;

	mutex_lock(&end(which)->pub.lock);
	for (i = 0; i < 1000 && !end(which)->broken; i++)
		xway_ctl_put(end(which), &msg);
	mutex_unlock(&end(which)->pub.lock);
	return end(which)->ctl.queued;
}

/* Nor do peers together have us keep more messages than a part of the memory has room for. */
static bool ctl_all_full(void)
{
	unsigned int most = xway_ctl_queued_max;
	u32 first, second, third;

	xway_ctl_queued_max = 400;
	first = queued_until_broken(P);
	/* The last eighth is for who has little. */
	second = queued_until_broken(A);
	mutex_lock(&end(P)->pub.lock);
	xway_ctl_forget(end(P));
	mutex_unlock(&end(P)->pub.lock);
	WRITE_ONCE(end(A)->broken, false);
	third = queued_until_broken(A);
	xway_ctl_queued_max = most;
	EXPECT(first == 350 && second == 33 && third == 350);
	EXPECT(xway_ctl_queued_max >= 4 * XWAY_CTLS);
	return true;
}

/* Messages that found no slot go out when the peer has taken others, not a jiffy later. */
static bool ctl_room(void)
{
	struct xway_ctl msg = { .type = XWAY_CTL_OPEN, .from = 1, .service = XWAY_SERVICE_TEST };
	u32 i;

	mutex_lock(&end(A)->pub.lock);
	for (i = 0; i < XWAY_CTLS + 8; i++)
		xway_ctl_put(end(A), &msg);
	mutex_unlock(&end(A)->pub.lock);
	cancel_delayed_work_sync(&end(A)->ctl.flush);
	EXPECT(end(A)->ctl.queued == 8 && !xway_ctl_has_room(end(A)));
	queue_work(xway_core_wq, &end(P)->work);
	flush_work(&end(P)->work);
	EXPECT(fake_client.told == XWAY_CTLS && xway_ctl_has_room(end(A)));
	tasklet_schedule(&end(A)->bell.task);
	tasklet_kill(&end(A)->bell.task);
	flush_work(&end(A)->work);
	EXPECT(!end(A)->ctl.queued && !xway_ctl_has_room(end(A)));
	return true;
}

/* The core declines OPEN for a service that has no client. */
static bool service_missing(void)
{
	static const u16 services[] = { XWAY_SERVICE_SOCKETS, 1, XWAY_SERVICES, 0xffff };
	struct xway_ctl msg = { .type = XWAY_CTL_OPEN, .from = 9 }, answer;
	int i;

	for (i = 0; i < ARRAY_SIZE(services); i++) {
		msg.service = services[i];
		EXPECT(give(A, &msg) && take(A, &answer));
		EXPECT(answer.type == XWAY_CTL_DECLINE && answer.chan == 9);
		EXPECT(answer.arg == XWAY_DECLINE_SERVICE);
		EXPECT(answer.service == services[i]);
	}
	EXPECT(!fake_client.told && !end(A)->pub.n_chans);
	msg.service = XWAY_SERVICE_TEST;
	EXPECT(give(A, &msg) && fake_client.told == 1 && !fake_client.of);
	EXPECT(end(A)->arena.hdr->ctl_prod == end(P)->ctl.cons);
	fake_client_end();
	EXPECT(give(A, &msg) && fake_client.told == 1 && take(A, &answer));
	EXPECT(answer.arg == XWAY_DECLINE_SERVICE);
	EXPECT(answer.service == XWAY_SERVICE_TEST);
	return true;
}

/* The service of a message is that of the channel that it names, or 0. */
static bool service_of_channel(void)
{
	static const u32 types[] = { XWAY_CTL_ACCEPT, XWAY_CTL_DECLINE, XWAY_CTL_CLOSE };
	struct xway_ctl msg = { .chan = fake_client.chan[P].id };
	int i;

	for (i = 0; i < ARRAY_SIZE(types); i++) {
		u16 *expects = &fake_client.chan[P].expects;
		u16 due = types[i] == XWAY_CTL_CLOSE ? XWAY_CTL_CLOSE : XWAY_CTL_ACCEPT;

		fake_client.of = NULL;
		msg.type = types[i];
		*expects = due;
		msg.service = XWAY_SERVICE_TEST - 1;
		EXPECT(!give(P, &msg));
		msg.service = 0xffff;
		EXPECT(!give(P, &msg) && fake_client.told == 2 * i);
		msg.service = 0;
		EXPECT(give(P, &msg) && fake_client.told == 2 * i + 1);
		EXPECT(fake_client.of == &fake_client.chan[P]);
		EXPECT(fake_client.msg.type == types[i]);
		*expects = due;
		msg.service = XWAY_SERVICE_TEST;
		EXPECT(give(P, &msg) && fake_client.told == 2 * i + 2);
	}
	fake_client.chan[P].expects = XWAY_CTL_CLOSE;
	fake_client.dishonest = true;
	EXPECT(!give(P, &msg) && fake_client.told == 2 * i + 1);
	return true;
}

/* A wrong service ends the session. Messages after it are not handled. */
static bool service_of_another(void)
{
	struct xway_ctl msg = {
		.type = XWAY_CTL_CLOSE,
		.chan = fake_client.chan[P].id,
		.service = XWAY_SERVICE_TEST,
	};
	u64 before = xway_core_counted(CORE_N_VIOLATIONS);

	fake_client.chan[P].expects = XWAY_CTL_CLOSE;
	mutex_lock(&end(A)->pub.lock);
	xway_ctl_put(end(A), &msg);
	msg.service--;
	xway_ctl_put(end(A), &msg);
	msg.service++;
	xway_ctl_put(end(A), &msg);
	mutex_unlock(&end(A)->pub.lock);
	queue_work(xway_core_wq, &end(P)->work);
	flush_workqueue(xway_core_wq);
	EXPECT(fake_client.told == 1 && end(P)->broken);
	EXPECT(xway_fake.lost);
	EXPECT(xway_core_counted(CORE_N_VIOLATIONS) == before + 1);
	return true;
}

/* The peer cannot have sent more than there are slots. */
static bool ctl_index_lies(void)
{
	u32 cons = end(P)->ctl.cons;

	WRITE_ONCE(end(A)->arena.hdr->ctl_prod, cons + XWAY_CTLS + 1);
	mutex_lock(&end(P)->pub.lock);
	xway_ctl_run(end(P));
	mutex_unlock(&end(P)->pub.lock);
	EXPECT(end(P)->broken && end(P)->ctl.cons == cons);
	return true;
}

static bool ctl_unknown(void)
{
	struct xway_ctl msg = { .type = XWAY_CTL_CLOSE };

	EXPECT(!give(P, &msg));
	msg.chan = ~0U;
	EXPECT(!give(P, &msg));
	msg.type = 0;
	EXPECT(!give(P, &msg));
	msg.type = XWAY_CTL_UNMAPPED + 1;
	EXPECT(!give(P, &msg));
	/* Nothing was withdrawn. */
	msg.type = XWAY_CTL_UNMAPPED;
	EXPECT(!give(P, &msg));
	/* Not when the session ends, either: see chan_tombstone_asking(). */
	xway_link_drain(end(P));
	msg.type = XWAY_CTL_CLOSE;
	EXPECT(!give(P, &msg) && !fake_client.told);
	return true;
}

const struct xway_test ctl_tests[] = {
	{ "ctl_both_full", ctl_both_full, UP },
	{ "ctl_all_full", ctl_all_full, UP },
	{ "ctl_room", ctl_room, SERVED },
	{ "ctl_index_lies", ctl_index_lies, UP },
	{ "ctl_unknown", ctl_unknown, SERVED },
	{ "service_missing", service_missing, SERVED },
	{ "service_of_channel", service_of_channel, CHANNEL },
	{ "service_of_another", service_of_another, CHANNEL },
	{}
};
