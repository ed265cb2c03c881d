// SPDX-License-Identifier: GPL-2.0
/*
 * Memory pressure: the kernel asks for pages back.
 *
 * None can be freed at once, because the peer has them mapped and must answer
 * first. So reclaim is told how many could go when a work item last looked, and
 * what it asks for is only noted. The work then has links trim without waiting
 * (trim.c) and, for what is still wanted, connections that have long been idle
 * give up their rings (idle.c). What is in use is neither counted nor taken.
 */
#include <linux/jiffies.h>
#include <linux/workqueue.h>

#define _XWAY_SHRINKER_COMPAT
#include "compat.h"
#include "idle.h"
#include "link.h"
#include "shrink.h"
#include "trim.h"

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
	struct xway_link *link;

	mutex_lock(&xway_links_lock);
	list_for_each_entry(link, &xway_links, node) {
		long pages;

		mutex_lock(&link->lock);
		pages = xway_trim_could(link);
		if (pages && wanted > 0) {
			xway_trim_press(link);
			wanted -= pages;
		} else {
			left += pages;
		}
		mutex_unlock(&link->lock);
	}
	mutex_unlock(&xway_links_lock);
	left += xway_idle_shrink(wanted);
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

int __init xway_shrink_init(void)
{
	shrinker = xway_shrinker_start("xway", shrink_count, shrink_scan);
	return shrinker ? 0 : -ENOMEM;
}

/* Links may still be there. */
void xway_shrink_exit(void)
{
	xway_shrinker_stop(shrinker);
	cancel_delayed_work_sync(&look);
}
