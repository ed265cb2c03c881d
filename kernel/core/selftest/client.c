// SPDX-License-Identifier: GPL-2.0
/* Tests of clients: who is called, and when */
#include <linux/delay.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "ends.h"

static bool client_registers(void)
{
	struct xway_client wrong = fake_client_ops;
	int i;

	wrong.service = XWAY_SERVICES;
	EXPECT(xway_client_register(&wrong) == -EINVAL);
	wrong.service = 0xffff;
	EXPECT(xway_client_register(&wrong) == -EINVAL);
	EXPECT(!fake_client.added);

	/* Both links are there, and both are up. */
	EXPECT(!fake_client_register());
	EXPECT(fake_client.added == 2 && fake_client.up == 2);
	EXPECT(fake_client_register() == -EBUSY);
	wrong.service = fake_client_ops.service;
	EXPECT(xway_client_register(&wrong) == -EBUSY);
	EXPECT(fake_client.added == 2 && fake_client.up == 2);
	for (i = 0; i < 2; i++) {
		EXPECT(rcu_access_pointer(end(i)->pub.data[XWAY_SERVICE_TEST]));
		mutex_lock(&end(i)->pub.lock);
		xway_client_up(end(i));
		mutex_unlock(&end(i)->pub.lock);
	}
	EXPECT(fake_client.up == 2 && !fake_client.deleted);

	fake_client_end();
	EXPECT(fake_client.deleted == 2 && fake_client_nothing_left());
	/* A client that registers again is told again. */
	EXPECT(!fake_client_register());
	EXPECT(fake_client.added == 4 && fake_client.up == 4);
	return true;
}

/* A client hears of each new link, of its end, and of each session. */
static bool client_of_links(void)
{
	struct link *other;
	int i;

	EXPECT(!fake_client_register());
	EXPECT(fake_client.added == 2 && !fake_client.up);
	for (i = 1; i < 4; i++) {
		EXPECT(xway_fake_up());
		EXPECT(fake_client.up == 2 * i);
		xway_link_down(end(A), true);
		xway_link_down(end(P), true);
	}
	EXPECT(fake_client.added == 2 && !fake_client.deleted);
	other = xway_fake_other(A);
	EXPECT(other && fake_client.added == 3);
	xway_link_destroy(other);
	EXPECT(fake_client.deleted == 1);
	return true;
}

/* A client that unregisters has the core keep what the peer may still use. */
static bool client_leaves(void)
{
	struct xway_ctl msg = {
		.type = XWAY_CTL_CLOSE,
		.chan = fake_client.chan[P].id,
		.service = XWAY_SERVICE_TEST,
	};

	fake_client.chan[P].expects = XWAY_CTL_CLOSE;
	fake_client_end();
	EXPECT(fake_client.deleted == 2 && fake_client_nothing_left());
	EXPECT(!end(A)->pub.n_chans && end(P)->pub.n_chans == 1);
	EXPECT(give(P, &msg) && !fake_client.told && !end(P)->pub.n_chans);
	return true;
}

static void go_down(struct work_struct *work)
{
	xway_link_down(end(P), true);
}

static DECLARE_WORK(going_down, go_down);
static bool stayed;

static void leave_slowly(struct xway_link *link)
{
	int i;

	if (link != &end(P)->pub)
		return;
	queue_work(xway_core_wq, &going_down);
	for (i = 0; i < 15 && READ_ONCE(link->state) != XWAY_LINK_DEAD; i++)
		msleep(20);
	stayed = link->state == XWAY_LINK_CLOSING && end(P)->import.hdr;
}

/* A link that goes down meanwhile waits until the client has ended its channel. */
static bool client_leaves_as_link_ends(void)
{
	stayed = false;
	fake_client.leaving = leave_slowly;
	fake_client_end();
	flush_work(&going_down);
	EXPECT(stayed && end(P)->pub.state == XWAY_LINK_DEAD && !end(P)->import.hdr);
	return true;
}

/* Two more clients. @has: pages that it can reclaim; @wanted: pages it was asked for */
static struct {
	long has;
	long wanted;
} giver[2];

static long reclaim(int which, long *wanted)
{
	long n = min(*wanted, giver[which].has);

	giver[which].wanted = *wanted;
	*wanted -= n;
	return giver[which].has - n;
}

static long reclaim_first(long *wanted)
{
	return reclaim(0, wanted);
}

static long reclaim_second(long *wanted)
{
	return reclaim(1, wanted);
}

static int add_link(struct xway_link *link)
{
	return 0;
}

static void del_link(struct xway_link *link)
{
}

/* The core calls no other function of a client without channels on a link that stays up. */
static const struct xway_client givers[2] = {
	{
		.service = 1,
		.add_link = add_link,
		.del_link = del_link,
		.reclaim = reclaim_first,
	}, {
		.service = 2,
		.add_link = add_link,
		.del_link = del_link,
		.reclaim = reclaim_second,
	},
};

/* The pages that one client does not reclaim are asked for at the next one. */
static bool client_reclaim(void)
{
	static const struct {
		long wanted;
		long of[2];
		long left;
	} cases[] = {
		{ 0, { 0, 0 }, 80 },
		{ 20, { 20, 0 }, 60 },
		{ 30, { 30, 0 }, 50 },
		{ 40, { 40, 10 }, 40 },
		{ 100, { 100, 70 }, 0 },
	};
	long left[ARRAY_SIZE(cases)], of[ARRAY_SIZE(cases)][2];
	int err[2], i;

	giver[0].has = 30;
	giver[1].has = 50;
	for (i = 0; i < 2; i++)
		err[i] = xway_client_register(&givers[i]);
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		left[i] = xway_client_reclaim(cases[i].wanted);
		of[i][0] = giver[0].wanted;
		of[i][1] = giver[1].wanted;
	}
	for (i = 0; i < 2; i++)
		if (!err[i])
			xway_client_unregister(&givers[i]);
	EXPECT(!err[0] && !err[1]);
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		EXPECT(left[i] == cases[i].left);
		EXPECT(of[i][0] == cases[i].of[0] && of[i][1] == cases[i].of[1]);
	}
	return true;
}

/* Each reason has a name of its own, and what is no reason is "other". */
static bool client_declines(void)
{
	u32 i, j;

	for (i = 1; i < XWAY_DECLINES; i++) {
		EXPECT(xway_decline_name(i));
		for (j = 0; j < i; j++)
			EXPECT(strcmp(xway_decline_name(i), xway_decline_name(j)));
	}
	EXPECT(!strcmp(xway_decline_name(XWAY_DECLINE_SERVICE), "no-service"));
	EXPECT(!strcmp(xway_decline_name(0), "other"));
	EXPECT(!strcmp(xway_decline_name(XWAY_DECLINES), "other"));
	EXPECT(!strcmp(xway_decline_name(U32_MAX), "other"));
	return true;
}

const struct xway_test client_tests[] = {
	{ "client_registers", client_registers, UP },
	{ "client_of_links", client_of_links, MADE },
	{ "client_leaves", client_leaves, CHANNEL },
	{ "client_leaves_as_link_ends", client_leaves_as_link_ends, CHANNEL },
	{ "client_reclaim", client_reclaim, SERVED },
	{ "client_declines", client_declines, MADE },
	{}
};
