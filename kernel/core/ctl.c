// SPDX-License-Identifier: GPL-2.0
/*
 * Control messages: a ring of slots in each arena. The core has two of its own;
 * the others go to the client of their service.
 */
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "link.h"
#include "reclaim.h"

/* Messages that find no slot: for each channel of the peer an answer, and for
 * each of ours a CLOSE and, its number being free again, an OPEN; UNMAP, UNMAPPED.
 */
#define QUEUE_MAX (3 * XWAY_CHANS_MAX + 2)

struct item {
	struct list_head node;
	struct xway_ctl msg;
};

static bool ctl_put(struct link *link, const struct xway_ctl *msg)
{
	struct xway_header *own = link->arena.hdr;
	struct xway_ctl *slots = xway_arena_addr(link, XWAY_PAGE_CTL);

	if (link->ctl.prod - READ_ONCE(link->import.hdr->ctl_cons) >= XWAY_CTLS)
		return false;
	slots[link->ctl.prod % XWAY_CTLS] = *msg;
	/* The message before its count: pairs with xway_ctl_run() at the peer. */
	virt_store_release(&own->ctl_prod, ++link->ctl.prod);
	return true;
}

/* Put what is queued, as far as there is room. Under the link's lock. */
void xway_ctl_flush(struct link *link)
{
	struct item *item, *next;
	/* The control ring must be seen now: a post in the ring may be old. */
	u32 last = link->bell.prod - XWAY_BELLS - 1;
	bool put = false;

	lockdep_assert_held(&link->pub.lock);
	list_for_each_entry_safe(item, next, &link->ctl.queue, node) {
		if (!link->import.hdr || !ctl_put(link, &item->msg))
			break;
		list_del(&item->node);
		kfree(item);
		link->ctl.queued--;
		put = true;
	}
	if (put)
		xway_doorbell_post(link, XWAY_BELL_CTL, &last);
	if (!list_empty(&link->ctl.queue) && link->import.hdr)
		queue_delayed_work(xway_link_wq, &link->ctl.flush, 1);
}

static void flush_work_fn(struct work_struct *work)
{
	struct link *link = container_of(to_delayed_work(work), struct link,
					 ctl.flush);
	/* Connections wait for this lock, and reclaim may wait for them. */
	unsigned int noio = memalloc_noio_save();

	mutex_lock(&link->pub.lock);
	xway_ctl_flush(link);
	if (link->pub.state == XWAY_LINK_CONNECTING)
		queue_work(xway_link_wq, &link->work);
	mutex_unlock(&link->pub.lock);
	memalloc_noio_restore(noio);
}

/**
 * xway_ctl_put() - send a control message
 * @link: the link, its lock held
 * @msg: the message, copied
 *
 * Messages arrive in order. One that finds the ring full waits in a queue; a
 * peer that asks and asks, and takes no answer, loses the link.
 */
void xway_ctl_put(struct link *link, const struct xway_ctl *msg)
{
	struct item *item;

	lockdep_assert_held(&link->pub.lock);
	if (!link->import.hdr)
		return;
	if (link->ctl.queued >= QUEUE_MAX) {
		xway_link_broken(link);
		return;
	}
	link->ctl.queued++;
	item = kmalloc(sizeof(*item), GFP_KERNEL | __GFP_NOFAIL);
	item->msg = *msg;
	list_add_tail(&item->node, &link->ctl.queue);
	xway_ctl_flush(link);
}

/**
 * xway_ctl_send() - send a control message of a client
 * @client: whose it is
 * @link: the link, its lock held
 * @msg: the message; the service is filled in
 *
 * Messages of a link arrive in order, of all clients together. Without a peer the
 * message is dropped. Sleeps.
 */
void xway_ctl_send(const struct xway_client *client, struct xway_link *link,
		   struct xway_ctl *msg)
{
	msg->service = client->service;
	xway_ctl_put(to_link(link), msg);
}
EXPORT_SYMBOL_GPL(xway_ctl_send);

/* Return: false if no honest peer would send it. */
static bool take_of_client(struct link *link, const struct xway_ctl *msg)
{
	struct xway_chan *chan;

	switch (msg->type) {
	case XWAY_CTL_OPEN:
		return xway_client_open(link, msg);
	case XWAY_CTL_ACCEPT:
	case XWAY_CTL_DECLINE:
	case XWAY_CTL_CLOSE:
		chan = xa_load(&link->chans, msg->chan);
		/* A peer that is late at the end of a session breaks no rule. */
		if (!chan)
			return link->pub.state == XWAY_LINK_CLOSING;
		/* A peer that knows no services declines as if for sockets. */
		if (msg->service && msg->service != chan->client->service)
			return false;
		return chan->client->ctl(&link->pub, chan, msg);
	default:
		return false;
	}
}

static bool take(struct link *link, const struct xway_ctl *msg)
{
	switch (msg->type) {
	case XWAY_CTL_UNMAP:
		return xway_reclaim_unmap(link, msg);
	case XWAY_CTL_UNMAPPED:
		return xway_reclaim_unmapped(link);
	default:
		return take_of_client(link, msg);
	}
}

/* Take the peer's messages. Under the link's lock. */
void xway_ctl_run(struct link *link)
{
	struct xway_ctl msg;
	u32 prod;

	lockdep_assert_held(&link->pub.lock);
	if (!link->import.hdr || !link->import.ctl)
		return;
	/* Messages after their count: pairs with ctl_put() at the peer. */
	prod = virt_load_acquire(&link->import.hdr->ctl_prod);
	if (prod - link->ctl.cons > XWAY_CTLS) {
		xway_link_broken(link);
		return;
	}
	/* Also while our own messages find no room: were both sides to wait for
	 * the other to take first, neither ever would.
	 */
	while (link->ctl.cons != prod && !READ_ONCE(link->broken)) {
		/* Copied once; what is checked is what is used. */
		memcpy(&msg, &link->import.ctl[link->ctl.cons % XWAY_CTLS],
		       sizeof(msg));
		barrier();
		link->ctl.cons++;
		/* Copied before the slot is used again: pairs with the test of
		 * ctl_cons in ctl_put() at the peer.
		 */
		virt_store_release(&link->arena.hdr->ctl_cons, link->ctl.cons);
		if (!take(link, &msg)) {
			xway_link_broken(link);
			return;
		}
	}
}

void xway_ctl_setup(struct link *link)
{
	INIT_LIST_HEAD(&link->ctl.queue);
	INIT_DELAYED_WORK(&link->ctl.flush, flush_work_fn);
}

/* A session begins. */
void xway_ctl_reset(struct link *link)
{
	link->ctl.prod = 0;
	link->ctl.cons = 0;
}

/* A session ends: nobody waits for what is queued. Under the link's lock. */
void xway_ctl_forget(struct link *link)
{
	struct item *item, *next;

	lockdep_assert_held(&link->pub.lock);
	link->ctl.queued = 0;
	list_for_each_entry_safe(item, next, &link->ctl.queue, node) {
		list_del(&item->node);
		kfree(item);
	}
}
