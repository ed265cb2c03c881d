/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What two domains share: the layout of an arena and the control messages.
 *
 * Each domain of a link owns an arena, which the other maps read-only. So
 * every word here has one writer, the owner of the arena that holds it; "peer"
 * is the other domain. Native byte order: both run on one machine. No structure
 * crosses a page, because a mapping of several pages need not be contiguous.
 */
#ifndef _XWAY_WIRE_H
#define _XWAY_WIRE_H

#include <linux/types.h>

#define XWAY_MAGIC		0x58574159	/* "XWAY" */
#define XWAY_WIRE_VERSION	3

/* Pages of an arena by number: header, bell, control, directories, the rest */
#define XWAY_PAGE_HEADER	0
#define XWAY_PAGE_BELL		1
#define XWAY_PAGE_CTL		2
#define XWAY_PAGES_FIXED	3

#define XWAY_REFS_PER_DIR	(PAGE_SIZE / sizeof(u32))
#define XWAY_DIRS		16
#define XWAY_ARENA_PAGES_MAX	(XWAY_DIRS * XWAY_REFS_PER_DIR)

/* state of an arena's owner */
enum xway_arena_state {
	XWAY_ARENA_INIT = 0,
	XWAY_ARENA_UP = 1,	/* the peer's arena is mapped */
	XWAY_ARENA_CLOSING = 2,	/* unmap my arena, the link is over */
};

/**
 * struct xway_header - first page of an arena
 * @magic: XWAY_MAGIC
 * @version: XWAY_WIRE_VERSION
 * @nonce: of this life of the link
 * @peer_nonce: nonce of the peer's arena that is mapped here, 0 before
 * @state: enum xway_arena_state
 * @pages: pages of the arena that the directories list
 * @dirs: grant reference of each directory page
 * @bell_prod: channels posted to the peer's attention, see struct xway_bell
 * @bell_overflow: counts posts that found no slot: look at every channel
 * @bell_cons: posts of the peer that were taken
 * @bell_event: the value of the peer's bell_prod that is worth an event
 * @ctl_prod: control messages put
 * @ctl_cons: control messages of the peer that were taken
 */
struct xway_header {
	u32 magic;
	u32 version;
	u64 nonce;
	u64 peer_nonce;
	u32 state;
	u32 pages;
	u32 dirs[XWAY_DIRS];

	u32 bell_prod __aligned(64);
	u32 bell_overflow;

	u32 bell_cons __aligned(64);
	u32 bell_event;

	u32 ctl_prod __aligned(64);
	u32 ctl_cons __aligned(64);
};

/* Slots of the bell page: numbers of the peer's channels */
#define XWAY_BELLS		(PAGE_SIZE / sizeof(u32))
#define XWAY_BELL_CTL		0xffffffffu	/* look at the control ring */

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
 * struct xway_words - what one side of a channel shows the other
 * @prod: bytes put into the own ring
 * @cons: bytes taken from the peer's ring
 * @gen: the sender's last switch; even: to TCP, odd: to the ring
 * @mark: where it switched, by parity of the generation
 * @want_room: cons of the peer that is worth an event
 * @want_data: prod of the peer that is worth an event
 * @gen_done: last switch of the peer that the reader has passed
 * @flags: XWAY_CHAN_*
 *
 * A sender makes generation g only when gen_done of the peer is at least g - 1
 * (g odd), so that at most two marks are in flight and neither is overwritten.
 *
 * The first cache line changes with each message. Whoever moves an index looks at
 * what the peer wants, which seldom changes, and is in the second.
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
	u32 pad1[12];
};

#define XWAY_WORDS_OPEN		0x1	/* mapped here: the ring may be used */
#define XWAY_WORDS_FALLBACK	0x2	/* go back to TCP, then close */
#define XWAY_WORDS_NO_READER	0x4	/* what is sent is refused: closed, or shut */
#define XWAY_WORDS_HOLD		0x8	/* no ring towards me for now */
#define XWAY_WORDS_PARK		0x10	/* with RETURN: another channel may follow */

#define XWAY_CHANS_PER_PAGE	(PAGE_SIZE / sizeof(struct xway_words))
#define XWAY_CHANS_MAX		16384u
#define XWAY_RING_PAGES_MAX	256u

enum xway_ctl_type {
	XWAY_CTL_OPEN = 1,	/* passive side: here is my half of a channel */
	XWAY_CTL_ACCEPT = 2,	/* active side: and here is mine */
	XWAY_CTL_DECLINE = 3,	/* active side: no; reason in @arg */
	XWAY_CTL_CLOSE = 4,	/* I touch your half no more */
	XWAY_CTL_UNMAP = 5,	/* unmap these pages of mine: no channel has them */
	XWAY_CTL_UNMAPPED = 6,	/* done */
};

/* Why an active side declines */
enum xway_decline {
	XWAY_DECLINE_UNKNOWN = 1,	/* no such connection */
	XWAY_DECLINE_PROOF = 2,		/* not the same connection */
	XWAY_DECLINE_OFF = 3,
	XWAY_DECLINE_MEMORY = 4,
	XWAY_DECLINE_LATER = 5,		/* ask again when some time has passed */
};

/**
 * struct xway_ctl - a control message, 96 bytes
 * @type: enum xway_ctl_type
 * @chan: the receiver's channel (ACCEPT, DECLINE, CLOSE)
 * @from: the sender's channel (OPEN, ACCEPT)
 * @shm_page: page of the sender's struct xway_words
 * @shm_slot: its place in that page
 * @ring_page: first page of the sender's ring; or that is to be unmapped
 * @ring_pages: number of pages of the ring, a power of two; or to be unmapped
 * @arg: enum xway_decline
 * @family: AF_INET or AF_INET6
 * @saddr: address of the active end, IPv4 in the first word
 * @daddr: address of the passive end
 * @sport: port of the active end
 * @dport: port of the passive end
 * @mac: proof that the sender holds an end of this connection
 */
struct xway_ctl {
	u32 type;
	u32 chan;
	u32 from;
	u16 shm_page;
	u16 shm_slot;
	u32 ring_page;
	u16 ring_pages;
	u16 arg;
	u16 family;
	u16 pad;
	__be32 saddr[4];
	__be32 daddr[4];
	__be16 sport;
	__be16 dport;
	u64 mac;
	u8 reserve[24];
};

#define XWAY_CTLS		32u	/* slots in the control page */
#define XWAY_UNMAP_MAX		512u	/* pages: they are unmapped under a mutex */

#define XWAY_WIRE_CHECK()						\
	do {								\
		BUILD_BUG_ON(sizeof(struct xway_header) > PAGE_SIZE);	\
		BUILD_BUG_ON(sizeof(struct xway_words) != 128);	\
		BUILD_BUG_ON(sizeof(struct xway_ctl) != 96);		\
		BUILD_BUG_ON(XWAY_CTLS * sizeof(struct xway_ctl) > PAGE_SIZE); \
	} while (0)

#endif /* _XWAY_WIRE_H */
