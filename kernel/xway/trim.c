// SPDX-License-Identifier: GPL-2.0
/*
 * Trimming: pages that an arena has not needed for a while go back to the kernel.
 *
 * The peer has them mapped and is asked to unmap them, some at a time. Messages
 * arrive in their order: the peer has sent CLOSE for every channel that used
 * them, and what it is told later of the same numbers is of other pages.
 */
#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/sched/mm.h>

#include "link.h"
#include "trim.h"

/* So often is looked at what was needed most since the last time */
#define PERIOD (10 * HZ)

/* So long after the kernel has asked for pages it is looked this often, and what
 * is free goes without waiting and without a spare.
 */
#define PRESSED (5 * HZ)
#define PERIOD_PRESSED (HZ / 10)

/* Pages kept for the next connection: a ring and a page of words; and fewer than
 * LEAST are not worth it
 */
#define SPARE (XWAY_RING_PAGES_MAX + 1)
#define LEAST 32u

/* Pages beyond those that at most so many in use leave, and so many more */
static u32 excess(const struct xway_arena *a, u32 in_use, u32 spare)
{
	u32 keep = XWAY_PAGES_FIXED + in_use + spare;

	return a->shared > keep + LEAST ? a->shared - keep : 0;
}

/* Does the kernel want pages back? */
bool xway_trim_pressed(const struct xway_link *link)
{
	lockdep_assert_held(&link->lock);
	return link->arena.pressed &&
	       time_before(jiffies, link->arena.pressed_at + PRESSED);
}

static u32 spare(const struct xway_link *link)
{
	return xway_trim_pressed(link) ? 0 : SPARE;
}

static void trim_next(struct xway_link *link)
{
	struct xway_arena *a = &link->arena;
	struct xway_ctl msg = { .type = XWAY_CTL_TRIM };
	u32 n = min(excess(a, max(a->allowed, a->peak), spare(link)),
		    XWAY_TRIM_MAX);

	if (link->state != XWAY_LINK_UP || !n)
		return;
	msg.ring_pages = xway_arena_part(link, n, &msg.ring_page);
	if (msg.ring_pages)
		xway_link_ctl_send(link, &msg);
}

static void trim_work(struct work_struct *work)
{
	struct xway_link *link = container_of(to_delayed_work(work),
					      struct xway_link, trim);
	unsigned int noio = memalloc_noio_save();	/* as link_work() */

	mutex_lock(&link->lock);
	link->arena.pressed = xway_trim_pressed(link);
	if (link->arena.pressed)
		link->arena.peak = link->arena.in_use;
	link->arena.allowed = link->arena.peak;
	link->arena.peak = link->arena.in_use;
	trim_next(link);
	xway_trim_soon(link);
	mutex_unlock(&link->lock);
	memalloc_noio_restore(noio);
}

void xway_trim_init(struct xway_link *link)
{
	INIT_DELAYED_WORK(&link->trim, trim_work);
}

/**
 * xway_trim_soon() - fewer pages are in use
 * @link: the link, its mutex held
 *
 * What is still too much after two periods goes; at once while the kernel wants
 * pages.
 */
void xway_trim_soon(struct xway_link *link)
{
	lockdep_assert_held(&link->lock);
	/* Who ends the link cancels it after that. */
	if (link->state == XWAY_LINK_UP &&
	    excess(&link->arena, link->arena.in_use, spare(link)))
		queue_delayed_work(xway_link_wq, &link->trim,
				   xway_trim_pressed(link) ? PERIOD_PRESSED :
							     PERIOD);
}

/**
 * xway_trim_could() - pages that could go if the kernel wanted them
 * @link: the link, its mutex held
 *
 * None of one that was just asked, nor of one whose peer has not answered yet.
 */
u32 xway_trim_could(const struct xway_link *link)
{
	lockdep_assert_held(&link->lock);
	if (link->state != XWAY_LINK_UP || link->arena.n_leaving ||
	    xway_trim_pressed(link))
		return 0;
	return excess(&link->arena, link->arena.in_use, 0);
}

/**
 * xway_trim_press() - the kernel wants pages: what is not in use goes
 * @link: the link, its mutex held
 *
 * And so does what connections give back within the next seconds.
 */
void xway_trim_press(struct xway_link *link)
{
	lockdep_assert_held(&link->lock);
	/* As above */
	if (link->state != XWAY_LINK_UP)
		return;
	link->arena.pressed = true;
	link->arena.pressed_at = jiffies;
	mod_delayed_work(xway_link_wq, &link->trim, 0);
}

/**
 * xway_trim_view() - the peer takes pages back
 * @link: the link, its mutex held
 * @msg: a private copy of its message
 *
 * Return: false if no honest peer would.
 */
bool xway_trim_view(struct xway_link *link, const struct xway_ctl *msg)
{
	struct xway_ctl answer = { .type = XWAY_CTL_TRIMMED };

	if (msg->ring_pages > XWAY_TRIM_MAX ||
	    !xway_view_forget(link, msg->ring_page, msg->ring_pages))
		return false;
	xway_link_ctl_send(link, &answer);
	return true;
}

/**
 * xway_trim_done() - the peer has unmapped what it was asked to
 * @link: the link, its mutex held
 *
 * Return: false if it was not asked.
 */
bool xway_trim_done(struct xway_link *link)
{
	if (!link->arena.n_leaving)
		return false;
	xway_arena_parted(link);
	trim_next(link);
	return true;
}
