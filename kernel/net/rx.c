// SPDX-License-Identifier: GPL-2.0
/*
 * Receiving: frames are copied out of the peer's ring, or, at the end of a channel, out of
 * the own one. All of this holds @rx_lock.
 */
#include <linux/etherdevice.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include "mmnet.h"

#define MM_COPYBREAK	2048u	/* longer frames go into pages, but for their beginning: */
#define MM_HEAD		128u	/* Ethernet, IPv6 and TCP with options */

/* Who cuts a packet has as many as it has segments; Linux makes no smaller ones than
 * MM_TCP_SEGMENT and no more.
 */
#define MM_UDP_SEGMENTS	128u	/* UDP_MAX_SEGMENTS */

#define MM_BACK		256u	/* frames of the own ring that wait for their vif at once */

/* The longest frame begins anywhere in a page. */
static_assert((MM_LEN_MAX - MM_HEAD + PAGE_SIZE - 1) / PAGE_SIZE + 1 <= MAX_SKB_FRAGS);

/* The peer's words. They stay while the caller holds the lock: let_go() takes it. */
static const struct mm_words *peer_of(const struct mm_queue *q)
{
	return rcu_dereference_protected(q->rx->chan.peer, lockdep_is_held(&q->rx_lock));
}

/* A ring that frames are copied out of */
struct source {
	void *const *pages;
	u32 size;
};

static void copy_head(const struct source *ring, u32 idx, void *to, u32 len)
{
	u32 done, n;

	for (done = 0; done < len; done += n) {
		const void *from;

		n = len - done;
		from = xway_ring_at(ring->pages, idx + done, ring->size, &n);
		memcpy(to + done, from, n);
	}
}

/* Copy into pages, each piece to where it is in the ring's page: so a page is copied at once. */
static bool copy_pages(struct mm_queue *q, const struct source *ring, u32 idx,
		       struct sk_buff *skb, u32 len)
{
	u32 done, n;
	int i = 0;

	for (done = 0; done < len; done += n) {
		u32 off = (idx + done) % PAGE_SIZE;
		struct page *page = page_pool_dev_alloc_pages(q->pool);
		void *from;

		if (!page)
			return false;
		n = min_t(u32, len - done, PAGE_SIZE - off);
		from = xway_ring_at(ring->pages, idx + done, ring->size, &n);
		memcpy(page_address(page) + off, from, n);
		skb_add_rx_frag(skb, i++, page, off, n, PAGE_SIZE);
	}
	return true;
}

/* Make a packet of a frame in the ring. Return: NULL without memory. */
static struct sk_buff *copy(struct mm_queue *q, const struct source *ring, u32 idx, u32 len)
{
	u32 head = len <= MM_COPYBREAK ? len : MM_HEAD;
	struct sk_buff *skb = napi_alloc_skb(&q->napi, head);

	if (!skb)
		return NULL;
	copy_head(ring, idx, skb_put(skb, head), head);
	if (head == len)
		return skb;
	skb_mark_for_recycle(skb);
	if (copy_pages(q, ring, idx + head, skb, len - head))
		return skb;
	kfree_skb(skb);
	return NULL;
}

/* The peer says that the packet consists of segments. Return: false if that is wrong. */
static bool set_segments(struct sk_buff *skb, const struct virtio_net_hdr *hdr)
{
	u32 size = __virtio16_to_cpu(virtio_legacy_is_little_endian(), hdr->gso_size);
	bool tcp = skb->csum_offset == offsetof(struct tcphdr, check);
	u32 head = skb_transport_offset(skb), type;

	switch (hdr->gso_type & ~VIRTIO_NET_HDR_GSO_ECN) {
	case VIRTIO_NET_HDR_GSO_TCPV4:
		type = tcp && skb->protocol == htons(ETH_P_IP) ? SKB_GSO_TCPV4 : 0;
		break;
	case VIRTIO_NET_HDR_GSO_TCPV6:
		type = tcp && skb->protocol == htons(ETH_P_IPV6) ? SKB_GSO_TCPV6 : 0;
		break;
	case XWAY_VIRTIO_GSO_USO:
		type = !tcp ? SKB_GSO_UDP_L4 : 0;
		break;
	default:
		return false;
	}
	head += tcp ? max_t(u32, tcp_hdrlen(skb), sizeof(struct tcphdr)) : sizeof(struct udphdr);
	if (!type || !size || size == GSO_BY_FRAGS || skb->len <= head)
		return false;
	if (skb->len - head <= size)
		return true;	/* it is a single one */
	if (tcp ? size < MM_TCP_SEGMENT : skb->len - head > size * MM_UDP_SEGMENTS)
		return false;
	if (hdr->gso_type & VIRTIO_NET_HDR_GSO_ECN)
		type |= SKB_GSO_TCP_ECN;
	/* Who cuts it looks at its headers. A card that cuts only so many is asked before that. */
	skb_shinfo(skb)->gso_type = type | SKB_GSO_DODGY;
	skb_shinfo(skb)->gso_size = size;
	skb_shinfo(skb)->gso_segs = DIV_ROUND_UP(skb->len - head, size);
	return true;
}

/*
 * Tell the packet what the peer says of checksum and segments. Where a checksum is left out,
 * it is found from the packet itself, as netback does, and not from what the peer says: who
 * sends the packet on writes it there, behind all filters.
 * Return: false if what the peer says is wrong.
 */
static bool describe(struct sk_buff *skb, const struct virtio_net_hdr *hdr)
{
	bool segments = hdr->gso_type != VIRTIO_NET_HDR_GSO_NONE;

	if (!(hdr->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM)) {
		if (hdr->flags & VIRTIO_NET_HDR_F_DATA_VALID)
			skb->ip_summed = CHECKSUM_UNNECESSARY;
		return !segments;
	}
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb_reset_network_header(skb);
	/* That does not look how long IPv4's header is, in which nothing may be written. */
	if (skb->protocol == htons(ETH_P_IP) &&
	    (!pskb_may_pull(skb, sizeof(struct iphdr)) || ip_hdr(skb)->ihl < 5))
		return false;
	return !skb_checksum_setup(skb, false) && (!segments || set_segments(skb, hdr));
}

/*
 * Make a packet, as received by the device, of the record at @idx.
 * Return: NULL without memory, or an error pointer if what the record says is wrong.
 */
static struct sk_buff *make(struct mm_queue *q, const struct source *ring, u32 idx,
			    const struct mm_record *rec)
{
	struct sk_buff *skb = copy(q, ring, idx + sizeof(*rec), rec->len);

	if (!skb)
		return NULL;
	skb->protocol = eth_type_trans(skb, q->port->dev);
	if (describe(skb, &rec->hdr))
		return skb;
	kfree_skb(skb);
	return ERR_PTR(-EPROTO);
}

static void take_one(struct mm_queue *q, const struct source *ring, u32 idx,
		     const struct mm_record *rec, struct sk_buff_head *list)
{
	struct sk_buff *skb = make(q, ring, idx, rec);

	if (IS_ERR_OR_NULL(skb)) {
		mm_add(q, skb ? MM_RX_BAD_HEADER : MM_RX_NO_MEMORY, 1);
		return;
	}
	mm_add(q, MM_RX_PACKETS, 1);
	mm_add(q, MM_RX_BYTES, rec->len);
	skb_record_rx_queue(skb, q->index);
	__skb_queue_tail(list, skb);
}

/* Tell the peer whether this end will wait for more, if it takes so many now. */
static void set_lazy(struct mm_queue *q, int taken, int budget)
{
	struct mm_words *own = q->rx->chan.own;
	u32 lazy = taken && taken < budget && READ_ONCE(q->rx_usecs);

	if (own->lazy != lazy)
		WRITE_ONCE(own->lazy, lazy);
}

static void release(struct mm_queue *q, u32 cons)
{
	struct mm_words *own = q->rx->chan.own;

	if (cons == own->cons)
		return;
	if (!xway_ring_publish(&own->cons, cons, own->cons, &peer_of(q)->want_room))
		return;
	mm_add(q, MM_RX_EVENTS, 1);
	xway_chan_post(&q->rx->chan);
}

/*
 * The peer's index of what it has written, which never goes back: if it could, it might say
 * in turns that there is something and that there is not, and this end would look for ever.
 * Return: false if it has.
 */
static bool written(struct mm_queue *q, u32 *prod)
{
	/* Pairs with the release of @prod in tx.c: the records are there. */
	*prod = ring_load_acquire(&peer_of(q)->prod);
	if ((s32)(*prod - q->peer_prod) < 0)
		return false;
	q->peer_prod = *prod;
	return true;
}

/* A private copy of the record at @idx */
static struct mm_record record_at(const struct source *ring, u32 idx)
{
	u32 size = sizeof(struct mm_record);
	const u64 *at = xway_ring_at(ring->pages, idx, ring->size, &size);
	union {
		u64 words[2];
		struct mm_record rec;
	} copy = { .words = { READ_ONCE(at[0]), READ_ONCE(at[1]) } };

	return copy.rec;
}

/* Can a record be of this length, with so many bytes left from its beginning on? */
static bool possible(const struct mm_record *rec, u32 left)
{
	return rec->len >= ETH_HLEN && rec->len <= MM_LEN_MAX && mm_space(rec->len) <= left;
}

/* Take at most @budget records. Return: how many. */
static int take(struct mm_queue *q, int budget, struct sk_buff_head *list)
{
	struct source ring = { q->rx->peer_ring, q->rx->peer_size };
	struct mm_words *own = q->rx->chan.own;
	u32 cons = own->cons, left, prod;
	int taken;

	if (!written(q, &prod) || !xway_ring_unread(prod, cons, ring.size, &left)) {
		mm_port_broken(q);
		return 0;
	}
	for (taken = 0; left && taken < budget; taken++) {
		struct mm_record rec = record_at(&ring, cons);

		if (!possible(&rec, left)) {
			mm_port_broken(q);
			break;
		}
		take_one(q, &ring, cons, &rec, list);
		cons += mm_space(rec.len);
		left -= mm_space(rec.len);
	}
	release(q, cons);
	return taken;
}

/* Have the peer's next record cause an event. Return: true if it is there already. */
static bool arm(struct mm_queue *q)
{
	struct mm_words *own = q->rx->chan.own;
	u32 prod;

	xway_ring_arm(&own->want_data, own->cons + 1);
	if (written(q, &prod))
		return prod != own->cons;
	mm_port_broken(q);
	return false;
}

/* NAPI's poll */
int mm_rx_poll(struct napi_struct *napi, int budget)
{
	struct mm_queue *q = container_of(napi, struct mm_queue, napi);
	struct sk_buff_head list, done;
	struct sk_buff *skb;
	bool more = false;
	int taken = 0;
	u32 vifs;

	__skb_queue_head_init(&list);
	__skb_queue_head_init(&done);
	spin_lock(&q->rx_lock);
	mm_add(q, MM_RX_POLLS, 1);
	if (q->rx && !READ_ONCE(q->broken)) {
		vifs = READ_ONCE(peer_of(q)->vifs);
		if (!q->index && q->port->peer_vifs != vifs)
			WRITE_ONCE(q->port->peer_vifs, vifs);
		taken = take(q, budget, &list);
		set_lazy(q, taken, budget);
		if (taken < budget)
			mm_coalesce_sample(q, taken);
		if (mm_tx_wake(q, &done) || taken)
			WRITE_ONCE(q->news, true);
	}
	spin_unlock(&q->rx_lock);
	while ((skb = __skb_dequeue(&done)))
		napi_consume_skb(skb, budget);
	while ((skb = __skb_dequeue(&list)))
		napi_gro_receive(napi, skb);
	/* It is false if the poll is due again, also where gro_flush_timeout delays it. */
	if (taken == budget || !napi_complete_done(napi, taken))
		return taken;
	spin_lock(&q->rx_lock);
	if (q->rx && !READ_ONCE(q->broken))
		more = arm(q);
	spin_unlock(&q->rx_lock);
	if (more)
		napi_schedule(napi);
	return taken;
}

/**
 * mm_rx_rest() - take what is left in the peer's ring, before the channel ends
 * @q: the queue, with a live channel
 *
 * The peer can be writing: it may add as much as was there, but not for ever.
 *
 * Context: process, link's lock held; the device is up or was just now.
 */
void mm_rx_rest(struct mm_queue *q)
{
	struct mm_words *own = q->rx->chan.own;
	struct sk_buff_head list;
	struct sk_buff *skb;
	u32 end, taken;

	__skb_queue_head_init(&list);
	WRITE_ONCE(own->stop, MM_STOPS);
	ring_mb();	/* see has_stopped() in port.c */
	spin_lock_bh(&q->rx_lock);
	end = own->cons + q->rx->peer_size;
	spin_unlock_bh(&q->rx_lock);
	do {
		spin_lock_bh(&q->rx_lock);
		taken = READ_ONCE(q->broken) ? 0 : take(q, NAPI_POLL_WEIGHT, &list);
		if ((s32)(end - own->cons) <= 0)
			taken = 0;
		spin_unlock(&q->rx_lock);
		while ((skb = __skb_dequeue(&list)))
			netif_receive_skb(skb);
		local_bh_enable();
		cond_resched();
	} while (taken == NAPI_POLL_WEIGHT);
}

/* Give back the frame of a record of the own ring. Return: false if it has no way to go. */
static bool give_back(struct mm_queue *q, const struct source *ring, u32 idx,
		      const struct mm_record *rec)
{
	struct sk_buff *skb;
	bool ret;

	spin_lock_bh(&q->rx_lock);
	skb = make(q, ring, idx, rec);
	spin_unlock_bh(&q->rx_lock);
	if (IS_ERR_OR_NULL(skb))
		return false;
	/* As its sender had it */
	skb->pkt_type = PACKET_HOST;
	skb_reset_network_header(skb);
	skb_push(skb, ETH_HLEN);
	rcu_read_lock();
	ret = mm_shade_return(q->port, skb);
	rcu_read_unlock();
	if (!ret)
		kfree_skb(skb);
	return ret;
}

/**
 * mm_rx_back() - have go by its vif what the peer has not read when it ended the channel
 * @q: the queue, whose own ring nobody writes any more
 * @from: where in that ring it begins, by the peer's word
 *
 * If there is no record at @from, the peer lies, or has taken less than a record. It can have
 * bytes sent that were in a frame for it, as a frame, but to itself alone: is_for() in shade.c.
 *
 * Context: process, link's lock held.
 */
void mm_rx_back(struct mm_queue *q, u32 from)
{
	struct source ring = { q->ch->ring, q->ch->size };
	u32 left;

	/* Nor can it have read less than before. */
	if (!xway_ring_unread(q->prod, from, ring.size, &left) || !IS_ALIGNED(left, MM_ALIGN) ||
	    (s32)(from - q->cons) < 0)
		return;
	while (left) {
		struct mm_record rec = record_at(&ring, from);

		if (!possible(&rec, left))
			break;
		mm_add(q, give_back(q, &ring, from, &rec) ? MM_TX_BACK : MM_TX_LOST, 1);
		/* A ring of the shortest frames would be many times as much memory. */
		if (skb_queue_len_lockless(&q->port->returned) >= MM_BACK)
			mm_shade_resend(&q->port->resend);
		from += mm_space(rec.len);
		left -= mm_space(rec.len);
		cond_resched();
	}
}
