// SPDX-License-Identifier: GPL-2.0
/*
 * Timeouts: a connection ends with ETIMEDOUT if the peer's kernel is silent while
 * bytes in the own ring are unread.
 *
 * TCP ends a connection whose segments nobody acknowledges. It has none outstanding
 * while the ring carries the bytes. What acknowledges a ring is the peer's kernel, by
 * the link's heartbeat, and not the peer's program: a slow reader ends nothing. The
 * limits are TCP's own: TCP_USER_TIMEOUT, or else what net.ipv4.tcp_retries2 stands
 * for. A connection with nothing unread is left to TCP, which has its keepalive: TCP asks
 * nobody for a sign of life while it waits for an acknowledgment, and so it is here.
 */
#include <linux/log2.h>
#include <linux/workqueue.h>
#include <net/tcp.h>

#include "compat.h"
#include "conn.h"
#include "ipsec.h"
#include "timeout.h"

static void timeouts_look(struct work_struct *work);
static DECLARE_DELAYED_WORK(look, timeouts_look);

/*
 * Seconds that TCP would go on for if it got no acknowledgment. Without
 * TCP_USER_TIMEOUT they are those of tcp_model_timeout() in net/ipv4/tcp_timer.c.
 */
static unsigned int timeout_of(const struct sock *sk)
{
	unsigned int ms = READ_ONCE(inet_csk(sk)->icsk_user_timeout);
	unsigned int retries = READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_retries2);
	unsigned int longest = xway_rto_max(sk);
	unsigned int doublings = ilog2(longest / TCP_RTO_MIN);
	unsigned long limit;

	if (ms)
		return DIV_ROUND_UP(ms, MSEC_PER_SEC);
	limit = ((2UL << min(retries, doublings)) - 1) * TCP_RTO_MIN;
	if (retries > doublings)
		limit += (unsigned long)(retries - doublings) * longest;
	return DIV_ROUND_UP(limit, HZ);
}

/* Has the peer's program read since the last look? Then its kernel runs, whatever says else. */
static bool was_read(struct xway_conn *conn)
{
	const struct xway_words *peer = rcu_dereference(conn->chan.peer);
	u32 cons = peer ? READ_ONCE(peer->cons) : conn->silent_cons;
	bool ret = cons != conn->silent_cons;

	conn->silent_cons = cons;
	return ret;
}

/* Have bytes been put since the last look? */
static bool was_put(struct xway_conn *conn)
{
	u32 prod = READ_ONCE(conn->tx.prod);
	bool ret = prod != conn->silent_prod;

	conn->silent_prod = prod;
	return ret;
}

/*
 * Bytes are unread, and the peer's kernel is silent or has had no time to show that it is not.
 * To TCP, which has sent nothing, that is an idle connection whose probes nobody answers: see
 * tcp_keepalive_timer(), which does nothing either while a program has the socket.
 */
static void put_off_keepalive(struct xway_conn *conn)
{
	struct sock *sk = xway_conn_hold_sk(conn);
	struct tcp_sock *tp;

	if (!sk)
		return;
	tp = tcp_sk(sk);
	local_bh_disable();
	bh_lock_sock(sk);
	if (!sock_owned_by_user(sk) && conn->sk == sk && sock_flag(sk, SOCK_KEEPOPEN) &&
	    !tp->packets_out && tcp_write_queue_empty(sk)) {
		tp->rcv_tstamp = tcp_jiffies32;
		inet_csk(sk)->icsk_probes_out = 0;
	}
	bh_unlock_sock(sk);
	local_bh_enable();
	sock_put(sk);
}

/* The peer's kernel is silent, and bytes are unread: is it for too long? */
static bool timed_out(struct xway_conn *conn)
{
	struct sock *sk = xway_conn_hold_sk(conn);
	bool ret;

	if (!sk)
		return false;
	/* The first look may come right after the bytes. */
	WRITE_ONCE(conn->silent, conn->silent + 1);
	ret = READ_ONCE(sk->sk_state) != TCP_CLOSE &&
	      conn->silent > timeout_of(sk);
	sock_put(sk);
	return ret;
}

/*
 * Look at a connection that a walk of xway_conns has reached. The walk's RCU section
 * may be left and entered again.
 */
static void timeout_look(struct xway_conn *conn)
	__must_hold(RCU)
{
	bool put = was_put(conn), silent;

	if (was_read(conn) || xway_tx_empty(conn) || !xway_conn_stop(conn)) {
		WRITE_ONCE(conn->silent, 0);
		return;
	}
	silent = xway_link_silent(conn->chan.link);
	if (silent || put)
		put_off_keepalive(conn);
	if (!silent)
		WRITE_ONCE(conn->silent, 0);
	else if (timed_out(conn))
		xway_conn_time_out(conn);
	xway_conn_continue(conn);
}

static void timeouts_look(struct work_struct *work)
{
	struct xway_conn *conn;
	bool again = false;

	rcu_read_lock();
	list_for_each_entry_rcu(conn, &xway_conns, all) {
		if (READ_ONCE(conn->state) != XWAY_CONN_OPEN)
			continue;
		again = true;
		xway_ipsec_look(conn);
		timeout_look(conn);
	}
	rcu_read_unlock();
	if (again)
		xway_timeout_begin();
}

/**
 * xway_timeout_begin() - a connection has got a channel: look once a second
 *
 * The looks end when there is no channel any more. A channel that is made meanwhile
 * begins them again.
 *
 * Context: any.
 */
void xway_timeout_begin(void)
{
	schedule_delayed_work(&look, round_jiffies_relative(HZ));
}

/**
 * xway_timeout_exit() - look no more; there is no connection
 */
void xway_timeout_exit(void)
{
	cancel_delayed_work_sync(&look);
}
