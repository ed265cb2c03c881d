// SPDX-License-Identifier: GPL-2.0
/* Tests of the size of rings */
#include <linux/jiffies.h>

#include "tcp/client.h"
#include "tcp/ringsize.h"
#include "ends.h"

static u32 ring_of_next(u32 chans)
{
	u32 had = end(P)->pub.n_chans, pages;

	mutex_lock(&end(P)->pub.lock);
	end(P)->pub.n_chans = chans;
	pages = xway_ringsize_next(&end(P)->pub);
	end(P)->pub.n_chans = had;
	mutex_unlock(&end(P)->pub.lock);
	return pages;
}

static bool size_of_many(void)
{
	EXPECT(ring_of_next(0) == 256 && ring_of_next(3) == 256);
	EXPECT(ring_of_next(4) == 128 && ring_of_next(8) == 64);
	EXPECT(ring_of_next(16) == 32 && ring_of_next(31) == 32);
	EXPECT(ring_of_next(32) == 16 && ring_of_next(511) == 16);
	EXPECT(ring_of_next(512) == 4);
	EXPECT(ring_of_next(XWAY_CHANS_MAX) == 4);
	return true;
}

static bool grows_among(u32 chans)
{
	u32 had = end(P)->pub.n_chans;
	bool ret;

	end(P)->pub.n_chans = chans;
	conn[P]->grow_at = jiffies;
	ret = xway_ringsize_grows(conn[P]);
	end(P)->pub.n_chans = had;
	return ret;
}

/* A small ring is given up when there was room for a larger one twice in a row. */
static bool size_grows(void)
{
	u32 had = conn[P]->chan.ring_pages;
	bool first, second, crowd, again, large;

	conn[P]->chan.ring_pages = 16;
	first = grows_among(8);
	second = grows_among(8);
	crowd = grows_among(30);	/* 32 pages are not worth it */
	again = grows_among(8);
	conn[P]->chan.ring_pages = had;
	large = grows_among(1) || grows_among(1);
	EXPECT(!first && second && !crowd && !again && !large);
	return true;
}

/* So many connections filled theirs before, and now one more. */
static u32 window_after(u32 fillers, u32 chans)
{
	struct xway_fill *fill = &conn[P]->tl->fill;
	u32 had = end(P)->pub.n_chans;

	end(P)->pub.n_chans = chans;
	fill->now = fillers;
	/* The second may pass meanwhile: then they are those before. */
	fill->period = jiffies / HZ;
	conn[P]->tx.full_in = fill->period - 1;
	xway_ringsize_full(conn[P]);
	end(P)->pub.n_chans = had;
	return xway_ringsize_window(conn[P]);
}

/* Who has a large ring may fill what it would get now, no more. */
static bool size_of_window(void)
{
	struct xway_tx *tx = &conn[P]->tx;
	u32 size = tx->size;

	EXPECT(size == 256 * PAGE_SIZE && xway_ringsize_window(conn[P]) == size);
	EXPECT(window_after(0, 100) == size && window_after(3, 100) == size);
	EXPECT(window_after(5, 100) == size / 2);
	EXPECT(window_after(15, 100) == size / 4);
	EXPECT(window_after(90, 4) == size);
	EXPECT(window_after(10000, 20000) == 4 * PAGE_SIZE);
	/* Long ago */
	conn[P]->tl->fill.period -= 3;
	EXPECT(xway_ringsize_window(conn[P]) == size);
	/* More may be in it than it may fill by now. */
	tx->window = PAGE_SIZE;
	tx->prod = xway_own(conn[A])->cons + 2 * PAGE_SIZE;
	EXPECT(!room() && !writeable());
	xway_own(conn[A])->cons = tx->prod - PAGE_SIZE / 2;
	EXPECT(room() == PAGE_SIZE / 2);
	EXPECT(writeable() && !violated(P));
	return true;
}

const struct xway_test ringsize_tests[] = {
	{ "size_of_many", size_of_many, UP },
	{ "size_grows", size_grows, CHANNEL },
	{ "size_of_window", size_of_window, CHANNEL },
	{}
};
