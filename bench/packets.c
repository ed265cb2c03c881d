// SPDX-License-Identifier: GPL-2.0
/*
 * Datagrams to many hosts at once, as many as they take.
 *
 *   packets drain PORT                   receive, and answer every 16th
 *   packets send SIZE MS PORT HOST...    send to all hosts for so many ms, at most 64 to each that
 *                                        are not answered yet; prints one line of JSON
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "measure.h"

#define BURST 16  /* that share an answer */
#define WINDOW 64 /* that may be on the way to a host */
#define HOSTS 64
#define PATIENCE 50 /* ms without any answer: some were lost */

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

static void drain(const char *port)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(atoi(port)) };
	int fd = socket(AF_INET6, SOCK_DGRAM, 0), received = 0;

	if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof(any)))
		die("bind");
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

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "drain") && argc == 3)
		drain(argv[2]);
	if (!strcmp(what, "send") && argc > 5 && argc - 5 <= HOSTS && atoi(argv[2]) > 0 &&
	    atoi(argv[2]) <= 65507 && atoi(argv[3]) > 0)
		return send_all(atoi(argv[2]), atoi(argv[3]), argv[4], argc - 5, argv + 5);
	fprintf(stderr, "usage: packets drain PORT | packets send SIZE MS PORT HOST...\n");
	return 2;
}
