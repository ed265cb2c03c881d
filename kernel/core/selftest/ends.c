// SPDX-License-Identifier: GPL-2.0
/*
 * The fake client: it counts the calls into it, and has one channel.
 */
#include "ends.h"

struct fake_client fake_client;
static bool registered;

static int add_link(struct xway_link *link)
{
	rcu_assign_pointer(link->data[XWAY_SERVICE_TEST], &fake_client);
	fake_client.added++;
	return 0;
}

static void up(struct xway_link *link)
{
	lockdep_assert_held(&link->lock);
	fake_client.up++;
}

static bool ctl(struct xway_link *link, struct xway_chan *chan,
		const struct xway_ctl *msg)
{
	lockdep_assert_held(&link->lock);
	fake_client.told++;
	fake_client.msg = *msg;
	fake_client.of = chan;
	return !fake_client.dishonest;
}

static bool event(struct xway_chan *chan)
{
	fake_client.events[chan == &fake_client.chan[A]]++;
	return !fake_client.bored;
}

static void drain(struct xway_link *link)
{
	fake_client.drained++;
}

static void end_channel(struct xway_link *link)
{
	int i;

	for (i = 0; i < 2; i++) {
		struct xway_chan *chan = &fake_client.chan[i];

		if (chan->link != link)
			continue;
		RCU_INIT_POINTER(chan->peer, NULL);
		synchronize_rcu();
		mutex_lock(&link->lock);
		xway_chan_unmap(chan);
		if (chan->ring_pages)
			xway_chan_destroy(chan);
		mutex_unlock(&link->lock);
	}
}

static void del_link(struct xway_link *link)
{
	if (fake_client.leaving)
		fake_client.leaving(link);
	end_channel(link);
	RCU_INIT_POINTER(link->data[XWAY_SERVICE_TEST], NULL);
	fake_client.deleted++;
}

static void abort_channel(struct xway_link *link, bool dead)
{
	end_channel(link);
}

const struct xway_client fake_client_ops = {
	.service = XWAY_SERVICE_TEST,
	.name = "selftest",
	.add_link = add_link,
	.del_link = del_link,
	.up = up,
	.ctl = ctl,
	.event = event,
	.drain = drain,
	.abort = abort_channel,
};

static int create(int which)
{
	struct xway_chan *chan = &fake_client.chan[which];
	int err;

	xway_chan_init(chan, &fake_client_ops, &end(which)->pub);
	mutex_lock(&chan->link->lock);
	err = xway_chan_create(chan, XWAY_RING_PAGES_MAX, fake_client.ring[which]);
	mutex_unlock(&chan->link->lock);
	return err;
}

static bool map_half(int which)
{
	struct xway_chan *chan = &fake_client.chan[which];
	struct xway_ctl msg = {};
	int err;

	xway_chan_describe(&fake_client.chan[!which], &msg);
	EXPECT(xway_chan_described(&msg));
	mutex_lock(&chan->link->lock);
	err = xway_chan_map(chan, &msg, fake_client.peer_ring[which]);
	mutex_unlock(&chan->link->lock);
	EXPECT(!err);
	return true;
}

int fake_client_register(void)
{
	int err = xway_client_register(&fake_client_ops);

	registered = registered || !err;
	return err;
}

bool fake_client_run(const struct xway_test *test)
{
	memset(&fake_client, 0, sizeof(fake_client));
	if (test->level >= SERVED)
		EXPECT(!fake_client_register());
	if (test->level >= CHANNEL) {
		EXPECT(!create(P) && !create(A));
		EXPECT(map_half(P) && map_half(A));
	}
	return test->run();
}

void fake_client_end(void)
{
	if (registered)
		xway_client_unregister(&fake_client_ops);
	registered = false;
}

bool fake_client_nothing_left(void)
{
	int i;

	for (i = 0; i < 2; i++)
		EXPECT(!end(i) || !rcu_access_pointer(end(i)->pub.data[XWAY_SERVICE_TEST]));
	return true;
}
