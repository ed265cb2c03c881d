// SPDX-License-Identifier: GPL-2.0
/*
 * Streams and request/response over libvchan, Xen's own channel for programs
 * that are written to it.
 *
 *   vchan serve DOMAIN PATH [RING]     a server for one client in DOMAIN (an id), at PATH
 *                                      of the own part of XenStore; rings of RING bytes
 *   vchan test DOMAIN PATH TEST...     tests with a server in DOMAIN, one after another
 *
 * TEST as of xbench. Each test prints one line of JSON.
 */
#define _GNU_SOURCE
#include <libxenvchan.h>

#include "measure.h"

#define RING_BYTES 1048576
#define CONNECT_TRIES 200
#define TEST_WORDS(mode) (strcmp(mode, "check") ? 4 : 3)

struct vchan_channel {
	struct channel c;
	struct libxenvchan *v;
};

static size_t vchan_write(struct channel *c, const void *data, size_t size)
{
	int n = libxenvchan_write(((struct vchan_channel *)c)->v, data, size);

	if (n <= 0)
		die("libxenvchan_write");
	return n;
}

static size_t vchan_read(struct channel *c, void *data, size_t size)
{
	int n = libxenvchan_read(((struct vchan_channel *)c)->v, data, size);

	return n > 0 ? n : 0; /* less than 0: the other has gone */
}

static void serve(int domain, const char *path, size_t ring)
{
	struct vchan_channel s = { { vchan_write, vchan_read, NULL }, NULL };

	s.v = libxenvchan_server_init(NULL, domain, path, ring, ring);
	if (!s.v)
		die("libxenvchan_server_init");
	s.v->blocking = 1;
	puts("ready");
	fflush(stdout);
	while (serve_test(&s.c))
		;
	libxenvchan_close(s.v);
}

static int test(int domain, const char *path, int argc, char **argv)
{
	struct vchan_channel s = { { vchan_write, vchan_read, NULL }, NULL };
	char full[256];
	int good = 1;

	snprintf(full, sizeof(full), "/local/domain/%d/%s", domain, path);
	for (int tries = 0; !s.v && tries < CONNECT_TRIES; tries++) {
		s.v = libxenvchan_client_init(NULL, domain, full);
		if (!s.v)
			usleep(20000);
	}
	if (!s.v)
		die("libxenvchan_client_init");
	s.v->blocking = 1;
	while (argc && good) {
		int words = TEST_WORDS(argv[0]);
		struct test t = parse_test(argc < words ? argc : words, argv);

		good = run_test(&s.c, "vchan", &t);
		argc -= words;
		argv += words;
	}
	libxenvchan_close(s.v);
	return !good;
}

int main(int argc, char **argv)
{
	int domain;

	if (argc < 4 || (strcmp(argv[1], "serve") && strcmp(argv[1], "test"))) {
		fputs("vchan serve DOMAIN PATH [RING] | vchan test DOMAIN PATH TEST...\n", stderr);
		return 2;
	}
	domain = number(argv[2], 0, 32751, "DOMAIN");
	if (*argv[1] == 't')
		return test(domain, argv[3], argc - 4, argv + 4);
	serve(domain, argv[3], argc > 4 ? number(argv[4], 1, 1 << 20, "RING") : RING_BYTES);
	return 0;
}
