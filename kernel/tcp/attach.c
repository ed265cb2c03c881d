// SPDX-License-Identifier: GPL-2.0
/*
 * Attach: notices connections with a peer, attaches their sockets and detaches
 * them.
 *
 * A probe on the tracepoint sock:inet_sock_set_state runs with the socket
 * locked and before the new state is stored. It attaches a socket only when no
 * task can be inside TCP's own sendmsg or recvmsg of it:
 *
 * - At SYN_SENT a task can at most wait for the socket's lock. refusal() sees
 *   that.
 * - A child that has just been established has no struct socket, so no user.
 *
 * Connections that are older than that are adopted: see adopt.c.
 *
 * Only this file writes sk_prot and the ULP slot, icsk_ulp_ops and
 * icsk_ulp_data.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/fdtable.h>
#include <linux/tcp.h>
#include <linux/tracepoint.h>
#include <net/ipv6.h>
#include <net/tcp.h>

#include "compat.h"
#include "conn.h"
#include "exclude.h"
#include "ipsec.h"
#include "others.h"
#include "proto.h"
#include "adopt.h"
#include "attach.h"
#include "trace.h"

static bool attach_on = true;
static struct tracepoint *set_state_tp;

/**
 * xway_attach_is_on() - are new connections attached?
 *
 * Context: any.
 * Return: false after `xway off`.
 */
bool xway_attach_is_on(void)
{
	return READ_ONCE(attach_on);
}

static void ulp_release(struct sock *sk);

/*
 * Programs cannot ask for it by name, because it is not registered. It only
 * marks whose socket it is. It has no owner, because each connection holds a
 * reference on the module.
 */
struct tcp_ulp_ops xway_ulp = {
	.name = "xway",
	.release = ulp_release,
};

/**
 * xway_attached() - the connection of a socket, with a reference
 * @sk: a socket that is attached, or was a moment ago
 *
 * Context: any.
 * Return: the connection, or NULL if the socket is not attached.
 */
struct xway_conn *xway_attached(const struct sock *sk)
{
	struct xway_conn *conn;

	rcu_read_lock();
	/* A connection without references has left the slot: read it again. */
	do
		conn = xway_attached_rcu(sk);
	while (conn && !refcount_inc_not_zero(&conn->ref));
	rcu_read_unlock();
	return conn;
}

/**
 * xway_attached_again() - the connection that may have replaced a detached one
 * @conn: a detached connection of the socket, with the caller's reference
 * @sk: the socket
 *
 * A connection that has parked is replaced by a fresh one.
 *
 * Context: any but hard interrupt.
 * Return: the connection that the socket has now; the caller's reference is
 * moved to it. @conn if the socket is not attached any more.
 */
struct xway_conn *xway_attached_again(struct xway_conn *conn,
				      const struct sock *sk)
{
	struct xway_conn *fresh = xway_attached(sk);

	if (!fresh)
		return conn;
	xway_conn_put(conn);
	return fresh;
}

/* The far address. Return: its family; an IPv4-mapped address is AF_INET. */
static u16 remote(const struct sock *sk, __be32 *addr)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6 &&
	    !ipv6_addr_v4mapped(&sk->sk_v6_daddr)) {
		memcpy(addr, &sk->sk_v6_daddr, 16);
		return AF_INET6;
	}
#endif
	memset(addr, 0, 16);
	addr[0] = sk->sk_daddr;
	return AF_INET;
}

/* The near address. @family: as remote() returns it */
static void local(const struct sock *sk, u16 family, __be32 *addr)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (family == AF_INET6) {
		memcpy(addr, &sk->sk_v6_rcv_saddr, 16);
		return;
	}
#endif
	memset(addr, 0, 16);
	addr[0] = sk->sk_rcv_saddr;
}

/**
 * xway_attach_tuple() - name a connection as its active end does
 * @sk: its socket, locked, established
 * @active: is @sk the active end?
 * @tuple: the result, the same at both ends
 *
 * Context: any.
 */
void xway_attach_tuple(const struct sock *sk, bool active,
		       struct xway_tuple *tuple)
{
	__be16 own = inet_sk(sk)->inet_sport, other = inet_sk(sk)->inet_dport;

	memset(tuple, 0, sizeof(*tuple));
	tuple->family = remote(sk, active ? tuple->daddr : tuple->saddr);
	local(sk, tuple->family, active ? tuple->saddr : tuple->daddr);
	tuple->sport = active ? own : other;
	tuple->dport = active ? other : own;
}

/**
 * xway_attach_listed() - does the peer still have a connection's far address?
 * @conn: its connection
 * @sk: the socket
 *
 * Context: any.
 * Return: false if the address is another peer's by now, or nobody's.
 */
bool xway_attach_listed(const struct xway_conn *conn, const struct sock *sk)
{
	__be32 addr[4];
	u16 family = remote(sk, addr);
	bool ret;

	rcu_read_lock();
	ret = xway_addr_find(family, addr, conn->active) == conn->chan.link;
	rcu_read_unlock();
	return ret;
}

/*
 * The link of the peer that has a socket's far address, or NULL. @own: set to whether
 * the near address is this domain's. RCU read-side section.
 */
static struct xway_link *peer_link(const struct sock *sk, bool active, bool *own)
{
	__be32 far[4], near[4];
	u16 family = remote(sk, far);
	struct xway_link *link = xway_addr_find(family, far, active);

	if (link) {
		local(sk, family, near);
		*own = xway_addr_is_own(link, sock_net(sk), family, near);
	}
	return link;
}

/**
 * xway_attach_link() - the link by which a connection may go now
 * @sk: its socket, attached or locked
 * @active: is @sk the active end?
 *
 * Context: RCU read-side section. If the link comes to an end, it has its
 * connections leave after that section: see xway_link_is_up().
 * Return: the link of the peer that has the far address; NULL if it is not up, if
 * there is none, or if the near address is not this domain's.
 */
struct xway_link *xway_attach_link(const struct sock *sk, bool active)
{
	bool own;
	struct xway_link *link = peer_link(sk, active, &own);

	return link && own && xway_link_is_up(link) ? link : NULL;
}

/* Has the socket keys with which TCP signs packets? */
static bool keyed(const struct sock *sk)
{
#ifdef CONFIG_TCP_MD5SIG
	if (rcu_access_pointer(tcp_sk(sk)->md5sig_info))
		return true;
#endif
#ifdef CONFIG_TCP_AO
	if (rcu_access_pointer(tcp_sk(sk)->ao_info))
		return true;
#endif
	return false;
}

/**
 * xway_attach_unfit() - why a socket whose ULP slot is empty, or ours, cannot be attached
 * @sk: the socket, locked
 *
 * Context: any.
 * Return: the reason, or XWAY_R_NONE.
 */
enum xway_reason xway_attach_unfit(const struct sock *sk)
{
	if (xway_excluded(sk))
		return XWAY_R_PORT;
	if (!xway_reader_fits(sk))
		return sk->sk_user_data ? XWAY_R_BUSY : XWAY_R_KERNEL;
	if (sk->sk_user_data && xway_proto_untouched(sk))
		return XWAY_R_BUSY;
	if (tcp_sk(sk)->fastopen_req || rcu_access_pointer(tcp_sk(sk)->fastopen_rsk))
		return XWAY_R_FASTOPEN;
	if (tcp_sk(sk)->repair)
		return XWAY_R_REPAIR;
	if (rcu_access_pointer(sk->sk_filter))
		return XWAY_R_FILTER;
	if (READ_ONCE(sk->sk_rcvlowat) > 1 || READ_ONCE(sk->sk_peek_off) >= 0 ||
	    READ_ONCE(sk->sk_max_pacing_rate) != ~0UL || keyed(sk))
		return XWAY_R_OPTION;
	if (xway_ipsec_set(sk))
		return XWAY_R_IPSEC;
	return XWAY_R_NONE;
}

static enum xway_reason refusal(struct sock *sk, bool active)
{
	/* Whose a child is shows when it is accepted: xway_attach_accepted(). MPTCP's have
	 * TCP's own callback.
	 */
	if (sk->sk_kern_sock && !active && !XWAY_MPTCP_CHILDREN && xway_proto_untouched(sk))
		return XWAY_R_KERNEL;
	/* A reader that waits for connect() to unlock the socket would then
	 * sleep in TCP's recvmsg() while its bytes come by ring.
	 */
	if (waitqueue_active(&sk->sk_lock.wq))
		return XWAY_R_BUSY;
	return inet_csk(sk)->icsk_ulp_ops ? XWAY_R_BUSY : xway_attach_unfit(sk);
}

/*
 * Make a locked socket ours. sk_prot is stored plainly: sock_replace_proto() would
 * switch off io_uring's zero-copy as well.
 */
static void fill_slot(struct sock *sk, struct xway_conn *conn)
{
	struct inet_connection_sock *icsk = inet_csk(sk);

	conn->base_prot = READ_ONCE(sk->sk_prot);
	WRITE_ONCE(*(void *__force *)&icsk->icsk_ulp_data, conn);
	smp_wmb();	/* pairs with xway_attached_rcu() */
	WRITE_ONCE(icsk->icsk_ulp_ops, &xway_ulp);
	WRITE_ONCE(sk->sk_prot, xway_proto_of(sk));
	if (sk->sk_socket)
		xway_proto_set_ops(sk);
	xway_count(ATTACHED);
	trace_xway_attach(conn, conn->active);
}

/*
 * Has the file more users than the table of descriptors that connect() was called by? One may
 * be another task inside a call. It has taken a reference before it loaded TCP's function if it
 * shares that table, as connect() has then; or it has a table of its own.
 */
static bool shared(const struct sock *sk)
{
	const struct files_struct *files = current->files;
	long known = 1 + (files && atomic_read(&files->count) > 1);

	smp_mb();	/* our tables are there; pairs with that reference */
	return sk->sk_socket && sk->sk_socket->file && file_count(sk->sk_socket->file) > known;
}

/* Is the socket TCP's own, and may it be ours? */
static bool may_take(const struct sock *sk)
{
	return xway_proto_is_base(READ_ONCE(sk->sk_prot)) && xway_attach_is_on();
}

/*
 * Attach a locked socket whose remote address is a peer's. If the link to that peer
 * is not up, the connection waits for it.
 */
static void attach(struct sock *sk, bool active)
{
	struct xway_link *link;
	enum xway_reason why;
	struct xway_conn *conn = NULL;
	bool own;

	rcu_read_lock();
	/* In the section that xway_attach_set() waits for */
	link = may_take(sk) ? peer_link(sk, active, &own) : NULL;
	if (!link)
		goto out;
	why = own ? refusal(sk, active) : XWAY_R_FOREIGN;
	if (why == XWAY_R_NONE) {
		conn = xway_conn_create(sk, xway_link_is_up(link) ? link : NULL,
					active);
		if (!conn)
			why = XWAY_R_MEMORY;
	}
	if (!conn) {
		if (why == XWAY_R_MEMORY)
			xway_adopt_missed();
		atomic64_inc(&xway_reasons[why]);
		goto out;
	}
	conn->accepting = !active && sk->sk_kern_sock;
	if (active)
		set_bit(XWAY_F_CONNECTED, &conn->flags);
	fill_slot(sk, conn);
	if (active && shared(sk))
		set_bit(XWAY_F_UNSETTLED, &conn->flags);
	if (xway_conn_waiting(conn))
		atomic64_inc(&xway_reasons[XWAY_R_LINK]);
out:
	rcu_read_unlock();
}

/**
 * xway_attach_to_peer() - is the other end of a connection a peer's, as far as an address says?
 * @sk: an established socket, not locked
 *
 * Context: any.
 * Return: true if its far address is that of a peer.
 */
bool xway_attach_to_peer(const struct sock *sk)
{
	__be32 addr[4];
	bool ret;

	rcu_read_lock();
	ret = xway_addr_find(remote(sk, addr), addr, true);
	rcu_read_unlock();
	return ret;
}

/**
 * xway_attach_candidate() - may a socket be adopted, as far as a look from outside says?
 * @sk: an established socket, not locked
 *
 * Context: RCU read-side section, or softirqs are off.
 * Return: true if it is TCP's own and its far address is that of a peer.
 */
bool xway_attach_candidate(const struct sock *sk)
{
	return may_take(sk) && xway_attach_to_peer(sk);
}

/*
 * Is this the end that connected? Only there SYN is among the bytes that were
 * acknowledged. Those of rings are not, but their number is even: xway_conn_counted().
 */
static bool was_active(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 sent = tp->bytes_sent - tp->bytes_retrans;

	return ((u32)tp->bytes_acked + tp->snd_nxt - tp->snd_una - sent) & 1;
}

/* Is a socket that is locked, or has a spinlock held, open both ways? */
static bool is_open(const struct sock *sk)
{
	return sk->sk_state == TCP_ESTABLISHED && !sk->sk_shutdown && !sock_flag(sk, SOCK_DEAD);
}

/*
 * Why a socket that is locked, or has a spinlock held, cannot be adopted now; or XWAY_R_NONE. A
 * user inside the kernel who reads by calls may have it adopted, as it may be attached: refusal().
 */
static enum xway_reason no_adoption(struct sock *sk)
{
	if (sk->sk_kern_sock && !XWAY_MPTCP_CHILDREN && xway_proto_untouched(sk) && !was_active(sk))
		return XWAY_R_KERNEL;
	if (!xway_proto_is_base(READ_ONCE(sk->sk_prot)) || inet_csk(sk)->icsk_ulp_ops)
		return XWAY_R_BUSY;
	return xway_attach_unfit(sk);
}

/**
 * xway_attach_adopt() - attach a connection that is older than the session, if it is fit
 * @sk: its socket, locked by bh_lock_sock() and owned by nobody
 *
 * Context: process, softirqs are off.
 * Return: true if it may be fit at another time: it is not accepted yet, or there is no
 * memory.
 */
bool xway_attach_adopt(struct sock *sk)
{
	bool active = was_active(sk), own = false;
	struct xway_conn *conn = NULL;
	struct xway_link *link;

	if (!is_open(sk) || !xway_attach_is_on() || no_adoption(sk) != XWAY_R_NONE)
		return false;
	/* Before Linux 6.12.60 accept() of MPTCP looks at sk_prot of a child that it has
	 * grafted, without the lock, and puts TCP's table into the socket afterwards.
	 */
	if (!sk->sk_socket || !xway_proto_has_base_ops(sk))
		return true;
	rcu_read_lock();
	link = peer_link(sk, active, &own);
	own = own && link && xway_link_is_up(link);
	if (own)
		conn = xway_conn_create(sk, link, active);
	if (conn) {
		set_bit(XWAY_F_UNSETTLED, &conn->flags);
		fill_slot(sk, conn);
		xway_conn_adopted(conn, sk);
		xway_count(ADOPTED);
	}
	rcu_read_unlock();
	return own && !conn;
}

/**
 * xway_attach_why_not() - why an open connection with a peer is not attached
 * @sk: its socket, locked by bh_lock_sock(); an owner may be at work, so this is of the moment
 * @why: set to the reason; else to that for which it has fallen back, if that is known; else to
 *	XWAY_R_NONE
 *
 * Who may look into another network namespace alone learns nothing there of which addresses
 * are peers': its own addresses are none of this domain's.
 *
 * Context: softirqs are off.
 * Return: false if it is attached, is about to be, or is not to be shown.
 */
bool xway_attach_why_not(struct sock *sk, enum xway_reason *why)
{
	bool on = xway_attach_is_on(), own = false, up;
	struct xway_link *link;

	if (!is_open(sk) || xway_attached_rcu(sk) || (!sk->sk_socket && !sk->sk_kern_sock))
		return false;
	rcu_read_lock();
	link = peer_link(sk, was_active(sk), &own);
	up = link && xway_link_is_up(link);
	rcu_read_unlock();
	if (!link || (!own && !net_eq(sock_net(sk), &init_net)))
		return false;
	*why = !on ? XWAY_R_OFF : !up ? XWAY_R_LINK : !own ? XWAY_R_FOREIGN : no_adoption(sk);
	/* An owner may be about to close it: then it has no struct socket at any moment. Nor has
	 * one that nobody has accepted.
	 */
	if (*why == XWAY_R_NONE && !sock_owned_by_user(sk) &&
	    (!sk->sk_socket || !xway_proto_has_base_ops(sk)))
		*why = XWAY_R_BUSY;
	if (*why == XWAY_R_NONE)
		*why = xway_others_noted(sk);
	return true;
}

/*
 * Add the ring's bytes to those that TCP_INFO reports, but not to bytes_acked:
 * TCP judges old ACKs by that (RFC 5961, 5.2). A connection that falls back
 * leaves no bytes in a ring.
 */
static void account(const struct xway_conn *conn, struct sock *sk)
{
	tcp_sk(sk)->bytes_sent += xway_conn_counted(conn->tx.ring_bytes);
	tcp_sk(sk)->bytes_received += xway_conn_counted(conn->rx.ring_bytes);
}

/* What has this end turned off may be on again later, and so may a link. */
static bool passes(enum xway_reason why)
{
	return why == XWAY_R_LINK || (why == XWAY_R_OFF && !xway_attach_is_on());
}

/**
 * xway_detach() - make a socket TCP's own again
 * @conn: its connection
 * @sk: the socket, locked by its owner or by bh_lock_sock()
 *
 * Does nothing if @conn is detached already. Calls that are inside hold their
 * own references on @conn, and see XWAY_F_DETACHED. The socket's reference on
 * @conn is dropped, so the caller holds another one, or is in an RCU section.
 *
 * Context: process or softirq.
 */
void xway_detach(struct xway_conn *conn, struct sock *sk)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	bool mine;

	sock_owned_by_me(sk);
	spin_lock_bh(&conn->lock);
	mine = conn->sk == sk;
	if (mine)
		conn->sk = NULL;
	spin_unlock_bh(&conn->lock);
	if (!mine)
		return;
	xway_proto_restore(sk, conn->base_prot);
	account(conn, sk);
	WRITE_ONCE(icsk->icsk_ulp_ops, NULL);
	smp_wmb();	/* pairs with xway_attached_rcu() */
	WRITE_ONCE(icsk->icsk_ulp_data, NULL);
	xway_conn_unlist(conn);
	trace_xway_detach(conn, xway_reason_names[conn->reason]);
	xway_conn_detached(conn);
	/* After XWAY_F_DETACHED is set: a task that wakes up must see it. */
	if (!sock_flag(sk, SOCK_DEAD) && sk->sk_socket) {
		wake_up_interruptible_all(sk_sleep(sk));
		if (!test_bit(XWAY_F_CLOSED, &conn->flags)) {
			xway_count(DETACHED);
			xway_others_note(sk, passes(conn->reason) ? XWAY_R_NONE : conn->reason);
			xway_reader_to_tcp(sk);
		}
	}
	xway_conn_put(conn);
}

/**
 * xway_attach_accepted() - somebody has accepted a child of a socket of the kernel
 * @conn: the child's connection
 * @sk: the child, locked by its owner, with a struct socket
 *
 * A listener that knows MPTCP belongs to a program, but the TCP socket inside it
 * is the kernel's. Programs get its children that know only TCP as TCP sockets
 * of their own, and sk_kern_sock says so by now. kernel_accept() has not given the
 * others their table of calls yet, but they come by sk_prot all the same.
 *
 * Context: process, softirqs are off.
 */
void xway_attach_accepted(struct xway_conn *conn, struct sock *sk)
{
	enum xway_reason why = XWAY_R_NONE;

	conn->accepting = false;
	if (sk->sk_kern_sock)
		why = xway_attach_unfit(sk);
	else if (!xway_proto_has_ops(sk))
		why = XWAY_R_KERNEL;
	if (why == XWAY_R_NONE)
		return;
	xway_conn_reason(conn, why);
	xway_detach(conn, sk);
}

/* May a fresh connection replace this one, whether there is a link for it or not? */
static bool may_replace(const struct xway_conn *conn, struct sock *sk)
{
	return test_bit(XWAY_F_PARK, &conn->flags) && conn->sk == sk &&
	       !test_bit(XWAY_F_SHUT, &conn->flags) &&
	       ((1 << sk->sk_state) & (TCPF_ESTABLISHED | TCPF_CLOSE_WAIT |
				       TCPF_FIN_WAIT1 | TCPF_FIN_WAIT2)) &&
	       sk->sk_socket && xway_attach_is_on() &&
	       xway_attach_unfit(sk) == XWAY_R_NONE;
}

/*
 * Replace a parked connection by a fresh one, under the socket's lock. Calls
 * that are inside see XWAY_F_DETACHED of the old one.
 */
static void replace(struct xway_conn *conn, struct xway_conn *fresh,
		    struct sock *sk)
{
	spin_lock_bh(&conn->lock);
	conn->sk = NULL;
	spin_unlock_bh(&conn->lock);
	account(conn, sk);
	/* Contents of @fresh before the pointer: pairs with xway_attached_rcu().
	 * The slot's owner stays the same.
	 */
	smp_store_release((void *__force *)&inet_csk(sk)->icsk_ulp_data, fresh);
	xway_conn_unlist(conn);
	xway_conn_detached(conn);
	wake_up_interruptible_all(sk_sleep(sk));
	xway_reader_to_tcp(sk);
	xway_conn_put(conn);
}

/**
 * xway_detach_or_park() - the channel of a connection has ended
 * @conn: its connection
 * @sk: the socket, locked by its owner
 *
 * Detaches the socket if the connection falls back. If it parks, a fresh
 * connection replaces it. While TCP's queue still has bytes that came by ring,
 * that must wait: they are more than TCP may keep unread. rx_finish() then
 * calls this again.
 *
 * The caller holds a reference on @conn, as for xway_detach().
 *
 * Context: process.
 * Return: false if there is no memory for the fresh connection: call again.
 */
bool xway_detach_or_park(struct xway_conn *conn, struct sock *sk)
{
	struct xway_conn *fresh = NULL;
	bool renew;

	/* Whoever ends all connections, of a link or of an address, waits for a
	 * grace period before looking at them: they find the fresh one.
	 */
	rcu_read_lock();
	renew = may_replace(conn, sk);
	if (renew && xway_rx_requeued(conn, sk)) {
		rcu_read_unlock();
		return true;
	}
	if (renew)
		fresh = xway_conn_replace(conn, sk);
	rcu_read_unlock();
	if (fresh)
		replace(conn, fresh, sk);
	else if (!renew)
		xway_detach(conn, sk);
	return fresh || !renew;
}

/* TCP frees a socket that is still attached. */
static void ulp_release(struct sock *sk)
{
	struct xway_conn *conn = xway_attached(sk);

	if (!conn)
		return;
	xway_detach(conn, sk);
	xway_conn_put(conn);
	/* tcp_cleanup_ulp() reads this once more and then clears it. */
	WRITE_ONCE(inet_csk(sk)->icsk_ulp_ops, &xway_ulp);
}

static void state_changed(struct sock *sk, int old, int new)
{
	enum xway_reason why = XWAY_R_NONE;
	struct xway_conn *conn;

	if (new == TCP_SYN_SENT) {
		if (xway_addr_any())
			attach(sk, true);
		return;
	}
	/* A child of TCP fast open that is in use may be inside TCP's own calls. */
	if (new == TCP_ESTABLISHED && old == TCP_SYN_RECV && !sk->sk_socket &&
	    xway_addr_any())
		attach(sk, false);
	conn = xway_attached(sk);
	if (!conn)
		return;
	/* At SYN_SENT the active end had no route, and perhaps no port, yet. */
	if (new == TCP_ESTABLISHED && xway_excluded(sk))
		why = XWAY_R_PORT;
	else if (new == TCP_ESTABLISHED && xway_ipsec_set(sk))
		why = XWAY_R_IPSEC;
	else if (new == TCP_SYN_RECV)	/* the peer called connect(), too */
		why = XWAY_R_SIMULTANEOUS;
	xway_conn_reason(conn, why);
	if (new == TCP_ESTABLISHED && why == XWAY_R_NONE)
		xway_conn_established(conn, sk);
	else	/* or connect() failed */
		xway_detach(conn, sk);
	xway_conn_put(conn);
}

static void probe(void *data, const struct sock *sk, const int old,
		  const int new)
{
	if (sk->sk_protocol != IPPROTO_TCP || sk->sk_type != SOCK_STREAM ||
	    (new != TCP_SYN_SENT && old != TCP_SYN_SENT &&
	     old != TCP_SYN_RECV))
		return;
	if (sk->sk_state == TCP_NEW_SYN_RECV || !sk_fullsock(sk))
		return;
	state_changed((struct sock *)sk, old, new);
}

/**
 * xway_attach_set() - attach new connections, or not
 * @on: false also has all connections fall back to TCP, true has those adopted that are open
 *
 * Does not wait until they have.
 *
 * Context: process, may sleep.
 */
void xway_attach_set(bool on)
{
	WRITE_ONCE(attach_on, on);
	if (on) {
		xway_adopt_up(NULL);
	} else {
		/* After this, an attach() that did not see it is in the list. */
		synchronize_rcu();
		xway_conn_fallback_all(XWAY_R_OFF);
	}
}

static void find_tp(struct tracepoint *tp, void *priv)
{
	if (!strcmp(tp->name, "inet_sock_set_state"))
		set_state_tp = tp;
}

/**
 * xway_attach_init() - begin to attach sockets
 *
 * Return: 0; -EOPNOTSUPP if this kernel has no such tracepoint; or as
 * tracepoint_probe_register().
 */
int __init xway_attach_init(void)
{
	for_each_kernel_tracepoint(find_tp, NULL);
	if (!set_state_tp) {
		pr_err("this kernel has no tracepoint inet_sock_set_state\n");
		return -EOPNOTSUPP;
	}
	return tracepoint_probe_register(set_state_tp, probe, NULL);
}

/**
 * xway_attach_exit() - attach no more sockets; no probe runs after this
 */
void xway_attach_exit(void)
{
	tracepoint_probe_unregister(set_state_tp, probe, NULL);
	tracepoint_synchronize_unregister();
}
