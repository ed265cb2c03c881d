// SPDX-License-Identifier: GPL-2.0
/*
 * Channels: numbers, words and rings of the own half; mapping of the peer's half.
 */
#include <linux/err.h>
#include <linux/export.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/nospec.h>

#include "link.h"
#include "reclaim.h"
#include "stats.h"

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

void xway_chan_destroy(struct xway_chan *chan)
{
	struct link *link = to_link(chan->link);
	u32 page = chan->id / XWAY_CHANS_PER_PAGE;

	lockdep_assert_held(&link->pub.lock);
	xway_arena_free(link, chan->ring_page, chan->ring_pages);
	chan->ring_pages = 0;
	if (!--link->words_used[page]) {
		xway_arena_free(link, link->words_page[page], 1);
		link->words_page[page] = 0;
	}
	xa_erase(&link->chans, chan->id);
	WRITE_ONCE(link->pub.n_chans, link->pub.n_chans - 1);
	chan->own = NULL;
	xway_reclaim_soon(link);
}
EXPORT_SYMBOL_GPL(xway_chan_destroy);

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
	       msg->ring_pages <= min(XWAY_RING_PAGES_MAX, xway_arena_pages_max()) &&
	       msg->words_slot < XWAY_CHANS_PER_PAGE &&
	       msg->words_page >= XWAY_PAGES_FIXED &&
	       msg->ring_page >= XWAY_PAGES_FIXED &&
	       msg->ring_page <= XWAY_ARENA_PAGES_MAX;
}
EXPORT_SYMBOL_GPL(xway_chan_described);

int xway_chan_map(struct xway_chan *chan, const struct xway_ctl *msg, void **ring)
{
	struct link *link = to_link(chan->link);
	const void *words;
	u32 i;
	int err;

	lockdep_assert_held(&link->pub.lock);
	words = xway_import_get(link, msg->words_page);
	if (IS_ERR(words))
		return PTR_ERR(words);
	for (i = 0; i < msg->ring_pages; i++) {
		const void *addr = xway_import_get(link, msg->ring_page + i);

		err = PTR_ERR_OR_ZERO(addr);
		if (err)
			goto err_pages;
		ring[i] = (void *)addr;
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

err_pages:
	xway_import_put(link, msg->ring_page, i);
	xway_import_put(link, msg->words_page, 1);
	return err;
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
