/* SPDX-License-Identifier: GPL-2.0 */
/* What scenarios of xwayd share: a store, an xwayd, and what is expected to be told. */
#ifndef SCENARIO_H
#define SCENARIO_H

#include "memstore.h"

#define UUID_0 "00000000-0000-0000-0000-000000000000"
#define UUID_A "aaaaaaaa-0000-4000-8000-000000000001"
#define UUID_B "bbbbbbbb-0000-4000-8000-000000000002"
#define UUID_C "cccccccc-0000-4000-8000-000000000003"
#define UUID_D "dddddddd-0000-4000-8000-000000000004"

/* Domain 1 is the lower one of the two. */
#define OFFER_1 "1 0123456789abcdef 17 9"
#define OFFER_1B "1 fedcba9876543210 18 9"
#define OFFER_2 "1 00000000000000aa 2147483647 0"

extern struct mem m;
extern struct xwayd x;

struct policy *policy(const char *text);
void start(const char *config);
void restart(const char *config);
/* Domains 1 and 2, which may talk, make offers, and each sees the other's. */
void say_hello(void);

void expect_at(const char *file, int line, const char *path, const char *value);
#define expect(path, value) expect_at(__FILE__, __LINE__, "/local/domain/" path, value)

struct scenario {
	const char *name;
	void (*run)(void);
};

#define TEST(name)                 \
	{                          \
#name, test_##name \
	}

/* Runs the one that is named, or lists all. */
int scenario_main(int argc, char **argv, const struct scenario *tests, size_t n);

#endif
