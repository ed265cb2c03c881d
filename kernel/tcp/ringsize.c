// SPDX-License-Identifier: GPL-2.0
/*
 * Ring sizes: how much of a link's memory a connection may use.
 *
 * The n-th ring of a link gets the n-th part of a twelfth of what the arena may
 * have, so that pages are left for many rings. Up to RINGS_MANY rings get at least
 * what RINGS_MANY have room for. Rings beyond RINGS_MANY get the smallest size.
 *
 * A connection whose both ends wait for its ring gives it up for a larger one,
 * if there is room because other connections have ended.
 *
 * A sender that finds its ring full goes on only up to a window: the part that
 * a ring would get among the connections that are full now. Otherwise a process
 * that may write a large ring at once would leave little of the processor to
 * those with small rings.
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

/* Connections that get more than the smallest ring */
#define RINGS_MANY 512

/*
 * Jiffies of a period. A sender that has filled its ring counts as full in that
 * period and the next one.
 */
#define PERIOD HZ

/*
 * A ring is kept for at least GROW_AFTER jiffies. It is given up only for one that is
 * GROW_FACTOR times as large, because TCP carries the bytes until that is there.
 * GROW_AFTER doubles each time, up to GROW_AFTER_DOUBLINGS times.
 */
#define GROW_AFTER (10 * HZ)
#define GROW_FACTOR 4
#define GROW_AFTER_DOUBLINGS 5

/**
 * xway_ringsize_min() - pages of the smallest ring
 *
 * Context: any.
 * Return: pages, a power of two.
 */
u32 xway_ringsize_min(void)
{
	return min(ring_kib, ring_kib_min) * 1024 / PAGE_SIZE;
}

/*
 * A power of two of at most @pages, but at least @least, and no more than
 * ring_kib
 */
static u32 size_of(u32 pages, u32 least)
{
	return clamp_t(u32, pages ? rounddown_pow_of_two(pages) : 1, least,
		       ring_kib * 1024 / PAGE_SIZE);
}

/* Pages of each ring if RINGS_MANY rings share two thirds of an arena */
static u32 share_of_many(void)
{
	return size_of(xway_link_pages_max() * 2 / 3 / RINGS_MANY, xway_ringsize_min());
}

/* Pages of each ring if there are @n; a power of two */
static u32 share(u32 n)
{
	return size_of(xway_link_pages_max() / 12 / max(n, 1u),
		       n <= RINGS_MANY ? share_of_many() : xway_ringsize_min());
}

/**
 * xway_ringsize_next() - the size of one more ring
 * @link: the link, its lock held
 *
 * Context: process.
 * Return: pages, a power of two.
 */
u32 xway_ringsize_next(const struct xway_link *link)
{
	lockdep_assert_held(&link->lock);
	return min(share(link->n_chans + 1),
		   xway_reclaim_urgent(link) ? share_of_many() : U32_MAX);
}

/**
 * xway_ringsize_keep() - pages that an arena must keep free for smaller rings
 * @pages: pages of the ring that is to be made
 *
 * Context: any.
 * Return: pages.
 */
u32 xway_ringsize_keep(u32 pages)
{
	return xway_link_pages_max() / (pages > share_of_many() ? 3 : 12);
}

/**
 * xway_ringsize_window() - bytes that may be in a connection's ring now
 * @conn: connection with a channel
 *
 * Context: any.
 * Return: bytes, at most the size of its ring.
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
 * Two callers at once may count it twice.
 *
 * Context: process or softirq.
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
	/* A caller that read the clock before another began this period counts
	 * in it, too.
	 */
	if ((long)(period - fill->period) > 0) {
		fill->before = fill->period + 1 == period ? fill->now : 0;
		fill->now = 0;
		WRITE_ONCE(fill->period, period);
	}
	fill->now++;
	/* Some of those that were full may be closed by now. */
	n = min(max(fill->now, fill->before), READ_ONCE(link->n_chans));
	WRITE_ONCE(fill->window, share(n) * (u32)PAGE_SIZE);
	spin_unlock_bh(&fill->lock);
	/* Its reader waits now and then, too: a larger ring would help both. */
	if (time_after(jiffies, READ_ONCE(conn->grow_at)) &&
	    time_before(jiffies, READ_ONCE(conn->tx.empty_at) + 2 * PERIOD) &&
	    !test_and_set_bit(XWAY_F_GROW, &conn->flags))
		xway_conn_queue(conn);
}

/**
 * xway_ringsize_settle() - a connection has got a ring: keep it for a while
 * @conn: connection
 *
 * Context: any.
 */
void xway_ringsize_settle(struct xway_conn *conn)
{
	WRITE_ONCE(conn->grow_at, jiffies + (GROW_AFTER << conn->grown) / 2);
}

/**
 * xway_ringsize_grows() - shall a connection give up its ring for a larger one?
 * @conn: connection whose sender finds the ring full, and whose reader finds it
 *	empty
 *
 * There must be room twice in a row: others may have ended only for a moment.
 *
 * Context: the connection's helper, may sleep; takes the link's lock.
 * Return: true if it is to park, so that it gets a larger one.
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
		      link->state == XWAY_LINK_UP && !xway_reclaim_urgent(link) &&
		      pages >= GROW_FACTOR * conn->chan.ring_pages &&
		      xway_rx_empty(conn) &&	/* or bytes are to be read first */
		      xway_link_has_room(link, pages, xway_ringsize_keep(pages));
	mutex_unlock(&link->lock);
	return had && conn->grows;
}

/**
 * xway_ringsize_replace() - a fresh connection replaces one that has parked
 * @fresh: the fresh one
 * @conn: the parked one
 *
 * Context: any.
 */
void xway_ringsize_replace(struct xway_conn *fresh, const struct xway_conn *conn)
{
	fresh->grown = min(conn->grown + (conn->reason == XWAY_R_GROW),
			   GROW_AFTER_DOUBLINGS);
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

/**
 * xway_ringsize_init() - check the module's parameters
 *
 * Return: 0 or -EINVAL.
 */
int __init xway_ringsize_init(void)
{
	if (!kib_ok("ring_kib", ring_kib) ||
	    !kib_ok("ring_kib_min", ring_kib_min))
		return -EINVAL;
	return 0;
}
