// SPDX-License-Identifier: GPL-2.0
/*
 * Pairs of vifs: domain 0 says which of this domain and of a peer are on one bridge, and their
 * hardware addresses. All of this holds the RTNL, but for mm_pairs_names().
 */
#include <linux/etherdevice.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "shade.h"

#define HEARD	HZ		/* until the peer knows what domain 0 says, and had the RTNL */
#define AGAIN	(HZ / 10)	/* between looks whether it does */

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
		mm_vifs_look(HZ);	/* by then there may be memory */
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
	hash_add_rcu(s->pairs, &p->near, mm_addr_key(p->peer));
	list_add_tail_rcu(&p->far, &port->pairs);
}

static void add_wanted(struct mm_port *port, const char *text)
{
	struct entry e;

	while (next_entry(&text, &e)) {
		struct mm_shade *s = mm_vifs_get(&e.vif);
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
			mm_vifs_look(AGAIN);
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
			mm_vifs_look(AGAIN);
			continue;
		}
		mm_pair_unlink(p);
		kfree_rcu(p, rcu);
		any = true;
	}
	if (any) {
		synchronize_net();
		mm_shade_flush(port);
	}
}

/* Look at what the device receives, or do not. Return: false if that cannot be. */
static bool handle(struct mm_port *port, bool on)
{
	bool is_on = rcu_access_pointer(port->dev->rx_handler) == mm_shade_rx;

	if (on && !is_on && netdev_rx_handler_register(port->dev, mm_shade_rx, port)) {
		pr_warn("mmnet: %s is in use by something else\n", port->dev->name);
		return false;
	}
	if (!on && is_on)
		netdev_rx_handler_unregister(port->dev);
	return true;
}

/**
 * mm_pairs_set() - take packets of vifs for a peer
 * @port: the peer's
 * @text: which vifs are on one bridge, as domain 0 has written it, or NULL for none
 *
 * Context: process, RTNL held.
 */
void mm_pairs_set(struct mm_port *port, const char *text)
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
	mm_port_set_vifs(port, mm_vifs_taking(port));
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
				mm_vifs_look(HZ);
			}
		}
	}
}

/**
 * mm_pairs_names() - the vifs from which packets are taken for a peer, for users
 * @port: the peer's
 * @text: set to their names, with spaces between them
 * @size: bytes of @text
 *
 * Context: any that may enter an RCU read-side section.
 */
void mm_pairs_names(const struct mm_port *port, char *text, size_t size)
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
