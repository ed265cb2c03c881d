// SPDX-License-Identifier: GPL-2.0
/*
 * Heartbeat: does a peer's kernel still run, and does the peer still exist?
 *
 * Memory that is shared never says that nobody looks at it any more. A beat is a post
 * of the control bell. A kernel that runs takes it at once, whatever its programs do,
 * as it would acknowledge a segment of TCP's. Beats are sent only while a client
 * waits for the peer, or the peer owes an answer. Apart from that, the core asks the
 * transport now and then whether the peer has ended, in case nobody tells.
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
static DECLARE_DELAYED_WORK(look, heartbeat_look);

static void look_later(void)
{
	queue_delayed_work(xway_core_wq, &look, round_jiffies_relative(LOOK));
}

/* Initialize a new session. Context: link's lock held, state WAITING. */
void xway_heartbeat_reset(struct link *link)
{
	link->heart.asked = false;
	WRITE_ONCE(link->heart.silent, 0);
}

/* Has the peer ended, without having ended the session? */
static bool heartbeat_gone(struct link *link)
{
	lockdep_assert_held(&link->pub.lock);
	if (!link->import.hdr || !link->tp->gone || !link->tp->gone(link))
		return false;
	/* A peer that ends a session in order says CLOSING before it closes its end
	 * of the event channel: so look in the other order.
	 */
	virt_rmb();
	return READ_ONCE(link->import.hdr->state) != XWAY_ARENA_CLOSING;
}

static void heartbeat_check_gone(struct link *link)
{
	if (link->gone || link->pub.state != XWAY_LINK_UP || !heartbeat_gone(link))
		return;
	link->gone = true;
	queue_work(xway_core_wq, &link->work);
}

bool xway_link_gone(struct xway_link *pub)
{
	struct link *link = to_link(pub);
	bool ret;

	mutex_lock(&pub->lock);
	ret = link->gone || heartbeat_gone(link);
	mutex_unlock(&pub->lock);
	return ret;
}
EXPORT_SYMBOL_GPL(xway_link_gone);

/* What any kernel that runs changes when it is asked, or by itself */
static u32 heartbeat_sign(const struct xway_header *peer)
{
	return READ_ONCE(peer->bell_cons) + READ_ONCE(peer->bell_prod) +
	       READ_ONCE(peer->ctl_cons) + READ_ONCE(peer->ctl_prod);
}

/* Is it too early to ask again? Also without the lock: then it is only a guess. */
static bool too_early(const struct heart *h)
{
	return READ_ONCE(h->asked) &&
	       time_before(jiffies, READ_ONCE(h->at) + BEAT / 2);
}

unsigned int xway_link_silent(struct xway_link *pub)
{
	struct link *link = to_link(pub);
	struct heart *h = &link->heart;
	unsigned int ret = 0;
	u32 sign;

	/* Ask once for all that wait on one link. */
	if (READ_ONCE(pub->state) == XWAY_LINK_UP && too_early(h))
		return READ_ONCE(h->silent);
	mutex_lock(&pub->lock);
	if (pub->state != XWAY_LINK_UP)
		goto out;
	ret = h->silent;
	if (too_early(h))
		goto out;
	sign = heartbeat_sign(link->import.hdr);
	if (h->asked && sign == h->sign) {
		/* Looks are a second apart, give or take some jiffies. */
		if (time_before(jiffies, h->at + BEAT * 3 / 4))
			goto out;
		/* However late this look is: it may be this domain that did not
		 * run.
		 */
		ret++;
		if (ret >= DOUBT)
			heartbeat_check_gone(link);
	} else {
		WRITE_ONCE(h->asked, true);
		h->sign = sign;
		ret = 0;
		/* Orders nothing: the peer need not find anything. */
		xway_doorbell_post(link, XWAY_POST_CTL, &h->last);
	}
	WRITE_ONCE(h->silent, ret);
	WRITE_ONCE(h->at, jiffies);
out:
	mutex_unlock(&pub->lock);
	return ret;
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
	look_later();
}

/* Begin to look for peers that have ended. Context: initialization. */
void __init xway_heartbeat_init(void)
{
	look_later();
}

/* Context: process, unload. */
void xway_heartbeat_exit(void)
{
	cancel_delayed_work_sync(&look);
}
