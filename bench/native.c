// SPDX-License-Identifier: GPL-2.0
/*
 * The ring's own code, natively: no guest, no kernel of ours.
 *
 *   native SIZE MS     bandwidth of messages of SIZE bytes, measured for MS each; prints a line of JSON
 *
 * ring: between two threads, each pinned to a CPU of its own, in stretches and with requests for events as
 * kernel/xway has them; who finds nothing to do spins. memcpy: one copy by one thread, from and to memory
 * as large as the ring. unix: a UNIX stream socket between the same two threads.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>

#include "measure.h"
#include "ring.h"

#define RING_SIZE (256u * 1024)
#define STRETCH 16384u

static struct {
	u32 prod __attribute__((aligned(64)));
	u32 want_room;
	u32 cons __attribute__((aligned(64)));
	u32 want_data;
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

static void *ring_writer(void *unused)
{
	u32 prod = 0, used;

	(void)unused;
	pin(1);
	while (phase < 2) {
		for (u32 done = 0; done < size && phase < 2;) {
			u32 n = size - done < STRETCH ? size - done : STRETCH;

			used = prod - ring_load_acquire(&shm.cons);
			if (RING_SIZE - used < n) {
				xway_ring_arm(&shm.want_room, prod - RING_SIZE / 2);
				continue;
			}
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
		if (!n) {
			xway_ring_arm(&shm.want_data, cons + 1);
			continue;
		}
		n = n < STRETCH ? n : STRETCH;
		copy(cons, to, n, false);
		xway_ring_publish(&shm.cons, cons + n, cons, &shm.want_room);
		cons += n;
		bytes += n;
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
	static unsigned char memory[RING_SIZE];
	u32 at = 0;

	pin(0);
	while (phase < 2) {
		if (!start && phase)
			start = now_ns(), bytes = 0;
		memcpy(memory + at, from, size < RING_SIZE ? size : RING_SIZE);
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
	double ring, alone, sockets;
	uint32_t ms;

	signal(SIGPIPE, SIG_IGN);
	if (argc != 3) {
		fputs("native SIZE MS\n", stderr);
		return 2;
	}
	size = number(argv[1], 1, MESSAGE_MAX, "SIZE");
	ms = number(argv[2], 1, 100000, "MS");
	memset(from, 0x55, sizeof(from));
	for (u32 i = 0; i < RING_SIZE / RING_PAGE_SIZE; i++)
		pages[i] = aligned_alloc(RING_PAGE_SIZE, RING_PAGE_SIZE);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		die("socketpair");
	alone = measured(NULL, copy_alone, ms);
	ring = measured(ring_writer, ring_read, ms);
	sockets = measured(unix_writer, unix_read, ms);
	printf("{\"size\": %u, \"ring_mb\": %.1f, \"memcpy_mb\": %.1f, \"unix_mb\": %.1f}\n", size,
	       ring, alone, sockets);
	return 0;
}
