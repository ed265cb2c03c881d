// SPDX-License-Identifier: GPL-2.0
/*
 * Answers: a peer whose kernel runs answers each OPEN. One that does not would keep the
 * pages of what was offered for as long as the session lasts. So the session ends, in an
 * orderly way: it may be that only one client of the peer's hangs.
 *
 * While a peer owes an answer, each second is counted in which its kernel runs. After
 * ANSWER_SECONDS of them all that it owes is marked; after as many more, what is still
 * marked is late. So one that is paused, or suspended with this domain, loses nothing.
 * A peer that takes no beat looks paused.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/workqueue.h>

#include "answer.h"
#include "link.h"

#define ANSWER_SECONDS 60

static void answer_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(look, answer_work);

/**
 * xway_answer_owed() - a peer owes an answer: look, a second from now
 *
 * Context: any.
 */
void xway_answer_owed(void)
{
	queue_delayed_work(xway_core_wq, &look, HZ);
}

/* Has the peer sent what was not taken yet? An answer may be among it. */
static bool untaken(struct link *link)
{
	if (link->ctl.cons == READ_ONCE(link->import.hdr->ctl_prod))
		return false;
	queue_work(xway_core_wq, &link->work);
	return true;
}

/**
 * xway_answer_look() - look whether a peer owes an answer; to be called once a second
 * @link: the link
 *
 * Context: process, may sleep; takes the link's lock.
 * Return: true if there must be another look.
 */
bool xway_answer_look(struct link *link)
{
	unsigned int silent = 0;
	bool owed;

	/* Nobody is asked for a sign without need. */
	if (xway_chan_owed(link))
		silent = xway_link_silent(&link->pub);
	mutex_lock(&link->pub.lock);
	owed = link->pub.state == XWAY_LINK_UP && !link->late && xway_chan_owed(link);
	if (!owed)
		link->awake = 0;
	else if (!silent && !untaken(link))
		link->awake++;
	if (link->awake == ANSWER_SECONDS) {
		link->awake = 0;
		if (xway_chan_mark_late(link)) {
			pr_warn("%s runs, but has not answered an OPEN for %u s: the session ends\n",
				link->pub.name, ANSWER_SECONDS);
			WRITE_ONCE(link->late, true);
			queue_work(xway_core_wq, &link->work);
		}
	}
	mutex_unlock(&link->pub.lock);
	return owed;
}

static void answer_work(struct work_struct *work)
{
	struct link *link;
	bool again = false;

	mutex_lock(&xway_links_lock);
	list_for_each_entry(link, &xway_links, node)
		again |= xway_answer_look(link);
	mutex_unlock(&xway_links_lock);
	if (again)
		xway_answer_owed();
}

/* Look no more. Context: process, unload; nobody sends an OPEN any more. */
void xway_answer_exit(void)
{
	cancel_delayed_work_sync(&look);
}
