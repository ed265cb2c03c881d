// SPDX-License-Identifier: GPL-2.0
#include "holders.h"

#include <unistd.h>

#include "cmd.h"
#include "model.h"
#include "out.h"
#include "proc.h"

json_t *holders_get(struct ipc *ipc)
{
	json_t *conns = model_conns(ipc, false);
	long long references;

	if (!conns)
		return NULL;
	proc_find_holders(conns);
	references = proc_module_references();
	return json_pack("{s:o, s:o}", "references",
			 references < 0 ? json_null() : json_integer(references), "connections",
			 conns);
}

static const char *nobody(const json_t *conn)
{
	if (!out_int(conn, "inode"))
		return "no process: it is closed and not yet at its end, "
		       "or a call that began in it goes on by TCP";
	if (geteuid())
		return "no process of yours (root sees all)";
	return "no process: the kernel itself, or a descriptor on its way between two processes";
}

static void print_conn(const json_t *conn)
{
	const json_t *processes = json_object_get(conn, "processes"), *process;
	char local[80], remote[80];
	size_t i;

	printf("socket %lld, %s %s, peer %s, %s\n", out_int(conn, "inode"),
	       out_endpoint(conn, "local", local, sizeof(local)),
	       out_endpoint(conn, "remote", remote, sizeof(remote)), out_str(conn, "peer"),
	       out_str(conn, "state"));
	if (!json_array_size(processes))
		printf("    %s\n", nobody(conn));
	json_array_foreach(processes, i, process)
		printf("    process %lld (%s), descriptor %lld\n", out_int(process, "pid"),
		       out_str(process, "command"), out_int(process, "fd"));
}

void holders_print(const json_t *holders)
{
	const json_t *conns = json_object_get(holders, "connections"), *conn;
	char text[48];
	size_t i;

	json_array_foreach(conns, i, conn)
		print_conn(conn);
	if (!json_array_size(conns))
		puts("no connection is attached");
	if (out_int(holders, "references"))
		printf("the kernel counts %s to the module\n",
		       out_count(out_int(holders, "references"), "reference", text, sizeof(text)));
}

int cmd_holders(int argc, char **argv, const struct options *o)
{
	struct ipc *ipc;
	json_t *holders;

	if (no_arguments(argc, argv))
		return EXIT_USAGE;
	ipc = ipc_open(IPC_SOCKETS);
	if (!ipc)
		return EXIT_FAILED;
	holders = holders_get(ipc);
	ipc_close(ipc);
	if (!holders)
		return EXIT_FAILED;
	if (o->json)
		out_json(holders);
	else
		holders_print(holders);
	json_decref(holders);
	return out_end();
}
