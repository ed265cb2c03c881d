// SPDX-License-Identifier: GPL-2.0
/*
 * Reclaim: pages of an arena that are not in use go back to the kernel.
 *
 * Those that were not needed for a while go by themselves. The peer has them
 * mapped and is asked to unmap them, some at a time. Messages arrive in order:
 * the peer has sent CLOSE for every channel that used these pages, and what it
 * is told later of the same numbers is of other pages.
 *
 * When the kernel needs memory none can be freed at once, because the peer must
 * answer first. So its shrinker is told how many pages could go when a work item
 * last looked, and what it asks for is only noted. The work item then has links
 * reclaim without waiting and, for what is still wanted, asks the clients. What
 * is in use is neither counted nor taken.
 */
#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/sched/mm.h>
#include <linux/workqueue.h>

#define _XWAY_SHRINKER_COMPAT
#include "compat.h"

#include "link.h"
#include "reclaim.h"

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

static bool pressed(const struct link *link)
{
	lockdep_assert_held(&link->pub.lock);
	return link->arena.pressed &&
	       time_before(jiffies, link->arena.pressed_at + PRESSED);
}

/**
 * xway_reclaim_pressed() - does the kernel want pages back?
 * @link: the link, its lock held
 */
bool xway_reclaim_pressed(const struct xway_link *link)
{
	return pressed(to_link(link));
}
EXPORT_SYMBOL_GPL(xway_reclaim_pressed);

static u32 spare(const struct link *link)
{
	return pressed(link) ? 0 : SPARE;
}

static void reclaim_next(struct link *link)
{
	struct xway_arena *a = &link->arena;
	struct xway_ctl msg = { .type = XWAY_CTL_UNMAP };
	u32 n = min(excess(a, max(a->allowed, a->peak), spare(link)),
		    XWAY_UNMAP_MAX);

	if (link->pub.state != XWAY_LINK_UP || !n)
		return;
	msg.ring_pages = xway_arena_withdraw(link, n, &msg.ring_page);
	if (msg.ring_pages)
		xway_ctl_put(link, &msg);
}

static void reclaim_work(struct work_struct *work)
{
	struct link *link = container_of(to_delayed_work(work),
					      struct link, reclaim);
	unsigned int noio = memalloc_noio_save();	/* as link_work() */

	mutex_lock(&link->pub.lock);
	link->arena.pressed = pressed(link);
	if (link->arena.pressed)
		link->arena.peak = link->arena.in_use;
	link->arena.allowed = link->arena.peak;
	link->arena.peak = link->arena.in_use;
	reclaim_next(link);
	xway_reclaim_soon(link);
	mutex_unlock(&link->pub.lock);
	memalloc_noio_restore(noio);
}

void xway_reclaim_setup(struct link *link)
{
	INIT_DELAYED_WORK(&link->reclaim, reclaim_work);
}

/**
 * xway_reclaim_soon() - fewer pages are in use
 * @link: the link, its lock held
 *
 * What is still too much after two periods goes; at once while the kernel wants
 * pages.
 */
void xway_reclaim_soon(struct link *link)
{
	lockdep_assert_held(&link->pub.lock);
	/* Who ends the link cancels it after that. */
	if (link->pub.state == XWAY_LINK_UP &&
	    excess(&link->arena, link->arena.in_use, spare(link)))
		queue_delayed_work(xway_link_wq, &link->reclaim,
				   pressed(link) ? PERIOD_PRESSED :
							     PERIOD);
}

/*
 * Pages that could go if the kernel wanted them. None of a link that was just asked,
 * nor of one whose peer has not answered yet.
 */
static u32 could(const struct link *link)
{
	lockdep_assert_held(&link->pub.lock);
	if (link->pub.state != XWAY_LINK_UP || link->arena.n_withdrawn ||
	    pressed(link))
		return 0;
	return excess(&link->arena, link->arena.in_use, 0);
}

/**
 * xway_reclaim_press() - the kernel wants pages: what is not in use goes
 * @pub: the link, its lock held
 *
 * And so does what channels give back within the next seconds.
 */
void xway_reclaim_press(struct xway_link *pub)
{
	struct link *link = to_link(pub);

	lockdep_assert_held(&pub->lock);
	/* As above */
	if (pub->state != XWAY_LINK_UP)
		return;
	link->arena.pressed = true;
	link->arena.pressed_at = jiffies;
	mod_delayed_work(xway_link_wq, &link->reclaim, 0);
}
EXPORT_SYMBOL_GPL(xway_reclaim_press);

/**
 * xway_reclaim_unmap() - the peer takes pages back
 * @link: the link, its lock held
 * @msg: a private copy of its message
 *
 * Return: false if no honest peer would.
 */
bool xway_reclaim_unmap(struct link *link, const struct xway_ctl *msg)
{
	struct xway_ctl answer = { .type = XWAY_CTL_UNMAPPED };

	if (msg->ring_pages > XWAY_UNMAP_MAX ||
	    !xway_import_unmap(link, msg->ring_page, msg->ring_pages))
		return false;
	xway_ctl_put(link, &answer);
	return true;
}

/**
 * xway_reclaim_unmapped() - the peer has unmapped what it was asked to
 * @link: the link, its lock held
 *
 * Return: false if it was not asked.
 */
bool xway_reclaim_unmapped(struct link *link)
{
	if (!link->arena.n_withdrawn)
		return false;
	xway_arena_withdrawn(link);
	reclaim_next(link);
	return true;
}

/* ---- the kernel needs memory ---- */

/* While memory is reclaimed, so old may be what could go */
#define FRESH HZ

/* What is asked for in this time is looked for together. */
#define TOGETHER (HZ / 10)

static struct shrinker *shrinker;
static atomic_long_t asked = ATOMIC_LONG_INIT(0);
static long could_go;
static unsigned long looked_at;

static void shrink_look(struct work_struct *work);
static DECLARE_DELAYED_WORK(look, shrink_look);

static void shrink_look(struct work_struct *work)
{
	long noted = atomic_long_read(&asked), wanted = noted, left = 0;
	struct link *link;

	mutex_lock(&xway_links_lock);
	list_for_each_entry(link, &xway_links, node) {
		long pages;

		mutex_lock(&link->pub.lock);
		pages = could(link);
		if (pages && wanted > 0) {
			xway_reclaim_press(&link->pub);
			wanted -= pages;
		} else {
			left += pages;
		}
		mutex_unlock(&link->pub.lock);
	}
	mutex_unlock(&xway_links_lock);
	left += xway_client_reclaim(wanted);
	/* What could go before what is asked for is less: else shrink_count()
	 * would have the same pages asked for twice.
	 */
	WRITE_ONCE(could_go, left);
	(void)atomic_long_sub_return_release(noted, &asked);
	WRITE_ONCE(looked_at, jiffies);
}

static unsigned long shrink_count(struct shrinker *s, struct shrink_control *sc)
{
	long pages = READ_ONCE(could_go) - atomic_long_read(&asked);

	if (time_after(jiffies, READ_ONCE(looked_at) + FRESH))
		queue_delayed_work(xway_link_wq, &look, 0);
	return pages > 0 ? pages : SHRINK_EMPTY;
}

/* Whoever needs memory is here, with any lock. */
static unsigned long shrink_scan(struct shrinker *s, struct shrink_control *sc)
{
	long most = READ_ONCE(could_go);

	if (atomic_long_read(&asked) >= most)
		return SHRINK_STOP;
	atomic_long_add(min_t(unsigned long, sc->nr_to_scan, most), &asked);
	queue_delayed_work(xway_link_wq, &look, TOGETHER);
	return 0;
}

int __init xway_reclaim_init(void)
{
	shrinker = xway_shrinker_start("xway", shrink_count, shrink_scan);
	return shrinker ? 0 : -ENOMEM;
}

/* Links may still be there. */
void xway_reclaim_exit(void)
{
	xway_shrinker_stop(shrinker);
	cancel_delayed_work_sync(&look);
}
