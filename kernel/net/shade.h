/* SPDX-License-Identifier: GPL-2.0 */
/*
 * In the shade of a virtual interface: what pairs.c, vifs.c and shade.c have in common.
 *
 * The RTNL guards all of this, but for readers in an RCU read-side section: mm_shade_xmit()
 * and its like, in any context that sends or asks for statistics, and mm_shade_rx(), in
 * softirqs. A shade stays when its last pair has gone, so that the vif's statistics never
 * go back, until the vif or the module goes.
 */
#ifndef _XWAY_SHADE_H
#define _XWAY_SHADE_H

#include <linux/hash.h>
#include <linux/hashtable.h>
#include <linux/llist.h>
#include <linux/netdevice.h>
#include <linux/rculist.h>
#include <linux/rtnetlink.h>

#include "mmnet.h"

#define MM_VIFS 32	/* vifs have numbers below it */
#define MM_SHADES_BITS 6	/* domain 0 may have hundreds of vifs */
#define MM_PAIRS_BITS 5		/* and a vif as many peers */

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
 * @node: in mm_shades, by @dev
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
 * @was_named: it did so when mm_pairs_set() looked last
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

extern DECLARE_HASHTABLE(mm_shades, MM_SHADES_BITS);

static inline unsigned long mm_dev_key(const struct net_device *dev)
{
	return (unsigned long)dev;
}

/* The end of a hardware address, which tells one from another */
static inline u32 mm_addr_key(const u8 *addr)
{
	return (u32)addr[2] << 24 | addr[3] << 16 | addr[4] << 8 | addr[5];
}

/* The shade of a vif whose functions are ours; in an RCU read-side section, or with the RTNL */
static inline struct mm_shade *mm_shade_of(const struct net_device *dev)
{
	struct mm_shade *s;

	hash_for_each_possible_rcu(mm_shades, s, node, mm_dev_key(dev),
				   lockdep_rtnl_is_held())
		if (s->dev == dev)
			return s;
	/* It stays in the table until nobody can have come here by its @ops. */
	WARN_ON_ONCE(1);
	return NULL;
}

/* Does the vif take packets that come by a peer's device? */
static inline bool mm_shade_takes(const struct mm_shade *s)
{
	return netif_running(s->dev) && netif_carrier_ok(s->dev) && !READ_ONCE(s->xdp);
}

static inline void mm_pair_unlink(struct mm_pair *p)
{
	hash_del_rcu(&p->near);
	list_del_rcu(&p->far);
}

/* shade.c: packets */
netdev_tx_t mm_shade_xmit(struct sk_buff *skb, struct net_device *dev);
void mm_shade_stats(struct net_device *dev, struct rtnl_link_stats64 *stats);
rx_handler_result_t mm_shade_rx(struct sk_buff **pskb);
void mm_shade_flush(struct mm_port *port);

/* vifs.c: which vifs there are */
struct mm_shade *mm_vifs_get(const struct mm_vif *vif);
u32 mm_vifs_taking(const struct mm_port *port);
void mm_vifs_look(unsigned long delay);

#endif /* _XWAY_SHADE_H */
