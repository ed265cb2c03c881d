// SPDX-License-Identifier: GPL-2.0
/*
 * The fuzzer of the modules, by libFuzzer, in a User-mode kernel. An input is a list of
 * calls on sockets and devices of honest programs, and of steps of a hostile peer: see
 * kernel/core/selftest/fuzz.h. What the kernel says in complaint is its panic.
 *
 * XWAY_FUZZ_TEXTS is the modules' texts: BASE,SIZE in hexadecimal, with spaces between.
 * XWAY_FUZZ_SUM is a file that gets a byte for each counter: whether any input reached it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/selftest/fuzz.h"

/* libFuzzer's */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

#define PAIRS 3
#define STEPS 32 /* of a write() */

/* More than any receive queue and ring hold */
#define INQ_MAX (64 << 20)

/* What libFuzzer takes for counters, besides its own */
__attribute__((section("__libfuzzer_extra_counters"), used)) static uint8_t counters[FUZZ_COUNTERS];
static uint8_t *sum;

static int device = -1, listener = -1, packets[2] = { -1, -1 };
static int pairs[PAIRS][2];
static struct fuzz_step steps[STEPS];
static size_t n_steps;

/* What calls of honest programs are made of; the others are steps of the peer. */
enum { CALL_PAIR, CALL_SEND, CALL_RECV, CALL_ASK, CALL_CLOSE, CALL_OPTION, CALL_FRAME, CALLS };

#define CALL_FLAG 0x80 /* in the first byte of four: a call, not a step */

static void die(const char *what)
{
	perror(what);
	abort();
}

static void flush_steps(void)
{
	if (n_steps && write(device, steps, n_steps * sizeof(*steps)) < 0)
		die("a step");
	n_steps = 0;
}

static void add_step(struct fuzz_step step)
{
	step.what %= FUZZ_STEPS;
	steps[n_steps++] = step;
	if (n_steps == STEPS)
		flush_steps();
}

static void close_pair(int *pair)
{
	for (int i = 0; i < 2; i++) {
		if (pair[i] >= 0)
			close(pair[i]);
		pair[i] = -1;
	}
}

static void open_pair(int *pair)
{
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);

	close_pair(pair);
	pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (pair[0] < 0 || getsockname(listener, (void *)&addr, &len))
		die("socket");
	if (connect(pair[0], (void *)&addr, len) && errno != EINPROGRESS)
		die("connect");
	/* By the loopback device the handshake is over by now. */
	pair[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
}

static void call(const uint8_t *in)
{
	static const int flags[] = { 0, MSG_PEEK, MSG_TRUNC, MSG_WAITALL };
	static char buf[65536];
	int *pair = pairs[in[1] % PAIRS], end = pair[in[1] / PAIRS % 2];
	size_t len = 1 + in[2] * (in[3] & 1 ? 253u : 1u);
	struct tcp_info info;
	socklen_t info_len = sizeof(info);
	int value = in[2];

	switch (in[0] % CALLS) {
	case CALL_PAIR:
		open_pair(pair);
		break;
	case CALL_SEND:
		for (int i = 0; i < 1 + in[3] / 2 % 8; i++)
			send(end, buf, len, MSG_NOSIGNAL);
		break;
	case CALL_RECV:
		recv(end, buf, len, flags[in[3] / 2 % 4]);
		break;
	case CALL_ASK:
		if (in[3] & 1) {
			poll(&(struct pollfd){ .fd = end, .events = POLLIN | POLLOUT }, 1, 0);
		} else if (in[3] & 2) {
			if (!ioctl(end, SIOCINQ, &value) && (value < 0 || value > INQ_MAX))
				die("SIOCINQ");
		} else if (in[3] & 4) {
			ioctl(end, SIOCOUTQ, &value);
		} else {
			getsockopt(end, IPPROTO_TCP, TCP_INFO, &info, &info_len);
		}
		break;
	case CALL_CLOSE:
		if (in[3] & 1)
			shutdown(end, in[2] % 3);
		else
			close_pair(pair);
		break;
	case CALL_OPTION:
		if (in[3] & 1)
			setsockopt(end, SOL_SOCKET, SO_RCVLOWAT, &value, sizeof(value));
		else
			setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &value, sizeof(value));
		break;
	case CALL_FRAME:
		memset(buf, in[2], 14);
		buf[12] = 8 | (in[1] & 0x80);
		send(packets[in[1] & 1], buf, len < 60 ? 60 : len, MSG_DONTWAIT);
		break;
	}
}

/* Sockets without a protocol, which are for sending */
static void devices(void)
{
	for (int i = 0; i < 2; i++) {
		struct sockaddr_ll to = { .sll_family = AF_PACKET };
		char name[] = "mm0";

		name[2] = '0' + i;
		to.sll_ifindex = if_nametoindex(name);
		packets[i] = socket(AF_PACKET, SOCK_RAW, 0);
		if (!to.sll_ifindex || packets[i] < 0 || bind(packets[i], (void *)&to, sizeof(to)))
			die(name);
	}
}

static void add_texts(void)
{
	char *words = getenv("XWAY_FUZZ_TEXTS");

	for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) {
		unsigned long long base, size;

		if (sscanf(word, "%llx,%llx", &base, &size) != 2 ||
		    ioctl(device, FUZZ_IOC_TEXT, &(struct fuzz_text){ base, size }))
			die(word);
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int file = open(getenv("XWAY_FUZZ_SUM"), O_RDWR | O_CREAT, 0644);

	(void)argc;
	(void)argv;
	if (file < 0 || ftruncate(file, FUZZ_COUNTERS))
		die("XWAY_FUZZ_SUM");
	sum = mmap(NULL, FUZZ_COUNTERS, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	device = open("/dev/xway_fuzz", O_RDWR);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (sum == MAP_FAILED || device < 0 || listener < 0)
		die("/dev/xway_fuzz");
	if (bind(listener, (void *)&addr, sizeof(addr)) || listen(listener, 10))
		die("listen");
	add_texts();
	for (int i = 0; i < PAIRS; i++)
		pairs[i][0] = pairs[i][1] = -1;
	/* The links exist since the device was opened. */
	devices();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t len)
{
	struct fuzz_input whole = { (uintptr_t)in, len };
	size_t i;

	if (ioctl(device, FUZZ_IOC_INPUT, &whole))
		die("FUZZ_IOC_INPUT");
	for (i = 0; i < PAIRS; i++)
		if (pairs[i][0] < 0)
			open_pair(pairs[i]);
	while (len >= 4) {
		struct fuzz_step step = {};
		size_t n = in[0] & CALL_FLAG ? 4 : sizeof(step);

		if (in[0] & CALL_FLAG) {
			flush_steps();
			call(in);
		} else {
			memcpy(&step, in, len < n ? len : n);
			add_step(step);
		}
		if (len <= n)
			break;
		in += n;
		len -= n;
	}
	add_step((struct fuzz_step){ .what = FUZZ_PUMP });
	flush_steps();
	if (read(device, counters, sizeof(counters)) != sizeof(counters))
		die("counters");
	for (i = 0; i < FUZZ_COUNTERS; i += 8) {
		if (!*(uint64_t *)(counters + i))
			continue;
		for (size_t j = i; j < i + 8; j++)
			sum[j] |= !!counters[j];
	}
	return 0;
}

/* What of an input is one call or step */
static size_t record_len(const uint8_t *in, size_t left)
{
	size_t len = in[0] & CALL_FLAG ? 4 : sizeof(struct fuzz_step);

	return len < left ? len : left;
}

static uint32_t next(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* A value near a limit, mostly, that the victim sees at once */
static size_t new_record(uint8_t *to, uint32_t *state)
{
	uint32_t r = next(state), value = next(state);
	struct fuzz_step step = {
		.what = r % FUZZ_STEPS,
		.how = r >> 8,
		.at = next(state) % (r & 1u << 16 ? 65536 : 8),
		.value = value,
	};

	if (r >> 24 & 3)
		step.how |= FUZZ_HOW_LOOK;
	if (r >> 26 & 3)
		step.how &= ~FUZZ_HOW_FLICKER;
	if (r >> 28 & 3) {
		step.how |= FUZZ_HOW_LIMIT;
		if (next(state) & 3)
			step.value &= ~(1u << 16);
	} else {
		step.value >>= value % 32;
	}
	memcpy(to, &step, sizeof(step));
	if (r >> 30)
		return sizeof(step);
	to[0] = CALL_FLAG | r % CALLS;
	return 4;
}

/* Insert, replace or remove a call or a step. */
static size_t mutate(uint8_t *data, size_t size, size_t max, uint32_t *state)
{
	uint32_t how = next(state) % 8;
	size_t at = 0, old = 0, len = 0, records = 0;
	uint8_t record[sizeof(struct fuzz_step)];

	for (size_t i = 0; i < size; i += record_len(data + i, size - i))
		records++;
	records = next(state) % (records + 1);
	while (records--)
		at += record_len(data + at, size - at);
	if (how >= 4 && at < size)
		old = record_len(data + at, size - at);
	if (how < 6)
		len = new_record(record, state);
	if (size - old + len > max || !(size - old + len))
		return size;
	memmove(data + at + len, data + at + old, size - at - old);
	memcpy(data + at, record, len);
	return size - old + len;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned int seed)
{
	uint32_t state = seed | 1;

	if (!(next(&state) & 3))
		return LLVMFuzzerMutate(data, size, max);
	for (uint32_t n = 1 + next(&state) % 4; n; n--)
		size = mutate(data, size, max, &state);
	return size;
}
