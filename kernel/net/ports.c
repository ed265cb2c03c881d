// SPDX-License-Identifier: GPL-2.0
/*
 * Which link has which device. A device is the peer's. When the peer's link goes, the
 * device stays for a while, without a carrier but with its addresses and routes. The
 * peer's next link takes it over.
 *
 * Devices are made and destroyed by work items, without any lock of the core: whoever
 * holds the RTNL may wait for a user's page fault.
 */
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "mmnet.h"

#define LINGER (300 * HZ)
#define MAKE_RETRY HZ

/* A link that waits for its device */
struct wait {
	struct list_head node;
	struct xway_link *link;	/* a reference */
	char *policy;		/* see struct mm_port */
};

static LIST_HEAD(ports);
static LIST_HEAD(waiting);
static DEFINE_MUTEX(mm_ports_lock);	/* see mmnet.h */

static struct wait *wait_of(const struct xway_link *link)
{
	struct wait *w;

	lockdep_assert_held(&mm_ports_lock);
	list_for_each_entry(w, &waiting, node)
		if (w->link == link)
			return w;
	return NULL;
}

static void end_wait(struct wait *w)
{
	list_del(&w->node);
	xway_link_put(w->link);
	kfree(w->policy);
	kfree(w);
}

/* The port that a peer's link had, which has gone */
static struct mm_port *left_port(const char *id)
{
	struct mm_port *port;

	lockdep_assert_held(&mm_ports_lock);
	list_for_each_entry(port, &ports, node)
		if (!port->link && !strcmp(port->id, id))
			return port;
	return NULL;
}

/* @policy: of the port from now on */
static void join(struct mm_port *port, struct xway_link *link, char *policy)
{
	lockdep_assert_held(&mm_ports_lock);
	kfree(port->policy);
	port->policy = policy;
	cancel_delayed_work(&port->linger);
	mutex_lock(&port->lock);
	mutex_lock(&link->lock);
	port->link = xway_link_get(link);
	rcu_assign_pointer(link->data[XWAY_SERVICE_NET], port);
	mutex_unlock(&link->lock);
	mutex_unlock(&port->lock);
	/* The session may be up already. */
	mod_delayed_work(xway_core_wq, &port->tend, 0);
	mm_vifs_soon();
}

/* Work: the peer has not come back. */
static void linger(struct work_struct *work)
{
	struct mm_port *port = container_of(to_delayed_work(work), struct mm_port, linger);
	bool gone;

	/*
	 * While this waited for the lock, the peer may have come back, and gone once more; or
	 * mm_ports_exit() has taken the port.
	 */
	mutex_lock(&mm_ports_lock);
	gone = !port->link && !list_empty(&port->node) && !delayed_work_pending(&port->linger);
	if (gone)
		list_del_init(&port->node);
	mutex_unlock(&mm_ports_lock);
	if (gone)
		mm_device_destroy(port);
}

static void make(struct work_struct *work);
static DECLARE_DELAYED_WORK(make_work, make);

/* Work: make a device for each link that waits for one. */
static void make(struct work_struct *work)
{
	struct xway_link *link;
	struct mm_port *port;
	struct wait *w;

	for (;;) {
		mutex_lock(&mm_ports_lock);
		w = list_first_entry_or_null(&waiting, struct wait, node);
		link = w ? xway_link_get(w->link) : NULL;
		mutex_unlock(&mm_ports_lock);
		if (!link)
			return;
		port = mm_device_create(xway_peer_id(link->peer));
		if (IS_ERR(port)) {
			pr_warn_ratelimited("mmnet: %s has no device yet: error %ld\n",
					    link->name, PTR_ERR(port));
			xway_link_put(link);
			queue_delayed_work(mm_wq, &make_work, MAKE_RETRY);
			return;
		}
		INIT_DELAYED_WORK(&port->linger, linger);
		mutex_lock(&mm_ports_lock);
		w = wait_of(link);	/* it may have gone meanwhile */
		if (w) {
			list_add(&port->node, &ports);
			join(port, link, w->policy);
			w->policy = NULL;
			port = NULL;
			end_wait(w);
		}
		mutex_unlock(&mm_ports_lock);
		if (port)
			mm_device_destroy(port);
		xway_link_put(link);
	}
}

static void leave(struct xway_link *link, unsigned long linger_for)
{
	struct mm_port *port;
	struct wait *w;

	lockdep_assert_held(&mm_ports_lock);
	w = wait_of(link);
	if (w)
		end_wait(w);
	/* It is written under this lock, too: see join(). */
	port = rcu_dereference_protected(link->data[XWAY_SERVICE_NET],
					 lockdep_is_held(&mm_ports_lock));
	if (!port)
		return;
	mutex_lock(&port->lock);
	mutex_lock(&link->lock);
	mm_port_close(port);
	RCU_INIT_POINTER(link->data[XWAY_SERVICE_NET], NULL);
	port->link = NULL;
	mutex_unlock(&link->lock);
	mutex_unlock(&port->lock);
	xway_link_put(link);
	mod_delayed_work(mm_wq, &port->linger, linger_for);
	mm_vifs_soon();
}

/* Give a link the device of its peer, or a new one soon. Return: false without memory. */
static bool enter(struct xway_link *link, char *policy)
{
	struct mm_port *port = left_port(xway_peer_id(link->peer));
	struct wait *w;

	if (port) {
		join(port, link, policy);
		return true;
	}
	w = kzalloc(sizeof(*w), GFP_KERNEL);
	if (!w)
		return false;
	w->link = xway_link_get(link);
	w->policy = policy;
	list_add_tail(&w->node, &waiting);
	mod_delayed_work(mm_wq, &make_work, 0);
	return true;
}

/**
 * mm_ports_policy() - see @policy in core.h
 * @link: the link: it has a device as long as domain 0 allows it
 * @text: which vifs are on one bridge, or NULL
 *
 * Context: process, xway_links_lock held.
 */
void mm_ports_policy(struct xway_link *link, const char *text)
{
	struct mm_port *port;
	struct wait *w;
	char *policy;

	mutex_lock(&mm_ports_lock);
	if (!text) {
		leave(link, 0);
		goto out;
	}
	policy = kstrdup(text, GFP_KERNEL);
	port = rcu_dereference_protected(link->data[XWAY_SERVICE_NET],
					 lockdep_is_held(&mm_ports_lock));
	w = wait_of(link);
	if (policy && port) {
		swap(port->policy, policy);
		mm_vifs_soon();
	} else if (policy && w) {
		swap(w->policy, policy);
	} else if (policy && enter(link, policy)) {
		policy = NULL;
	} else {
		pr_warn("mmnet: no memory for what is new of %s\n", link->name);
	}
	kfree(policy);
out:
	mutex_unlock(&mm_ports_lock);
}

/**
 * mm_ports_del_link() - take a link's device from it, for the peer's next link
 * @link: the link
 *
 * Context: process, xway_links_lock held.
 */
void mm_ports_del_link(struct xway_link *link)
{
	mutex_lock(&mm_ports_lock);
	leave(link, LINGER);
	mutex_unlock(&mm_ports_lock);
}

/**
 * mm_ports_shade() - have all devices take packets of the vifs that they should
 *
 * Context: process, RTNL held.
 */
void mm_ports_shade(void)
{
	/* See the locks in mmnet.h, and core.h of those below them. */
	unsigned int noio = memalloc_noio_save();
	struct mm_port *port;

	mutex_lock(&mm_ports_lock);
	list_for_each_entry(port, &ports, node)
		mm_pairs_set(port, port->link ? port->policy : NULL);
	mutex_unlock(&mm_ports_lock);
	memalloc_noio_restore(noio);
}

/**
 * mm_ports_exit() - destroy all devices; there is no link any more
 *
 * Context: process.
 */
void mm_ports_exit(void)
{
	struct mm_port *port;

	cancel_delayed_work_sync(&make_work);
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
