// SPDX-License-Identifier: GPL-2.0
/*
 * Keepalive: keeps the companion known on the path. The companion is the TCP
 * connection beneath a channel.
 *
 * TCP is silent while the ring carries the bytes. A firewall on the path may
 * forget such a connection though it is in use. So the active end has TCP send
 * an ACK if the ring was used since the last look. A connection that nobody
 * uses stays as silent as it would be without a channel.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <net/tcp.h>

#include "keepalive.h"
#include "compat.h"
#include "conn.h"

/*
 * Below the 60 s after which Linux's conntrack forgets a connection in
 * CLOSE_WAIT
 */
static unsigned int keepalive_ack_s = 30;
module_param(keepalive_ack_s, uint, 0444);
MODULE_PARM_DESC(keepalive_ack_s, "seconds that TCP may be silent beside a ring in use; 0: for ever");

static void keepalives_look(struct work_struct *work);
static DECLARE_DELAYED_WORK(look, keepalives_look);

static void look_after(unsigned int seconds)
{
	if (seconds)
		schedule_delayed_work(&look, round_jiffies_relative(seconds * HZ));
}

/* Return: false if the socket's user is inside a call: look again soon. */
static bool keepalive_ack(struct xway_conn *conn)
{
	const int open = TCPF_ESTABLISHED | TCPF_FIN_WAIT2 | TCPF_CLOSE_WAIT;
	struct sock *sk = xway_conn_hold_sk(conn);
	bool owned;

	if (!sk)
		return true;
	/* The user may wait for a page for ever, so do not wait for the user. */
	local_bh_disable();
	bh_lock_sock(sk);
	owned = sock_owned_by_user(sk);
	if (!owned && conn->sk == sk && ((1 << sk->sk_state) & open) &&
	    !tcp_sk(sk)->repair) {
		xway_tcp_send_ack(sk);
		xway_count(KEEPALIVE_ACKS);
	}
	bh_unlock_sock(sk);
	local_bh_enable();
	sock_put(sk);
	return !owned;
}

/*
 * Look at a connection that a walk of xway_conns has reached. The walk's RCU
 * section may be left and entered again. Return: as keepalive_ack().
 */
static bool keepalive_look(struct xway_conn *conn)
	__must_hold(RCU)
{
	u64 bytes = READ_ONCE(conn->tx.ring_bytes) +
		    READ_ONCE(conn->rx.ring_bytes);
	bool ret;

	if (!conn->active || bytes == conn->keepalive_bytes ||
	    !xway_conn_stop(conn))
		return true;
	ret = keepalive_ack(conn);
	if (ret)
		conn->keepalive_bytes = bytes;
	xway_conn_continue(conn);
	return ret;
}

static void keepalives_look(struct work_struct *work)
{
	struct xway_conn *conn;
	bool again = false;

	rcu_read_lock();
	list_for_each_entry_rcu(conn, &xway_conns, all)
		again |= !keepalive_look(conn);
	rcu_read_unlock();
	look_after(again ? 1 : keepalive_ack_s);
}

/**
 * xway_keepalive_init() - check the module's parameter and begin to look
 *
 * Return: 0 or -EINVAL.
 */
int __init xway_keepalive_init(void)
{
	if (keepalive_ack_s > 86400) {
		pr_err("keepalive_ack_s=%u: must be a number from 0 to 86400\n",
		       keepalive_ack_s);
		return -EINVAL;
	}
	look_after(keepalive_ack_s);
	return 0;
}

/**
 * xway_keepalive_exit() - send no more ACKs
 */
void xway_keepalive_exit(void)
{
	cancel_delayed_work_sync(&look);
}
