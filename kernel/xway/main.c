// SPDX-License-Identifier: GPL-2.0
/*
 * XWAY: TCP between co-resident domains through shared memory.
 */
#include <linux/module.h>
#include <linux/workqueue.h>

#include "arena.h"
#include "companion.h"
#include "conn.h"
#include "idle.h"
#include "link.h"
#include "local.h"
#include "netlink.h"
#include "peer.h"
#include "proto.h"
#include "ring.h"
#include "selftest.h"
#include "shrink.h"
#include "size.h"
#include "switch.h"
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
	err = xway_size_init();
	if (err)
		return err;
	err = xway_idle_init();
	if (err)
		return err;
	err = xway_conn_init();
	if (err)
		return err;
	err = xway_link_init();
	if (err)
		goto err_conn;
	err = xway_peer_init();
	if (err)
		goto err_link;
	err = xway_selftest();
	if (err)
		goto err_peer;
	err = xway_shrink_init();
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
	err = xway_companion_init();
	if (err)
		goto err_xen;
	/* Last: from here on sockets are held. */
	err = xway_switch_init();
	if (err)
		goto err_companion;
	return 0;

err_companion:
	xway_companion_exit();
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
	xway_shrink_exit();
err_peer:
	xway_peer_exit();
err_link:
	xway_link_exit();
err_conn:
	xway_idle_exit();
	xway_conn_exit();
	return err;
}

/* Only when no socket is held: each holds the module. */
static void __exit xway_exit(void)
{
	xway_netlink_exit();
	xway_companion_exit();
	xway_switch_exit();
	xway_xen_exit();
	xway_local_stop();
	xway_proto_exit();
	xway_arena_flush();
	xway_local_exit();
	xway_shrink_exit();
	xway_peer_exit();
	xway_link_exit();
	xway_idle_exit();
	xway_conn_exit();
}

module_init(xway_init);
module_exit(xway_exit);

MODULE_DESCRIPTION("TCP between co-resident domains through shared memory");
MODULE_VERSION(XWAY_VERSION);
MODULE_LICENSE("GPL");
