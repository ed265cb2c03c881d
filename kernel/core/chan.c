// SPDX-License-Identifier: GPL-2.0
/*
 * Channels: numbers, words and rings of this end; mapping of the peer's half.
 */
#include <linux/err.h>
#include <linux/export.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/nospec.h>

#include "link.h"
#include "reclaim.h"
#include "stats.h"

/* Give it a number, and a place for its words. */
static int chan_number(struct link *link, struct xway_chan *chan)
{
	u32 id, page, slot;
	int err;

	err = xa_alloc_cyclic(&link->chans, &id, NULL,
			      XA_LIMIT(0, XWAY_CHANS_MAX - 1),
			      &link->next_chan, GFP_KERNEL);
	/* Low numbers first keep the pages few. */
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

/**
 * xway_chan_create() - make this end's half of a channel
 * @chan: an initialized channel without one, its link's lock held
 * @pages: of the own ring, a power of two of at most XWAY_RING_PAGES_MAX
 * @ring: set to the address of each page, in order; pages need not follow each
 *	other there
 *
 * Words and ring are zero, or as the last channel left them in the case of the
 * ring: the peer may have read that.
 *
 * Context: process, may sleep. Return: 0; -ENOSPC if the arena may not grow so
 * far or there are XWAY_CHANS_MAX channels; -ENOMEM.
 */
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
	chan->ring_pages = pages;	/* now there is something to destroy */
	xa_store(&link->chans, chan->id, chan, GFP_KERNEL);
	WRITE_ONCE(link->pub.n_chans, link->pub.n_chans + 1);
	return 0;

err_ring:
	xway_arena_free(link, chan->ring_page, pages);
err_none:
	/* The arena may have grown for nothing. */
	xway_reclaim_soon(link);
	return err;
}
EXPORT_SYMBOL_GPL(xway_chan_create);

/**
 * xway_chan_destroy() - free this end's half of a channel
 * @chan: channel with one, its link's lock held; nobody here writes its words any
 *	more, and the peer has promised not to read them, or answers no more
 *
 * Its number can name another channel from now on. @event may be running for it
 * until a grace period is over.
 *
 * Context: process, may sleep.
 */
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

/**
 * xway_chan_describe() - say in a message where this end's half is
 * @chan: channel with one
 * @msg: OPEN or ACCEPT; @from and the fields of words and ring are set
 */
void xway_chan_describe(const struct xway_chan *chan, struct xway_ctl *msg)
{
	msg->from = chan->id;
	msg->words_page = chan->words_page;
	msg->words_slot = chan->words_slot;
	msg->ring_page = chan->ring_page;
	msg->ring_pages = chan->ring_pages;
}
EXPORT_SYMBOL_GPL(xway_chan_describe);

/**
 * xway_chan_described() - does a message describe a half of a channel?
 * @msg: a private copy of the peer's message
 *
 * Return: true if xway_chan_map() may be asked to map it, and @ring_pages is a
 * power of two of at most XWAY_RING_PAGES_MAX.
 */
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

/**
 * xway_chan_map() - map the peer's half of a channel
 * @chan: channel without one, its link's lock held
 * @msg: for which xway_chan_described() is true
 * @ring: set to the address of each of its pages, in order
 *
 * The pages stay mapped at least until xway_chan_unmap(). The last thing that
 * happens is that @peer of @chan is set.
 *
 * Context: process, may sleep. Return: 0; -EPROTO for pages that the peer has not
 * shared; -ENOSPC if it shows more than may be mapped; -ENOMEM.
 */
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
	xway_chan_answered(chan, msg);
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

/**
 * xway_chan_answered() - the peer's number of the channel is known
 * @chan: channel, its link's lock held
 * @msg: OPEN or ACCEPT of the peer
 *
 * For who does not map the peer's half but still says CLOSE; xway_chan_map() has
 * done it. Nothing is posted for the channel yet.
 */
void xway_chan_answered(struct xway_chan *chan, const struct xway_ctl *msg)
{
	struct link *link = to_link(chan->link);

	lockdep_assert_held(&link->pub.lock);
	chan->peer_id = msg->from;
	chan->bell_last = link->bell.prod - XWAY_BELLS - 1;
}
EXPORT_SYMBOL_GPL(xway_chan_answered);

/**
 * xway_chan_unmap() - the peer's half is not touched any more
 * @chan: channel, its link's lock held; @peer was cleared a grace period ago
 *
 * The pages may stay mapped for the next channel, until the peer wants them back.
 * Does nothing if there is no such half.
 */
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

/**
 * xway_chan_violated() - the peer has broken the client's rules of a channel
 * @chan: the channel, which the client ends by itself
 *
 * Only counted here. Context: any.
 */
void xway_chan_violated(struct xway_chan *chan)
{
	core_count(VIOLATIONS);
}
EXPORT_SYMBOL_GPL(xway_chan_violated);
