// SPDX-License-Identifier: GPL-2.0
/*
 * The ring's own code, natively: no guest, no kernel of ours.
 *
 *   native SIZE MS     bandwidth of messages of SIZE bytes in MB/s, measured for MS each, medians of nine rounds;
 *                      prints a line of JSON
 *
 * ring: between two threads, each pinned to a CPU of its own, in stretches, and in memory of which 64 pages follow each
 * other, as kernel/tcp has them; who finds nothing to do spins, so nobody asks for an event, but each looks whether the
 * other did. pages: the same, and no two pages follow each other. memcpy: one copy by one thread, from and to memory
 * as large as the ring, which stays in its cache. relay: nothing but a memcpy at each end, by turns on the halves of
 * such memory: what two CPUs can do that pass bytes from cache to cache. unix: a UNIX stream socket between
 * the same two threads. ring_of_relay: the median of the rounds' ratios, as the two of a round come one right after
 * the other and some machines have fast and slow times.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>

#include "measure.h"
#include "ring.h"

#define RING_SIZE (1024u * 1024)
#define STRETCH 16384u
#define READ_STRETCH (RING_SIZE / 16) /* as xway_rx_ring() has it */

#define RUN 64 /* pages that follow each other */

#define ROUNDS 9

enum { RING, PAGES, RELAY, ALONE, UNIX, KINDS };

static const char *const names[KINDS] = { "ring", "pages", "relay", "memcpy", "unix" };

static struct {
	u32 prod __attribute__((aligned(64)));
	u32 cons __attribute__((aligned(64)));
	u32 want_room __attribute__((aligned(64)));
	u32 want_data __attribute__((aligned(64)));
	u32 events __attribute__((aligned(64)));
} shm;

static void *pages[RING_SIZE / RING_PAGE_SIZE];
static unsigned char from[MESSAGE_MAX], to[MESSAGE_MAX];
static u32 size;
static int fds[2];

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set))
		fprintf(stderr, "native: cannot pin a thread to CPU %d\n", cpu);
}

/* Have so many pages of the ring follow each other, and the next not. */
static void place(unsigned char *memory, u32 run)
{
	for (u32 i = 0; i < RING_SIZE / RING_PAGE_SIZE; i++)
		pages[i] = memory + (i + i / run) * RING_PAGE_SIZE;
}

/* Copy between memory and the ring from index @idx on. */
static void copy(u32 idx, unsigned char *memory, u32 len, bool in)
{
	for (u32 done = 0; done < len;) {
		u32 n = len - done;
		void *at = xway_ring_at(pages, idx + done, RING_SIZE, &n);

		if (in)
			memcpy(at, memory + done, n);
		else
			memcpy(memory + done, at, n);
		done += n;
	}
}

/* What is put at once, when so much of the message is in the ring already: as tx_stretch() has it. */
static u32 stretch(u32 left, u32 before, u32 used)
{
	u32 most = RING_SIZE / 4;

	if (left <= STRETCH)
		return left;
	before = before > used ? before : used;
	before = before > STRETCH ? before : STRETCH;
	most = before < most ? before : most;
	return left < most ? left : most;
}

static void *ring_writer(void *unused)
{
	u32 prod = 0, cons = 0;

	(void)unused;
	pin(1);
	while (phase < 2) {
		for (u32 done = 0; done < size && phase < 2;) {
			u32 left = size - done, used = 0, n;

			if (left > STRETCH)
				used = prod - ring_load_acquire(&shm.cons);
			n = stretch(left, done, used);
			if (RING_SIZE - (prod - cons) < n)
				cons = ring_load_acquire(&shm.cons);
			if (RING_SIZE - (prod - cons) < n)
				continue;
			copy(prod, from + done, n, true);
			if (xway_ring_publish(&shm.prod, prod + n, prod, &shm.want_data))
				__atomic_fetch_add(&shm.events, 1, __ATOMIC_RELAXED);
			prod += n;
			done += n;
		}
	}
	return NULL;
}

/* Return bytes and nanoseconds of the measured time. */
static double ring_read(void)
{
	uint64_t start = 0, bytes = 0;
	u32 cons = 0, n;

	pin(0);
	while (phase < 2) {
		if (!start && phase)
			start = now_ns(), bytes = 0;
		n = ring_load_acquire(&shm.prod) - cons;
		if (!n)
			continue;
		n = n < READ_STRETCH ? n : READ_STRETCH;
		copy(cons, to, n, false);
		xway_ring_publish(&shm.cons, cons + n, cons, &shm.want_room);
		cons += n;
		bytes += n;
	}
	return bytes * 1000.0 / (now_ns() - start);
}

/* Halves filled and emptied */
static struct {
	u32 filled __attribute__((aligned(64)));
	u32 emptied __attribute__((aligned(64)));
} turns;

static unsigned char shared[RING_SIZE] __attribute__((aligned(4096)));

static void *relay_writer(void *unused)
{
	u32 part = size < RING_SIZE / 2 ? size : RING_SIZE / 2;

	(void)unused;
	pin(1);
	for (u32 filled = 0; phase < 2;) {
		unsigned char *half = shared + filled % 2 * (RING_SIZE / 2);

		if (filled - ring_load_acquire(&turns.emptied) == 2)
			continue;
		for (u32 at = 0; at + part <= RING_SIZE / 2; at += part)
			memcpy(half + at, from, part);
		ring_store_release(&turns.filled, ++filled);
	}
	return NULL;
}

static double relay_read(void)
{
	u32 part = size < RING_SIZE / 2 ? size : RING_SIZE / 2;
	uint64_t start = 0, bytes = 0;

	pin(0);
	for (u32 emptied = 0; phase < 2;) {
		unsigned char *half = shared + emptied % 2 * (RING_SIZE / 2);

		if (!start && phase)
			start = now_ns(), bytes = 0;
		if (ring_load_acquire(&turns.filled) == emptied)
			continue;
		for (u32 at = 0; at + part <= RING_SIZE / 2; at += part, bytes += part)
			memcpy(to, half + at, part);
		ring_store_release(&turns.emptied, ++emptied);
	}
	return bytes * 1000.0 / (now_ns() - start);
}

static void *unix_writer(void *unused)
{
	(void)unused;
	pin(1);
	while (write(fds[1], from, size) > 0)
		;
	return NULL;
}

static double unix_read(void)
{
	uint64_t start = 0, bytes = 0;
	ssize_t n;

	pin(0);
	while (phase < 2) {
		if (!start && phase)
			start = now_ns(), bytes = 0;
		n = read(fds[0], to, READ_SIZE);
		if (n > 0)
			bytes += n;
	}
	n = bytes * 1000.0 / (now_ns() - start);
	close(fds[0]);
	return n;
}

static double copy_alone(void)
{
	uint64_t start = 0, bytes = 0;
	u32 at = 0;

	pin(0);
	while (phase < 2) {
		if (!start && phase)
			start = now_ns(), bytes = 0;
		memcpy(shared + at, from, size < RING_SIZE ? size : RING_SIZE);
		__asm__ volatile("" ::: "memory");
		bytes += size < RING_SIZE ? size : RING_SIZE;
		at = (at + size) % RING_SIZE;
		if (at + size > RING_SIZE)
			at = 0;
	}
	return bytes * 1000.0 / (now_ns() - start);
}

static double measured(void *(*writer)(void *), double (*reader)(void), uint32_t ms)
{
	pthread_t thread;
	double found;

	start_phases(ms / 4 + 1, ms);
	if (writer && pthread_create(&thread, NULL, writer, NULL))
		die("pthread_create");
	found = reader();
	stop_phases();
	if (writer)
		pthread_join(thread, NULL);
	return found;
}

int main(int argc, char **argv)
{
	double found[KINDS][ROUNDS], of_relay[ROUNDS];
	unsigned char *memory;
	uint32_t ms;

	signal(SIGPIPE, SIG_IGN);
	if (argc != 3) {
		fputs("native SIZE MS\n", stderr);
		return 2;
	}
	size = number(argv[1], 1, MESSAGE_MAX, "SIZE");
	ms = number(argv[2], 1, 100000, "MS");
	memset(from, 0x55, sizeof(from));
	memory = aligned_alloc(RING_PAGE_SIZE, 2 * RING_SIZE);
	if (!memory)
		die("aligned_alloc");
	memset(memory, 0, 2 * RING_SIZE);
	for (int round = 0; round < ROUNDS; round++) {
		memset(&shm, 0, sizeof(shm));
		memset(&turns, 0, sizeof(turns));
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
			die("socketpair");
		found[ALONE][round] = measured(NULL, copy_alone, ms);
		found[RELAY][round] = measured(relay_writer, relay_read, ms);
		place(memory, RUN);
		found[RING][round] = measured(ring_writer, ring_read, ms);
		of_relay[round] = found[RING][round] / found[RELAY][round];
		memset(&shm, 0, sizeof(shm));
		place(memory, 1);
		found[PAGES][round] = measured(ring_writer, ring_read, ms);
		found[UNIX][round] = measured(unix_writer, unix_read, ms);
		close(fds[1]);
	}
	printf("{\"size\": %u", size);
	for (int kind = 0; kind < KINDS; kind++) {
		qsort(found[kind], ROUNDS, sizeof(double), by_value);
		printf(", \"%s_mb\": %.0f", names[kind], found[kind][ROUNDS / 2]);
	}
	qsort(of_relay, ROUNDS, sizeof(double), by_value);
	printf(", \"ring_of_relay\": %.3f}\n", of_relay[ROUNDS / 2]);
	return 0;
}
