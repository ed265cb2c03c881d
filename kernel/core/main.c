// SPDX-License-Identifier: GPL-2.0
/*
 * XWAY's core: memory, events and messages between the domains of one host.
 */
#include <linux/module.h>

#include "addr.h"
#include "answer.h"
#include "arena.h"
#include "heartbeat.h"
#include "link.h"
#include "local.h"
#include "netlink.h"
#include "reclaim.h"
#include "revoke.h"
#include "selftest.h"
#include "xenbus.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

static int __init core_init(void)
{
	int err;

	XWAY_WIRE_CHECK();
	xway_arena_init();
	xway_peer_init();
	xway_ctl_init();
	err = xway_clients_init();
	if (err)
		return err;
	err = xway_link_init();
	if (err)
		goto err_clients;
	err = xway_addr_init();
	if (err)
		goto err_link;
	err = xway_core_selftest();
	if (err)
		goto err_addr;
	err = xway_reclaim_init();
	if (err)
		goto err_addr;
	err = xway_local_init();
	if (err)
		goto err_reclaim;
	err = xway_core_netlink_init();
	if (err)
		goto err_local;
	xway_heartbeat_init();
	/* Last: links begin from here on. */
	err = xway_xenbus_init();
	if (err)
		goto err_heartbeat;
	return 0;

err_heartbeat:
	xway_heartbeat_exit();
	xway_core_netlink_exit();
err_local:
	xway_local_stop();
	xway_revoke_flush();
	xway_local_exit();
err_reclaim:
	xway_reclaim_exit();
err_addr:
	xway_answer_exit();	/* the self-tests have sent OPENs */
	xway_addr_exit();
err_link:
	xway_link_exit();
err_clients:
	xway_clients_exit();
	return err;
}

/* No client is left: each one has a reference on this module. */
static void __exit core_exit(void)
{
	xway_core_netlink_exit();
	xway_xenbus_exit();
	xway_heartbeat_exit();
	xway_answer_exit();
	xway_local_stop();
	xway_revoke_flush();
	xway_local_exit();
	xway_reclaim_exit();
	xway_addr_exit();
	xway_link_exit();
	xway_clients_exit();
}

module_init(core_init);
module_exit(core_exit);

MODULE_DESCRIPTION("Memory, events and messages between co-resident domains");
MODULE_VERSION(XWAY_VERSION);
MODULE_LICENSE("GPL");
