// SPDX-License-Identifier: GPL-2.0
/*
 * Packets of TCP's that are held until the peer has read them. The frame is in the ring, so
 * the packet might be freed at once. But TCP takes that for a device that has nothing to do:
 * as long as one of its packets is with the device it collects what the program writes in
 * small parts, and sends that as one (tcp_should_autocork()). Freed at once, each part is a
 * packet, with all the work that a packet is, at both ends.
 *
 * Held is what TCP may wait for to some use: a short packet after another one, of a connection
 * with unacknowledged ones, while the peer is behind. So a request, whose answer the program
 * waits for, and a stream of large packets ask for no event. That the peer has read a packet
 * is found where this end writes or polls, and at the latest by an event that the peer is
 * asked for. A peer that does not read holds it for MM_HELD_TIME to twice as long.
 *
 * All of this holds the queue's tx lock.
 */
#include <net/tcp.h>

#include "mmnet.h"

/* Longer ones are as good as what TCP might collect. */
#define MM_HELD_LEN	(32u << 10)
/* At a time; a ring of short frames would be many times as much memory. */
#define MM_HELD_MAX	256u
#define MM_HELD_TIME	(HZ / 2)

/* In a held packet's @cb */
struct held {
	unsigned long since;	/* in jiffies */
	u32 end;		/* of its record in the own ring */
};

static struct held *held(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct held) > sizeof(skb->cb));
	return (struct held *)skb->cb;
}

/* Had the peer read all before this packet? */
static bool caught_up(const struct mm_queue *q, const struct sk_buff *skb)
{
	return q->prod - q->cons == mm_space(skb->len);
}

/*
 * Is it a connection with unacknowledged packets? That may change at any time: its lock is not
 * held. A socket that is not a full one, as SYN-ACKs have it, is shorter than what is read here.
 */
static bool has_more(const struct sock *sk)
{
	return sk && sk_fullsock(sk) && sk_is_tcp(sk) && READ_ONCE(tcp_sk(sk)->packets_out);
}

/**
 * mm_held_add() - hold a packet that has been written, if its sender may wait for it
 * @q: the queue
 * @skb: the packet, whose record ends at @prod of @q
 *
 * Return: false if the caller is to free it.
 */
bool mm_held_add(struct mm_queue *q, struct sk_buff *skb)
{
	bool after_short = q->after_short;

	if (skb_is_tcp_pure_ack(skb))
		return false;
	q->after_short = skb->len <= MM_HELD_LEN;
	if (!after_short || !q->after_short || caught_up(q, skb) || !has_more(skb->sk) ||
	    skb_zcopy(skb) || skb_queue_len(&q->held) >= MM_HELD_MAX)
		return false;
	/* What it refers to is free, but for its socket. */
	skb_dst_drop(skb);
	nf_reset_ct(skb);
	held(skb)->since = jiffies;
	held(skb)->end = q->prod;
	__skb_queue_tail(&q->held, skb);
	queue_delayed_work(mm_wq, &q->held_work, MM_HELD_TIME);
	mm_add(q, MM_TX_HELD, 1);
	return true;
}

/**
 * mm_held_take() - take those out that the peer has read
 * @q: the queue, of which @cons was just looked at
 * @done: to which they are added, for the caller to free
 */
void mm_held_take(struct mm_queue *q, struct sk_buff_head *done)
{
	struct sk_buff *skb;

	while ((skb = skb_peek(&q->held)) && (s32)(q->cons - held(skb)->end) >= 0) {
		__skb_unlink(skb, &q->held);
		__skb_queue_tail(done, skb);
	}
}

/**
 * mm_held_end() - where the last record of those ends that are held
 * @q: the queue, which holds some
 */
u32 mm_held_end(const struct mm_queue *q)
{
	return held(skb_peek_tail(&q->held))->end;
}

static void free_until(struct mm_queue *q, unsigned long since)
{
	struct sk_buff *skb;

	while ((skb = skb_peek(&q->held)) && time_before_eq(held(skb)->since, since)) {
		__skb_unlink(skb, &q->held);
		dev_consume_skb_any(skb);
	}
}

/**
 * mm_held_expire() - hold no packet for too long; look again while there are some
 * @q: the queue
 */
void mm_held_expire(struct mm_queue *q)
{
	free_until(q, jiffies - MM_HELD_TIME);
	if (!skb_queue_empty(&q->held))
		queue_delayed_work(mm_wq, &q->held_work, MM_HELD_TIME);
}

/**
 * mm_held_free() - hold no packet any longer
 * @q: the queue
 */
void mm_held_free(struct mm_queue *q)
{
	free_until(q, jiffies);
}
