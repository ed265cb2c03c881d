// SPDX-License-Identifier: GPL-2.0
/* Tests of channels */
#include <linux/string.h>

#include "ends.h"

/* Each end has mapped the words and the ring of the other, each page once. */
static bool chan_halves(void)
{
	int i, page;

	for (i = 0; i < 2; i++) {
		struct xway_chan *chan = &fake_client.chan[i];

		EXPECT(rcu_access_pointer(chan->peer) == fake_client.chan[!i].own);
		EXPECT(chan->peer_id == fake_client.chan[!i].id);
		EXPECT(!memchr_inv(chan->own, 0, XWAY_WORDS_SIZE));
		for (page = 0; page < XWAY_RING_PAGES_MAX; page++)
			EXPECT(fake_client.ring[i][page] ==
			       fake_client.peer_ring[!i][page]);
		EXPECT(end(i)->pub.n_chans == 1);
		EXPECT(end(i)->arena.in_use == XWAY_RING_PAGES_MAX + 1);
		/* The fixed pages and a directory are mapped, too. */
		EXPECT(end(i)->import.mapped ==
		       XWAY_RING_PAGES_MAX + 1 + XWAY_PAGES_FIXED + 1);
	}
	return true;
}

/* The peer describes a half that is not in its arena, or has no valid size. */
static bool chan_lies(void)
{
	static void *ring[XWAY_RING_PAGES_MAX];
	struct link *link = end(P);
	struct xway_chan chan = {};
	struct xway_ctl honest = {}, msg;
	bool unused;
	int i, err;

	xway_chan_init(&chan, &fake_client_ops, &link->pub);
	xway_chan_describe(&fake_client.chan[A], &honest);
	EXPECT(honest.from == fake_client.chan[A].id);
	for (i = 0; i < 10; i++) {
		msg = honest;
		switch (i) {
		case 0:
			msg.ring_pages = 0;
			break;
		case 1:
			msg.ring_pages = 3;
			break;
		case 2:
			msg.ring_pages = 2 * XWAY_RING_PAGES_MAX;
			break;
		case 3:
			msg.ring_page = XWAY_PAGES_FIXED - 1;
			break;
		case 4:
			msg.ring_page = ~0U;
			break;
		case 5:
			msg.ring_page = end(A)->arena.pages - 1;
			msg.ring_pages = 2;
			break;
		case 6:
			msg.words_page = XWAY_PAGES_FIXED - 1;
			break;
		case 7:
			msg.words_page = end(A)->arena.pages;
			break;
		case 8:
			msg.words_slot = XWAY_CHANS_PER_PAGE;
			break;
		case 9:
			msg.ring_page = XWAY_ARENA_PAGES_MAX;
			break;
		}
		mutex_lock(&link->pub.lock);
		err = xway_chan_described(&msg) ? xway_chan_map(&chan, &msg, ring) :
						  -EPROTO;
		mutex_unlock(&link->pub.lock);
		if (err != -EPROTO)
			pr_err("lie %d\n", i);
		EXPECT(err == -EPROTO);
		EXPECT(!rcu_access_pointer(chan.peer) && !chan.peer_ring_pages);
	}
	/* Lie 5: its first page was mapped, and is not in use. */
	mutex_lock(&link->pub.lock);
	unused = xway_import_unmap(link, end(A)->arena.pages - 1, 1);
	mutex_unlock(&link->pub.lock);
	EXPECT(unused);
	return true;
}

/* Two posts before the peer looks are one event. */
static bool chan_rings(void)
{
	int i;

	xway_fake.notified = 0;
	for (i = 1; i < 4; i++) {
		rcu_read_lock();
		xway_chan_post(&fake_client.chan[A]);
		xway_chan_post(&fake_client.chan[A]);
		rcu_read_unlock();
		look(P);
		EXPECT(fake_client.events[P] == i && xway_fake.notified == i);
	}
	EXPECT(!fake_client.events[A]);
	return true;
}

const struct xway_test chan_tests[] = {
	{ "chan_halves", chan_halves, CHANNEL },
	{ "chan_lies", chan_lies, CHANNEL },
	{ "chan_rings", chan_rings, CHANNEL },
	{}
};
