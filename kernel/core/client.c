// SPDX-License-Identifier: GPL-2.0
/*
 * Clients: the table of the modules that use the core, and the calls into them.
 *
 * xway_client_unregister() clears a client's entry. Then it waits for each call that
 * may have found the entry before. Such calls run under xway_links_lock (add_link,
 * del_link, policy, show), under a link's lock (up, ctl for OPEN), or in an SRCU read-side
 * section of the service's own (drain, abort, addresses, reclaim). Other calls (ctl, event)
 * find the client by a channel. After @del_link there is none, but @event may still run in
 * an RCU read-side section.
 *
 * A client may take a link's lock in each of these calls, so none of them may wait for
 * I/O: see core.h. Calls under a link's lock run in work items that see to this.
 */
#include <linux/export.h>
#include <linux/nospec.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/srcu.h>

#include "link.h"

static const struct xway_client __rcu *clients[XWAY_SERVICES];
/* A service's calls, so that none waits for those of another: one may last (doc/locking.md). */
static struct srcu_struct calls[XWAY_SERVICES];

/**
 * xway_clients_init() - make what clients need
 *
 * Return: 0 or -ENOMEM.
 */
int __init xway_clients_init(void)
{
	int i, err;

	for (i = 0; i < XWAY_SERVICES; i++) {
		err = init_srcu_struct(&calls[i]);
		if (err)
			goto err;
	}
	return 0;

err:
	while (i--)
		cleanup_srcu_struct(&calls[i]);
	return err;
}

/**
 * xway_clients_exit() - undo xway_clients_init(); no client and no link is left
 */
void xway_clients_exit(void)
{
	int i;

	for (i = 0; i < XWAY_SERVICES; i++)
		cleanup_srcu_struct(&calls[i]);
}

int xway_client_register(const struct xway_client *client)
{
	unsigned int noio;
	struct link *link;

	if (client->service >= XWAY_SERVICES)
		return -EINVAL;
	mutex_lock(&xway_links_lock);
	if (rcu_access_pointer(clients[client->service])) {
		mutex_unlock(&xway_links_lock);
		return -EBUSY;
	}
	noio = memalloc_noio_save();
	list_for_each_entry(link, &xway_links, node) {
		client->add_link(&link->pub);
		if (client->policy && link->policy[client->service])
			client->policy(&link->pub, link->policy[client->service]);
	}
	rcu_assign_pointer(clients[client->service], client);
	list_for_each_entry(link, &xway_links, node) {
		mutex_lock(&link->pub.lock);
		if (link->pub.state == XWAY_LINK_UP)
			xway_client_up(link);
		mutex_unlock(&link->pub.lock);
	}
	memalloc_noio_restore(noio);
	mutex_unlock(&xway_links_lock);
	return 0;
}
EXPORT_SYMBOL_GPL(xway_client_register);

void xway_client_unregister(const struct xway_client *client)
{
	unsigned int noio = memalloc_noio_save();
	struct link *link;

	mutex_lock(&xway_links_lock);
	RCU_INIT_POINTER(clients[client->service], NULL);
	synchronize_srcu(&calls[client->service]);
	list_for_each_entry(link, &xway_links, node) {
		/* Taking the lock also waits for a call of @up or @ctl. */
		mutex_lock(&link->pub.lock);
		link->told_up &= ~BIT(client->service);
		mutex_unlock(&link->pub.lock);
		client->del_link(&link->pub);
	}
	mutex_unlock(&xway_links_lock);
	memalloc_noio_restore(noio);
	synchronize_rcu();
}
EXPORT_SYMBOL_GPL(xway_client_unregister);

/* The client of a service, or NULL. @held: the lock of the call, see the top. */
#define client_of(service, held) rcu_dereference_check(clients[service], held)

/**
 * xway_client_add_link() - tell all clients of a new link
 * @link: the link
 *
 * Context: process, xway_links_lock held.
 */
void xway_client_add_link(struct link *link)
{
	unsigned int noio = memalloc_noio_save();
	const struct xway_client *client;
	int i;

	lockdep_assert_held(&xway_links_lock);
	for (i = 0; i < XWAY_SERVICES; i++) {
		client = client_of(i, lockdep_is_held(&xway_links_lock));
		if (client)
			client->add_link(&link->pub);
	}
	memalloc_noio_restore(noio);
}

/**
 * xway_client_del_link() - tell all clients that a link is destroyed
 * @link: the link, which has no channel
 *
 * Context: process, xway_links_lock held.
 */
void xway_client_del_link(struct link *link)
{
	unsigned int noio = memalloc_noio_save();
	const struct xway_client *client;
	int i;

	lockdep_assert_held(&xway_links_lock);
	for (i = 0; i < XWAY_SERVICES; i++) {
		client = client_of(i, lockdep_is_held(&xway_links_lock));
		if (client)
			client->del_link(&link->pub);
	}
	memalloc_noio_restore(noio);
}

/**
 * xway_client_policy() - take up what domain 0 says of a service for a link
 * @link: the link
 * @service: enum xway_service
 * @text: what it says, or NULL if the two domains may not use the service
 *
 * Context: process; takes xway_links_lock.
 * Return: 0 or -ENOMEM: nothing has changed.
 */
int xway_client_policy(struct link *link, u16 service, const char *text)
{
	unsigned int noio = memalloc_noio_save();
	const struct xway_client *client;
	char *copy = NULL;
	int err = 0;

	mutex_lock(&xway_links_lock);
	if (text == link->policy[service] ||
	    (text && link->policy[service] && !strcmp(text, link->policy[service])))
		goto out;
	if (text) {
		copy = kstrdup(text, GFP_KERNEL);
		if (!copy) {
			err = -ENOMEM;
			goto out;
		}
	}
	swap(link->policy[service], copy);
	client = client_of(service, lockdep_is_held(&xway_links_lock));
	if (client && client->policy)
		client->policy(&link->pub, text);
	kfree(copy);
out:
	mutex_unlock(&xway_links_lock);
	memalloc_noio_restore(noio);
	return err;
}

/**
 * xway_client_show() - have all clients show their attributes of a link
 * @link: the link
 * @skb: the netlink message to put them into
 *
 * Context: process, xway_links_lock held.
 * Return: 0 or -EMSGSIZE.
 */
int xway_client_show(struct link *link, struct sk_buff *skb)
{
	unsigned int noio = memalloc_noio_save();
	const struct xway_client *client;
	int i, err = 0;

	lockdep_assert_held(&xway_links_lock);
	for (i = 0; i < XWAY_SERVICES && !err; i++) {
		client = client_of(i, lockdep_is_held(&xway_links_lock));
		if (client && client->show)
			err = client->show(&link->pub, skb);
	}
	memalloc_noio_restore(noio);
	return err;
}

/**
 * xway_client_up() - tell the clients that a session has begun, each once
 * @link: the link, which is up
 *
 * Context: process, link's lock held.
 */
void xway_client_up(struct link *link)
{
	const struct xway_client *client;
	int i;

	lockdep_assert_held(&link->pub.lock);
	for (i = 0; i < XWAY_SERVICES; i++) {
		client = client_of(i, lockdep_is_held(&link->pub.lock));
		if (!client || (link->told_up & BIT(i)))
			continue;
		link->told_up |= BIT(i);
		if (client->up)
			client->up(&link->pub);
	}
}

const char *xway_decline_name(u32 reason)
{
	static const char *const names[XWAY_DECLINES] = {
		[0] = "other",
		[XWAY_DECLINE_UNKNOWN] = "unknown",
		[XWAY_DECLINE_PROOF] = "proof",
		[XWAY_DECLINE_OFF] = "off",
		[XWAY_DECLINE_MEMORY] = "no-memory",
		[XWAY_DECLINE_LATER] = "later",
		[XWAY_DECLINE_SERVICE] = "no-service",
		[XWAY_DECLINE_AGAIN] = "again",
	};

	if (reason >= XWAY_DECLINES)
		reason = 0;
	return names[array_index_nospec(reason, XWAY_DECLINES)];
}
EXPORT_SYMBOL_GPL(xway_decline_name);

/**
 * xway_client_open() - handle OPEN, or decline it if the service has no client
 * @link: the link
 * @msg: a private copy of the message
 *
 * Context: process, link's lock held.
 * Return: false if no honest peer would send the message.
 */
bool xway_client_open(struct link *link, const struct xway_ctl *msg)
{
	const struct xway_client *client = NULL;
	struct xway_ctl answer = {
		.type = XWAY_CTL_DECLINE,
		.chan = msg->from,
		.arg = XWAY_DECLINE_SERVICE,
		.service = msg->service,
	};

	lockdep_assert_held(&link->pub.lock);
	if (msg->service < XWAY_SERVICES)
		client = client_of(array_index_nospec(msg->service, XWAY_SERVICES),
				   lockdep_is_held(&link->pub.lock));
	if (client)
		return client->ctl(&link->pub, NULL, msg);
	xway_ctl_put(link, &answer);
	return true;
}

/* Begin a call that may sleep. Return: the client of a service, or NULL, until client_leave(). */
static const struct xway_client *client_enter(int service, int *idx)
	__acquires(&calls[service])
{
	*idx = srcu_read_lock(&calls[service]);
	return client_of(service, srcu_read_lock_held(&calls[service]));
}

static void client_leave(int service, int idx)
	__releases(&calls[service])
{
	srcu_read_unlock(&calls[service], idx);
}

/**
 * xway_client_drain() - have all clients begin to end their channels
 * @link: the link, a grace period after xway_link_drain()
 *
 * Context: process, no link's lock held.
 */
void xway_client_drain(struct link *link)
{
	unsigned int noio = memalloc_noio_save();
	const struct xway_client *client;
	int i, idx;

	for (i = 0; i < XWAY_SERVICES; i++) {
		client = client_enter(i, &idx);
		if (client)
			client->drain(&link->pub);
		client_leave(i, idx);
	}
	memalloc_noio_restore(noio);
}

/**
 * xway_client_addresses() - tell all clients that a peer has lost an address
 * @link: the link, a grace period after the address has left the table
 *
 * Context: process, no link's lock held.
 */
void xway_client_addresses(struct link *link)
{
	unsigned int noio = memalloc_noio_save();
	const struct xway_client *client;
	int i, idx;

	for (i = 0; i < XWAY_SERVICES; i++) {
		client = client_enter(i, &idx);
		if (client && client->addresses)
			client->addresses(&link->pub);
		client_leave(i, idx);
	}
	memalloc_noio_restore(noio);
}

/**
 * xway_client_abort() - have all clients end their channels, without the peer
 * @link: the link, a grace period after xway_link_drain()
 * @dead: the peer is gone for good, or lies
 *
 * Context: process, no link's lock held.
 */
void xway_client_abort(struct link *link, bool dead)
{
	unsigned int noio = memalloc_noio_save();
	const struct xway_client *client;
	int i, idx;

	for (i = 0; i < XWAY_SERVICES; i++) {
		client = client_enter(i, &idx);
		if (client)
			client->abort(&link->pub, dead);
		client_leave(i, idx);
	}
	memalloc_noio_restore(noio);
}

/**
 * xway_client_reclaim() - have clients give up pages of rings
 * @wanted: how many pages
 *
 * Context: process, no link's lock held.
 * Return: the number of further pages that clients could give up.
 */
long xway_client_reclaim(long wanted)
{
	unsigned int noio = memalloc_noio_save();
	const struct xway_client *client;
	int i, idx;
	long left = 0;

	for (i = 0; i < XWAY_SERVICES; i++) {
		client = client_enter(i, &idx);
		if (client && client->reclaim)
			left += client->reclaim(&wanted);
		client_leave(i, idx);
	}
	memalloc_noio_restore(noio);
	return left;
}
