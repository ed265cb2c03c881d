// SPDX-License-Identifier: GPL-2.0
/* Tests of receiving. A test writes what the active end would; the passive end reads. */
#include <linux/uio.h>

#include "ends.h"

static void sent(u32 gen, u32 seq, u32 idx)
{
	struct xway_words *peer = conn[A]->chan.own;

	peer->mark[gen & 1].seq = seq;
	peer->mark[gen & 1].idx = idx;
	peer->gen = gen;
	xway_rx_update(conn[P]);
}

/* Put bytes that tell their index; returns the new index. */
static u32 put(u32 from, u32 n)
{
	u32 i;

	for (i = from; i != from + n; i++) {
		u32 len = 1;

		*(u8 *)xway_ring_at(conn[A]->tx.pages, i, conn[A]->tx.size,
				    &len) = i * 7 >> 3;
	}
	xway_own(conn[A])->prod = i;
	return i;
}

/* Read up to 4096 bytes; returns how many came, or -1 if one was wrong. */
static int get(u32 from, u32 len)
{
	static u8 buf[4096];
	struct kvec vec = { buf, len };
	struct msghdr msg = {};
	int n, i;

	iov_iter_kvec(&msg.msg_iter, READ, &vec, 1, len);
	n = xway_rx_ring(conn[P], &msg, len, 0, 0);
	if (n >= 0 && msg_data_left(&msg) != len - n)
		return -1;
	for (i = 0; i < n; i++)
		if (buf[i] != (u8)((from + i) * 7 >> 3))
			return -1;
	return n;
}

static bool readable(bool tcp)
{
	return xway_rx_readable(conn[P], (struct sock *)tp[P], tcp);
}

static bool advance(void)
{
	return xway_rx_advance(conn[P], (struct sock *)tp[P]);
}

/* TCP, ring, TCP, from a given index, generation and sequence number */
static bool rx_walk(u32 at, u32 gen, u32 seq)
{
	struct xway_rx *rx = &conn[P]->rx;
	u32 till;

	start_at(at, gen);
	tp[P]->copied_seq = seq - 100;
	tp[P]->rcv_nxt = seq;
	EXPECT(!advance() && !readable(false) && readable(true));
	EXPECT(xway_rx_done(conn[P]));
	sent(gen + 1, seq, at);
	put(at, 3000);
	EXPECT(rx->seen == gen + 1 && !xway_rx_done(conn[P]));
	EXPECT(!advance() && !readable(false));
	tp[P]->copied_seq = seq - 1;
	EXPECT(!advance() && !readable(false) && readable(true));
	tp[P]->copied_seq = seq;
	EXPECT(readable(false));
	EXPECT(advance() && rx->gen == gen + 1 && !advance());
	EXPECT(xway_own(conn[P])->gen_done == gen + 1);
	EXPECT(xway_rx_avail(conn[P]) == 3000 && readable(false));
	EXPECT(get(at, 2000) == 2000 && xway_own(conn[P])->cons == at + 2000);
	EXPECT(get(at + 2000, 2000) == 1000 && !readable(true));
	EXPECT(get(at + 3000, 1) == 0);

	/* Bytes beyond the end of the stretch are not of it. */
	till = put(at + 3000, 500);
	sent(gen + 2, seq, till);
	put(till, 100);
	tp[P]->rcv_nxt = seq + 10;
	EXPECT(!advance() && readable(false));
	EXPECT(xway_rx_avail(conn[P]) == 500);
	EXPECT(get(at + 3000, 2000) == 500 && get(till, 1) == 0);
	EXPECT(readable(true));
	EXPECT(advance() && rx->gen == gen + 2 && !advance());
	EXPECT(xway_own(conn[P])->gen_done == gen + 2 && xway_rx_done(conn[P]));
	EXPECT(readable(true) && !readable(false));
	EXPECT(!violated(P));
	return true;
}

static bool rx_walks(void)
{
	EXPECT(rx_walk(0, 0, 5000));
	EXPECT(rx_walk(0xfffff800, 0xfffffffe, 50));
	EXPECT(rx_walk(0x7ffffc00, 0x7ffffffe, 0x80000032));
	return true;
}

static u32 unread(void)
{
	return xway_rx_inq(conn[P], (struct sock *)tp[P], tp[P]->rcv_nxt - tp[P]->copied_seq);
}

/* Only what one call can read is unread, wherever the stream is. */
static bool rx_inq(u32 at, u32 gen, u32 seq)
{
	u32 till;

	start_at(at, gen);
	tp[P]->copied_seq = seq - 100;
	tp[P]->rcv_nxt = seq - 100;
	EXPECT(!unread());
	tp[P]->rcv_nxt = seq - 40;
	EXPECT(unread() == 60);
	/* TCP's last bytes come after the ring's first ones. */
	sent(gen + 1, seq, at);
	till = put(at, 3000);
	EXPECT(unread() == 60);
	tp[P]->rcv_nxt = seq - 1;
	EXPECT(unread() == 99);
	tp[P]->rcv_nxt = seq;
	EXPECT(unread() == 3100);
	/* Back to TCP */
	sent(gen + 2, seq, till);
	EXPECT(unread() == 3100);
	tp[P]->rcv_nxt = seq - 1;
	EXPECT(unread() == 99);
	tp[P]->rcv_nxt = seq + 10;
	EXPECT(unread() == 3110);
	tp[P]->copied_seq = seq;
	EXPECT(unread() == 3010 && advance());
	EXPECT(unread() == 3010 && get(at, 1000) == 1000);
	EXPECT(unread() == 2010 && get(at + 1000, 2000) == 2000);
	EXPECT(unread() == 10 && advance() && unread() == 10);
	EXPECT(!violated(P));
	return true;
}

static bool rx_inqs(void)
{
	EXPECT(rx_inq(0, 0, 5000));
	EXPECT(rx_inq(0xfffff800, 0xfffffffe, 50));
	EXPECT(rx_inq(0x7ffffc00, 0x7ffffffe, 0x80000032));
	return true;
}

/* FIN takes a sequence number: the reader may be past the mark by one. */
static bool rx_after_fin(void)
{
	sent(1, 1000, 0);
	put(0, 10);
	tp[P]->copied_seq = 1001;
	EXPECT(advance() && get(0, 10) == 10);
	return true;
}

/* Two switches at once: there and back again with nothing between */
static bool rx_two_marks(void)
{
	xway_own(conn[A])->mark[1].seq = 1000;
	xway_own(conn[A])->mark[1].idx = 0;
	sent(2, 1000, 0);
	tp[P]->copied_seq = 1000;
	tp[P]->rcv_nxt = 1001;
	EXPECT(conn[P]->rx.seen == 2 && readable(true));
	EXPECT(advance() && advance() && !advance());
	EXPECT(xway_rx_done(conn[P]) && !violated(P));
	return true;
}

static void on_ring(u32 at)
{
	start_at(at, 0);
	sent(1, 1000, at);
	tp[P]->copied_seq = 1000;
	advance();
}

static bool rx_prod_lies(void)
{
	u32 size = conn[P]->rx.size, at = 0xfffff000;

	on_ring(at);
	xway_own(conn[A])->prod = at + size;
	EXPECT(xway_rx_avail(conn[P]) == size && !violated(P));
	xway_own(conn[A])->prod = at + size + 1;
	EXPECT(get(at, 4096) == 0 && violated(P));
	xway_own(conn[A])->prod = at - 1;
	EXPECT(get(at, 4096) == 0);
	EXPECT(conn[P]->rx.cons == at && xway_own(conn[P])->cons == at);
	/* What is copied out for later is what was seen before. */
	EXPECT(!xway_rx_spill(conn[P], true));
	EXPECT(conn[P]->rx.spilled && conn[P]->rx.prod == at + size);
	return true;
}

/* Bytes that were there and are not any more */
static bool rx_prod_back(void)
{
	u32 at = 0xfffffff0;

	on_ring(at);
	put(at, 64);
	EXPECT(xway_rx_avail(conn[P]) == 64);
	EXPECT(get(at, 16) == 16 && xway_rx_avail(conn[P]) == 48 && !violated(P));
	xway_own(conn[A])->prod = at + 63;
	EXPECT(xway_rx_avail(conn[P]) == 0 && violated(P));
	EXPECT(conn[P]->rx.prod == at + 64);
	return true;
}

static bool rx_gen_lies(u32 gen, u32 lie)
{
	start_at(0, gen);
	clear_bit(XWAY_F_BAD, &conn[P]->flags);
	sent(lie, 0, 0);
	EXPECT(violated(P) && conn[P]->rx.seen == gen && !advance());
	return true;
}

static bool rx_gens_lie(void)
{
	EXPECT(rx_gen_lies(0, 3));
	EXPECT(rx_gen_lies(0, 0x80000001));
	EXPECT(rx_gen_lies(0, 0xffffffff));
	EXPECT(rx_gen_lies(7, 6));
	EXPECT(rx_gen_lies(7, 10));
	EXPECT(rx_gen_lies(0xffffffff, 2));
	/* Taking back what was seen and not yet passed */
	start_at(0, 0);
	clear_bit(XWAY_F_BAD, &conn[P]->flags);
	sent(1, tp[P]->copied_seq + 1, 0);
	EXPECT(!violated(P));
	sent(0, 0, 0);
	EXPECT(violated(P) && conn[P]->rx.seen == 1);
	return true;
}

static bool rx_mark_lies(u32 at, u32 n, u32 mark)
{
	on_ring(at);
	clear_bit(XWAY_F_BAD, &conn[P]->flags);
	put(at, n);
	sent(2, 1000, mark);
	EXPECT(get(at, 4096) == 0 && violated(P));
	EXPECT(xway_own(conn[P])->cons == at && !advance());
	return true;
}

static bool rx_marks_lie(void)
{
	EXPECT(rx_mark_lies(0, 100, 101));
	EXPECT(rx_mark_lies(100, 100, 99));
	EXPECT(rx_mark_lies(0xffffff00, 100, 0x7fffff00));
	/* A stretch of the ring begins where the last one ended. */
	start_at(50, 0);
	clear_bit(XWAY_F_BAD, &conn[P]->flags);
	sent(1, 1000, 51);
	tp[P]->copied_seq = 1000;
	EXPECT(!advance() && violated(P) && conn[P]->rx.gen == 0);
	return true;
}

static void ring(void)
{
	rcu_read_lock();
	xway_chan_post(&conn[A]->chan);
	rcu_read_unlock();
	look(P);
}

/* A reader is woken once for each arrival, unless it has read the bytes before. */
static bool rx_events(void)
{
	int i;

	start_at(0, 1);
	for (i = 1; i < 4; i++) {
		xway_own(conn[A])->prod++;
		ring();
		EXPECT(woken[P] == i);
		/* Nothing new */
		ring();
		EXPECT(woken[P] == i);
	}
	conn[P]->rx.cons = ++xway_own(conn[A])->prod;
	ring();
	EXPECT(woken[P] == 3 && !woken[A]);
	return true;
}

/* A peer that says that it falls back, and posts without end, costs looks alone. */
static bool posts_while_falling_back(void)
{
	struct xway_words *peer = xway_own(conn[A]);
	int i, moved = 0;
	bool queued;

	local_bh_disable();
	xway_conn_event(conn[P]);
	peer->flags |= XWAY_WORDS_FALLBACK | XWAY_WORDS_PARK;
	/* As if the helper had seen to it */
	conn[P]->rx.notified_flags = peer->flags;
	for (i = 0; i < 100; i++)
		moved += xway_conn_event(conn[P]);
	/* On one processor nobody has run it yet. */
	queued = work_busy(&conn[P]->work.work);
	local_bh_enable();
	EXPECT(!moved && !queued);
	return true;
}

const struct xway_test rx_tests[] = {
	{ "posts_while_falling_back", posts_while_falling_back, CHANNEL },
	{ "rx_events", rx_events, CHANNEL },
	{ "rx_walks", rx_walks, READING },
	{ "rx_inqs", rx_inqs, READING },
	{ "rx_after_fin", rx_after_fin, READING },
	{ "rx_two_marks", rx_two_marks, READING },
	{ "rx_prod_lies", rx_prod_lies, READING },
	{ "rx_prod_back", rx_prod_back, READING },
	{ "rx_gens_lie", rx_gens_lie, READING },
	{ "rx_marks_lie", rx_marks_lie, READING },
	{}
};
