// SPDX-License-Identifier: GPL-2.0
/*
 * Connections: how they begin, what is asked of their helpers, and how they end.
 *
 * References on a connection: the socket, until it is detached; the link's
 * table of channels, until the channel ends; each queued work; each call that
 * is inside. The connection has references on its link and on the module.
 */
#include <linux/jhash.h>
#include <linux/siphash.h>
#include <linux/slab.h>
#include <net/tcp.h>

#include "client.h"
#include "conn.h"
#include "evict.h"
#include "handshake.h"
#include "proto.h"
#include "ringsize.h"
#include "adopt.h"
#include "attach.h"
#include "trace.h"

/* A connection is worth a channel after so many I/O calls, or XWAY_WORTH_BYTES. */
#define WORTH_OPS 4

/* Small, since only OPEN looks: with ten thousand connections it passes some twenty */
#define CONN_HASH_BITS 9

LIST_HEAD(xway_conns);
DEFINE_SPINLOCK(xway_conns_lock);
seqcount_spinlock_t xway_conns_seq = SEQCNT_SPINLOCK_ZERO(xway_conns_seq,
							 &xway_conns_lock);
static struct hlist_head hash_table[1 << CONN_HASH_BITS];
static struct kmem_cache *conn_cache;
struct workqueue_struct *xway_conn_wq;
static atomic_t conn_count = ATOMIC_INIT(0);

/**
 * xway_conn_count() - connections that exist, on all links
 *
 * Context: any.
 * Return: their number.
 */
u32 xway_conn_count(void)
{
	return atomic_read(&conn_count);
}

/**
 * xway_conn_waiting() - is a connection attached without a link?
 * @conn: connection
 *
 * Context: any.
 * Return: true if it is. It gets the link of its peer once it is used.
 */
bool xway_conn_waiting(const struct xway_conn *conn)
{
	/* Who sees that it has a link sees which: pairs with conn_linked(). */
	return smp_load_acquire(&conn->tl) == &xway_no_link;
}

/**
 * xway_conn_link() - the link of a connection's peer
 * @conn: established connection
 *
 * Context: RCU read-side section.
 * Return: the link that it has; or if it waits, the one that has its far address,
 * or else that of xway_no_link.
 */
const struct xway_link *xway_conn_link(const struct xway_conn *conn)
{
	const struct xway_tuple *t = &conn->tuple;
	const struct xway_link *link = NULL;

	if (xway_conn_waiting(conn))
		link = xway_addr_find(t->family, conn->active ? t->daddr : t->saddr,
				      conn->active);
	return link ?: READ_ONCE(conn->chan.link);
}

/**
 * xway_conn_state_name() - the state of a connection, for XWAY_A_STATE
 * @conn: established connection
 *
 * Context: RCU read-side section.
 * Return: a constant string.
 */
const char *xway_conn_state_name(const struct xway_conn *conn)
{
	if (test_bit(XWAY_F_DETACHED, &conn->flags))
		return "closing";
	if (READ_ONCE(conn->rx.spilled))
		return "spilled";
	if (test_bit(XWAY_F_FALLBACK, &conn->flags))
		return "fallback";
	switch (READ_ONCE(conn->state)) {
	case XWAY_CONN_TCP:
		return xway_link_is_up(xway_conn_link(conn)) ? "tcp" : "waiting";
	case XWAY_CONN_OPENING:
		return "opening";
	default:
		return "open";
	}
}

static u32 tuple_hash(const struct xway_tuple *t)
{
	return jhash2((const u32 *)t->saddr, 8,
		      (__force u32)t->sport << 16 ^ (__force u32)t->dport) >>
	       (32 - CONN_HASH_BITS);
}

static bool tuple_equal(const struct xway_tuple *a, const struct xway_tuple *b)
{
	return a->family == b->family && a->sport == b->sport &&
	       a->dport == b->dport &&
	       !memcmp(a->saddr, b->saddr, sizeof(a->saddr)) &&
	       !memcmp(a->daddr, b->daddr, sizeof(a->daddr));
}

/* As xway_conn_mac(), for the session of @link, whatever link @conn has, by @isn */
static u64 conn_mac(const struct xway_conn *conn, const struct xway_link *link,
		    bool by_active, const u32 *isn)
{
	const struct xway_tuple *t = &conn->tuple;
	siphash_key_t key = { { (u64)isn[0] << 32 | isn[1], by_active } };
	bool own = conn->active == by_active;
	struct {
		u64 nonce[2];
		__be32 addr[8];
		u32 ports;
		u32 family;
	} data;

	data.nonce[0] = own ? link->nonce : link->peer_nonce;
	data.nonce[1] = own ? link->peer_nonce : link->nonce;
	memcpy(data.addr, t->saddr, sizeof(t->saddr));
	memcpy(data.addr + 4, t->daddr, sizeof(t->daddr));
	data.ports = (__force u32)t->sport << 16 | (__force u32)t->dport;
	data.family = t->family;
	return siphash(&data, sizeof(data), &key);
}

/**
 * xway_conn_mac() - proof that a message's sender is an end of a connection
 * @conn: established connection
 * @by_active: is the sender the active end?
 *
 * A MAC over addresses, ports and both nonces of the session. Its key is both
 * initial sequence numbers and the sender's role. Only the two ends and the
 * path know these numbers, which are never sent.
 *
 * Context: any.
 * Return: the MAC, by SipHash.
 */
u64 xway_conn_mac(const struct xway_conn *conn, bool by_active)
{
	return conn_mac(conn, conn->chan.link, by_active, conn->isn[conn->proof]);
}

/**
 * xway_conn_create() - the object for a socket that is being attached
 * @sk: the socket, locked
 * @link: the link to its peer, seen up in the caller's RCU read-side section; NULL:
 *	the connection waits for one
 * @active: is this the end that connects?
 *
 * Takes a reference on the module, which is dropped after the last put.
 *
 * Context: process or softirq, does not sleep.
 * Return: the connection with one reference, or NULL.
 */
struct xway_conn *xway_conn_create(struct sock *sk, struct xway_link *link,
				   bool active)
{
	struct xway_tcp_link *tl;
	struct xway_conn *conn;

	if (!try_module_get(THIS_MODULE))
		return NULL;
	tl = xway_tcp_link_get(link);
	if (!tl)
		goto err_module;
	conn = kmem_cache_zalloc(conn_cache, GFP_ATOMIC | __GFP_NOWARN);
	if (!conn)
		goto err_link;
	refcount_set(&conn->ref, 1);
	spin_lock_init(&conn->lock);
	mutex_init(&conn->rx.lock);
	INIT_DELAYED_WORK(&conn->work, xway_conn_work);
	INIT_RCU_WORK(&conn->free_work, xway_handshake_free_work);
	INIT_HLIST_NODE(&conn->hash);
	conn->sk = sk;
	conn->tl = tl;
	xway_chan_init(&conn->chan, &xway_sockets, tl->link);
	conn->active = active;
	conn->data_ready = READ_ONCE(sk->sk_data_ready);
	conn->retry_at = jiffies;
	atomic_inc(&tl->conns);
	atomic_inc(&conn_count);
	spin_lock_bh(&xway_conns_lock);
	list_add_tail_rcu(&conn->all, &xway_conns);
	spin_unlock_bh(&xway_conns_lock);
	return conn;

err_link:
	xway_tcp_link_put(tl);
err_module:
	module_put(THIS_MODULE);
	return NULL;
}

static void conn_free_rcu(struct rcu_head *rcu)
{
	kmem_cache_free(conn_cache, container_of(rcu, struct xway_conn, rcu));
	/* rcu_barrier() in xway_conn_exit() waits for the few instructions that
	 * follow.
	 */
	module_put(THIS_MODULE);
}

/* Move the connection's bytes into the sums of the module and of its link. */
static void conn_account(struct xway_conn *conn)
{
	u64 n[XWAY_LINK_COUNTERS] = { conn->tx.ring_bytes, conn->tx.tcp_bytes,
				      conn->rx.ring_bytes, conn->rx.tcp_bytes };
	int i;

	for (i = 0; i < XWAY_LINK_COUNTERS; i++) {
		this_cpu_add(xway_counters[XWAY_N_TX_RING + i], n[i]);
		atomic64_add(n[i], &conn->tl->base[i]);
	}
}

/**
 * xway_conn_free() - the last reference is gone
 * @conn: connection; only xway_conn_put() calls this
 *
 * Context: any but hard interrupt.
 */
void xway_conn_free(struct xway_conn *conn)
{
	spin_lock_bh(&xway_conns_lock);
	write_seqcount_begin(&xway_conns_seq);
	list_del_rcu(&conn->all);
	conn_account(conn);
	write_seqcount_end(&xway_conns_seq);
	spin_unlock_bh(&xway_conns_lock);
	xway_rx_free(conn);
	xway_tx_free(conn);
	atomic_dec(&conn->tl->conns);
	atomic_dec(&conn_count);
	xway_tcp_link_put(conn->tl);
	call_rcu(&conn->rcu, conn_free_rcu);
}

/*
 * The peer's OPEN finds this connection now, before one that it will replace. OPEN
 * looks for active ends only.
 */
static void conn_enlist(struct xway_conn *conn)
{
	spin_lock_bh(&xway_conns_lock);
	if (conn->active)
		hlist_add_head_rcu(&conn->hash,
				   &hash_table[tuple_hash(&conn->tuple)]);
	WRITE_ONCE(conn->established, true);
	spin_unlock_bh(&xway_conns_lock);
}

/* The numbers @isn[0] are noted: the tuple is, too, and OPEN finds the connection. */
static void conn_named(struct xway_conn *conn, struct sock *sk)
{
	memcpy(conn->isn[1], conn->isn[0], sizeof(conn->isn[1]));
	xway_attach_tuple(sk, conn->active, &conn->tuple);
	conn_enlist(conn);
}

/**
 * xway_conn_await_adoption() - from now on the peer may be about to adopt its end
 * @conn: connection
 *
 * Context: any.
 */
void xway_conn_await_adoption(struct xway_conn *conn)
{
	WRITE_ONCE(conn->adopt_until, (jiffies + XWAY_ADOPT_TIME) ?: 1);
}

/**
 * xway_conn_established() - note the tuple and the initial sequence numbers
 * @conn: connection
 * @sk: its socket, locked, just established
 *
 * Context: process or softirq.
 */
void xway_conn_established(struct xway_conn *conn, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	conn->isn[0][!conn->active] = tp->snd_una - 1;
	conn->isn[0][conn->active] = tp->rcv_nxt - 1;
	conn_named(conn, sk);
}

/*
 * The initial sequence numbers, if rings have carried nothing. If they have, account()
 * has counted, or will count, the same bytes at both ends, so these agree all the same.
 * @old: the socket's connection, which is not accounted for yet, or NULL
 */
static void isn_by_counts(const struct xway_conn *conn, const struct xway_conn *old,
			  const struct sock *sk, u32 *isn)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u64 sent = tp->bytes_sent - tp->bytes_retrans, received = tp->bytes_received;

	if (old) {
		sent += xway_conn_counted(old->tx.ring_bytes);
		received += xway_conn_counted(old->rx.ring_bytes);
	}
	isn[!conn->active] = tp->snd_nxt - (u32)sent - 1;
	isn[conn->active] = tp->rcv_nxt - (u32)received - 1;
}

/**
 * xway_conn_adopted() - note what xway_conn_established() does, of an older connection
 * @conn: connection
 * @sk: its socket, locked, established, without FIN either way
 *
 * Context: process or softirq.
 */
void xway_conn_adopted(struct xway_conn *conn, struct sock *sk)
{
	xway_conn_await_adoption(conn);
	isn_by_counts(conn, NULL, sk, conn->isn[0]);
	conn_named(conn, sk);
}

/**
 * xway_conn_replace() - make a fresh connection for a socket that stays attached
 * @conn: the socket's connection, which has parked and has no channel any more
 * @sk: the socket, locked
 *
 * Its peer may have another link by now, or none. Then the fresh one waits.
 *
 * Context: RCU read-side section.
 * Return: as xway_conn_create().
 */
struct xway_conn *xway_conn_replace(struct xway_conn *conn, struct sock *sk)
{
	struct xway_link *link = xway_attach_link(sk, conn->active);
	struct xway_conn *fresh = xway_conn_create(sk, link, conn->active);

	if (!fresh)
		return NULL;
	fresh->data_ready = conn->data_ready;
	fresh->base_prot = conn->base_prot;
	fresh->tuple = conn->tuple;
	/* What the peer has agreed to is what it will have in mind again. */
	memcpy(fresh->isn[0], conn->isn[conn->proof], sizeof(fresh->isn[0]));
	isn_by_counts(fresh, conn, sk, fresh->isn[1]);
	fresh->adopt_until = conn->adopt_until;
	/* Who is inside TCP's calls stays there. */
	if (test_bit(XWAY_F_UNSETTLED, &conn->flags))
		set_bit(XWAY_F_UNSETTLED, &fresh->flags);
	if (test_bit(XWAY_F_CONNECTED, &conn->flags))
		set_bit(XWAY_F_CONNECTED, &fresh->flags);
	fresh->stalls = conn->stalls;
	xway_ringsize_replace(fresh, conn);
	xway_evict_replace(fresh, conn);
	conn_enlist(fresh);
	return fresh;
}

/**
 * xway_conn_unlist() - OPEN does not find a detached connection any more
 * @conn: connection
 *
 * Context: process or softirq.
 */
void xway_conn_unlist(struct xway_conn *conn)
{
	spin_lock_bh(&xway_conns_lock);
	if (!hlist_unhashed(&conn->hash))
		hlist_del_init_rcu(&conn->hash);
	spin_unlock_bh(&xway_conns_lock);
}

/*
 * Has a connection a link? If it waits for one, and its peer's is up now, it gets
 * that. Any two callers exclude each other by the connection's lock. Others may
 * still see xway_no_link, which is right until a channel is begun.
 */
static bool conn_linked(struct xway_conn *conn)
{
	struct xway_tcp_link *tl = NULL;
	struct xway_link *link = NULL;

	if (likely(!xway_conn_waiting(conn)))
		return true;
	/* The link's end finds it, because it is in the list: see xway_link_is_up(). */
	rcu_read_lock();
	spin_lock_bh(&conn->lock);
	if (xway_conn_waiting(conn)) {
		if (conn->sk)
			link = xway_attach_link(conn->sk, conn->active);
		if (link)
			tl = xway_tcp_link_get(link);
		if (tl) {
			atomic_dec(&xway_no_link.conns);
			atomic_inc(&tl->conns);
			WRITE_ONCE(conn->chan.link, link);
			xway_conn_await_adoption(conn);
			/* Last: pairs with xway_conn_waiting(). */
			smp_store_release(&conn->tl, tl);
			xway_tcp_link_put(&xway_no_link);
		}
	}
	spin_unlock_bh(&conn->lock);
	rcu_read_unlock();
	return !xway_conn_waiting(conn);
}

/**
 * xway_conn_find() - the connection that a peer's OPEN is about
 * @link: the link by which OPEN came, which is up
 * @t: the connection, as the peer names it
 * @mac: the peer's proof that it is an end of it
 * @why: set to XWAY_DECLINE_* if there is none
 *
 * A connection that waits for its peer's link gets @link. One that has another link
 * yet is going to leave that: its peer may ask again.
 *
 * Context: process or softirq.
 * Return: the connection, whose active end this is, with a reference; or NULL.
 */
struct xway_conn *xway_conn_find(struct xway_link *link,
				 const struct xway_tuple *t, u64 mac, u32 *why)
{
	struct xway_conn *conn, *found = NULL;
	bool proof;

	rcu_read_lock();
again:
	*why = XWAY_DECLINE_UNKNOWN;
	hlist_for_each_entry_rcu(conn, &hash_table[tuple_hash(t)], hash) {
		if (!tuple_equal(&conn->tuple, t))
			continue;
		proof = conn_mac(conn, link, false, conn->isn[0]) != mac;
		if (proof && conn_mac(conn, link, false, conn->isn[1]) != mac) {
			/* A peer does not learn of connections with others. */
			if (*why == XWAY_DECLINE_UNKNOWN &&
			    xway_conn_link(conn) == link)
				*why = XWAY_DECLINE_PROOF;
			continue;
		}
		if (!conn_linked(conn) || READ_ONCE(conn->chan.link) != link) {
			*why = XWAY_DECLINE_LATER;
			continue;
		}
		/* A connection without references has left the hash: look again. */
		if (!refcount_inc_not_zero(&conn->ref))
			goto again;
		WRITE_ONCE(conn->proof, proof);
		found = conn;
		break;
	}
	rcu_read_unlock();
	return found;
}

/**
 * xway_conn_queue() - have the helper look at a connection now
 * @conn: connection, by a reference or in an RCU read-side section
 *
 * The helper also wakes those who sleep in calls of the socket.
 *
 * Context: any but hard interrupt.
 */
void xway_conn_queue(struct xway_conn *conn)
{
	/* A caller in poll() has no reference, only RCU. */
	if (!refcount_inc_not_zero(&conn->ref))
		return;
	if (mod_delayed_work(xway_conn_wq, &conn->work, 0))
		xway_conn_put(conn);
}

/**
 * xway_conn_reason() - why a connection leaves its ring: the first reason is kept and counted
 * @conn: connection
 * @reason: why, or XWAY_R_NONE
 *
 * Context: any.
 */
void xway_conn_reason(struct xway_conn *conn, enum xway_reason reason)
{
	if (conn->reason != XWAY_R_NONE || reason == XWAY_R_NONE)
		return;
	conn->reason = reason;
	atomic64_inc(&xway_reasons[reason]);
	trace_xway_fallback(conn, xway_reason_names[reason]);
}

/**
 * xway_conn_want() - count an I/O call: is the connection worth a channel?
 * @conn: connection
 *
 * Only the passive end asks for a channel. A short connection ends before it is
 * worth one, and so pays nothing for it. One that waits for its peer's link looks
 * for that now and then.
 *
 * Context: process.
 */
void xway_conn_want(struct xway_conn *conn)
{
	if (conn->active || test_bit(XWAY_F_ASKED, &conn->flags) ||
	    !conn->established || xway_evict_too_early(conn))
		return;
	if (unlikely(test_bit(XWAY_F_UNSETTLED, &conn->flags))) {
		xway_adopt_settle();
		return;
	}
	if (++conn->ops < WORTH_OPS &&
	    conn->tx.tcp_bytes + conn->rx.tcp_bytes < XWAY_WORTH_BYTES)
		return;
	if (!conn_linked(conn)) {
		xway_evict_begin(conn);
		return;
	}
	if (test_and_set_bit(XWAY_F_ASKED, &conn->flags))
		return;
	set_bit(XWAY_F_WANT_OPEN, &conn->flags);
	xway_conn_queue(conn);
}

/**
 * xway_conn_fallback() - bring a connection back to TCP and detach its socket
 * @conn: connection; it stays valid by the caller's reference
 * @reason: why
 *
 * Only starts that. The helper does the work.
 *
 * Context: any but hard interrupt.
 */
void xway_conn_fallback(struct xway_conn *conn, enum xway_reason reason)
{
	bool was = test_and_set_bit(XWAY_F_FALLBACK, &conn->flags);

	/* A connection that was to park now falls back for good. */
	if (test_and_clear_bit(XWAY_F_PARK, &conn->flags))
		conn->reason = XWAY_R_NONE;
	else if (was)
		return;
	xway_conn_reason(conn, reason);
	xway_conn_queue(conn);
}

/**
 * xway_conn_set_park() - mark a connection as one that parks; the helper is not told
 * @conn: connection
 *
 * Context: any.
 * Return: false if the connection falls back or parks already, or ends.
 */
bool xway_conn_set_park(struct xway_conn *conn)
{
	unsigned long was = READ_ONCE(conn->flags);

	/* Both bits in one step: a fallback for good must not become a park. */
	do {
		if (was & (BIT(XWAY_F_FALLBACK) | BIT(XWAY_F_BAD) |
			   BIT(XWAY_F_DETACHED)))
			return false;
	} while (!try_cmpxchg(&conn->flags, &was, was | BIT(XWAY_F_FALLBACK) |
						  BIT(XWAY_F_PARK)));
	return true;
}

/**
 * xway_conn_park() - give up the ring, but keep the socket attached
 * @conn: connection; it stays valid by the caller's reference
 * @reason: why
 *
 * Only starts that. The helper does the work.
 *
 * Context: any but hard interrupt.
 * Return: false if the connection falls back or parks already, or ends.
 */
bool xway_conn_park(struct xway_conn *conn, enum xway_reason reason)
{
	if (!xway_conn_set_park(conn))
		return false;
	xway_conn_reason(conn, reason);
	xway_conn_queue(conn);
	return true;
}

/**
 * xway_conn_bad() - the peer broke the protocol of this channel
 * @conn: connection, which will be reset
 *
 * Context: any but hard interrupt.
 */
void xway_conn_bad(struct xway_conn *conn)
{
	if (test_and_set_bit(XWAY_F_BAD, &conn->flags))
		return;
	xway_chan_count_violation(&conn->chan);
	xway_conn_reason(conn, XWAY_R_VIOLATION);
	xway_conn_queue(conn);
}

/**
 * xway_conn_time_out() - the peer was silent for too long: end with ETIMEDOUT
 * @conn: connection; it stays valid by the caller's reference
 *
 * Only starts that. The helper does the work.
 *
 * Context: any but hard interrupt.
 */
void xway_conn_time_out(struct xway_conn *conn)
{
	if (test_and_set_bit(XWAY_F_TIMED_OUT, &conn->flags))
		return;
	xway_count(TIMEOUTS);
	xway_conn_queue(conn);
}

/**
 * xway_conn_fallback_all() - have the connections of all links fall back
 * @reason: why
 *
 * Context: process.
 */
void xway_conn_fallback_all(enum xway_reason reason)
{
	struct xway_conn *conn;

	rcu_read_lock();
	list_for_each_entry_rcu(conn, &xway_conns, all) {
		if (!refcount_inc_not_zero(&conn->ref))
			continue;
		xway_conn_fallback(conn, reason);
		xway_conn_put(conn);
	}
	rcu_read_unlock();
}

/*
 * Wake writers that wait for room; with @all also everybody who sleeps in a
 * call or in poll(). Softirqs are off. sk_socket stays while the callback lock
 * is held.
 */
static void conn_wake_sk(struct sock *sk, bool all)
{
	read_lock(&sk->sk_callback_lock);
	if (sk->sk_socket && all)
		wake_up_interruptible_all(sk_sleep(sk));
	if (sk->sk_socket && test_bit(SOCK_NOSPACE, &sk->sk_socket->flags))
		sk->sk_write_space(sk);
	read_unlock(&sk->sk_callback_lock);
}

/**
 * xway_conn_event() - the peer has posted the channel
 * @conn: connection
 *
 * Context: softirq.
 * Return: true if the peer has changed its words since the last event.
 */
bool xway_conn_event(struct xway_conn *conn)
{
	bool stale = false, moved = false, inside = false;
	const struct xway_words *peer;
	u32 prod, cons, flags = 0;
	struct sock *sk;
	u16 gen;

	spin_lock(&conn->lock);
	sk = conn->sk;
	rcu_read_lock();
	peer = rcu_dereference(conn->chan.peer);
	if (peer) {
		/* Each arrival is a signal, whether the last one was read or
		 * not: ask for the next event before looking at what came.
		 */
		if (sk && unlikely(sock_flag(sk, SOCK_FASYNC)))
			xway_rx_arm_next(conn);
		gen = READ_ONCE(peer->gen);
		prod = READ_ONCE(peer->prod);
		flags = READ_ONCE(peer->flags);
		cons = READ_ONCE(peer->cons);
		moved = cons != conn->rx.notified_cons ||
			(u16)flags != conn->rx.notified_flags;
		conn->rx.notified_cons = cons;
		conn->rx.notified_flags = flags;
		if (sk && (prod != conn->rx.notified ||
			   gen != conn->rx.notified_gen)) {
			conn->rx.notified = prod;
			conn->rx.notified_gen = gen;
			moved = true;
			if (xway_conn_seems_taken(conn, sk))
				xway_conn_fallback(conn, XWAY_R_KERNEL);
			else if (!xway_rx_readable(conn, sk, true))
				stale = true;
			else if (!xway_conn_inside(conn))
				xway_base_data_ready(sk);
		}
		/* If the bytes have been read meanwhile, there is nothing to
		 * signal. io_uring and AIO take data_ready() as proof that
		 * there is something. Other sleepers wake and look.
		 */
		inside = sk && xway_conn_inside(conn) &&
			 refcount_inc_not_zero(&sk->sk_refcnt);
		if (sk && !inside)
			conn_wake_sk(sk, stale);
	}
	rcu_read_unlock();
	spin_unlock(&conn->lock);
	if (inside) {
		xway_reader_tell(conn, sk);
		sock_put(sk);
	}
	/* What has not changed needs no other look: the helper sees to its own retries. */
	if (moved && ((flags & XWAY_WORDS_FALLBACK) || test_bit(XWAY_F_FALLBACK, &conn->flags)))
		xway_conn_queue(conn);
	return moved;
}

/**
 * xway_conn_wake() - wake everybody who sleeps in calls of the socket
 * @conn: connection
 *
 * Context: process or softirq.
 */
void xway_conn_wake(struct xway_conn *conn)
{
	struct sock *sk = xway_conn_inside(conn) ? xway_conn_hold_sk(conn) : NULL;

	if (sk) {
		xway_reader_tell(conn, sk);
		sock_put(sk);
		return;
	}
	spin_lock_bh(&conn->lock);
	if (conn->sk)
		conn_wake_sk(conn->sk, true);
	spin_unlock_bh(&conn->lock);
}

/**
 * xway_conn_hold_sk() - the socket of a connection, with a reference
 * @conn: connection
 *
 * Context: process or softirq.
 * Return: the socket, for sock_put(); NULL once detached.
 */
struct sock *xway_conn_hold_sk(struct xway_conn *conn)
{
	struct sock *sk;

	spin_lock_bh(&conn->lock);
	sk = conn->sk;
	if (sk && !refcount_inc_not_zero(&sk->sk_refcnt))
		sk = NULL;
	spin_unlock_bh(&conn->lock);
	return sk;
}

/**
 * xway_conn_detached() - the socket is detached: close the channel
 * @conn: connection without socket
 *
 * Context: process or softirq.
 */
void xway_conn_detached(struct xway_conn *conn)
{
	set_bit(XWAY_F_DETACHED, &conn->flags);
	/* The flag before the state: pairs with begin() */
	smp_mb__after_atomic();
	if (conn->state != XWAY_CONN_TCP || delayed_work_pending(&conn->work))
		xway_conn_queue(conn);
}

/**
 * xway_conn_init() - make what connections need
 *
 * Return: 0 or -ENOMEM.
 */
int __init xway_conn_init(void)
{
	conn_cache = KMEM_CACHE(xway_conn, SLAB_ACCOUNT);
	if (!conn_cache)
		return -ENOMEM;
	xway_conn_wq = alloc_workqueue("xway_conn",
				       WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!xway_conn_wq) {
		kmem_cache_destroy(conn_cache);
		return -ENOMEM;
	}
	return 0;
}

/**
 * xway_conn_exit() - wait until the last connections are freed
 */
void xway_conn_exit(void)
{
	destroy_workqueue(xway_conn_wq);
	xway_handshake_exit();
	rcu_barrier();
	kmem_cache_destroy(conn_cache);
}
