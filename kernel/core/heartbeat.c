// SPDX-License-Identifier: GPL-2.0
/*
 * Heartbeat: does a peer's kernel still run, and does the peer still exist?
 *
 * Memory that is shared never says that nobody looks at it any more. A beat is a post
 * of the control bell. A kernel that runs takes it at once, whatever its programs do,
 * as it would acknowledge a segment of TCP's. Beats are sent only while a client
 * waits for the peer. Apart from that, the core asks the transport now and then
 * whether the peer has ended, in case nobody tells.
 */
#include <linux/export.h>
#include <linux/jiffies.h>
#include <linux/workqueue.h>

#include "heartbeat.h"
#include "link.h"

/* Time in which a kernel that runs takes a beat, in jiffies */
#define BEAT HZ

/* Seconds without an answer after which the peer may have ended */
#define DOUBT 2

/* Interval of looks whether peers have ended, in jiffies */
#define LOOK (30 * HZ)

static void heartbeat_look(struct work_struct *work);
static DECLARE_DEFERRABLE_WORK(look, heartbeat_look);

/* Initialize a new session. Context: link's lock held, state WAITING. */
void xway_heartbeat_reset(struct link *link)
{
	link->heart.asked = false;
	WRITE_ONCE(link->heart.silent, 0);
}

/* The peer ends a session before it ends: so one that says CLOSING is not gone. */
static void heartbeat_check_gone(struct link *link)
{
	lockdep_assert_held(&link->pub.lock);
	if (!link->gone && link->pub.state == XWAY_LINK_UP && link->tp->gone &&
	    READ_ONCE(link->import.hdr->state) != XWAY_ARENA_CLOSING &&
	    link->tp->gone(link)) {
		link->gone = true;
		queue_work(xway_core_wq, &link->work);
	}
}

unsigned int xway_link_silent(struct xway_link *pub)
{
	struct link *link = to_link(pub);
	struct heart *h = &link->heart;
	u32 cons;

	mutex_lock(&pub->lock);
	if (pub->state != XWAY_LINK_UP ||
	    (h->asked && time_before(jiffies, h->at + BEAT / 2)))
		goto out;
	cons = READ_ONCE(link->import.hdr->bell_cons);
	if (h->asked && cons == h->cons) {
		if (time_before(jiffies, h->at + BEAT))
			goto out;
		/* However late this look is: it may be this domain that did not
		 * run.
		 */
		WRITE_ONCE(h->silent, min(h->silent + 1, U16_MAX));
		h->at = jiffies;
		if (h->silent >= DOUBT)
			heartbeat_check_gone(link);
		goto out;
	}
	h->asked = true;
	h->cons = cons;
	h->at = jiffies;
	WRITE_ONCE(h->silent, 0);
	/* Orders nothing: the peer need not find anything. */
	xway_doorbell_post(link, XWAY_POST_CTL, &h->last);
out:
	mutex_unlock(&pub->lock);
	return READ_ONCE(h->silent);
}
EXPORT_SYMBOL_GPL(xway_link_silent);

static void heartbeat_look(struct work_struct *work)
{
	struct link *link;

	mutex_lock(&xway_links_lock);
	list_for_each_entry(link, &xway_links, node) {
		mutex_lock(&link->pub.lock);
		heartbeat_check_gone(link);
		mutex_unlock(&link->pub.lock);
	}
	mutex_unlock(&xway_links_lock);
	queue_delayed_work(xway_core_wq, &look, LOOK);
}

/* Begin to look for peers that have ended. Context: initialization. */
void __init xway_heartbeat_init(void)
{
	queue_delayed_work(xway_core_wq, &look, LOOK);
}

/* Context: process, unload. */
void xway_heartbeat_exit(void)
{
	cancel_delayed_work_sync(&look);
}
