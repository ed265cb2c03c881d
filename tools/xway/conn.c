// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "model.h"
#include "out.h"

static void print_direction(const json_t *conn, const char *verb, const char *key)
{
	char ring_key[16], tcp_key[16], ring[OUT_BYTES], tcp[OUT_BYTES];
	const char *way = out_str(conn, key);

	snprintf(ring_key, sizeof(ring_key), "%s_ring", key);
	snprintf(tcp_key, sizeof(tcp_key), "%s_tcp", key);
	printf("    %s by %s (%s by ring, %s by TCP)", verb, !strcmp(way, "tcp") ? "TCP" : way,
	       out_bytes(out_int(conn, ring_key), ring), out_bytes(out_int(conn, tcp_key), tcp));
	if (strcmp(way, "ring") && json_object_get(conn, "reason"))
		printf(" because: %s", out_str(conn, "reason"));
	putchar('\n');
}

static void print(const json_t *conn)
{
	char local[80], remote[80], ring[OUT_BYTES];

	printf("%s %s: peer %s, %s", out_endpoint(conn, "local", local, sizeof(local)),
	       out_endpoint(conn, "remote", remote, sizeof(remote)), out_str(conn, "peer"),
	       out_str(conn, "state"));
	if (!strcmp(out_str(conn, "state"), "not-attached")) {
		printf(" because: %s\n",
		       json_object_get(conn, "reason") ? out_str(conn, "reason") : "it fell back");
		return;
	}
	if (out_int(conn, "ring_size"))
		printf(", rings of %s", out_bytes(out_int(conn, "ring_size"), ring));
	putchar('\n');
	print_direction(conn, "sends", "tx");
	print_direction(conn, "receives", "rx");
}

int cmd_conn(int argc, char **argv, const struct options *o)
{
	json_t *conns, *conn;
	struct ipc *ipc;
	size_t i;

	if (no_arguments(argc, argv))
		return EXIT_USAGE;
	ipc = ipc_open(IPC_SOCKETS);
	if (!ipc)
		return EXIT_FAILED;
	conns = model_conns(ipc, o->all);
	ipc_close(ipc);
	if (!conns)
		return EXIT_FAILED;
	if (o->json)
		out_json(conns);
	else
		json_array_foreach(conns, i, conn)
			print(conn);
	json_decref(conns);
	return out_end();
}
