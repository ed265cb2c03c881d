// SPDX-License-Identifier: GPL-2.0
/* The list of the tests of MMNet. */
#include "net/selftest.h"
#include "ends.h"

static const struct xway_test *const subjects[] = {
	frames_tests,
	lies_tests,
	queues_tests,
	NULL
};

static const struct xway_tests tests = {
	.module = KBUILD_MODNAME,
	.subjects = subjects,
	.run = ends_run,
	.end = ends_end,
	.nothing_left = ends_nothing_left,
};

/* Runs before the module registers as a client. Return: as xway_test_all(). */
int mm_selftest(void)
{
	return xway_test_all(&tests);
}
