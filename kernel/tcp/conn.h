/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_CONN_H
#define _XWAY_CONN_H

#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/seqlock.h>
#include <linux/workqueue.h>
#include <net/sock.h>

#include "core/core.h"
#include "core/ring.h"
#include "stats.h"
#include "words.h"

struct xway_tcp_link;

enum xway_conn_state {
	XWAY_CONN_TCP,		/* no channel */
	XWAY_CONN_OPENING,	/* being made; passive side: OPEN sent, too */
	XWAY_CONN_OPEN,		/* a channel */
	XWAY_CONN_CLOSING,	/* CLOSE sent */
};

/* bits of xway_conn.flags */
enum {
	XWAY_F_WANT_OPEN,	/* the helper shall ask for a channel */
	XWAY_F_ASKED,		/* it was asked for once */
	XWAY_F_FALLBACK,		/* go back to TCP and let the socket go */
	XWAY_F_GOT_CLOSE,	/* the peer touches our half no more */
	XWAY_F_CLOSED,		/* the socket is being closed: nobody reads */
	XWAY_F_SHUT,		/* both its halves are: nothing more is taken */
	XWAY_F_DETACHED,		/* the socket is detached */
	XWAY_F_BAD,		/* the peer broke the protocol */
	XWAY_F_RX_CLOSED,	/* nothing more to read from the peer's ring */
	XWAY_F_TX_CLOSED,	/* nothing more is put into our ring */
	XWAY_F_RETRY,		/* the helper looks again by itself */
	XWAY_F_PARK,		/* with RETURN: the socket stays held */
	XWAY_F_LIMITED,		/* the helper looks how long the sender waits */
	XWAY_F_GROW,		/* the helper looks if there is a larger ring */
};

/**
 * struct xway_tuple - the connection, as its active end names it
 * @family: AF_INET or AF_INET6; an IPv4-mapped address is AF_INET
 * @saddr: of the active end
 * @daddr: of the passive end
 */
struct xway_tuple {
	u16 family;
	__be16 sport;
	__be16 dport;
	__be32 saddr[4];
	__be32 daddr[4];
};

/**
 * struct xway_tx - sending; under the socket's lock
 * @pages: own ring
 * @gen: last switch, see struct xway_words
 * @prod: own index
 * @cons: the peer's index as last read
 * @window: bytes that may be in the ring, at most @size
 * @until: index up to which short messages may be put without asking anything
 *	of this; @prod if there may be none, as on TCP
 * @full_in: the period when it was found full last, see ringsize.c
 * @empty_at: when last a reader waited for what was put
 * @progress: what changes when the peer reads, since @progress_at
 * @limited: has xway_tx_stalled() seen it wait?
 * @usable: may the ring be switched to?
 */
struct xway_tx {
	void **pages;
	u32 size;
	u32 gen;
	u32 prod;
	u32 cons;
	u32 window;
	u32 until;
	unsigned long full_in;
	unsigned long empty_at;
	u32 progress;
	unsigned long progress_at;
	bool limited;
	bool usable;
	u64 ring_bytes;
	u64 tcp_bytes;
};

/**
 * struct xway_rx - receiving; under @lock, which is never held while waiting
 * @pages: the peer's ring, or a private copy of it (@spilled); NULL once read
 * @charged: pages that count against what one peer may leave here
 * @cons: own index
 * @prod: the peer's index as last read; final once spilled
 * @gen: the stretch that is being read: even TCP, odd ring
 * @seen: the peer's last switch known here
 * @mark: copies of its marks
 * @cut: its last ring stretch was ended here, without its mark
 * @requeued: where its bytes end that TCP's queue got, see xway_rx_requeued()
 */
struct xway_rx {
	struct mutex lock;	/* what is read next, and reading it */
	void **pages;
	u32 charged;
	u32 size;
	u32 cons;
	u32 prod;
	u32 gen;
	u32 seen;
	struct xway_mark mark[2];
	bool spilled;
	bool cut;
	bool was_requeued;
	u32 requeued;
	u32 notified;
	u32 notified_gen;
	u64 ring_bytes;
	u64 tcp_bytes;
};

/**
 * struct xway_conn - one TCP connection to a co-resident peer, and its channel
 * @lock: guards @sk; taken in softirq
 * @sk: the socket, NULL once detached
 * @chan: its channel. Its @peer, the peer's words, is cleared when the channel ends;
 *	readers use RCU or hold @rx.lock. Own words may be used while @peer is set.
 * @tl: of the link that it is on, with a reference
 * @keepalive_bytes: bytes by ring when keepalive.c last looked
 * @idle_bytes: bytes when evict.c last found a difference, at @idle_since
 * @ask_at: not before this is a channel asked for again, after @postponed times
 * @retry_at: when @work tries its return to TCP again, @retry_in after the last time
 * @grow_at: not before this is looked whether a larger ring would do, see ringsize.c
 * @grows: there was room for one when that was looked at last
 * @grown: times that it gave up its ring for one
 *
 * Lock order: rx.lock, socket lock, link lock, lock. The helper (@work) is the
 * only one that opens and closes channels.
 */
struct xway_conn {
	refcount_t ref;
	u32 ops;
	struct rcu_head rcu;
	spinlock_t lock;	/* @sk */
	struct sock *sk;
	struct xway_tcp_link *tl;
	unsigned long flags;
	enum xway_conn_state state;
	enum xway_reason reason;
	bool active;
	bool established;
	bool grows;
	u8 grown;
	u8 postponed;
	u64 keepalive_bytes;
	u64 idle_bytes;
	unsigned long idle_since;
	unsigned long ask_at;
	unsigned long grow_at;
	unsigned long retry_at;
	unsigned long retry_in;

	struct xway_chan chan;

	struct xway_tx tx;
	struct xway_rx rx;

	u32 isn[2];
	void (*data_ready)(struct sock *sk);
	struct proto *base_prot;
	struct xway_tuple tuple;
	struct hlist_node hash;
	struct list_head all;
	struct delayed_work work;
	struct rcu_work free_work;
};

/* conn.c: life */
int xway_conn_init(void);
void xway_conn_exit(void);
struct xway_conn *xway_conn_create(struct sock *sk, struct xway_link *link,
				   bool active);
void xway_conn_free(struct xway_conn *conn);
void xway_conn_established(struct xway_conn *conn, struct sock *sk);
struct xway_conn *xway_conn_renew(struct xway_conn *conn, struct sock *sk);
void xway_conn_unlist(struct xway_conn *conn);
u64 xway_conn_mac(const struct xway_conn *conn, bool by_active);
struct xway_conn *xway_conn_find(struct xway_link *link,
				 const struct xway_tuple *t, u64 mac, u32 *why);
void xway_conn_queue(struct xway_conn *conn);
void xway_conn_want(struct xway_conn *conn);
void xway_conn_fallback(struct xway_conn *conn, enum xway_reason reason);
bool xway_conn_park(struct xway_conn *conn, enum xway_reason reason);
void xway_conn_limit(struct xway_conn *conn, const struct sock *sk);
void xway_conn_fallback_all(enum xway_reason reason);
void xway_conn_drain(struct xway_link *link);
void xway_conn_abort(struct xway_link *link);
void xway_conn_event(struct xway_conn *conn);
void xway_conn_wake(struct xway_conn *conn);
struct sock *xway_conn_hold_sk(struct xway_conn *conn);
void xway_conn_bad(struct xway_conn *conn);
void xway_conn_closed(struct xway_conn *conn);
const char *xway_conn_state_name(const struct xway_conn *conn);
u32 xway_conn_count(void);

extern struct list_head xway_conns;
extern spinlock_t xway_conns_lock;
extern seqcount_spinlock_t xway_conns_seq;	/* one leaves, and its sums stay */

static inline struct xway_conn *xway_conn_get(struct xway_conn *conn)
{
	refcount_inc(&conn->ref);
	return conn;
}

/* Own words of its channel */
static inline struct xway_words *xway_own(const struct xway_conn *conn)
{
	return conn->chan.own;
}

static inline void xway_conn_put(struct xway_conn *conn)
{
	if (refcount_dec_and_test(&conn->ref))
		xway_conn_free(conn);
}

/*
 * Stop at a connection of xway_conns, which is walked by RCU, to do what may sleep.
 * As long as it is held it stays in the list. Return: false, and still in the RCU
 * section, if it ends; else xway_conn_walk() goes on.
 */
static inline bool xway_conn_stop(struct xway_conn *conn)
{
	if (!refcount_inc_not_zero(&conn->ref))
		return false;
	rcu_read_unlock();
	return true;
}

static inline void xway_conn_walk(struct xway_conn *conn)
{
	cond_resched();
	rcu_read_lock();
	xway_conn_put(conn);
}

/* Has a user inside the kernel taken the socket? It reads past our hooks. */
static inline bool xway_conn_taken(const struct xway_conn *conn,
				   const struct sock *sk)
{
	return READ_ONCE(sk->sk_data_ready) != conn->data_ready;
}

/* Tell a user inside the kernel that has taken the socket: TCP has bytes. */
static inline void xway_conn_tell_taker(const struct xway_conn *conn,
					struct sock *sk)
{
	if (!xway_conn_taken(conn, sk))
		return;
	local_bh_disable();
	sk->sk_data_ready(sk);
	local_bh_enable();
}

/* Helper and cleaner. A connection's work may wait for its socket's user, whose
 * page faults may never end; links have a queue of their own.
 */
extern struct workqueue_struct *xway_conn_wq;

/* rx.c: what can be read, and where */
#define XWAY_AGAIN_FAULT 1024	/* errno for the caller: fault in, try again */

void xway_rx_update(struct xway_conn *conn);
bool xway_rx_advance(struct xway_conn *conn, struct sock *sk);
bool xway_rx_done(struct xway_conn *conn);
u32 xway_rx_avail(struct xway_conn *conn);
int xway_rx_ring(struct xway_conn *conn, struct msghdr *msg, size_t len,
		 int flags, u32 peek_off);
u32 xway_rx_peek_next(struct xway_conn *conn, struct msghdr *msg, size_t len,
		      int flags);
bool xway_rx_readable(struct xway_conn *conn, struct sock *sk, bool tcp);
bool xway_rx_empty(const struct xway_conn *conn);
bool xway_rx_low(struct xway_conn *conn, const struct sock *sk);
void xway_rx_arm(struct xway_conn *conn, const struct sock *sk);
void xway_rx_arm_next(struct xway_conn *conn);
void xway_rx_disarm(struct xway_conn *conn);
int xway_rx_spill(struct xway_conn *conn, bool forced);
void xway_rx_discard(struct xway_conn *conn);
bool xway_rx_charge(struct xway_conn *conn, u32 pages);
void xway_rx_free(struct xway_conn *conn);

/* requeue.c */
int xway_rx_requeue(struct xway_conn *conn, struct sock *sk);
bool xway_rx_requeued(const struct xway_conn *conn, const struct sock *sk);

/* tx.c: where to write */
bool xway_tx_to_ring(struct xway_conn *conn, struct sock *sk);
void xway_tx_to_tcp(struct xway_conn *conn, struct sock *sk);
void xway_tx_discard(struct xway_conn *conn);
int xway_tx_put(struct xway_conn *conn, struct sock *sk, struct msghdr *msg,
		u32 before);
u32 xway_tx_look(struct xway_conn *conn, const struct sock *sk);
u32 xway_tx_backlog(struct xway_conn *conn, const struct sock *sk);
bool xway_tx_empty(struct xway_conn *conn);
bool xway_tx_writeable(struct xway_conn *conn, const struct sock *sk);
bool xway_tx_stalled(struct xway_conn *conn, struct sock *sk,
		     unsigned long *waited);

#endif /* _XWAY_CONN_H */
