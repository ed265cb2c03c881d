// SPDX-License-Identifier: GPL-2.0
#include "scenario.h"

#include <string.h>

#include "xwayd/log.h"

struct mem m;
struct xwayd x;

struct policy *policy(const char *text)
{
	char error[POLICY_ERROR];
	FILE *file = fmemopen((char *)text, strlen(text), "r");
	struct policy *p = policy_parse(file, "test.conf", error);

	fclose(file);
	if (!p)
		fprintf(stderr, "%s\n", error);
	CHECK(p);
	return p;
}

void start(const char *config)
{
	CHECK(!xwayd_start(&x, &m.store, policy(config)));
	mem_run(&m, &x, 500);
}

void restart(const char *config)
{
	xwayd_stop(&x);
	mem_disconnect(&m);
	start(config);
}

void say_hello(void)
{
	mem_guest(&m, 1, "xway/2", OFFER_1);
	mem_guest(&m, 2, "xway/1", OFFER_2);
	mem_run(&m, &x, 200);
	expect("2/xway/link/1", OFFER_1);
	expect("1/xway/link/2", OFFER_2);
}

void expect_at(const char *file, int line, const char *path, const char *value)
{
	const char *have = mem_get(&m, path);

	if (same_string(have, value))
		return;
	fprintf(stderr, "%s:%d: %s is '%s', not '%s'\n", file, line, path, have ? have : "(absent)",
		value ? value : "(absent)");
	exit(1);
}

int scenario_main(int argc, char **argv, const struct scenario *tests, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (argc < 2) {
			puts(tests[i].name);
		} else if (!strcmp(argv[1], tests[i].name)) {
			log_open(true);
			mem_init(&m);
			tests[i].run();
			xwayd_stop(&x);
			mem_free(&m);
			return 0;
		}
	}
	return argc < 2 ? 0 : 2;
}
