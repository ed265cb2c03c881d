// SPDX-License-Identifier: GPL-2.0
/* Sockets as a client of the core, and what sockets keep for each link. */
#include <linux/slab.h>

#include "adopt.h"
#include "client.h"
#include "conn.h"
#include "evict.h"
#include "handshake.h"
#include "netlink.h"

/*
 * What connections have that wait for their peer's link. It is never up and never
 * freed. So they keep no other link in memory, and nobody who looks at the link of
 * a connection must ask whether there is one.
 */
static struct xway_link no_link = {
	.lock = __MUTEX_INITIALIZER(no_link.lock),
	.state = XWAY_LINK_WAITING,
	.name = "-",
};

struct xway_tcp_link xway_no_link = {
	.ref = REFCOUNT_INIT(1),
	.link = &no_link,
	.fill.lock = __SPIN_LOCK_UNLOCKED(xway_no_link.fill.lock),
	.fill.window = U32_MAX,
};

static int add_link(struct xway_link *link)
{
	struct xway_tcp_link *tl = kzalloc(sizeof(*tl), GFP_KERNEL);

	if (!tl)
		return -ENOMEM;
	refcount_set(&tl->ref, 1);
	tl->link = xway_link_get(link);
	spin_lock_init(&tl->fill.lock);
	tl->fill.window = U32_MAX;
	rcu_assign_pointer(link->data[XWAY_SERVICE_SOCKETS], tl);
	return 0;
}

static void del_link(struct xway_link *link)
{
	/* The core makes no other call for this link meanwhile. */
	struct xway_tcp_link *tl =
		rcu_replace_pointer(link->data[XWAY_SERVICE_SOCKETS], NULL, true);

	if (tl)
		xway_tcp_link_put(tl);
}

/**
 * xway_tcp_link_get() - what sockets keep for a link
 * @link: the link, or NULL for xway_no_link
 *
 * Context: any.
 * Return: the object, with a reference, or NULL if there is none.
 */
struct xway_tcp_link *xway_tcp_link_get(struct xway_link *link)
{
	struct xway_tcp_link *tl;

	rcu_read_lock();
	tl = link ? rcu_dereference(link->data[XWAY_SERVICE_SOCKETS]) :
		    &xway_no_link;
	if (tl && !refcount_inc_not_zero(&tl->ref))
		tl = NULL;
	rcu_read_unlock();
	return tl;
}

/**
 * xway_tcp_link_put() - drop a reference
 * @tl: the object
 *
 * Context: any but hard interrupt.
 */
void xway_tcp_link_put(struct xway_tcp_link *tl)
{
	if (!refcount_dec_and_test(&tl->ref))
		return;
	xway_link_put(tl->link);
	kfree_rcu(tl, rcu);
}

static bool event(struct xway_chan *chan)
{
	return xway_conn_event(container_of(chan, struct xway_conn, chan));
}

const struct xway_client xway_sockets = {
	.service = XWAY_SERVICE_SOCKETS,
	.name = "sockets",
	.add_link = add_link,
	.del_link = del_link,
	.up = xway_adopt_up,
	.ctl = xway_handshake_ctl,
	.event = event,
	.drain = xway_conn_drain,
	.abort = xway_conn_abort,
	.addresses = xway_conn_addresses,
	.reclaim = xway_evict_reclaim,
	.show = xway_netlink_show,
};

/**
 * xway_client_init() - register with the core
 *
 * Return: 0, or as xway_client_register().
 */
int __init xway_client_init(void)
{
	return xway_client_register(&xway_sockets);
}

/**
 * xway_client_exit() - leave the core, when no channel is left
 */
void xway_client_exit(void)
{
	xway_client_unregister(&xway_sockets);
}
