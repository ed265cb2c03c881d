// SPDX-License-Identifier: GPL-2.0
/*
 * Stands in for the kernel under the whole of xway: libmnl's functions that
 * reach it are these. What it does is in the environment:
 *
 *   FAKE_ABSENT=1       no module is loaded
 *   FAKE_NO_SOCKETS=1   only the core is
 *   FAKE_OLD=1          the module is of the time before there was a core
 *   FAKE_CONNS=N        it holds N connections
 *   FAKE_STUCK=N        of which N never return after "off"
 *   FAKE_INODE=N        inode of the socket of the first one
 *   FAKE_DENY=TEXT      changes are refused, with this extended acknowledgement
 *   FAKE_INTR=N         the first N dumps are interrupted
 *   FAKE_RANDOM=SEED    attributes are random bytes
 */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/xway.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CORE 0x1b
#define SOCKETS 0x1c

struct mnl_socket {
	int nothing;
};

static char out[65536];
static struct nlmsghdr *last;
static size_t used, taken;
static uint32_t seq;
static bool multi, off;
static uint16_t family;
static int left = -1, dumps;

static int env(const char *name)
{
	const char *value = getenv(name);

	return value ? atoi(value) : 0;
}

static struct nlmsghdr *reply(uint8_t cmd)
{
	struct genlmsghdr *genl;

	if (last)
		used += MNL_ALIGN(last->nlmsg_len);
	last = mnl_nlmsg_put_header(out + used);
	last->nlmsg_type = family;
	last->nlmsg_seq = seq;
	if (multi)
		last->nlmsg_flags = NLM_F_MULTI;
	if (multi && dumps <= env("FAKE_INTR"))
		last->nlmsg_flags |= NLM_F_DUMP_INTR;
	genl = mnl_nlmsg_put_extra_header(last, sizeof(*genl));
	genl->cmd = cmd;
	return last;
}

static void end(int error, const char *text, const struct nlmsghdr *request)
{
	struct nlmsghdr *nlh = reply(0);

	nlh->nlmsg_len = NLMSG_HDRLEN;
	if (multi && !error) {
		*(int *)mnl_nlmsg_put_extra_header(nlh, sizeof(int)) = 0;
		nlh->nlmsg_type = NLMSG_DONE;
	} else {
		struct nlmsgerr *err = mnl_nlmsg_put_extra_header(nlh, sizeof(*err));

		err->error = error;
		err->msg = *request;
		nlh->nlmsg_type = NLMSG_ERROR;
		/* An error brings the request back, an acknowledgement does not. */
		if (error)
			memcpy(mnl_nlmsg_put_extra_header(nlh, request->nlmsg_len - NLMSG_HDRLEN),
			       request + 1, request->nlmsg_len - NLMSG_HDRLEN);
		else
			nlh->nlmsg_flags |= NLM_F_CAPPED;
		if (text) {
			nlh->nlmsg_flags |= NLM_F_ACK_TLVS;
			mnl_attr_put_strz(nlh, NLMSGERR_ATTR_MSG, text);
		}
	}
}

static void put_random(struct nlmsghdr *nlh)
{
	unsigned char bytes[64];

	for (int n = rand() % 12; n; n--) {
		struct nlattr *nest = NULL;

		if (rand() % 3 == 0)
			nest = mnl_attr_nest_start(nlh, rand() % (XWAY_A_MAX + 3));
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = rand() % 4 ? rand() : 1 + rand() % XWAY_A_MAX;
		mnl_attr_put(nlh, rand() % (XWAY_A_MAX + 3), rand() % 20, bytes);
		if (nest)
			mnl_attr_nest_end(nlh, nest);
	}
}

static int conns(void)
{
	if (left < 0)
		left = env("FAKE_CONNS");
	return left;
}

static void put_state(struct nlmsghdr *nlh)
{
	mnl_attr_put_strz(nlh, XWAY_A_VERSION, "0.7");
	if (family == SOCKETS) {
		mnl_attr_put_u8(nlh, XWAY_A_ON, !off);
		mnl_attr_put_u32(nlh, XWAY_A_CONNS, conns());
		/* After "off" they return one by one. */
		if (off && left > env("FAKE_STUCK"))
			left--;
		return;
	}
	mnl_attr_put_u32(nlh, XWAY_A_CHANNELS, 1);
	mnl_attr_put_u32(nlh, XWAY_A_PAGES, 512);
	mnl_attr_put_u32(nlh, XWAY_A_PAGES_USED, 96);
	mnl_attr_put_u32(nlh, XWAY_A_PAGES_MAX, 8192);
	mnl_attr_put_u32(nlh, XWAY_A_UNREVOKED, 0);
}

static void put_counter(struct nlmsghdr *nlh, const char *name, uint64_t value)
{
	struct nlattr *nest = mnl_attr_nest_start(nlh, XWAY_A_COUNTER);

	mnl_attr_put_strz(nlh, XWAY_A_NAME, name);
	mnl_attr_put_u64(nlh, XWAY_A_VALUE, value);
	mnl_attr_nest_end(nlh, nest);
}

static void put_stats(struct nlmsghdr *nlh, bool core)
{
	struct nlattr *nest = mnl_attr_nest_start(nlh, XWAY_A_STATS);

	if (core) {
		put_counter(nlh, "doorbell_posts", 11);
		put_counter(nlh, "doorbell_posts_saved", 12);
		put_counter(nlh, "keepalive_acks", 13);
	} else {
		put_counter(nlh, "attached", 7);
		put_counter(nlh, "bytes_ring", 5000000000ull);
		put_counter(nlh, "never", 0);
	}
	mnl_attr_nest_end(nlh, nest);
}

static void put_service(struct nlmsghdr *nlh, const char *name)
{
	struct nlattr *nest = mnl_attr_nest_start(nlh, XWAY_A_SERVICE);

	mnl_attr_put_strz(nlh, XWAY_A_NAME, name);
	mnl_attr_put_u32(nlh, XWAY_A_CONNS, conns());
	put_stats(nlh, false);
	mnl_attr_nest_end(nlh, nest);
}

static void put_net(struct nlmsghdr *nlh)
{
	struct nlattr *nest = mnl_attr_nest_start(nlh, XWAY_A_SERVICE);

	mnl_attr_put_strz(nlh, XWAY_A_NAME, "net");
	mnl_attr_put_strz(nlh, XWAY_A_DEVICE, "mm0");
	mnl_attr_put_strz(nlh, XWAY_A_VIFS, "eth0 eth1");
	mnl_attr_put_u32(nlh, XWAY_A_RING_KIB, 512);
	mnl_attr_put_u32(nlh, XWAY_A_PEER_RING_KIB, 128);
	mnl_attr_put_u32(nlh, XWAY_A_RX_USECS, 50);
	mnl_attr_put_u8(nlh, XWAY_A_ADAPTIVE_RX, 1);
	mnl_attr_put_u32(nlh, XWAY_A_QUEUES, 2);
	mnl_attr_put_strz(nlh, XWAY_A_STATE, "waiting");
	put_stats(nlh, false);
	mnl_attr_nest_end(nlh, nest);
}

static void put_peer(struct nlmsghdr *nlh)
{
	static const uint8_t v4[4] = { 10, 0, 0, 2 }, v6[16] = { 0xfd, [15] = 2 };
	struct nlattr *nest;

	mnl_attr_put_strz(nlh, XWAY_A_PEER_NAME, "xen:7");
	mnl_attr_put_strz(nlh, XWAY_A_PEER_STATE, "up");
	nest = mnl_attr_nest_start(nlh, XWAY_A_PEER_ADDR);
	mnl_attr_put(nlh, XWAY_A_ADDR, 4, v4);
	mnl_attr_put_u8(nlh, XWAY_A_PREFIX, 32);
	mnl_attr_nest_end(nlh, nest);
	nest = mnl_attr_nest_start(nlh, XWAY_A_PEER_ADDR);
	mnl_attr_put(nlh, XWAY_A_ADDR, 16, v6);
	mnl_attr_put_u8(nlh, XWAY_A_PREFIX, 64);
	mnl_attr_nest_end(nlh, nest);
	mnl_attr_put_u32(nlh, XWAY_A_CHANNELS, 1);
	mnl_attr_put_u32(nlh, XWAY_A_PAGES, 512);
	mnl_attr_put_u32(nlh, XWAY_A_SILENT, env("FAKE_SILENT"));
	put_service(nlh, "sockets");
	put_service(nlh, "other");
	if (env("FAKE_NET"))
		put_net(nlh);
}

static void put_conn(struct nlmsghdr *nlh, int i)
{
	static const uint8_t v4[4] = { 10, 0, 0, 1 }, v6[16] = { 0xfd, [15] = 1 };
	bool six = i % 2;

	mnl_attr_put_strz(nlh, XWAY_A_PEER_NAME, "xen:7");
	mnl_attr_put(nlh, XWAY_A_LOCAL, six ? 16 : 4, six ? v6 : v4);
	mnl_attr_put(nlh, XWAY_A_REMOTE, six ? 16 : 4, six ? v6 : v4);
	mnl_attr_put_u16(nlh, XWAY_A_LOCAL_PORT, 40000 + i);
	mnl_attr_put_u16(nlh, XWAY_A_REMOTE_PORT, 80);
	mnl_attr_put_strz(nlh, XWAY_A_STATE, "open");
	mnl_attr_put_strz(nlh, XWAY_A_TX, "ring");
	mnl_attr_put_strz(nlh, XWAY_A_RX, "tcp");
	mnl_attr_put_strz(nlh, XWAY_A_REASON, "peer-full");
	mnl_attr_put_u64(nlh, XWAY_A_TX_RING, 6442450944ull);
	mnl_attr_put_u64(nlh, XWAY_A_TX_TCP, 14336);
	mnl_attr_put_u64(nlh, XWAY_A_RX_RING, 0);
	mnl_attr_put_u64(nlh, XWAY_A_RX_TCP, 512);
	mnl_attr_put_u32(nlh, XWAY_A_RING_SIZE, 65536);
	mnl_attr_put_u64(nlh, XWAY_A_INODE, i ? 0 : env("FAKE_INODE"));
	mnl_attr_put_u32(nlh, XWAY_A_NETNS, 4026531840u);
}

static const char *check_request(const struct nlmsghdr *nlh, uint8_t cmd)
{
	const struct nlattr *attr;
	int addr = 0, prefix = -1, on = -1;

	mnl_attr_for_each(attr, nlh, sizeof(struct genlmsghdr)) {
		if (mnl_attr_get_type(attr) == XWAY_A_ADDR)
			addr = mnl_attr_get_payload_len(attr);
		else if (mnl_attr_get_type(attr) == XWAY_A_PREFIX)
			prefix = mnl_attr_get_u8(attr);
		else if (mnl_attr_get_type(attr) == XWAY_A_ON)
			on = mnl_attr_get_u8(attr);
	}
	if (cmd == XWAY_CMD_SET && on < 0)
		return "no XWAY_A_ON";
	if (cmd != XWAY_CMD_SET && !((addr == 4 && prefix == 8) || (addr == 16 && prefix == 128)))
		return "odd prefix";
	off = !on;
	return NULL;
}

/* Does the family of the request have this command? */
static bool has(uint8_t cmd)
{
	switch (cmd) {
	case XWAY_CMD_GET:
	case XWAY_CMD_GET_STATS:
		return true;
	case XWAY_CMD_GET_PEER:
	case XWAY_CMD_LOCAL_ADD:
	case XWAY_CMD_LOCAL_DEL:
		return family == CORE;
	default:
		return family == SOCKETS;
	}
}

static void take_command(const struct nlmsghdr *request, uint8_t cmd)
{
	const char *deny = getenv("FAKE_DENY");

	if (!has(cmd)) {
		end(-EOPNOTSUPP, NULL, request);
		return;
	}

	if (getenv("FAKE_RANDOM")) {
		for (int i = multi ? rand() % 4 : 1; i; i--)
			put_random(reply(cmd));
		cmd = 0;
	}
	switch (cmd) {
	case XWAY_CMD_GET:
		put_state(reply(cmd));
		break;
	case XWAY_CMD_GET_PEER:
		put_peer(reply(cmd));
		break;
	case XWAY_CMD_GET_CONN:
		for (int i = 0; i < conns(); i++)
			put_conn(reply(cmd), i);
		break;
	case XWAY_CMD_GET_STATS: {
		struct nlmsghdr *nlh = reply(cmd);
		struct nlattr *nest;

		put_stats(nlh, family == CORE);
		if (family == CORE)
			break;
		nest = mnl_attr_nest_start(nlh, XWAY_A_FALLBACKS);
		put_counter(nlh, "no-memory", 3);
		put_counter(nlh, "peer-fell-back", 4);
		mnl_attr_nest_end(nlh, nest);
		break;
	}
	case XWAY_CMD_SET:
	case XWAY_CMD_LOCAL_ADD:
	case XWAY_CMD_LOCAL_DEL:
		if (!deny)
			deny = check_request(request, cmd);
		if (deny) {
			end(*deny ? -EINVAL : -EPERM, *deny ? deny : NULL, request);
			return;
		}
	}
	end(0, NULL, request);
}

static void take_look_up(const struct nlmsghdr *request)
{
	const struct nlattr *attr;
	bool core = false;

	mnl_attr_for_each(attr, request, sizeof(struct genlmsghdr))
		core = !strcmp(mnl_attr_get_str(attr), XWAY_CORE_GENL_NAME);
	family = GENL_ID_CTRL;
	if (getenv("FAKE_ABSENT") || getenv(core ? "FAKE_OLD" : "FAKE_NO_SOCKETS")) {
		end(-ENOENT, NULL, request);
		return;
	}
	mnl_attr_put_u16(reply(CTRL_CMD_NEWFAMILY), CTRL_ATTR_FAMILY_ID, core ? CORE : SOCKETS);
	end(0, NULL, request);
}

struct mnl_socket *mnl_socket_open2(int bus, int flags)
{
	static struct mnl_socket socket;

	(void)flags;
	return bus == NETLINK_GENERIC ? &socket : NULL;
}

int mnl_socket_bind(struct mnl_socket *nl, unsigned int groups, pid_t pid)
{
	(void)nl;
	return groups || pid ? -1 : 0;
}

int mnl_socket_setsockopt(const struct mnl_socket *nl, int type, void *buf, socklen_t len)
{
	(void)nl, (void)type, (void)buf, (void)len;
	return 0;
}

int mnl_socket_close(struct mnl_socket *nl)
{
	(void)nl;
	return 0;
}

ssize_t mnl_socket_sendto(const struct mnl_socket *nl, const void *buf, size_t len)
{
	const struct nlmsghdr *nlh = buf;
	const struct genlmsghdr *genl = mnl_nlmsg_get_payload(nlh);

	(void)nl;
	if (getenv("FAKE_RANDOM") && !seq)
		srand(env("FAKE_RANDOM"));
	last = NULL;
	used = taken = 0;
	seq = nlh->nlmsg_seq;
	multi = (nlh->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
	dumps += multi;
	memset(out, 0, sizeof(out));
	if (nlh->nlmsg_type == GENL_ID_CTRL) {
		take_look_up(nlh);
	} else if (nlh->nlmsg_type == CORE || nlh->nlmsg_type == SOCKETS) {
		family = nlh->nlmsg_type;
		take_command(nlh, genl->cmd);
	}
	used += MNL_ALIGN(last->nlmsg_len);
	return len;
}

/* One message in each datagram, to show that none is taken for the last. */
ssize_t mnl_socket_recvfrom(const struct mnl_socket *nl, void *buf, size_t size)
{
	const struct nlmsghdr *nlh = (void *)(out + taken);
	size_t len = nlh->nlmsg_len;

	(void)nl;
	if (taken >= used || len > size)
		abort();
	memcpy(buf, nlh, len);
	taken += MNL_ALIGN(len);
	return len;
}
