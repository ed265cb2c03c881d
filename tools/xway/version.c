// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>

#include "cmd.h"
#include "model.h"
#include "out.h"

int cmd_version(int argc, char **argv, const struct options *o)
{
	json_t *state = NULL, *module = NULL, *result;
	struct ipc *ipc;

	if (no_arguments(argc, argv))
		return EXIT_USAGE;
	/* A module that is not there is no failure here. */
	ipc = ipc_try(IPC_CORE);
	if (ipc)
		state = model_state(ipc);
	ipc_close(ipc);
	if (state)
		module = json_object_get(state, "version");
	result = json_pack("{s:s, s:o}", "version", XWAY_VERSION, "module",
			   module ? json_incref(module) : json_null());
	json_decref(state);
	if (o->json)
		out_json(result);
	else
		printf("xway %s, module %s\n", XWAY_VERSION,
		       module ? out_str(result, "module") : "not loaded");
	json_decref(result);
	return out_end();
}
