// SPDX-License-Identifier: GPL-2.0
/*
 * A hostile peer between real domains, in a module built with XWAY_LIAR=1. While the
 * parameter lies has a bit set, this end tells each of its peers such lies, at random, in
 * the pages that they map. All else is as ever, so a lie meets any state of a link.
 *
 * Set lies to 0 before the module is unloaded.
 */
#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/random.h>

#include "core/arena.h"
#include "core/link.h"

/* Bits of lies, and places in told */
enum {
	LIE_POSTS,	/* posts of any number */
	LIE_INDEX,	/* bell_prod without posts */
	LIE_EVENTS,	/* events for nothing */
	LIE_HEADER,	/* any word of the header */
	LIE_MESSAGES,	/* control messages with any content */
	LIE_DIRECTORY,	/* any reference */
	LIE_WORDS,	/* any word of a channel */
	LIE_RINGS,	/* any word of a page that is neither fixed nor of words */
	LIES
};

#define BURST 32	/* lies in a row, with the link's lock held */

static unsigned int lies;
static unsigned int pause_us = 1000;
module_param(pause_us, uint, 0644);
MODULE_PARM_DESC(pause_us, "microseconds between two bursts of lies");
static unsigned int told[LIES];
module_param_array(told, uint, NULL, 0444);
MODULE_PARM_DESC(told, "lies of each kind");

/* Often a value near a limit */
static u32 any(void)
{
	static const u32 limits[] = {
		0, XWAY_CTLS, PAGE_SIZE, 1 << 16, 1 << 20, INT_MAX, U32_MAX,
	};
	u32 random = get_random_u32();

	if (random & 1)
		return get_random_u32() >> (random >> 1) % 32;
	return limits[(random >> 1) % ARRAY_SIZE(limits)] + (s8)(random >> 24);
}

/* Where there is no room, as an honest post: overflow without end */
static void post(struct link *link, u32 value)
{
	u32 long_ago = link->bell.prod - XWAY_DOORBELL_SLOTS - 1;

	xway_doorbell_post(link, value, &long_ago);
}

static void message(struct link *link)
{
	struct xway_ctl msg;

	/* Beyond that the link ends, because the peer takes none. */
	if (link->ctl.queued > XWAY_CTLS)
		return;
	get_random_bytes(&msg, sizeof(msg));
	msg.type = get_random_u32() % (XWAY_CTL_UNMAPPED + 2);
	msg.service %= XWAY_SERVICES + 1;
	msg.chan = get_random_u32() % 8;
	msg.words_page = any();
	msg.ring_page = any();
	msg.ring_pages = get_random_u32() & 1 ? any() : 1 << get_random_u32() % 10;
	xway_ctl_put(link, &msg);
}

static u32 *word_of_page(void *page)
{
	return page ? (u32 *)page + get_random_u32() % (PAGE_SIZE / sizeof(u32)) : NULL;
}

/* Clients use the first words of both cache lines. */
static u32 *word_of_chan(struct link *link)
{
	u32 random = get_random_u32();
	u32 page = link->words_page[random % 4];	/* of the first channels */
	u32 *words = page ? xway_arena_addr(link, page) : NULL;

	if (!words)
		return NULL;
	words += (random >> 8) % XWAY_CHANS_PER_PAGE * (XWAY_WORDS_SIZE / sizeof(u32));
	return words + (random >> 16) % 8 + (random >> 24) % 2 * 16;
}

static u32 *word_of_ring(struct link *link)
{
	u32 nr, i;

	if (link->arena.pages <= XWAY_PAGES_FIXED)
		return NULL;
	nr = XWAY_PAGES_FIXED +
	     get_random_u32() % (link->arena.pages - XWAY_PAGES_FIXED);
	for (i = 0; i < ARRAY_SIZE(link->words_page); i++)
		if (link->words_page[i] == nr)
			return NULL;
	return test_bit(nr, link->arena.there) ? word_of_page(xway_arena_addr(link, nr)) : NULL;
}

static void change(u32 *word)
{
	if (word)
		WRITE_ONCE(*word, any());
}

static void tell(struct link *link, unsigned int what)
{
	struct xway_header *hdr = link->arena.hdr;

	switch (what) {
	case LIE_POSTS:
		post(link, get_random_u32() & 3 ? get_random_u32() % 64 : any());
		break;
	case LIE_INDEX:
		WRITE_ONCE(hdr->bell_prod, hdr->bell_prod + get_random_u32() % 512);
		break;
	case LIE_HEADER:
		change((u32 *)hdr + get_random_u32() % (sizeof(*hdr) / sizeof(u32)));
		break;
	case LIE_MESSAGES:
		message(link);
		break;
	case LIE_DIRECTORY:
		change(word_of_page(link->dir[0].page ? page_address(link->dir[0].page) : NULL));
		break;
	case LIE_WORDS:
		change(word_of_chan(link));
		break;
	case LIE_RINGS:
		change(word_of_ring(link));
		break;
	}
	link->tp->notify(link);
	told[what]++;
}

static void tell_all(unsigned int mask)
{
	struct link *link;
	unsigned int i, what;

	mutex_lock(&xway_links_lock);
	list_for_each_entry(link, &xway_links, node) {
		mutex_lock(&link->pub.lock);
		for (i = 0; i < BURST && link->pub.state == XWAY_LINK_UP; i++) {
			do {
				what = get_random_u32() % LIES;
			} while (!(mask & BIT(what)));
			tell(link, what);
		}
		mutex_unlock(&link->pub.lock);
	}
	mutex_unlock(&xway_links_lock);
}

static void lie(struct work_struct *work)
{
	unsigned int mask = READ_ONCE(lies) & (BIT(LIES) - 1), us = READ_ONCE(pause_us);

	if (!mask)
		return;
	tell_all(mask);
	if (us)
		usleep_range(us, us + us / 4 + 1);
	cond_resched();
	queue_work(xway_core_wq, work);
}

static DECLARE_WORK(lie_work, lie);

static int set_lies(const char *text, const struct kernel_param *param)
{
	int err = param_set_uint(text, param);

	if (!err && lies && xway_core_wq)
		queue_work(xway_core_wq, &lie_work);
	return err;
}

static const struct kernel_param_ops lies_ops = { .set = set_lies, .get = param_get_uint };
module_param_cb(lies, &lies_ops, &lies, 0644);
MODULE_PARM_DESC(lies, "bits: which lies are told");
