/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * Generic netlink interface of the modules xway_core and xway.
 *
 * Families "xway_core" and "xway", version 1. They have one set of commands and
 * attributes; each of them has the commands that are listed here for it. Changing
 * commands need CAP_NET_ADMIN in the initial user namespace; the others need
 * nothing. Every error carries an extended ACK that names the attribute and the
 * reason.
 *
 * Family "xway_core"
 *
 * XWAY_CMD_GET (do): the core's state
 *
 *   reply:
 *     XWAY_A_VERSION		string, version of the module
 *     XWAY_A_CHANNELS		u32, channels that exist now
 *     XWAY_A_PAGES		u32, arena pages allocated now
 *     XWAY_A_PAGES_USED	u32, of these, pages that carry rings
 *     XWAY_A_PAGES_MAX		u32, the most that all arenas may have
 *     XWAY_A_UNREVOKED		u32, pages a peer has not unmapped yet
 *
 * XWAY_CMD_GET_PEER (dump): one message for each peer
 *
 *     XWAY_A_PEER_NAME		string, "xen:7" or "local:active"
 *     XWAY_A_PEER_STATE	string: "waiting", "connecting", "up",
 *				"closing"
 *     XWAY_A_PEER_ADDR		nested, any number; each holds
 *       XWAY_A_ADDR		binary, 4 or 16 bytes, network order
 *       XWAY_A_PREFIX		u8, length of the prefix in bits
 *     XWAY_A_CHANNELS		u32
 *     XWAY_A_PAGES		u32, own arena pages
 *     XWAY_A_PAGES_USED	u32
 *     XWAY_A_PAGES_MAPPED	u32, pages of the peer mapped here
 *     XWAY_A_SERVICE		nested, one for each client of the core that has
 *				something to say; each holds
 *       XWAY_A_NAME		string, "sockets"
 *       XWAY_A_CONNS		u32
 *       XWAY_A_STATS		nested, see XWAY_CMD_GET_STATS
 *
 * XWAY_CMD_GET_STATS (do): totals since the module was loaded
 *
 *     XWAY_A_STATS		nested
 *       XWAY_A_COUNTER		nested, any number; each holds
 *         XWAY_A_NAME		string
 *         XWAY_A_VALUE		u64
 *
 * XWAY_CMD_LOCAL_ADD, XWAY_CMD_LOCAL_DEL (do): addresses of this kernel's own
 * network namespaces that count as co-resident (transport "local")
 *
 *   request:
 *     XWAY_A_ADDR		binary, 4 or 16 bytes
 *     XWAY_A_PREFIX		u8
 *
 * Family "xway"
 *
 * XWAY_CMD_GET (do): the state of sockets
 *
 *   reply:
 *     XWAY_A_ON		u8, 1: new connections are accelerated
 *     XWAY_A_VERSION		string, version of the module
 *     XWAY_A_CONNS		u32, sockets that are attached now
 *
 * XWAY_CMD_SET (do): turn acceleration on or off
 *
 *   request:
 *     XWAY_A_ON		u8, 0 or 1. 0 also has open connections fall
 *				back to TCP. The reply comes at once;
 *				XWAY_A_CONNS of XWAY_CMD_GET tells when they
 *				have.
 *
 * XWAY_CMD_GET_CONN (dump): one message for each connection that is attached
 *
 *     XWAY_A_PEER_NAME		string
 *     XWAY_A_LOCAL		binary, own address
 *     XWAY_A_REMOTE		binary, the peer's address
 *     XWAY_A_LOCAL_PORT	u16, host order
 *     XWAY_A_REMOTE_PORT	u16, host order
 *     XWAY_A_STATE		string: "tcp" (no channel asked for yet),
 *				"opening", "open", "fallback", "spilled",
 *				"draining" (closed here, the peer still reads)
 *     XWAY_A_TX		string: "tcp" or "ring"
 *     XWAY_A_RX		string: "tcp", "ring" or "spill"
 *     XWAY_A_REASON		string, why not (or no longer) on the ring;
 *				absent when there is none
 *     XWAY_A_TX_RING		u64, bytes sent by ring
 *     XWAY_A_TX_TCP		u64, bytes sent by TCP since it was attached
 *     XWAY_A_RX_RING		u64
 *     XWAY_A_RX_TCP		u64
 *     XWAY_A_RING_SIZE		u32, bytes in each direction's ring
 *     XWAY_A_INODE		u64, inode of the socket, 0 without one
 *     XWAY_A_NETNS		u32, inode of its network namespace
 *
 * XWAY_CMD_GET_STATS (do): totals since the module was loaded
 *
 *     XWAY_A_STATS		nested, as above
 *     XWAY_A_FALLBACKS		nested, as XWAY_A_STATS: the number of
 *				connections by reason of fallback
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
	__XWAY_A_MAX
};

#define XWAY_A_MAX (__XWAY_A_MAX - 1)

#endif /* _UAPI_LINUX_XWAY_H */
