// SPDX-License-Identifier: GPL-2.0
/*
 * Channels: numbers, words and rings of the own half; mapping of the peer's half;
 * messages that name a channel.
 *
 * A channel that is destroyed before the peer has sent its last message to it leaves a
 * *tombstone*: a value in its place in the table of channels. The peer may still name the
 * number, and read words and ring, so the tombstone keeps all three until that message
 * comes or the session ends. It needs no memory of its own, and no client.
 */
#include <linux/bitfield.h>
#include <linux/err.h>
#include <linux/export.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/nospec.h>

#include "answer.h"
#include "link.h"
#include "reclaim.h"
#include "stats.h"

/* A tombstone: first page and pages of the own ring, and what struct xway_chan expects */
#define TOMB_RING	GENMASK(13, 0)
#define TOMB_PAGES	GENMASK(22, 14)
#define TOMB_EXPECTS	GENMASK(25, 23)

/*
 * Marks in the table: its OPEN is not answered, and was not when xway_chan_mark_late() looked. A
 * tombstone has the marks of its channel, and they go with the entry.
 */
#define ASKS		XA_MARK_1
#define LATE		XA_MARK_2

static_assert(TOMB_RING >> 0 >= XWAY_ARENA_PAGES_MAX - 1);
static_assert(TOMB_PAGES >> 14 >= XWAY_RING_PAGES_MAX);
static_assert(TOMB_EXPECTS >> 23 >= XWAY_CTL_CLOSE);

/* Give a channel a number, and a place for its words. */
static int chan_number(struct link *link, struct xway_chan *chan)
{
	u32 id, page, slot;
	int err;

	err = xa_alloc_cyclic(&link->chans, &id, NULL,
			      XA_LIMIT(0, XWAY_CHANS_MAX - 1),
			      &link->next_chan, GFP_KERNEL);
	/* Always begin at 0: low numbers need the fewest pages of words. */
	link->next_chan = 0;
	if (err < 0)
		return err == -EBUSY ? -ENOSPC : err;
	page = id / XWAY_CHANS_PER_PAGE;
	slot = id % XWAY_CHANS_PER_PAGE;
	if (!link->words_page[page]) {
		err = xway_arena_alloc(link, 1, &link->words_page[page]);
		if (err) {
			link->words_page[page] = 0;
			xa_erase(&link->chans, id);
			return err;
		}
	}
	link->words_used[page]++;
	chan->id = id;
	chan->own = xway_arena_addr(link, link->words_page[page]) +
		    slot * XWAY_WORDS_SIZE;
	memset(chan->own, 0, XWAY_WORDS_SIZE);
	chan->words_page = link->words_page[page];
	chan->words_slot = slot;
	return 0;
}

int xway_chan_create(struct xway_chan *chan, u32 pages, void **ring)
{
	struct link *link = to_link(chan->link);
	u32 i;
	int err;

	lockdep_assert_held(&link->pub.lock);
	err = xway_arena_alloc(link, pages, &chan->ring_page);
	if (err)
		goto err_none;
	err = chan_number(link, chan);
	if (err)
		goto err_ring;
	for (i = 0; i < pages; i++)
		ring[i] = xway_arena_addr(link, chan->ring_page + i);
	chan->ring_pages = pages;	/* the own half exists now */
	xa_store(&link->chans, chan->id, chan, GFP_KERNEL);
	WRITE_ONCE(link->pub.n_chans, link->pub.n_chans + 1);
	return 0;

err_ring:
	xway_arena_free(link, chan->ring_page, pages);
err_none:
	/* The arena may have grown in vain. */
	xway_reclaim_soon(link);
	return err;
}
EXPORT_SYMBOL_GPL(xway_chan_create);

/* Free the number, the words and the ring of a channel. */
static void half_free(struct link *link, u32 id, u32 ring_page, u32 ring_pages)
{
	u32 group = id / XWAY_CHANS_PER_PAGE;

	xway_arena_free(link, ring_page, ring_pages);
	if (!--link->words_used[group]) {
		xway_arena_free(link, link->words_page[group], 1);
		link->words_page[group] = 0;
	}
	xa_erase(&link->chans, id);
	WRITE_ONCE(link->pub.n_chans, link->pub.n_chans - 1);
	if (!link->pub.n_chans)
		wake_up(&link->drained);
	xway_reclaim_soon(link);
}

static void tomb_free(struct link *link, u32 id, unsigned long tomb)
{
	half_free(link, id, FIELD_GET(TOMB_RING, tomb), FIELD_GET(TOMB_PAGES, tomb));
}

/* Put a tombstone into a channel's place. The place is there, so this allocates nothing. */
static void tomb_set(struct link *link, u32 id, unsigned long tomb)
{
	xa_store(&link->chans, id, xa_mk_value(tomb), GFP_KERNEL);
}

void xway_chan_destroy(struct xway_chan *chan)
{
	struct link *link = to_link(chan->link);

	lockdep_assert_held(&link->pub.lock);
	WARN_ON_ONCE(chan->peer_ring_pages);
	if (chan->expects)
		tomb_set(link, chan->id, FIELD_PREP(TOMB_RING, chan->ring_page) |
					 FIELD_PREP(TOMB_PAGES, chan->ring_pages) |
					 FIELD_PREP(TOMB_EXPECTS, chan->expects));
	else
		half_free(link, chan->id, chan->ring_page, chan->ring_pages);
	chan->expects = 0;
	chan->ring_pages = 0;
	chan->own = NULL;
}
EXPORT_SYMBOL_GPL(xway_chan_destroy);

/**
 * xway_chan_forget() - free what tombstones keep, because the session ends
 * @link: the link
 *
 * Context: process, link's lock held.
 */
void xway_chan_forget(struct link *link)
{
	unsigned long id;
	void *entry;

	lockdep_assert_held(&link->pub.lock);
	xa_for_each(&link->chans, id, entry)
		if (xa_is_value(entry))
			tomb_free(link, id, xa_to_value(entry));
}

/**
 * xway_chan_asks() - an OPEN is sent: the peer owes an answer
 * @chan: the channel
 *
 * Context: process, link's lock held.
 */
void xway_chan_asks(const struct xway_chan *chan)
{
	xa_set_mark(&to_link(chan->link)->chans, chan->id, ASKS);
	xway_answer_owed();
}

/* The answer has come. */
static void answered(struct link *link, u32 id)
{
	xa_clear_mark(&link->chans, id, ASKS);
	xa_clear_mark(&link->chans, id, LATE);
}

/**
 * xway_chan_owed() - does the peer owe an answer, for a channel or a tombstone?
 * @link: the link
 *
 * Context: any.
 */
bool xway_chan_owed(const struct link *link)
{
	return xa_marked(&link->chans, ASKS);
}

/**
 * xway_chan_mark_late() - mark each answer that the peer owes as late
 * @link: the link
 *
 * Context: process, link's lock held.
 * Return: true if one was marked before, by the last call or an earlier one.
 */
bool xway_chan_mark_late(struct link *link)
{
	unsigned long id;
	bool ret = false;
	void *entry;

	lockdep_assert_held(&link->pub.lock);
	xa_for_each_marked(&link->chans, id, entry, ASKS) {
		ret |= xa_get_mark(&link->chans, id, LATE);
		xa_set_mark(&link->chans, id, LATE);
	}
	return ret;
}

/* What a channel expects after a message of the peer; -EPROTO if not this message */
static int expects_after(u16 expects, u32 type)
{
	if (type == XWAY_CTL_ACCEPT && expects == XWAY_CTL_ACCEPT)
		return XWAY_CTL_CLOSE;
	if ((type == XWAY_CTL_DECLINE && expects == XWAY_CTL_ACCEPT) ||
	    (type == XWAY_CTL_CLOSE && expects == XWAY_CTL_CLOSE))
		return 0;
	return -EPROTO;
}

/* A message for a tombstone. After ACCEPT the peer waits for the CLOSE of a client that
 * did not wait for ACCEPT. Return: false if no honest peer would send the message.
 */
static bool tomb_ctl(struct link *link, unsigned long tomb, const struct xway_ctl *msg)
{
	int next = expects_after(FIELD_GET(TOMB_EXPECTS, tomb), msg->type);
	struct xway_ctl close = {
		.type = XWAY_CTL_CLOSE,
		.chan = msg->from,
		.service = msg->service,
	};

	if (next < 0)
		return false;
	if (next) {
		answered(link, msg->chan);
		tomb &= ~TOMB_EXPECTS;
		tomb_set(link, msg->chan, tomb | FIELD_PREP(TOMB_EXPECTS, next));
		xway_ctl_put(link, &close);
	} else {
		tomb_free(link, msg->chan, tomb);
	}
	return true;
}

/**
 * xway_chan_ctl() - handle a message that names a channel
 * @link: the link
 * @msg: a private copy of the message: ACCEPT, DECLINE or CLOSE
 *
 * Context: process, link's lock held.
 * Return: false if no honest peer would send it.
 */
bool xway_chan_ctl(struct link *link, const struct xway_ctl *msg)
{
	struct xway_chan *chan = xa_load(&link->chans, msg->chan);
	int next;

	lockdep_assert_held(&link->pub.lock);
	if (!chan)
		return false;
	if (xa_is_value(chan))
		return tomb_ctl(link, xa_to_value(chan), msg);
	/* Modules older than services send 0, to any client. */
	if (msg->service && msg->service != chan->client->service)
		return false;
	next = expects_after(chan->expects, msg->type);
	if (next < 0)
		return false;
	chan->expects = next;
	if (msg->type != XWAY_CTL_CLOSE)
		answered(link, msg->chan);
	return chan->client->ctl(&link->pub, chan, msg);
}

void xway_chan_describe(const struct xway_chan *chan, struct xway_ctl *msg)
{
	msg->from = chan->id;
	msg->words_page = chan->words_page;
	msg->words_slot = chan->words_slot;
	msg->ring_page = chan->ring_page;
	msg->ring_pages = chan->ring_pages;
}
EXPORT_SYMBOL_GPL(xway_chan_describe);

bool xway_chan_described(const struct xway_ctl *msg)
{
	return is_power_of_2(msg->ring_pages) &&
	       msg->ring_pages <= min(XWAY_RING_PAGES_MAX, xway_link_pages_max()) &&
	       msg->words_slot < XWAY_CHANS_PER_PAGE &&
	       msg->words_page >= XWAY_PAGES_FIXED &&
	       msg->ring_page >= XWAY_PAGES_FIXED &&
	       msg->ring_page <= XWAY_ARENA_PAGES_MAX;
}
EXPORT_SYMBOL_GPL(xway_chan_described);

int xway_chan_map(struct xway_chan *chan, const struct xway_ctl *msg, void **ring)
{
	struct link *link = to_link(chan->link);
	void *words;
	int err;

	lockdep_assert_held(&link->pub.lock);
	err = xway_import_get(link, msg->words_page, 1, &words);
	if (err)
		return err;
	err = xway_import_get(link, msg->ring_page, msg->ring_pages, ring);
	if (err) {
		xway_import_put(link, msg->words_page, 1);
		return err;
	}
	chan->peer_words_page = msg->words_page;
	chan->peer_ring_page = msg->ring_page;
	chan->peer_ring_pages = msg->ring_pages;
	xway_chan_set_peer_id(chan, msg);
	rcu_assign_pointer(chan->peer,
			   words + XWAY_WORDS_SIZE *
			   array_index_nospec(msg->words_slot,
					      XWAY_CHANS_PER_PAGE));
	return 0;
}
EXPORT_SYMBOL_GPL(xway_chan_map);

void xway_chan_set_peer_id(struct xway_chan *chan, const struct xway_ctl *msg)
{
	struct link *link = to_link(chan->link);

	lockdep_assert_held(&link->pub.lock);
	chan->peer_id = msg->from;
	chan->last_post = link->bell.prod - XWAY_DOORBELL_SLOTS - 1;
}
EXPORT_SYMBOL_GPL(xway_chan_set_peer_id);

void xway_chan_unmap(struct xway_chan *chan)
{
	struct link *link = to_link(chan->link);

	lockdep_assert_held(&link->pub.lock);
	WARN_ON_ONCE(rcu_access_pointer(chan->peer));
	if (!chan->peer_ring_pages)
		return;
	xway_import_put(link, chan->peer_ring_page, chan->peer_ring_pages);
	xway_import_put(link, chan->peer_words_page, 1);
	chan->peer_ring_pages = 0;
}
EXPORT_SYMBOL_GPL(xway_chan_unmap);

void xway_chan_count_violation(struct xway_chan *chan)
{
	xway_core_count(VIOLATIONS);
}
EXPORT_SYMBOL_GPL(xway_chan_count_violation);
