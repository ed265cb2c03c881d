// SPDX-License-Identifier: GPL-2.0
/*
 * The runner of the tests, which clients use as well, and the list of the core's tests.
 */
#include <linux/cpumask.h>
#include <linux/export.h>
#include <linux/printk.h>
#include <linux/string.h>

#include "core/addr.h"
#include "core/revoke.h"
#include "core/selftest.h"
#include "core/stats.h"
#include "ends.h"

static const char *module, *running;

/* EXPECT() has found that a condition is false. */
void xway_test_missed(const char *file, int line, const char *what)
{
	pr_err("%s: selftest %s: %s:%d: %s\n", module, running, kbasename(file),
	       line, what);
}
EXPORT_SYMBOL_GPL(xway_test_missed);

static bool nothing_left(const struct xway_tests *tests, u32 pages)
{
	int i;

	EXPECT(!xway_addr_any());
	EXPECT(!xway_unrevoked());
	EXPECT(xway_arena_pages_total() == pages);
	EXPECT(!xway_arena_pages_in_use());
	EXPECT(!atomic_read(&xway_fake.shared) && !atomic_read(&xway_fake.mapped));
	for (i = 0; i < 2; i++) {
		if (!end(i))
			continue;
		EXPECT(!atomic_read(&end(i)->pub.peer->charged));
		EXPECT(!end(i)->pub.n_chans);
		EXPECT(refcount_read(&end(i)->pub.ref) == 1);
	}
	return tests->nothing_left();
}

/* Make the two ends, run a test, and free everything, also if it failed halfway. */
static bool run(const struct xway_tests *tests, const struct xway_test *test)
{
	u32 pages = xway_arena_pages_total();
	unsigned int max = xway_pages_max, charged_max = xway_charged_max;
	bool ok;

	/* xway_link_pages_max() is then peer_pages_max, whatever memory there is. */
	xway_pages_max = 2 * XWAY_ARENA_PAGES_MAX;
	xway_charged_max = INT_MAX;
	ok = xway_fake_make() && (test->level < UP || xway_fake_up()) &&
	     tests->run(test);
	xway_pages_max = max;
	xway_charged_max = charged_max;
	xway_fake_down();
	tests->end();
	flush_workqueue(xway_core_wq);
	xway_revoke_flush();
	ok = nothing_left(tests, pages) && ok;
	xway_fake_destroy();
	return ok;
}

/**
 * xway_test_all() - run all tests of a module
 * @tests: the tests
 *
 * No other link is up, no client is registered, and the module has not registered
 * anything yet.
 *
 * Context: process, may sleep.
 * Return: 0, or -EINVAL if a test fails; the kernel's log says which test and where.
 */
int xway_test_all(const struct xway_tests *tests)
{
	const struct xway_test *const *subject, *test;
	int passed = 0, failed = 0, cpu;

	module = tests->module;
	for (subject = tests->subjects; *subject; subject++) {
		for (test = *subject; test->run; test++) {
			running = test->name;
			if (run(tests, test)) {
				passed++;
				continue;
			}
			pr_err("%s: selftest %s failed\n", module, running);
			failed++;
		}
	}
	for_each_possible_cpu(cpu)
		memset(per_cpu_ptr(&xway_core_counters[0], cpu), 0,
		       sizeof(xway_core_counters));
	if (failed)
		return -EINVAL;
	pr_info("%s: selftest: %d passed\n", module, passed);
	return 0;
}
EXPORT_SYMBOL_GPL(xway_test_all);

static const struct xway_test *const subjects[] = {
	addr_tests,
	value_tests,
	arena_tests,
	import_tests,
	link_tests,
	chan_tests,
	ctl_tests,
	doorbell_tests,
	heartbeat_tests,
	answer_tests,
	reclaim_tests,
	peer_tests,
	client_tests,
	NULL
};

static const struct xway_tests core_tests = {
	.module = KBUILD_MODNAME,
	.subjects = subjects,
	.run = fake_client_run,
	.end = fake_client_end,
	.nothing_left = fake_client_nothing_left,
};

/* Runs before there is any link or client. Return: as xway_test_all(). */
int xway_core_selftest(void)
{
	return xway_test_all(&core_tests);
}
