// SPDX-License-Identifier: GPL-2.0
/*
 * XWAY: TCP between co-resident domains through shared memory.
 */
#include <linux/module.h>
#include <linux/workqueue.h>

#include "arena.h"
#include "keepalive.h"
#include "conn.h"
#include "evict.h"
#include "link.h"
#include "local.h"
#include "netlink.h"
#include "addr.h"
#include "proto.h"
#include "ring.h"
#include "selftest.h"
#include "reclaim.h"
#include "ringsize.h"
#include "attach.h"
#include "wire.h"
#include "xen.h"

#define CREATE_TRACE_POINTS
#include "compat.h"
#include "trace.h"

static int __init xway_init(void)
{
	int err;

	XWAY_WIRE_CHECK();
	xway_arena_init();
	err = xway_ringsize_init();
	if (err)
		return err;
	err = xway_evict_init();
	if (err)
		return err;
	err = xway_conn_init();
	if (err)
		return err;
	err = xway_link_init();
	if (err)
		goto err_conn;
	err = xway_addr_init();
	if (err)
		goto err_link;
	err = xway_selftest();
	if (err)
		goto err_peer;
	err = xway_reclaim_init();
	if (err)
		goto err_peer;
	err = xway_local_init();
	if (err)
		goto err_shrink;
	err = xway_proto_init();
	if (err)
		goto err_local;
	err = xway_netlink_init();
	if (err)
		goto err_proto;
	err = xway_xen_init();
	if (err)
		goto err_netlink;
	err = xway_keepalive_init();
	if (err)
		goto err_xen;
	/* Last: from here on sockets are held. */
	err = xway_attach_init();
	if (err)
		goto err_companion;
	return 0;

err_companion:
	xway_keepalive_exit();
err_xen:
	xway_xen_exit();
err_netlink:
	xway_netlink_exit();
err_proto:
	xway_proto_exit();
err_local:
	xway_local_stop();
	xway_arena_flush();
	xway_local_exit();
err_shrink:
	xway_reclaim_exit();
err_peer:
	xway_addr_exit();
err_link:
	xway_link_exit();
err_conn:
	xway_evict_exit();
	xway_conn_exit();
	return err;
}

/* Only when no socket is held: each holds the module. */
static void __exit xway_exit(void)
{
	xway_netlink_exit();
	xway_keepalive_exit();
	xway_attach_exit();
	xway_xen_exit();
	xway_local_stop();
	xway_proto_exit();
	xway_arena_flush();
	xway_local_exit();
	xway_reclaim_exit();
	xway_addr_exit();
	xway_link_exit();
	xway_evict_exit();
	xway_conn_exit();
}

module_init(xway_init);
module_exit(xway_exit);

MODULE_DESCRIPTION("TCP between co-resident domains through shared memory");
MODULE_VERSION(XWAY_VERSION);
MODULE_LICENSE("GPL");
