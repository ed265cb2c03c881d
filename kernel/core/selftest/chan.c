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

/* A message comes when it is due, and once. */
static bool chan_expects(void)
{
	static const struct {
		u32 said, got, then;
	} honest[] = {
		{ XWAY_CTL_OPEN, XWAY_CTL_DECLINE, 0 },
		{ XWAY_CTL_OPEN, XWAY_CTL_ACCEPT, XWAY_CTL_CLOSE },
		{ XWAY_CTL_ACCEPT, XWAY_CTL_CLOSE, 0 },
	};
	struct xway_ctl msg;
	u32 type, told;
	int i;

	for (type = XWAY_CTL_ACCEPT; type <= XWAY_CTL_CLOSE; type++)
		EXPECT(!given(P, type));
	for (i = 0; i < ARRAY_SIZE(honest); i++) {
		say(P, honest[i].said);
		EXPECT(take(P, &msg));
		told = fake_client.told;
		for (type = XWAY_CTL_ACCEPT; type <= XWAY_CTL_CLOSE; type++)
			if (honest[i].said == XWAY_CTL_OPEN ? type == XWAY_CTL_CLOSE :
							      type != XWAY_CTL_CLOSE)
				EXPECT(!given(P, type));
		EXPECT(fake_client.told == told && given(P, honest[i].got));
		EXPECT(fake_client.told == told + 1 && !given(P, honest[i].got));
		EXPECT(!honest[i].then || given(P, honest[i].then));
		EXPECT(!given(P, XWAY_CTL_CLOSE));
	}
	return true;
}

/* The same message ends the channel, but not by another link. */
static bool chan_of_another_link(void)
{
	struct xway_ctl msg = {
		.type = XWAY_CTL_CLOSE,
		.chan = fake_client.chan[P].id,
		.service = XWAY_SERVICE_TEST,
	};
	struct link *other = xway_fake_other(P);
	bool honest;

	EXPECT(other);
	fake_client.chan[P].expects = XWAY_CTL_CLOSE;
	mutex_lock(&other->pub.lock);
	honest = xway_ctl_handle(other, &msg);
	mutex_unlock(&other->pub.lock);
	xway_link_destroy(other);
	EXPECT(!honest && !fake_client.told);
	EXPECT(give(P, &msg) && fake_client.told == 1 && fake_client.of == &fake_client.chan[P]);
	return true;
}

/* Is there a tombstone, whose number and pages no other channel gets? */
static bool kept(struct xway_chan *was)
{
	static void *ring[XWAY_RING_PAGES_MAX];
	struct link *link = end(P);
	struct xway_chan other = {};
	bool apart;
	int err;

	EXPECT(link->pub.n_chans == 1 && link->arena.in_use == XWAY_RING_PAGES_MAX + 1);
	xway_chan_init(&other, &fake_client_ops, &link->pub);
	mutex_lock(&link->pub.lock);
	err = xway_chan_create(&other, XWAY_RING_PAGES_MAX, ring);
	apart = other.id != was->id && other.own != was->own &&
		other.ring_page != was->ring_page;
	if (!err)
		xway_chan_destroy(&other);
	mutex_unlock(&link->pub.lock);
	EXPECT(!err && apart);
	/* The peer may post it, or have all channels looked at; nobody is called. */
	rcu_read_lock();
	xway_chan_post(&fake_client.chan[A]);
	rcu_read_unlock();
	look(P);
	end(A)->arena.hdr->bell_overflow++;
	look(P);
	EXPECT(!fake_client.events[P]);
	return true;
}

/* Number, words and ring of a channel stay while a silent peer may use them. */
static bool chan_tombstone(void)
{
	struct xway_chan was = fake_client.chan[P];
	struct xway_ctl msg;

	/* The client does not wait for CLOSE. */
	say(P, XWAY_CTL_ACCEPT);
	EXPECT(take(P, &msg));
	destroy(P);
	EXPECT(kept(&was));
	EXPECT(!given(P, XWAY_CTL_ACCEPT) && !given(P, XWAY_CTL_DECLINE) && kept(&was));
	EXPECT(given(P, XWAY_CTL_CLOSE) && !fake_client.told);
	EXPECT(!end(P)->pub.n_chans && !end(P)->arena.in_use);
	EXPECT(!given(P, XWAY_CTL_CLOSE));
	return true;
}

/* The core answers ACCEPT for a client that did not wait for it. */
static bool chan_tombstone_asking(void)
{
	struct xway_chan was = fake_client.chan[P];
	struct xway_ctl msg;

	say(P, XWAY_CTL_OPEN);
	EXPECT(take(P, &msg));
	destroy(P);
	EXPECT(kept(&was) && !given(P, XWAY_CTL_CLOSE));
	EXPECT(given(P, XWAY_CTL_ACCEPT) && take(P, &msg));
	EXPECT(msg.type == XWAY_CTL_CLOSE && msg.chan == fake_client.chan[A].id);
	EXPECT(msg.service == XWAY_SERVICE_TEST);
	EXPECT(kept(&was) && !given(P, XWAY_CTL_ACCEPT) && !given(P, XWAY_CTL_DECLINE));
	/* The session ends, and the peer is late. */
	xway_link_drain(end(P));
	EXPECT(given(P, XWAY_CTL_CLOSE) && !fake_client.told);
	EXPECT(!end(P)->pub.n_chans && !end(P)->arena.in_use);
	return true;
}

/* A declined channel leaves nothing, and the end of the session leaves nothing of any. */
static bool chan_tombstone_ends(void)
{
	struct xway_ctl msg;

	say(P, XWAY_CTL_OPEN);
	EXPECT(take(P, &msg));
	destroy(P);
	EXPECT(end(P)->pub.n_chans == 1);
	EXPECT(given(P, XWAY_CTL_DECLINE) && !fake_client.told);
	EXPECT(!end(P)->pub.n_chans && !end(P)->arena.in_use);
	say(A, XWAY_CTL_OPEN);
	destroy(A);
	EXPECT(end(A)->pub.n_chans == 1);
	xway_link_down(end(A), true);
	EXPECT(!end(A)->pub.n_chans && !xway_arena_pages_in_use());
	EXPECT(!prepare(A) && xa_empty(&end(A)->chans));
	return true;
}

const struct xway_test chan_tests[] = {
	{ "chan_halves", chan_halves, CHANNEL },
	{ "chan_lies", chan_lies, CHANNEL },
	{ "chan_rings", chan_rings, CHANNEL },
	{ "chan_expects", chan_expects, CHANNEL },
	{ "chan_of_another_link", chan_of_another_link, CHANNEL },
	{ "chan_tombstone", chan_tombstone, CHANNEL },
	{ "chan_tombstone_asking", chan_tombstone_asking, CHANNEL },
	{ "chan_tombstone_ends", chan_tombstone_ends, CHANNEL },
	{}
};
