// SPDX-License-Identifier: GPL-2.0
/*
 * Receiving: which bytes come next, and reading them from the ring.
 *
 * A stream is a sequence of stretches: TCP up to a sequence number, ring up to
 * an index, TCP, and so on. rx.gen is the number of the stretch that is being
 * read.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <net/tcp.h>

#include "compat.h"
#include "conn.h"
#include "trace.h"

/*
 * The reader publishes its index after so many bytes, or after a sixteenth of a
 * larger ring, so that the writer can go on meanwhile.
 */
#define RX_STRETCH 16384u

/**
 * xway_rx_update() - learn of the peer's switches
 * @conn: connection, its rx.lock held
 *
 * Whoever has seen TCP bytes that came after a switch learns of that switch
 * here, because the sender stores the mark first.
 *
 * Context: process.
 */
void xway_rx_update(struct xway_conn *conn)
{
	const struct xway_words *peer;
	struct xway_rx *rx = &conn->rx;
	u32 gen, g;

	lockdep_assert_held(&rx->lock);
	rcu_read_lock();
	peer = rcu_dereference(conn->chan.peer);
	if (peer && !rx->spilled) {
		/* The number before the marks: pairs with tx_mark() at the peer. */
		gen = virt_load_acquire(&peer->gen);
		if (gen - rx->gen > 2 || (s32)(gen - rx->seen) < 0) {
			xway_conn_bad(conn);
			gen = rx->seen;
		}
		for (g = rx->seen + 1; g != gen + 1; g++) {
			rx->mark[g & 1].seq = READ_ONCE(peer->mark[g & 1].seq);
			rx->mark[g & 1].idx = READ_ONCE(peer->mark[g & 1].idx);
		}
		WRITE_ONCE(rx->seen, gen);
	}
	rcu_read_unlock();
}

/**
 * xway_rx_avail() - bytes of the ring that can be read now
 * @conn: connection, its rx.lock held
 *
 * Context: process.
 * Return: bytes from rx.cons up to the peer's index or the end of the stretch.
 */
u32 xway_rx_avail(struct xway_conn *conn)
{
	const struct xway_words *peer;
	struct xway_rx *rx = &conn->rx;
	u32 n, end, prod = rx->prod;

	if (!rx->spilled) {
		rcu_read_lock();
		peer = rcu_dereference(conn->chan.peer);
		if (peer) {
			/* The index before the bytes: pairs with
			 * xway_tx_publish() at the peer.
			 */
			prod = virt_load_acquire(&peer->prod);
		}
		rcu_read_unlock();
	}
	/* One that went to and fro would keep those looking who wait for it to change. */
	if (!xway_ring_unread(prod, rx->cons, rx->size, &n) ||
	    n < rx->prod - rx->cons) {
		xway_conn_bad(conn);
		return 0;
	}
	WRITE_ONCE(rx->prod, prod);
	if ((rx->gen & 1) && rx->seen != rx->gen) {
		end = rx->mark[(rx->gen + 1) & 1].idx - rx->cons;
		if (end > n) {
			xway_conn_bad(conn);
			return 0;
		}
		n = end;
	}
	return n;
}

/**
 * xway_rx_advance() - go on to the next stretch if this one is read
 * @conn: connection, its rx.lock held
 * @sk: its socket
 *
 * Context: process.
 * Return: true if it went on.
 */
bool xway_rx_advance(struct xway_conn *conn, struct sock *sk)
{
	struct xway_rx *rx = &conn->rx;
	u32 next = (rx->gen + 1) & 1;

	lockdep_assert_held(&rx->lock);
	if (rx->gen == rx->seen)
		return false;
	if (rx->gen & 1) {
		if (rx->cons != rx->mark[next].idx)
			return false;
	} else {
		/* copied_seq may be one more than the mark: FIN takes a
		 * sequence number, too.
		 */
		if (before(READ_ONCE(tcp_sk(sk)->copied_seq),
			   rx->mark[next].seq))
			return false;
		if (rx->cons != rx->mark[next].idx) {
			xway_conn_bad(conn);
			return false;
		}
	}
	WRITE_ONCE(rx->gen, rx->gen + 1);
	rcu_read_lock();
	if (rcu_access_pointer(conn->chan.peer))
		WRITE_ONCE(xway_own(conn)->gen_done, rx->gen);
	rcu_read_unlock();
	return true;
}

/**
 * xway_rx_done() - has everything that came by ring been read?
 * @conn: connection
 *
 * Context: any; certain only while its rx.lock is held.
 * Return: true if the stream is on TCP and no switch is known.
 */
bool xway_rx_done(struct xway_conn *conn)
{
	return !(conn->rx.gen & 1) && conn->rx.gen == conn->rx.seen;
}

/* Let the peer see that there is more room: pairs with tx_used() there. */
static void rx_publish(struct xway_conn *conn, u32 old)
{
	const struct xway_words *peer;

	if (conn->rx.spilled)
		return;
	rcu_read_lock();
	peer = rcu_dereference(conn->chan.peer);
	if (peer && xway_ring_publish(&xway_own(conn)->cons, conn->rx.cons, old,
				      &peer->want_room))
		xway_chan_post(&conn->chan);
	rcu_read_unlock();
}

/*
 * Copy what lies in one piece; with MSG_TRUNC only count it. Page faults are
 * off while the peer's pages are read, so that unmapping never waits for a
 * user's fault handler.
 *
 * @len: in: bytes wanted; out: bytes of these that are in the piece
 *
 * Return: bytes copied.
 */
static u32 rx_copy(const struct xway_rx *rx, struct msghdr *msg, u32 idx,
		   u32 *len, int flags)
{
	void *at = xway_ring_at(rx->pages, idx, rx->size, len);
	u32 got;

	if (flags & MSG_TRUNC)
		return *len;
	pagefault_disable();
	got = _copy_to_iter(at, *len, &msg->msg_iter);	/* as in xway_tx_copy() */
	pagefault_enable();
	return got;
}

/**
 * xway_rx_ring() - copy bytes out of the ring
 * @conn: connection that reads a ring stretch, its rx.lock held
 * @msg: where to
 * @len: at most so many bytes
 * @flags: MSG_PEEK and MSG_TRUNC count
 * @peek_off: with MSG_PEEK, bytes to pass over
 *
 * Context: process.
 * Return: bytes copied; 0 if there are none; -XWAY_AGAIN_FAULT if the caller
 * must fault in the user's memory without rx.lock and try again.
 */
int xway_rx_ring(struct xway_conn *conn, struct msghdr *msg, size_t len,
		 int flags, u32 peek_off)
{
	struct xway_rx *rx = &conn->rx;
	u32 avail = xway_rx_avail(conn), done = 0, start = rx->cons;
	u32 stretch = max(RX_STRETCH, rx->size / 16), published = start;

	lockdep_assert_held(&rx->lock);
	if (flags & MSG_PEEK) {
		if (peek_off >= avail)
			return 0;
		start += peek_off;
		avail -= peek_off;
	}
	len = min_t(size_t, len, avail);
	while (done < len) {
		u32 n = min_t(u32, len - done, stretch - done % stretch);
		u32 got = rx_copy(rx, msg, start + done, &n, flags);

		done += got;
		if (!(flags & MSG_PEEK)) {
			WRITE_ONCE(rx->cons, start + done);
			if (rx->cons - published >= stretch) {
				rx_publish(conn, published);
				published = rx->cons;
			}
		}
		if (got < n)
			break;
	}
	if (!(flags & MSG_PEEK) && rx->cons != published)
		rx_publish(conn, published);
	if (!(flags & MSG_PEEK))
		rx->ring_bytes += done;
	if (rx->spilled && rx->cons == rx->prod)
		xway_rx_free(conn);
	if (!done && len)
		return -XWAY_AGAIN_FAULT;
	return done;
}

/* Bytes of the ring stretch after the TCP stretch that is read, as far as they are there */
static u32 rx_avail_next(struct xway_conn *conn)
{
	struct xway_rx *rx = &conn->rx;
	u32 avail = xway_rx_avail(conn);

	if (rx->seen == rx->gen)
		return 0;
	if (rx->seen - rx->gen == 2)
		avail = min(avail, rx->mark[rx->gen & 1].idx - rx->cons);
	return avail;
}

/**
 * xway_rx_peek_next() - peek into the ring stretch after the TCP stretch
 * @conn: connection that reads a TCP stretch, its rx.lock held
 * @msg: where to
 * @len: at most so many bytes
 * @flags: with MSG_TRUNC bytes are only counted
 *
 * Context: process.
 * Return: bytes copied; fewer than there are if the user's memory is not there.
 */
u32 xway_rx_peek_next(struct xway_conn *conn, struct msghdr *msg, size_t len,
		      int flags)
{
	struct xway_rx *rx = &conn->rx;
	u32 done = 0;

	lockdep_assert_held(&rx->lock);
	len = min_t(size_t, len, rx_avail_next(conn));
	while (done < len) {
		u32 n = len - done;
		u32 got = rx_copy(rx, msg, rx->cons + done, &n, flags);

		done += got;
		if (got < n)
			break;
	}
	return done;
}

/**
 * xway_rx_inq() - unread bytes, of TCP and of the ring
 * @conn: connection, its rx.lock held
 * @sk: its socket
 * @tcp: unread bytes of TCP, looked at before
 *
 * These are the bytes that one call can read. The ring's may be here before TCP's that
 * come first: then they do not count yet, as TCP does not count what has come out of
 * order. What TCP has was sent before any switch that is not seen here.
 *
 * Context: process.
 * Return: bytes.
 */
u32 xway_rx_inq(struct xway_conn *conn, const struct sock *sk, u32 tcp)
{
	struct xway_rx *rx = &conn->rx;
	u32 first;

	lockdep_assert_held(&rx->lock);
	/* TCP's bytes before the marks: pairs with the release in tx_mark() at the peer. */
	smp_rmb();
	xway_rx_update(conn);
	if (rx->gen & 1)
		return xway_rx_avail(conn) + tcp;
	if (rx->seen == rx->gen)
		return tcp;
	/* TCP may have less than its stretch, or stop in it at an urgent byte. */
	first = rx->mark[(rx->gen + 1) & 1].seq - READ_ONCE(tcp_sk(sk)->copied_seq);
	return before(tcp, first) ? tcp : tcp + rx_avail_next(conn);
}

/**
 * xway_rx_readable() - is there something to read, as far as can be seen?
 * @conn: connection
 * @sk: its socket
 * @tcp: count TCP's bytes too (poll() counts them itself)
 *
 * A reader may be at work, because this takes no rx.lock. It may leave less
 * than is seen here, and looks again before it sleeps.
 *
 * Context: any.
 * Return: true if bytes of the ring or, with @tcp, of TCP can be read.
 */
bool xway_rx_readable(struct xway_conn *conn, struct sock *sk, bool tcp)
{
	const struct xway_words *peer;
	const struct tcp_sock *tp = tcp_sk(sk);
	struct xway_rx *rx = &conn->rx;
	u32 gen = READ_ONCE(rx->gen), seen, prod = READ_ONCE(rx->prod);
	const struct xway_mark *mark;
	u32 cons = READ_ONCE(rx->cons), have;
	bool ring = gen & 1, next_tcp = !ring;

	rcu_read_lock();
	peer = rcu_dereference(conn->chan.peer);
	if (READ_ONCE(rx->spilled))
		peer = NULL;
	seen = READ_ONCE(rx->seen);
	mark = rx->mark;
	if (peer && seen == gen) {
		/* The number before the marks: pairs with tx_mark() at the peer. */
		seen = virt_load_acquire(&peer->gen);
		mark = peer->mark;
	}
	if (seen != gen && ring)
		next_tcp = cons == READ_ONCE(mark[(gen + 1) & 1].idx);
	else if (seen != gen)
		ring = !before(READ_ONCE(tp->copied_seq),
			       READ_ONCE(mark[(gen + 1) & 1].seq));
	if (peer)
		/* As in xway_rx_avail(): pairs with xway_tx_publish() at the
		 * peer.
		 */
		prod = virt_load_acquire(&peer->prod);
	rcu_read_unlock();
	if (ring && prod != cons)
		return true;
	if (!tcp || !next_tcp)
		return false;
	have = READ_ONCE(tp->rcv_nxt) - READ_ONCE(tp->copied_seq);
	/* As in tcp_poll(): an urgent byte is not read with others, and a peek
	 * does not get past it.
	 */
	if (unlikely(READ_ONCE(tp->urg_data)) && have &&
	    READ_ONCE(tp->urg_seq) == READ_ONCE(tp->copied_seq) &&
	    !sock_flag(sk, SOCK_URGINLINE))
		have--;
	return have;
}

/**
 * xway_rx_empty() - has all that is in the peer's ring been read?
 * @conn: connection
 *
 * Takes no rx.lock, as xway_rx_readable().
 *
 * Context: any.
 * Return: false also without a channel.
 */
bool xway_rx_empty(const struct xway_conn *conn)
{
	const struct xway_words *peer;
	bool ret;

	rcu_read_lock();
	peer = rcu_dereference(conn->chan.peer);
	ret = peer && READ_ONCE(peer->prod) == READ_ONCE(conn->rx.cons);
	rcu_read_unlock();
	return ret;
}

/**
 * xway_rx_low() - has the ring less to read than SO_RCVLOWAT asks for?
 * @conn: connection that reads a ring stretch
 * @sk: its socket
 *
 * Takes no rx.lock, as xway_rx_readable().
 *
 * Context: any.
 * Return: true if the reader is to go on waiting.
 */
bool xway_rx_low(struct xway_conn *conn, const struct sock *sk)
{
	u32 low = READ_ONCE(sk->sk_rcvlowat), gen = READ_ONCE(conn->rx.gen);
	const struct xway_words *peer;
	bool ret = false;

	if (low <= 1 || READ_ONCE(conn->rx.spilled))
		return false;
	rcu_read_lock();
	peer = rcu_dereference(conn->chan.peer);
	/* If the rest comes by TCP, what is in the ring is enough: TCP does not
	 * count it when it decides to wake.
	 */
	if (peer && READ_ONCE(peer->gen) == gen)
		ret = READ_ONCE(peer->prod) - READ_ONCE(conn->rx.cons) < low;
	rcu_read_unlock();
	return ret;
}

/**
 * xway_rx_disarm() - ask for no event
 * @conn: connection
 *
 * An index that has been passed is not passed again soon.
 *
 * Context: any.
 */
void xway_rx_disarm(struct xway_conn *conn)
{
	rcu_read_lock();
	if (rcu_access_pointer(conn->chan.peer))
		WRITE_ONCE(xway_own(conn)->want_data, READ_ONCE(conn->rx.prod));
	rcu_read_unlock();
}

/**
 * xway_rx_arm_next() - ask for an event at the next byte that is put
 * @conn: connection
 *
 * For signals: each arrival is one, whether the last one was read or not.
 *
 * Context: any but hard interrupt.
 */
void xway_rx_arm_next(struct xway_conn *conn)
{
	const struct xway_words *peer;
	u32 prod, tries = 0;

	rcu_read_lock();
	peer = rcu_dereference(conn->chan.peer);
	/* A byte that came before the index was stored is not the next one. An
	 * honest peer does not put bytes 16 times meanwhile.
	 */
	if (peer) {
		do {
			prod = READ_ONCE(peer->prod);
			xway_ring_arm(&xway_own(conn)->want_data, prod + 1);
		} while (READ_ONCE(peer->prod) != prod && ++tries < 16);
		if (tries)
			xway_conn_queue(conn);	/* as in xway_rx_arm() */
	}
	rcu_read_unlock();
}

/**
 * xway_rx_arm() - ask for an event at the next byte; the caller looks again
 * @conn: connection
 * @sk: its socket
 *
 * No event comes as long as there are bytes that nobody has looked at.
 *
 * Context: any but hard interrupt.
 */
void xway_rx_arm(struct xway_conn *conn, const struct sock *sk)
{
	const struct xway_words *peer;
	u32 prod, tries = 0;

	if (unlikely(sock_flag(sk, SOCK_FASYNC))) {
		xway_rx_arm_next(conn);
		return;
	}
	rcu_read_lock();
	/* Another reader may have gone on and asked for a later index, or not
	 * have seen that somebody waits. So an older request must not stay.
	 */
	peer = rcu_dereference(conn->chan.peer);
	if (peer) {
		do {
			prod = READ_ONCE(conn->rx.prod);
			xway_ring_arm(&xway_own(conn)->want_data, prod + 1);
		} while (READ_ONCE(conn->rx.prod) != prod && ++tries);
		/* For a moment the older request stood in the place of another
		 * task's, which sleeps. Bytes that came in that moment passed
		 * neither index: wake all.
		 */
		if (tries && READ_ONCE(peer->prod) != prod)
			xway_conn_queue(conn);
	}
	rcu_read_unlock();
}

/* So many pages do not count against the peer any more. */
static void rx_uncharge(struct xway_conn *conn, u32 pages)
{
	if (!pages)	/* there may be no peer, see xway_no_link */
		return;
	conn->rx.charged -= pages;
	xway_peer_uncharge(conn->chan.link->peer, pages);
}

/**
 * xway_rx_charge() - may a connection read a ring of this size?
 * @conn: connection, its link's lock held
 * @pages: pages of the peer's ring
 *
 * The pages count against the peer from now on. What it leaves in the ring is
 * spilled, and counts until it is read.
 *
 * Context: process.
 * Return: true if they count now.
 */
bool xway_rx_charge(struct xway_conn *conn, u32 pages)
{
	lockdep_assert_held(&conn->chan.link->lock);
	if (!xway_peer_charge(conn->chan.link->peer, pages))
		return false;
	conn->rx.charged = pages;
	return true;
}

/**
 * xway_rx_free() - forget the peer's ring, or free the private copy of it
 * @conn: connection; its rx.lock is held, or nobody else uses it
 *
 * Context: any but hard interrupt.
 */
void xway_rx_free(struct xway_conn *conn)
{
	u32 i;

	if (conn->rx.spilled && conn->rx.pages)
		for (i = 0; i < conn->rx.size / PAGE_SIZE; i++)
			if (conn->rx.pages[i])
				free_page((unsigned long)conn->rx.pages[i]);
	kfree(conn->rx.pages);
	conn->rx.pages = NULL;
	rx_uncharge(conn, conn->rx.charged);
}

/**
 * xway_rx_discard() - forget what is unread in the ring
 * @conn: connection, its rx.lock held
 *
 * TCP has the bytes now, or nobody is to read them.
 *
 * Context: process.
 */
void xway_rx_discard(struct xway_conn *conn)
{
	struct xway_rx *rx = &conn->rx;

	lockdep_assert_held(&rx->lock);
	xway_rx_free(conn);
	WRITE_ONCE(rx->spilled, true);
	WRITE_ONCE(rx->prod, rx->cons);
	rx->seen = round_up(rx->seen, 2);
	WRITE_ONCE(rx->gen, rx->seen);
}

/*
 * Copy what is unread, from rx.cons to rx.prod, into private memory. From then on
 * nothing of the peer is looked at.
 */
static void rx_copy_out(struct xway_conn *conn)
{
	struct xway_rx *rx = &conn->rx;
	void **pages;
	u32 n, at, copied = 0;

	/* There is no way on without these bytes. Single pages can always be
	 * had.
	 */
	pages = kcalloc(rx->size / PAGE_SIZE, sizeof(*pages), GFP_KERNEL | __GFP_NOFAIL);
	for (at = rx->cons; at != rx->prod; at += n) {
		u32 nr = (at & (rx->size - 1)) / RING_PAGE_SIZE;
		void *from;

		n = min(rx->prod - at, RING_PAGE_SIZE - at % RING_PAGE_SIZE);
		from = xway_ring_at(rx->pages, at, rx->size, &n);
		if (!pages[nr]) {
			pages[nr] = (void *)__get_free_page(GFP_KERNEL |
							    __GFP_NOFAIL);
			copied++;
		}
		memcpy(pages[nr] + offset_in_page(from), from, n);
	}
	if (rx->prod != rx->cons) {
		xway_count(SPILLS);
		xway_count_add(SPILL_BYTES, rx->prod - rx->cons);
	}
	kfree(rx->pages);
	rx->pages = pages;
	WRITE_ONCE(rx->spilled, true);
	rx_uncharge(conn, rx->charged - copied);
	if (!copied)
		xway_rx_free(conn);
}

/* The peer's stretch on its ring ends at rx.prod, where it has written no mark. */
static void rx_end_stretch(struct xway_rx *rx)
{
	rx->seen++;
	rx->mark[rx->seen & 1].idx = rx->prod;
}

/**
 * xway_rx_cut() - end the peer's stretch on its ring alone, and spill it
 * @conn: connection whose own words say FALLBACK, its rx.lock held; the peer knows
 *	XWAY_WORDS_CUT
 *
 * The peer need not answer, so it may be paused. It learns from the own words, now or
 * when it runs again, up to which byte its ring was taken. It sends the bytes beyond
 * that by TCP before anything newer. TCP's sequence number stands still while the
 * ring carries the bytes, so these follow exactly.
 *
 * Nothing happens if the peer does not send by ring.
 *
 * Context: process, may sleep.
 */
void xway_rx_cut(struct xway_conn *conn)
{
	struct xway_words *own;
	struct xway_rx *rx = &conn->rx;
	bool bad;

	lockdep_assert_held(&rx->lock);
	if (rx->spilled || !rx->pages || !rcu_access_pointer(conn->chan.peer))
		return;
	xway_rx_update(conn);
	if (!(rx->seen & 1))
		return;
	own = xway_own(conn);
	/* This lock is that of the flags. It also keeps the time short in which the
	 * peer sees CUTTING without CUT, and would have to wait.
	 */
	spin_lock_bh(&conn->lock);
	WRITE_ONCE(own->flags, own->flags | XWAY_WORDS_CUTTING);
	/* CUTTING before the peer's number and index: pairs with the full barriers
	 * in xway_tx_to_tcp() and xway_tx_may_fin() at the peer, which store them
	 * and then look at the flag. One of the two sees the other: this end sees
	 * the last of what the peer has put, or the peer waits for CUT before its
	 * next byte, or its FIN, goes by TCP.
	 */
	virt_mb();
	xway_rx_update(conn);
	xway_rx_avail(conn);
	bad = test_bit(XWAY_F_BAD, &conn->flags);
	if (!bad) {
		WRITE_ONCE(own->cut, rx->prod);
		/* The index before the flag: pairs with tx_know_cut() at the peer. */
		virt_store_release(&own->flags, own->flags | XWAY_WORDS_CUT);
	}
	spin_unlock_bh(&conn->lock);
	/* The peer lies: the connection is reset. */
	if (bad)
		return;
	/* The flag before the question whether a post is due: pairs with
	 * doorbell_take() at the peer.
	 */
	virt_mb();
	xway_chan_post(&conn->chan);
	/* The peer may put more into its ring. That is beyond rx.prod, which is not
	 * read again. It leaves what is not taken as it is, since own->cons stays.
	 */
	rx_copy_out(conn);
	if (rx->seen & 1)
		rx_end_stretch(rx);
	xway_count(CUTS);
}

/**
 * xway_rx_spill() - copy what is unread in the peer's ring into private memory
 * @conn: connection with a channel, its rx.lock held
 * @forced: the peer sends no mark any more: take what it has published
 *
 * Afterwards nothing of the peer is needed to read on.
 *
 * Context: process, may sleep.
 * Return: 0; -EAGAIN, with nothing changed, if the peer is on its ring and may
 * put more there. Never -EAGAIN with @forced.
 */
int xway_rx_spill(struct xway_conn *conn, bool forced)
{
	struct xway_rx *rx = &conn->rx;

	lockdep_assert_held(&rx->lock);
	if (rx->spilled || !rx->pages)
		return 0;
	xway_rx_update(conn);
	if (!forced && (rx->seen & 1))
		return -EAGAIN;
	xway_rx_avail(conn);
	rx_copy_out(conn);
	if (forced && (rx->seen & 1)) {
		/* The stretch ends where the published bytes end. */
		rx->cut = true;
		rx_end_stretch(rx);
	}
	return 0;
}
