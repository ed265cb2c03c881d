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

/* The versions of what is here that this module speaks, from the oldest on */
#define XWAY_WIRE_OLDEST	3
#define XWAY_WIRE_NEWEST	3

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
 * @version: the oldest version that the owner speaks
 * @nonce: of this life of the link
 * @peer_nonce: nonce of the peer's arena that is mapped here, 0 before
 * @state: enum xway_arena_state
 * @pages: pages of the arena that the directories list
 * @dirs: grant reference of each directory page
 * @version_max: the newest version that the owner speaks; 0 in modules that know
 *	only one, @version. Both ends use the newest that both speak.
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
	u32 version_max;

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

/* What each end of a channel shows the other; a client's own format */
#define XWAY_WORDS_SIZE		128u

#define XWAY_CHANS_PER_PAGE	(PAGE_SIZE / XWAY_WORDS_SIZE)
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
	XWAY_DECLINE_SERVICE = 6,	/* no client of that service */
};

/* Whose a channel or a message is. Modules before there was more than one send 0. */
enum xway_service {
	XWAY_SERVICE_SOCKETS = 0,
	XWAY_SERVICE_TEST = 7,
	XWAY_SERVICES
};

/**
 * struct xway_ctl - a control message, 96 bytes
 * @type: enum xway_ctl_type
 * @chan: the receiver's channel (ACCEPT, DECLINE, CLOSE)
 * @from: the sender's channel (OPEN, ACCEPT)
 * @words_page: page of the sender's words of the channel
 * @words_slot: its place in that page
 * @ring_page: first page of the sender's ring; or that is to be unmapped
 * @ring_pages: number of pages of the ring, a power of two; or to be unmapped
 * @arg: enum xway_decline
 * @tag: the client's own
 * @service: enum xway_service; 0 in the core's own messages
 * @body: the client's own
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

#define XWAY_CTLS		32u	/* slots in the control page */
#define XWAY_UNMAP_MAX		512u	/* pages: they are unmapped under a mutex */

#define XWAY_WIRE_CHECK()						\
	do {								\
		BUILD_BUG_ON(sizeof(struct xway_header) > PAGE_SIZE);	\
		BUILD_BUG_ON(sizeof(struct xway_ctl) != 96);		\
		BUILD_BUG_ON(XWAY_CTLS * sizeof(struct xway_ctl) > PAGE_SIZE); \
	} while (0)

#endif /* _XWAY_WIRE_H */
