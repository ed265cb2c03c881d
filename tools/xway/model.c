// SPDX-License-Identifier: GPL-2.0
#include "model.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/xway.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A dump of what changes all the time may never come out whole. */
#define DUMP_TRIES 5

enum kind { KIND_NONE, KIND_BOOL, KIND_UINT, KIND_STRING, KIND_ADDR, KIND_NETS, KIND_COUNTERS };

/* The attributes, and what they are called in JSON. */
static const struct {
	enum kind kind;
	const char *key;
} attrs[XWAY_A_MAX + 1] = {
	[XWAY_A_ON] = { KIND_BOOL, "on" },
	[XWAY_A_VERSION] = { KIND_STRING, "version" },
	[XWAY_A_CONNS] = { KIND_UINT, "connections" },
	[XWAY_A_CHANNELS] = { KIND_UINT, "channels" },
	[XWAY_A_PAGES] = { KIND_UINT, "pages" },
	[XWAY_A_PAGES_USED] = { KIND_UINT, "pages_used" },
	[XWAY_A_PAGES_MAX] = { KIND_UINT, "pages_max" },
	[XWAY_A_PAGES_MAPPED] = { KIND_UINT, "pages_mapped" },
	[XWAY_A_UNREVOKED] = { KIND_UINT, "unrevoked" },
	[XWAY_A_SILENT] = { KIND_UINT, "silent_s" },
	[XWAY_A_DEVICE] = { KIND_STRING, "device" },
	[XWAY_A_VIFS] = { KIND_STRING, "vifs" },
	[XWAY_A_RING_KIB] = { KIND_UINT, "ring_kib" },
	[XWAY_A_PEER_RING_KIB] = { KIND_UINT, "peer_ring_kib" },
	[XWAY_A_RX_USECS] = { KIND_UINT, "rx_usecs" },
	[XWAY_A_ADAPTIVE_RX] = { KIND_BOOL, "adaptive_rx" },
	[XWAY_A_QUEUES] = { KIND_UINT, "queues" },
	[XWAY_A_PEER_NAME] = { KIND_STRING, "peer" },
	[XWAY_A_PEER_STATE] = { KIND_STRING, "state" },
	[XWAY_A_PEER_ADDR] = { KIND_NETS, "addresses" },
	[XWAY_A_LOCAL] = { KIND_ADDR, "local" },
	[XWAY_A_REMOTE] = { KIND_ADDR, "remote" },
	[XWAY_A_LOCAL_PORT] = { KIND_UINT, "local_port" },
	[XWAY_A_REMOTE_PORT] = { KIND_UINT, "remote_port" },
	[XWAY_A_STATE] = { KIND_STRING, "state" },
	[XWAY_A_TX] = { KIND_STRING, "tx" },
	[XWAY_A_RX] = { KIND_STRING, "rx" },
	[XWAY_A_REASON] = { KIND_STRING, "reason" },
	[XWAY_A_TX_RING] = { KIND_UINT, "tx_ring" },
	[XWAY_A_TX_TCP] = { KIND_UINT, "tx_tcp" },
	[XWAY_A_RX_RING] = { KIND_UINT, "rx_ring" },
	[XWAY_A_RX_TCP] = { KIND_UINT, "rx_tcp" },
	[XWAY_A_RING_SIZE] = { KIND_UINT, "ring_size" },
	[XWAY_A_INODE] = { KIND_UINT, "inode" },
	[XWAY_A_NETNS] = { KIND_UINT, "netns" },
	[XWAY_A_STATS] = { KIND_COUNTERS, "stats" },
	[XWAY_A_FALLBACKS] = { KIND_COUNTERS, "fallbacks" },
};

/* Of whatever width it was sent. */
static json_t *get_uint(const struct nlattr *attr)
{
	const void *p = mnl_attr_get_payload(attr);
	uint64_t u64;
	uint32_t u32;
	uint16_t u16;

	switch (mnl_attr_get_payload_len(attr)) {
	case 1:
		return json_integer(*(const uint8_t *)p);
	case 2:
		memcpy(&u16, p, sizeof(u16));
		return json_integer(u16);
	case 4:
		memcpy(&u32, p, sizeof(u32));
		return json_integer(u32);
	case 8:
		memcpy(&u64, p, sizeof(u64));
		return json_integer(u64);
	}
	return NULL;
}

static json_t *get_string(const struct nlattr *attr)
{
	const char *text = mnl_attr_get_payload(attr);

	return json_stringn(text, strnlen(text, mnl_attr_get_payload_len(attr)));
}

static json_t *get_addr(const struct nlattr *attr, int prefix)
{
	size_t len = mnl_attr_get_payload_len(attr);
	char text[INET6_ADDRSTRLEN + 8];
	size_t end;

	if (len != 4 && len != 16)
		return NULL;
	inet_ntop(len == 4 ? AF_INET : AF_INET6, mnl_attr_get_payload(attr), text, sizeof(text));
	end = strlen(text);
	if (prefix >= 0 && (size_t)prefix != len * 8)
		snprintf(text + end, sizeof(text) - end, "/%d", prefix);
	return json_string(text);
}

static json_t *get_net(const struct nlattr *nest)
{
	const struct nlattr *attr, *addr = NULL;
	int prefix = -1;

	mnl_attr_for_each_nested(attr, nest) {
		if (mnl_attr_get_type(attr) == XWAY_A_ADDR)
			addr = attr;
		else if (mnl_attr_get_type(attr) == XWAY_A_PREFIX &&
			 mnl_attr_get_payload_len(attr) == 1)
			prefix = mnl_attr_get_u8(attr);
	}
	return addr ? get_addr(addr, prefix) : NULL;
}

static void put_counter(json_t *counters, const struct nlattr *nest)
{
	const struct nlattr *attr, *name = NULL;
	json_t *value = NULL, *key;

	mnl_attr_for_each_nested(attr, nest) {
		if (mnl_attr_get_type(attr) == XWAY_A_NAME)
			name = attr;
		else if (mnl_attr_get_type(attr) == XWAY_A_VALUE && !value)
			value = get_uint(attr);
	}
	key = name ? get_string(name) : NULL;
	if (key && value)
		json_object_set(counters, json_string_value(key), value);
	json_decref(key);
	json_decref(value);
}

static json_t *get_counters(const struct nlattr *nest)
{
	json_t *counters = json_object();
	const struct nlattr *attr;

	mnl_attr_for_each_nested(attr, nest)
		if (mnl_attr_get_type(attr) == XWAY_A_COUNTER)
			put_counter(counters, attr);
	return counters;
}

static void put_attr(json_t *object, const struct nlattr *attr)
{
	uint16_t type = mnl_attr_get_type(attr);
	enum kind kind = type <= XWAY_A_MAX ? attrs[type].kind : KIND_NONE;
	json_t *value = NULL, *array;

	switch (kind) {
	case KIND_NONE:
		return;
	case KIND_BOOL:
		value = get_uint(attr);
		if (value) {
			bool on = json_integer_value(value) != 0;

			json_decref(value);
			value = json_boolean(on);
		}
		break;
	case KIND_UINT:
		value = get_uint(attr);
		break;
	case KIND_STRING:
		value = get_string(attr);
		break;
	case KIND_ADDR:
		value = get_addr(attr, -1);
		break;
	case KIND_NETS:
		array = json_object_get(object, attrs[type].key);
		value = get_net(attr);
		if (array && value)
			json_array_append_new(array, value);
		return;
	case KIND_COUNTERS:
		value = get_counters(attr);
		break;
	}
	if (value)
		json_object_set_new(object, attrs[type].key, value);
}

static void take_object(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlattr *attr;

	mnl_attr_for_each(attr, nlh, sizeof(struct genlmsghdr))
		put_attr(arg, attr);
}

static void take_row(const struct nlmsghdr *nlh, void *arg)
{
	json_t *row = json_object();

	take_object(nlh, row);
	json_array_append_new(arg, row);
}

/* What one of the core's clients says of a peer; of sockets also beside the core's. */
static void put_service(json_t *row, const struct nlattr *nest)
{
	json_t *service = json_object(), *name = NULL;
	const struct nlattr *attr;

	mnl_attr_for_each_nested(attr, nest) {
		if (mnl_attr_get_type(attr) == XWAY_A_NAME && !name)
			name = get_string(attr);
		else
			put_attr(service, attr);
	}
	if (name && !strcmp(json_string_value(name), "sockets"))
		json_object_update(row, service);
	if (name)
		json_object_set(json_object_get(row, "services"), json_string_value(name), service);
	json_decref(name);
	json_decref(service);
}

static void take_peer(const struct nlmsghdr *nlh, void *arg)
{
	json_t *row = json_object();
	const struct nlattr *attr;

	/* A peer without addresses has an empty list, so that none is absent. */
	json_object_set_new(row, "addresses", json_array());
	json_object_set_new(row, "services", json_object());
	mnl_attr_for_each(attr, nlh, sizeof(struct genlmsghdr)) {
		if (mnl_attr_get_type(attr) == XWAY_A_SERVICE)
			put_service(row, attr);
		else
			put_attr(row, attr);
	}
	json_array_append_new(arg, row);
}

/* What the core says, and sockets if they are there; false after a complaint. */
static bool get_both(struct ipc *ipc, uint8_t cmd, const char *doing, json_t *core, json_t *sockets)
{
	if (!ipc_do(ipc, IPC_CORE, cmd, NULL, NULL, take_object, core) &&
	    (!ipc_has(ipc, IPC_SOCKETS) ||
	     !ipc_do(ipc, IPC_SOCKETS, cmd, NULL, NULL, take_object, sockets)))
		return true;
	ipc_complain(ipc, doing);
	return false;
}

static json_t *get_rows(struct ipc *ipc, enum ipc_family family, uint8_t cmd, ipc_take take,
			const char *doing)
{
	json_t *rows = json_array();

	for (int i = 0; i < DUMP_TRIES; i++) {
		json_array_clear(rows);
		if (!ipc_dump(ipc, family, cmd, take, rows))
			return rows;
		if (errno != EINTR) {
			ipc_complain(ipc, doing);
			json_decref(rows);
			return NULL;
		}
	}
	fprintf(stderr, "xway: %s: it changes all the time, so some may be missing or twice\n",
		doing);
	return rows;
}

json_t *model_state(struct ipc *ipc)
{
	json_t *state = json_object(), *sockets = json_object();
	bool ok = get_both(ipc, XWAY_CMD_GET, "cannot get the state", state, sockets);

	json_object_set_new(state, "sockets", json_boolean(ipc_has(ipc, IPC_SOCKETS)));
	json_object_update(state, sockets);
	json_decref(sockets);
	if (ok)
		return state;
	json_decref(state);
	return NULL;
}

json_t *model_peers(struct ipc *ipc)
{
	return get_rows(ipc, IPC_CORE, XWAY_CMD_GET_PEER, take_peer, "cannot list the peers");
}

json_t *model_peers_alone(void)
{
	struct ipc *ipc = ipc_open(IPC_CORE);
	json_t *peers;

	if (!ipc)
		return NULL;
	peers = model_peers(ipc);
	ipc_close(ipc);
	return peers;
}

/* @all: those as well that are not attached */
json_t *model_conns(struct ipc *ipc, bool all)
{
	json_t *conns = get_rows(ipc, IPC_SOCKETS, XWAY_CMD_GET_CONN, take_row,
				 "cannot list the connections"),
	       *others;

	if (!conns || !all)
		return conns;
	others = get_rows(ipc, IPC_SOCKETS, XWAY_CMD_GET_OTHER, take_row,
			  "cannot list the connections that are not attached");
	if (others) {
		json_array_extend(conns, others);
		json_decref(others);
		return conns;
	}
	json_decref(conns);
	return NULL;
}

json_t *model_stats(struct ipc *ipc)
{
	json_t *core = json_object(), *stats = json_object(), *counters;
	bool ok = get_both(ipc, XWAY_CMD_GET_STATS, "cannot get the counters", core, stats);

	counters = json_object_get(stats, "stats");
	if (!counters)
		json_object_set_new(stats, "stats", counters = json_object());
	json_object_update_missing(counters, json_object_get(core, "stats"));
	json_decref(core);
	if (ok)
		return stats;
	json_decref(stats);
	return NULL;
}
