// SPDX-License-Identifier: GPL-2.0
/*
 * The list of the tests of sockets.
 */
#include <linux/cpumask.h>
#include <linux/string.h>

#include "tcp/selftest.h"
#include "ends.h"

static const struct xway_test *const subjects[] = {
	handshake_tests,
	rx_tests,
	tx_tests,
	ringsize_tests,
	waiting_tests,
	cut_tests,
	reader_tests,
	NULL
};

static const struct xway_tests tests = {
	.module = KBUILD_MODNAME,
	.subjects = subjects,
	.run = ends_run,
	.end = ends_end,
	.nothing_left = ends_nothing_left,
};

/*
 * Runs before the module registers as a client. Each test registers it for itself.
 * Return: as xway_test_all().
 */
int xway_selftest(void)
{
	int err = xway_test_all(&tests), i;

	/* A connection that is freed holds the module for a grace period. */
	rcu_barrier();
	for_each_possible_cpu(i)
		memset(per_cpu_ptr(&xway_counters[0], i), 0, sizeof(xway_counters));
	for (i = 0; i < XWAY_REASONS_MAX; i++)
		atomic64_set(&xway_reasons[i], 0);
	return err;
}
