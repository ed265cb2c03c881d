// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>

#include "cmd.h"
#include "model.h"
#include "out.h"

/* Names of the version before, which JSON keeps for this one. Reasons have no second name: they add up. */
static void add_old_names(json_t *counters)
{
	static const char *const names[][2] = {
		{ "companion_acks", "keepalive_acks" },
		{ "bells_sent", "doorbell_posts" },
		{ "bells_saved", "doorbell_posts_saved" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		json_t *value = json_object_get(counters, names[i][1]);

		if (value)
			json_object_set(counters, names[i][0], value);
	}
}

int cmd_stats(int argc, char **argv, const struct options *o)
{
	struct ipc *ipc;
	json_t *stats;

	if (no_arguments(argc, argv))
		return EXIT_USAGE;
	ipc = ipc_open(IPC_CORE);
	if (!ipc)
		return EXIT_FAILED;
	stats = model_stats(ipc);
	ipc_close(ipc);
	if (!stats)
		return EXIT_FAILED;
	if (o->json) {
		add_old_names(json_object_get(stats, "stats"));
		out_json(stats);
	} else {
		out_counters(json_object_get(stats, "stats"), "", 1);
		puts("connections on TCP, by reason:");
		out_counters(json_object_get(stats, "fallbacks"), "  ", 0);
	}
	json_decref(stats);
	return out_end();
}
