// SPDX-License-Identifier: GPL-2.0
/* Sending: frames are copied into the own ring. All of this holds the device's tx lock. */
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
static bool room(struct mm_port *port, struct mm_chan *ch, u32 *bytes)
{
	/* Pairs with the release of @cons in rx.c: what was there is read. */
	u32 cons = ring_load_acquire(&peer_of(ch)->cons), used;

	/* Nor can it have read less than before. */
	if (!xway_ring_unread(port->prod, cons, ch->size, &used) || (s32)(cons - port->cons) < 0)
		return false;
	port->taken += cons - port->cons;
	port->cons = cons;
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

static void post(struct mm_port *port, struct mm_chan *ch)
{
	mm_add(port, MM_TX_EVENTS, 1);
	xway_chan_post(&ch->chan);
}

static void publish(struct mm_port *port, struct mm_chan *ch)
{
	struct mm_words *own = ch->chan.own;

	if (own->prod == port->prod)
		return;
	mm_add(port, MM_TX_PUBLISHED, 1);
	if (xway_ring_publish(&own->prod, port->prod, own->prod, &peer_of(ch)->want_data))
		post(port, ch);
}

/**
 * mm_tx_end() - write no more into the own ring
 * @port: the port, with a live channel
 *
 * Context: the tx lock is held.
 */
void mm_tx_end(struct mm_port *port)
{
	/* A packet that was to come with more may be the last. */
	publish(port, port->tx);
	port->tx = NULL;
	mm_held_free(port);
}

static void queued(const struct mm_port *port, u32 *packets, u32 *bytes)
{
	const struct netdev_queue *txq = netdev_get_tx_queue(port->dev, 0);

	rcu_read_lock_bh();
	qdisc_qstats_qlen_backlog(rcu_dereference_bh(txq->qdisc), packets, bytes);
	rcu_read_unlock_bh();
}

/**
 * mm_tx_crowded() - does so much wait that no more should?
 * @port: the port, whose queue has stopped
 *
 * Context: any but hard interrupts.
 */
bool mm_tx_crowded(const struct mm_port *port)
{
	u32 packets, bytes;

	queued(port, &packets, &bytes);
	return packets >= MM_WAIT_PACKETS || bytes >= MM_WAIT_BYTES;
}

/**
 * mm_tx_waiting() - are there packets in the device's queue?
 * @port: the port
 *
 * Context: any but hard interrupts.
 */
bool mm_tx_waiting(const struct mm_port *port)
{
	u32 packets, bytes;

	queued(port, &packets, &bytes);
	return packets;
}

/* For how long a peer may be behind. Who has stalled lately may be so for less. */
static unsigned long patience(const struct mm_port *port)
{
	if (time_after(jiffies, port->stalled_at + MM_FORGIVE))
		return MM_STALL;
	return max_t(unsigned long, MM_STALL >> port->strikes, MM_STALL_MIN);
}

/* Bytes that the peer has read since the channel began */
static u64 taken(struct mm_port *port)
{
	u32 bytes;

	room(port, port->tx, &bytes);
	return port->taken;
}

/* Look again soon: a peer that has caught up is watched no more. Return: false if this will. */
static bool look_soon(struct mm_port *port)
{
	return queue_delayed_work(mm_wq, &port->stall, max(patience(port) / 8, 1ul));
}

/* The peer is behind. How much does it take from now on? */
static void watch(struct mm_port *port)
{
	if (!look_soon(port))
		return;		/* this is watched already */
	port->behind_since = jiffies;
	port->behind_bytes = taken(port);
}

/* There may be no room for the largest record: stop until there is. */
static void stop_if_full(struct mm_port *port, struct mm_chan *ch)
{
	struct mm_words *own = ch->chan.own;
	u32 bytes;

	if (!room(port, ch, &bytes) || bytes >= MM_RECORD_MAX)
		return;
	netif_stop_queue(port->dev);
	mm_add(port, MM_TX_STOPPED, 1);
	watch(port);
	publish(port, ch);
	xway_ring_arm(&own->want_room, port->prod + MM_RECORD_MAX - ch->size);
	if (!room(port, ch, &bytes))
		return;
	if (bytes >= MM_RECORD_MAX)
		netif_start_queue(port->dev);
	else if (READ_ONCE(peer_of(ch)->lazy))
		post(port, ch);	/* it waits for more, and no more will come */
}

/* Take out of the held packets what the peer has read. About the others it is asked. */
static void take_read(struct mm_port *port, struct mm_chan *ch, struct sk_buff_head *done)
{
	struct mm_words *own = ch->chan.own;
	u32 bytes;

	mm_held_take(port, done);
	/* What it was asked for last may be still to come. */
	if (skb_queue_empty(&port->held) ||
	    xway_ring_crossed(own->want_room, port->prod, port->cons))
		return;
	xway_ring_arm(&own->want_room, mm_held_end(port));
	if (room(port, ch, &bytes))
		mm_held_take(port, done);
}

/* Free what the peer has read by now. */
static void free_read(struct mm_port *port, struct mm_chan *ch)
{
	struct sk_buff_head done;
	struct sk_buff *skb;

	__skb_queue_head_init(&done);
	take_read(port, ch, &done);
	/* The event about these, which may be on its way, finds nothing: it is not a vain one. */
	if (!skb_queue_empty(&done))
		WRITE_ONCE(port->news, true);
	while ((skb = __skb_dequeue(&done)))
		dev_consume_skb_any(skb);
}

/**
 * mm_tx_held() - work: packets are not held for long
 * @work: @held_work of a port
 *
 * Nor may TCP wait for a peer that reads nothing, or a byte now and then.
 */
void mm_tx_held(struct work_struct *work)
{
	struct mm_port *port = container_of(to_delayed_work(work), struct mm_port, held_work);
	struct netdev_queue *txq = netdev_get_tx_queue(port->dev, 0);
	u32 bytes;

	__netif_tx_lock_bh(txq);
	if (port->tx && !room(port, port->tx, &bytes)) {
		mm_port_broken(port);
	} else if (port->tx) {
		free_read(port, port->tx);
		mm_held_expire(port);
	}
	__netif_tx_unlock_bh(txq);
}

/**
 * mm_tx_wake() - free packets that the peer has read, and go on sending if there is room again
 * @port: the port
 * @done: to which the packets are added, for the caller to free
 *
 * Context: the poll, with @rx_lock held, so the peer's words stay.
 * Return: true if there is something to free, or it goes on.
 */
bool mm_tx_wake(struct mm_port *port, struct sk_buff_head *done)
{
	struct netdev_queue *txq = netdev_get_tx_queue(port->dev, 0);
	bool woken = false;
	u32 bytes, enough;

	lockdep_assert_held(&port->rx_lock);
	if (!netif_tx_queue_stopped(txq) && !READ_ONCE(port->stalled) &&
	    skb_queue_empty_lockless(&port->held))
		return false;
	/* Without the lock, mm_tx() might move @prod between a look at it and one at @cons. */
	__netif_tx_lock(txq, smp_processor_id());
	/* Who has stalled must catch up. */
	enough = port->stalled ? port->rx->size : MM_RECORD_MAX;
	if (!room(port, port->rx, &bytes)) {
		mm_port_broken(port);
	} else {
		take_read(port, port->rx, done);
		woken = !skb_queue_empty(done);
		if ((netif_tx_queue_stopped(txq) || port->stalled) && bytes >= enough) {
			WRITE_ONCE(port->stalled, false);
			netif_tx_wake_queue(txq);
			woken = true;
		}
	}
	__netif_tx_unlock(txq);
	return woken;
}

/* Take nothing for the peer until it has read all that there is. */
static void stall(struct mm_port *port)
{
	struct mm_words *own = port->tx->chan.own;
	u32 bytes;

	mm_held_free(port);
	/* Before the event is asked for: whoever gets it looks at this without the lock. */
	WRITE_ONCE(port->stalled, true);
	xway_ring_arm(&own->want_room, port->prod);
	if (room(port, port->tx, &bytes) && bytes == port->tx->size) {
		WRITE_ONCE(port->stalled, false);	/* it has just read all */
		return;
	}
	if (time_after(jiffies, port->stalled_at + MM_FORGIVE))
		port->strikes = 0;
	port->strikes = min(port->strikes + 1, MM_STRIKES);
	port->stalled_at = jiffies;
	mm_add(port, MM_TX_STALLED, 1);
}

/**
 * mm_tx_stall() - work: do not keep packets for a peer that reads nothing, or hardly anything
 * @work: @stall of a port
 *
 * They may hold memory of a socket, or of another domain, which waits for it. What is
 * queued goes by its vif, or is dropped, and so does what comes until the peer has read all.
 */
void mm_tx_stall(struct work_struct *work)
{
	struct mm_port *port = container_of(to_delayed_work(work), struct mm_port, stall);
	struct netdev_queue *txq = netdev_get_tx_queue(port->dev, 0);
	u32 packets, bytes;

	__netif_tx_lock_bh(txq);
	if (!port->tx || port->stalled)
		goto out;
	queued(port, &packets, &bytes);
	if (!netif_tx_queue_stopped(txq) && !packets)
		goto out;	/* the peer has caught up */
	if (time_before(jiffies, port->behind_since + patience(port))) {
		look_soon(port);
	} else if (taken(port) - port->behind_bytes >= MM_STALL_RATE / HZ * patience(port)) {
		watch(port);
	} else {
		stall(port);
		netif_tx_wake_queue(txq);
	}
out:
	__netif_tx_unlock_bh(txq);
}

/*
 * Write a record, not published yet. @left: set to the bytes that may still be written.
 * Return: false if the packet cannot be sent.
 */
static bool put(struct mm_port *port, struct mm_chan *ch, const struct sk_buff *skb, u32 *left)
{
	u32 size = sizeof(struct mm_record), need = mm_space(skb->len), bytes;
	struct mm_record *rec;

	if (skb->len > MM_LEN_MAX || skb->len < ETH_HLEN)
		return false;
	if (!room(port, ch, &bytes)) {
		mm_port_broken(port);
		return false;
	}
	/* stop_if_full() has seen to it, unless the peer has taken back what it said. */
	if (bytes < need)
		return false;
	rec = xway_ring_at(ch->ring, port->prod, ch->size, &size);
	if (virtio_net_hdr_from_skb(skb, &rec->hdr, virtio_legacy_is_little_endian(), true, 0))
		return false;
	rec->len = skb->len;
	rec->pad = 0;
	if (!copy(ch, port->prod + size, skb))
		return false;
	WRITE_ONCE(port->prod, port->prod + need);
	*left = bytes - need;
	return true;
}

/* ndo_start_xmit */
netdev_tx_t mm_tx(struct sk_buff *skb, struct net_device *dev)
{
	struct mm_port *port = netdev_priv(dev);
	struct mm_chan *ch = likely(!port->stalled) ? port->tx : NULL;
	u32 left = 0;

	if (likely(ch && put(port, ch, skb, &left))) {
		mm_add(port, MM_TX_PACKETS, 1);
		mm_add(port, MM_TX_BYTES, skb->len);
		skb_tx_timestamp(skb);
		if (!mm_held_add(port, skb))
			dev_consume_skb_any(skb);
	} else if (ch || !mm_shade_return(port, skb)) {
		mm_add(port, MM_TX_DROPPED, 1);
		dev_kfree_skb_any(skb);
	}
	if (unlikely(!ch))
		return NETDEV_TX_OK;
	if (unlikely(left < MM_RECORD_MAX))
		stop_if_full(port, ch);
	/* What comes at once travels together. */
	if (!netdev_xmit_more() || netif_queue_stopped(dev))
		publish(port, ch);
	if (unlikely(!skb_queue_empty(&port->held)))
		free_read(port, ch);
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
	if (skb_is_gso(skb) && !takes_segments(READ_ONCE(port->tx), skb))
		features &= ~NETIF_F_GSO_MASK;
	rcu_read_unlock();
	return features;
}
