/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of the core do with the two ends, and a client that opens a
 * channel between them.
 */
#ifndef _XWAY_CORE_ENDS_H
#define _XWAY_CORE_ENDS_H

#include "fake.h"
#include "test.h"

extern const struct xway_test addr_tests[];
extern const struct xway_test arena_tests[];
extern const struct xway_test import_tests[];
extern const struct xway_test link_tests[];
extern const struct xway_test chan_tests[];
extern const struct xway_test ctl_tests[];
extern const struct xway_test doorbell_tests[];
extern const struct xway_test reclaim_tests[];
extern const struct xway_test peer_tests[];
extern const struct xway_test client_tests[];

/* As far up as MADE and UP, and further */
enum {
	SERVED = ABOVE_UP,	/* the fake client is registered */
	CHANNEL,		/* and has a channel */
};

/**
 * struct fake_client - the fake client: what it was called for
 * @added: links it was shown
 * @deleted: links that ended
 * @up: sessions that began
 * @told: messages
 * @msg: the last of them
 * @of: the channel that named
 * @dishonest: what it says of messages
 * @events: by end
 * @chan: one channel's ends
 * @ring: the own ring of each
 * @peer_ring: as the end maps the other's
 */
struct fake_client {
	int added;
	int deleted;
	int up;
	int told;
	struct xway_ctl msg;
	struct xway_chan *of;
	bool dishonest;
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
bool fake_client_left(void);

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

/* The other end has offered its arena. */
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
	const void *addr;

	mutex_lock(&link->pub.lock);
	addr = xway_import_get(link, nr);
	mutex_unlock(&link->pub.lock);
	return addr;
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

#endif /* _XWAY_CORE_ENDS_H */
