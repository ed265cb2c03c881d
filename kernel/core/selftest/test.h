/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How a module tests itself as it is loaded, which fails if a test does. Built
 * with XWAY_SELFTEST=1.
 *
 * The core runs its own tests and those of its clients. Each test gets two links
 * that are each other's peer, as far up as it asks for, see fake.h. What a hostile
 * peer would write is written into the other end's pages.
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
 * @run: the test. Return: false if it fails, which EXPECT() has logged
 * @level: how far up it wants the two ends: MADE, UP, or a level of its module
 */
struct xway_test {
	const char *name;
	bool (*run)(void);
	int level;
};

/**
 * struct xway_tests - all tests of a module
 * @module: its name
 * @subjects: arrays of tests, each with an empty one at its end; then NULL
 * @run: bring the ends from UP further up, run the test, and undo what cannot wait
 * @end: take away what @run has made, however far it got; the links are down
 * @left: is nothing left of it?
 */
struct xway_tests {
	const char *module;
	const struct xway_test *const *subjects;
	bool (*run)(const struct xway_test *test);
	void (*end)(void);
	bool (*left)(void);
};

int xway_test_all(const struct xway_tests *tests);

#endif /* _XWAY_TEST_H */
