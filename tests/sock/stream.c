// SPDX-License-Identifier: GPL-2.0
/*
 * Byte streams in both directions at once, checked byte for byte.
 *
 * Both ends send SIZE bytes of a pseudo-random stream that depends on the seed,
 * the connection's number and the direction, with write and read sizes drawn at
 * random from 1 byte to 1 MiB, then half-close and expect the end of the other's
 * stream exactly where it belongs. Exit status 0: all connections did.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <linux/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "address.h"
#include "bytes.h"

#define CHUNK_MAX (1u << 20)

enum mode { BLOCK, POLL, EPOLL };

static struct options {
	enum mode mode;
	uint64_t size;
	uint64_t seed;
	unsigned int conns;
	unsigned int at_once;
	unsigned int pause_ms;
	unsigned int settle_ms;
	unsigned int max;
	unsigned int timeout;
} opt = { .mode = BLOCK,
	  .size = 1 << 20,
	  .conns = 1,
	  .at_once = 1,
	  .max = CHUNK_MAX,
	  .timeout = 300 };

static int failures;

struct end {
	int fd;
	int active;
	uint64_t conn;
	unsigned int rand;
};

static uint64_t key_of(const struct end *e, int from_active)
{
	return word(opt.seed * 2 + from_active, e->conn);
}

static size_t draw(struct end *e)
{
	/* Sizes spread evenly over the powers of two. */
	unsigned int bits = rand_r(&e->rand) % 21;
	size_t n = (1u << bits) + rand_r(&e->rand) % (1u << bits);

	return n < opt.max ? n : opt.max;
}

static void complain(const struct end *e, const char *what, uint64_t off)
{
	fprintf(stderr, "%s connection %llu at byte %llu: %s\n", e->active ? "active" : "passive",
		(unsigned long long)e->conn, (unsigned long long)off, what);
	__atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
}

/* The stream of one direction, sent or checked so far. */
struct flow {
	uint8_t *buf;
	uint8_t *want;
	uint64_t key;
	uint64_t off;
	uint64_t began;
	uint64_t segs;
	unsigned int naps;
	unsigned int nap_ms;
	int settled;
	int done;
};

/* Segments that TCP has sent and still has to send: bytes in a ring make none. */
static uint64_t tcp_segs(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		return UINT64_MAX;
	return (uint64_t)info.tcpi_data_segs_out << 32 | info.tcpi_notsent_bytes;
}

/* Returns 1 after progress, 0 if it would block, -1 at the end or on error. */
static int send_some(struct end *e, struct flow *f, int flags)
{
	size_t n = draw(e);
	ssize_t got;

	if (n > opt.size - f->off)
		n = opt.size - f->off;
	if (opt.settle_ms && !f->settled) {
		f->settled = f->off > opt.size / 2 || now_ms() - f->began > opt.settle_ms ||
			     (f->off && f->segs == tcp_segs(e->fd));
		f->segs = tcp_segs(e->fd);
		n = n < 16 ? n : 16;
		/* Many of us must not keep the CPU from who opens the channels. */
		if (++f->naps > 16 && f->nap_ms < 128)
			f->nap_ms *= 2;
		usleep(f->nap_ms * 1000);
	}
	if (!n) {
		shutdown(e->fd, SHUT_WR);
		f->done = 1;
		return -1;
	}
	fill(f->buf, n, f->key, f->off);
	if (rand_r(&e->rand) % 8 == 0 && n > 2) {
		struct iovec v[2] = { { f->buf, n / 3 }, { f->buf + n / 3, n - n / 3 } };

		got = writev(e->fd, v, 2);
	} else {
		got = send(e->fd, f->buf, n, flags | MSG_NOSIGNAL);
	}
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got <= 0) {
		complain(e, strerror(errno), f->off);
		f->done = 1;
		return -1;
	}
	if (opt.mode == BLOCK && (size_t)got != n)
		complain(e, "short blocking send", f->off);
	f->off += got;
	if (opt.pause_ms && rand_r(&e->rand) % 64 == 0)
		usleep(rand_r(&e->rand) % (opt.pause_ms * 1000));
	return 1;
}

static int recv_some(struct end *e, struct flow *f, int flags)
{
	size_t n = draw(e), right;
	ssize_t got;

	if (flags == 0 && rand_r(&e->rand) % 8 == 0) {
		flags = MSG_WAITALL;
		if (n > opt.size - f->off && f->off < opt.size)
			n = opt.size - f->off;
	} else if (rand_r(&e->rand) % 16 == 0) {
		got = recv(e->fd, f->buf, n, flags | MSG_PEEK);
		if (got > 0 && first_wrong(f->buf, f->want, got, f->key, f->off) < (size_t)got)
			complain(e, "wrong bytes peeked", f->off);
	}
	got = recv(e->fd, f->buf, n, flags);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got < 0) {
		complain(e, strerror(errno), f->off);
		f->done = 1;
		return -1;
	}
	if (got == 0) {
		if (f->off != opt.size)
			complain(e, "end of stream too early", f->off);
		f->done = 1;
		return -1;
	}
	if (f->off + got > opt.size) {
		complain(e, "more bytes than were sent", f->off);
		f->done = 1;
		return -1;
	}
	if ((flags & MSG_WAITALL) && (size_t)got != n)
		complain(e, "short MSG_WAITALL", f->off);
	right = first_wrong(f->buf, f->want, got, f->key, f->off);
	if (right < (size_t)got) {
		complain(e, "wrong byte", f->off + right);
		f->done = 1;
		return -1;
	}
	f->off += got;
	if (opt.pause_ms && rand_r(&e->rand) % 64 == 0)
		usleep(rand_r(&e->rand) % (opt.pause_ms * 1000));
	return 1;
}

static int flow_init(struct flow *f, uint64_t key)
{
	memset(f, 0, sizeof(*f));
	f->key = key;
	f->began = now_ms();
	f->nap_ms = 2;
	f->buf = malloc(opt.max);
	f->want = malloc(opt.max);
	return f->buf && f->want ? 0 : -1;
}

static void flow_free(struct flow *f)
{
	free(f->buf);
	free(f->want);
}

/* What a thread returns that has come to its end: one that the kernel killed returns NULL. */
#define WHOLE ((void *)&opt)

static void join(pthread_t thread)
{
	void *result = NULL;

	if (pthread_join(thread, &result) || result != WHOLE) {
		fprintf(stderr, "stream: a thread did not come to its end\n");
		__atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
	}
}

static void *sender(void *arg)
{
	struct end e = *(struct end *)arg;
	struct flow f;

	e.rand ^= 0x5eed;
	if (flow_init(&f, key_of(&e, e.active)))
		complain(&e, "no memory", 0);
	else
		while (send_some(&e, &f, 0) >= 0)
			;
	flow_free(&f);
	return WHOLE;
}

static void run_block(struct end *e)
{
	pthread_t thread;
	struct flow f;

	if (pthread_create(&thread, NULL, sender, e)) {
		complain(e, "no thread", 0);
		return;
	}
	if (flow_init(&f, key_of(e, !e->active)))
		complain(e, "no memory", 0);
	else
		while (recv_some(e, &f, 0) >= 0)
			;
	flow_free(&f);
	join(thread);
}

static void run_events(struct end *e)
{
	struct flow tx, rx;
	int ep = -1, can_send = 1, can_recv = 1;
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP };

	fcntl(e->fd, F_SETFL, fcntl(e->fd, F_GETFL) | O_NONBLOCK);
	if (flow_init(&tx, key_of(e, e->active)) || flow_init(&rx, key_of(e, !e->active))) {
		complain(e, "no memory", 0);
		return;
	}
	if (opt.mode == EPOLL) {
		ep = epoll_create1(0);
		epoll_ctl(ep, EPOLL_CTL_ADD, e->fd, &ev);
	}
	while (!tx.done || !rx.done) {
		int n, ready;

		/* Level: one call per event. Edge: until it would block. */
		if (!rx.done && can_recv && recv_some(e, &rx, MSG_DONTWAIT) == 0)
			can_recv = 0;
		if (!tx.done && can_send && send_some(e, &tx, MSG_DONTWAIT) == 0)
			can_send = 0;
		if ((can_recv && !rx.done) || (can_send && !tx.done) || (rx.done && tx.done))
			continue;
		if (opt.mode == EPOLL) {
			n = epoll_wait(ep, &ev, 1, opt.timeout * 1000);
			ready = n > 0 ? (int)ev.events : 0;
		} else {
			struct pollfd p = {
				.fd = e->fd,
				.events = (rx.done ? 0 : POLLIN) | (tx.done ? 0 : POLLOUT),
			};

			n = poll(&p, 1, opt.timeout * 1000);
			ready = p.revents;
		}
		if (n == 0) {
			complain(e, "no event in time", rx.off);
			break;
		}
		if (ready & (POLLIN | POLLHUP | POLLERR | POLLRDHUP))
			can_recv = 1;
		if (ready & (POLLOUT | POLLHUP | POLLERR))
			can_send = 1;
	}
	if (ep >= 0)
		close(ep);
	flow_free(&tx);
	flow_free(&rx);
}

static void *run(void *arg)
{
	struct end *e = arg;
	struct timeval tv = { .tv_sec = opt.timeout };
	uint64_t number;

	/* The first eight bytes say which connection this is. */
	if (e->active) {
		number = e->conn;
		if (send(e->fd, &number, sizeof(number), MSG_NOSIGNAL) != sizeof(number))
			complain(e, "cannot send its number", 0);
	} else if (recv(e->fd, &number, sizeof(number), MSG_WAITALL) != sizeof(number)) {
		complain(e, "no number came", 0);
	}
	e->conn = number;
	e->rand = opt.seed * 31 + number * 2 + e->active;
	if (opt.mode == BLOCK) {
		setsockopt(e->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
		setsockopt(e->fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
		run_block(e);
	} else {
		run_events(e);
	}
	close(e->fd);
	free(e);
	return WHOLE;
}

static int ends(const char *host, const char *port, int active)
{
	struct addrinfo *ai = resolve("stream", host, port);
	pthread_t *threads = calloc(opt.at_once, sizeof(*threads));
	unsigned int i, j, one = 1;
	int listener = -1;

	if (!active) {
		listener = socket(ai->ai_family, SOCK_STREAM, 0);
		setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(listener, ai->ai_addr, ai->ai_addrlen) || listen(listener, 1024)) {
			perror("stream: listen");
			return 2;
		}
		printf("listening\n");
		fflush(stdout);
	}
	for (i = 0; i < opt.conns; i += opt.at_once) {
		for (j = 0; j < opt.at_once; j++) {
			struct end *e = calloc(1, sizeof(*e));

			e->active = active;
			e->conn = i + j;
			if (active) {
				e->fd = socket(ai->ai_family, SOCK_STREAM, 0);
				if (connect(e->fd, ai->ai_addr, ai->ai_addrlen)) {
					perror("stream: connect");
					return 2;
				}
			} else {
				e->fd = accept(listener, NULL, NULL);
			}
			if (pthread_create(&threads[j], NULL, run, e)) {
				perror("stream: thread");
				return 2;
			}
		}
		for (j = 0; j < opt.at_once; j++)
			join(threads[j]);
	}
	if (listener >= 0)
		close(listener);
	freeaddrinfo(ai);
	free(threads);
	return 0;
}

static const char usage[] =
	"usage: stream listen|connect HOST PORT [--mode block|poll|epoll]\n"
	"              [--size BYTES] [--seed N] [--conns N] [--at-once N]\n"
	"              [--pause MS] [--settle MS] [--max BYTES] [--timeout SECONDS]\n"
	"--settle: begin with small pieces until they go another way than TCP, for MS at\n"
	"most. Give both ends the same --size, --seed, --conns and --at-once.\n";

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "mode", 1, NULL, 'm' },    { "size", 1, NULL, 's' },
		{ "seed", 1, NULL, 'r' },    { "conns", 1, NULL, 'n' },
		{ "at-once", 1, NULL, 'a' }, { "pause", 1, NULL, 'p' },
		{ "settle", 1, NULL, 'l' },  { "max", 1, NULL, 'x' },
		{ "timeout", 1, NULL, 't' }, { "help", 0, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct timespec a, b;
	int c, err;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) >= 0) {
		switch (c) {
		case 'm':
			opt.mode = !strcmp(optarg, "epoll") ? EPOLL :
				   !strcmp(optarg, "poll")  ? POLL :
							      BLOCK;
			break;
		case 's':
			opt.size = strtoull(optarg, NULL, 0);
			break;
		case 'r':
			opt.seed = strtoull(optarg, NULL, 0);
			break;
		case 'n':
			opt.conns = atoi(optarg);
			break;
		case 'a':
			opt.at_once = atoi(optarg);
			break;
		case 'p':
			opt.pause_ms = atoi(optarg);
			break;
		case 'l':
			opt.settle_ms = atoi(optarg);
			break;
		case 'x':
			opt.max = atoi(optarg);
			break;
		case 't':
			opt.timeout = atoi(optarg);
			break;
		default:
			fputs(usage, c == 'h' ? stdout : stderr);
			return c == 'h' ? 0 : 2;
		}
	}
	if (argc - optind != 3) {
		fputs(usage, stderr);
		return 2;
	}
	if (opt.at_once > opt.conns)
		opt.at_once = opt.conns;
	signal(SIGPIPE, SIG_IGN);
	clock_gettime(CLOCK_MONOTONIC, &a);
	err = ends(argv[optind + 1], argv[optind + 2], !strcmp(argv[optind], "connect"));
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%u connections, %d failures, %.1f s\n", opt.conns, failures,
	       b.tv_sec - a.tv_sec + (b.tv_nsec - a.tv_nsec) / 1e9);
	return err ?: failures ? 1 : 0;
}
