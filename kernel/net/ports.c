// SPDX-License-Identifier: GPL-2.0
/*
 * Which link has which device. A device is the peer's. When the peer's link goes, the
 * device stays for a while, without a carrier but with its addresses and routes. The
 * peer's next link takes it over.
 */
#include <linux/slab.h>

#include "mmnet.h"

#define LINGER (300 * HZ)

static LIST_HEAD(ports);
static DEFINE_MUTEX(mm_ports_lock);	/* see mmnet.h */

/* The port that a peer's link had, which has gone */
static struct mm_port *find(const char *id)
{
	struct mm_port *port;

	lockdep_assert_held(&mm_ports_lock);
	list_for_each_entry(port, &ports, node)
		if (!port->link && !strcmp(port->id, id))
			return port;
	return NULL;
}

/* Work: the peer has not come back. */
static void linger(struct work_struct *work)
{
	struct mm_port *port = container_of(to_delayed_work(work), struct mm_port, linger);

	mutex_lock(&mm_ports_lock);
	/* While this waited for the lock, the peer may have come back, or mm_ports_exit() run. */
	if (!port->link && !list_empty(&port->node)) {
		list_del_init(&port->node);
		mm_device_destroy(port);
	}
	mutex_unlock(&mm_ports_lock);
}

static struct mm_port *create(const char *id)
{
	struct mm_port *port = mm_device_create(id);

	if (!IS_ERR(port)) {
		INIT_DELAYED_WORK(&port->linger, linger);
		list_add(&port->node, &ports);
	}
	return port;
}

/**
 * mm_ports_add_link() - give a link the device of its peer, or a new one
 * @link: the link
 *
 * Context: process, xway_links_lock held.
 * Return: 0 or a negative errno.
 */
int mm_ports_add_link(struct xway_link *link)
{
	struct mm_port *port;

	mutex_lock(&mm_ports_lock);
	port = find(xway_peer_id(link->peer)) ?: create(xway_peer_id(link->peer));
	if (!IS_ERR(port)) {
		cancel_delayed_work(&port->linger);
		mutex_lock(&port->lock);
		mutex_lock(&link->lock);
		port->link = xway_link_get(link);
		rcu_assign_pointer(link->data[XWAY_SERVICE_NET], port);
		mutex_unlock(&link->lock);
		mutex_unlock(&port->lock);
	}
	mutex_unlock(&mm_ports_lock);
	return PTR_ERR_OR_ZERO(port);
}

/**
 * mm_ports_del_link() - take a link's device from it
 * @link: the link
 *
 * Context: process, xway_links_lock held.
 */
void mm_ports_del_link(struct xway_link *link)
{
	struct mm_port *port;

	mutex_lock(&mm_ports_lock);
	mutex_lock(&link->lock);
	port = mm_port_of(link);
	mutex_unlock(&link->lock);
	if (port) {
		mutex_lock(&port->lock);
		mutex_lock(&link->lock);
		mm_port_close(port);
		RCU_INIT_POINTER(link->data[XWAY_SERVICE_NET], NULL);
		port->link = NULL;
		mutex_unlock(&link->lock);
		mutex_unlock(&port->lock);
		xway_link_put(link);
		mod_delayed_work(xway_core_wq, &port->linger, LINGER);
	}
	mutex_unlock(&mm_ports_lock);
}

/**
 * mm_ports_exit() - destroy all devices; there is no link any more
 *
 * Context: process.
 */
void mm_ports_exit(void)
{
	struct mm_port *port;

	for (;;) {
		mutex_lock(&mm_ports_lock);
		port = list_first_entry_or_null(&ports, struct mm_port, node);
		if (port)
			list_del_init(&port->node);
		mutex_unlock(&mm_ports_lock);
		if (!port)
			return;
		cancel_delayed_work_sync(&port->linger);
		mm_device_destroy(port);
	}
}
