// SPDX-License-Identifier: GPL-2.0
/*
 * Streams and request/response over TCP and UNIX sockets.
 *
 *   xbench serve PORT             a server of tests over TCP, for any number of clients
 *   xbench tcp HOST PORT TEST     a test with a server elsewhere
 *   xbench loopback TEST          over TCP on 127.0.0.1, between two processes here
 *   xbench unix TEST              over a UNIX stream socket, between two processes here
 *   xbench echo PORT              a server for the next, one connection after the other
 *   xbench connect HOST PORT N    connect, send a byte, receive it, close: N times
 *   xbench many HOST PORT N MS WARM_MS
 *                                 N streams at once to a server of tests, all from one process
 *   xbench time COMMAND...        run a command; how long it took, on the last line of the output
 *
 * TEST is: stream SIZE MS WARM_MS | rr SIZE MS WARM_MS | check SIZE BYTES.
 * Each test has a connection of its own and prints one line of JSON.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "measure.h"

struct socket_channel {
	struct channel c;
	int fd;
};

static size_t socket_write(struct channel *c, const void *data, size_t size)
{
	ssize_t n;

	do
		n = write(((struct socket_channel *)c)->fd, data, size);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		die("write");
	return n;
}

static size_t socket_read(struct channel *c, void *data, size_t size)
{
	ssize_t n;

	do
		n = read(((struct socket_channel *)c)->fd, data, size);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		die("read");
	return n;
}

static void socket_finish(struct channel *c)
{
	shutdown(((struct socket_channel *)c)->fd, SHUT_WR);
}

static struct socket_channel channel_of(int fd)
{
	return (struct socket_channel){ { socket_write, socket_read, socket_finish }, fd };
}

static void no_delay(int fd)
{
	int one = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		die("TCP_NODELAY");
}

static int listen_at(struct sockaddr *address, socklen_t length)
{
	int fd = socket(address->sa_family, SOCK_STREAM, 0), one = 1;

	if (fd < 0)
		die("socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, address, length) || listen(fd, 1024))
		die("bind");
	return fd;
}

static int accept_one(int listener)
{
	int fd;

	do
		fd = accept(listener, NULL, NULL);
	while (fd < 0 && errno == EINTR);
	if (fd < 0)
		die("accept");
	return fd;
}

static int serve(uint16_t port)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	int listener = listen_at((struct sockaddr *)&any, sizeof(any));

	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		int fd = accept_one(listener);

		if (!fork()) {
			struct socket_channel s = channel_of(fd);

			close(listener);
			no_delay(fd);
			serve_test(&s.c);
			return 0;
		}
		close(fd);
	}
}

static int connect_to(const char *host, const char *port)
{
	struct addrinfo want = { .ai_socktype = SOCK_STREAM, .ai_family = AF_INET }, *found;
	int status = getaddrinfo(host, port, &want, &found), fd;

	if (status) {
		fprintf(stderr, "%s port %s: %s\n", host, port, gai_strerror(status));
		exit(1);
	}
	fd = socket(found->ai_family, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen))
		die("connect");
	no_delay(fd);
	freeaddrinfo(found);
	return fd;
}

/* Both ends in this domain, in two processes. */
static int local_test(const char *over, const struct test *t, int tcp)
{
	struct sockaddr_in loopback = { .sin_family = AF_INET,
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_un path = { .sun_family = AF_UNIX };
	struct sockaddr *address = tcp ? (void *)&loopback : (void *)&path;
	socklen_t length = tcp ? sizeof(loopback) : sizeof(path.sun_family); /* bind chooses */
	struct socket_channel s;
	int listener = listen_at(address, length), fd;
	pid_t child;

	length = tcp ? sizeof(loopback) : sizeof(path);
	if (getsockname(listener, address, &length))
		die("getsockname");
	child = fork();
	if (child < 0)
		die("fork");
	if (!child) {
		fd = accept_one(listener);
		if (tcp)
			no_delay(fd);
		s = channel_of(fd);
		serve_test(&s.c);
		_exit(0);
	}
	fd = socket(address->sa_family, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, address, length))
		die("connect");
	if (tcp)
		no_delay(fd);
	s = channel_of(fd);
	return !run_test(&s.c, over, t);
}

/* Answer a byte on each connection, one after the other. */
static void echo_once_each(uint16_t port)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	int listener = listen_at((struct sockaddr *)&any, sizeof(any));

	for (;;) {
		int fd = accept_one(listener);
		char byte;

		while (read(fd, &byte, 1) == 1)
			if (write(fd, &byte, 1) != 1)
				break;
		close(fd);
	}
}

/* The medians of how long connect() takes, and a connection's whole life. */
static int connects(const char *host, const char *port, int count)
{
	double *connecting = calloc(count, sizeof(double)), *whole = calloc(count, sizeof(double));
	struct addrinfo want = { .ai_socktype = SOCK_STREAM, .ai_family = AF_INET }, *found;
	char byte = 'x';

	if (getaddrinfo(host, port, &want, &found))
		die(host);
	for (int i = 0; i < count; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		uint64_t start = now_ns();

		if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen))
			die("connect");
		connecting[i] = (now_ns() - start) / 1000.0;
		if (write(fd, &byte, 1) != 1 || read(fd, &byte, 1) != 1)
			die("echo");
		close(fd);
		whole[i] = (now_ns() - start) / 1000.0;
	}
	qsort(connecting, count, sizeof(double), by_value);
	qsort(whole, count, sizeof(double), by_value);
	printf("{\"mode\": \"connect\", \"connect_us\": %.3f, \"whole_us\": %.3f}\n",
	       connecting[count / 2], whole[count / 2]);
	return 0;
}

/* Send by many connections at once; each server child counts what it got in the measured time. */
static int many(const char *host, const char *port, int count, int ms, int warm_ms)
{
	struct test t = {
		.magic = TEST_MAGIC, .mode = STREAM, .size = 16384, .ms = ms, .warm_ms = warm_ms
	};
	double low = 1e18, high = 0, sum = 0;
	int *fds = calloc(count, sizeof(int));
	struct epoll_event event, events[64];
	int all = epoll_create1(0);

	for (int i = 0; i < count; i++) {
		struct socket_channel s = channel_of(connect_to(host, port));

		fds[i] = s.fd;
		event = (struct epoll_event){ .events = EPOLLOUT, .data.fd = s.fd };
		if (epoll_ctl(all, EPOLL_CTL_ADD, s.fd, &event))
			die("epoll_ctl");
	}
	/* Connecting may take longer than measuring: only now do their times begin. */
	for (int i = 0; i < count; i++) {
		struct socket_channel s = channel_of(fds[i]);

		write_all(&s.c, &t, sizeof(t));
		fcntl(s.fd, F_SETFL, O_NONBLOCK);
	}
	/* Each server's time begins when this reaches it, on a busy machine late. */
	start_phases(2 * warm_ms + ms, 0);
	while (!phase) {
		int n = epoll_wait(all, events, 64, 100);

		for (int i = 0; i < n; i++)
			if (write(events[i].data.fd, buffer, t.size) < 0 && errno != EAGAIN)
				die("write");
	}
	stop_phases();
	for (int i = 0; i < count; i++) {
		struct socket_channel s = channel_of(fds[i]);
		struct answer a;
		double mbit;

		fcntl(fds[i], F_SETFL, 0);
		shutdown(fds[i], SHUT_WR);
		read_all(&s.c, &a, sizeof(a));
		mbit = a.ns ? a.counted * 8000.0 / a.ns : 0;
		sum += mbit;
		low = mbit < low ? mbit : low;
		high = mbit > high ? mbit : high;
	}
	printf("{\"mode\": \"many\", \"count\": %d, \"mbit\": %.4f, \"low\": %.4f, \"high\": %.4f}\n",
	       count, sum, low, high);
	return 0;
}

static int timed(char **argv)
{
	uint64_t start = now_ns(), took;
	struct rusage use;
	int status;
	pid_t child = fork();

	if (child < 0)
		die("fork");
	if (!child) {
		execvp(argv[0], argv);
		die(argv[0]);
	}
	if (wait4(child, &status, 0, &use) != child)
		die("wait");
	took = now_ns() - start;
	printf("{\"seconds\": %.6f, \"user\": %.6f, \"system\": %.6f}\n", took / 1e9,
	       use.ru_utime.tv_sec + use.ru_utime.tv_usec / 1e6,
	       use.ru_stime.tv_sec + use.ru_stime.tv_usec / 1e6);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	struct socket_channel s;
	struct test t;

	signal(SIGPIPE, SIG_IGN);
	if (!strcmp(what, "serve") && argc == 3)
		return serve(number(argv[2], 1, 65535, "PORT"));
	if (!strcmp(what, "echo") && argc == 3)
		echo_once_each(number(argv[2], 1, 65535, "PORT"));
	if (!strcmp(what, "connect") && argc == 5)
		return connects(argv[2], argv[3], number(argv[4], 1, 1000000, "N"));
	if (!strcmp(what, "many") && argc == 7)
		return many(argv[2], argv[3], number(argv[4], 1, 10000, "N"),
			    number(argv[5], 1, 100000, "MS"),
			    number(argv[6], 0, 1000000, "WARM_MS"));
	if (!strcmp(what, "time") && argc > 2)
		return timed(argv + 2);
	if (!strcmp(what, "tcp") && argc > 4) {
		t = parse_test(argc - 4, argv + 4);
		s = channel_of(connect_to(argv[2], argv[3]));
		return !run_test(&s.c, what, &t);
	}
	if (!strcmp(what, "loopback") || !strcmp(what, "unix")) {
		t = parse_test(argc - 2, argv + 2);
		return local_test(what, &t, *what == 'l');
	}
	fputs("xbench serve PORT | tcp HOST PORT TEST | loopback TEST | unix TEST | time COMMAND... |\n"
	      "       echo PORT | connect HOST PORT N | many HOST PORT N MS WARM_MS\n"
	      "TEST: stream SIZE MS WARM_MS | rr SIZE MS WARM_MS | check SIZE BYTES\n",
	      stderr);
	return 2;
}
