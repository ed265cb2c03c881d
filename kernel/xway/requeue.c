// SPDX-License-Identifier: GPL-2.0
/*
 * Giving unread bytes of the ring to TCP, so that a socket can go back to it at
 * once, whoever reads and whenever.
 *
 * They go into TCP's receive queue, to their place in the stream. To make room
 * for them the sequence numbers of what is unread before them are lowered. That
 * is safe: TCP compares copied_seq and the numbers of queued buffers with each
 * other and with rcv_nxt, and never sends them.
 */
#include <linux/skbuff.h>
#include <net/tcp.h>

#include "conn.h"

/* Copy-free: the buffer takes references to the pages that were copied out. */
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
	if (!sk_rmem_schedule(sk, skb, skb->truesize)) {
		kfree_skb(skb);
		return NULL;
	}
	skb_set_owner_r(skb, sk);
	return skb;
}

/* TCP has joined what came before @seq and after it in one buffer: cut it. */
static struct sk_buff *skb_cut(struct sock *sk, struct sk_buff *skb, u32 seq)
{
	u32 off = seq - TCP_SKB_CB(skb)->seq, len = skb->len - off, at = off;
	struct sk_buff *tail;
	int err, i;

	tail = alloc_skb_with_frags(0, len, PAGE_ALLOC_COSTLY_ORDER, &err,
				    GFP_KERNEL);
	if (!tail)
		return NULL;
	tail->len = len;
	tail->data_len = len;
	for (i = 0; i < skb_shinfo(tail)->nr_frags; i++) {
		const skb_frag_t *frag = &skb_shinfo(tail)->frags[i];

		if (skb_copy_bits(skb, at, skb_frag_address(frag),
				  skb_frag_size(frag)))
			goto fail;
		at += skb_frag_size(frag);
	}
	if (!sk_rmem_schedule(sk, tail, tail->truesize) ||
	    pskb_trim(skb, off))
		goto fail;
	skb_set_owner_r(tail, sk);
	tail->ip_summed = CHECKSUM_UNNECESSARY;
	TCP_SKB_CB(tail)->seq = seq;
	TCP_SKB_CB(tail)->end_seq = TCP_SKB_CB(skb)->end_seq;
	TCP_SKB_CB(tail)->tcp_flags = TCP_SKB_CB(skb)->tcp_flags;
	TCP_SKB_CB(skb)->end_seq = seq;
	TCP_SKB_CB(skb)->tcp_flags &= ~TCPHDR_FIN;
	__skb_queue_after(&sk->sk_receive_queue, skb, tail);
	return tail;
fail:
	kfree_skb(tail);
	return NULL;
}

/*
 * The buffer before which bytes at @seq belong, the list's head if that is its
 * end; NULL without memory.
 */
static struct sk_buff *place_of(struct sock *sk, u32 seq)
{
	struct sk_buff *skb;

	skb_queue_walk(&sk->sk_receive_queue, skb) {
		if (!before(TCP_SKB_CB(skb)->seq, seq))
			return skb;
		if (after(TCP_SKB_CB(skb)->end_seq, seq))
			return skb_cut(sk, skb, seq);
	}
	return (struct sk_buff *)&sk->sk_receive_queue;
}

/**
 * xway_rx_requeue() - put what was copied out of the ring into TCP's queue
 * @conn: connection whose peer sends by TCP, its rx.lock held
 * @sk: its socket, locked
 *
 * Return: true if nothing but TCP's queue holds bytes now. False, and the caller
 * tries again, if bytes from before them are still under way or memory is short.
 * May sleep.
 */
bool xway_rx_requeue(struct xway_conn *conn, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct xway_rx *rx = &conn->rx;
	u32 seq = tp->copied_seq, total = 0;
	struct sk_buff *skb, *next;
	struct sk_buff_head ring;

	lockdep_assert_held(&rx->lock);
	sock_owned_by_me(sk);
	if (!rx->spilled || !rx->pages || (rx->seen & 1))
		return false;
	if (!(rx->gen & 1))	/* bytes of TCP are unread before them */
		seq = rx->mark[(rx->gen + 1) & 1].seq;
	if (after(seq, tp->rcv_nxt) ||
	    (tp->urg_data && before(tp->urg_seq, seq)))
		return false;
	next = place_of(sk, seq);
	if (!next)
		return false;

	__skb_queue_head_init(&ring);
	while (total != rx->prod - rx->cons) {
		skb = skb_of_ring(rx, sk, rx->cons + total);
		if (!skb) {
			__skb_queue_purge(&ring);
			return false;
		}
		__skb_queue_tail(&ring, skb);
		total += skb->len;
	}

	skb_queue_walk(&sk->sk_receive_queue, skb) {
		if (skb == next)
			break;
		TCP_SKB_CB(skb)->seq -= total;
		TCP_SKB_CB(skb)->end_seq -= total;
	}
	seq -= total;
	while ((skb = __skb_dequeue(&ring))) {
		TCP_SKB_CB(skb)->seq = seq;
		seq += skb->len;
		TCP_SKB_CB(skb)->end_seq = seq;
		__skb_queue_before(&sk->sk_receive_queue, next, skb);
	}
	WRITE_ONCE(tp->copied_seq, tp->copied_seq - total);
	/* Measures how fast the program reads: starts anew. */
	tp->rcvq_space.seq = tp->copied_seq;

	rx->ring_bytes += total;
	WRITE_ONCE(rx->cons, rx->prod);
	WRITE_ONCE(rx->gen, rx->seen);
	xway_rx_free(conn);
	if (xway_conn_taken(conn, sk)) {
		local_bh_disable();
		sk->sk_data_ready(sk);
		local_bh_enable();
	}
	return true;
}
