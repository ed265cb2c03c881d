// SPDX-License-Identifier: GPL-2.0
/*
 * Adopt: attaches connections that are older than the session with their peer: than this
 * module, or the peer's, or than the word of domain 0. When a session begins, both ends
 * look for theirs.
 *
 * Somebody may be inside TCP's own calls of such a socket, and would read past the bytes
 * of a ring. So the connection is *unsettled* at first: attached, but there is no channel.
 * Whoever calls from now on comes by our tables. It is settled when nobody is left who
 * came by TCP's:
 *
 * - Who waits in TCP for bytes, for room, or for the socket's lock shows: stale().
 * - Who has loaded a function of TCP's and runs shows nowhere, but will have left, or
 *   waited, after a grace period of RCU-tasks. So one lies between two looks.
 * - Who was just woken to take the lock shows nowhere either, once: after that a call
 *   sleeps only where it shows. So there are three looks.
 *
 * One case is left: a splice() that has got bytes drops the lock for a moment in each turn.
 * Having bytes, it does not wait for more, and ends when TCP has none.
 *
 * A reader that waits in TCP leaves with the next bytes. Until then there is no ring,
 * though another task may send by the same socket.
 */
#include <linux/rcupdate.h>
#include <net/inet_hashtables.h>
#include <net/tcp.h>

#include "adopt.h"
#include "attach.h"
#include "conn.h"

#define SCAN_IN		(HZ / 5)	/* after a session has begun: the addresses are there */
#define SCANS		4		/* more of a session, each four times as late */
#define ASKED_AGAIN	(10 * HZ)	/* between two scans because of what a peer asks for */
#define SETTLE_IN	(HZ / 5)
#define LOOKS		3
#define BUCKET		32		/* sockets of a bucket of TCP's hash, at most */
#define OWNED_LOOKS	20		/* at a socket that somebody has, 20 to 100 us each */

static unsigned int scans_left;	/* racing sessions: one more or less does no harm */
static unsigned long missed_at;	/* as @scans_left */
static bool running;

static void scan_work(struct work_struct *work);
static void settle_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(scan, scan_work);
static DECLARE_DELAYED_WORK(settle, settle_work);

/* ---- finding them ---- */

/*
 * Hold those sockets of a bucket that may be adopted. @missed: set if one may be soon.
 * Return: how many.
 */
static int look(struct inet_hashinfo *info, unsigned int at, struct sock **found, bool *missed)
{
	spinlock_t *lock = inet_ehash_lockp(info, at);
	struct hlist_nulls_node *node;
	struct sock *sk;
	int n = 0;

	if (hlist_nulls_empty(&info->ehash[at].chain))
		return 0;
	spin_lock_bh(lock);
	sk_nulls_for_each(sk, node, &info->ehash[at].chain) {
		int state = READ_ONCE(sk->sk_state);

		if ((state != TCP_ESTABLISHED && state != TCP_SYN_SENT) ||
		    !xway_attach_candidate(sk))
			continue;
		if (state == TCP_SYN_SENT)	/* the probe saw it too late */
			*missed = true;
		else if (n < BUCKET && refcount_inc_not_zero(&sk->sk_refcnt))
			found[n++] = sk;
	}
	spin_unlock_bh(lock);
	return n;
}

/* Return: true if the socket may be adopted at another time. */
static bool adopt(struct sock *sk)
{
	bool again;

	local_bh_disable();
	bh_lock_sock(sk);
	again = sock_owned_by_user(sk) || xway_attach_adopt(sk);
	bh_unlock_sock(sk);
	local_bh_enable();
	return again;
}

/* Is a connection leaving for good? It may be adopted again when it has. */
static bool falling_back(void)
{
	struct xway_conn *conn;
	bool ret = false;

	rcu_read_lock();
	list_for_each_entry_rcu(conn, &xway_conns, all)
		ret |= (READ_ONCE(conn->flags) &
			(BIT(XWAY_F_FALLBACK) | BIT(XWAY_F_PARK) | BIT(XWAY_F_DETACHED))) ==
		       BIT(XWAY_F_FALLBACK);
	rcu_read_unlock();
	return ret;
}

static void scan_work(struct work_struct *work)
{
	/* Network namespaces that have a hash of their own are left alone. */
	struct inet_hashinfo *info = init_net.ipv4.tcp_death_row.hashinfo;
	struct sock *found[BUCKET];
	bool missed = false;
	unsigned int at;
	int n;

	for (at = 0; at <= info->ehash_mask && READ_ONCE(running); at++) {
		for (n = look(info, at, found, &missed); n; n--) {
			missed |= adopt(found[n - 1]);
			sock_put(found[n - 1]);
		}
		cond_resched();
	}
	missed |= falling_back();
	xway_adopt_settle();
	if (missed && scans_left && READ_ONCE(running))
		queue_delayed_work(xway_conn_wq, &scan,
				   HZ << 2 * (SCANS - scans_left--));
}

/**
 * xway_adopt_up() - a session has begun: adopt connections with its peer
 * @link: its link, or NULL
 *
 * Context: any.
 */
void xway_adopt_up(struct xway_link *link)
{
	scans_left = SCANS;
	/* Sooner than it is due, but never later: a peer can begin sessions without end. */
	if (READ_ONCE(running) && (!delayed_work_pending(&scan) ||
				   time_after(scan.timer.expires, jiffies + SCAN_IN)))
		mod_delayed_work(xway_conn_wq, &scan, SCAN_IN);
}

/**
 * xway_adopt_missed() - there may be a connection to adopt
 *
 * A peer asks for one that is not attached: it may have adopted its end where this end had
 * no reason to, as when the peer's module alone was loaded anew. Or there was no memory
 * when one began.
 *
 * Context: any.
 */
void xway_adopt_missed(void)
{
	unsigned long due = READ_ONCE(missed_at) + ASKED_AGAIN;

	if (!READ_ONCE(running))
		return;
	scans_left = scans_left ?: 1;
	if (time_before(due, jiffies + SCAN_IN))
		due = jiffies + SCAN_IN;
	/* A peer may ask without end. */
	if (queue_delayed_work(xway_conn_wq, &scan, due - jiffies))
		WRITE_ONCE(missed_at, due);
}

/* ---- settling them ---- */

/*
 * Does somebody inside TCP's own calls wait for bytes or for room? The socket is locked by
 * bh_lock_sock(), and nobody inside those calls owns it, so who waits has queued.
 * @known: how many of them may wait there
 */
static bool waits_in_tcp(const struct xway_conn *conn, struct sock *sk, int known)
{
	const struct wait_queue_entry *entry;
	/* Ours wait by xway_woken(), but where they have TCP send. */
	int others = -conn->tx.in_tcp - known;
	struct wait_queue_head *wait;
	unsigned long irqs;

	if (!sk->sk_socket || sk->sk_write_pending > conn->tx.in_tcp)
		return true;
	wait = sk_sleep(sk);
	spin_lock_irqsave(&wait->lock, irqs);
	list_for_each_entry(entry, &wait->head, entry)
		others += entry->func == woken_wake_function;
	spin_unlock_irqrestore(&wait->lock, irqs);
	return others > 0;
}

/* Is somebody inside TCP's own calls who waits? The socket is locked by bh_lock_sock(). */
static bool stale(const struct xway_conn *conn, struct sock *sk)
{
	/* Who queues there holds the spinlock that is held here. */
	return waitqueue_active(&sk->sk_lock.wq) || waits_in_tcp(conn, sk, 0);
}

/*
 * Look at the socket of an unsettled connection for the @nth time. Return: why it cannot
 * stay attached, or XWAY_R_NONE.
 */
static enum xway_reason look_inside(struct xway_conn *conn, struct sock *sk, int nth)
{
	enum xway_reason why = XWAY_R_NONE;

	local_bh_disable();
	bh_lock_sock(sk);
	if (conn->sk != sk || sock_owned_by_user(sk) || stale(conn, sk))
		conn->clear = 0;
	else if (nth == 1 || conn->clear == nth - 1)
		conn->clear = nth;
	if (conn->clear == LOOKS) {
		/* An option may have been set by a call that came by TCP's tables. */
		why = xway_attach_unfit(sk);
		clear_bit_unlock(XWAY_F_UNSETTLED, &conn->flags);
	}
	bh_unlock_sock(sk);
	local_bh_enable();
	return why;
}

/*
 * Look at a connection that a walk of xway_conns has reached. The walk's RCU section is
 * left and entered again. Return: true if nobody was there, nor at the looks before, and
 * there must be another look.
 */
static bool settle_one(struct xway_conn *conn, int nth)
	__must_hold(RCU)
{
	enum xway_reason why;
	struct sock *sk;
	bool ret;

	if (!xway_conn_stop(conn))
		return false;
	sk = xway_conn_hold_sk(conn);
	if (sk) {
		why = look_inside(conn, sk, nth);
		if (why != XWAY_R_NONE)
			xway_conn_fallback(conn, why);
		sock_put(sk);
	}
	ret = sk && conn->clear == nth && nth < LOOKS;
	xway_conn_continue(conn);
	return ret;
}

static bool settle_all(int nth)
{
	struct xway_conn *conn;
	bool some = false;

	rcu_read_lock();
	list_for_each_entry_rcu(conn, &xway_conns, all)
		if (test_bit(XWAY_F_UNSETTLED, &conn->flags))
			some |= settle_one(conn, nth);
	rcu_read_unlock();
	return some;
}

static void settle_work(struct work_struct *work)
{
	int nth;

	for (nth = 1; settle_all(nth); nth++)
		synchronize_rcu_tasks();
}

/**
 * xway_adopt_settle() - an unsettled connection is used: see whether it can be settled
 *
 * Context: any.
 */
void xway_adopt_settle(void)
{
	if (READ_ONCE(running))
		queue_delayed_work(xway_conn_wq, &settle, SETTLE_IN);
}

/*
 * See whether somebody waits in TCP's calls of a socket that connect() has attached, unless that
 * was seen before. connect() itself may, if it has not got the processor yet. Return: false while
 * somebody has the socket, or waits for it; @own: the caller has it.
 */
static bool look_connected(struct xway_conn *conn, struct sock *sk, bool own)
{
	bool busy = false;

	local_bh_disable();
	bh_lock_sock(sk);
	if (conn->sk == sk && test_bit(XWAY_F_CONNECTED, &conn->flags)) {
		/* Who queues there holds the spinlock that is held here. */
		busy = waitqueue_active(&sk->sk_lock.wq);
		busy |= !own && sock_owned_by_user(sk);
		if (busy) {
			set_bit(XWAY_F_LOOK, &conn->flags);
		} else {
			bool connecting = sk->sk_socket && sk->sk_socket->state == SS_CONNECTING;

			if (waits_in_tcp(conn, sk, connecting))
				set_bit(XWAY_F_UNSETTLED, &conn->flags);
			clear_bit(XWAY_F_LOOK, &conn->flags);
			/* Last: pairs with xway_adopt_unsettled(). */
			clear_bit_unlock(XWAY_F_CONNECTED, &conn->flags);
		}
	}
	bh_unlock_sock(sk);
	local_bh_enable();
	return !busy;
}

/**
 * xway_adopt_look() - see for the helper whether somebody waits in TCP's calls
 * @conn: connection whose helper has asked for it: XWAY_F_LOOK
 * @sk: its socket
 *
 * One long send() by TCP has the socket nearly all the time, where the peer reads as fast. The
 * helper would never find it free, and there would be no ring for that call.
 *
 * Context: process; the caller has the socket, and is not inside TCP's calls.
 */
void xway_adopt_look(struct xway_conn *conn, struct sock *sk)
{
	sock_owned_by_me(sk);
	look_connected(conn, sk, true);
}

/**
 * xway_adopt_unsettled() - may somebody be inside TCP's calls of a connection's socket?
 * @conn: connection whose active end this is, and whose peer asks for a channel
 *
 * Who has loaded a function of TCP's as connect() attaches the socket, and takes the lock
 * after that, waits there once the connection is established. attach() has counted those that
 * may. This finds who has no reference that it can count: a request of io_uring. Whoever gets
 * that far only now is missed, or was woken to take the lock and has not run yet. So is one, if
 * a connect() that was not to wait, or was interrupted, was never called again.
 *
 * Context: process, may sleep.
 * Return: true if so. It is settled, then the peer may ask again.
 */
bool xway_adopt_unsettled(struct xway_conn *conn)
{
	struct sock *sk = NULL;
	unsigned int i;
	bool busy = false;

	/* Before XWAY_F_UNSETTLED: pairs with look_connected(), which a sender may be in. */
	if (test_bit_acquire(XWAY_F_CONNECTED, &conn->flags))
		sk = xway_conn_hold_sk(conn);
	for (i = 0; sk && i < OWNED_LOOKS; i++) {
		busy = !look_connected(conn, sk, false);
		if (!busy)
			break;
		usleep_range(20, 100);
	}
	if (sk)
		sock_put(sk);
	if (!test_bit(XWAY_F_UNSETTLED, &conn->flags))
		return busy;
	xway_adopt_settle();
	return true;
}

/**
 * xway_adopt_init() - adopt connections from now on
 *
 * Context: process, at the end of what loads the module: nothing fails after it.
 */
void __init xway_adopt_init(void)
{
	missed_at = jiffies - ASKED_AGAIN;
	WRITE_ONCE(running, true);
	xway_adopt_up(NULL);
}

/**
 * xway_adopt_exit() - adopt no more
 *
 * Context: process, may sleep; no session begins any more.
 */
void xway_adopt_exit(void)
{
	WRITE_ONCE(running, false);
	cancel_delayed_work_sync(&scan);
	cancel_delayed_work_sync(&settle);
	/* What had looked at @running before that may have queued itself once more. */
	cancel_delayed_work_sync(&scan);
	cancel_delayed_work_sync(&settle);
}
