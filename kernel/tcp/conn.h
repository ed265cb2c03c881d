/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_CONN_H
#define _XWAY_CONN_H

#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/seqlock.h>
#include <linux/workqueue.h>
#include <net/sock.h>

#include "core/core.h"
#include "core/ring.h"
#include "proto.h"
#include "reader.h"
#include "stats.h"
#include "words.h"

struct xway_tcp_link;

/* The channel of a connection */
enum xway_conn_state {
	XWAY_CONN_TCP,		/* there is none */
	XWAY_CONN_OPENING,	/* it is being made, or OPEN is sent */
	XWAY_CONN_OPEN,		/* there is one */
	XWAY_CONN_CLOSING,	/* CLOSE is sent; waits for the peer's, or for the socket's end */
};

/* bits of xway_conn.flags */
enum {
	XWAY_F_WANT_OPEN,	/* the helper shall ask for a channel */
	XWAY_F_ASKED,		/* a channel was asked for */
	XWAY_F_FALLBACK,	/* the connection leaves the ring */
	XWAY_F_GOT_CLOSE,	/* the peer does not touch our half any more */
	XWAY_F_CLOSED,		/* the socket is being closed: nobody reads */
	XWAY_F_SHUT,		/* both directions are shut: bytes are refused */
	XWAY_F_DETACHED,	/* the socket is detached */
	XWAY_F_BAD,		/* the peer broke the protocol */
	XWAY_F_RX_CLOSED,	/* nothing more is read from the peer's ring */
	XWAY_F_TX_CLOSED,	/* nothing more is put into the own ring */
	XWAY_F_RETRY,		/* the helper has queued itself to try again */
	XWAY_F_PARK,		/* with FALLBACK: it parks, and stays attached */
	XWAY_F_WAITING,		/* the helper looks how long the sender waits */
	XWAY_F_GROW,		/* the helper looks whether a larger ring fits */
	XWAY_F_TIMED_OUT,	/* the peer's kernel was silent for too long */
	XWAY_F_POLICY,		/* the helper looks at IPsec policies */
	XWAY_F_UNSETTLED,	/* somebody may be inside TCP's calls */
	XWAY_F_CONNECTED,	/* attached by connect(), and that is still to be looked at */
	XWAY_F_LOOK,		/* ... by who sends, as the helper found the socket owned */
	XWAY_F_LEAVING,		/* nobody finds the peer's half; CLOSE follows in a grace period */
	XWAY_F_LEFT,		/* that has passed */
	XWAY_F_TELL,		/* release_sock() calls the reader back: reader.c */
	XWAY_F_LATER,		/* release_sock() queues the helper */
	XWAY_F_ABORTING,	/* it is being reset: connect() to AF_UNSPEC waits */
};

/**
 * struct xway_tuple - the connection, as its active end names it
 * @family: AF_INET or AF_INET6; an IPv4-mapped address is AF_INET
 * @sport: port of the active end
 * @dport: port of the passive end
 * @saddr: address of the active end, IPv4 in the first word
 * @daddr: address of the passive end
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
 * @pages: the own ring
 * @size: bytes of the own ring, a power of two
 * @gen: number of the last switch; even: to TCP, odd: to the ring
 * @prod: own index
 * @cons: the peer's index, as last read
 * @window: bytes that may be in the ring, at most @size
 * @until: short messages may be put up to this index without a look at anything
 *	else here; @prod if there may be none, as on TCP
 * @full_in: number of the period in which the ring was last found full, see
 *	ringsize.c
 * @empty_at: when a reader last waited for what was put, in jiffies
 * @progress: what tx_progress() said last; it changes when the peer reads
 * @resent: after a cut, index up to which the peer has the bytes, or TCP
 * @progress_at: when @progress last changed, in jiffies
 * @limited: xway_tx_stalled() has seen the sender wait
 * @usable: sending may switch to the ring
 * @resend: the peer cuts, or has cut: bytes of the ring go by TCP before others
 * @resending: they are being given to TCP
 * @in_tcp: calls of ours that are inside TCP's sendmsg
 * @cut_known: @resent is valid
 * @kept: @pages is a private copy
 * @fin: a FIN is due after these bytes
 * @ring_bytes: bytes sent by ring
 * @tcp_bytes: bytes sent by TCP
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
	u32 resent;
	unsigned long progress_at;
	bool limited;
	bool usable;
	bool resend;
	bool resending;
	u8 in_tcp;
	bool cut_known;
	bool kept;
	bool fin;
	u64 ring_bytes;
	u64 tcp_bytes;
};

/**
 * struct xway_rx - receiving; under @lock, except as noted
 * @lock: makes one step of deciding what is read next and reading it. It is
 *	never held while waiting for bytes.
 * @pages: the peer's ring, or a private copy of it (@spilled); NULL once that
 *	is read
 * @charged: pages that count against what the peer may have this domain keep
 * @size: bytes of the peer's ring, a power of two
 * @cons: own index
 * @prod: the peer's index, as last read; final once spilled
 * @gen: the stretch that is being read: even TCP, odd ring
 * @seen: the peer's last switch that is known here
 * @mark: copies of the peer's marks, by parity of the generation
 * @spilled: @pages is a private copy, or NULL if all of it is read
 * @cut: the peer's last ring stretch was ended here, without its mark
 * @was_requeued: bytes were requeued, up to @requeued
 * @requeued: TCP sequence number at which requeued bytes end
 * @late_seq: TCP's next byte at @late_at
 * @late_at: since when TCP could have got the bytes before spilled ones, low bits of
 *	jiffies; 0 if it has all
 * @notified: the peer's index at the last event; under the connection's @lock
 * @notified_gen: low bits of the peer's last switch at the last event; as @notified
 * @notified_flags: the peer's flags at the last event; as @notified
 * @notified_cons: the peer's index of what it has read, at the last event; as @notified
 * @ring_bytes: bytes that came by ring
 * @tcp_bytes: bytes that came by TCP
 */
struct xway_rx {
	struct mutex lock;	/* see above */
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
	u32 late_seq;
	u32 late_at;
	u32 notified;
	u32 notified_cons;
	u16 notified_gen;
	u16 notified_flags;
	u64 ring_bytes;
	u64 tcp_bytes;
};

/**
 * struct xway_conn - one TCP connection with a peer, and its channel, if any
 * @ref: use xway_conn_get() and xway_conn_put()
 * @ops: calls that send or receive, until a channel is asked for
 * @rcu: for freeing it
 * @lock: guards @sk; taken in softirq, too
 * @cut_at: when the peer's direction is cut if the peer has not fallen back, the low
 *	bits of jiffies; 0 before a fallback
 * @sk: the socket, NULL once detached
 * @tl: what sockets keep for its link, with a reference; xway_no_link while it waits
 *	for one. It leaves that once, under @lock, and so does @link of @chan.
 * @flags: XWAY_F_*
 * @state: of the channel; written under the link's lock
 * @reason: why the connection is not, or not any more, on a ring
 * @active: this is the end that called connect()
 * @accepting: it is the child of a socket of the kernel; who accepts it will show
 *	whose it is
 * @established: @tuple and @isn are set
 * @clear: looks in a row that found nobody inside TCP's calls: adopt.c
 * @grows: there was room for a larger ring at the last look
 * @grown: times that it gave up its ring for a larger one, at most DOUBLINGS
 * @stalls: times that this end had it park because nobody read; @work counts
 * @postponed: times that it was told to ask later, as far as that lengthens the time
 * @refused: times that this end or the peer had no room for a ring, or may have had none, at
 *	most REFUSED_MAX
 * @silent: looks of timeout.c in a row, one a second, at which bytes were unread
 *	and the peer's kernel was silent
 * @silent_cons: the peer's index at the last look of timeout.c
 * @silent_prod: the own index then
 * @keepalive_bytes: bytes by ring when keepalive.c last looked
 * @idle_bytes: bytes when evict.c last found that some had moved
 * @idle_since: when that was, in jiffies
 * @ask_at: no channel is asked for or accepted before, in jiffies, if
 *	@postponed
 * @adopt_until: until then the peer may adopt its end, in jiffies; 0 if it had it attached
 *	from the beginning
 * @grow_at: no look for a larger ring before, in jiffies, see ringsize.c
 * @retry_at: when @work tries a fallback again, in jiffies
 * @retry_in: time between the last two tries, in jiffies
 * @chan: its channel. Its @peer, the peer's words, is cleared when the channel
 *	ends. Readers use RCU or hold @lock of @rx. Own words may be used
 *	while @peer is set.
 * @tx: sending
 * @rx: receiving
 * @isn: initial sequence numbers of the active and the passive end: as they were seen,
 *	and as they follow from the bytes that were counted
 * @proof: which of these the peer knows, too; written under the link's lock
 * @data_ready: the socket's callback, of a reader that uses our calls: reader.c; written
 *	under the socket's lock
 * @base_prot: TCP's own table of calls for the socket
 * @tuple: addresses and ports
 * @hash: in the hash of connections that OPEN can find
 * @all: in xway_conns
 * @work: the helper; it alone opens and closes channels
 * @free_work: frees the own half of the channel after a grace period
 * @ending: in the list of those that wait for a grace period: to send CLOSE, or to free the
 *	own half since their link ends
 *
 * Lock order: @lock of @rx, the socket's lock, the link's lock, @lock.
 */
struct xway_conn {
	refcount_t ref;
	u32 ops;
	struct rcu_head rcu;
	spinlock_t lock;	/* guards @sk */
	u32 cut_at;
	struct sock *sk;
	struct xway_tcp_link *tl;
	unsigned long flags;
	enum xway_conn_state state;
	enum xway_reason reason;
	bool active;
	bool accepting;
	bool established;
	u8 clear;
	bool proof;
	bool grows;
	u8 grown;
	u8 stalls;
	u8 postponed;
	u8 refused;
	u32 silent;
	u32 silent_cons;
	u32 silent_prod;
	u64 keepalive_bytes;
	u64 idle_bytes;
	unsigned long idle_since;
	unsigned long ask_at;
	unsigned long adopt_until;
	unsigned long grow_at;
	unsigned long retry_at;
	unsigned long retry_in;

	struct xway_chan chan;

	struct xway_tx tx;
	struct xway_rx rx;

	u32 isn[2][2];
	void (*data_ready)(struct sock *sk);
	struct proto *base_prot;
	struct xway_tuple tuple;
	struct hlist_node hash;
	struct list_head all;
	struct delayed_work work;
	struct rcu_work free_work;
	struct llist_node ending;
};

/* conn.c */
int xway_conn_init(void);
void xway_conn_exit(void);
struct xway_conn *xway_conn_create(struct sock *sk, struct xway_link *link,
				   bool active);
void xway_conn_free(struct xway_conn *conn);
void xway_conn_established(struct xway_conn *conn, struct sock *sk);
void xway_conn_adopted(struct xway_conn *conn, struct sock *sk);
void xway_conn_await_adoption(struct xway_conn *conn);
struct xway_conn *xway_conn_replace(struct xway_conn *conn, struct sock *sk);
void xway_conn_unlist(struct xway_conn *conn);
u64 xway_conn_mac(const struct xway_conn *conn, bool by_active);
bool xway_conn_waiting(const struct xway_conn *conn);
const struct xway_link *xway_conn_link(const struct xway_conn *conn);
struct xway_conn *xway_conn_find(struct xway_link *link,
				 const struct xway_tuple *t, u64 mac, u32 *why);
void xway_conn_queue(struct xway_conn *conn);
void xway_conn_reason(struct xway_conn *conn, enum xway_reason reason);
bool xway_conn_set_park(struct xway_conn *conn);
#define XWAY_WORTH_BYTES 32768	/* by TCP: a connection is worth a channel, within a call, too */
void xway_conn_want(struct xway_conn *conn);
void xway_conn_fallback(struct xway_conn *conn, enum xway_reason reason);
bool xway_conn_park(struct xway_conn *conn, enum xway_reason reason);
void xway_conn_fallback_all(enum xway_reason reason);
bool xway_conn_event(struct xway_conn *conn);
void xway_conn_wake(struct xway_conn *conn);
struct sock *xway_conn_hold_sk(struct xway_conn *conn);
void xway_conn_bad(struct xway_conn *conn);
void xway_conn_time_out(struct xway_conn *conn);
void xway_conn_detached(struct xway_conn *conn);
const char *xway_conn_state_name(const struct xway_conn *conn);
u32 xway_conn_count(void);

/* helper.c */
void xway_conn_work(struct work_struct *work);
void xway_conn_waits(struct xway_conn *conn, const struct sock *sk);
void xway_conn_reset(struct xway_conn *conn, struct sock *sk, int err);
u32 xway_conn_words(const struct xway_conn *conn);
bool xway_conn_may_cut(const struct xway_conn *conn);

/* leave.c */
void xway_conn_drain(struct xway_link *link);
void xway_conn_abort(struct xway_link *link, bool dead);
void xway_conn_addresses(struct xway_link *link);

extern struct list_head xway_conns;
extern spinlock_t xway_conns_lock;
extern seqcount_spinlock_t xway_conns_seq;	/* a connection is freed */

/* Context: any. */
static inline struct xway_conn *xway_conn_get(struct xway_conn *conn)
{
	refcount_inc(&conn->ref);
	return conn;
}

/*
 * How many of the bytes that a ring has carried are added to TCP's counts. An even number:
 * see was_active() in attach.c. Both ends have the same one.
 */
static inline u64 xway_conn_counted(u64 ring_bytes)
{
	return ring_bytes & ~1ULL;
}

/* The own words of its channel */
static inline struct xway_words *xway_own(const struct xway_conn *conn)
{
	return conn->chan.own;
}

/* Context: any but hard interrupt. */
static inline void xway_conn_put(struct xway_conn *conn)
{
	if (refcount_dec_and_test(&conn->ref))
		xway_conn_free(conn);
}

/**
 * xway_conn_stop() - stop at a connection of xway_conns, to do what may sleep
 * @conn: connection that a walk by RCU has reached
 *
 * The connection stays in the list until xway_conn_continue() goes on from it.
 *
 * Context: RCU read-side section. It is left if the result is true.
 * Return: false if the connection is being freed.
 */
static inline bool xway_conn_stop(struct xway_conn *conn)
{
	if (!refcount_inc_not_zero(&conn->ref))
		return false;
	rcu_read_unlock();
	return true;
}

/**
 * xway_conn_continue() - go on with a walk of xway_conns
 * @conn: connection for which xway_conn_stop() was true
 *
 * Context: process, may sleep. An RCU read-side section begins.
 */
static inline void xway_conn_continue(struct xway_conn *conn)
{
	cond_resched();
	rcu_read_lock();
	xway_conn_put(conn);
}

/*
 * Has a user inside the kernel taken the socket over? It reads past our calls. The socket
 * is locked.
 */
static inline bool xway_conn_taken(struct xway_conn *conn, const struct sock *sk)
{
	return READ_ONCE(sk->sk_data_ready) != conn->data_ready && xway_reader_changed(conn, sk);
}

/* The same, by a look from outside */
static inline bool xway_conn_seems_taken(const struct xway_conn *conn, const struct sock *sk)
{
	return READ_ONCE(sk->sk_data_ready) != READ_ONCE(conn->data_ready) &&
	       !xway_reader_fits(sk);
}

/* Is it called back with the socket locked, instead of being woken? */
static inline bool xway_conn_inside(const struct xway_conn *conn)
{
	return READ_ONCE(conn->data_ready) != xway_base_data_ready;
}

/*
 * For the helpers. One that resets a connection may wait for a user of its socket whose
 * page fault never ends, so links have a workqueue of their own.
 */
extern struct workqueue_struct *xway_conn_wq;

/* rx.c */
#define XWAY_AGAIN_FAULT 1024	/* errno for the caller: fault in, try again */

void xway_rx_update(struct xway_conn *conn);
bool xway_rx_advance(struct xway_conn *conn, struct sock *sk);
bool xway_rx_done(struct xway_conn *conn);
u32 xway_rx_avail(struct xway_conn *conn);
int xway_rx_ring(struct xway_conn *conn, struct msghdr *msg, size_t len,
		 int flags, u32 peek_off);
u32 xway_rx_peek_next(struct xway_conn *conn, struct msghdr *msg, size_t len,
		      int flags);
u32 xway_rx_inq(struct xway_conn *conn, const struct sock *sk, u32 tcp);
bool xway_rx_readable(struct xway_conn *conn, struct sock *sk, bool tcp);
bool xway_rx_empty(const struct xway_conn *conn);
bool xway_rx_low(struct xway_conn *conn, const struct sock *sk);
void xway_rx_arm(struct xway_conn *conn, const struct sock *sk);
void xway_rx_arm_next(struct xway_conn *conn);
void xway_rx_disarm(struct xway_conn *conn);
int xway_rx_spill(struct xway_conn *conn, bool forced);
void xway_rx_cut(struct xway_conn *conn);
void xway_rx_discard(struct xway_conn *conn);
bool xway_rx_charge(struct xway_conn *conn, u32 pages);
void xway_rx_free(struct xway_conn *conn);

/* requeue.c */
int xway_rx_requeue(struct xway_conn *conn, struct sock *sk);
bool xway_rx_requeued(const struct xway_conn *conn, const struct sock *sk);

/* tx.c */
bool xway_tx_to_ring(struct xway_conn *conn, struct sock *sk);
void xway_tx_to_tcp(struct xway_conn *conn, struct sock *sk);
void xway_tx_discard(struct xway_conn *conn);
bool xway_tx_is_cut(struct xway_conn *conn);
bool xway_tx_resend(struct xway_conn *conn, struct sock *sk);
bool xway_tx_keep(struct xway_conn *conn, struct sock *sk);
bool xway_tx_may_fin(struct xway_conn *conn, struct sock *sk);
bool xway_tx_cut_late(struct xway_conn *conn);
void xway_tx_free(struct xway_conn *conn);
int xway_tx_put(struct xway_conn *conn, struct sock *sk, struct msghdr *msg,
		u32 before, bool faulted);
u32 xway_tx_look(struct xway_conn *conn, const struct sock *sk);
u32 xway_tx_backlog(struct xway_conn *conn, const struct sock *sk);
bool xway_tx_empty(struct xway_conn *conn);
bool xway_tx_writeable(struct xway_conn *conn, const struct sock *sk);
bool xway_tx_stalled(struct xway_conn *conn, struct sock *sk,
		     unsigned long *waited);

#endif /* _XWAY_CONN_H */
