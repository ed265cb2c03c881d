// SPDX-License-Identifier: GPL-2.0
#include <arpa/inet.h>
#include <linux/xway.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "ipc.h"

struct prefix {
	uint8_t addr[16];
	uint8_t len; /* of the address */
	uint8_t bits;
};

static bool parse_prefix(const char *text, struct prefix *p)
{
	char addr[INET6_ADDRSTRLEN];
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : strlen(text);
	char *end;
	long bits;

	if (len >= sizeof(addr))
		return false;
	memcpy(addr, text, len);
	addr[len] = '\0';
	if (inet_pton(AF_INET, addr, p->addr) == 1)
		p->len = 4;
	else if (inet_pton(AF_INET6, addr, p->addr) == 1)
		p->len = 16;
	else
		return false;
	p->bits = p->len * 8;
	if (!slash)
		return true;
	bits = strtol(slash + 1, &end, 10);
	if (slash[1] < '0' || slash[1] > '9' || *end || bits > p->len * 8)
		return false;
	p->bits = bits;
	return true;
}

static void put_prefix(struct nlmsghdr *nlh, const void *arg)
{
	const struct prefix *p = arg;

	mnl_attr_put(nlh, XWAY_A_ADDR, p->len, p->addr);
	mnl_attr_put_u8(nlh, XWAY_A_PREFIX, p->bits);
}

int cmd_local(int argc, char **argv, const struct options *o)
{
	struct prefix prefix = { 0 };
	char doing[80];
	struct ipc *ipc;
	uint8_t cmd;
	int ret;

	(void)o;
	if (argc != 2)
		return usage_error("'local' needs 'add PREFIX' or 'del PREFIX'");
	if (!strcmp(argv[0], "add"))
		cmd = XWAY_CMD_LOCAL_ADD;
	else if (!strcmp(argv[0], "del"))
		cmd = XWAY_CMD_LOCAL_DEL;
	else
		return usage_error("local: '%s' is neither 'add' nor 'del'", argv[0]);
	if (!parse_prefix(argv[1], &prefix))
		return usage_error("local: '%s' is no address or prefix", argv[1]);
	ipc = ipc_open(IPC_CORE);
	if (!ipc)
		return EXIT_FAILED;
	ret = ipc_do(ipc, IPC_CORE, cmd, put_prefix, &prefix, NULL, NULL);
	if (ret) {
		snprintf(doing, sizeof(doing), "local %s %.50s", argv[0], argv[1]);
		ipc_complain(ipc, doing);
	}
	ipc_close(ipc);
	return ret ? EXIT_FAILED : EXIT_OK;
}
