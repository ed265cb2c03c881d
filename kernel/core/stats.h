/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counters of the core.
 */
#ifndef _XWAY_CORE_STATS_H
#define _XWAY_CORE_STATS_H

#include <linux/percpu.h>

#define CORE_COUNTERS(x)						\
	x(EVENTS_SENT, "events_sent")	/* hypercalls, with Xen */	\
	x(EVENTS_RECEIVED, "events_received")				\
	x(DOORBELL_POSTS, "doorbell_posts")				\
	x(DOORBELL_POSTS_SAVED, "doorbell_posts_saved") /* not needed */ \
	x(LINKS_UP, "links_up")		/* sessions begun */		\
	x(LINKS_DOWN, "links_down")	/* sessions ended */		\
	x(VIOLATIONS, "violations")	/* of a rule, by a peer */

enum xway_core_counter {
#define X(id, name) CORE_N_##id,
	CORE_COUNTERS(X)
#undef X
	CORE_COUNTERS_MAX
};

extern const char *const xway_core_counter_names[CORE_COUNTERS_MAX];

/* For each CPU, because some count every message */
DECLARE_PER_CPU(u64, xway_core_counters[CORE_COUNTERS_MAX]);

#define xway_core_count(id)	this_cpu_inc(xway_core_counters[CORE_N_##id])

u64 xway_core_counted(enum xway_core_counter nr);

#endif /* _XWAY_CORE_STATS_H */
