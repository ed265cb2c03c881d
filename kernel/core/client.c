// SPDX-License-Identifier: GPL-2.0
/*
 * Clients: who uses the core, and the calls into them.
 *
 * A client that is being unregistered is not called any more once each of those
 * who may call it has been waited for: who holds xway_links_lock (add, del, show), a
 * link's lock (open, up), is in an SRCU section (drain, abort, reclaim) or an RCU
 * section (event). Through a channel it is called without a look at the table: it
 * has none left then.
 */
#include <linux/export.h>
#include <linux/nospec.h>
#include <linux/srcu.h>

#include "link.h"

static const struct xway_client __rcu *clients[XWAY_SERVICES];
DEFINE_STATIC_SRCU(clients_srcu);

/**
 * xway_client_register() - begin to use the core
 * @client: stays valid until it is unregistered
 *
 * Every link that is there is shown to it before this returns; those that are up
 * are told to be.
 *
 * Context: process, may sleep. Return: 0; -EINVAL for a service that does not
 * exist; -EBUSY if it has a client.
 */
int xway_client_register(const struct xway_client *client)
{
	struct link *link;

	if (client->service >= XWAY_SERVICES)
		return -EINVAL;
	mutex_lock(&xway_links_lock);
	if (rcu_access_pointer(clients[client->service])) {
		mutex_unlock(&xway_links_lock);
		return -EBUSY;
	}
	list_for_each_entry(link, &xway_links, node)
		client->add_link(&link->pub);
	rcu_assign_pointer(clients[client->service], client);
	list_for_each_entry(link, &xway_links, node) {
		mutex_lock(&link->pub.lock);
		if (link->pub.state == XWAY_LINK_UP)
			xway_client_up(link);
		mutex_unlock(&link->pub.lock);
	}
	mutex_unlock(&xway_links_lock);
	return 0;
}
EXPORT_SYMBOL_GPL(xway_client_register);

/**
 * xway_client_unregister() - use the core no more
 * @client: has no channel any more; it is not called any more after this
 *
 * Context: process, may sleep.
 */
void xway_client_unregister(const struct xway_client *client)
{
	struct link *link;

	mutex_lock(&xway_links_lock);
	RCU_INIT_POINTER(clients[client->service], NULL);
	synchronize_srcu(&clients_srcu);
	list_for_each_entry(link, &xway_links, node) {
		/* Who was in a call of it has left it. */
		mutex_lock(&link->pub.lock);
		link->told_up &= ~BIT(client->service);
		mutex_unlock(&link->pub.lock);
		client->del_link(&link->pub);
	}
	mutex_unlock(&xway_links_lock);
	synchronize_rcu();
}
EXPORT_SYMBOL_GPL(xway_client_unregister);

/* @held: what keeps it from being unregistered, as said above */
#define client_of(service, held) rcu_dereference_check(clients[service], held)

void xway_client_add_link(struct link *link)
{
	const struct xway_client *client;
	int i;

	lockdep_assert_held(&xway_links_lock);
	for (i = 0; i < XWAY_SERVICES; i++) {
		client = client_of(i, lockdep_is_held(&xway_links_lock));
		if (client)
			client->add_link(&link->pub);
	}
}

void xway_client_del_link(struct link *link)
{
	const struct xway_client *client;
	int i;

	lockdep_assert_held(&xway_links_lock);
	for (i = 0; i < XWAY_SERVICES; i++) {
		client = client_of(i, lockdep_is_held(&xway_links_lock));
		if (client)
			client->del_link(&link->pub);
	}
}

int xway_client_show(struct link *link, struct sk_buff *skb)
{
	const struct xway_client *client;
	int i, err = 0;

	lockdep_assert_held(&xway_links_lock);
	for (i = 0; i < XWAY_SERVICES && !err; i++) {
		client = client_of(i, lockdep_is_held(&xway_links_lock));
		if (client && client->show)
			err = client->show(&link->pub, skb);
	}
	return err;
}

/* A session has begun. */
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

/**
 * xway_client_open() - the peer asks for a channel
 * @link: the link, its lock held
 * @msg: a private copy of the message
 *
 * Return: false if no honest peer would send it.
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

void xway_client_drain(struct link *link)
{
	const struct xway_client *client;
	int i, idx = srcu_read_lock(&clients_srcu);

	for (i = 0; i < XWAY_SERVICES; i++) {
		client = client_of(i, srcu_read_lock_held(&clients_srcu));
		if (client)
			client->drain(&link->pub);
	}
	srcu_read_unlock(&clients_srcu, idx);
}

void xway_client_abort(struct link *link)
{
	const struct xway_client *client;
	int i, idx = srcu_read_lock(&clients_srcu);

	for (i = 0; i < XWAY_SERVICES; i++) {
		client = client_of(i, srcu_read_lock_held(&clients_srcu));
		if (client)
			client->abort(&link->pub);
	}
	srcu_read_unlock(&clients_srcu, idx);
}

/* Return: pages that clients could give up besides the @wanted ones. */
long xway_client_reclaim(long wanted)
{
	const struct xway_client *client;
	int i, idx = srcu_read_lock(&clients_srcu);
	long left = 0;

	for (i = 0; i < XWAY_SERVICES; i++) {
		client = client_of(i, srcu_read_lock_held(&clients_srcu));
		if (client && client->reclaim)
			left += client->reclaim(&wanted);
	}
	srcu_read_unlock(&clients_srcu, idx);
	return left;
}
