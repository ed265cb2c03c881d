/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the programs of the benchmark share: a test's description, its phases,
 * and measuring, over any channel that can write and read bytes.
 *
 * A stream goes one way for the warm-up and the measured time; the receiver
 * counts what it reads in the measured time. Request/response sends a message
 * there and back again, and takes the median over batches. No clock is read per
 * message: timers end the phases. The checked stream is not timed.
 */
#ifndef _BENCH_MEASURE_H
#define _BENCH_MEASURE_H

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MESSAGE_MAX (1u << 20)
#define READ_SIZE 65536u /* of the receiver of a stream */
#define END_MARK 0xff	 /* ends a stream where there is no half-close */
#define BATCHES 20
#define TEST_MAGIC 0x78626331u
#define SETTLE_TRIPS 2
#define SETTLE_MS 100

enum { STREAM, RR, CHECK };

static const char *const mode_names[] = { "stream", "rr", "check" };

/* What the client tells the server before a test. */
struct test {
	uint32_t magic;
	uint32_t mode;
	uint32_t size;	  /* of a message */
	uint32_t warm_ms; /* before measuring */
	uint32_t ms;	  /* measured */
	uint32_t pad;
	uint64_t bytes; /* of a checked stream */
};

/* What the receiver of a stream answers. */
struct answer {
	uint64_t received; /* in all */
	uint64_t counted;  /* in the measured time */
	uint64_t ns;	   /* the measured time */
	uint64_t wrong;	   /* offset + 1 of the first wrong byte, 0 for none */
};

/* A channel: write and read return how many bytes, at least 1; 0 is the end. */
struct channel {
	size_t (*write)(struct channel *c, const void *data, size_t size);
	size_t (*read)(struct channel *c, void *data, size_t size);
	/* Ends the stream; the other's read returns 0. NULL: END_MARK ends it. */
	void (*finish)(struct channel *c);
};

static unsigned char buffer[MESSAGE_MAX];
static volatile sig_atomic_t phase;

static inline void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void on_alarm(int sig)
{
	(void)sig;
	phase++;
}

/* Have `phase` become 1 after `first` ms, if that is not 0, and one more after each `then` ms. */
static inline void start_phases(uint32_t first, uint32_t then)
{
	struct itimerval t = {
		.it_value = { first / 1000, first % 1000 * 1000 },
		.it_interval = { then / 1000, then % 1000 * 1000 },
	};
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };

	phase = 0;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &t, NULL);
}

static inline void stop_phases(void)
{
	struct itimerval none = { 0 };

	setitimer(ITIMER_REAL, &none, NULL);
}

static inline void write_all(struct channel *c, const void *data, size_t size)
{
	for (size_t done = 0; done < size;)
		done += c->write(c, (const char *)data + done, size - done);
}

static inline void read_all(struct channel *c, void *data, size_t size)
{
	for (size_t done = 0; done < size;) {
		size_t n = c->read(c, (char *)data + done, size - done);

		if (!n) {
			errno = EPIPE;
			die("read");
		}
		done += n;
	}
}

/* A byte of the checked stream depends on its place only; END_MARK does not occur. */
static inline unsigned char pattern(uint64_t at)
{
	uint64_t x = at / 8 * 0x9e3779b97f4a7c15ull + 0x1234567;

	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9ull;
	return (x >> (at % 8 * 8)) & 0x7f;
}

static inline uint64_t send_stream(struct channel *c, const struct test *t)
{
	uint64_t sent = 0;

	if (t->mode == CHECK) {
		while (sent < t->bytes) {
			size_t size = t->bytes - sent < t->size ? t->bytes - sent : t->size;

			for (size_t i = 0; i < size; i++)
				buffer[i] = pattern(sent + i);
			write_all(c, buffer, size);
			sent += size;
		}
	} else {
		memset(buffer, 0x55, t->size);
		/* A little longer than the receiver counts. */
		start_phases(t->warm_ms + t->ms + t->ms / 8 + 20, 0);
		while (!phase) {
			write_all(c, buffer, t->size);
			sent += t->size;
		}
		stop_phases();
	}
	if (c->finish) {
		c->finish(c);
	} else {
		unsigned char mark = END_MARK;

		write_all(c, &mark, 1);
	}
	return sent;
}

static inline void receive_stream(struct channel *c, const struct test *t, struct answer *a)
{
	uint64_t start = 0, last = 0;
	int seen = 0;
	size_t n;

	memset(a, 0, sizeof(*a));
	while ((n = c->read(c, buffer, READ_SIZE))) {
		int end = !c->finish && buffer[n - 1] == END_MARK;

		n -= end;
		if (t->mode == CHECK) {
			for (size_t i = 0; i < n && !a->wrong; i++)
				if (buffer[i] != pattern(a->received + i))
					a->wrong = a->received + i + 1;
		} else if (!a->received) {
			start_phases(t->warm_ms, t->ms);
		} else if (phase == 1 && seen == 0) { /* what was read now came before */
			start = now_ns();
			seen = 1;
		} else if (seen == 1) {
			a->counted += n;
			if (phase != 1) {
				last = now_ns();
				seen = 2;
			}
		}
		a->received += n;
		if (end)
			break;
	}
	if (seen == 1)
		last = now_ns();
	stop_phases();
	a->ns = last - start;
}

static inline void echo(struct channel *c, const struct test *t)
{
	for (;;) {
		size_t n = c->read(c, buffer, t->size);

		if (!n)
			return;
		if (n < t->size)
			read_all(c, buffer + n, t->size - n);
		if (buffer[0] == END_MARK) /* a last message */
			return;
		write_all(c, buffer, t->size);
	}
}

static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static inline void round_trips(struct channel *c, const struct test *t, uint64_t count)
{
	while (count--) {
		write_all(c, buffer, t->size);
		read_all(c, buffer, t->size);
	}
}

/* Return the bytes sent one way; *us gets the median over batches of half a round trip. */
static inline uint64_t request_response(struct channel *c, const struct test *t, double *us)
{
	uint64_t count = 0, batch, start = now_ns();
	double batches[BATCHES];

	memset(buffer, 0x55, t->size);
	do {
		round_trips(c, t, 2);
		count += 2;
	} while (now_ns() - start < t->warm_ms * 1000000ull);
	/* The last of the warm-up tells how many make a batch: its start may have been slow. */
	start = now_ns();
	round_trips(c, t, 4);
	count += 4;
	batch = t->ms * 1000000ull / BATCHES * 4 / (now_ns() - start + 1);
	if (!batch)
		batch = 1;
	for (int i = 0; i < BATCHES; i++) {
		start = now_ns();
		round_trips(c, t, batch);
		batches[i] = (now_ns() - start) / 2000.0 / batch;
		count += batch;
	}
	buffer[0] = END_MARK;
	write_all(c, buffer, t->size);
	qsort(batches, BATCHES, sizeof(batches[0]), by_value);
	*us = (batches[BATCHES / 2 - 1] + batches[BATCHES / 2]) / 2;
	return (count + 1) * t->size;
}

/*
 * Before a test that is timed: use the connection a little, and give it time to take a
 * faster way. Else chance decides how many of the first messages go another way.
 */
static inline void settle(struct channel *c, int is_client)
{
	char byte = 0;

	for (int i = 0; i < SETTLE_TRIPS; i++) {
		if (is_client)
			write_all(c, &byte, 1);
		read_all(c, &byte, 1);
		if (!is_client)
			write_all(c, &byte, 1);
	}
	if (is_client)
		usleep(SETTLE_MS * 1000);
}

/* The server's side of one test; 0 if the client has gone. */
static inline int serve_test(struct channel *c)
{
	struct answer a;
	struct test t;

	if (!c->read(c, &t, 1))
		return 0;
	read_all(c, (char *)&t + 1, sizeof(t) - 1);
	if (t.magic != TEST_MAGIC || !t.size || t.size > MESSAGE_MAX || t.mode > CHECK) {
		fputs("not a test of this program's\n", stderr);
		return 0;
	}
	if (t.mode != CHECK)
		settle(c, 0);
	if (t.mode == RR) {
		echo(c, &t);
	} else {
		receive_stream(c, &t, &a);
		write_all(c, &a, sizeof(a));
	}
	return 1;
}

/* The client's side: runs the test and prints a line of JSON; 0 if the payload was not right. */
static inline int run_test(struct channel *c, const char *over, const struct test *t)
{
	struct answer a = { 0 };
	uint64_t sent;
	double us;

	write_all(c, t, sizeof(*t));
	if (t->mode != CHECK)
		settle(c, 1);
	printf("{\"over\": \"%s\", \"mode\": \"%s\", \"size\": %u, ", over, mode_names[t->mode],
	       t->size);
	if (t->mode == RR) {
		sent = request_response(c, t, &us);
		printf("\"us\": %.3f, \"sent\": %llu}\n", us, (unsigned long long)sent);
	} else {
		sent = send_stream(c, t);
		read_all(c, &a, sizeof(a));
		if (t->mode == STREAM)
			printf("\"mbit\": %.4f, \"ms\": %.1f, ",
			       a.ns ? a.counted * 8000.0 / a.ns : 0, a.ns / 1e6);
		else
			printf("\"right\": %s, \"wrong_at\": %lld, ",
			       a.wrong || a.received != sent ? "false" : "true",
			       (long long)a.wrong - 1);
		printf("\"sent\": %llu, \"received\": %llu}\n", (unsigned long long)sent,
		       (unsigned long long)a.received);
	}
	fflush(stdout);
	return t->mode == RR || (!a.wrong && a.received == sent);
}

static inline uint64_t number(const char *text, uint64_t low, uint64_t high, const char *what)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end || end == text || *text == '-' || value < low || value > high) {
		fprintf(stderr, "%s is a number from %llu to %llu, not %s\n", what,
			(unsigned long long)low, (unsigned long long)high, text);
		exit(2);
	}
	return value;
}

/* Read MODE SIZE MS WARM_MS; of a checked stream, MODE SIZE BYTES. */
static inline struct test parse_test(int argc, char **argv)
{
	struct test t = { .magic = TEST_MAGIC };

	while (t.mode <= CHECK && argc >= 3 && strcmp(argv[0], mode_names[t.mode]))
		t.mode++;
	if (t.mode > CHECK || argc != (t.mode == CHECK ? 3 : 4)) {
		fputs("a test is: stream|rr SIZE MS WARM_MS, or: check SIZE BYTES\n", stderr);
		exit(2);
	}
	t.size = number(argv[1], 1, MESSAGE_MAX, "SIZE");
	if (t.mode == CHECK) {
		t.bytes = number(argv[2], 1, 1ull << 40, "BYTES");
	} else {
		t.ms = number(argv[2], 1, 1000000, "MS");
		t.warm_ms = number(argv[3], 1, 1000000, "WARM_MS");
	}
	return t;
}

#endif /* _BENCH_MEASURE_H */
