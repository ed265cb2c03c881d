// SPDX-License-Identifier: GPL-2.0
/*
 * Requeue: puts spilled bytes into TCP's receive queue, so that a socket can be
 * detached at once, whether the program reads or not.
 *
 * The bytes go to their place in the stream. To make room for them, the
 * sequence numbers of unread bytes before them are lowered. That is safe: TCP
 * compares copied_seq and the numbers of queued buffers with each other and
 * with rcv_nxt, and never sends them. A buffer may begin before the place from
 * which it is read, as after a retransmission.
 */
#include <linux/skbuff.h>
#include <net/tcp.h>

#include "calls.h"
#include "conn.h"

/*
 * Jiffies for which a mark may wait for TCP's bytes, if TCP has room for them and gets
 * fewer than LATE_BYTES more. They may be lost and sent again. But a peer can announce
 * bytes that it never sends, and the socket would stay attached for them.
 */
#define LATE (20 * 60 * HZ)
#define LATE_BYTES 65536

/*
 * A buffer of spilled bytes from index @at on. It takes references on their
 * pages and copies nothing.
 */
static struct sk_buff *skb_of_ring(struct xway_rx *rx, struct sock *sk, u32 at)
{
	struct sk_buff *skb = alloc_skb(0, GFP_KERNEL);
	u32 nr, off, n, i;

	if (!skb)
		return NULL;
	for (i = 0; i < MAX_SKB_FRAGS && at != rx->prod; i++, at += n) {
		struct page *page;

		nr = (at & (rx->size - 1)) / RING_PAGE_SIZE;
		off = at & (RING_PAGE_SIZE - 1);
		n = min_t(u32, RING_PAGE_SIZE - off, rx->prod - at);
		page = virt_to_page(rx->pages[nr]);
		get_page(page);
		skb_add_rx_frag(skb, i, page, off, n, PAGE_SIZE);
	}
	skb->ip_summed = CHECKSUM_UNNECESSARY;
	TCP_SKB_CB(skb)->tcp_flags = TCPHDR_ACK;
	/* As in rx_stamp(): they came no later than now. */
	if (xway_rx_stamps(sk)) {
		skb->tstamp = ktime_get_real();
		TCP_SKB_CB(skb)->has_rxtstamp = 1;
	}
	if (!sk_rmem_schedule(sk, skb, skb->truesize)) {
		kfree_skb(skb);
		return NULL;
	}
	skb_set_owner_r(skb, sk);
	return skb;
}

/*
 * TCP has joined bytes from before and after @seq in one buffer. Split it at
 * @seq.
 * Return: the second buffer, queued behind the first; NULL without memory.
 */
static struct sk_buff *skb_cut(struct sock *sk, struct sk_buff *skb, u32 seq)
{
	struct sk_buff *tail = skb_clone(skb, GFP_KERNEL);

	if (!tail)
		return NULL;
	if (!sk_rmem_schedule(sk, tail, tail->truesize) ||
	    pskb_trim(skb, seq - TCP_SKB_CB(skb)->seq)) {
		kfree_skb(tail);
		return NULL;
	}
	skb_set_owner_r(tail, sk);
	TCP_SKB_CB(skb)->end_seq = seq;
	TCP_SKB_CB(skb)->tcp_flags &= ~TCPHDR_FIN;
	__skb_queue_after(&sk->sk_receive_queue, skb, tail);
	return tail;
}

/*
 * Return: the buffer before which bytes at @seq belong; the list's head if they
 * belong at the end; NULL without memory.
 */
static struct sk_buff *place_of(struct sock *sk, u32 seq)
{
	u32 unread = tcp_sk(sk)->copied_seq;
	struct sk_buff *skb;

	skb_queue_walk(&sk->sk_receive_queue, skb) {
		if (!before(TCP_SKB_CB(skb)->seq, seq) || !after(seq, unread))
			return skb;
		if (after(TCP_SKB_CB(skb)->end_seq, seq))
			return skb_cut(sk, skb, seq);
		unread = TCP_SKB_CB(skb)->end_seq;
	}
	return (struct sk_buff *)&sk->sk_receive_queue;
}

/* Make buffers of all spilled bytes. Return: false without memory. */
static bool ring_buffers(struct xway_rx *rx, struct sock *sk,
			 struct sk_buff_head *list)
{
	struct sk_buff *skb;
	u32 at;

	__skb_queue_head_init(list);
	for (at = rx->cons; at != rx->prod; at += skb->len) {
		skb = skb_of_ring(rx, sk, at);
		if (!skb) {
			__skb_queue_purge(list);
			return false;
		}
		__skb_queue_tail(list, skb);
	}
	return true;
}

/*
 * Put @list, which has @total bytes, before @next, so that it ends at @seq.
 * With @fin its last buffer also carries the FIN that was read there.
 */
static void insert(struct sock *sk, struct sk_buff_head *list, u32 total,
		   struct sk_buff *next, u32 seq, bool fin)
{
	struct sk_buff *skb;

	skb_queue_walk(&sk->sk_receive_queue, skb) {
		if (skb == next)
			break;
		TCP_SKB_CB(skb)->seq -= total;
		TCP_SKB_CB(skb)->end_seq -= total;
	}
	seq -= total;
	while ((skb = __skb_dequeue(list))) {
		TCP_SKB_CB(skb)->seq = seq;
		seq += skb->len;
		TCP_SKB_CB(skb)->end_seq = seq;
		if (fin && skb_queue_empty(list)) {
			TCP_SKB_CB(skb)->tcp_flags |= TCPHDR_FIN;
			TCP_SKB_CB(skb)->end_seq++;
		}
		__skb_queue_before(&sk->sk_receive_queue, next, skb);
	}
}

/*
 * The most bytes that a receive buffer may have, however large rings are and
 * however often the connection parks: twice what TCP's tuning may give it, or
 * what the user has set.
 */
static int rcvbuf_most(const struct sock *sk)
{
	int tuned = READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_rmem[2]);

	return max(READ_ONCE(sk->sk_rcvbuf), 2 * min(tuned, INT_MAX / 2));
}

/* TCP has offered a window. Make room for it beside what is queued. */
static void rcvbuf_fit(struct sock *sk)
{
	s64 need = atomic_read(&sk->sk_rmem_alloc) +
		   2LL * tcp_receive_window(tcp_sk(sk));

	if (need > READ_ONCE(sk->sk_rcvbuf))
		WRITE_ONCE(sk->sk_rcvbuf, min_t(s64, need, rcvbuf_most(sk)));
}

/*
 * TCP's bytes from before the spilled ones are not here. Is that so for too long? It does
 * not count as long as the window is closed: then the program is to read first.
 */
static bool too_late(struct xway_rx *rx, const struct tcp_sock *tp)
{
	if (!rx->late_at || !tcp_receive_window(tp) ||
	    tp->rcv_nxt - rx->late_seq >= LATE_BYTES) {
		rx->late_at = (u32)jiffies ?: 1;
		rx->late_seq = tp->rcv_nxt;
		return false;
	}
	return (s32)((u32)jiffies - rx->late_at - LATE) > 0;
}

/**
 * xway_rx_requeue() - put spilled bytes into TCP's receive queue
 * @conn: connection whose peer sends by TCP, its rx.lock held
 * @sk: its socket, locked
 *
 * Context: process, may sleep.
 * Return: 0 if all unread bytes are in TCP's queue now; -EAGAIN if TCP bytes
 * from before them are under way, memory is short, or TCP's queue is as long as
 * it may be; -EILSEQ if a user inside the kernel has read past their place, so
 * that only a reset is honest; -ETIME if TCP bytes from before them have not come for so
 * long that the caller is to reset the connection, too. Then they are forgotten.
 */
int xway_rx_requeue(struct xway_conn *conn, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct xway_rx *rx = &conn->rx;
	/* Where the ring stretch began; the last stretch that is seen is one of
	 * TCP.
	 */
	u32 seq = rx->mark[1].seq, total = rx->prod - rx->cons;
	struct sk_buff_head list;
	struct sk_buff *next;
	bool fin;

	lockdep_assert_held(&rx->lock);
	sock_owned_by_me(sk);
	if (xway_rx_done(conn))
		return 0;
	if (!rx->spilled || (rx->seen & 1) ||
	    test_bit(XWAY_F_BAD, &conn->flags))
		return -EAGAIN;
	if (rx->mark[0].idx != rx->prod ||
	    (!(rx->gen & 1) && rx->mark[1].idx != rx->cons)) {
		xway_conn_bad(conn);
		return -EAGAIN;
	}
	if (!total) {
		xway_rx_discard(conn);
		return 0;
	}
	/* The reader may have taken the FIN with the last byte before it. */
	fin = sock_flag(sk, SOCK_DONE) && tp->copied_seq == tp->rcv_nxt;
	/* A reader of ours that is in the ring stretch has not gone on, so its
	 * bytes belong at copied_seq. TCP may have passed an urgent byte.
	 */
	if ((rx->gen & 1) && !xway_conn_taken(conn, sk))
		seq = tp->copied_seq - fin;
	fin = fin && tp->copied_seq == seq + 1;
	if (after(tp->copied_seq, seq + fin))
		return -EILSEQ;
	if (after(seq, tp->rcv_nxt)) {
		/* One that parks stays attached in any case, and so waits as long as TCP. */
		bool late = !test_bit(XWAY_F_PARK, &conn->flags) && too_late(rx, tp);

		if (sk->sk_state != TCP_CLOSE && !late)
			return -EAGAIN;
		/* TCP's bytes before them will never come, and so these are
		 * lost, too.
		 */
		xway_rx_discard(conn);
		return sk->sk_state != TCP_CLOSE ? -ETIME : 0;
	}
	rx->late_at = 0;
	if (tp->urg_data && before(tp->urg_seq, seq))
		return -EAGAIN;
	/* A peer that fills ring after ring for a program that does not read
	 * must wait.
	 */
	if (atomic_read(&sk->sk_rmem_alloc) > rcvbuf_most(sk))
		return -EAGAIN;
	next = place_of(sk, seq);
	if (!next || !ring_buffers(rx, sk, &list))
		return -EAGAIN;

	insert(sk, &list, total, next, seq, fin);
	WRITE_ONCE(tp->copied_seq, tp->copied_seq - total - fin);
	/* TCP measures with it how fast the program reads: begin anew. */
	tp->rcvq_space.seq = tp->copied_seq;
	rcvbuf_fit(sk);

	rx->ring_bytes += total;
	WRITE_ONCE(rx->requeued, seq);
	WRITE_ONCE(rx->was_requeued, true);
	xway_rx_discard(conn);
	xway_reader_to_tcp(sk);
	return 0;
}

/**
 * xway_rx_requeued() - has TCP's queue unread bytes that came by ring?
 * @conn: connection whose bytes were requeued, or not
 * @sk: its socket
 *
 * These bytes are more than TCP may keep unread.
 *
 * Context: any.
 * Return: true until the last of them is read.
 */
bool xway_rx_requeued(const struct xway_conn *conn, const struct sock *sk)
{
	return READ_ONCE(conn->rx.was_requeued) &&
	       before(READ_ONCE(tcp_sk(sk)->copied_seq),
		      READ_ONCE(conn->rx.requeued));
}
