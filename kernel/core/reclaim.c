// SPDX-License-Identifier: GPL-2.0
/*
 * Reclaim: give pages of arenas that are not in use back to the kernel.
 *
 * Pages that an arena has not needed for one to two periods are reclaimed. The peer
 * maps them, so it is asked to unmap some at a time (UNMAP). When it has answered
 * (UNMAPPED), they are revoked. Messages arrive in order: the peer has sent CLOSE
 * for every channel that used the pages, and what it hears later of the same
 * numbers is about new pages.
 *
 * When the kernel needs memory, the shrinker can free nothing at once, because the
 * peer must answer first. So the shrinker only reports how many pages could be
 * reclaimed when a work item last looked, and notes how many the kernel asks for.
 * The work item then has links reclaim at once. If that is not enough, it asks the
 * clients. Pages in use are neither counted nor taken.
 */
#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/sched/mm.h>
#include <linux/workqueue.h>

#define _XWAY_SHRINKER_COMPAT
#include "compat.h"

#include "link.h"
#include "reclaim.h"

/* Interval between two looks at the peak of pages in use, in jiffies */
#define PERIOD (10 * HZ)

/* How long a request of the kernel has effect, and the interval between two looks
 * in that time, in jiffies. All free pages are then reclaimed, with no spare kept.
 */
#define URGENT (5 * HZ)
#define PERIOD_URGENT (HZ / 10)

/* Pages that are kept for the next channel: the largest ring and a page of words.
 * LEAST or fewer pages are not worth a message.
 */
#define SPARE (XWAY_RING_PAGES_MAX + 1)
#define LEAST 32u

/* Pages that an arena has beyond @in_use and @spare; 0 if not worth a message */
static u32 excess(const struct xway_arena *a, u32 in_use, u32 spare)
{
	u32 keep = XWAY_PAGES_FIXED + in_use + spare;

	return a->shared > keep + LEAST ? a->shared - keep : 0;
}

static bool urgent(const struct link *link)
{
	lockdep_assert_held(&link->pub.lock);
	return link->arena.urgent &&
	       time_before(jiffies, link->arena.urgent_since + URGENT);
}

bool xway_reclaim_urgent(const struct xway_link *link)
{
	return urgent(to_link(link));
}
EXPORT_SYMBOL_GPL(xway_reclaim_urgent);

static u32 spare(const struct link *link)
{
	return urgent(link) ? 0 : SPARE;
}

/* Withdraw the next pages and ask the peer to unmap them. */
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
	unsigned int noio = memalloc_noio_save();	/* see link_work() */

	mutex_lock(&link->pub.lock);
	link->arena.urgent = urgent(link);
	if (link->arena.urgent)
		link->arena.peak = link->arena.in_use;
	link->arena.allowed = link->arena.peak;
	link->arena.peak = link->arena.in_use;
	reclaim_next(link);
	xway_reclaim_soon(link);
	mutex_unlock(&link->pub.lock);
	memalloc_noio_restore(noio);
}

/* Initialize a new link. Context: any. */
void xway_reclaim_setup(struct link *link)
{
	INIT_DELAYED_WORK(&link->reclaim, reclaim_work);
}

/**
 * xway_reclaim_soon() - fewer pages are in use: see whether some can be reclaimed
 * @link: the link
 *
 * Pages that are not needed for two periods are reclaimed, or without this wait
 * while the kernel asks for pages.
 *
 * Context: process, link's lock held.
 */
void xway_reclaim_soon(struct link *link)
{
	lockdep_assert_held(&link->pub.lock);
	/* xway_link_down() changes the state, then cancels this work. */
	if (link->pub.state == XWAY_LINK_UP &&
	    excess(&link->arena, link->arena.in_use, spare(link)))
		queue_delayed_work(xway_core_wq, &link->reclaim,
				   urgent(link) ? PERIOD_URGENT :
							     PERIOD);
}

/**
 * xway_reclaimable() - count the pages of a link that could be reclaimed
 * @link: the link, its lock held
 *
 * Return: the pages; 0 if the link was asked a short time ago, or if its peer has
 * not answered an UNMAP yet.
 */
u32 xway_reclaimable(const struct link *link)
{
	lockdep_assert_held(&link->pub.lock);
	if (link->pub.state != XWAY_LINK_UP || link->arena.n_withdrawn ||
	    urgent(link))
		return 0;
	return excess(&link->arena, link->arena.in_use, 0);
}

void xway_reclaim_now(struct xway_link *pub)
{
	struct link *link = to_link(pub);

	lockdep_assert_held(&pub->lock);
	/* See xway_reclaim_soon(). */
	if (pub->state != XWAY_LINK_UP)
		return;
	link->arena.urgent = true;
	link->arena.urgent_since = jiffies;
	mod_delayed_work(xway_core_wq, &link->reclaim, 0);
}
EXPORT_SYMBOL_GPL(xway_reclaim_now);

/**
 * xway_reclaim_unmap() - handle UNMAP: unmap pages of the peer, and answer
 * @link: the link
 * @msg: a private copy of the message
 *
 * Context: process, link's lock held.
 * Return: false if no honest peer would send the message.
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
 * xway_reclaim_unmapped() - handle UNMAPPED: revoke the pages, and ask for more
 * @link: the link
 *
 * Context: process, link's lock held.
 * Return: false if the peer was not asked to unmap.
 */
bool xway_reclaim_unmapped(struct link *link)
{
	if (!link->arena.n_withdrawn)
		return false;
	xway_arena_revoke_withdrawn(link);
	reclaim_next(link);
	return true;
}

/* ---- the kernel needs memory ---- */

/* shrink_count() has the work item look again if its last look is older, in jiffies */
#define LOOK_MAX_AGE HZ

/* Time in which requests of the kernel are collected, in jiffies */
#define COLLECT (HZ / 10)

static struct shrinker *shrinker;
static atomic_long_t requested = ATOMIC_LONG_INIT(0);
static long reclaimable_pages;
static unsigned long last_look;

static void shrink_look(struct work_struct *work);
static DECLARE_DELAYED_WORK(look, shrink_look);

static void shrink_look(struct work_struct *work)
{
	long noted = atomic_long_read(&requested), wanted = noted, left = 0;
	struct link *link;

	mutex_lock(&xway_links_lock);
	list_for_each_entry(link, &xway_links, node) {
		long pages;

		mutex_lock(&link->pub.lock);
		pages = xway_reclaimable(link);
		if (pages && wanted > 0) {
			xway_reclaim_now(&link->pub);
			wanted -= pages;
		} else {
			left += pages;
		}
		mutex_unlock(&link->pub.lock);
	}
	mutex_unlock(&xway_links_lock);
	left += xway_client_reclaim(wanted);
	/* What is left before the requests are lowered: pairs with
	 * shrink_count(), which would otherwise report pages that were requested.
	 */
	WRITE_ONCE(reclaimable_pages, left);
	(void)atomic_long_sub_return_release(noted, &requested);
	WRITE_ONCE(last_look, jiffies);
}

static unsigned long shrink_count(struct shrinker *s, struct shrink_control *sc)
{
	/* Requests before what is left: pairs with shrink_look(). */
	long already = atomic_long_read_acquire(&requested);
	long pages = READ_ONCE(reclaimable_pages) - already;

	if (time_after(jiffies, READ_ONCE(last_look) + LOOK_MAX_AGE))
		queue_delayed_work(xway_core_wq, &look, 0);
	return pages > 0 ? pages : SHRINK_EMPTY;
}

/* Runs in any task that allocates memory, with any lock held: only notes. */
static unsigned long shrink_scan(struct shrinker *s, struct shrink_control *sc)
{
	long most = READ_ONCE(reclaimable_pages);

	if (atomic_long_read(&requested) >= most)
		return SHRINK_STOP;
	atomic_long_add(min_t(unsigned long, sc->nr_to_scan, most), &requested);
	queue_delayed_work(xway_core_wq, &look, COLLECT);
	return 0;
}

/* Return: 0 or -ENOMEM. */
int __init xway_reclaim_init(void)
{
	shrinker = xway_shrinker_start("xway", shrink_count, shrink_scan);
	return shrinker ? 0 : -ENOMEM;
}

/* No link is left, so the work finds nothing to do. */
void xway_reclaim_exit(void)
{
	xway_shrinker_stop(shrinker);
	cancel_delayed_work_sync(&look);
}
