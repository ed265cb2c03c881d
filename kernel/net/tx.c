// SPDX-License-Identifier: GPL-2.0
/* Sending: frames are copied into the own ring. All of this holds the queue's tx lock. */
#include <net/sch_generic.h>

#include "mmnet.h"

/* How long packets may wait: netback's limit, too, for a guest that does not read */
#define MM_STALL	(10 * HZ)
/* ... and at least, for a peer that has stalled again and again lately */
#define MM_STALL_MIN	(HZ / 20)
#define MM_STRIKES	8
#define MM_FORGIVE	(600 * HZ)
/* Bytes a second that a peer takes at least while packets wait */
#define MM_STALL_RATE	(256u << 10)

/* What may wait of others' packets */
#define MM_WAIT_PACKETS	256u
#define MM_WAIT_BYTES	(2u << 20)

/* The peer's words. They stay while the caller holds the lock: let_go() takes it. */
static const struct mm_words *peer_of(const struct mm_chan *ch)
{
	return rcu_dereference_protected(ch->chan.peer, true);
}

/* Bytes of the own ring that may be written. Return: false if the peer breaks the rules. */
static bool room(struct mm_queue *q, struct mm_chan *ch, u32 *bytes)
{
	/* Pairs with the release of @cons in rx.c: what was there is read. */
	u32 cons = ring_load_acquire(&peer_of(ch)->cons), used;

	/* Nor can it have read less than before. */
	if (!xway_ring_unread(q->prod, cons, ch->size, &used) || (s32)(cons - q->cons) < 0)
		return false;
	q->taken += cons - q->cons;
	q->cons = cons;
	*bytes = ch->size - used;
	return true;
}

/* Copy, at most a page at a time: so the compiler does it in place. */
static void copy_part(struct mm_chan *ch, u32 idx, const void *from, u32 len)
{
	u32 done, n;

	for (done = 0; done < len; done += n) {
		void *to;

		n = min_t(u32, len - done, PAGE_SIZE - (idx + done) % PAGE_SIZE);
		to = xway_ring_at(ch->ring, idx + done, ch->size, &n);
		memcpy(to, from + done, n);
	}
}

/* Return: false if the kernel cannot read all of the packet, as what lies in a device's memory */
static bool copy_any(struct mm_chan *ch, u32 idx, const struct sk_buff *skb)
{
	u32 done, n;

	for (done = 0; done < skb->len; done += n) {
		void *to;

		n = skb->len - done;
		to = xway_ring_at(ch->ring, idx + done, ch->size, &n);
		if (skb_copy_bits(skb, done, to, n))
			return false;
	}
	return true;
}

/* As copy_any(). On many CPUs the kernel's memcpy() takes three instructions for eight bytes. */
static bool copy(struct mm_chan *ch, u32 idx, const struct sk_buff *skb)
{
	const struct skb_shared_info *info = skb_shinfo(skb);
	u32 i, off, len, copied;
	struct page *page;

	if (unlikely(skb_has_frag_list(skb)))
		return copy_any(ch, idx, skb);
	copy_part(ch, idx, skb->data, skb_headlen(skb));
	idx += skb_headlen(skb);
	for (i = 0; i < info->nr_frags; i++) {
		const skb_frag_t *frag = &info->frags[i];

		if (unlikely(!skb_frag_page(frag)))
			return false;
		skb_frag_foreach_page(frag, skb_frag_off(frag), skb_frag_size(frag), page, off, len,
				      copied) {
			void *from = kmap_local_page(page);

			copy_part(ch, idx, from + off, len);
			kunmap_local(from);
			idx += len;
		}
	}
	return true;
}

static void post(struct mm_queue *q, struct mm_chan *ch)
{
	mm_add(q, MM_TX_EVENTS, 1);
	xway_chan_post(&ch->chan);
}

static void publish(struct mm_queue *q, struct mm_chan *ch)
{
	struct mm_words *own = ch->chan.own;

	if (own->prod == q->prod)
		return;
	mm_add(q, MM_TX_PUBLISHED, 1);
	if (xway_ring_publish(&own->prod, q->prod, own->prod, &peer_of(ch)->want_data))
		post(q, ch);
}

/**
 * mm_tx_end() - write no more into the own ring
 * @q: the queue, with a live channel
 *
 * Context: the tx lock is held.
 */
void mm_tx_end(struct mm_queue *q)
{
	/* A packet that was to come with more may be the last. */
	publish(q, q->tx);
	q->tx = NULL;
	mm_held_free(q);
}

static void queued(const struct mm_queue *q, u32 *packets, u32 *bytes)
{
	const struct netdev_queue *txq = q->txq;

	rcu_read_lock_bh();
	qdisc_qstats_qlen_backlog(rcu_dereference_bh(txq->qdisc), packets, bytes);
	rcu_read_unlock_bh();
}

/**
 * mm_tx_crowded() - does so much wait that no more should?
 * @port: the port, of which a queue has stopped
 *
 * Context: any but hard interrupts.
 */
bool mm_tx_crowded(const struct mm_port *port)
{
	u32 packets, bytes, all_packets = 0, all_bytes = 0;
	unsigned int i;

	for (i = 0; i < port->max_queues; i++) {
		queued(&port->queue[i], &packets, &bytes);
		all_packets += packets;
		all_bytes += bytes;
	}
	return all_packets >= MM_WAIT_PACKETS || all_bytes >= MM_WAIT_BYTES;
}

/**
 * mm_tx_waiting() - are there packets in the device's queue?
 * @q: the queue
 *
 * Context: any but hard interrupts.
 */
bool mm_tx_waiting(const struct mm_queue *q)
{
	u32 packets, bytes;

	queued(q, &packets, &bytes);
	return packets;
}

/* For how long a peer may be behind. Who has stalled lately may be so for less. */
static unsigned long patience(const struct mm_queue *q)
{
	if (time_after(jiffies, q->stalled_at + MM_FORGIVE))
		return MM_STALL;
	return max_t(unsigned long, MM_STALL >> q->strikes, MM_STALL_MIN);
}

/* Bytes that the peer has read since the channel began */
static u64 taken(struct mm_queue *q)
{
	u32 bytes;

	room(q, q->tx, &bytes);
	return q->taken;
}

/* Look again soon: a peer that has caught up is watched no more. Return: false if this will. */
static bool look_soon(struct mm_queue *q)
{
	return queue_delayed_work(mm_wq, &q->stall, max(patience(q) / 8, 1ul));
}

/* The peer is behind. How much does it take from now on? */
static void watch(struct mm_queue *q)
{
	if (!look_soon(q))
		return;		/* this is watched already */
	q->behind_since = jiffies;
	q->behind_bytes = taken(q);
}

/* There may be no room for the largest record: stop until there is. */
static void stop_if_full(struct mm_queue *q, struct mm_chan *ch)
{
	struct mm_words *own = ch->chan.own;
	u32 bytes;

	if (!room(q, ch, &bytes) || bytes >= MM_RECORD_MAX)
		return;
	netif_tx_stop_queue(q->txq);
	mm_add(q, MM_TX_STOPPED, 1);
	watch(q);
	publish(q, ch);
	xway_ring_arm(&own->want_room, q->prod + MM_RECORD_MAX - ch->size);
	if (!room(q, ch, &bytes))
		return;
	if (bytes >= MM_RECORD_MAX)
		netif_tx_start_queue(q->txq);
	else if (READ_ONCE(peer_of(ch)->lazy))
		post(q, ch);	/* it waits for more, and no more will come */
}

/* Take out of the held packets what the peer has read. About the others it is asked. */
static void take_read(struct mm_queue *q, struct mm_chan *ch, struct sk_buff_head *done)
{
	struct mm_words *own = ch->chan.own;
	u32 bytes;

	mm_held_take(q, done);
	/* What it was asked for last may be still to come. */
	if (skb_queue_empty(&q->held) ||
	    xway_ring_crossed(own->want_room, q->prod, q->cons))
		return;
	xway_ring_arm(&own->want_room, mm_held_end(q));
	if (room(q, ch, &bytes))
		mm_held_take(q, done);
}

/* Free what the peer has read by now. */
static void free_read(struct mm_queue *q, struct mm_chan *ch)
{
	struct sk_buff_head done;
	struct sk_buff *skb;

	__skb_queue_head_init(&done);
	take_read(q, ch, &done);
	/* The event about these, which may be on its way, finds nothing: it is not a vain one. */
	if (!skb_queue_empty(&done))
		WRITE_ONCE(q->news, true);
	while ((skb = __skb_dequeue(&done)))
		dev_consume_skb_any(skb);
}

/**
 * mm_tx_held() - work: packets are not held for long
 * @work: @held_work of a queue
 *
 * Nor may TCP wait for a peer that reads nothing, or a byte now and then.
 */
void mm_tx_held(struct work_struct *work)
{
	struct mm_queue *q = container_of(to_delayed_work(work), struct mm_queue, held_work);
	struct netdev_queue *txq = q->txq;
	u32 bytes;

	__netif_tx_lock_bh(txq);
	if (q->tx && !room(q, q->tx, &bytes)) {
		mm_port_broken(q);
	} else if (q->tx) {
		free_read(q, q->tx);
		mm_held_expire(q);
	}
	__netif_tx_unlock_bh(txq);
}

/**
 * mm_tx_wake() - free packets that the peer has read, and go on sending if there is room again
 * @q: the queue
 * @done: to which the packets are added, for the caller to free
 *
 * Context: the poll, with @rx_lock held, so the peer's words stay.
 * Return: true if there is something to free, or it goes on.
 */
bool mm_tx_wake(struct mm_queue *q, struct sk_buff_head *done)
{
	struct netdev_queue *txq = q->txq;
	bool woken = false;
	u32 bytes, enough;

	lockdep_assert_held(&q->rx_lock);
	if (!netif_tx_queue_stopped(txq) && !READ_ONCE(q->stalled) &&
	    skb_queue_empty_lockless(&q->held))
		return false;
	/* Without the lock, mm_tx() might move @prod between a look at it and one at @cons. */
	__netif_tx_lock(txq, smp_processor_id());
	/* Who has stalled must catch up. */
	enough = q->stalled ? q->rx->size : MM_RECORD_MAX;
	if (!room(q, q->rx, &bytes)) {
		mm_port_broken(q);
	} else {
		take_read(q, q->rx, done);
		woken = !skb_queue_empty(done);
		if ((netif_tx_queue_stopped(txq) || q->stalled) && bytes >= enough) {
			WRITE_ONCE(q->stalled, false);
			netif_tx_wake_queue(txq);
			woken = true;
		}
	}
	__netif_tx_unlock(txq);
	return woken;
}

/* Take nothing for the peer until it has read all that there is. */
static void stall(struct mm_queue *q)
{
	struct mm_words *own = q->tx->chan.own;
	u32 bytes;

	mm_held_free(q);
	/* Before the event is asked for: whoever gets it looks at this without the lock. */
	WRITE_ONCE(q->stalled, true);
	xway_ring_arm(&own->want_room, q->prod);
	if (room(q, q->tx, &bytes) && bytes == q->tx->size) {
		WRITE_ONCE(q->stalled, false);	/* it has just read all */
		return;
	}
	if (time_after(jiffies, q->stalled_at + MM_FORGIVE))
		q->strikes = 0;
	q->strikes = min(q->strikes + 1, MM_STRIKES);
	q->stalled_at = jiffies;
	mm_add(q, MM_TX_STALLED, 1);
}

/**
 * mm_tx_stall() - work: do not keep packets for a peer that reads nothing, or hardly anything
 * @work: @stall of a queue
 *
 * They may hold memory of a socket, or of another domain, which waits for it. What is
 * queued goes by its vif, or is dropped, and so does what comes until the peer has read all.
 */
void mm_tx_stall(struct work_struct *work)
{
	struct mm_queue *q = container_of(to_delayed_work(work), struct mm_queue, stall);
	struct netdev_queue *txq = q->txq;
	u32 packets, bytes;

	__netif_tx_lock_bh(txq);
	if (!q->tx || q->stalled)
		goto out;
	queued(q, &packets, &bytes);
	if (!netif_tx_queue_stopped(txq) && !packets)
		goto out;	/* the peer has caught up */
	if (time_before(jiffies, q->behind_since + patience(q))) {
		look_soon(q);
	} else if (taken(q) - q->behind_bytes >= MM_STALL_RATE / HZ * patience(q)) {
		watch(q);
	} else {
		stall(q);
		netif_tx_wake_queue(txq);
	}
out:
	__netif_tx_unlock_bh(txq);
}

/*
 * Write a record, not published yet. @left: set to the bytes that may still be written.
 * Return: false if the packet cannot be sent.
 */
static bool put(struct mm_queue *q, struct mm_chan *ch, const struct sk_buff *skb, u32 *left)
{
	u32 size = sizeof(struct mm_record), need = mm_space(skb->len), bytes;
	struct mm_record *rec;

	if (skb->len > MM_LEN_MAX || skb->len < ETH_HLEN)
		return false;
	if (!room(q, ch, &bytes)) {
		mm_port_broken(q);
		return false;
	}
	/* stop_if_full() has seen to it, unless the peer has taken back what it said. */
	if (bytes < need)
		return false;
	rec = xway_ring_at(ch->ring, q->prod, ch->size, &size);
	if (virtio_net_hdr_from_skb(skb, &rec->hdr, virtio_legacy_is_little_endian(), true, 0))
		return false;
	rec->len = skb->len;
	rec->pad = 0;
	if (!copy(ch, q->prod + size, skb))
		return false;
	WRITE_ONCE(q->prod, q->prod + need);
	*left = bytes - need;
	return true;
}

/*
 * May a packet go back to its vif, which looks for a way again? Not if it came by a queue that it
 * would not take by itself, but by a filter at the device (skbedit): it might come again and again.
 */
static bool may_return(struct mm_port *port, const struct mm_queue *q, struct sk_buff *skb)
{
	if (q->stalled)
		return q == mm_queue_for(port, skb);
	return READ_ONCE(q->emptied) || !READ_ONCE(port->live);
}

/* ndo_start_xmit */
netdev_tx_t mm_tx(struct sk_buff *skb, struct net_device *dev)
{
	struct mm_port *port = netdev_priv(dev);
	struct mm_queue *q = &port->queue[skb_get_queue_mapping(skb)];
	struct mm_chan *ch;
	u32 left = 0;

	OPTIMIZER_HIDE_VAR(q);	/* or it is computed again for each use */
	ch = likely(!q->stalled) ? q->tx : NULL;
	if (likely(ch && put(q, ch, skb, &left))) {
		mm_add(q, MM_TX_PACKETS, 1);
		mm_add(q, MM_TX_BYTES, skb->len);
		skb_tx_timestamp(skb);
		if (!mm_held_add(q, skb))
			dev_consume_skb_any(skb);
	} else if (ch || !may_return(port, q, skb) || !mm_shade_return(port, skb)) {
		mm_add(q, MM_TX_DROPPED, 1);
		dev_kfree_skb_any(skb);
	}
	if (unlikely(!ch))
		return NETDEV_TX_OK;
	if (unlikely(left < MM_RECORD_MAX))
		stop_if_full(q, ch);
	/* What comes at once travels together. */
	if (!netdev_xmit_more() || netif_tx_queue_stopped(q->txq))
		publish(q, ch);
	if (unlikely(!skb_queue_empty(&q->held)))
		free_read(q, ch);
	return NETDEV_TX_OK;
}

/* Does the peer take a packet of several segments? As describe() in rx.c has it. */
static bool takes_segments(const struct mm_chan *ch, const struct sk_buff *skb)
{
	const struct skb_shared_info *info = skb_shinfo(skb);

	/* What a card has merged may have its checksums. */
	if (skb->ip_summed != CHECKSUM_PARTIAL)
		return false;
	if (info->gso_type & SKB_GSO_UDP_L4)
		return ch && (READ_ONCE(ch->features) & MM_FEATURE_USO);
	return info->gso_size >= MM_TCP_SEGMENT;
}

/* ndo_features_check: what the peer cannot receive as segments is cut here. */
netdev_features_t mm_tx_features(struct sk_buff *skb, struct net_device *dev,
				 netdev_features_t features)
{
	const struct mm_port *port = netdev_priv(dev);

	/* The packet's lock is not held yet: what is read here may be of the channel before. */
	rcu_read_lock();
	if (skb_is_gso(skb) && !takes_segments(READ_ONCE(port->queue[0].tx), skb))
		features &= ~NETIF_F_GSO_MASK;
	rcu_read_unlock();
	return features;
}
