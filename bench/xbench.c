// SPDX-License-Identifier: GPL-2.0
/*
 * Streams and request/response over TCP and UNIX sockets.
 *
 *   xbench serve PORT             a server of tests over TCP, for any number of clients
 *   xbench tcp HOST PORT TEST     a test with a server elsewhere
 *   xbench loopback TEST          over TCP on 127.0.0.1, between two processes here
 *   xbench unix TEST              over a UNIX stream socket, between two processes here
 *   xbench memcpy TEST            a stream that is only copied, by one process from its memory to its memory
 *   xbench echo PORT              a server for the next, one connection after the other
 *   xbench connect HOST PORT N    connect, send a byte, receive it, close: N times; what each call took
 *   xbench sink PORT              a server for the next: one process that receives all streams
 *   xbench many HOST PORT N MS WARM_MS
 *                                 N streams at once, all from one process
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
#include <poll.h>
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

/* Copy once what a channel between two domains copies at least once. */
static int copied(const struct test *t)
{
	static unsigned char to[MESSAGE_MAX];
	uint64_t start = 0, bytes = 0, sent = 0, took;
	size_t at = 0;

	memset(buffer, 0x55, sizeof(buffer));
	start_phases(t->warm_ms, t->ms);
	while (phase < 2) {
		if (!start && phase)
			start = now_ns(), bytes = 0;
		memcpy(to + at, buffer, t->size);
		__asm__ volatile("" ::: "memory");
		bytes += t->size;
		sent += t->size;
		at += t->size;
		if (at + t->size > MESSAGE_MAX / 4) /* as much as a ring holds */
			at = 0;
	}
	took = now_ns() - start;
	stop_phases();
	printf("{\"over\": \"memcpy\", \"mode\": \"stream\", \"size\": %u, \"mbit\": %.4f, "
	       "\"sent\": %llu}\n",
	       t->size, bytes * 8000.0 / took, (unsigned long long)sent);
	return 0;
}

/* The calls that make and end a connection, as the paper's Figure 16 has them. */
enum { SOCKET, BIND, LISTEN, CONNECT, ACCEPT, CLOSE, WHOLE, CALLS };

static const char *const call_names[] = { "socket", "bind",  "listen", "connect",
					  "accept", "close", "whole" };

static double *times[CALLS];

static double median_of(double *values, int count)
{
	qsort(values, count, sizeof(double), by_value);
	return values[count / 2];
}

static double since(uint64_t start)
{
	return (now_ns() - start) / 1000.0;
}

#define ECHO_MAX 1000000
#define ECHO_REPORT 'r' /* as the first byte: answer with the median of accept() */

/* Answer a byte on each connection, one after the other. */
static void echo_once_each(uint16_t port)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	int listener = listen_at((struct sockaddr *)&any, sizeof(any)), count = 0;
	double *took = calloc(ECHO_MAX, sizeof(double)), median;

	for (;;) {
		struct pollfd wait = { .fd = listener, .events = POLLIN };
		uint64_t start;
		char byte;
		int fd;

		if (poll(&wait, 1, -1) != 1)
			continue;
		start = now_ns();
		fd = accept_one(listener);
		took[count] = since(start);
		if (count < ECHO_MAX - 1)
			count++;
		while (read(fd, &byte, 1) == 1) {
			if (byte == ECHO_REPORT) {
				median = median_of(took, count);
				count = 0;
				if (write(fd, &median, sizeof(median)) != sizeof(median))
					break;
			} else if (write(fd, &byte, 1) != 1) {
				break;
			}
		}
		close(fd);
	}
}

static int connected(const struct addrinfo *to, double *socket_us, double *connect_us)
{
	uint64_t start = now_ns();
	int fd = socket(to->ai_family, SOCK_STREAM, 0);

	*socket_us = since(start);
	start = now_ns();
	if (fd < 0 || connect(fd, to->ai_addr, to->ai_addrlen))
		die("connect");
	*connect_us = since(start);
	return fd;
}

/* What bind(), listen() and, at the other end, accept() take. */
static void listening(const struct addrinfo *to, int count)
{
	const char report = ECHO_REPORT;
	double unused;
	int fd;

	for (int i = 0; i < count; i++) {
		struct sockaddr_in any = { .sin_family = AF_INET };
		uint64_t start;

		fd = socket(AF_INET, SOCK_STREAM, 0);
		start = now_ns();
		if (bind(fd, (struct sockaddr *)&any, sizeof(any)))
			die("bind");
		times[BIND][i] = since(start);
		start = now_ns();
		if (listen(fd, 16))
			die("listen");
		times[LISTEN][i] = since(start);
		close(fd);
	}
	fd = connected(to, &unused, &unused);
	if (write(fd, &report, 1) != 1 || read(fd, times[ACCEPT], sizeof(double)) != sizeof(double))
		die("report");
	close(fd);
}

/* The medians of what calls take, and a connection's whole life: connect, a byte each way, close. */
static int connects(const char *host, const char *port, int count)
{
	struct addrinfo want = { .ai_socktype = SOCK_STREAM, .ai_family = AF_INET }, *to;
	char byte = 'x';

	if (getaddrinfo(host, port, &want, &to))
		die(host);
	for (int call = 0; call < CALLS; call++)
		times[call] = calloc(count, sizeof(double));
	for (int i = 0; i < count; i++) {
		uint64_t start = now_ns(), closing;
		int fd = connected(to, &times[SOCKET][i], &times[CONNECT][i]);

		if (write(fd, &byte, 1) != 1 || read(fd, &byte, 1) != 1)
			die("echo");
		closing = now_ns();
		close(fd);
		times[CLOSE][i] = since(closing);
		times[WHOLE][i] = since(start);
	}
	listening(to, count);
	printf("{\"mode\": \"connect\"");
	for (int call = 0; call < CALLS; call++)
		printf(", \"%s_us\": %.3f", call_names[call],
		       median_of(times[call], call == ACCEPT ? 1 : count));
	puts("}");
	return 0;
}

/* A stream that a sink receives. */
struct stream {
	struct test t;
	struct answer a;
	size_t told; /* bytes of the test */
	uint64_t start;
};

/* Read once; return 0 at the stream's end, whose answer is then sent. */
static int sink_read(int fd, struct stream *s)
{
	ssize_t n;

	if (s->told < sizeof(s->t)) {
		n = read(fd, (char *)&s->t + s->told, sizeof(s->t) - s->told);
		s->told += n > 0 ? n : 0;
		return n != 0;
	}
	n = read(fd, buffer, READ_SIZE);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n > 0) {
		uint64_t now = now_ns(), from;

		if (!s->start)
			s->start = now;
		from = s->start + s->t.warm_ms * 1000000ull;
		if (now >= from && now < from + s->t.ms * 1000000ull)
			s->a.counted += n;
		s->a.received += n;
		return 1;
	}
	s->a.ns = s->t.ms * 1000000ull;
	if (write(fd, &s->a, sizeof(s->a)) != sizeof(s->a))
		die("write");
	return 0;
}

/* Receive streams by any number of connections, in one process. */
static void sink(uint16_t port)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	int listener = listen_at((struct sockaddr *)&any, sizeof(any)), all = epoll_create1(0);
	struct epoll_event event = { .events = EPOLLIN, .data.fd = listener }, events[64];
	static struct stream *streams[65536];

	if (all < 0 || epoll_ctl(all, EPOLL_CTL_ADD, listener, &event))
		die("epoll");
	for (;;) {
		int n = epoll_wait(all, events, 64, -1);

		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;

			if (fd == listener) {
				fd = accept_one(listener);
				streams[fd] = calloc(1, sizeof(struct stream));
				event.data.fd = fd;
				if (epoll_ctl(all, EPOLL_CTL_ADD, fd, &event))
					die("epoll_ctl");
			} else if (!sink_read(fd, streams[fd])) {
				free(streams[fd]);
				close(fd);
			}
		}
	}
}

/* Write some messages, until one does not fit. */
static void write_burst(int fd, size_t size)
{
	for (int i = 0; i < 4; i++) {
		ssize_t n = write(fd, buffer, size);

		if (n < 0 && errno != EAGAIN)
			die("write");
		if (n < (ssize_t)size)
			return;
	}
}

/* Send by many connections at once; the sink counts what it got of each in the measured time. */
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
			write_burst(events[i].data.fd, t.size);
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
		return connects(argv[2], argv[3], number(argv[4], 1, ECHO_MAX - 1, "N"));
	if (!strcmp(what, "sink") && argc == 3)
		sink(number(argv[2], 1, 65535, "PORT"));
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
	if (!strcmp(what, "memcpy")) {
		t = parse_test(argc - 2, argv + 2);
		if (t.mode == STREAM)
			return copied(&t);
	}
	if (!strcmp(what, "loopback") || !strcmp(what, "unix")) {
		t = parse_test(argc - 2, argv + 2);
		return local_test(what, &t, *what == 'l');
	}
	fputs("xbench serve PORT | tcp HOST PORT TEST | loopback TEST | unix TEST | memcpy TEST |\n"
	      "       echo PORT | connect HOST PORT N | sink PORT | many HOST PORT N MS WARM_MS |\n"
	      "       time COMMAND...\n"
	      "TEST: stream SIZE MS WARM_MS | rr SIZE MS WARM_MS | check SIZE BYTES\n",
	      stderr);
	return 2;
}
