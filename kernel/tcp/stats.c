// SPDX-License-Identifier: GPL-2.0
#include <linux/cpumask.h>

#include "stats.h"

const char *const xway_counter_names[XWAY_COUNTERS_MAX] = {
#define X(id, name)		\
	[XWAY_N_##id] = name,
	XWAY_COUNTERS(X)
#undef X
};

const char *const xway_reason_names[XWAY_REASONS_MAX] = {
#define X(id, name)		\
	[XWAY_R_##id] = name,
	XWAY_REASONS(X)
#undef X
};

atomic64_t xway_reasons[XWAY_REASONS_MAX];
DEFINE_PER_CPU(u64, xway_counters[XWAY_COUNTERS_MAX]);

/**
 * xway_counted() - the sum of a counter over all CPUs
 * @nr: XWAY_N_*
 *
 * Context: any.
 * Return: the sum.
 */
u64 xway_counted(enum xway_counter nr)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(&xway_counters[nr], cpu));
	return sum;
}
