// SPDX-License-Identifier: GPL-2.0
/*
 * The byte ring of kernel/core/ring.h, as it is.
 *
 * ring_test CASE... runs cases; without arguments all of them. Exit status 0:
 * all held. The first thing that does not hold ends the program.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ring.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define LOST_SECONDS 5

#define CHECK(cond, ...)                                                           \
	do {                                                                       \
		if (!(cond)) {                                                     \
			fprintf(stderr, "%s:%d: %s: ", __func__, __LINE__, #cond); \
			fprintf(stderr, __VA_ARGS__);                              \
			fputc('\n', stderr);                                       \
			_exit(1);                                                  \
		}                                                                  \
	} while (0)

/* Set by the environment: the sanitizers need fewer rounds. */
static u32 effort = 100;

static u32 rnd(u32 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* Numbers at which unsigned arithmetic goes wrong, and some ordinary ones. */
/* clang-format off */
static const u32 edges[] = {
	0, 1, 2, 3, 4095, 4096, 4097, 65535, 65536,
	0x3fffffff, 0x40000000, 0x40000001, 0x7ffffffe, 0x7fffffff,
	0x80000000, 0x80000001, 0xbfffffff, 0xc0000000, 0xffff0000,
	0xfffff000, 0xfffffffd, 0xfffffffe, 0xffffffff, 12345678,
};
/* clang-format on */

static const u32 sizes[] = { 1, 2, 16, 4096, 8192, 131072, 1u << 20, 1u << 30 };

/* ---- the two comparisons, against arithmetic that cannot wrap ---- */

static void test_unread(void)
{
	u32 bytes, i, j, k;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		u32 size = sizes[i];

		for (j = 0; j < ARRAY_SIZE(edges); j++) {
			for (k = 0; k < ARRAY_SIZE(edges); k++) {
				u32 cons = edges[j], ahead = edges[k];
				u32 prod = (uint64_t)cons + ahead;
				bool ok = xway_ring_unread(prod, cons, size, &bytes);

				CHECK(ok == (ahead <= size), "prod %u cons %u size %u", prod, cons,
				      size);
				CHECK(!ok || bytes == ahead, "%u for %u", bytes, ahead);
			}
			CHECK(xway_ring_unread(edges[j] + size, edges[j], size, &bytes) &&
				      bytes == size,
			      "full, cons %u size %u", edges[j], size);
			CHECK(xway_ring_unread(edges[j], edges[j], size, &bytes) && !bytes,
			      "empty, cons %u size %u", edges[j], size);
			CHECK(!xway_ring_unread(edges[j] + size + 1, edges[j], size, &bytes),
			      "one too many, cons %u size %u", edges[j], size);
			CHECK(!xway_ring_unread(edges[j] - 1, edges[j], size, &bytes),
			      "backwards, cons %u size %u", edges[j], size);
		}
	}
}

static bool crossed(u32 want, u32 old, u32 by)
{
	uint64_t from = (1ull << 32) + old, to = from + by, w;

	/* Any of the numbers that are want modulo 2^32. */
	for (w = want; w <= to; w += 1ull << 32)
		if (w > from)
			return true;
	return false;
}

static void test_crossed(void)
{
	u32 i, j, k, seed = 1;

	/* Each relation of three near numbers, on each side of each edge. */
	for (i = 0; i < ARRAY_SIZE(edges); i++)
		for (j = 0; j < 40; j++)
			for (k = 0; k < 80; k++) {
				u32 old = edges[i] - 20 + j / 2;
				u32 by = j, want = edges[i] - 40 + k;

				CHECK(xway_ring_crossed(want, old + by, old) ==
					      crossed(want, old, by),
				      "old %u by %u want %u", old, by, want);
			}
	for (i = 0; i < ARRAY_SIZE(edges); i++)
		for (j = 0; j < ARRAY_SIZE(edges); j++)
			for (k = 0; k < ARRAY_SIZE(edges); k++)
				CHECK(xway_ring_crossed(edges[i], edges[j] + edges[k], edges[j]) ==
					      crossed(edges[i], edges[j], edges[k]),
				      "want %u old %u by %u", edges[i], edges[j], edges[k]);
	for (i = 0; i < 1000 * effort; i++) {
		u32 want = rnd(&seed), old = rnd(&seed);
		u32 by = rnd(&seed) >> (rnd(&seed) % 32);

		if (i & 1)
			want = old + (rnd(&seed) % 8) * (by / 4 + 1);
		CHECK(xway_ring_crossed(want, old + by, old) == crossed(want, old, by),
		      "want %u old %u by %u", want, old, by);
	}
	/* Standing still passes nothing. */
	for (i = 0; i < ARRAY_SIZE(edges); i++)
		for (j = 0; j < ARRAY_SIZE(edges); j++)
			CHECK(!xway_ring_crossed(edges[i], edges[j], edges[j]), "want %u at %u",
			      edges[i], edges[j]);
}

/* ---- where bytes lie ---- */

/* Each page is an allocation of its own, so that the sanitizer sees its end. */
static void **pages_new(u32 size)
{
	u32 n = size / RING_PAGE_SIZE, i;
	void **pages = calloc(n, sizeof(*pages));

	for (i = 0; i < n; i++)
		pages[i] = malloc(RING_PAGE_SIZE);
	return pages;
}

/* The next @run pages of each follow each other. */
static void **pages_in_runs(u32 size, u32 run, void **memory)
{
	u32 n = size / RING_PAGE_SIZE, i;
	void **pages = calloc(n, sizeof(*pages));

	*memory = malloc((size_t)size * 2);
	for (i = 0; i < n; i++)
		pages[i] = (char *)*memory + (i + i / run * (n > run)) * (size_t)RING_PAGE_SIZE;
	return pages;
}

static void pages_free(void **pages, u32 size)
{
	u32 n = size / RING_PAGE_SIZE;

	while (n--)
		free(pages[n]);
	free(pages);
}

/* Bytes from an offset on that follow each other. */
static u32 piece_at(void *const *pages, u32 size, u32 off)
{
	u32 nr = off / 4096, room = 4096 - off % 4096;

	while (nr + 1 < size / 4096 && pages[nr + 1] == (char *)pages[nr] + 4096) {
		room += 4096;
		nr++;
	}
	return room;
}

static void test_at(void)
{
	static const u32 lens[] = {
		0, 1, 2, 4094, 4095, 4096, 4097, 8191, 8192, 12289, 0xffffffff
	};
	u32 p, i, j, k;

	for (p = 1; p <= 16; p *= 2) {
		u32 size = p * RING_PAGE_SIZE;
		void **pages = pages_new(size);

		for (i = 0; i < 2 * size; i++) {
			/* The last bytes before 2^32 and the first after it. */
			u32 idx = i - size, off = idx % size;

			for (j = 0; j < ARRAY_SIZE(lens); j++) {
				u32 len = lens[j], room = piece_at(pages, size, off);
				char *at = xway_ring_at(pages, idx, size, &len);

				CHECK(at == (char *)pages[off / 4096] + off % 4096,
				      "index %u size %u", idx, size);
				CHECK(len == (lens[j] < room ? lens[j] : room),
				      "index %u size %u: %u of %u", idx, size, len, lens[j]);
			}
		}
		for (k = 0; k < ARRAY_SIZE(edges); k++) {
			u32 len = 1, off = edges[k] % size;

			CHECK(xway_ring_at(pages, edges[k], size, &len) ==
				      (char *)pages[off / 4096] + off % 4096,
			      "index %u size %u", edges[k], size);
		}
		pages_free(pages, size);
	}
}

static void test_at_runs(void)
{
	u32 p, run, off, len;

	for (p = 0; p < 6; p++)
		for (run = 1; run <= 5; run++) {
			u32 size = RING_PAGE_SIZE << p, step = 977;
			void *memory, **pages = pages_in_runs(size, run, &memory);

			for (off = 0; off < size; off += step)
				for (len = 1; len < 2 * size; len += 1777) {
					u32 got = len, room = piece_at(pages, size, off);
					char *at = xway_ring_at(pages, off, size, &got);

					CHECK(at == (char *)pages[off / 4096] + off % 4096,
					      "offset %u size %u", off, size);
					CHECK(got == (len < room ? len : room),
					      "offset %u size %u runs of %u: %u of %u", off, size,
					      run, got, len);
				}
			free(pages);
			free(memory);
		}
}

/* ---- one thread: a ring against a plain count of bytes ---- */

static uint8_t stream_byte(uint64_t i)
{
	i *= 0x9e3779b97f4a7c15ull;
	return i >> 56;
}

static void copy_in(void **pages, u32 size, u32 idx, u32 len, uint64_t at)
{
	while (len) {
		u32 n = len, i;
		uint8_t *to = xway_ring_at(pages, idx, size, &n);

		for (i = 0; i < n; i++)
			to[i] = stream_byte(at + i);
		idx += n;
		at += n;
		len -= n;
	}
}

static void copy_out(void **pages, u32 size, u32 idx, u32 len, uint64_t at)
{
	while (len) {
		u32 n = len, i;
		const uint8_t *from = xway_ring_at(pages, idx, size, &n);

		for (i = 0; i < n; i++)
			CHECK(from[i] == stream_byte(at + i), "byte %llu at index %u of %u",
			      (unsigned long long)(at + i), idx + i, size);
		idx += n;
		at += n;
		len -= n;
	}
}

static void test_model(void)
{
	u32 s, j, round, seed = 7, fulls = 0, empties = 0, wraps = 0;

	for (s = 0; s < ARRAY_SIZE(sizes); s++)
		for (j = 0; j < ARRAY_SIZE(edges); j++) {
			u32 size = sizes[s], prod = edges[j], cons = prod;
			void **pages;
			uint64_t in = 0, out = 0;

			/* A ring is at least a page. */
			if (size < RING_PAGE_SIZE || size > 131072)
				continue;
			pages = pages_new(size);
			for (round = 0; round < 4 * effort; round++) {
				u32 have, n, old;
				u32 want = rnd(&seed) >> (rnd(&seed) % 32);

				CHECK(xway_ring_unread(prod, cons, size, &have),
				      "prod %u cons %u size %u", prod, cons, size);
				CHECK(have == in - out, "%u", have);
				n = size - have < want ? size - have : want;
				fulls += have + n == size;
				copy_in(pages, size, prod, n, in);
				old = prod;
				wraps += (u32)(old + n) < old;
				/* Asked for the byte just put, and the next. */
				CHECK(xway_ring_publish(&prod, old + n, old, &(u32){ old + n }) ==
					      (n != 0),
				      "%u", n);
				CHECK(!xway_ring_crossed(prod + 1, prod, old), "%u", n);
				in += n;

				want = rnd(&seed) >> (rnd(&seed) % 32);
				CHECK(xway_ring_unread(prod, cons, size, &have), "prod %u cons %u",
				      prod, cons);
				n = have < want ? have : want;
				empties += n == have;
				copy_out(pages, size, cons, n, out);
				cons += n;
				out += n;
			}
			pages_free(pages, size);
		}
	CHECK(fulls && empties && wraps, "%u %u %u: not enough was tried", fulls, empties, wraps);
}

/* ---- two threads that sleep only when the protocol lets them ---- */

struct event {
	u32 set;
	u32 slept;
	u32 rung;
};

/*
 * A bare system call, which gives the thread sanitizer no idea of an order
 * that the ring itself would not have.
 */
static long futex(u32 *word, int op, u32 val, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, val, timeout, NULL, 0);
}

static void event_ring(struct event *ev)
{
	ev->rung++;
	__atomic_store_n(&ev->set, 1, __ATOMIC_RELAXED);
	futex(&ev->set, FUTEX_WAKE, 1, NULL);
}

/* Return: false if nobody rang for a long time. */
static bool event_wait(struct event *ev)
{
	struct timespec start, now, timeout = { .tv_sec = 1 };

	ev->slept++;
	clock_gettime(CLOCK_MONOTONIC, &start);
	while (!__atomic_exchange_n(&ev->set, 0, __ATOMIC_RELAXED)) {
		futex(&ev->set, FUTEX_WAIT, 0, &timeout);
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec - start.tv_sec > LOST_SECONDS)
			return false;
	}
	return true;
}

struct pair {
	/* the writer's words and the reader's, as in struct xway_chan_shm */
	u32 prod __attribute__((aligned(64)));
	u32 want_room;
	u32 cons __attribute__((aligned(64)));
	u32 want_data;
	struct event data __attribute__((aligned(64)));
	struct event room __attribute__((aligned(64)));
	void **pages;
	u32 size;
	u32 start;
	u32 burst;
	uint64_t total;
};

static void *writer(void *arg)
{
	struct pair *p = arg;
	u32 prod = p->start, seed = 3, used, n;
	uint64_t in = 0;

	while (in < p->total) {
		u32 cons = ring_load_acquire(&p->cons);

		CHECK(xway_ring_unread(prod, cons, p->size, &used), "prod %u cons %u", prod, cons);
		if (used == p->size) {
			/* As poll() does: worth an event when half is free. */
			xway_ring_arm(&p->want_room, prod - p->size / 2);
			if (ring_load_acquire(&p->cons) == cons)
				CHECK(event_wait(&p->room), "lost wake-up of the writer at %llu",
				      (unsigned long long)in);
			continue;
		}
		n = 1 + rnd(&seed) % p->burst;
		if (n > p->size - used)
			n = p->size - used;
		if (n > p->total - in)
			n = p->total - in;
		copy_in(p->pages, p->size, prod, n, in);
		if (xway_ring_publish(&p->prod, prod + n, prod, &p->want_data))
			event_ring(&p->data);
		prod += n;
		in += n;
	}
	return NULL;
}

static void *reader(void *arg)
{
	struct pair *p = arg;
	u32 cons = p->start, seed = 5, have, n;
	uint64_t out = 0;

	while (out < p->total) {
		u32 prod = ring_load_acquire(&p->prod);

		CHECK(xway_ring_unread(prod, cons, p->size, &have), "prod %u cons %u", prod, cons);
		if (!have) {
			xway_ring_arm(&p->want_data, prod + 1);
			if (ring_load_acquire(&p->prod) == prod)
				CHECK(event_wait(&p->data), "lost wake-up of the reader at %llu",
				      (unsigned long long)out);
			continue;
		}
		n = 1 + rnd(&seed) % p->burst;
		if (n > have)
			n = have;
		copy_out(p->pages, p->size, cons, n, out);
		if (xway_ring_publish(&p->cons, cons + n, cons, &p->want_room))
			event_ring(&p->room);
		cons += n;
		out += n;
	}
	return NULL;
}

/* Return: how often the two have slept. */
static u32 stress(u32 size, u32 burst, u32 start, uint64_t total)
{
	struct pair p = {
		.size = size,
		.burst = burst,
		.start = start,
		.total = total,
		.prod = start,
		.cons = start,
		.want_data = start + 1,
		.want_room = start,
	};
	pthread_t w, r;

	p.pages = pages_new(size);
	CHECK(!pthread_create(&r, NULL, reader, &p) && !pthread_create(&w, NULL, writer, &p),
	      "threads");
	pthread_join(w, NULL);
	pthread_join(r, NULL);
	CHECK(p.prod == (u32)(start + total) && p.cons == p.prod, "prod %u cons %u", p.prod,
	      p.cons);
	/* An event for each byte would be right too, but is not the point. */
	CHECK(p.data.rung <= p.data.slept + total / 2 + 1, "rung %u slept %u", p.data.rung,
	      p.data.slept);
	pages_free(p.pages, size);
	return p.data.slept + p.room.slept;
}

static void test_stress(void)
{
	uint64_t kib = 1024 * effort / 100;
	u32 slept = 0;

	slept += stress(4096, 4096, 0x7fffff00, 2048 * kib);
	slept += stress(4096, 2, -9000u, 64 * kib);
	slept += stress(4096, 30, -50000u, 512 * kib);
	slept += stress(16384, 40000, -70000u, 4096 * kib);
	slept += stress(131072, 65536, -1u, 8192 * kib);
	/* Two that run in step need not sleep in every one of these. */
	CHECK(slept, "nobody ever slept");
}

/*
 * Both stores before both loads, many times: with the barriers at least one
 * side sees the other's store, whatever the caches do.
 */
struct litmus {
	u32 prod __attribute__((aligned(64)));
	u32 want __attribute__((aligned(64)));
	u32 turn[2] __attribute__((aligned(64)));
	u32 rounds;
	uint8_t *rang;
	uint8_t *saw;
};

static void meet(struct litmus *l, int me, u32 round)
{
	u32 spins = 0;

	__atomic_store_n(&l->turn[me], round, __ATOMIC_RELEASE);
	while ((int)(__atomic_load_n(&l->turn[!me], __ATOMIC_ACQUIRE) - round) < 0)
		if (++spins % 1024 == 0)
			sched_yield();
}

/* Beside each other, not one after the other: one processor each. */
static void place(int me)
{
	cpu_set_t all, mine;
	int cpu;

	CHECK(!sched_getaffinity(getpid(), sizeof(all), &all), "affinity");
	CPU_ZERO(&mine);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && me-- == 0)
			CPU_SET(cpu, &mine);
	if (CPU_COUNT(&mine))
		pthread_setaffinity_np(pthread_self(), sizeof(mine), &mine);
}

static void *litmus_writer(void *arg)
{
	struct litmus *l = arg;
	u32 i, j;

	place(0);
	for (i = 0; i < l->rounds; i++) {
		/* Loads that hit the cache overtake stores that do not. */
		ring_load(&l->want);
		meet(l, 0, i + 1);
		for (j = i % 64; j > 32; j--)
			asm volatile("" ::: "memory");
		l->rang[i] = xway_ring_publish(&l->prod, i + 1, i, &l->want);
	}
	return NULL;
}

static void *litmus_reader(void *arg)
{
	struct litmus *l = arg;
	u32 i, j;

	place(1);
	for (i = 0; i < l->rounds; i++) {
		ring_load(&l->prod);
		meet(l, 1, i + 1);
		for (j = i % 64; j < 32; j++)
			asm volatile("" ::: "memory");
		xway_ring_arm(&l->want, i + 1);
		l->saw[i] = ring_load_acquire(&l->prod) == i + 1;
	}
	return NULL;
}

static void litmus(u32 rounds)
{
	struct litmus l = { .rounds = rounds };
	pthread_t w, r;
	u32 i;

	l.rang = calloc(l.rounds, 1);
	l.saw = calloc(l.rounds, 1);
	CHECK(!pthread_create(&r, NULL, litmus_reader, &l) &&
		      !pthread_create(&w, NULL, litmus_writer, &l),
	      "threads");
	pthread_join(w, NULL);
	pthread_join(r, NULL);
	for (i = 0; i < l.rounds; i++)
		CHECK(l.rang[i] || l.saw[i], "round %u: neither saw the other", i);
	free(l.rang);
	free(l.saw);
}

static void test_litmus(void)
{
	u32 i;

	for (i = 0; i < effort; i++)
		litmus(3000);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "unread", test_unread },   { "crossed", test_crossed }, { "at", test_at },
	{ "at_runs", test_at_runs }, { "model", test_model },	  { "stress", test_stress },
	{ "litmus", test_litmus },
};

int main(int argc, char **argv)
{
	const char *env = getenv("EFFORT");
	size_t i;
	int j;

	if (env)
		effort = strtoul(env, NULL, 10);
	for (j = 1; j < argc; j++) {
		for (i = 0; i < ARRAY_SIZE(cases); i++)
			if (!strcmp(cases[i].name, argv[j]))
				break;
		if (i == ARRAY_SIZE(cases)) {
			fprintf(stderr, "ring_test: no case %s\n", argv[j]);
			return 2;
		}
		cases[i].run();
	}
	for (i = 0; argc == 1 && i < ARRAY_SIZE(cases); i++)
		cases[i].run();
	return 0;
}
