// SPDX-License-Identifier: GPL-2.0
/*
 * Readers of a socket inside the kernel. Those that call back as TCP's own sockets do
 * (CIFS, ksmbd, NBD, 9P) read as a program does. Others put a callback of their own into
 * the socket. Most of them take packets from TCP's queue, past our calls. But SunRPC,
 * which is NFS at both ends, only wants to know when to call sock_recvmsg(): its
 * callbacks are known here by name, since its module exports nothing that tells.
 *
 * TCP calls back with the socket locked. Such a reader relies on that: once it has put
 * the old callbacks back, under the lock, its data may go.
 */
#include <linux/kernel.h>
#include <linux/string.h>
#include <net/tcp.h>

#include "conn.h"
#include "proto.h"
#include "reader.h"

static const char *const callbacks[] = {
	"svc_data_ready",		/* the NFS server's */
	"svc_tcp_listen_data_ready",	/* what its sockets have until they are accepted */
	"xs_data_ready",		/* the NFS client's */
};

static bool reads_by_calls(void (*callback)(struct sock *sk))
{
	char name[64];
	int i;

	if (callback == xway_base_data_ready)
		return true;
	/* Behind the name may come that of the module. */
	scnprintf(name, sizeof(name), "%ps", callback);
	name[strcspn(name, " ")] = '\0';
	for (i = 0; i < ARRAY_SIZE(callbacks); i++)
		if (!strcmp(name, callbacks[i]))
			return true;
	return false;
}

/**
 * xway_reader_fits() - does whoever reads a socket do so by our calls?
 * @sk: the socket
 *
 * Context: any.
 * Return: false if it may take packets from TCP's queue.
 */
bool xway_reader_fits(const struct sock *sk)
{
	return reads_by_calls(READ_ONCE(sk->sk_data_ready));
}

/**
 * xway_reader_changed() - a socket's callback is not the one that its connection knows
 * @conn: its connection
 * @sk: the socket, locked
 *
 * While a user takes its callbacks back it has the socket locked. If @conn learned of that
 * before the end, xway_conn_wake() would call those that are left without the lock.
 *
 * Context: any.
 * Return: true if its new user reads past our calls. Otherwise @conn knows it now.
 */
bool xway_reader_changed(struct xway_conn *conn, const struct sock *sk)
{
	void (*callback)(struct sock *sk) = READ_ONCE(sk->sk_data_ready);

	if (!reads_by_calls(callback))
		return true;
	WRITE_ONCE(conn->data_ready, callback);
	return false;
}

static void call_back(struct sock *sk, bool readable)
{
	if (readable)
		sk->sk_data_ready(sk);
	if (sk->sk_socket && test_bit(SOCK_NOSPACE, &sk->sk_socket->flags))
		sk->sk_write_space(sk);
}

/**
 * xway_reader_call() - call back for what there is to read, and for room to send
 * @conn: connection
 * @sk: its socket, locked
 *
 * Context: softirqs are off.
 */
void xway_reader_call(struct xway_conn *conn, struct sock *sk)
{
	call_back(sk, xway_rx_readable(conn, sk, true));
}

/**
 * xway_reader_tell() - xway_reader_call(), now or when the socket is released
 * @conn: connection
 * @sk: its socket, on which the caller has a reference; its spinlock is not held
 *
 * Context: process or softirq.
 */
void xway_reader_tell(struct xway_conn *conn, struct sock *sk)
{
	local_bh_disable();
	bh_lock_sock(sk);
	/* Once it is detached, xway_reader_to_tcp() has told it. */
	if (conn->sk == sk && sock_owned_by_user(sk))
		set_bit(XWAY_F_TELL, &conn->flags);	/* for xway_release_cb() */
	else if (conn->sk == sk)
		xway_reader_call(conn, sk);
	bh_unlock_sock(sk);
	local_bh_enable();
}

/**
 * xway_reader_to_tcp() - tell a reader inside the kernel that TCP has the stream
 * @sk: its socket, locked
 *
 * Programs that sleep are woken by others.
 *
 * Context: process or softirq.
 */
void xway_reader_to_tcp(struct sock *sk)
{
	if (xway_proto_untouched(sk))
		return;
	local_bh_disable();
	call_back(sk, !skb_queue_empty(&sk->sk_receive_queue));
	local_bh_enable();
}
