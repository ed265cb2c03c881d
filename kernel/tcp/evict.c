// SPDX-License-Identifier: GPL-2.0
/*
 * Idle connections: when pages are scarce, who uses its ring gets that of who
 * does not; and when the kernel's memory is, those who have long been idle give
 * theirs.
 *
 * A connection that gives its ring back is brought back to TCP, but its socket
 * stays held, by a fresh connection: once it is used again, it asks for a new
 * channel. So rings go round, and there may be far more connections than rings.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/jiffies.h>
#include <linux/moduleparam.h>
#include <linux/workqueue.h>

#include "client.h"
#include "conn.h"
#include "evict.h"

static unsigned int idle_ms = 1000;
module_param(idle_ms, uint, 0444);
MODULE_PARM_DESC(idle_ms, "milliseconds without a byte after which a ring may serve another connection");

/* Idle for so long, a connection may give its ring for the kernel's memory. */
#define LONG (30 * HZ)

/* A wish is repeated after idle_ms << 0, 1, 2, 3, 3 and so on */
#define POSTPONED_MAX 3

/* So many times idle_ms does a wish last that is not repeated */
#define WISH 4

static void evict_look(struct work_struct *work);
static DECLARE_DELAYED_WORK(look, evict_look);

static unsigned long idle(void)
{
	return msecs_to_jiffies(idle_ms);
}

static bool link_wants(const struct xway_tcp_link *tl)
{
	return atomic_read(&tl->rings_wanted) > 0 &&
	       time_before(jiffies, READ_ONCE(tl->rings_wanted_at) +
				    WISH * idle());
}

/* Return: has it a channel that carried nothing for so long? */
static bool conn_idle(struct xway_conn *conn, unsigned long time)
{
	u64 bytes = READ_ONCE(conn->tx.ring_bytes) +
		    READ_ONCE(conn->tx.tcp_bytes) +
		    READ_ONCE(conn->rx.ring_bytes) +
		    READ_ONCE(conn->rx.tcp_bytes);

	if (READ_ONCE(conn->state) != XWAY_CONN_OPEN)
		return false;
	/* If two look at once both see the same, or later ones. */
	if (bytes != READ_ONCE(conn->idle_bytes)) {
		WRITE_ONCE(conn->idle_bytes, bytes);
		WRITE_ONCE(conn->idle_since, jiffies);
		return false;
	}
	return !time_before(jiffies, READ_ONCE(conn->idle_since) + time);
}

/*
 * A connection of the list that is walked gives up its ring, with @press for the
 * kernel. In the walker's RCU section, which is left meanwhile. Return: does it?
 */
static bool conn_give(struct xway_conn *conn, bool press)
	__must_hold(RCU)
{
	struct xway_link *link = conn->chan.link;
	bool ret;

	if (!xway_conn_stop(conn))
		return false;
	ret = xway_conn_park(conn, XWAY_R_IDLE);
	if (ret && press) {
		mutex_lock(&link->lock);
		xway_reclaim_press(link);
		mutex_unlock(&link->lock);
	} else if (ret) {
		atomic_dec_if_positive(&conn->tl->rings_wanted);
	}
	xway_conn_walk(conn);
	return ret;
}

/* Pages stay in the arena of their link: what one wants only its own can give. */
static void evict_look(struct work_struct *work)
{
	struct xway_conn *conn;
	bool again = false;

	rcu_read_lock();
	list_for_each_entry_rcu(conn, &xway_conns, all) {
		if (!link_wants(conn->tl))
			continue;
		again = true;
		if (conn_idle(conn, idle()))
			conn_give(conn, false);
	}
	rcu_read_unlock();
	if (again)
		schedule_delayed_work(&look, idle());
}

/**
 * xway_evict_reclaim() - the kernel wants pages back
 * @wanted: connections that have long been idle give up so many; those are taken off
 *
 * A connection is known to be idle only if this is called often. May sleep. Return:
 * pages of idle connections that were left their rings.
 */
long xway_evict_reclaim(long *wanted)
{
	struct xway_conn *conn;
	long left = 0;

	rcu_read_lock();
	list_for_each_entry_rcu(conn, &xway_conns, all) {
		long pages = READ_ONCE(conn->chan.ring_pages);

		if (test_bit(XWAY_F_FALLBACK, &conn->flags) ||
		    !conn_idle(conn, LONG))
			continue;
		/* Unread bytes would be copied out: nothing is gained. */
		if (!xway_rx_empty(conn) || !xway_tx_empty(conn))
			continue;
		if (*wanted <= 0)
			left += pages;
		else if (conn_give(conn, true))
			*wanted -= pages;
	}
	rcu_read_unlock();
	return left;
}

/**
 * xway_evict_begin() - a connection has got a ring, or has just given it up
 * @conn: connection
 *
 * Either way it is left alone for idle_ms.
 */
void xway_evict_begin(struct xway_conn *conn)
{
	WRITE_ONCE(conn->idle_since, jiffies);
	WRITE_ONCE(conn->ask_at, jiffies + (conn->active ? idle() / 2 : idle()));
	WRITE_ONCE(conn->postponed, 1);
}

/* Was it postponed, and the time is not over? */
bool xway_evict_too_early(const struct xway_conn *conn)
{
	return READ_ONCE(conn->postponed) &&
	       time_before(jiffies, READ_ONCE(conn->ask_at));
}

/**
 * xway_evict_renew() - a connection takes the place of one that gave its ring up
 * @fresh: the new one
 * @conn: the old one
 *
 * One whose peer's ring was too much here asks as seldom as any.
 */
void xway_evict_renew(struct xway_conn *fresh, const struct xway_conn *conn)
{
	xway_evict_begin(fresh);
	if (conn->reason == XWAY_R_LIMIT)
		WRITE_ONCE(fresh->ask_at, jiffies + (idle() << POSTPONED_MAX));
}

/**
 * xway_evict_wish() - have an idle connection of a link give up its ring
 * @tl: the link, its lock held
 */
void xway_evict_wish(struct xway_tcp_link *tl)
{
	lockdep_assert_held(&tl->link->lock);
	if (!link_wants(tl))
		atomic_set(&tl->rings_wanted, 0);
	atomic_inc(&tl->rings_wanted);
	WRITE_ONCE(tl->rings_wanted_at, jiffies);
	schedule_delayed_work(&look, idle() / 2);
}

/**
 * xway_evict_postpone() - there is no room for a channel: ask again later
 * @conn: connection that has asked and got none, its link's lock held
 * @here: have idle connections of this link give up rings?
 *
 * Each time twice as late, up to eight times idle_ms. The active end, which is
 * asked, refuses for half as long: the two clocks need not agree.
 */
void xway_evict_postpone(struct xway_conn *conn, bool here)
{
	u8 n = conn->postponed;

	lockdep_assert_held(&conn->chan.link->lock);
	if (!n && here)
		atomic64_inc(&xway_reasons[XWAY_R_LIMIT]);
	WRITE_ONCE(conn->ask_at, jiffies + ((conn->active ? idle() / 2 : idle())
					    << n));
	WRITE_ONCE(conn->postponed, min(n + 1, POSTPONED_MAX));
	clear_bit(XWAY_F_ASKED, &conn->flags);
	if (here)
		xway_evict_wish(conn->tl);
}

int __init xway_evict_init(void)
{
	if (idle_ms >= 10 && idle_ms <= 86400000)
		return 0;
	pr_err("idle_ms=%u: must be a number from 10 to 86400000\n", idle_ms);
	return -EINVAL;
}

void xway_evict_exit(void)
{
	cancel_delayed_work_sync(&look);
}
