// SPDX-License-Identifier: GPL-2.0
/*
 * Datagrams to many hosts at once, as many as they take.
 *
 *   packets drain PORT                   receive, and answer every 16th
 *   packets send SIZE MS PORT HOST...    send to all hosts for so many ms, at most 64 to each that
 *                                        are not answered yet; prints one line of JSON
 *   packets load SIZE MS PORT RATE HOST  send so many a second for so many ms, whatever comes of them;
 *                                        prints {"sent": N, "ns": N}
 *   packets hear PORT                    receive them until the last one, and print how many came and
 *                                        how long they took, of all but the first fifth:
 *                                        {"received": N, "ns": N, "p50_us": N, "p99_us": N}
 *
 * What a datagram takes is told by the CPUs' counter, which is one for all domains of a machine.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <x86intrin.h>

#include "measure.h"

#define BURST 16  /* that share an answer */
#define WINDOW 64 /* that may be on the way to a host */
#define HOSTS 64
#define PATIENCE 50   /* ms without any answer: some were lost */
#define HEARD 1000000 /* datagrams of which the time is kept, at most */
#define NEEDED 100    /* datagrams, so that one in a hundred is one */
#define LASTS 20      /* that say so: some may be lost */
#define SILENCE 5     /* s without a datagram: the last ones were lost */

/* What `load` sends, at the beginning of each */
struct stamp {
	uint64_t tsc;
	uint32_t number;
	uint32_t count; /* of all, but in the last ones 0 */
};

static struct mmsghdr messages[WINDOW];
static struct iovec parts[WINDOW];
static struct sockaddr_in6 from[WINDOW];

/* All messages use the same memory. */
static void prepare(size_t size)
{
	for (int i = 0; i < WINDOW; i++) {
		parts[i] = (struct iovec){ buffer, size };
		messages[i].msg_hdr.msg_iov = &parts[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
}

static int bound(const char *port)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(atoi(port)) };
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof(any)))
		die("bind");
	return fd;
}

static void drain(const char *port)
{
	int fd = bound(port), received = 0;

	prepare(READ_SIZE);
	for (;;) {
		int n;

		for (int i = 0; i < WINDOW; i++) {
			messages[i].msg_hdr.msg_name = &from[i];
			messages[i].msg_hdr.msg_namelen = sizeof(from[i]);
		}
		n = recvmmsg(fd, messages, WINDOW, MSG_WAITFORONE, NULL);
		if (n < 0 && errno != EINTR && errno != ECONNREFUSED)
			die("recvmmsg");
		for (received += n > 0 ? n : 0; received >= BURST; received -= BURST)
			sendto(fd, "", 1, 0, (struct sockaddr *)&from[0], sizeof(from[0]));
	}
}

static int connected(const char *host, const char *port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	if (inet_pton(AF_INET, host, &to.sin_addr) != 1) {
		fprintf(stderr, "packets: %s is no IPv4 address\n", host);
		exit(2);
	}
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)))
		die("connect");
	return fd;
}

static int send_all(size_t size, int ms, const char *port, int count, char **hosts)
{
	unsigned long sent = 0, answered = 0, stalls = 0;
	struct pollfd fds[HOSTS];
	int room[HOSTS];
	uint64_t start, now;
	char answer;

	for (int i = 0; i < count; i++) {
		fds[i] = (struct pollfd){ connected(hosts[i], port), POLLIN, 0 };
		room[i] = WINDOW;
	}
	prepare(size);
	start = now_ns();
	do {
		int ready;

		for (int i = 0; i < count; i++) {
			int n = room[i] >= BURST ? sendmmsg(fds[i].fd, messages, room[i], 0) : 0;

			if (n < 0 && errno != EAGAIN && errno != ENOBUFS && errno != EINTR)
				die("sendmmsg");
			room[i] -= n > 0 ? n : 0;
			sent += n > 0 ? n : 0;
		}
		ready = poll(fds, count, PATIENCE);
		if (ready < 0 && errno != EINTR)
			die("poll");
		stalls += !ready;
		for (int i = 0; i < count; i++) {
			while (recv(fds[i].fd, &answer, 1, 0) == 1) {
				room[i] += BURST;
				answered += BURST;
			}
			if (!ready || room[i] > WINDOW)
				room[i] = WINDOW;
		}
		now = now_ns();
	} while (now - start < ms * 1000000ull);
	printf("{\"sent\": %lu, \"answered\": %lu, \"stalls\": %lu, \"ns\": %llu}\n", sent,
	       answered, stalls, (unsigned long long)(now - start));
	return 0;
}

/* Sleep until then. Return: the time. */
static uint64_t sleep_until(uint64_t ns)
{
	struct timespec then = { ns / 1000000000, ns % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL) == EINTR)
		;
	return now_ns();
}

static int load(size_t size, int ms, const char *port, unsigned long rate, const char *host)
{
	uint32_t count = rate * ms / 1000, random = 1;
	uint64_t start, period = 1000000000 / rate, now;
	struct stamp *stamp = (void *)buffer;
	int fd = connected(host, port);

	prctl(PR_SET_TIMERSLACK, 1);
	start = now = now_ns();
	for (uint32_t n = 0; n < count; n++) {
		uint64_t due = start + n * period;

		/* Not in step with any timer */
		random = random * 1664525 + 1013904223;
		due += (random >> 8) * period >> 24;
		if (due > now)
			now = sleep_until(due);
		*stamp = (struct stamp){ __rdtsc(), n, count };
		send(fd, buffer, size, 0);
	}
	now = now_ns();
	printf("{\"sent\": %u, \"ns\": %llu}\n", count, (unsigned long long)(now - start));
	for (int n = 0; n < LASTS; n++) {
		*stamp = (struct stamp){};
		send(fd, buffer, size, 0);
		sleep_until(now_ns() + 10000000);
	}
	return 0;
}

static int compare(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int hear(const char *port)
{
	struct timeval silence = { .tv_sec = SILENCE };
	int fd = bound(port);
	uint32_t *took = malloc(HEARD * sizeof(*took)), n = 0;
	uint64_t first_tsc = 0, first_ns = 0, tsc = 0, ns = 0;
	const struct stamp *stamp = (void *)buffer;
	double us;

	if (!took || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence)))
		die("SO_RCVTIMEO");
	for (;;) {
		if (recv(fd, buffer, READ_SIZE, 0) < (ssize_t)sizeof(*stamp)) {
			if (n)
				break;
			continue;
		}
		if (!stamp->count)
			break;
		if (stamp->number < stamp->count / 5 || n == HEARD)
			continue;
		tsc = __rdtsc();
		if (!n) {
			first_tsc = tsc;
			first_ns = now_ns();
		}
		took[n++] = tsc - stamp->tsc;
	}
	if (n < NEEDED) {
		fprintf(stderr,
			"packets: only %u datagrams came after the first fifth, too few for their delays (%d): "
			"more must be sent, or for longer\n",
			n, NEEDED);
		exit(1);
	}
	/* The last datagram's time, as far as the counter's rate goes: a little later does not matter. */
	ns = now_ns() - first_ns;
	us = (double)(__rdtsc() - first_tsc) * 1000 / ns;
	qsort(took, n, sizeof(*took), compare);
	printf("{\"received\": %u, \"ns\": %.0f, \"p50_us\": %.1f, \"p99_us\": %.1f}\n", n,
	       (double)(tsc - first_tsc) / us * 1000, took[n / 2] / us, took[n - 1 - n / 100] / us);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "drain") && argc == 3)
		drain(argv[2]);
	if (!strcmp(what, "hear") && argc == 3)
		return hear(argv[2]);
	if (!strcmp(what, "load") && argc == 7 && atoi(argv[2]) >= (int)sizeof(struct stamp) &&
	    atoi(argv[2]) <= 65507 && atoi(argv[3]) > 0 && atoi(argv[5]) > 0)
		return load(atoi(argv[2]), atoi(argv[3]), argv[4], atoi(argv[5]), argv[6]);
	if (!strcmp(what, "send") && argc > 5 && argc - 5 <= HOSTS && atoi(argv[2]) > 0 &&
	    atoi(argv[2]) <= 65507 && atoi(argv[3]) > 0)
		return send_all(atoi(argv[2]), atoi(argv[3]), argv[4], argc - 5, argv + 5);
	fprintf(stderr, "usage: packets drain PORT | packets send SIZE MS PORT HOST..."
			" | packets hear PORT | packets load SIZE MS PORT RATE HOST\n");
	return 2;
}
