/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests that a module built with XWAY_SELFTEST=1 runs when it is loaded. If one of
 * them fails, the module is not loaded.
 *
 * The core runs its own tests and those of its clients. Each test gets two links
 * that are each other's peer, see fake.h. The test writes into the pages of one end
 * what a hostile peer would write there.
 */
#ifndef _XWAY_TEST_H
#define _XWAY_TEST_H

#include <linux/types.h>

void xway_test_missed(const char *file, int line, const char *what);

#define EXPECT(cond)							\
	do {								\
		if (!(cond)) {						\
			xway_test_missed(__FILE__, __LINE__, #cond);	\
			return false;					\
		}							\
	} while (0)

/**
 * struct xway_test - one test
 * @name: for the kernel's log
 * @run: the test. Return: false if it fails; EXPECT() has logged why
 * @level: what is set up before: MADE, UP, or a level of its module
 */
struct xway_test {
	const char *name;
	bool (*run)(void);
	int level;
};

/**
 * struct xway_tests - all tests of a module
 * @module: its name
 * @subjects: arrays of tests, each ended by an empty test; NULL ends the list
 * @run: set up the levels above UP and run the test
 * @end: free what @run has made, also if it failed halfway; the links are down
 * @nothing_left: check that @end has freed everything
 */
struct xway_tests {
	const char *module;
	const struct xway_test *const *subjects;
	bool (*run)(const struct xway_test *test);
	void (*end)(void);
	bool (*nothing_left)(void);
};

int xway_test_all(const struct xway_tests *tests);

#endif /* _XWAY_TEST_H */
