// SPDX-License-Identifier: GPL-2.0
#include <linux/cpumask.h>

#include "stats.h"

const char *const xway_core_counter_names[CORE_COUNTERS_MAX] = {
#define X(id, name)		\
	[CORE_N_##id] = name,
	CORE_COUNTERS(X)
#undef X
};

DEFINE_PER_CPU(u64, xway_core_counters[CORE_COUNTERS_MAX]);

/**
 * xway_core_counted() - value of a counter of the core
 * @nr: the counter
 *
 * Context: any.
 * Return: the sum over all CPUs, since the module was loaded.
 */
u64 xway_core_counted(enum xway_core_counter nr)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(&xway_core_counters[nr], cpu));
	return sum;
}
