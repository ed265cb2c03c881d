// SPDX-License-Identifier: GPL-2.0
/*
 * Random input for xwayd. "bytes": configuration files and offers that are near
 * to right ones. "steps": domains come and go, offers and policies change, and
 * after each rest XenStore must be what a few lines here say. "values": what
 * xwayd reads of XenStore is anything. With -DLIBFUZZER the same, and
 * libFuzzer's input is what chance would be.
 */
#include <string.h>

#include "memstore.h"
#include "xwayd/log.h"

static uint64_t state;
static const uint8_t *input, *input_end; /* libFuzzer's, if it is set */

static uint32_t rnd(uint32_t n)
{
	uint32_t number = 0;

	if (input) {
		for (int i = n > 256 ? 4 : 1; i && input < input_end; i--)
			number = number << 8 | *input++;
		return number % n;
	}
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 16) % n;
}

static size_t mutate(char *buf, size_t len, size_t max)
{
	static const char *const bits[] = { "group ",	  "address ", "allow all\n", "fd00::1",
					    "#",	  "\n",	      " ",	     "0",
					    "4294967296", "1 ",	      "/",	     "offer/1" };

	for (uint32_t n = rnd(4); n; n--) {
		const char *bit = bits[rnd(sizeof(bits) / sizeof(bits[0]))];
		size_t at = rnd(len + 1), bit_len = strlen(bit);

		switch (rnd(4)) {
		case 0:
			if (at < len)
				buf[at] = rnd(256);
			break;
		case 1:
			len = at;
			break;
		case 2:
			if (at < len) {
				memmove(buf + at, buf + at + 1, len - at - 1);
				len--;
			}
			break;
		case 3:
			if (len + bit_len < max) {
				memmove(buf + at + bit_len, buf + at, len - at);
				memcpy(buf + at, bit, bit_len);
				len += bit_len;
			}
			break;
		}
	}
	buf[len] = '\0';
	return len;
}

static void check_config(char *text, size_t len)
{
	char error[POLICY_ERROR] = "";
	struct policy *p;
	FILE *file;

	/* glibc's fmemopen() takes no empty buffer. */
	if (!len)
		return;
	file = fmemopen(text, len, "r");
	p = policy_parse(file, "f", error);
	fclose(file);
	/* Either a policy or a message with a line. */
	CHECK(!!p != !strncmp(error, "f:", 2));
	policy_free(p);
}

static void fuzz_config(void)
{
	static const char good[] =
		"# a comment\ngroup shop app1 db1\ngroup two\tapp1 aaaaaaaa-0000-4000-8000-000000000001\n"
		"address app1 10.0.0.5 fd00::5 # more\nallow all\n\n";
	char buf[512];

	memcpy(buf, good, sizeof(good));
	check_config(buf, mutate(buf, sizeof(good) - 1, sizeof(buf) - 1));
}

/* As doc/xenstore.md puts it, in another way than relay.c does. */
static bool is_offer(const char *text, size_t len, unsigned int from, unsigned int to)
{
	char again[128], nonce[32];
	unsigned long long gref, port;

	if (len > 64 || strlen(text) != len ||
	    sscanf(text, "1 %16[0-9a-f] %20llu %20llu", nonce, &gref, &port) != 3)
		return false;
	snprintf(again, sizeof(again), "1 %s %llu %llu", nonce, gref, port);
	return !strcmp(again, text) && strlen(nonce) == 16 && gref < 0x80000000ull &&
	       port < 131072 && (port == 0) == (from > to);
}

static void fuzz_offer(void)
{
	char buf[256];
	size_t len = snprintf(buf, sizeof(buf), "1 %08x%08x %u %u", rnd(UINT32_MAX),
			      rnd(UINT32_MAX), rnd(UINT32_MAX), rnd(3) ? rnd(200000) : 0);
	unsigned int from = rnd(4), to = rnd(4);

	len = mutate(buf, len, sizeof(buf) - 1);
	/* A domain makes itself no offer. */
	if (from != to)
		CHECK(offer_ok(buf, len, from, to) == is_offer(buf, len, from, to));
}

#define IDS 6

static struct mem m;
static struct xwayd x;

static struct {
	bool there;
	unsigned int life;
	char offer[IDS][300];
} dom[IDS];

static bool all;
static unsigned int group; /* bit i: domain i is in the one group */

static struct policy *policy(void)
{
	char text[256], error[POLICY_ERROR];
	struct policy *p;
	FILE *file;
	int n;

	all = !rnd(4);
	group = rnd(1 << IDS) | 1;
	n = snprintf(text, sizeof(text), "%sgroup g nobody", all ? "allow all\n" : "");
	for (int i = 1; i < IDS; i++)
		if (group & (1 << i))
			n += snprintf(text + n, sizeof(text) - n, " guest%d", i);
	file = fmemopen(text, n, "r");
	p = policy_parse(file, "f", error);
	fclose(file);
	CHECK(p);
	return p;
}

static void fuzz_event(void)
{
	static const char *const tokens[] = { "introduce", "release",	  "vifs",
					      "name/1",	   "vif/1",	  "offer/1",
					      "offer/5",   "offer/99999", "xapi" };
	static const char *const paths[] = { "/local/domain/1/data/xway/2", "@releaseDomain",
					     "/local/domain/0/backend/vif/1/0/ip",
					     "/libxl/1/device/vif/0/ip", "/xapi/x/private/vif" };
	char token[256], path[256];

	strcpy(token, tokens[rnd(9)]);
	strcpy(path, paths[rnd(5)]);
	mutate(token, strlen(token), sizeof(token) - 1);
	mutate(path, strlen(path), sizeof(path) - 1);
	xwayd_event(&x, path, token);
}

static void value_of(unsigned int i, char text[100])
{
	snprintf(text, 100, "%08x-0000-4000-8000-%012x 10.0.%u.%u", i, dom[i].life,
		 dom[i].life % 250, i);
}

static void set_offer(unsigned int p, unsigned int q)
{
	char path[STORE_PATH], value[100], *offer = dom[p].offer[q];
	const char *said;
	size_t len;

	/* While it knows the former domain of this id, it offers nothing to the new one. */
	snprintf(path, sizeof(path), "/local/domain/%u/xway/peer/%u", p, q);
	said = mem_get(&m, path);
	value_of(q, value);
	if (said && strcmp(said, value))
		return;
	snprintf(path, sizeof(path), "/local/domain/%u/data/xway/%u", p, q);
	if (!rnd(4)) {
		mem_rm(&m, path);
		*offer = '\0';
		return;
	}
	len = snprintf(offer, 200, "1 %016x %u %u", rnd(1000), rnd(1000), p < q ? 1 + rnd(100) : 0);
	if (!rnd(3))
		len = mutate(offer, len, 200);
	mem_put_bytes(&m, path, offer, len);
	if (!is_offer(offer, len, p, q))
		*offer = '\0';
}

static void step(void)
{
	unsigned int p = 1 + rnd(IDS - 1), q = rnd(IDS);
	char value[100], name[16];

	switch (rnd(10)) {
	case 0:
		if (dom[p].there) {
			if (rnd(2))
				mem_end(&m, p, rnd(2) ? "crash" : "poweroff");
			mem_destroy(&m, p);
			memset(&dom[p].offer, 0, sizeof(dom[p].offer));
		} else {
			dom[p].life++;
			value_of(p, value);
			snprintf(name, sizeof(name), "guest%u", p);
			/* As the others' modules do when they hear of it. */
			for (q = 0; q < IDS; q++) {
				char path[STORE_PATH];

				snprintf(path, sizeof(path), "/local/domain/%u/data/xway/%u", q, p);
				mem_rm(&m, path);
				dom[q].offer[p][0] = '\0';
			}
			value[36] = '\0';
			mem_create(&m, p, value, name, value + 37);
		}
		dom[p].there = !dom[p].there;
		break;
	case 1:
		xwayd_reload(&x, policy());
		break;
	case 2:
		m.fail = rnd(2) ? 5 : 2;
		break;
	case 3:
		fuzz_event();
		break;
	default:
		if (dom[p].there && p != q)
			set_offer(p, q);
	}
}

static void check_pair(unsigned int p, unsigned int q)
{
	bool may = dom[p].there && dom[q].there && (all || ((group >> p) & (group >> q) & 1));
	char path[STORE_PATH], value[100];
	const char *have;

	if (!dom[p].there)
		return;
	snprintf(path, sizeof(path), "/local/domain/%u/xway/peer/%u", p, q);
	have = mem_get(&m, path);
	value_of(q, value);
	if (may)
		CHECK(have && !strcmp(have, value));
	else
		/* It may be of one that had this id before. */
		CHECK(!have || !strncmp(have, "gone ", 5));
	snprintf(path, sizeof(path), "/local/domain/%u/xway/link/%u", p, q);
	have = mem_get(&m, path);
	if (may && dom[q].offer[p][0])
		CHECK(have && !strcmp(have, dom[q].offer[p]));
	else
		CHECK(!have);
}

static void check_restart(void)
{
	unsigned int writes = m.writes;
	struct policy *p = x.policy;

	x.policy = NULL;
	xwayd_stop(&x);
	mem_disconnect(&m);
	CHECK(!xwayd_start(&x, &m.store, p));
	mem_run(&m, &x, 2000);
	CHECK(m.writes == writes);
}

static void steps(int n)
{
	mem_init(&m);
	CHECK(!xwayd_start(&x, &m.store, policy()));
	for (int i = 0; i < n; i++) {
		for (uint32_t k = 1 + rnd(20); k; k--) {
			step();
			if (rnd(2))
				mem_run(&m, &x, rnd(300));
		}
		m.fail = 0;
		mem_run(&m, &x, 3000);
		for (unsigned int p = 1; p < IDS; p++)
			for (unsigned int q = 1; q < IDS; q++)
				if (p != q)
					check_pair(p, q);
		if (!rnd(4))
			check_restart();
	}
	xwayd_stop(&x);
	mem_free(&m);
}

/* Anything of up to so many bytes, with no byte of value 0 before its end */
static size_t anything(char *text, size_t max)
{
	size_t len = rnd(max);

	for (size_t i = 0; i < len; i++)
		text[i] = 1 + rnd(255);
	text[len] = '\0';
	return len;
}

/* A value that is nearly right, or anything */
static size_t value(char *text, size_t max)
{
	static const char *const good[] = {
		"10.0.0.5",
		"10.0.0.5/24 fd00::5",
		"10.0.0.5,10.0.0.6/32",
		"00:16:3e:00:00:01",
		"xenbr0",
		"12",
		"locked",
		"/local/domain/0/backend/vif/1/0",
		"1 0123456789abcdef 5 7",
		"deadbeef-dead-beef-dead-beef00000001",
		"guest1",
		"4294967296",
	};
	size_t n = sizeof(good) / sizeof(good[0]);

	if (!rnd(3))
		return anything(text, max);
	strcpy(text, good[rnd(n)]);
	return mutate(text, strlen(text), max - 1);
}

/* Toolstacks and guests write anything where xwayd reads. */
static void values(int n)
{
	static const char *const nodes[] = {
		"/local/domain/%u/name",
		"/local/domain/%u/data/xway/%u",
		"/local/domain/0/backend/vif/%u/%u/ip",
		"/local/domain/0/backend/vif/%u/%u/mac",
		"/local/domain/0/backend/vif/%u/%u/bridge",
		"/local/domain/0/backend/vif/%u/%u/state",
		"/local/domain/0/backend/vif/%u/%u/vlan",
		"/libxl/%u/device/vif/%u/ip",
		"/libxl/%u/device/vif/%u/mac",
		"/xapi/00000000-0000-4000-8000-%012u/private/vif/%u/ipv4-allowed",
		"/xapi/00000000-0000-4000-8000-%012u/private/vif/%u/ipv6-allowed",
		"/xapi/00000000-0000-4000-8000-%012u/private/vif/%u/locking-mode",
		"/xapi/00000000-0000-4000-8000-%012u/private/vif/%u/bridge",
		"/vm/00000000-0000-4000-8000-%012u/uuid",
		"/vm/00000000-0000-4000-8000-%012u/origin-uuid",
		"/xapi/00000000-0000-4000-8000-%012u/private/vif/%u",
	};
	char path[STORE_PATH], text[300], name[16];
	bool there[IDS] = {};

	mem_init(&m);
	CHECK(!xwayd_start(&x, &m.store, policy()));
	while (n-- && (!input || input < input_end)) {
		unsigned int p = 1 + rnd(IDS - 1);

		switch (rnd(12)) {
		case 0:
			if (there[p]) {
				mem_destroy(&m, p);
			} else {
				snprintf(text, sizeof(text), "00000000-0000-4000-8000-%012u", p);
				snprintf(name, sizeof(name), "guest%u", p);
				mem_create(&m, p, text, name, rnd(2) ? "10.0.0.1" : NULL);
			}
			there[p] = !there[p];
			break;
		case 1:
			xwayd_reload(&x, policy());
			break;
		case 2:
			fuzz_event();
			break;
		case 3:
			mem_run(&m, &x, rnd(300));
			break;
		default:
			snprintf(path, sizeof(path), nodes[rnd(sizeof(nodes) / sizeof(nodes[0]))],
				 p, rnd(3));
			if (rnd(8))
				mem_put_bytes(&m, path, text, value(text, sizeof(text)));
			else
				mem_rm(&m, path);
		}
	}
	mem_run(&m, &x, 3000);
	xwayd_stop(&x);
	mem_free(&m);
}

#ifdef LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = size ? calloc(1, size) : NULL; /* as long as the input, and its end is 0 */

	if (!text)
		return 0;
	memcpy(text, data + 1, size - 1);
	input = data + 1;
	input_end = data + size;
	switch (data[0] % 6) {
	case 0:
		check_config(text, size - 1);
		break;
	case 1:
		CHECK(offer_ok(text, size - 1, 1, 2) == is_offer(text, size - 1, 1, 2));
		CHECK(offer_ok(text, size - 1, 2, 1) == is_offer(text, size - 1, 2, 1));
		break;
	case 2:
		memset(dom, 0, sizeof(dom));
		steps(8);
		break;
	case 3:
		values(300);
		break;
	case 4:
		fuzz_config();
		break;
	case 5:
		fuzz_offer();
		break;
	}
	free(text);
	return 0;
}
#else
int main(int argc, char **argv)
{
	int n = argc > 2 ? atoi(argv[2]) : 0;

	if (argc != 4)
		return 2;
	state = strtoull(argv[3], NULL, 10) * 0x9e3779b97f4a7c15ull | 1;
	if (!strcmp(argv[1], "steps")) {
		steps(n);
		return 0;
	}
	if (!strcmp(argv[1], "values")) {
		values(n);
		return 0;
	}
	for (int i = 0; i < n; i++) {
		fuzz_config();
		fuzz_offer();
	}
	return 0;
}
#endif
