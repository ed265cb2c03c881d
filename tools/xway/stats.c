// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>

#include "cmd.h"
#include "model.h"
#include "out.h"

int cmd_stats(int argc, char **argv, const struct options *o)
{
	struct ipc *ipc;
	json_t *stats;

	if (no_arguments(argc, argv))
		return EXIT_USAGE;
	ipc = ipc_open();
	if (!ipc)
		return EXIT_FAILED;
	stats = model_stats(ipc);
	ipc_close(ipc);
	if (!stats)
		return EXIT_FAILED;
	if (o->json) {
		out_json(stats);
	} else {
		out_counters(json_object_get(stats, "stats"), "", 1);
		puts("connections on TCP, by reason:");
		out_counters(json_object_get(stats, "fallbacks"), "  ", 0);
	}
	json_decref(stats);
	return out_end();
}
