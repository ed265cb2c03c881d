// SPDX-License-Identifier: GPL-2.0
/*
 * The address table: which addresses belong to a peer on this host, and which to this
 * domain.
 *
 * Clients look up each new connection once. A whole address is found by its hash. The
 * few prefixes (of the transport "local") are tried one by one.
 *
 * An address alone does not say where packets go. A network namespace may have a
 * network of its own, with addresses that are a peer's, or this domain's, elsewhere.
 * So a connection counts only if its near address is this domain's as well, in the
 * namespace that has the domain's network. What clients tell the peer of such a
 * connection are addresses that the peer was told by domain 0.
 */
#include <linux/export.h>
#include <linux/inetdevice.h>
#include <linux/mutex.h>
#include <linux/rculist.h>
#include <linux/rhashtable.h>
#include <linux/slab.h>
#include <linux/socket.h>

#include <net/addrconf.h>
#include <net/net_namespace.h>

#include "addr.h"
#include "link.h"

struct entry {
	struct rhash_head hash;
	struct list_head node;
	struct entry *dead;
	struct xway_addr key;
	struct xway_link *link[2];	/* for the passive end, for the active end */
};

static const struct rhashtable_params params = {
	.key_len = sizeof(struct xway_addr),
	.key_offset = offsetof(struct entry, key),
	.head_offset = offsetof(struct entry, hash),
	.automatic_shrinking = true,
};

/* This domain's own addresses, as domain 0 has told it */
struct own {
	struct rcu_head rcu;
	unsigned int n;
	struct xway_addr list[];
};

static struct own __rcu *own;	/* NULL: not known */

static struct rhashtable table;
static LIST_HEAD(entries);	/* all entries; readers use RCU */
static DEFINE_MUTEX(lock);	/* for writers */
static unsigned int count, prefixes;

/* Length of a whole address in bits */
static u16 full(u16 family)
{
	return family == AF_INET ? 32 : 128;
}

bool xway_addr_any(void)
{
	return READ_ONCE(count);
}
EXPORT_SYMBOL_GPL(xway_addr_any);

static bool prefix_match(const struct xway_addr *p, const __be32 *addr)
{
	u16 bits = p->prefix;
	int i;

	for (i = 0; bits; i++, bits -= min_t(u16, bits, 32)) {
		u32 mask = ~0U << (32 - min_t(u16, bits, 32));

		if ((p->addr[i] ^ addr[i]) & htonl(mask))
			return false;
	}
	return true;
}

struct xway_link *xway_addr_find(u16 family, const __be32 *addr, bool active)
{
	struct xway_addr key = { .family = family, .prefix = full(family) };
	struct entry *found, *e;

	memcpy(key.addr, addr, full(family) / 8);
	found = rhashtable_lookup(&table, &key, params);
	if (!found && READ_ONCE(prefixes))
		list_for_each_entry_rcu(e, &entries, node)
			if (e->key.family == family &&
			    e->key.prefix != full(family) &&
			    prefix_match(&e->key, key.addr) &&
			    (!found || found->key.prefix < e->key.prefix))
				found = e;
	return found ? READ_ONCE(found->link[active]) : NULL;
}
EXPORT_SYMBOL_GPL(xway_addr_find);

static bool listed(const struct xway_addr *addr, const struct xway_addr *list,
		   unsigned int n)
{
	while (n--)
		if (!memcmp(addr, &list[n], sizeof(*addr)))
			return true;
	return false;
}

/*
 * Has a device of the initial network namespace the address? One that a VRF has counts
 * for IPv4 only. RCU read-side section.
 */
static bool in_initial_net(const struct xway_addr *addr)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (addr->family == AF_INET6)
		return ipv6_chk_addr(&init_net, (const struct in6_addr *)addr->addr,
				     NULL, 0);
#endif
	return __ip_dev_find(&init_net, addr->addr[0], false);
}

bool xway_addr_is_own(struct xway_link *link, const struct net *net, u16 family,
		      const __be32 *addr)
{
	struct xway_addr key = { .family = family, .prefix = full(family) };
	const struct own *o;
	bool ret;

	if (!to_link(link)->tp->domains)
		return true;
	memcpy(key.addr, addr, full(family) / 8);
	rcu_read_lock();
	o = rcu_dereference(own);
	/*
	 * Whoever owns a namespace that a program made for itself can make up a connection there,
	 * and what proves that it is one.
	 */
	ret = (!o || listed(&key, o->list, o->n)) &&
	      (net_eq(net, &init_net) ||
	       (net->user_ns == &init_user_ns && !in_initial_net(&key)));
	rcu_read_unlock();
	return ret;
}
EXPORT_SYMBOL_GPL(xway_addr_is_own);

/**
 * xway_addr_own() - set this domain's own addresses
 * @list: the addresses; NULL if they are not known: then each address may be one
 * @n: how many
 *
 * Context: process, may sleep; one call at a time.
 * Return: 0 or -ENOMEM.
 */
int xway_addr_own(const struct xway_addr *list, unsigned int n)
{
	struct own *fresh = NULL, *old;

	if (list) {
		fresh = kmalloc(struct_size(fresh, list, n), GFP_KERNEL);
		if (!fresh)
			return -ENOMEM;
		fresh->n = n;
		memcpy(fresh->list, list, n * sizeof(*list));
	}
	mutex_lock(&lock);
	old = rcu_replace_pointer(own, fresh, lockdep_is_held(&lock));
	mutex_unlock(&lock);
	if (old)
		kfree_rcu(old, rcu);
	return 0;
}

/**
 * xway_addr_add() - add an address of a peer
 * @addr: address or prefix; the bits beyond the prefix are 0
 * @active: link for connections that this end makes
 * @passive: link for connections that this end accepts; only the transport "local" has
 *	two different links
 *
 * Context: process, may sleep.
 * Return: 0; -EEXIST if a peer has this address or prefix; or another negative errno.
 */
int xway_addr_add(const struct xway_addr *addr, struct xway_link *active,
		  struct xway_link *passive)
{
	struct entry *e = kzalloc(sizeof(*e), GFP_KERNEL);
	int err;

	if (!e)
		return -ENOMEM;
	e->key = *addr;
	e->link[0] = xway_link_get(passive);
	e->link[1] = xway_link_get(active);
	mutex_lock(&lock);
	err = rhashtable_lookup_insert_fast(&table, &e->hash, params);
	if (!err) {
		list_add_tail_rcu(&e->node, &entries);
		if (addr->prefix != full(addr->family))
			prefixes++;
		WRITE_ONCE(count, count + 1);
	}
	mutex_unlock(&lock);
	if (err) {
		xway_link_put(passive);
		xway_link_put(active);
		kfree(e);
	}
	return err;
}

static void entry_free(struct entry *e)
{
	xway_link_put(e->link[0]);
	xway_link_put(e->link[1]);
	kfree(e);
}

static void entry_unlink(struct entry *e)
{
	rhashtable_remove_fast(&table, &e->hash, params);
	list_del_rcu(&e->node);
	if (e->key.prefix != full(e->key.family))
		prefixes--;
	WRITE_ONCE(count, count - 1);
}

static bool entry_of(const struct entry *e, const struct xway_link *link)
{
	return e->link[0] == link || e->link[1] == link;
}

/**
 * xway_addr_del() - remove an address of a link
 * @addr: the address or prefix, as it was added
 * @link: the link
 *
 * A grace period has passed when this returns.
 *
 * Context: process, may sleep.
 * Return: 0; -ENOENT if the link has no such address.
 */
int xway_addr_del(const struct xway_addr *addr, const struct xway_link *link)
{
	struct entry *e;

	mutex_lock(&lock);
	e = rhashtable_lookup_fast(&table, addr, params);
	if (e && !entry_of(e, link))
		e = NULL;
	if (e)
		entry_unlink(e);
	mutex_unlock(&lock);
	if (!e)
		return -ENOENT;
	synchronize_rcu();
	entry_free(e);
	return 0;
}

/**
 * xway_addr_keep() - remove all addresses of a link but some
 * @link: the link
 * @list: the addresses that it keeps, if it has them
 * @n: how many
 *
 * If some are removed, a grace period has passed when this returns: nobody finds the
 * link by them any more.
 *
 * Context: process, may sleep.
 * Return: true if some were removed.
 */
bool xway_addr_keep(struct xway_link *link, const struct xway_addr *list,
		    unsigned int n)
{
	struct entry *e, *next;
	struct entry *dead = NULL;

	mutex_lock(&lock);
	list_for_each_entry_safe(e, next, &entries, node) {
		if (!entry_of(e, link) || listed(&e->key, list, n))
			continue;
		entry_unlink(e);
		e->dead = dead;
		dead = e;
	}
	mutex_unlock(&lock);
	if (!dead)
		return false;
	synchronize_rcu_expedited();
	while ((e = dead)) {
		dead = e->dead;
		entry_free(e);
	}
	return true;
}

/**
 * xway_addr_del_link() - remove all addresses of a link
 * @link: the link
 *
 * A grace period has passed when this returns, so nobody finds the link any more.
 *
 * Context: process, may sleep.
 */
void xway_addr_del_link(struct xway_link *link)
{
	xway_addr_keep(link, NULL, 0);
}

/**
 * xway_addr_each() - call a function for each address of a link
 * @link: the link
 * @fn: the function; it must not change the table. A value other than 0 ends the loop.
 * @arg: second argument of @fn
 *
 * Context: process, may sleep.
 * Return: the last value that @fn returned; 0 if there is no address.
 */
int xway_addr_each(struct xway_link *link,
		   int (*fn)(const struct xway_addr *addr, void *arg),
		   void *arg)
{
	struct entry *e;
	int ret = 0;

	mutex_lock(&lock);
	list_for_each_entry(e, &entries, node)
		if (entry_of(e, link)) {
			ret = fn(&e->key, arg);
			if (ret)
				break;
		}
	mutex_unlock(&lock);
	return ret;
}

/* Return: 0 or a negative errno. */
int __init xway_addr_init(void)
{
	return rhashtable_init(&table, &params);
}

/* The table is empty. */
void xway_addr_exit(void)
{
	xway_addr_own(NULL, 0);
	rhashtable_destroy(&table);
}
