/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What two domains share: the layout of an arena, and the control messages.
 * doc/protocol.md describes their use.
 *
 * Each domain of a link owns an arena, which the other domain (the peer) maps
 * read-only. So every word has one writer: the owner of its arena. Words are in
 * native byte order, because both domains run on one machine. No structure
 * crosses a page, because pages next to each other in number need not be so in
 * memory.
 */
#ifndef _XWAY_WIRE_H
#define _XWAY_WIRE_H

#include <linux/types.h>

#define XWAY_MAGIC		0x58574159	/* "XWAY" */

/* The oldest and the newest version of this file that the module speaks */
#define XWAY_WIRE_OLDEST	3
#define XWAY_WIRE_NEWEST	4

/* From this version on, a reader may cut: see XWAY_WORDS_CUT of sockets. */
#define XWAY_WIRE_CUT		4

/* The fixed pages of an arena by number: header, doorbell, control messages. Pages
 * of words and rings follow in any order. Directory pages have no number.
 */
#define XWAY_PAGE_HEADER	0
#define XWAY_PAGE_BELL		1
#define XWAY_PAGE_CTL		2
#define XWAY_PAGES_FIXED	3

/* A directory page lists the grant references of pages, in the order of numbers. */
#define XWAY_REFS_PER_DIR	(PAGE_SIZE / sizeof(u32))
#define XWAY_DIRS		16
#define XWAY_ARENA_PAGES_MAX	(XWAY_DIRS * XWAY_REFS_PER_DIR)

/* What the owner of an arena says of the session */
enum xway_arena_state {
	XWAY_ARENA_INIT = 0,
	XWAY_ARENA_UP = 1,	/* the owner has mapped the peer's arena */
	XWAY_ARENA_CLOSING = 2,	/* the session is over: unmap the owner's arena */
};

/**
 * struct xway_header - first page of an arena
 * @magic: XWAY_MAGIC
 * @version: the oldest version that the owner speaks
 * @nonce: random number of the session, as the owner chose it
 * @peer_nonce: nonce of the peer's arena that the owner has mapped; 0 before
 * @state: enum xway_arena_state
 * @pages: the directories list the page numbers below this
 * @dirs: grant reference of each directory page
 * @version_max: the newest version that the owner speaks. It is 0 in modules that
 *	are older than this field: they speak @version only. Both ends use the
 *	newest version that both speak.
 * @bell_prod: posts made, modulo 2^32
 * @bell_overflow: posts that found no free slot, modulo 2^32. When it changes, the
 *	peer looks at every channel.
 * @bell_cons: the peer's posts taken, modulo 2^32
 * @bell_event: the owner wants an event when the peer's @bell_prod reaches this
 * @ctl_prod: control messages sent, modulo 2^32
 * @ctl_cons: the peer's control messages taken, modulo 2^32
 *
 * The words from @bell_prod on are in cache lines by who writes them.
 */
struct xway_header {
	u32 magic;
	u32 version;
	u64 nonce;
	u64 peer_nonce;
	u32 state;
	u32 pages;
	u32 dirs[XWAY_DIRS];
	u32 version_max;

	u32 bell_prod __aligned(64);
	u32 bell_overflow;

	u32 bell_cons __aligned(64);
	u32 bell_event;

	u32 ctl_prod __aligned(64);
	u32 ctl_cons __aligned(64);
};

/* Slots of the doorbell page: each has the peer's number of a channel. */
#define XWAY_DOORBELL_SLOTS		(PAGE_SIZE / sizeof(u32))
#define XWAY_POST_CTL		0xffffffffu	/* look at the control messages */

/* Bytes that each end of a channel shows the other, in the format of the client */
#define XWAY_WORDS_SIZE		128u

#define XWAY_CHANS_PER_PAGE	(PAGE_SIZE / XWAY_WORDS_SIZE)
#define XWAY_CHANS_MAX		16384u	/* of a link */
#define XWAY_RING_PAGES_MAX	256u	/* of a ring */

enum xway_ctl_type {
	XWAY_CTL_OPEN = 1,	/* here is my half of a channel */
	XWAY_CTL_ACCEPT = 2,	/* I accept, and here is my half */
	XWAY_CTL_DECLINE = 3,	/* I decline; the reason is in @arg */
	XWAY_CTL_CLOSE = 4,	/* I do not use your half any more */
	XWAY_CTL_UNMAP = 5,	/* unmap these pages of my arena: no channel uses them */
	XWAY_CTL_UNMAPPED = 6,	/* I have unmapped the pages of your UNMAP */
};

/* Why an OPEN is declined; xway_decline_name() has names. The client says in OPEN what
 * the channel is for.
 */
enum xway_decline {
	XWAY_DECLINE_UNKNOWN = 1,	/* there is no such thing here */
	XWAY_DECLINE_PROOF = 2,		/* there is, but OPEN does not prove that it is the same */
	XWAY_DECLINE_OFF = 3,		/* the client wants no channel, or none for this */
	XWAY_DECLINE_MEMORY = 4,	/* an allocation failed */
	XWAY_DECLINE_LATER = 5,		/* ask again when some time has passed */
	XWAY_DECLINE_SERVICE = 6,	/* no client of that service */
	XWAY_DECLINE_AGAIN = 7,		/* as LATER, but nothing is short: ask for as much */
	XWAY_DECLINES
};

/* The client of a channel or a message. Modules older than services send 0, which
 * is right: they have sockets only.
 */
enum xway_service {
	XWAY_SERVICE_SOCKETS = 0,
	XWAY_SERVICE_NET = 1,
	XWAY_SERVICE_TEST = 7,
	XWAY_SERVICES
};

/**
 * struct xway_ctl - a control message, 96 bytes
 * @type: enum xway_ctl_type
 * @chan: the receiver's number of the channel (ACCEPT, DECLINE, CLOSE)
 * @from: the sender's number of the channel (OPEN, ACCEPT)
 * @words_page: page of the sender's words (OPEN, ACCEPT)
 * @words_slot: place of the words in that page, in units of XWAY_WORDS_SIZE
 * @ring_page: first page of the sender's ring (OPEN, ACCEPT), or first page to be
 *	unmapped (UNMAP)
 * @ring_pages: pages of the ring, a power of two (OPEN, ACCEPT), or pages to be
 *	unmapped, at most XWAY_UNMAP_MAX (UNMAP)
 * @arg: enum xway_decline (DECLINE)
 * @tag: for the client's use
 * @service: enum xway_service; 0 in UNMAP and UNMAPPED
 * @body: for the client's use
 */
struct xway_ctl {
	u32 type;
	u32 chan;
	u32 from;
	u16 words_page;
	u16 words_slot;
	u32 ring_page;
	u16 ring_pages;
	u16 arg;
	u16 tag;
	u16 service;
	u8 body[68];
} __aligned(8);

#define XWAY_CTLS		32u	/* slots of the control page */
#define XWAY_UNMAP_MAX		512u	/* pages; bounds the time under the lock */

#define XWAY_WIRE_CHECK()						\
	do {								\
		BUILD_BUG_ON(sizeof(struct xway_header) > PAGE_SIZE);	\
		BUILD_BUG_ON(sizeof(struct xway_ctl) != 96);		\
		BUILD_BUG_ON(XWAY_CTLS * sizeof(struct xway_ctl) > PAGE_SIZE); \
	} while (0)

#endif /* _XWAY_WIRE_H */
