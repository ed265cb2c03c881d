// SPDX-License-Identifier: GPL-2.0
/*
 * Control messages: a ring of slots in each arena. The core handles UNMAP and
 * UNMAPPED. All others are for the client of their service.
 */
#include <linux/init.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "link.h"
#include "peer.h"
#include "reclaim.h"
#include "selftest.h"

/* The most messages that an honest peer can have us queue: an answer for each of its
 * channels; for each of ours a CLOSE, and then an OPEN with the same number; one
 * UNMAP and one UNMAPPED.
 */
#define QUEUE_MAX (3 * XWAY_CHANS_MAX + 2)

struct item {
	struct list_head node;
	struct xway_ctl msg;
};

/* Messages that are queued for all peers together, and the most: a 32nd of the memory */
static atomic_t queued_total = ATOMIC_INIT(0);
unsigned int xway_ctl_queued_max;

/* Set what may be queued for all peers together. Context: initialization. */
void __init xway_ctl_init(void)
{
	/* Of a slab of this size */
	unsigned long of_page = PAGE_SIZE / roundup_pow_of_two(sizeof(struct item));
	unsigned long items = totalram_pages() / 32 * of_page;

	xway_ctl_queued_max = min_t(unsigned long, items, INT_MAX);
}

/* May one more be queued? Links that ask at the same time may each get one more than all may. */
static bool may_queue(const struct link *link)
{
	u32 queued = link->ctl.queued;

	return queued < QUEUE_MAX && (u32)atomic_read(&queued_total) <
				     xway_peer_part(xway_ctl_queued_max, queued);
}

static void set_queued(struct link *link, u32 queued)
{
	atomic_add(queued - link->ctl.queued, &queued_total);
	WRITE_ONCE(link->ctl.queued, queued);
}

static bool has_slot(const struct link *link)
{
	return READ_ONCE(link->ctl.prod) - READ_ONCE(link->import.hdr->ctl_cons) < XWAY_CTLS;
}

static bool ctl_put(struct link *link, const struct xway_ctl *msg)
{
	struct xway_header *own = link->arena.hdr;
	struct xway_ctl *slots = xway_arena_addr(link, XWAY_PAGE_CTL);

	if (!has_slot(link))
		return false;
	slots[link->ctl.prod % XWAY_CTLS] = *msg;
	WRITE_ONCE(link->ctl.prod, link->ctl.prod + 1);
	/* Message before count: pairs with xway_ctl_run() at the peer. */
	virt_store_release(&own->ctl_prod, link->ctl.prod);
	return true;
}

/* Have the peer look at the messages. Context: link's lock held. */
static void ctl_post(struct link *link)
{
	/* As for a channel that was never posted: this post is always made. */
	u32 last = link->bell.prod - XWAY_DOORBELL_SLOTS - 1;

	xway_doorbell_post(link, XWAY_POST_CTL, &last);
}

/**
 * xway_ctl_has_room() - do messages wait for a slot, and is there one now?
 * @link: the link
 *
 * Context: any, within an RCU read section if the link's lock is not held.
 */
bool xway_ctl_has_room(const struct link *link)
{
	return READ_ONCE(link->ctl.queued) && has_slot(link);
}

/**
 * xway_ctl_flush() - send queued messages, as far as there are free slots
 * @link: the link
 *
 * Context: process, link's lock held.
 */
void xway_ctl_flush(struct link *link)
{
	struct item *item, *next;
	bool put = false;

	lockdep_assert_held(&link->pub.lock);
	list_for_each_entry_safe(item, next, &link->ctl.queue, node) {
		if (!link->import.hdr || !ctl_put(link, &item->msg))
			break;
		list_del(&item->node);
		kfree(item);
		set_queued(link, link->ctl.queued - 1);
		put = true;
	}
	if (put) {
		ctl_post(link);
		if (!link->ctl.queued)
			wake_up(&link->drained);
	}
	/* The peer posts once it has taken many: see xway_ctl_run(). One of an older
	 * version does not, and that post may come before the last of these finds no slot.
	 */
	if (!list_empty(&link->ctl.queue) && link->import.hdr)
		queue_delayed_work(xway_core_wq, &link->ctl.flush, 1);
}

static void flush_work_fn(struct work_struct *work)
{
	struct link *link = container_of(to_delayed_work(work), struct link,
					 ctl.flush);
	/* See link_work(). */
	unsigned int noio = memalloc_noio_save();

	mutex_lock(&link->pub.lock);
	xway_ctl_flush(link);
	if (link->pub.state == XWAY_LINK_CONNECTING)
		queue_work(xway_core_wq, &link->work);
	mutex_unlock(&link->pub.lock);
	memalloc_noio_restore(noio);
}

/**
 * xway_ctl_put() - send a control message
 * @link: the link
 * @msg: the message, which is copied
 *
 * Messages arrive in order. A message that finds no free slot is queued. A peer that
 * causes messages but takes none, until the queue is full, loses the link, and so does one
 * for which much is queued when all peers together have too much. If the peer's arena is
 * not mapped, the message is discarded.
 *
 * Context: process, may sleep, link's lock held.
 */
void xway_ctl_put(struct link *link, const struct xway_ctl *msg)
{
	struct item *item;

	lockdep_assert_held(&link->pub.lock);
	if (!link->import.hdr || xway_liar_keeps(msg))
		return;
	if ((link->ctl.queued || !has_slot(link)) && !may_queue(link)) {
		xway_link_broken(link);
		return;
	}
	set_queued(link, link->ctl.queued + 1);
	item = kmalloc(sizeof(*item), GFP_KERNEL | __GFP_NOFAIL);
	item->msg = *msg;
	xway_liar_alters(&item->msg);
	list_add_tail(&item->node, &link->ctl.queue);
	xway_ctl_flush(link);
}

void xway_ctl_send(const struct xway_client *client, struct xway_link *pub,
		   struct xway_ctl *msg)
{
	struct link *link = to_link(pub);
	struct xway_chan *chan;

	lockdep_assert_held(&pub->lock);
	/* From here on the peer may name the channel. */
	if (msg->type == XWAY_CTL_OPEN || msg->type == XWAY_CTL_ACCEPT) {
		chan = xa_load(&link->chans, msg->from);
		chan->expects = msg->type == XWAY_CTL_OPEN ? XWAY_CTL_ACCEPT : XWAY_CTL_CLOSE;
	}
	if (msg->type == XWAY_CTL_OPEN)
		xway_chan_asks(chan);
	msg->service = client->service;
	xway_ctl_put(link, msg);
}
EXPORT_SYMBOL_GPL(xway_ctl_send);

/**
 * xway_ctl_handle() - handle a control message of the peer
 * @link: the link, its lock held
 * @msg: a private copy of the message
 *
 * Context: process, may sleep.
 * Return: false if no honest peer would send it.
 */
bool xway_ctl_handle(struct link *link, const struct xway_ctl *msg)
{
	lockdep_assert_held(&link->pub.lock);
	switch (msg->type) {
	case XWAY_CTL_OPEN:
		return xway_client_open(link, msg);
	case XWAY_CTL_ACCEPT:
	case XWAY_CTL_DECLINE:
	case XWAY_CTL_CLOSE:
		return xway_chan_ctl(link, msg);
	case XWAY_CTL_UNMAP:
		return xway_reclaim_unmap(link, msg);
	case XWAY_CTL_UNMAPPED:
		return xway_reclaim_unmapped(link);
	default:
		return false;
	}
}

/**
 * xway_ctl_run() - take and handle the peer's messages
 * @link: the link
 *
 * Context: process, may sleep, link's lock held.
 */
void xway_ctl_run(struct link *link)
{
	u32 first = link->ctl.cons;
	struct xway_ctl msg;
	u32 prod;

	lockdep_assert_held(&link->pub.lock);
	if (!link->import.hdr || !link->import.ctl)
		return;
	/* Messages after count: pairs with ctl_put() at the peer. */
	prod = virt_load_acquire(&link->import.hdr->ctl_prod);
	if (prod - link->ctl.cons > XWAY_CTLS) {
		xway_link_broken(link);
		return;
	}
	/* Take messages even while our own find no slot. Otherwise both ends
	 * could wait for each other for ever.
	 */
	while (link->ctl.cons != prod && !READ_ONCE(link->broken)) {
		/* Copy once: the peer may change the slot after a check. */
		memcpy(&msg, &link->import.ctl[link->ctl.cons % XWAY_CTLS],
		       sizeof(msg));
		barrier();
		link->ctl.cons++;
		/* Copy before ctl_cons frees the slot: pairs with the load of
		 * ctl_cons in ctl_put() at the peer.
		 */
		virt_store_release(&link->arena.hdr->ctl_cons, link->ctl.cons);
		if (!xway_ctl_handle(link, &msg)) {
			xway_link_broken(link);
			return;
		}
	}
	/* A peer with more messages than slots waits for these slots. All of them are
	 * taken in one or two runs, so one of the two takes half.
	 */
	if (link->ctl.cons - first >= XWAY_CTLS / 2)
		ctl_post(link);
}

/* Initialize a new link. Context: any. */
void xway_ctl_setup(struct link *link)
{
	INIT_LIST_HEAD(&link->ctl.queue);
	INIT_DELAYED_WORK(&link->ctl.flush, flush_work_fn);
}

/* Initialize a new session. Context: link's lock held. */
void xway_ctl_reset(struct link *link)
{
	WRITE_ONCE(link->ctl.prod, 0);
	link->ctl.cons = 0;
}

/**
 * xway_ctl_forget() - discard queued messages, because the session ends
 * @link: the link
 *
 * Context: process, link's lock held.
 */
void xway_ctl_forget(struct link *link)
{
	struct item *item, *next;

	lockdep_assert_held(&link->pub.lock);
	set_queued(link, 0);
	list_for_each_entry_safe(item, next, &link->ctl.queue, node) {
		list_del(&item->node);
		kfree(item);
	}
}
