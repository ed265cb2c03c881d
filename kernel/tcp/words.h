/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the two ends of a channel of sockets show and tell each other: its
 * words, and the parts of control messages that are a client's own.
 */
#ifndef _XWAY_WORDS_H
#define _XWAY_WORDS_H

#include <linux/build_bug.h>
#include <linux/stddef.h>
#include <linux/types.h>

#include "core/wire.h"

/**
 * struct xway_mark - where a sender switched between TCP and its ring
 * @seq: TCP sequence number at which TCP's bytes end, or begin
 * @idx: index at which the ring's bytes begin, or end
 */
struct xway_mark {
	u32 seq;
	u32 idx;
};

/**
 * struct xway_words - what one end of a channel shows the other
 * @prod: bytes put into the own ring, modulo 2^32
 * @cons: bytes taken from the peer's ring, modulo 2^32
 * @gen: number of this sender's last switch; even: to TCP, odd: to the ring
 * @mark: where the last two switches fall, by parity of @gen
 * @pad0: fills the cache line
 * @want_room: value of the peer's @cons at which this sender wants an event
 * @want_data: value of the peer's @prod at which this reader wants an event
 * @gen_done: the peer's last switch that this reader has passed
 * @flags: XWAY_WORDS_*
 * @cut: with XWAY_WORDS_CUT: index up to which this reader takes the peer's ring
 * @pad1: fills the cache line
 *
 * A sender switches to the ring with generation g only when the peer's
 * @gen_done is g - 1. So at most two marks are in flight, and neither is
 * overwritten.
 *
 * The first cache line changes with each message. The second one seldom
 * changes: the other end reads it whenever it moves an index.
 */
struct xway_words {
	u32 prod;
	u32 cons;
	u32 gen;
	struct xway_mark mark[2];
	u32 pad0[9];

	u32 want_room;
	u32 want_data;
	u32 gen_done;
	u32 flags;
	u32 cut;
	u32 pad1[11];
};

#define XWAY_WORDS_OPEN		0x1	/* your half is mapped: use your ring */
#define XWAY_WORDS_FALLBACK	0x2	/* leave the ring, then send CLOSE */
#define XWAY_WORDS_NO_READER	0x4	/* closed, or shut: bytes are refused */
#define XWAY_WORDS_HOLD		0x8	/* do not switch to your ring for now */
#define XWAY_WORDS_PARK		0x10	/* with FALLBACK: another channel may follow */
#define XWAY_WORDS_CUTTING	0x20	/* I end your stretch on the ring alone */
#define XWAY_WORDS_CUT		0x40	/* I have: send by TCP what is beyond @cut */

static_assert(sizeof(struct xway_words) == XWAY_WORDS_SIZE);

/**
 * union xway_sock_ctl - a control message of sockets
 * @ctl: as the core has it
 * @envelope: what comes before @tag of @ctl
 * @family: AF_INET or AF_INET6
 * @service: as in @ctl
 * @saddr: address of the active end, IPv4 in the first word
 * @daddr: address of the passive end
 * @sport: port of the active end
 * @dport: port of the passive end
 * @mac: proof that the sender is an end of this connection, see xway_conn_mac()
 *
 * The passive end sends OPEN, and the active end answers. OPEN and ACCEPT name the
 * connection that the channel is for, and prove that their sender is one of its ends.
 * DECLINE and CLOSE use none of these fields but @service.
 */
union xway_sock_ctl {
	struct xway_ctl ctl;
	struct {
		u8 envelope[24];
		u16 family;
		u16 service;
		__be32 saddr[4];
		__be32 daddr[4];
		__be16 sport;
		__be16 dport;
		u64 mac;
	};
};

static_assert(offsetof(union xway_sock_ctl, family) == offsetof(struct xway_ctl, tag));
static_assert(sizeof(union xway_sock_ctl) == sizeof(struct xway_ctl));

#endif /* _XWAY_WORDS_H */
