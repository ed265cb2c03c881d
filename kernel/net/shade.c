// SPDX-License-Identifier: GPL-2.0
/*
 * In the shade of a virtual interface: packets that leave by this domain's vif for a
 * peer's vif on the same bridge go by the peer's device instead, and come in at the other
 * end as if by the vif there. So addresses, routes, filters and counters stay those of the
 * vif. Domain 0 says which vifs are on one bridge, and their hardware addresses.
 *
 * Domain 0 may be a peer, too. Its vifs are the back ends of the guests' ones. By them goes
 * what its bridge has for the guest, from any address, and what the guest has for any
 * address that is no other peer's.
 *
 * This is how netvsc (drivers/net/hyperv) uses a virtual function: the vif's
 * ndo_start_xmit, behind its filters and its queue, hands the packet to the other device;
 * a receive handler of that device hands packets to the vif. netfront has no place for
 * that, so its table of functions is replaced by a copy with other ones.
 *
 * The RTNL guards all of this, but for readers in an RCU read-side section: shade_xmit()
 * and its like, in any context that sends or asks for statistics, and shade_rx(), in
 * softirqs. A shade stays when its last pair has gone, so that the vif's statistics never
 * go back, until the vif or the module goes.
 */
#include <linux/delay.h>
#include <linux/etherdevice.h>
#include <linux/hash.h>
#include <linux/hashtable.h>
#include <linux/if_vlan.h>
#include <linux/llist.h>
#include <linux/rculist.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <net/net_namespace.h>
#include <net/sch_generic.h>
#ifdef CONFIG_XEN
#include <xen/xenbus.h>
#endif

#include "mmnet.h"

#define MM_VIFS 32	/* vifs have numbers below it */
#define MM_SHADES_BITS 6	/* domain 0 may have hundreds of vifs */
#define MM_PAIRS_BITS 5		/* and a vif as many peers */
#define LEAVE	(HZ / 10)	/* until the peer knows that a vif takes its packets no more */
#define HEARD	HZ		/* until it knows what domain 0 says of pairs, and had the RTNL */

/**
 * struct mm_vif - names a vif of this domain
 * @domid: the domain whose vif this is the back end of; 0 for a vif of this domain's own
 * @number: the vif's number, below MM_VIFS
 */
struct mm_vif {
	unsigned int domid;
	unsigned int number;
};

/**
 * struct mm_shade - a vif from which packets are taken
 * @node: in shades, by @dev
 * @dev: the vif
 * @tracker: of the reference on @dev
 * @orig: its own functions
 * @ops: a copy of them, with ours
 * @stats: packets that were taken, or handed to the vif
 * @pairs: struct mm_pair, by the peer's address
 * @vif: the vif's name
 * @leaving: a program is about to: peers are to send no more
 * @xdp: a program looks at each packet that netfront receives; it would miss ours
 * @forgotten: in forgotten
 */
struct mm_shade {
	struct hlist_node node;
	struct net_device *dev;
	netdevice_tracker tracker;
	const struct net_device_ops *orig;
	struct net_device_ops ops;
	struct pcpu_sw_netstats __percpu *stats;
	DECLARE_HASHTABLE(pairs, MM_PAIRS_BITS);
	struct mm_vif vif;
	bool leaving;
	bool xdp;
	struct llist_node forgotten;
};

/**
 * struct mm_pair - a vif of this domain and one of a peer, on one bridge
 * @near: in the shade's table
 * @far: in the port's list
 * @shade: this domain's vif
 * @port: the peer's device
 * @own: hardware address of this domain's vif; zero in domain 0: any
 * @peer: hardware address of the peer's; zero of domain 0: any
 * @peer_vif: the number of the peer's
 * @named: domain 0 names it
 * @was_named: it did so when mm_shade_set() looked last
 * @wanted: packets may be sent by it
 * @since: when it came, or was named no more, in jiffies
 * @rcu: to free it
 * @gone: the next one that has gone together with it, see forget()
 */
struct mm_pair {
	struct hlist_node near;
	struct list_head far;
	struct mm_shade *shade;
	struct mm_port *port;
	u8 own[ETH_ALEN];
	u8 peer[ETH_ALEN];
	unsigned int peer_vif;
	bool named;
	bool was_named;
	bool wanted;
	unsigned long since;
	struct rcu_head rcu;
	struct mm_pair *gone;
};

static DEFINE_HASHTABLE(shades, MM_SHADES_BITS);

static unsigned long dev_key(const struct net_device *dev)
{
	return (unsigned long)dev;
}

/* The end of a hardware address, which tells one from another */
static u32 addr_key(const u8 *addr)
{
	return (u32)addr[2] << 24 | addr[3] << 16 | addr[4] << 8 | addr[5];
}

/* ---- users of a vif, in an RCU read-side section ---- */

/* With bottom halves off */
static void count(const struct mm_shade *s, bool tx, unsigned int bytes)
{
	struct pcpu_sw_netstats *stats = this_cpu_ptr(s->stats);

	u64_stats_update_begin(&stats->syncp);
	u64_stats_inc(tx ? &stats->tx_packets : &stats->rx_packets);
	u64_stats_add(tx ? &stats->tx_bytes : &stats->rx_bytes, bytes);
	u64_stats_update_end(&stats->syncp);
}

static struct mm_shade *shade_of(const struct net_device *dev)
{
	struct mm_shade *s;

	hash_for_each_possible_rcu(shades, s, node, dev_key(dev), lockdep_rtnl_is_held())
		if (s->dev == dev)
			return s;
	/* It stays in the table until nobody can have come here by its @ops. */
	WARN_ON_ONCE(1);
	return NULL;
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

/* Does the peer take packets of the pair now? */
static bool is_ready(const struct mm_pair *p)
{
	/* The device's queue drops what comes before the kernel has seen the carrier. */
	return READ_ONCE(p->wanted) && (READ_ONCE(p->port->peer_vifs) & BIT(p->peer_vif)) &&
	       !READ_ONCE(p->port->stalled) &&
	       netif_carrier_ok(p->port->dev) && !qdisc_tx_is_noop(p->port->dev);
}

/* The pair with that address of a peer's, for a packet with these addresses; or NULL */
static const struct mm_pair *pair_with(const struct mm_shade *s, const u8 *peer,
				       const struct ethhdr *eth)
{
	const struct mm_pair *p;

	hash_for_each_possible_rcu(s->pairs, p, near, addr_key(peer))
		if (ether_addr_equal_unaligned(p->peer, peer) && is_for(p, eth) && is_ready(p))
			return p;
	return NULL;
}

/* May the packet go by a peer's device? Return: the pair, or NULL. */
static const struct mm_pair *pair_for(const struct mm_shade *s, const struct sk_buff *skb)
{
	static const u8 any[ETH_ALEN];
	const struct ethhdr *eth = (const struct ethhdr *)skb->data;

	if (skb_vlan_tag_present(skb) || eth_type_vlan(eth->h_proto) ||
	    is_multicast_ether_addr(eth->h_dest))
		return NULL;
	/* The pair with domain 0 is the last: what a peer does not take goes by the bridge. */
	return pair_with(s, eth->h_dest, eth) ?: pair_with(s, any, eth);
}

/* May a packet wait for room? What domain 0 keeps for guests has a bound. */
static bool may_wait(const struct mm_shade *s, const struct mm_port *port)
{
	return !s->vif.domid || !netif_queue_stopped(port->dev) || !mm_tx_crowded(port);
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
static bool send_now(struct sk_buff *skb, struct net_device *dev)
{
	struct netdev_queue *txq = netdev_get_tx_queue(dev, 0);
	struct Qdisc *q = rcu_dereference_bh(txq->qdisc);
	bool sent = false;

	if (!(q->flags & TCQ_F_CAN_BYPASS) || dev_nit_active(dev) ||
	    xway_has_egress_filter(dev) || !fits(skb, dev) || !__netif_tx_trylock(txq))
		return false;
	/* Not with more to come: that may go another way. */
	if (!netif_xmit_frozen_or_stopped(txq) && nothing_waits(q))
		sent = netdev_start_xmit(skb, dev, txq, false) == NETDEV_TX_OK;
	__netif_tx_unlock(txq);
	return sent;
}

/* ndo_start_xmit of the vif */
static netdev_tx_t shade_xmit(struct sk_buff *skb, struct net_device *dev)
{
	const struct mm_shade *s = shade_of(dev);
	unsigned int len = skb->len;
	const struct mm_pair *p = NULL;
	int rc;

	if (unlikely(!s)) {
		dev_kfree_skb_any(skb);
		return NETDEV_TX_OK;
	}
	/* netpoll sends with interrupts off; the doorbell cannot be used then. */
	if (!irqs_disabled() && !skb_shared(skb) && skb_headlen(skb) >= ETH_HLEN)
		p = pair_for(s, skb);
	if (!p)
		return s->orig->ndo_start_xmit(skb, dev);
	skb->dev = p->port->dev;
	if (likely(send_now(skb, skb->dev))) {
		count(s, true, len);
		return NETDEV_TX_OK;
	}
	/*
	 * What netback has passed on is still memory of the guest that sent it. It must not wait
	 * for another one, here or, if there is no room, in that one's netback.
	 */
	if ((s->vif.domid && skb_orphan_frags(skb, GFP_ATOMIC)) || !may_wait(s, p->port)) {
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

/* ndo_get_stats64 of the vif */
static void shade_stats(struct net_device *dev, struct rtnl_link_stats64 *stats)
{
	const struct mm_shade *s;

	rcu_read_lock();
	s = shade_of(dev);
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

/* Does the vif take packets that come by a peer's device? */
static bool takes(const struct mm_shade *s)
{
	return netif_running(s->dev) && netif_carrier_ok(s->dev) && !READ_ONCE(s->xdp);
}

/* A program of the generic mode sees what comes by us, too. */
static bool has_xdp(const struct net_device *dev)
{
	return dev->xdp_state[XDP_MODE_DRV].prog || dev->xdp_state[XDP_MODE_DRV].link;
}

/* The peer's device has received a packet. */
static rx_handler_result_t shade_rx(struct sk_buff **pskb)
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
		if (!takes(p->shade))
			goto drop;
		skb = skb_share_check(*pskb, GFP_ATOMIC);
		*pskb = skb;
		if (!skb)
			return RX_HANDLER_CONSUMED;
		skb->dev = p->shade->dev;
		skb->pkt_type = ether_addr_equal(skb->dev->dev_addr, eth->h_dest) ?
				PACKET_HOST : PACKET_OTHERHOST;
		count(p->shade, false, skb->len + ETH_HLEN);
		return RX_HANDLER_ANOTHER;
	}
	if (!READ_ONCE(port->ours))
		return RX_HANDLER_PASS;
	/* Nobody has asked for a wire to the peer. */
drop:
	mm_add(port, MM_RX_NO_PAIR, 1);
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

	/* It waits, so it must not be in memory of another guest: see shade_xmit(). */
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

/* Work: send what was given back. The peer takes nothing now, so it does not come again. */
void mm_shade_resend(struct work_struct *work)
{
	struct mm_port *port = container_of(work, struct mm_port, resend);
	struct sk_buff *skb;

	/*
	 * While one is on its way, its vif stays: forget() waits for such sections after it has
	 * taken away the pairs by which packets of the vif are given back.
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

/* ---- which vifs there are, with the RTNL held ---- */

static void work_fn(struct work_struct *work)
{
	rtnl_lock();
	mm_ports_shade();
	rtnl_unlock();
}

static DECLARE_DELAYED_WORK(shade_work, work_fn);

/**
 * mm_shade_soon() - something has changed: look again which vifs to take packets of
 *
 * Context: any.
 */
void mm_shade_soon(void)
{
	mod_delayed_work(mm_wq, &shade_work, 0);
}

/* There was no memory: look again in a second. */
static void retry(void)
{
	queue_delayed_work(mm_wq, &shade_work, HZ);
}

/* Which vif is the device? Return: false if it is none. */
static bool vif_of(const struct net_device *dev, struct mm_vif *vif)
{
#ifdef CONFIG_XEN
	const struct device *parent = dev->dev.parent;
	const char *name;

	if (!parent || !parent->bus || !strstarts(parent->bus->name, "xen"))
		return false;
	name = container_of(parent, struct xenbus_device, dev)->nodename;
	vif->domid = 0;
	return (sscanf(name, "device/vif/%u", &vif->number) == 1 ||
		sscanf(name, "backend/vif/%u/%u", &vif->domid, &vif->number) == 2) &&
	       vif->number < MM_VIFS;
#else
	return false;
#endif
}

static bool same_vif(const struct mm_vif *a, const struct mm_vif *b)
{
	return a->domid == b->domid && a->number == b->number;
}

static struct mm_shade *shade_find(const struct mm_vif *vif)
{
	struct mm_shade *s;
	int i;

	hash_for_each(shades, i, s, node)
		if (same_vif(&s->vif, vif))
			return s;
	return NULL;
}

/* The vifs that take packets of the port */
static u32 vifs_of(const struct mm_port *port)
{
	const struct mm_pair *p;
	u32 vifs = 0;

	list_for_each_entry(p, &port->pairs, far)
		if (p->named && takes(p->shade) && !p->shade->leaving)
			vifs |= BIT(p->shade->vif.number);
	return vifs;
}

/* Have all peers know what a vif takes from now on. Return: whether there are any. */
static bool tell_peers(struct mm_shade *s)
{
	struct mm_pair *p;
	int i;

	hash_for_each(s->pairs, i, p, near)
		mm_port_set_vifs(p->port, vifs_of(p->port));
	return !hash_empty(s->pairs);
}

/* ndo_bpf of the vif; RTNL held */
static int shade_bpf(struct net_device *dev, struct netdev_bpf *bpf)
{
	bool attach = bpf->command == XDP_SETUP_PROG && bpf->prog;
	struct mm_shade *s = shade_of(dev);
	bool told = false;
	int err;

	if (!s)
		return -ENODEV;
	if (attach && takes(s)) {
		s->leaving = true;
		told = tell_peers(s);
	}
	err = s->orig->ndo_bpf(dev, bpf);
	/* Nobody can tell what came before the program from what peers send until they know. */
	if (told && !err)
		msleep(jiffies_to_msecs(LEAVE));
	if (bpf->command == XDP_SETUP_PROG) {
		WRITE_ONCE(s->xdp, err ? has_xdp(dev) : !!bpf->prog);
		s->leaving = false;
		mm_shade_soon();
	}
	return err;
}

static struct mm_shade *shade_add(struct net_device *dev, const struct mm_vif *vif)
{
	struct mm_shade *s = kzalloc(sizeof(*s), GFP_KERNEL);

	if (s)
		s->stats = netdev_alloc_pcpu_stats(struct pcpu_sw_netstats);
	if (!s || !s->stats) {
		kfree(s);
		retry();
		return NULL;
	}
	hash_init(s->pairs);
	s->dev = dev;
	s->vif = *vif;
	s->xdp = has_xdp(dev);
	s->orig = dev->netdev_ops;
	s->ops = *s->orig;
	s->ops.ndo_start_xmit = shade_xmit;
	s->ops.ndo_get_stats64 = shade_stats;
	if (s->ops.ndo_bpf)
		s->ops.ndo_bpf = shade_bpf;
	netdev_hold(dev, &s->tracker, GFP_KERNEL);
	hash_add_rcu(shades, &s->node, dev_key(dev));
	/* Whoever comes by @ops finds the shade. */
	smp_store_release(&dev->netdev_ops, &s->ops);
	return s;
}

/* Find or make the shade of a vif. Return: NULL if there is no such vif, or no memory. */
static struct mm_shade *shade_get(const struct mm_vif *vif)
{
	struct mm_shade *s = shade_find(vif);
	struct net_device *dev;
	struct mm_vif other;

	if (s)
		return s;
	for_each_netdev(&init_net, dev)
		if (vif_of(dev, &other) && same_vif(&other, vif) &&
		    dev->reg_state == NETREG_REGISTERED)
			return shade_add(dev, vif);
	return NULL;
}

static void pair_unlink(struct mm_pair *p)
{
	hash_del_rcu(&p->near);
	list_del_rcu(&p->far);
}

/* Send what was given back to vifs. Nobody finds the pairs any more by which it came. */
static void send_returned(struct mm_port *port)
{
	/* Without waiting for a worker, which may want for memory */
	cancel_work_sync(&port->resend);
	mm_shade_resend(&port->resend);
}

/* A pair as domain 0 writes it, doc/xenstore.md */
struct entry {
	struct mm_vif vif;
	unsigned int peer_vif;
	u8 own[ETH_ALEN], peer[ETH_ALEN];
};

static bool parse_vif(const char *text, struct mm_vif *vif)
{
	int used = 0;

	vif->domid = 0;
	if (sscanf(text, "%u.%u%n", &vif->domid, &vif->number, &used) != 2) {
		vif->domid = 0;
		if (sscanf(text, "%u%n", &vif->number, &used) != 1)
			return false;
	}
	return !text[used] && vif->number < MM_VIFS;
}

static bool parse_mac(const char *text, u8 *mac)
{
	if (!strcmp(text, "*")) {
		eth_zero_addr(mac);
		return true;
	}
	return sscanf(text, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx", mac, mac + 1, mac + 2, mac + 3,
		      mac + 4, mac + 5) == ETH_ALEN;
}

/* Read the next entry. Return: false at the end, or where it is not one. */
static bool next_entry(const char **text, struct entry *e)
{
	char vif[16], own[18], peer[18];
	int used = 0;

	if (sscanf(*text, "%15s %17s %u %17s%n", vif, own, &e->peer_vif, peer, &used) != 4 ||
	    !parse_vif(vif, &e->vif) || e->peer_vif >= MM_VIFS || !parse_mac(own, e->own) ||
	    !parse_mac(peer, e->peer)) {
		if (**text)
			pr_warn_ratelimited("mmnet: \"%s\" names no pair of interfaces\n",
					    *text);
		return false;
	}
	*text += used;
	return true;
}

/* Are there only entries? */
static bool well_formed(const char *text)
{
	struct entry e;

	while (next_entry(&text, &e))
		;
	return !*text;
}

static struct mm_pair *pair_find(const struct mm_port *port, const struct mm_shade *s,
				 const struct entry *e)
{
	struct mm_pair *p;

	list_for_each_entry(p, &port->pairs, far)
		if (p->shade == s && p->peer_vif == e->peer_vif &&
		    ether_addr_equal(p->own, e->own) && ether_addr_equal(p->peer, e->peer))
			return p;
	return NULL;
}

static void pair_add(struct mm_port *port, struct mm_shade *s, const struct entry *e)
{
	struct mm_pair *p = kzalloc(sizeof(*p), GFP_KERNEL);

	if (!p) {
		retry();
		return;
	}
	p->shade = s;
	p->port = port;
	p->peer_vif = e->peer_vif;
	p->named = true;
	/* Of the first pair the peer knows if it takes packets at all: is_ready(). */
	p->wanted = list_empty(&port->pairs);
	p->since = jiffies;
	ether_addr_copy(p->own, e->own);
	ether_addr_copy(p->peer, e->peer);
	hash_add_rcu(s->pairs, &p->near, addr_key(p->peer));
	list_add_tail_rcu(&p->far, &port->pairs);
}

static void add_wanted(struct mm_port *port, const char *text)
{
	struct entry e;

	while (next_entry(&text, &e)) {
		struct mm_shade *s = shade_get(&e.vif);
		struct mm_pair *p = s ? pair_find(port, s, &e) : NULL;

		if (p)
			p->named = true;
		else if (s)
			pair_add(port, s, &e);
	}
}

/* What may be sent by from now on: what domain 0 names, once the peer knows it, too */
static void set_wanted(struct mm_port *port)
{
	struct mm_pair *p;

	list_for_each_entry(p, &port->pairs, far) {
		if (!p->wanted && p->named && time_before(jiffies, p->since + HEARD)) {
			queue_delayed_work(mm_wq, &shade_work, LEAVE);
			continue;
		}
		if (p->was_named && !p->named)
			p->since = jiffies;
		WRITE_ONCE(p->wanted, p->named);
	}
}

/* Those that domain 0 names no more; @now: also those by which the peer may still send */
static void del_unwanted(struct mm_port *port, bool now)
{
	struct mm_pair *p, *next;
	bool any = false;

	list_for_each_entry_safe(p, next, &port->pairs, far) {
		if (p->named)
			continue;
		if (!now && time_before(jiffies, p->since + HEARD)) {
			queue_delayed_work(mm_wq, &shade_work, LEAVE);
			continue;
		}
		pair_unlink(p);
		kfree_rcu(p, rcu);
		any = true;
	}
	if (any) {
		synchronize_net();
		send_returned(port);
	}
}

/* Look at what the device receives, or do not. Return: false if that cannot be. */
static bool handle(struct mm_port *port, bool on)
{
	bool is_on = rcu_access_pointer(port->dev->rx_handler) == shade_rx;

	if (on && !is_on && netdev_rx_handler_register(port->dev, shade_rx, port)) {
		pr_warn("mmnet: %s is in use by something else\n", port->dev->name);
		return false;
	}
	if (!on && is_on)
		netdev_rx_handler_unregister(port->dev);
	return true;
}

/**
 * mm_shade_set() - take packets of vifs for a peer
 * @port: the peer's
 * @text: which vifs are on one bridge, as domain 0 has written it, or NULL for none
 *
 * Context: process, RTNL held.
 */
void mm_shade_set(struct mm_port *port, const char *text)
{
	/* A device in another namespace is its own; its root shall see nothing of the vifs'. */
	bool here = net_eq(dev_net(port->dev), &init_net);
	/* What makes no sense changes nothing. */
	bool sense = !text || well_formed(text);
	struct mm_pair *p;

	ASSERT_RTNL();
	list_for_each_entry(p, &port->pairs, far) {
		p->was_named = p->named;
		p->named = here && !sense && p->named;
	}
	if (here && sense && text && *text && handle(port, true))
		add_wanted(port, text);
	set_wanted(port);
	mm_port_set_vifs(port, vifs_of(port));
	del_unwanted(port, !here || !text);
	xway_set_netns_local(port->dev, !list_empty(&port->pairs));
	/* What the module has brought up goes on taking nothing else. */
	if (list_empty(&port->pairs) && !READ_ONCE(port->ours))
		handle(port, false);
	/* Once: who takes it down later means it. */
	if (!list_empty(&port->pairs) && !port->opened) {
		port->opened = true;
		if (!(port->dev->flags & IFF_UP)) {
			WRITE_ONCE(port->ours, true);
			mm_device_no_ipv6(port, true);
			if (dev_open(port->dev, NULL)) {
				port->opened = false;
				WRITE_ONCE(port->ours, false);
				mm_device_no_ipv6(port, false);
				retry();
			}
		}
	}
}

/**
 * mm_shade_names() - the vifs from which packets are taken for a peer, for users
 * @port: the peer's
 * @text: set to their names, with spaces between them
 * @size: bytes of @text
 *
 * Context: any that may enter an RCU read-side section.
 */
void mm_shade_names(const struct mm_port *port, char *text, size_t size)
{
	const struct mm_pair *p;
	size_t n = 0;
	u32 seen = 0;	/* in domain 0 all vifs of a port are the peer's */

	*text = '\0';
	rcu_read_lock();
	list_for_each_entry_rcu(p, &port->pairs, far) {
		if (seen & BIT(p->shade->vif.number))
			continue;
		seen |= BIT(p->shade->vif.number);
		n += scnprintf(text + n, size - n, "%s%s", n ? " " : "", p->shade->dev->name);
	}
	rcu_read_unlock();
}

/* Shades that nobody finds any more */
static LLIST_HEAD(forgotten);

/*
 * Work: free them. Some look at a device's operations without RCU: netfront tells of its
 * carrier without RTNL, and the kernel then loads netdev_ops, and a function of it. Whoever
 * has done so has left our table by the time at which each task has slept or run elsewhere.
 */
static void bury(struct work_struct *work)
{
	struct llist_node *list = llist_del_all(&forgotten);
	struct mm_shade *s, *next;

	synchronize_rcu_tasks();
	llist_for_each_entry_safe(s, next, list, forgotten)
		kfree(s);
}

static DECLARE_WORK(bury_work, bury);

/* A vif goes, or the module: nobody uses it by us when this returns. */
static void forget(struct mm_shade *s)
{
	struct mm_pair *p, *gone = NULL;
	struct hlist_node *next;
	int i;

	hash_for_each_safe(s->pairs, i, next, p, near) {
		pair_unlink(p);
		p->gone = gone;
		gone = p;
	}
	synchronize_net();	/* one for all of them */
	while ((p = gone)) {
		gone = p->gone;
		send_returned(p->port);
		kfree(p);
	}
	WRITE_ONCE(s->dev->netdev_ops, s->orig);
	/* Whoever has come by @ops finds the shade, and is done when this returns. */
	synchronize_net();
	hash_del_rcu(&s->node);
	/* Those that look for another one may be looking at it. */
	synchronize_net();
	netdev_put(s->dev, &s->tracker);
	free_percpu(s->stats);
	/* That wait is too long for RTNL. */
	llist_add(&s->forgotten, &forgotten);
	queue_work(mm_wq, &bury_work);
}

static int notified(struct notifier_block *nb, unsigned long event, void *ptr)
{
	struct net_device *dev = netdev_notifier_info_to_dev(ptr);
	struct mm_port *port = mm_device_port(dev);
	struct mm_shade *s;
	struct mm_vif vif;

	/* What waits in its queue goes by its vif. Later the kernel would drop it. */
	if (port && event == NETDEV_GOING_DOWN)
		mm_port_set_up(port, false);
	if (!vif_of(dev, &vif))
		return NOTIFY_DONE;
	s = shade_find(&vif);
	switch (event) {
	case NETDEV_UNREGISTER:
		if (s && s->dev == dev)
			forget(s);
		fallthrough;
	case NETDEV_REGISTER:
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
		mm_shade_soon();
	}
	return NOTIFY_DONE;
}

static struct notifier_block netdev_nb = { .notifier_call = notified };

/* Context: initialization, before there is a port. Return: 0 or a negative errno. */
int mm_shade_init(void)
{
	return register_netdevice_notifier(&netdev_nb);
}

/* Context: process, when no port has a link any more. The notifier hears that all vifs go. */
void mm_shade_exit(void)
{
	unregister_netdevice_notifier(&netdev_nb);
	cancel_delayed_work_sync(&shade_work);
	flush_work(&bury_work);
}
