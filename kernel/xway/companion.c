// SPDX-License-Identifier: GPL-2.0
/*
 * The companion: the TCP connection beside a channel.
 *
 * While the ring carries the bytes, TCP is silent, and a firewall on the path
 * may forget a connection that is in full use. So where the ring was used since
 * we last looked, the active end has TCP send an acknowledgement. A connection
 * that nobody uses stays as silent as it would be without us.
 */
#include <linux/module.h>
#include <net/tcp.h>

#include "companion.h"
#include "compat.h"
#include "conn.h"

static unsigned int companion_ack_s = 60;
module_param(companion_ack_s, uint, 0444);
MODULE_PARM_DESC(companion_ack_s, "seconds that TCP may be silent beside a ring in use; 0: for ever");

static void companions_look(struct work_struct *work);
static DECLARE_DEFERRABLE_WORK(look, companions_look);

static void look_later(void)
{
	if (companion_ack_s)
		schedule_delayed_work(&look, min(companion_ack_s, 86400U) * HZ);
}

static void companions_look(struct work_struct *work)
{
	struct xway_conn *conn;

	rcu_read_lock();
	list_for_each_entry_rcu(conn, &xway_conns, all) {
		u64 bytes = READ_ONCE(conn->tx.ring_bytes) +
			    READ_ONCE(conn->rx.ring_bytes);

		if (!conn->active || bytes == conn->companion_bytes ||
		    !refcount_inc_not_zero(&conn->ref))
			continue;
		conn->companion_bytes = bytes;
		set_bit(XWAY_F_ACK, &conn->flags);
		/* Its user may keep the socket locked for long: not from here. */
		xway_conn_queue(conn);
		xway_conn_put(conn);
	}
	rcu_read_unlock();
	look_later();
}

/**
 * xway_companion_ack() - have TCP say that it is there
 * @conn: connection
 * @sk: its socket, not locked
 */
void xway_companion_ack(struct xway_conn *conn, struct sock *sk)
{
	lock_sock(sk);
	if (conn->sk == sk && sk->sk_state == TCP_ESTABLISHED) {
		xway_tcp_send_ack(sk);
		xway_count(COMPANION_ACKS);
	}
	release_sock(sk);
}

void __init xway_companion_init(void)
{
	look_later();
}

void xway_companion_exit(void)
{
	cancel_delayed_work_sync(&look);
}
