// SPDX-License-Identifier: GPL-2.0
/*
 * The tables of calls of an attached socket, and the calls that end it.
 *
 * Each call takes a reference on the connection, and works on the ring or on
 * TCP, wherever the stream is. A call that finds the socket detached meanwhile
 * goes on in TCP. If it has moved no byte, it does so by restarting the system
 * call, so that it does not sleep in this module's text.
 */
#include <linux/compat.h>
#include <linux/delay.h>
#include <linux/net.h>
#include <linux/sched/signal.h>
#include <linux/splice.h>
#include <linux/unistd.h>
#include <linux/wait_bit.h>
#include <net/inet_common.h>
#include <net/tcp.h>
#include <net/transp_v6.h>
#include <asm/syscall.h>

#define _XWAY_PROTO_COMPAT
#include "compat.h"
#include "calls.h"
#include "handshake.h"
#include "conn.h"
#include "proto.h"
#include "attach.h"

#define STRAYS_NAMED (30 * HZ)	/* between two lines about calls that unloading waits for */

enum { V4, V6, FAMILIES };

static struct proto prots[FAMILIES];
static struct proto_ops ops[FAMILIES];
static const struct proto_ops *base_ops[FAMILIES];
void (*xway_base_data_ready)(struct sock *sk) __ro_after_init;	/* a new socket's */

/*
 * Calls that entered through our tables after the socket was detached. They
 * have no connection that keeps the module, so xway_proto_exit() waits for
 * them.
 */
static atomic_t strays = ATOMIC_INIT(0);

/**
 * xway_stray_enter() - a call without a connection begins
 *
 * Context: any.
 */
void xway_stray_enter(void)
{
	atomic_inc(&strays);
}

/**
 * xway_stray_leave() - a call without a connection ends
 *
 * Context: any.
 */
void xway_stray_leave(void)
{
	if (atomic_dec_and_test(&strays))
		wake_up_var(&strays);
}

/**
 * xway_base_of() - TCP's own struct proto for a socket
 * @sk: the socket
 *
 * Context: any.
 * Return: tcp_prot or tcpv6_prot.
 */
struct proto *xway_base_of(const struct sock *sk)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6)
		return &tcpv6_prot;
#endif
	return &tcp_prot;
}

static int family_of(const struct sock *sk)
{
	return sk->sk_family == AF_INET6 ? V6 : V4;
}

/**
 * xway_base_ops() - TCP's own struct proto_ops for a socket
 * @sk: the socket
 *
 * Context: any.
 * Return: the table of its family.
 */
const struct proto_ops *xway_base_ops(const struct sock *sk)
{
	return base_ops[family_of(sk)];
}

/**
 * xway_proto_is_base() - is a table TCP's own?
 * @prot: sk_prot of a socket
 *
 * Context: any.
 * Return: true for tcp_prot and tcpv6_prot.
 */
bool xway_proto_is_base(const struct proto *prot)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (prot == &tcpv6_prot)
		return true;
#endif
	return prot == &tcp_prot;
}

/**
 * xway_proto_of() - our struct proto for a socket
 * @sk: the socket
 *
 * Context: any.
 * Return: the table of its family.
 */
struct proto *xway_proto_of(const struct sock *sk)
{
	return &prots[family_of(sk)];
}

/**
 * xway_proto_set_ops() - put our struct proto_ops in the place of TCP's
 * @sk: a socket with a struct socket, locked
 *
 * Does nothing if sock->ops is another table than the one we copied.
 *
 * Context: any.
 */
void xway_proto_set_ops(struct sock *sk)
{
	int f = family_of(sk);
	struct socket *sock = sk->sk_socket;

	if (READ_ONCE(sock->ops) == base_ops[f])
		WRITE_ONCE(sock->ops, &ops[f]);
}

/**
 * xway_proto_has_ops() - has a socket our struct proto_ops?
 * @sk: a socket with a struct socket, locked
 *
 * Context: any.
 * Return: true if xway_proto_set_ops() has put it there.
 */
bool xway_proto_has_ops(const struct sock *sk)
{
	return READ_ONCE(sk->sk_socket->ops) == &ops[family_of(sk)];
}

/**
 * xway_proto_has_base_ops() - has a socket the table that xway_proto_set_ops() replaces?
 * @sk: a socket with a struct socket, locked
 *
 * Context: any.
 * Return: false if it is ours, or MPTCP's, for example.
 */
bool xway_proto_has_base_ops(const struct sock *sk)
{
	return READ_ONCE(sk->sk_socket->ops) == base_ops[family_of(sk)];
}

/**
 * xway_proto_untouched() - has nobody but programs taken an interest in a socket?
 * @sk: a socket, locked
 *
 * Context: any.
 * Return: true if it has the callback that it was made with.
 */
bool xway_proto_untouched(const struct sock *sk)
{
	return READ_ONCE(sk->sk_data_ready) == xway_base_data_ready;
}

/**
 * xway_proto_restore() - put TCP's tables back
 * @sk: a socket, locked
 * @base: the struct proto that it had before ours
 *
 * A user inside the kernel may have put his own tables over ours, as OVPN over TCP
 * does, and put ours back one day without a word. So his stay, and so does this module.
 * Calls by our tables then find no connection.
 *
 * Context: any.
 */
void xway_proto_restore(struct sock *sk, struct proto *base)
{
	struct proto *prot = READ_ONCE(sk->sk_prot);
	struct socket *sock = sk->sk_socket;
	int f = family_of(sk);

	if (prot == xway_proto_of(sk))
		WRITE_ONCE(sk->sk_prot, base);
	else if (prot != base && !xway_proto_is_base(prot))
		__module_get(THIS_MODULE);
	if (sock && READ_ONCE(sock->ops) == &ops[f])
		WRITE_ONCE(sock->ops, base_ops[f]);
}

/* Others have left something to do for whoever had the socket's lock. */
static void released(struct xway_conn *conn, struct sock *sk)
{
	if (test_and_clear_bit(XWAY_F_TELL, &conn->flags))
		xway_reader_call(conn, sk);
	if (test_and_clear_bit(XWAY_F_LATER, &conn->flags))
		xway_conn_queue(conn);
}

/*
 * release_sock() of an attached socket calls this. accept() releases the child
 * after it has grafted the struct socket, before there is a descriptor: no call
 * can have loaded sock->ops yet.
 *
 * Whoever asks for O_ASYNC or attaches a filter releases the socket, too, and so
 * do most users inside the kernel that take a socket over. Nobody else tells us
 * of them, and perhaps no event is asked for that would.
 */
static void xway_release_cb(struct sock *sk)
{
	struct xway_conn *conn;

	if (sk->sk_socket)
		xway_proto_set_ops(sk);
	rcu_read_lock();
	conn = xway_attached_rcu(sk);
	if (conn && unlikely(conn->accepting) && sk->sk_socket) {
		xway_attach_accepted(conn, sk);
		conn = xway_attached_rcu(sk);
	}
	if (conn) {
		if (unlikely(xway_conn_taken(conn, sk)))
			xway_conn_fallback(conn, XWAY_R_KERNEL);
		if (unlikely(rcu_access_pointer(sk->sk_filter)))
			xway_conn_fallback(conn, XWAY_R_FILTER);
		if (unlikely(sock_flag(sk, SOCK_FASYNC)))
			xway_rx_arm_next(conn);
		if (unlikely(READ_ONCE(conn->flags) & (BIT(XWAY_F_TELL) | BIT(XWAY_F_LATER))))
			released(conn, sk);
	}
	rcu_read_unlock();
	xway_base_of(sk)->release_cb(sk);
}

/**
 * xway_restart() - restart the system call, now that the socket is TCP's own
 * @sk: the socket
 *
 * io_uring, threads of the kernel and AIO cannot restart it. Neither can
 * recvmmsg(), which keeps the error of a later message for the next call. A socket of
 * the kernel's may be used in a system call that is about something else.
 *
 * Context: process.
 * Return: true if the caller is to return -ERESTARTSYS.
 */
bool xway_restart(const struct sock *sk)
{
	int nr;

	if (sk->sk_kern_sock || (current->flags & (PF_KTHREAD | PF_IO_WORKER)) ||
	    in_compat_syscall())
		return false;
	nr = syscall_get_nr(current, current_pt_regs());
	if (nr == __NR_io_submit || nr == __NR_recvmmsg)
		return false;
	set_thread_flag(TIF_NOTIFY_SIGNAL);
	return true;
}

/*
 * Tell the peer that bytes find no reader from now on. @why: XWAY_F_CLOSED or
 * SHUT
 */
static void rx_refuse(struct xway_conn *conn, int why)
{
	set_bit(why, &conn->flags);
	/* Pairs with flag_open(): one of the two sees the other. */
	smp_mb__after_atomic();
	rcu_read_lock();
	/* Its barrier pairs with xway_tx_publish() at the peer. */
	if (rcu_access_pointer(conn->chan.peer))
		xway_words_flag(conn, XWAY_WORDS_NO_READER);
	rcu_read_unlock();
}

/* Nobody reads here any more. rx.lock is held. Return: are there unread bytes? */
static bool rx_leave(struct xway_conn *conn)
{
	rx_refuse(conn, XWAY_F_CLOSED);
	xway_rx_update(conn);
	xway_rx_avail(conn);
	return conn->rx.prod != conn->rx.cons;
}

/*
 * TCP's FIN must follow all bytes. After a cut some may have to go by TCP first. They
 * wait for memory only, or for a peer that was stopped in the middle of its cut. The
 * socket is locked, and so is rx.lock. Return: false if they could not be sent.
 */
static bool tx_leave(struct xway_conn *conn, struct sock *sk)
{
	int i;

	for (i = 0; !xway_tx_may_fin(conn, sk); i++) {
		if (i == 50 || test_bit(XWAY_F_BAD, &conn->flags) || xway_tx_cut_late(conn))
			return false;
		msleep(20);
	}
	return true;
}

static void xway_close(struct sock *sk, long timeout)
{
	struct xway_conn *conn = xway_attached(sk);

	if (!conn) {
		xway_stray_enter();
		xway_base_of(sk)->close(sk, timeout);
		xway_stray_leave();
		return;
	}
	mutex_lock(&conn->rx.lock);
	lock_sock(sk);
	while (conn->sk != sk && xway_attached_rcu(sk)) {
		release_sock(sk);
		mutex_unlock(&conn->rx.lock);
		conn = xway_attached_again(conn, sk);
		mutex_lock(&conn->rx.lock);
		lock_sock(sk);
	}
	if (conn->sk == sk) {
		if (rx_leave(conn) || !tx_leave(conn, sk)) {
			/* As __tcp_close() does for unread bytes: reset. So the
			 * peer does not take what it got for all.
			 */
			sock_set_flag(sk, SOCK_LINGER);
			sk->sk_lingertime = 0;
		}
		xway_count(CLOSED);
		xway_detach(conn, sk);
	}
	release_sock(sk);
	mutex_unlock(&conn->rx.lock);
	conn->base_prot->close(sk, timeout);
	xway_conn_put(conn);
}

/*
 * The socket is locked. TCP answers what comes after both directions are shut
 * with a reset. So the peer must send by TCP by the time it can see the FIN.
 */
static void xway_shutdown(struct sock *sk, int how)
{
	struct xway_conn *conn = xway_attached_rcu(sk);

	if (conn && sk->sk_shutdown == SHUTDOWN_MASK)
		rx_refuse(conn, XWAY_F_SHUT);
	if (conn && (how & SEND_SHUTDOWN) && !xway_tx_may_fin(conn, sk)) {
		/* The helper sends FIN after what a cut has left. */
		conn->tx.fin = true;
		xway_conn_queue(conn);
		return;
	}
	xway_base_of(sk)->shutdown(sk, how);
}

/*
 * The connection is being reset. The lock is given up meanwhile; then the socket may have another
 * one. A child that nobody has accepted is disconnected by its listener's end, which may not sleep.
 */
static struct xway_conn *wait_for_abort(struct xway_conn *conn, struct sock *sk)
{
	while (conn && unlikely(test_bit(XWAY_F_ABORTING, &conn->flags)) && sk->sk_socket) {
		release_sock(sk);
		wait_on_bit(&conn->flags, XWAY_F_ABORTING, TASK_UNINTERRUPTIBLE);
		xway_conn_put(conn);
		lock_sock(sk);
		conn = xway_attached(sk);
	}
	return conn;
}

/**
 * xway_disconnect() - connect() to AF_UNSPEC: TCP resets the peer
 * @sk: a socket, locked by its owner
 * @flags: O_NONBLOCK, or 0
 *
 * Context: process, may sleep; softirq for a child that nobody has accepted.
 * Return: as TCP.
 */
int xway_disconnect(struct sock *sk, int flags)
{
	struct xway_conn *conn = wait_for_abort(xway_attached(sk), sk);
	int ret;

	if (!conn) {
		xway_stray_enter();
		ret = xway_base_of(sk)->disconnect(sk, flags);
		xway_stray_leave();
		return ret;
	}
	xway_detach(conn, sk);
	ret = conn->base_prot->disconnect(sk, flags);
	xway_conn_put(conn);
	return ret;
}

/* A child that nobody accepted. Context: softirq, or the listener's close. */
static void xway_destroy(struct sock *sk)
{
	struct xway_conn *conn = xway_attached(sk);

	if (conn)
		xway_detach(conn, sk);
	xway_base_of(sk)->destroy(sk);
	if (conn)
		xway_conn_put(conn);
}

static void proto_fill(int f, const struct proto *base)
{
	struct proto *p = &prots[f];

	*p = *base;
	p->close = xway_close;
	p->disconnect = xway_disconnect;
	p->destroy = xway_destroy;
	p->shutdown = xway_shutdown;
	p->ioctl = xway_ioctl;
	p->setsockopt = xway_setsockopt;
	p->getsockopt = xway_getsockopt;
	p->sendmsg = xway_sendmsg;
	xway_proto_recvmsg(p);
	p->release_cb = xway_release_cb;
	p->stream_memory_free = xway_stream_memory_free;
	p->sock_is_readable = xway_sock_is_readable;
	p->psock_update_sk_prot = NULL;
	xway_proto_compat(p);
}

static int ops_fill(int f, int family)
{
	struct socket *sock;
	int err;

	/* The IPv6 table is not exported, but a socket points to it. */
	err = sock_create_kern(&init_net, family, SOCK_STREAM, IPPROTO_TCP,
			       &sock);
	if (err)
		return err;
	base_ops[f] = sock->ops;
	xway_base_data_ready = sock->sk->sk_data_ready;
	sock_release(sock);
	ops[f] = *base_ops[f];
	xway_ops_compat(&ops[f]);
	ops[f].sendmsg = xway_sock_sendmsg;
	ops[f].mmap = xway_mmap;
	ops[f].peek_len = xway_peek_len;
	ops[f].read_sock = xway_read_sock;
	ops[f].read_skb = xway_read_skb;
	ops[f].set_rcvlowat = xway_set_rcvlowat;
	if (base_ops[f]->set_peek_off)
		ops[f].set_peek_off = xway_set_peek_off;
	return 0;
}

/**
 * xway_proto_init() - make our tables from TCP's
 *
 * Return: 0, or a negative errno if no socket can be made.
 */
int __init xway_proto_init(void)
{
	int err;

	proto_fill(V4, &tcp_prot);
	err = ops_fill(V4, PF_INET);
#if IS_ENABLED(CONFIG_IPV6)
	if (!err) {
		proto_fill(V6, &tcpv6_prot);
		err = ops_fill(V6, PF_INET6);
		/* Booted without IPv6: there will be no such socket. */
		if (err == -EAFNOSUPPORT)
			err = 0;
	}
#endif
	return err;
}

/**
 * xway_proto_exit() - wait for calls that are still in our tables
 *
 * No socket has our tables any more. A task may still be between loading a
 * table and entering a call, or between xway_stray_leave() and returning. It
 * does not sleep there.
 *
 * Context: process, may sleep.
 */
void xway_proto_exit(void)
{
	synchronize_rcu();
	synchronize_rcu_tasks();
	/* They end when their sockets do, or get bytes: rarely is there one at all. */
	while (!wait_var_event_timeout(&strays, !atomic_read(&strays), STRAYS_NAMED))
		pr_warn("unloading waits for %d calls that began as their sockets were given back to TCP\n",
			atomic_read(&strays));
	synchronize_rcu_tasks();
}
