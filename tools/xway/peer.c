// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>

#include "cmd.h"
#include "model.h"
#include "out.h"

static void print(const json_t *peer)
{
	long long silent = out_int(peer, "silent_s");
	char a[48], b[48];

	printf("%s: %s, %s, %s\n", out_str(peer, "peer"), out_str(peer, "state"),
	       out_count(out_int(peer, "connections"), "connection", a, sizeof(a)),
	       out_count(out_int(peer, "channels"), "channel", b, sizeof(b)));
	if (silent > 1)
		printf("    has not answered for %lld seconds\n", silent);
	printf("    addresses: ");
	out_words(json_object_get(peer, "addresses"));
	printf("\n    pages: %lld own, %lld of them in rings, %lld of the peer mapped\n",
	       out_int(peer, "pages"), out_int(peer, "pages_used"), out_int(peer, "pages_mapped"));
	out_counters(json_object_get(peer, "stats"), "    ", 0);
}

int cmd_peer(int argc, char **argv, const struct options *o)
{
	json_t *peers, *peer;
	size_t i;

	if (no_arguments(argc, argv))
		return EXIT_USAGE;
	peers = model_peers_alone();
	if (!peers)
		return EXIT_FAILED;
	if (o->json)
		out_json(peers);
	else
		json_array_foreach(peers, i, peer)
			print(peer);
	json_decref(peers);
	return out_end();
}
