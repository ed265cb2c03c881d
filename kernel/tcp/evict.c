// SPDX-License-Identifier: GPL-2.0
/*
 * Evict: takes rings from idle connections. When pages are scarce, a connection
 * that wants a ring gets the one of a connection that does not use its own.
 * When the kernel needs memory, connections that have long been idle give up
 * their rings.
 *
 * An evicted connection parks: it goes on by TCP and stays attached. A fresh
 * connection replaces it, and asks for a channel once it is used. So there may
 * be far more connections than rings.
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

/*
 * A connection that is idle for so many jiffies gives up its ring for the
 * kernel.
 */
#define IDLE_LONG (30 * HZ)

/* A connection asks again after idle_ms << 0, 1, 2, 3, 3 and so on. */
#define POSTPONED_MAX 3
/* ... or 4, 5, 6, 6 */
#define POSTPONED_LONG 6

/* A wish for a ring ends after so many times idle_ms if it is not repeated. */
#define WISH_PERIODS 4

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
				    WISH_PERIODS * idle());
}

/* Has the connection a channel that has carried nothing for @time jiffies? */
static bool conn_idle(struct xway_conn *conn, unsigned long time)
{
	u64 bytes = READ_ONCE(conn->tx.ring_bytes) +
		    READ_ONCE(conn->tx.tcp_bytes) +
		    READ_ONCE(conn->rx.ring_bytes) +
		    READ_ONCE(conn->rx.tcp_bytes);

	if (READ_ONCE(conn->state) != XWAY_CONN_OPEN)
		return false;
	/* Two callers at once store the same values, or later ones. */
	if (bytes != READ_ONCE(conn->idle_bytes)) {
		WRITE_ONCE(conn->idle_bytes, bytes);
		WRITE_ONCE(conn->idle_since, jiffies);
		return false;
	}
	return !time_before(jiffies, READ_ONCE(conn->idle_since) + time);
}

/*
 * Park a connection that a walk of xway_conns has reached, for the kernel if
 * @press. The walk's RCU section is left and entered again. Return: true if it
 * parks now.
 */
static bool conn_evict(struct xway_conn *conn, bool press)
	__must_hold(RCU)
{
	struct xway_link *link = conn->chan.link;
	bool ret;

	if (!xway_conn_stop(conn))
		return false;
	ret = xway_conn_park(conn, XWAY_R_IDLE);
	if (ret && press) {
		mutex_lock(&link->lock);
		xway_reclaim_now(link);
		mutex_unlock(&link->lock);
	} else if (ret) {
		atomic_dec_if_positive(&conn->tl->rings_wanted);
	}
	xway_conn_continue(conn);
	return ret;
}

/*
 * Pages stay in the arena of their link, so only connections of a link that
 * wants rings are evicted.
 */
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
			conn_evict(conn, false);
	}
	rcu_read_unlock();
	if (again)
		schedule_delayed_work(&look, idle());
}

/**
 * xway_evict_reclaim() - the kernel wants pages back
 * @wanted: pages that are wanted; lowered by those of connections that park now
 *
 * An idle connection is known only by earlier calls: this must be called often.
 *
 * Context: process, may sleep.
 * Return: pages of rings that idle connections still have.
 */
long xway_evict_reclaim(long *wanted)
{
	struct xway_conn *conn;
	long left = 0;

	rcu_read_lock();
	list_for_each_entry_rcu(conn, &xway_conns, all) {
		long pages = READ_ONCE(conn->chan.ring_pages);

		if (test_bit(XWAY_F_FALLBACK, &conn->flags) ||
		    !conn_idle(conn, IDLE_LONG))
			continue;
		/* Unread bytes would be spilled: nothing is gained. */
		if (!xway_rx_empty(conn) || !xway_tx_empty(conn))
			continue;
		if (*wanted <= 0)
			left += pages;
		else if (conn_evict(conn, true))
			*wanted -= pages;
	}
	rcu_read_unlock();
	return left;
}

/**
 * xway_evict_begin() - a connection has got a ring, or cannot have one for now
 * @conn: connection
 *
 * For about idle_ms a connection with a new ring is not evicted, and one without
 * gets no channel.
 *
 * Context: any.
 */
void xway_evict_begin(struct xway_conn *conn)
{
	WRITE_ONCE(conn->idle_since, jiffies);
	WRITE_ONCE(conn->ask_at, jiffies + (conn->active ? idle() / 2 : idle()));
	WRITE_ONCE(conn->postponed, 1);
}

/**
 * xway_evict_too_early() - must a connection do without a channel for now?
 * @conn: connection
 *
 * Context: any.
 * Return: true if it was postponed and the time is not over.
 */
bool xway_evict_too_early(const struct xway_conn *conn)
{
	return READ_ONCE(conn->postponed) &&
	       time_before(jiffies, READ_ONCE(conn->ask_at));
}

/**
 * xway_evict_replace() - a fresh connection replaces one that has parked
 * @fresh: the fresh one
 * @conn: the parked one
 *
 * If this end had no room for the peer's ring, the fresh one waits as long as
 * xway_evict_postpone() has any connection wait. If the ring was too small for what
 * the program leaves unread, it waits twice as long each time, up to that.
 *
 * Context: any.
 */
void xway_evict_replace(struct xway_conn *fresh, const struct xway_conn *conn)
{
	xway_evict_begin(fresh);
	if (conn->reason == XWAY_R_LIMIT || conn->reason == XWAY_R_MEMORY) {
		WRITE_ONCE(fresh->ask_at, jiffies + (idle() << POSTPONED_MAX));
		WRITE_ONCE(fresh->refused, 1);
	} else if (conn->reason == XWAY_R_STALLED && conn->stalls > 1) {
		WRITE_ONCE(fresh->ask_at, jiffies +
			   (idle() << min(conn->stalls - 1, POSTPONED_MAX)));
	}
}

/**
 * xway_evict_wish() - have an idle connection of a link give up its ring
 * @tl: what sockets keep for the link, its link's lock held
 *
 * Context: process.
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
 * @why: what is missing here: XWAY_R_LIMIT, and idle connections of this link are
 *	evicted; XWAY_R_MEMORY; XWAY_R_SERVICE: the peer has no module for sockets; or
 *	XWAY_R_NONE: the peer has said so
 *
 * The time is doubled with each call, up to eight times idle_ms, or to 64 times if the peer
 * has no module for sockets, which may last. The active end does not ask, but declines for
 * half that time. So the peers' clocks need not agree.
 *
 * Context: process.
 */
void xway_evict_postpone(struct xway_conn *conn, enum xway_reason why)
{
	u8 n = conn->postponed;

	lockdep_assert_held(&conn->chan.link->lock);
	if (!n && why != XWAY_R_NONE)
		atomic64_inc(&xway_reasons[why]);
	WRITE_ONCE(conn->ask_at, jiffies + ((conn->active ? idle() / 2 : idle())
					    << n));
	WRITE_ONCE(conn->postponed, min(n + 1, why == XWAY_R_SERVICE ? POSTPONED_LONG :
								       POSTPONED_MAX));
	clear_bit(XWAY_F_ASKED, &conn->flags);
	if (why == XWAY_R_LIMIT)
		xway_evict_wish(conn->tl);
}

/**
 * xway_evict_init() - check the module's parameter
 *
 * Return: 0 or -EINVAL.
 */
int __init xway_evict_init(void)
{
	if (idle_ms >= 10 && idle_ms <= 86400000)
		return 0;
	pr_err("idle_ms=%u: must be a number from 10 to 86400000\n", idle_ms);
	return -EINVAL;
}

/**
 * xway_evict_exit() - look for idle connections no more
 */
void xway_evict_exit(void)
{
	cancel_delayed_work_sync(&look);
}
