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
#include <linux/genetlink.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/selftest/fuzz.h"
#include "../include/uapi/linux/xway.h"

/* libFuzzer's */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

#define PAIRS 3
#define STEPS 32   /* of a write() */
#define FRAMES 8   /* by one */
#define PREFIXES 8 /* that one input gives to the transport "local" */

/* More than any receive queue and ring hold */
#define INQ_MAX (64 << 20)

/* What libFuzzer takes for counters, besides its own: those of the device are mapped here. */
__attribute__((section("__libfuzzer_extra_counters"), used,
	       aligned(4096))) static uint8_t counters[FUZZ_COUNTERS];
static uint8_t *sum;

/* A request by netlink, which gets longer until it is sent */
struct request {
	struct nlmsghdr head;
	struct genlmsghdr genl;
	uint8_t attrs[256];
};

static int device = -1, listener = -1, netlink = -1, packets[2] = { -1, -1 };
static uint16_t families[2];
static struct request request, added[PREFIXES];
static size_t n_added;
static int set; /* acceleration was turned on or off */
static int pairs[PAIRS][2];
static char value[FUZZ_VALUE_MAX];
static size_t value_len;

static struct fuzz_step steps[STEPS]; /* that come next */
static size_t n_steps;

/* Calls that are made by one, and what each of them points to */
static struct fuzz_call batch[FUZZ_CALLS_MAX];
static size_t n_batch, n_frames;
static struct fuzz_step batch_steps[FUZZ_CALLS_MAX][STEPS];
static struct pollfd polled[FUZZ_CALLS_MAX];
static struct tcp_info infos[FUZZ_CALLS_MAX];
static int ints[FUZZ_CALLS_MAX];
static uint8_t frames[FRAMES][65536], buf[65536];

/* What calls of honest programs are made of; the others are steps of the peer. */
enum {
	CALL_PAIR,
	CALL_SEND,
	CALL_RECV,
	CALL_ASK,
	CALL_CLOSE,
	CALL_OPTION,
	CALL_FRAME,
	CALL_ATTR,
	CALL_NETLINK,
	CALL_WORD, /* a value of XenStore gets longer */
	CALL_VALUE,
	CALLS
};

#define CALL_FLAG 0x80 /* in the first byte of four: a call, not a step */

static void die(const char *what)
{
	perror(what);
	abort();
}

/* ---- calls ---- */

/* What none of them may return, whatever the peer writes */
static void judge(const struct fuzz_call *call, int value)
{
	errno = call->result < 0 ? -call->result : 0;
	if (call->nr == SYS_write && call->result < 0)
		die("a step");
	if (call->nr == SYS_connect && call->result && call->result != -EINPROGRESS)
		die("connect");
	if (call->nr == SYS_ioctl && call->args[1] == SIOCINQ && !call->result &&
	    (value < 0 || value > INQ_MAX))
		die("SIOCINQ");
}

static void make_calls(void)
{
	struct fuzz_calls all = { (uintptr_t)batch, n_batch };

	if (n_batch && ioctl(device, FUZZ_IOC_CALLS, &all))
		die("FUZZ_IOC_CALLS");
	for (size_t i = 0; i < n_batch; i++)
		judge(&batch[i], ints[i]);
	n_batch = n_frames = 0;
}

#define ADD_CALL(nr, ...) add_call((struct fuzz_call){ nr, 0, { __VA_ARGS__ }, 0 })

static void add_call(struct fuzz_call call)
{
	batch[n_batch++] = call;
	if (n_batch == FUZZ_CALLS_MAX)
		make_calls();
}

static void flush_steps(void)
{
	size_t size = n_steps * sizeof(*steps);

	if (!n_steps)
		return;
	memcpy(batch_steps[n_batch], steps, size);
	n_steps = 0;
	ADD_CALL(SYS_write, device, (uintptr_t)batch_steps[n_batch], size);
}

static void add_step(struct fuzz_step step)
{
	step.what %= FUZZ_STEPS;
	steps[n_steps++] = step;
	if (n_steps == STEPS)
		flush_steps();
}

/* Ends with all calls made: the ends are let go of when they return. */
static void close_pair(int *pair)
{
	if (pair[0] < 0)
		return;
	for (int i = 0; i < 2; i++) {
		if (pair[i] >= 0)
			ADD_CALL(SYS_close, pair[i]);
		pair[i] = -1;
	}
	make_calls();
}

static void open_pair(int *pair)
{
	static struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	struct fuzz_call *made;

	close_pair(pair);
	make_calls();
	if (!addr.sin_port && getsockname(listener, (void *)&addr, &len))
		die("getsockname");
	made = batch;
	ADD_CALL(SYS_socket, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	add_call((struct fuzz_call){ SYS_connect, 1, { 0, (uintptr_t)&addr, sizeof(addr) }, 0 });
	/* By the loopback device the handshake is over by now. */
	ADD_CALL(SYS_accept4, listener, 0, 0, SOCK_NONBLOCK);
	make_calls();
	pair[0] = made[0].result;
	pair[1] = made[2].result;
	if (pair[0] < 0)
		die("socket");
}

/* ---- netlink ---- */

static void clear_request(void)
{
	memset(&request, 0, sizeof(request));
	request.head.nlmsg_len = offsetof(struct request, attrs);
}

/* @size: of the payload; its first byte is @first, the others are 0. @len: what the attribute says */
static void add_attr(int type, size_t size, size_t len, int first)
{
	size_t at = request.head.nlmsg_len, whole = NLA_ALIGN(NLA_HDRLEN + size);
	struct nlattr *attr = (void *)((char *)&request + at);

	if (at + whole > sizeof(request))
		return;
	attr->nla_type = type;
	attr->nla_len = NLA_HDRLEN + len;
	if (size)
		*(uint8_t *)(attr + 1) = first;
	request.head.nlmsg_len = at + whole;
}

static size_t answer(void *buf, size_t size)
{
	ssize_t len = recv(netlink, buf, size, MSG_DONTWAIT);

	return len < 0 ? 0 : len;
}

static void send_request(int family, int cmd, int flags)
{
	static char buf[32768];

	make_calls();
	request.head.nlmsg_type = family;
	request.head.nlmsg_flags = NLM_F_REQUEST | flags;
	request.genl.cmd = cmd;
	request.genl.version = XWAY_GENL_VERSION;
	if (send(netlink, &request, request.head.nlmsg_len, 0) < 0)
		die("a request by netlink");
	/* Each look has a dump go on. */
	while (answer(buf, sizeof(buf)))
		;
}

/* What an input has added and set is undone after it. */
static void ask(const uint8_t *in)
{
	static const int flags[] = { 0, NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP | NLM_F_ACK };
	int core = in[1] & 1, cmd = in[2] % (XWAY_CMD_MAX + 2);

	if (core && cmd == XWAY_CMD_LOCAL_ADD) {
		if (n_added == PREFIXES)
			return;
		added[n_added++] = request;
	}
	set |= !core && cmd == XWAY_CMD_SET;
	send_request(families[core], cmd, flags[in[1] / 2 % 4]);
	clear_request();
}

static void undo(void)
{
	value_len = 0;
	if (!set && !n_added)
		return;
	while (n_added) {
		request = added[--n_added];
		send_request(families[1], XWAY_CMD_LOCAL_DEL, 0);
	}
	clear_request();
	add_attr(XWAY_A_ON, 1, 1, 1);
	send_request(families[0], XWAY_CMD_SET, 0);
	clear_request();
	/* What was open stays on TCP. */
	for (int i = 0; i < PAIRS; i++)
		close_pair(pairs[i]);
	set = 0;
}

static uint16_t find_family(const char *name)
{
	struct request reply;
	size_t len, at = offsetof(struct request, attrs);

	clear_request();
	add_attr(CTRL_ATTR_FAMILY_NAME, strlen(name) + 1, strlen(name) + 1, 0);
	memcpy(request.attrs + NLA_HDRLEN, name, strlen(name));
	request.head.nlmsg_type = GENL_ID_CTRL;
	request.head.nlmsg_flags = NLM_F_REQUEST;
	request.genl.cmd = CTRL_CMD_GETFAMILY;
	if (send(netlink, &request, request.head.nlmsg_len, 0) < 0)
		die(name);
	len = answer(&reply, sizeof(reply));
	while (at + NLA_HDRLEN <= len) {
		const struct nlattr *attr = (void *)((char *)&reply + at);

		if (attr->nla_type == CTRL_ATTR_FAMILY_ID)
			return *(uint16_t *)(attr + 1);
		at += NLA_ALIGN(attr->nla_len);
	}
	die(name);
	return 0;
}

/* ---- XenStore ---- */

/* Words that values have, some of them several times; or any three characters */
static void add_word(const uint8_t *in)
{
	static const char *const words[] = {
		" ",
		"1 0123456789abcdef 8 9",
		"gone ",
		" 10.0.0.1",
		" fd00::1",
		" ::ffff:1.2.3.4",
		"7.0",
		"4294967296",
		"0 00:16:3e:00:00:01 ",
		"00:16:3e:00:00",
		"*",
		"31",
	};
	size_t n = sizeof(words) / sizeof(*words), which = in[1] % (n + 4);
	const char *word = which < n ? words[which] : (const char *)in + 1;
	size_t len = which < n ? strlen(words[which]) : 3;
	int times = which < n ? 1 + in[2] % 4 : 1;

	while (times-- && value_len + len < sizeof(value)) {
		memcpy(value + value_len, word, len);
		value_len += len;
	}
}

static void read_value(void)
{
	struct fuzz_value in = { (uintptr_t)value, value_len };

	make_calls();
	if (ioctl(device, FUZZ_IOC_VALUE, &in))
		die("FUZZ_IOC_VALUE");
	value_len = 0;
}

static void ask_socket(int end, const uint8_t *in)
{
	struct pollfd *poll = &polled[n_batch];
	int *value = &ints[n_batch];

	*value = in[2];
	if (in[3] & 1) {
		*poll = (struct pollfd){ .fd = end, .events = POLLIN | POLLOUT };
		ADD_CALL(SYS_poll, (uintptr_t)poll, 1, 0);
	} else if (in[3] & 2) {
		ADD_CALL(SYS_ioctl, end, SIOCINQ, (uintptr_t)value);
	} else if (in[3] & 4) {
		ADD_CALL(SYS_ioctl, end, SIOCOUTQ, (uintptr_t)value);
	} else {
		*value = sizeof(infos[0]);
		ADD_CALL(SYS_getsockopt, end, IPPROTO_TCP, TCP_INFO, (uintptr_t)&infos[n_batch],
			 (uintptr_t)value);
	}
}

static void send_frame(const uint8_t *in, size_t len)
{
	uint8_t *frame = frames[n_frames++];

	memset(frame, in[2], 14);
	frame[12] = 8 | (in[1] & 0x80);
	ADD_CALL(SYS_sendto, packets[in[1] & 1], (uintptr_t)frame, len < 60 ? 60 : len,
		 MSG_DONTWAIT);
	if (n_frames == FRAMES)
		make_calls();
}

static void call(const uint8_t *in)
{
	static const int flags[] = { 0, MSG_PEEK, MSG_TRUNC, MSG_WAITALL };
	int *pair = pairs[in[1] % PAIRS], end = pair[in[1] / PAIRS % 2];
	size_t len = 1 + in[2] * (in[3] & 1 ? 253u : 1u);
	int option = in[3] & 1;

	switch ((in[0] & ~CALL_FLAG) % CALLS) {
	case CALL_PAIR:
		open_pair(pair);
		break;
	case CALL_SEND:
		for (int i = 0; i < 1 + in[3] / 2 % 8; i++)
			ADD_CALL(SYS_sendto, end, (uintptr_t)buf, len, MSG_NOSIGNAL);
		break;
	case CALL_RECV:
		ADD_CALL(SYS_recvfrom, end, (uintptr_t)buf, len, flags[in[3] / 2 % 4]);
		break;
	case CALL_ASK:
		ask_socket(end, in);
		break;
	case CALL_CLOSE:
		if (in[3] & 1)
			ADD_CALL(SYS_shutdown, end, in[2] % 3);
		else
			close_pair(pair);
		break;
	case CALL_OPTION:
		ints[n_batch] = in[2];
		ADD_CALL(SYS_setsockopt, end, option ? SOL_SOCKET : IPPROTO_TCP,
			 option ? SO_RCVLOWAT : TCP_NODELAY, (uintptr_t)&ints[n_batch],
			 sizeof(ints[0]));
		break;
	case CALL_FRAME:
		send_frame(in, len);
		break;
	case CALL_ATTR:
		add_attr(in[1] % (XWAY_A_MAX + 2), in[2] % 24, in[2] % 24 + in[2] / 32 * 64, in[3]);
		break;
	case CALL_NETLINK:
		ask(in);
		break;
	case CALL_WORD:
		add_word(in);
		break;
	case CALL_VALUE:
		read_value();
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
	if (mmap(counters, sizeof(counters), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, device,
		 0) == MAP_FAILED)
		die("counters");
	if (bind(listener, (void *)&addr, sizeof(addr)) || listen(listener, 10))
		die("listen");
	netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC);
	if (netlink < 0)
		die("netlink");
	families[0] = find_family(XWAY_GENL_NAME);
	families[1] = find_family(XWAY_CORE_GENL_NAME);
	clear_request();
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

	ADD_CALL(SYS_ioctl, device, FUZZ_IOC_INPUT, (uintptr_t)&whole);
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
	undo();
	add_step((struct fuzz_step){ .what = FUZZ_PUMP });
	flush_steps();
	make_calls();
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
	if (r % CALLS == CALL_ATTR && next(state) & 1) {
		/* An address of one byte that counts, or a small number */
		to[1] = next(state) & 1 ? XWAY_A_ADDR : next(state) & 1 ? XWAY_A_PREFIX : XWAY_A_ON;
		to[2] = to[1] != XWAY_A_ADDR ? 1 : next(state) & 1 ? 4 : 16;
	}
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
