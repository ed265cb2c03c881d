/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * Generic netlink interface of the modules xway_core and xway.
 *
 * The families are "xway_core" and "xway", version 1. They share the numbers of
 * commands and attributes. Each family has only the commands that are listed for
 * it below. Commands that change something need CAP_NET_ADMIN in the initial user
 * namespace; the others need no privilege. Bad input and a missing privilege are
 * explained in an extended ACK.
 *
 * Family "xway_core"
 *
 * XWAY_CMD_GET (do): the core's state
 *
 *   reply:
 *     XWAY_A_VERSION		string, version of the module
 *     XWAY_A_CHANNELS		u32, channels that exist now
 *     XWAY_A_PAGES		u32, arena pages allocated now
 *     XWAY_A_PAGES_USED	u32, of these, pages that channels use now
 *     XWAY_A_PAGES_MAX		u32, the most pages that all arenas together may have
 *     XWAY_A_UNREVOKED		u32, pages that are withdrawn, but that a peer still
 *				maps, so that they cannot be freed
 *
 * XWAY_CMD_GET_PEER (dump): one message for each link
 *
 *     XWAY_A_PEER_NAME		string, name of the link, "xen:7" or "local:active"
 *     XWAY_A_PEER_STATE	string: "waiting", "connecting", "up",
 *				"closing"
 *     XWAY_A_PEER_ADDR		nested, any number; each holds
 *       XWAY_A_ADDR		binary, 4 or 16 bytes, network order
 *       XWAY_A_PREFIX		u8, length of the prefix in bits
 *     XWAY_A_CHANNELS		u32, channels that the link has now
 *     XWAY_A_PAGES		u32, pages of the own arena
 *     XWAY_A_PAGES_USED	u32, of these, pages that channels use now
 *     XWAY_A_PAGES_MAPPED	u32, pages of the peer's arena that are mapped here
 *     XWAY_A_SILENT		u32, seconds for which the peer's kernel has not
 *				answered, counted while something waits for it; each
 *				such message asks, too
 *     XWAY_A_SERVICE		nested, one for each client of the core that shows
 *				something; each holds
 *       XWAY_A_NAME		string, "sockets" or "net"
 *       XWAY_A_CONNS		u32, connections that are attached now (sockets)
 *       XWAY_A_DEVICE		string, the network device to the peer (net)
 *       XWAY_A_VIFS		string, the virtual interfaces whose packets go by the
 *				device, with spaces in between (net)
 *       XWAY_A_STATE		string: "down" here, "waiting" for the peer's end, "stalled"
 *				since the peer does not read, or "up" (net)
 *       XWAY_A_RING_KIB		u32, KiB of the ring to the peer (net)
 *       XWAY_A_PEER_RING_KIB	u32, KiB of the ring from the peer, or 0 (net)
 *       XWAY_A_RX_USECS		u32, microseconds that this end waits for more
 *				packets (net)
 *       XWAY_A_ADAPTIVE_RX	u8, whether the kernel chooses them (net)
 *       XWAY_A_QUEUES		u32, queues that are used now (net)
 *       XWAY_A_STATS		nested, see XWAY_CMD_GET_STATS
 *
 * XWAY_CMD_GET_STATS (do): totals since the module was loaded
 *
 *   reply:
 *     XWAY_A_STATS		nested
 *       XWAY_A_COUNTER		nested, any number; each holds
 *         XWAY_A_NAME		string, name of the counter
 *         XWAY_A_VALUE		u64
 *
 * XWAY_CMD_LOCAL_ADD, XWAY_CMD_LOCAL_DEL (do): give the transport "local" a prefix
 * of addresses of this kernel's own network namespaces, or take it away.
 * Connections to these addresses are accelerated.
 *
 *   request:
 *     XWAY_A_ADDR		binary, 4 or 16 bytes, network order
 *     XWAY_A_PREFIX		u8, length of the prefix in bits
 *
 * Family "xway"
 *
 * XWAY_CMD_GET (do): the state of sockets
 *
 *   reply:
 *     XWAY_A_ON		u8, 1: new connections are accelerated
 *     XWAY_A_VERSION		string, version of the module
 *     XWAY_A_CONNS		u32, connections that are attached now
 *
 * XWAY_CMD_SET (do): turn acceleration on or off
 *
 *   request:
 *     XWAY_A_ON		u8, 0 or 1. With 0, open connections also fall back
 *				to TCP. The reply does not wait for them. When all
 *				have fallen back, XWAY_CMD_GET replies with 0 in
 *				XWAY_A_CONNS.
 *
 * XWAY_CMD_GET_CONN (dump): one message for each connection that is attached
 *
 *     XWAY_A_PEER_NAME		string, name of the link
 *     XWAY_A_LOCAL		binary, 4 or 16 bytes, own address
 *     XWAY_A_REMOTE		binary, 4 or 16 bytes, the peer's address
 *     XWAY_A_LOCAL_PORT	u16, host order
 *     XWAY_A_REMOTE_PORT	u16, host order
 *     XWAY_A_STATE		string: "tcp" (no channel asked for yet),
 *				"waiting" (for the link to the peer), "opening",
 *				"open", "fallback", "spilled",
 *				"closing" (closed here; the peer still reads)
 *     XWAY_A_TX		string: "tcp" or "ring"
 *     XWAY_A_RX		string: "tcp", "ring" or "spill"
 *     XWAY_A_REASON		string, why the connection is not, or no longer, on
 *				the ring; absent if there is no reason
 *     XWAY_A_TX_RING		u64, bytes sent by ring
 *     XWAY_A_TX_TCP		u64, bytes sent by TCP since it was attached
 *     XWAY_A_RX_RING		u64, bytes received by ring
 *     XWAY_A_RX_TCP		u64, bytes received by TCP since it was attached
 *     XWAY_A_RING_SIZE		u32, bytes in each direction's ring
 *     XWAY_A_INODE		u64, inode of the socket, 0 without one
 *     XWAY_A_NETNS		u32, inode of its network namespace
 *
 * XWAY_CMD_GET_OTHER (dump): one message for each open connection with a peer that is
 * not attached. The attributes are as above:
 *
 *     XWAY_A_PEER_NAME, XWAY_A_LOCAL, XWAY_A_REMOTE, XWAY_A_LOCAL_PORT,
 *     XWAY_A_REMOTE_PORT, XWAY_A_INODE, XWAY_A_NETNS
 *     XWAY_A_STATE		string: "not-attached"
 *     XWAY_A_REASON		string, what keeps it from being attached now; absent
 *				if nothing does, as after a fallback because of
 *				something that has passed
 *
 * XWAY_CMD_GET_STATS (do): totals since the module was loaded
 *
 *   reply:
 *     XWAY_A_STATS		nested, as above
 *     XWAY_A_FALLBACKS		nested, as XWAY_A_STATS: for each reason that
 *				XWAY_A_REASON can have, the number of connections
 */
#ifndef _UAPI_LINUX_XWAY_H
#define _UAPI_LINUX_XWAY_H

#define XWAY_GENL_NAME		"xway"
#define XWAY_CORE_GENL_NAME	"xway_core"
#define XWAY_GENL_VERSION	1

enum xway_cmd {
	XWAY_CMD_UNSPEC,
	XWAY_CMD_GET,
	XWAY_CMD_SET,
	XWAY_CMD_GET_PEER,
	XWAY_CMD_GET_CONN,
	XWAY_CMD_GET_STATS,
	XWAY_CMD_LOCAL_ADD,
	XWAY_CMD_LOCAL_DEL,
	XWAY_CMD_GET_OTHER,
	__XWAY_CMD_MAX
};

#define XWAY_CMD_MAX (__XWAY_CMD_MAX - 1)

enum xway_attr {
	XWAY_A_UNSPEC,
	XWAY_A_PAD,
	XWAY_A_ON,
	XWAY_A_VERSION,
	XWAY_A_CONNS,
	XWAY_A_CHANNELS,
	XWAY_A_PAGES,
	XWAY_A_PAGES_USED,
	XWAY_A_PAGES_MAX,
	XWAY_A_PAGES_MAPPED,
	XWAY_A_UNREVOKED,
	XWAY_A_PEER_NAME,
	XWAY_A_PEER_STATE,
	XWAY_A_PEER_ADDR,
	XWAY_A_ADDR,
	XWAY_A_PREFIX,
	XWAY_A_LOCAL,
	XWAY_A_REMOTE,
	XWAY_A_LOCAL_PORT,
	XWAY_A_REMOTE_PORT,
	XWAY_A_STATE,
	XWAY_A_TX,
	XWAY_A_RX,
	XWAY_A_REASON,
	XWAY_A_TX_RING,
	XWAY_A_TX_TCP,
	XWAY_A_RX_RING,
	XWAY_A_RX_TCP,
	XWAY_A_RING_SIZE,
	XWAY_A_INODE,
	XWAY_A_NETNS,
	XWAY_A_STATS,
	XWAY_A_FALLBACKS,
	XWAY_A_COUNTER,
	XWAY_A_NAME,
	XWAY_A_VALUE,
	XWAY_A_SERVICE,
	XWAY_A_SILENT,
	XWAY_A_DEVICE,
	XWAY_A_VIFS,
	XWAY_A_RING_KIB,
	XWAY_A_PEER_RING_KIB,
	XWAY_A_RX_USECS,
	XWAY_A_ADAPTIVE_RX,
	XWAY_A_QUEUES,
	__XWAY_A_MAX
};

#define XWAY_A_MAX (__XWAY_A_MAX - 1)

#endif /* _UAPI_LINUX_XWAY_H */
