// SPDX-License-Identifier: GPL-2.0
/*
 * In the shade of a virtual interface: packets that leave by this domain's vif for a
 * peer's vif on the same bridge go by the peer's device instead, and come in at the other
 * end as if by the vif there. So addresses, routes, filters and counters stay those of the
 * vif.
 *
 * Domain 0 may be a peer, too. Its vifs are the back ends of the guests' ones. By them goes
 * what its bridge has for the guest, from any address, and what the guest has for any
 * address that is no other peer's.
 *
 * This is how netvsc (drivers/net/hyperv) uses a virtual function: the vif's
 * ndo_start_xmit, behind its filters and its queue, hands the packet to the other device;
 * a receive handler of that device hands packets to the vif.
 */
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <net/sch_generic.h>

#include "shade.h"

/* With bottom halves off */
static void count(const struct mm_shade *s, bool tx, unsigned int bytes)
{
	struct pcpu_sw_netstats *stats = this_cpu_ptr(s->stats);

	u64_stats_update_begin(&stats->syncp);
	u64_stats_inc(tx ? &stats->tx_packets : &stats->rx_packets);
	u64_stats_add(tx ? &stats->tx_bytes : &stats->rx_bytes, bytes);
	u64_stats_update_end(&stats->syncp);
}

/* Is it this address? Zero stands for that of any single interface. */
static bool is(const u8 *addr, const u8 *named)
{
	return is_zero_ether_addr(named) ? !is_multicast_ether_addr(addr) :
					   ether_addr_equal_unaligned(addr, named);
}

/* Is a packet with these addresses one for the peer? */
static bool is_for(const struct mm_pair *p, const struct ethhdr *eth)
{
	/* What a guest only passes on is none of its peer's business. */
	return is(eth->h_dest, p->peer) && is(eth->h_source, p->own);
}

/* Does the peer take a packet of the pair now, by this queue? */
static bool is_ready(const struct mm_pair *p, const struct mm_queue *queue)
{
	/* The device's queue drops what comes before the kernel has seen the carrier. */
	return READ_ONCE(p->wanted) && (READ_ONCE(p->port->peer_vifs) & BIT(p->peer_vif)) &&
	       !READ_ONCE(queue->stalled) && netif_carrier_ok(p->port->dev) &&
	       rcu_access_pointer(queue->txq->qdisc) != &noop_qdisc;
}

/* The queue that the packet takes to the peer with that address, or NULL */
static const struct mm_queue *queue_to(const struct mm_shade *s, const u8 *peer,
				       struct sk_buff *skb)
{
	const struct ethhdr *eth = (const struct ethhdr *)skb->data;
	const struct mm_queue *queue;
	const struct mm_pair *p;

	hash_for_each_possible_rcu(s->pairs, p, near, mm_addr_key(peer))
		if (ether_addr_equal_unaligned(p->peer, peer) && is_for(p, eth)) {
			queue = mm_queue_for(p->port, skb);
			if (is_ready(p, queue))
				return queue;
		}
	return NULL;
}

/* May the packet go by a peer's device? Return: the queue, or NULL. */
static const struct mm_queue *queue_for(const struct mm_shade *s, struct sk_buff *skb)
{
	static const u8 any[ETH_ALEN];
	const struct ethhdr *eth = (const struct ethhdr *)skb->data;

	if (skb_vlan_tag_present(skb) || eth_type_vlan(eth->h_proto) ||
	    is_multicast_ether_addr(eth->h_dest))
		return NULL;
	/* The pair with domain 0 is the last: what a peer does not take goes by the bridge. */
	return queue_to(s, eth->h_dest, skb) ?: queue_to(s, any, skb);
}

/* May a packet wait for room? What domain 0 keeps for guests has a bound. */
static bool may_wait(const struct mm_shade *s, const struct mm_queue *queue)
{
	return !s->vif.domid || !netif_tx_queue_stopped(queue->txq) ||
	       !mm_tx_crowded(queue->port);
}

/* Does the device take the packet as it is? The vif has looked at the rest. */
static bool fits(struct sk_buff *skb, const struct net_device *dev)
{
	const netdev_features_t all = NETIF_F_SG | NETIF_F_FRAGLIST | NETIF_F_HIGHDMA |
				      NETIF_F_IP_CSUM | NETIF_F_IPV6_CSUM;

	return (dev->features & all) == all &&
	       !(skb_is_gso(skb) && netif_needs_gso(skb, netif_skb_features(skb)));
}

/*
 * Is there no packet between its sender and the device? The device's tx lock is held, so none
 * can be sent, or put back. Looked at is each place in the order in which a packet goes through
 * them: else it might pass between two looks.
 */
static bool nothing_waits(struct Qdisc *q)
{
	if (xway_qdisc_defers(q) || !qdisc_is_empty(q))
		return false;
	smp_rmb();	/* whoever has taken the last one out runs until it is sent, or put back */
	if (qdisc_is_running(q))
		return false;
	smp_rmb();	/* if it was put back between these looks, it is there now */
	return qdisc_is_empty(q);
}

/*
 * Send by a peer's device without its queue, in which nothing waits, as the kernel would after
 * a second look at all that the vif's queue has seen to. @skb is the device's already.
 * Return: false, with nothing done, if the packet has to go by the queue.
 */
static bool send_now(struct sk_buff *skb, struct net_device *dev, const struct mm_queue *queue)
{
	struct netdev_queue *txq = queue->txq;
	struct Qdisc *q = rcu_dereference_bh(txq->qdisc);
	bool sent = false;

	if (!(q->flags & TCQ_F_CAN_BYPASS) || dev_nit_active(dev) ||
	    xway_has_egress_filter(dev) || !fits(skb, dev) || !__netif_tx_trylock(txq))
		return false;
	/* Not with more to come: that may go another way. */
	if (!netif_xmit_frozen_or_stopped(txq) && nothing_waits(q)) {
		skb_set_queue_mapping(skb, queue->index);
		sent = netdev_start_xmit(skb, dev, txq, false) == NETDEV_TX_OK;
	}
	__netif_tx_unlock(txq);
	return sent;
}

/**
 * mm_shade_xmit() - ndo_start_xmit of a vif
 * @skb: the packet
 * @dev: the vif
 *
 * Context: as ndo_start_xmit.
 * Return: as ndo_start_xmit.
 */
netdev_tx_t mm_shade_xmit(struct sk_buff *skb, struct net_device *dev)
{
	const struct mm_shade *s = mm_shade_of(dev);
	unsigned int len = skb->len;
	const struct mm_queue *queue = NULL;
	int rc;

	if (unlikely(!s)) {
		dev_kfree_skb_any(skb);
		return NETDEV_TX_OK;
	}
	/* netpoll sends with interrupts off; the doorbell cannot be used then. */
	if (!irqs_disabled() && !skb_shared(skb) && skb_headlen(skb) >= ETH_HLEN)
		queue = queue_for(s, skb);
	if (!queue)
		return s->orig->ndo_start_xmit(skb, dev);
	skb->dev = queue->port->dev;
	if (likely(send_now(skb, skb->dev, queue))) {
		count(s, true, len);
		return NETDEV_TX_OK;
	}
	/*
	 * What netback has passed on is still memory of the guest that sent it. It must not wait
	 * for another one, here or, if there is no room, in that one's netback.
	 */
	if ((s->vif.domid && skb_orphan_frags(skb, GFP_ATOMIC)) || !may_wait(s, queue)) {
		skb->dev = dev;
		return s->orig->ndo_start_xmit(skb, dev);
	}
	/* The peer's device has a queue of its own, so its senders are slowed down as by any. */
	rc = dev_queue_xmit(skb);
	if (likely(rc == NET_XMIT_SUCCESS || rc == NET_XMIT_CN))
		count(s, true, len);
	else
		dev_core_stats_tx_dropped_inc(dev);
	return NETDEV_TX_OK;
}

/**
 * mm_shade_stats() - ndo_get_stats64 of a vif: its own, and packets that went by a peer's device
 * @dev: the vif
 * @stats: set to these
 *
 * Context: as ndo_get_stats64.
 */
void mm_shade_stats(struct net_device *dev, struct rtnl_link_stats64 *stats)
{
	const struct mm_shade *s;

	rcu_read_lock();
	s = mm_shade_of(dev);
	if (s) {
		/* As dev_get_stats(), which would have called these */
		if (s->orig->ndo_get_stats64)
			s->orig->ndo_get_stats64(dev, stats);
		else if (s->orig->ndo_get_stats)
			netdev_stats_to_stats64(stats, s->orig->ndo_get_stats(dev));
		else
			netdev_stats_to_stats64(stats, &dev->stats);
		dev_fetch_sw_netstats(stats, s->stats);
	}
	rcu_read_unlock();
}

/**
 * mm_shade_rx() - a peer's device has received a packet
 * @pskb: the packet
 *
 * Context: as a receive handler.
 * Return: as a receive handler.
 */
rx_handler_result_t mm_shade_rx(struct sk_buff **pskb)
{
	struct mm_port *port = rcu_dereference((*pskb)->dev->rx_handler_data);
	const struct ethhdr *eth = eth_hdr(*pskb);
	const struct mm_pair *p;
	struct sk_buff *skb;

	list_for_each_entry_rcu(p, &port->pairs, far) {
		/* A tag would lead past what domain 0 allows on the bridge. */
		if (skb_vlan_tag_present(*pskb) || eth_type_vlan(eth->h_proto))
			break;
		if (!is(eth->h_dest, p->own) || !is(eth->h_source, p->peer))
			continue;
		/* The peer knows it, or will soon, or lies. */
		if (!mm_shade_takes(p->shade))
			goto drop;
		skb = skb_share_check(*pskb, GFP_ATOMIC);
		*pskb = skb;
		if (!skb)
			return RX_HANDLER_CONSUMED;
		skb->dev = p->shade->dev;
		skb_set_queue_mapping(skb, 0);	/* the vif has other queues */
		skb->pkt_type = ether_addr_equal(skb->dev->dev_addr, eth->h_dest) ?
				PACKET_HOST : PACKET_OTHERHOST;
		count(p->shade, false, skb->len + ETH_HLEN);
		return RX_HANDLER_ANOTHER;
	}
	if (!READ_ONCE(port->ours))
		return RX_HANDLER_PASS;
	/* Nobody has asked for a wire to the peer. */
drop:
	mm_add(&port->queue[0], MM_RX_NO_PAIR, 1);
	kfree_skb(*pskb);
	return RX_HANDLER_CONSUMED;
}

/**
 * mm_shade_return() - give back a packet that the peer cannot get by shared memory
 * @port: the port
 * @skb: a packet that was queued for it
 *
 * Context: RCU read-side section. The port's tx lock may be held, so the vif's is not taken.
 * Return: true if the packet goes by its vif, soon.
 */
bool mm_shade_return(struct mm_port *port, struct sk_buff *skb)
{
	const struct ethhdr *eth;
	const struct mm_pair *p;

	/* It waits, so it must not be in memory of another guest: see mm_shade_xmit(). */
	if (skb_shared(skb) || skb_headlen(skb) < ETH_HLEN || skb_vlan_tag_present(skb) ||
	    eth_type_vlan(((const struct ethhdr *)skb->data)->h_proto) ||
	    skb_orphan_frags(skb, GFP_ATOMIC))
		return false;
	eth = (const struct ethhdr *)skb->data;
	list_for_each_entry_rcu(p, &port->pairs, far) {
		if (!is_for(p, eth))
			continue;
		skb->dev = p->shade->dev;
		skb_queue_tail(&port->returned, skb);
		queue_work(mm_wq, &port->resend);
		return true;
	}
	return false;
}

/* Work: send what was given back. That it does not come again and again: may_return() in tx.c. */
void mm_shade_resend(struct work_struct *work)
{
	struct mm_port *port = container_of(work, struct mm_port, resend);
	struct sk_buff *skb;

	/*
	 * While one is on its way, its vif stays: forget() in vifs.c waits for such sections
	 * after it has taken away the pairs by which packets of the vif are given back.
	 */
	do {
		rcu_read_lock_bh();
		skb = skb_dequeue(&port->returned);
		if (skb)
			dev_queue_xmit(skb);
		rcu_read_unlock_bh();
		cond_resched();
	} while (skb);
}

/**
 * mm_shade_flush() - send what was given back to vifs
 * @port: the port; nobody finds the pairs any more by which it came
 *
 * Context: process, RTNL held.
 */
void mm_shade_flush(struct mm_port *port)
{
	/* Without waiting for a worker, which may want for memory */
	cancel_work_sync(&port->resend);
	mm_shade_resend(&port->resend);
}
