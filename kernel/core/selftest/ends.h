/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Short forms of calls into the two ends, for the tests of the core, and a fake client
 * that has a channel between them.
 */
#ifndef _XWAY_CORE_ENDS_H
#define _XWAY_CORE_ENDS_H

#include "fake.h"
#include "test.h"

extern const struct xway_test addr_tests[];
extern const struct xway_test value_tests[];
extern const struct xway_test arena_tests[];
extern const struct xway_test import_tests[];
extern const struct xway_test link_tests[];
extern const struct xway_test chan_tests[];
extern const struct xway_test ctl_tests[];
extern const struct xway_test doorbell_tests[];
extern const struct xway_test heartbeat_tests[];
extern const struct xway_test answer_tests[];
extern const struct xway_test reclaim_tests[];
extern const struct xway_test peer_tests[];
extern const struct xway_test client_tests[];

/* Levels of the core's tests above UP */
enum {
	SERVED = ABOVE_UP,	/* the fake client is registered */
	CHANNEL,		/* it has a channel, mapped at both ends */
};

/**
 * struct fake_client - a client that counts the calls into it, and its channel
 * @added: calls of @add_link
 * @deleted: calls of @del_link
 * @up: calls of @up
 * @drained: calls of @drain
 * @told: calls of @ctl
 * @msg: the message of the last one
 * @of: the channel of the last one
 * @dishonest: true if @ctl shall return false
 * @bored: true if @event shall find nothing new
 * @leaving: called by @del_link before it ends the channel, if not NULL
 * @events: calls of @event, by end
 * @chan: the channel, by end
 * @ring: the end's own ring
 * @peer_ring: the other end's ring, as this end has mapped it
 */
struct fake_client {
	int added;
	int deleted;
	int up;
	int drained;
	int told;
	struct xway_ctl msg;
	struct xway_chan *of;
	bool dishonest;
	bool bored;
	void (*leaving)(struct xway_link *link);
	int events[2];
	struct xway_chan chan[2];
	void *ring[2][XWAY_RING_PAGES_MAX];
	void *peer_ring[2][XWAY_RING_PAGES_MAX];
};

extern struct fake_client fake_client;
extern const struct xway_client fake_client_ops;

int fake_client_register(void);
bool fake_client_run(const struct xway_test *test);
void fake_client_end(void);
bool fake_client_nothing_left(void);

static inline int prepare(int which)
{
	struct link *link = end(which);
	int err;

	mutex_lock(&link->pub.lock);
	err = xway_link_prepare(link);
	mutex_unlock(&link->pub.lock);
	return err;
}

static inline int alloc(int which, u32 pages, u32 *first)
{
	struct link *link = end(which);
	int err;

	mutex_lock(&link->pub.lock);
	err = xway_arena_alloc(link, pages, first);
	mutex_unlock(&link->pub.lock);
	return err;
}

/* Have an end take the other's offer. */
static inline int map(int which)
{
	struct link *link = end(which), *of = end(!which);
	int err;

	mutex_lock(&link->pub.lock);
	err = xway_link_map(link, of->arena.slot[0].ref, of->pub.nonce);
	mutex_unlock(&link->pub.lock);
	return err;
}

static inline int open_import(int which, u64 nonce)
{
	struct link *link = end(which);
	int err;

	mutex_lock(&link->pub.lock);
	err = xway_import_open(link, end(!which)->arena.slot[0].ref, nonce);
	mutex_unlock(&link->pub.lock);
	return err;
}

static inline const void *get(int which, u32 nr)
{
	struct link *link = end(which);
	void *addr;
	int err;

	mutex_lock(&link->pub.lock);
	err = xway_import_get(link, nr, 1, &addr);
	mutex_unlock(&link->pub.lock);
	return err ? ERR_PTR(err) : addr;
}

static inline void put(int which, u32 nr)
{
	struct link *link = end(which);

	mutex_lock(&link->pub.lock);
	xway_import_put(link, nr, 1);
	mutex_unlock(&link->pub.lock);
}

static inline bool take(int from, struct xway_ctl *msg)
{
	return xway_fake_take(from, msg);
}

static inline bool give(int to, const struct xway_ctl *msg)
{
	return xway_fake_give(to, msg);
}

/* Have an end send OPEN or ACCEPT for its channel. */
static inline void say(int which, u32 type)
{
	struct xway_chan *chan = &fake_client.chan[which];
	struct xway_ctl msg = { .type = type, .chan = fake_client.chan[!which].id };

	mutex_lock(&chan->link->lock);
	xway_chan_describe(chan, &msg);
	xway_ctl_send(&fake_client_ops, chan->link, &msg);
	mutex_unlock(&chan->link->lock);
}

/* Have an end get a message for its channel. Return: false if it is taken for a lie. */
static inline bool given(int to, u32 type)
{
	struct xway_ctl msg = {
		.type = type,
		.chan = fake_client.chan[to].id,
		.from = fake_client.chan[!to].id,
		.service = XWAY_SERVICE_TEST,
	};

	return give(to, &msg);
}

/* Have the fake client end an end's channel. */
static inline void destroy(int which)
{
	struct xway_chan *chan = &fake_client.chan[which];

	RCU_INIT_POINTER(chan->peer, NULL);
	synchronize_rcu();
	mutex_lock(&chan->link->lock);
	xway_chan_unmap(chan);
	xway_chan_destroy(chan);
	mutex_unlock(&chan->link->lock);
}

#endif /* _XWAY_CORE_ENDS_H */
