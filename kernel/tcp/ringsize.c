// SPDX-License-Identifier: GPL-2.0
/*
 * Sizes: how much of a link's memory a connection may use.
 *
 * The n-th ring on a link gets the n-th part of what large rings may have, so there
 * is something left for many; up to MANY have what so many have room for, and more
 * the smallest. One that both ends wait for is given up for a larger one, when the
 * others are gone. And however large its ring is, a sender that finds it full goes on
 * only up to the part that it would get among those that are full now: a process that
 * may write a quarter of a megabyte before it must wait would leave little of the
 * processor to those with small rings.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/jiffies.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/moduleparam.h>

#include "client.h"
#include "conn.h"
#include "ringsize.h"

static unsigned int ring_kib = 1024;
module_param(ring_kib, uint, 0444);
MODULE_PARM_DESC(ring_kib, "size of a ring in KiB while there are few");

static unsigned int ring_kib_min = 16;
module_param(ring_kib_min, uint, 0444);
MODULE_PARM_DESC(ring_kib_min, "size of a ring in KiB when there are many, or pages are scarce");

/* Connections that have more than the smallest ring */
#define MANY 512

/* So long is a sender that filled its ring one of those that share */
#define PERIOD HZ

/* So long is a ring kept, and there must be room for one so many times larger, before
 * it is given up for that: until the new one is there, TCP carries the bytes. Each time
 * it is twice as long.
 */
#define SETTLE (10 * HZ)
#define LARGER 4
#define DOUBLINGS 5

/* Pages of the smallest ring */
u32 xway_ringsize_min(void)
{
	return min(ring_kib, ring_kib_min) * 1024 / PAGE_SIZE;
}

/* A power of two of at most @pages, but @least, and no more than ring_kib */
static u32 size_of(u32 pages, u32 least)
{
	return clamp_t(u32, pages ? rounddown_pow_of_two(pages) : 1, least,
		       ring_kib * 1024 / PAGE_SIZE);
}

/* Pages for each of MANY, which two thirds of an arena hold */
static u32 share_of_many(void)
{
	return size_of(xway_link_pages_max() * 2 / 3 / MANY, xway_ringsize_min());
}

/* Pages for each of @n, a power of two */
static u32 share(u32 n)
{
	return size_of(xway_link_pages_max() / 12 / max(n, 1u),
		       n <= MANY ? share_of_many() : xway_ringsize_min());
}

/**
 * xway_ringsize_next() - pages of one more ring
 * @link: the link
 */
u32 xway_ringsize_next(const struct xway_link *link)
{
	lockdep_assert_held(&link->lock);
	return min(share(link->n_chans + 1),
		   xway_reclaim_pressed(link) ? share_of_many() : U32_MAX);
}

/**
 * xway_ringsize_keep() - pages that an arena must keep for smaller rings
 * @pages: of the ring that is to be made
 */
u32 xway_ringsize_keep(u32 pages)
{
	return xway_link_pages_max() / (pages > share_of_many() ? 3 : 12);
}

/**
 * xway_ringsize_window() - bytes that may be in a connection's ring
 * @conn: connection with a channel
 *
 * Return: at most the size of its ring.
 */
u32 xway_ringsize_window(const struct xway_conn *conn)
{
	const struct xway_fill *fill = &conn->tl->fill;

	if (jiffies / PERIOD - READ_ONCE(fill->period) > 1)
		return conn->tx.size;
	return min(conn->tx.size, READ_ONCE(fill->window));
}

/**
 * xway_ringsize_full() - a sender has filled more than half of what it may
 * @conn: its connection
 *
 * Context: process or softirq. It may be counted twice if several ask at once.
 */
void xway_ringsize_full(struct xway_conn *conn)
{
	struct xway_link *link = conn->chan.link;
	struct xway_fill *fill = &conn->tl->fill;
	unsigned long period = jiffies / PERIOD;
	u32 n;

	if (READ_ONCE(conn->tx.full_in) == period)
		return;
	WRITE_ONCE(conn->tx.full_in, period);
	spin_lock_bh(&fill->lock);
	/* Who looked at the clock early and comes late is counted as well. */
	if ((long)(period - fill->period) > 0) {
		fill->before = fill->period + 1 == period ? fill->now : 0;
		fill->now = 0;
		WRITE_ONCE(fill->period, period);
	}
	fill->now++;
	/* Some of those may be closed by now. */
	n = min(max(fill->now, fill->before), READ_ONCE(link->n_chans));
	WRITE_ONCE(fill->window, share(n) * (u32)PAGE_SIZE);
	spin_unlock_bh(&fill->lock);
	/* Its reader waits as well, now and then: a larger ring would do both good. */
	if (time_after(jiffies, READ_ONCE(conn->grow_at)) &&
	    time_before(jiffies, READ_ONCE(conn->tx.empty_at) + 2 * PERIOD) &&
	    !test_and_set_bit(XWAY_F_GROW, &conn->flags))
		xway_conn_queue(conn);
}

/* A connection has got a ring: it stays for a while. */
void xway_ringsize_settle(struct xway_conn *conn)
{
	WRITE_ONCE(conn->grow_at, jiffies + (SETTLE << conn->grown) / 2);
}

/**
 * xway_ringsize_grows() - shall a connection give up its ring for a larger one?
 * @conn: connection that finds it full, and whose reader finds it empty
 *
 * Not if others have only just ended: there must be room twice in a row. By its
 * helper alone.
 */
bool xway_ringsize_grows(struct xway_conn *conn)
{
	struct xway_link *link = conn->chan.link;
	bool had = conn->grows;
	u32 pages;

	mutex_lock(&link->lock);
	/* Two may have asked at once. */
	if (time_before(jiffies, conn->grow_at)) {
		mutex_unlock(&link->lock);
		return false;
	}
	xway_ringsize_settle(conn);
	pages = share(link->n_chans);
	conn->grows = conn->state == XWAY_CONN_OPEN &&
		      link->state == XWAY_LINK_UP && !xway_reclaim_pressed(link) &&
		      pages >= LARGER * conn->chan.ring_pages &&
		      xway_rx_empty(conn) &&	/* or that were to be read first */
		      xway_link_roomy(link, pages, xway_ringsize_keep(pages));
	mutex_unlock(&link->lock);
	return had && conn->grows;
}

/* The connection that takes the place of one which has given up its ring */
void xway_ringsize_renew(struct xway_conn *fresh, const struct xway_conn *conn)
{
	fresh->grown = min(conn->grown + (conn->reason == XWAY_R_GROW),
			   DOUBLINGS);
}

static bool kib_ok(const char *name, unsigned int kib)
{
	if (is_power_of_2(kib) && kib >= PAGE_SIZE / 1024 &&
	    kib <= XWAY_RING_PAGES_MAX * (PAGE_SIZE / 1024))
		return true;
	pr_err("%s=%u: must be a power of two from %lu to %lu\n", name, kib,
	       PAGE_SIZE / 1024, XWAY_RING_PAGES_MAX * (PAGE_SIZE / 1024));
	return false;
}

int __init xway_ringsize_init(void)
{
	if (!kib_ok("ring_kib", ring_kib) ||
	    !kib_ok("ring_kib_min", ring_kib_min))
		return -EINVAL;
	return 0;
}
