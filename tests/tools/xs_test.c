// SPDX-License-Identifier: GPL-2.0
/* The client of XenStore against a daemon that says what a scenario has it say. */
#include "xwayd/xs.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define EVENT 15
#define ERROR 16

struct header {
	uint32_t type, id, transaction, len;
};

static struct xs *xs;
static pid_t daemon_pid;

/* In the daemon: the connection, and the request that was taken last. */
static int conn;
static struct header asked;
static char body[4097];

static void take(void)
{
	CHECK(read(conn, &asked, sizeof(asked)) == sizeof(asked));
	CHECK(asked.len <= 4096);
	CHECK(!asked.len || recv(conn, body, asked.len, MSG_WAITALL) == (ssize_t)asked.len);
	body[asked.len] = '\0';
}

static void say(uint32_t type, uint32_t id, const void *bytes, uint32_t len)
{
	struct header header = { type, id, 0, len };

	CHECK(write(conn, &header, sizeof(header)) == sizeof(header));
	/* Without a body the client may have closed already. */
	CHECK(!len || write(conn, bytes, len) == (ssize_t)len);
}

static void reply(const void *bytes, uint32_t len)
{
	say(asked.type, asked.id, bytes, len);
}

#define SAY_EVENT(path, token) say(EVENT, 0, path "\0" token, sizeof(path "\0" token))

/* Starts the daemon, and connects to it. */
static void with(void (*daemon_main)(void))
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/xs_test.%d",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", getpid());
	CHECK(!bind(fd, (struct sockaddr *)&addr, sizeof(addr)) && !listen(fd, 1));
	daemon_pid = fork();
	if (!daemon_pid) {
		conn = accept(fd, NULL, NULL);
		daemon_main();
		_exit(0);
	}
	close(fd);
	setenv("XENSTORED_PATH", addr.sun_path, 1);
	xs = xs_open();
	CHECK(xs);
	CHECK(!unlink(addr.sun_path));
}

static void end(void)
{
	int status;

	xs_close(xs);
	CHECK(waitpid(daemon_pid, &status, 0) == daemon_pid);
	CHECK(!status);
}

static char *read_node(const char *path, size_t *len)
{
	return xs_ask(xs, XS_READ, 0, path, NULL, 0, len);
}

static void expect_event(const char *path, const char *token)
{
	char *p, *t;
	void *block;

	for (int i = 0; i < 1000 && !xs_has_event(xs); i++) {
		struct pollfd pollfd = { .fd = xs_fd(xs), .events = POLLIN };

		if (poll(&pollfd, 1, 10))
			break;
	}
	CHECK(xs_event(xs, &p, &t, &block));
	CHECK(!strcmp(p, path) && !strcmp(t, token));
	free(block);
}

static void plain_daemon(void)
{
	take();
	CHECK(asked.type == XS_READ && asked.len == 3 && !strcmp(body, "/a"));
	reply("x\0y", 3);
	take();
	CHECK(asked.type == XS_WRITE && asked.transaction == 7 && asked.len == 5);
	CHECK(!memcmp(body, "/a\0vv", 5));
	reply("OK", 3);
	take();
	say(ERROR, asked.id, "ENOENT", 7);
	take();
	say(ERROR, asked.id, "EWHATEVER", 10);
	take();
	reply("", 0);
}

static void test_plain(void)
{
	size_t len;
	char *value;

	with(plain_daemon);
	value = read_node("/a", &len);
	CHECK(value && len == 3 && !memcmp(value, "x\0y", 4));
	free(value);
	value = xs_ask(xs, XS_WRITE, 7, "/a", "vv", 2, &len);
	CHECK(value);
	free(value);
	CHECK(!read_node("/b", &len) && errno == ENOENT);
	CHECK(!read_node("/b", &len) && errno == EIO);
	value = read_node("/c", &len);
	CHECK(value && !len && !*value);
	free(value);
	end();
}

static void events_daemon(void)
{
	take();
	SAY_EVENT("/one", "t1");
	SAY_EVENT("/two", "t2");
	SAY_EVENT("/one/more", "t1");
	reply("x", 1);
	take();
	SAY_EVENT("/one", "t1");
	CHECK(asked.type == XS_UNWATCH && asked.len == 8);
	CHECK(!memcmp(body, "/one\0t1", 8));
	reply("OK", 3);
	take();
	CHECK(asked.type == XS_WATCH);
	reply("OK", 3);
	SAY_EVENT("/late", "t3");
}

/* What comes before an answer is kept, in its order; what was unwatched is not. */
static void test_events(void)
{
	char *p, *t, *value;
	void *block;
	size_t len;

	with(events_daemon);
	CHECK(!xs_has_event(xs) && !xs_event(xs, &p, &t, &block));
	value = read_node("/a", &len);
	CHECK(value && !strcmp(value, "x"));
	free(value);
	CHECK(xs_has_event(xs));
	expect_event("/one", "t1");
	CHECK(!xs_unwatch(xs, "/one", "t1"));
	expect_event("/two", "t2");
	CHECK(!xs_has_event(xs));
	CHECK(!xs_watch(xs, "/late", "t3"));
	expect_event("/late", "t3");
	end();
}

/* More names than one message holds; meanwhile the directory changes, once. */
static void parts_daemon(void)
{
	static const char *const parts[] = { "7\0a\0bb", "8\0ccc", "8\0d\0ee", "8\0f\0" };
	static const uint32_t lens[] = { 7, 6, 7, 5 };
	static const char *const offsets[] = { "0", "5", "0", "5" };

	take();
	CHECK(asked.type == XS_DIRECTORY);
	say(ERROR, asked.id, "E2BIG", 6);
	for (int i = 0; i < 4; i++) {
		take();
		CHECK(asked.type == XS_DIRECTORY_PART && !strcmp(body, "/d"));
		CHECK(!strcmp(body + 3, offsets[i]));
		reply(parts[i], lens[i]);
	}
	take();
	say(ERROR, asked.id, "E2BIG", 6);
	take();
	reply("9\0", 3); /* nothing at all */
	take();
	say(ERROR, asked.id, "E2BIG", 6);
	take();
	reply("no NUL", 6);
	take();
	reply("x\0yy", 5);
	take();
	reply("", 0);
}

static void test_parts(void)
{
	unsigned int n;
	char **names;

	with(parts_daemon);
	names = xs_list(xs, "/d", &n);
	CHECK(names && n == 3);
	CHECK(!strcmp(names[0], "d") && !strcmp(names[1], "ee") && !strcmp(names[2], "f"));
	free(names);
	names = xs_list(xs, "/d", &n);
	CHECK(names && !n);
	free(names);
	CHECK(!xs_list(xs, "/d", &n) && errno == EPROTO);
	names = xs_list(xs, "/d", &n);
	CHECK(names && n == 2 && !strcmp(names[0], "x") && !strcmp(names[1], "yy"));
	free(names);
	names = xs_list(xs, "/d", &n);
	CHECK(names && !n);
	free(names);
	end();
}

static void long_daemon(void)
{
	take();
	say(asked.type, asked.id, "x", 1);
	take();
	struct header header = { asked.type, asked.id, 0, (1 << 20) + 1 };

	CHECK(write(conn, &header, sizeof(header)) == sizeof(header));
	pause();
}

static void strange_id_daemon(void)
{
	take();
	say(asked.type, asked.id + 1, "x", 1);
	pause();
}

static void strange_type_daemon(void)
{
	take();
	say(XS_WRITE, asked.id, "x", 1);
	pause();
}

static void short_daemon(void)
{
	take();
	CHECK(write(conn, "\2\0\0\0", 4) == 4);
}

static void gone_daemon(void)
{
}

static void silent_daemon(void)
{
	take();
	pause();
}

/* Is never silent, and never answers. */
static void drip_daemon(void)
{
	take();
	for (;;) {
		SAY_EVENT("/one", "t1");
		usleep(10000);
	}
}

/* After nonsense nothing can be believed any more: every call is an error. @err 0: any. */
static void breaks(void (*daemon_main)(void), int err, unsigned int good)
{
	char *p, *t, *value;
	void *block;
	size_t len;

	with(daemon_main);
	for (; good; good--) {
		value = read_node("/a", &len);
		CHECK(value);
		free(value);
	}
	CHECK(!xs_broken(xs));
	CHECK(!read_node("/a", &len) && (errno == err || (!err && errno)));
	CHECK(xs_broken(xs) && (!err || xs_broken(xs) == err));
	CHECK(!read_node("/a", &len) && errno == EPIPE);
	while (xs_event(xs, &p, &t, &block))
		free(block);
	kill(daemon_pid, SIGKILL);
	xs_close(xs);
}

static void test_breaks(void)
{
	breaks(long_daemon, EPROTO, 1);
	breaks(strange_id_daemon, EPROTO, 0);
	breaks(strange_type_daemon, EPROTO, 0);
	breaks(short_daemon, 0, 0);
	breaks(gone_daemon, 0, 0);
}

/* A daemon that stands still must not have us stand still. The limit is short here. */
static void test_slow(void)
{
	alarm(30);
	breaks(silent_daemon, ETIMEDOUT, 0);
	breaks(drip_daemon, ETIMEDOUT, 0);
}

static void test_too_long(void)
{
	static char path[5000];
	size_t len;

	memset(path, 'a', sizeof(path) - 1);
	with(gone_daemon);
	CHECK(!read_node(path, &len) && errno == E2BIG);
	end();
	setenv("XENSTORED_PATH", path, 1);
	CHECK(!xs_open() && errno == ENAMETOOLONG);
	setenv("XENSTORED_PATH", "/nowhere", 1);
	CHECK(!xs_open() && errno == ENOENT);
}

static void random_daemon(void)
{
	bool more = true;

	srand(getpid());
	while (more) {
		take();
		for (int n = 1 + rand() % 4; n; n--) {
			char junk[64];
			size_t len = rand() % sizeof(junk);

			for (size_t i = 0; i < len; i++)
				junk[i] = rand() % 3 ? rand() % 20 : 0;
			if (!(rand() % 20)) {
				more = false;
				CHECK(write(conn, junk, len) == (ssize_t)len);
				break;
			}
			say(n > 1 ? EVENT : asked.type, asked.id, junk, len);
		}
	}
}

/* No answer makes it read or write where it may not. */
static void test_random(void)
{
	for (int i = 0; i < 200; i++) {
		char *p, *t;
		unsigned int n;
		void *block;

		with(random_daemon);
		for (int k = 0; k < 20; k++) {
			free(xs_list(xs, "/d", &n));
			while (xs_event(xs, &p, &t, &block)) {
				CHECK(strlen(p) + strlen(t) < 64);
				free(block);
			}
		}
		kill(daemon_pid, SIGKILL);
		xs_close(xs);
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
#define TEST(name)                 \
	{                          \
#name, test_##name \
	}
	TEST(plain), TEST(events),   TEST(parts),  TEST(breaks),
	TEST(slow),  TEST(too_long), TEST(random),
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (argc < 2) {
			puts(tests[i].name);
		} else if (!strcmp(argv[1], tests[i].name)) {
			tests[i].run();
			return 0;
		}
	}
	return argc < 2 ? 0 : 2;
}
