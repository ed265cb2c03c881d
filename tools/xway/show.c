// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "absent.h"
#include "cmd.h"
#include "model.h"
#include "out.h"

static void print_peers(const json_t *peers)
{
	const json_t *peer;
	char conns[48];
	size_t i;

	json_array_foreach(peers, i, peer) {
		printf("    %-10s %-10s %-16s ", out_str(peer, "peer"),
		       out_int(peer, "silent_s") > 1 ? "silent" : out_str(peer, "state"),
		       out_count(out_int(peer, "connections"), "connection", conns, sizeof(conns)));
		out_words(json_object_get(peer, "addresses"));
		putchar('\n');
	}
}

static const char *bytes(const json_t *state, const char *key, char text[OUT_BYTES])
{
	unsigned long long pages = out_int(state, key);

	return out_bytes(pages * sysconf(_SC_PAGESIZE), text);
}

static void print(const json_t *state)
{
	const json_t *peers = json_object_get(state, "peers");
	char a[48], b[48], c[48];

	bool sockets = json_is_true(json_object_get(state, "sockets"));

	printf("xway %s: %s\n", out_str(state, "version"),
	       !sockets ? "sockets are not accelerated (modprobe xway)" :
	       json_is_true(json_object_get(state, "on")) ? "on" :
							    "off");
	printf("  %s, %s\n", out_count(out_int(state, "connections"), "connection", a, sizeof(a)),
	       out_count(out_int(state, "channels"), "channel", b, sizeof(b)));
	printf("  memory: %s of at most %s, %s in rings\n", bytes(state, "pages", a),
	       bytes(state, "pages_max", b), bytes(state, "pages_used", c));
	if (out_int(state, "unrevoked"))
		printf("  %s not given back by peers yet\n",
		       out_count(out_int(state, "unrevoked"), "page", a, sizeof(a)));
	if (!json_array_size(peers)) {
		puts("  no peers");
		return;
	}
	puts("  peers:");
	print_peers(peers);
}

static void print_absent(void)
{
	json_t *absent = absent_find();

	out_json(absent);
	json_decref(absent);
}

int cmd_show(int argc, char **argv, const struct options *o)
{
	json_t *state, *peers;
	struct ipc *ipc;

	if (no_arguments(argc, argv))
		return EXIT_USAGE;
	ipc = ipc_open(IPC_CORE);
	if (!ipc) {
		if (o->json && errno == ENOENT)
			print_absent();
		return EXIT_FAILED;
	}
	state = model_state(ipc);
	peers = state ? model_peers(ipc) : NULL;
	ipc_close(ipc);
	if (!peers) {
		json_decref(state);
		return EXIT_FAILED;
	}
	json_object_set_new(state, "peers", peers);
	if (o->json)
		out_json(state);
	else
		print(state);
	json_decref(state);
	return out_end();
}
