// SPDX-License-Identifier: GPL-2.0
/*
 * XWAY: TCP between co-resident domains through shared memory.
 */
#include <linux/module.h>

#include "adopt.h"
#include "attach.h"
#include "client.h"
#include "conn.h"
#include "evict.h"
#include "keepalive.h"
#include "netlink.h"
#include "proto.h"
#include "ringsize.h"
#include "selftest.h"
#include "timeout.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

static int __init xway_init(void)
{
	int err;

	err = xway_ringsize_init();
	if (err)
		return err;
	err = xway_evict_init();
	if (err)
		return err;
	err = xway_conn_init();
	if (err)
		return err;
	err = xway_selftest();
	if (err)
		goto err_conn;
	err = xway_proto_init();
	if (err)
		goto err_conn;
	err = xway_client_init();
	if (err)
		goto err_proto;
	err = xway_netlink_init();
	if (err)
		goto err_client;
	err = xway_keepalive_init();
	if (err)
		goto err_netlink;
	/* Last: from here on sockets are attached. */
	err = xway_attach_init();
	if (err)
		goto err_keepalive;
	xway_adopt_init();
	return 0;

err_keepalive:
	xway_keepalive_exit();
err_netlink:
	xway_netlink_exit();
err_client:
	xway_client_exit();
err_proto:
	xway_proto_exit();
err_conn:
	xway_evict_exit();
	xway_timeout_exit();
	xway_conn_exit();
	return err;
}

/* Runs only when no connection is left: each holds a reference on the module. */
static void __exit xway_exit(void)
{
	xway_netlink_exit();
	xway_keepalive_exit();
	xway_attach_exit();
	xway_proto_exit();
	xway_client_exit();
	xway_adopt_exit();
	xway_evict_exit();
	xway_timeout_exit();
	xway_conn_exit();
}

module_init(xway_init);
module_exit(xway_exit);

MODULE_DESCRIPTION("TCP between co-resident domains through shared memory");
MODULE_VERSION(XWAY_VERSION);
MODULE_LICENSE("GPL");
