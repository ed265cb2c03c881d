// SPDX-License-Identifier: GPL-2.0
#include <stdbool.h>
#include <stdio.h>

#include "cmd.h"
#include "model.h"
#include "out.h"

/* The devices of the peers that have one, each with its peer. */
static json_t *devices_of(const json_t *peers)
{
	json_t *devices = json_array(), *peer;
	size_t i;

	json_array_foreach(peers, i, peer) {
		json_t *net = json_object_get(json_object_get(peer, "services"), "net");

		if (!net)
			continue;
		net = json_copy(net);
		json_object_set(net, "peer", json_object_get(peer, "peer"));
		json_object_set(net, "addresses", json_object_get(peer, "addresses"));
		json_array_append_new(devices, net);
	}
	return devices;
}

/* A module older than the command tells nothing of these. */
static void print_rings(const json_t *device)
{
	json_int_t kib = json_integer_value(json_object_get(device, "ring_kib"));
	json_int_t peer_kib = json_integer_value(json_object_get(device, "peer_ring_kib"));
	json_int_t usecs = json_integer_value(json_object_get(device, "rx_usecs"));
	json_int_t queues = json_integer_value(json_object_get(device, "queues"));
	bool adaptive = json_is_true(json_object_get(device, "adaptive_rx"));

	if (!kib)
		return;
	printf("    rings: %" JSON_INTEGER_FORMAT " KiB to the peer", kib);
	if (peer_kib)
		printf(", %" JSON_INTEGER_FORMAT " KiB from it", peer_kib);
	if (queues > 1)
		printf(", in each of %" JSON_INTEGER_FORMAT " queues", queues);
	if (usecs || adaptive)
		printf("; waits %" JSON_INTEGER_FORMAT " us for more packets%s", usecs,
		       adaptive ? " (adaptive)" : "");
	putchar('\n');
}

static void print(const json_t *device)
{
	const char *vifs = json_string_value(json_object_get(device, "vifs"));

	printf("%s: to %s, %s\n", out_str(device, "device"), out_str(device, "peer"),
	       out_str(device, "state"));
	if (vifs && *vifs)
		printf("    carries packets of: %s\n", vifs);
	fputs("    addresses of the peer: ", stdout);
	out_words(json_object_get(device, "addresses"));
	putchar('\n');
	print_rings(device);
	out_counters(json_object_get(device, "stats"), "    ", 0);
}

int cmd_net(int argc, char **argv, const struct options *o)
{
	json_t *peers, *devices, *device;
	size_t i;

	if (no_arguments(argc, argv))
		return EXIT_USAGE;
	peers = model_peers_alone();
	if (!peers)
		return EXIT_FAILED;
	devices = devices_of(peers);
	json_decref(peers);
	if (o->json)
		out_json(devices);
	else if (!json_array_size(devices))
		puts("no devices (they need modprobe mmnet, and services=net in domain 0's policy)");
	else
		json_array_foreach(devices, i, device)
			print(device);
	json_decref(devices);
	return out_end();
}
