// SPDX-License-Identifier: GPL-2.0
/*
 * A hostile peer between real domains, in a module built with XWAY_LIAR=1. While the
 * parameter lies has a bit set, this end tells each of its peers such lies, at random, in
 * the pages that they map. All else is as ever, so a lie meets any state of a link.
 *
 * While the parameter keeps has a bit set, this end does not do what it owes its peers. While
 * seek is not 0, it looks for this in all that it may read of them. And while writes is set, it
 * asks for more than that.
 *
 * Set all to 0 before the module is unloaded.
 */
#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/random.h>

#include "core/arena.h"
#include "core/link.h"
#include "core/selftest.h"

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
	LIE_FIELDS,	/* a word of a message that is true but for it: xway_liar_alters() */
	LIES
};

#define BURST 32	/* lies in a row, with the link's lock held */

/* Bits of keeps: control messages by their type, and all that the doorbell leads to. What a
 * program's own call does by itself is done: it reads the ring, or makes a mark.
 */
#define KEEP_ALL BIT(31)
#define KEEP_PAGES BIT(30)	/* what was mapped stays mapped, until this domain ends */

static unsigned int lies, keeps;
static unsigned long seek;
static unsigned int sought[2];
module_param_array(sought, uint, NULL, 0444);
MODULE_PARM_DESC(sought, "pages of peers that were looked at for seek, and words that were it");
static unsigned int kept;
module_param(kept, uint, 0444);
MODULE_PARM_DESC(kept, "how often something was not done");
static bool writes;
module_param(writes, bool, 0644);
MODULE_PARM_DESC(writes, "map peers' pages for writing");
static unsigned int tried;
module_param(tried, uint, 0444);
MODULE_PARM_DESC(tried, "pages that were to be mapped for writing");
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
static bool post(struct link *link, u32 value)
{
	u32 long_ago = link->bell.prod - XWAY_DOORBELL_SLOTS - 1;

	xway_doorbell_post(link, value, &long_ago);
	return true;
}

static bool message(struct link *link)
{
	struct xway_ctl msg;

	/* Beyond that the link ends, because the peer takes none. */
	if (link->ctl.queued > XWAY_CTLS)
		return false;
	get_random_bytes(&msg, sizeof(msg));
	msg.type = get_random_u32() % (XWAY_CTL_UNMAPPED + 2);
	msg.service %= XWAY_SERVICES + 1;
	msg.chan = get_random_u32() % 8;
	msg.words_page = any();
	msg.ring_page = any();
	msg.ring_pages = get_random_u32() & 1 ? any() : 1 << get_random_u32() % 10;
	xway_ctl_put(link, &msg);
	return true;
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

static bool change(u32 *word)
{
	if (word)
		WRITE_ONCE(*word, any());
	return word;
}

/* Return: false if there is nothing now that this lie could be told in. */
static bool tell(struct link *link, unsigned int what)
{
	struct xway_header *hdr = link->arena.hdr;

	switch (what) {
	case LIE_POSTS:
		return post(link, get_random_u32() & 3 ? get_random_u32() % 64 : any());
	case LIE_INDEX:
		WRITE_ONCE(hdr->bell_prod, hdr->bell_prod + get_random_u32() % 512);
		return true;
	case LIE_HEADER:
		return change((u32 *)hdr + get_random_u32() % (sizeof(*hdr) / sizeof(u32)));
	case LIE_MESSAGES:
		return message(link);
	case LIE_DIRECTORY:
		return change(word_of_page(link->dir[0].page ? page_address(link->dir[0].page) :
							       NULL));
	case LIE_WORDS:
		return change(word_of_chan(link));
	case LIE_RINGS:
		return change(word_of_ring(link));
	default:
		return true;
	}
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
				what = get_random_u32() % LIE_FIELDS;
			} while (!(mask & BIT(what)));
			told[what] += tell(link, what);
			link->tp->notify(link);
		}
		mutex_unlock(&link->pub.lock);
	}
	mutex_unlock(&xway_links_lock);
}

/* In xway_ctl_put(), with the link's lock held */
void xway_liar_alters(struct xway_ctl *msg)
{
	u32 random = get_random_u32();

	/* Every other one is true, so that connections get rings. */
	if (!(READ_ONCE(lies) & BIT(LIE_FIELDS)) || random & 1)
		return;
	((u16 *)msg)[(random >> 1) % (sizeof(*msg) / sizeof(u16))] = any();
	told[LIE_FIELDS]++;
}

/* In xen_map(), for each page */
bool xway_liar_writes(void)
{
	bool write = READ_ONCE(writes);

	tried += write;
	return write;
}

/* ---- what is read ---- */

static void look(struct link *link)
{
	unsigned long what = READ_ONCE(seek), nr;
	const struct xway_mapping *m;
	const unsigned long *at;

	mutex_lock(&link->pub.lock);
	xa_for_each(&link->import.maps, nr, m) {
		for (at = m->addr; at < (unsigned long *)(m->addr + PAGE_SIZE); at++)
			sought[1] += READ_ONCE(*at) == what;
		sought[0]++;
	}
	mutex_unlock(&link->pub.lock);
}

static void look_all(void)
{
	struct link *link;

	mutex_lock(&xway_links_lock);
	list_for_each_entry(link, &xway_links, node)
		look(link);
	mutex_unlock(&xway_links_lock);
}

/* ---- what is not done ---- */

/* In xway_ctl_put() */
bool xway_liar_keeps(const struct xway_ctl *msg)
{
	bool keep = READ_ONCE(keeps) & BIT(msg->type & 15);

	kept += keep;
	return keep;
}

static void keep_bell(struct tasklet_struct *task)
{
	kept++;
}

static void keep_unmap(struct link *link, struct xway_mapping **m, u32 n)
{
	kept += n;
}

static const struct xway_transport *usual;
static struct xway_transport keeping;
static void (*usual_bell)(struct tasklet_struct *task);

static void set_link(struct link *link)
{
	struct tasklet_struct *task = &link->bell.task;

	if (task->callback != keep_bell)
		usual_bell = task->callback;
	if (link->tp != &keeping)
		usual = link->tp;
	keeping = *usual;
	keeping.unmap = keep_unmap;
	WRITE_ONCE(task->callback, keeps & KEEP_ALL ? keep_bell : usual_bell);
	WRITE_ONCE(link->tp, keeps & KEEP_PAGES ? &keeping : usual);
	/* What was posted meanwhile */
	tasklet_schedule(task);
}

static int set_keeps(const char *text, const struct kernel_param *param)
{
	int err = param_set_uint(text, param);
	struct link *link;

	mutex_lock(&xway_links_lock);
	list_for_each_entry(link, &xway_links, node) {
		mutex_lock(&link->pub.lock);
		if (link->tp->domains)
			set_link(link);
		mutex_unlock(&link->pub.lock);
	}
	mutex_unlock(&xway_links_lock);
	return err;
}

static const struct kernel_param_ops keeps_ops = { .set = set_keeps, .get = param_get_uint };
module_param_cb(keeps, &keeps_ops, &keeps, 0644);
MODULE_PARM_DESC(keeps, "bits: what is not done");

/* ---- the work ---- */

static void lie(struct work_struct *work)
{
	unsigned int mask = READ_ONCE(lies) & (BIT(LIE_FIELDS) - 1), us = READ_ONCE(pause_us);

	if (mask)
		tell_all(mask);
	if (READ_ONCE(seek))
		look_all();
	else if (!mask)
		return;
	if (us)
		usleep_range(us, us + us / 4 + 1);
	cond_resched();
	queue_work(xway_core_wq, work);
}

static DECLARE_WORK(lie_work, lie);

static void begin(void)
{
	if ((lies || seek) && xway_core_wq)
		queue_work(xway_core_wq, &lie_work);
}

static int set_lies(const char *text, const struct kernel_param *param)
{
	int err = param_set_uint(text, param);

	begin();
	return err;
}

static int set_seek(const char *text, const struct kernel_param *param)
{
	int err = param_set_ulong(text, param);

	begin();
	return err;
}

static const struct kernel_param_ops lies_ops = { .set = set_lies, .get = param_get_uint };
module_param_cb(lies, &lies_ops, &lies, 0644);
MODULE_PARM_DESC(lies, "bits: which lies are told");

static const struct kernel_param_ops seek_ops = { .set = set_seek, .get = param_get_ulong };
module_param_cb(seek, &seek_ops, &seek, 0644);
MODULE_PARM_DESC(seek, "what is looked for in peers' pages: eight bytes");
