// SPDX-License-Identifier: GPL-2.0
/* xway on, xway off */
#include <linux/xway.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cmd.h"
#include "holders.h"
#include "model.h"
#include "out.h"

#define POLL_MS 50

static long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ll + ts.tv_nsec / 1000000;
}

static void put_on(struct nlmsghdr *nlh, const void *arg)
{
	mnl_attr_put_u8(nlh, XWAY_A_ON, *(const bool *)arg);
}

static int set(struct ipc *ipc, bool on)
{
	if (!ipc_do(ipc, IPC_SOCKETS, XWAY_CMD_SET, put_on, &on, NULL, NULL))
		return 0;
	ipc_complain(ipc, on ? "cannot turn it on" : "cannot turn it off");
	return -1;
}

static void progress(long long attached, long long left_ms)
{
	char text[48];

	fprintf(stderr, "\r\033[Kwaiting for %s to fall back to TCP, at most %lld s more",
		out_count(attached, "connection", text, sizeof(text)), (left_ms + 999) / 1000);
	fflush(stderr);
}

/* The number of connections that are still attached in the end, or -1. */
static long long wait_detached(struct ipc *ipc, int seconds)
{
	long long end = now_ms() + seconds * 1000ll, attached, left;
	const struct timespec pause = { .tv_nsec = POLL_MS * 1000000 };
	bool shown = false;

	for (;;) {
		json_t *state = model_state(ipc);

		attached = state ? out_int(state, "connections") : -1;
		json_decref(state);
		left = end - now_ms();
		if (attached <= 0 || left <= 0)
			break;
		/* Not for what is over before it could be read. */
		if (isatty(STDERR_FILENO) && left < seconds * 1000ll - 500) {
			progress(attached, left);
			shown = true;
		}
		nanosleep(&pause, NULL);
	}
	if (shown)
		fputs("\r\033[K", stderr);
	return attached;
}

static int print_off(struct ipc *ipc, long long attached, const struct options *o)
{
	json_t *holders, *result;
	char text[48];

	if (!attached && !o->json) {
		puts("off, no connection is attached ('modprobe -r xway' unloads the module)");
		return out_end();
	}
	holders = holders_get(ipc);
	if (!holders)
		return EXIT_FAILED;
	if (o->json) {
		/* "held" is its name of the version before. */
		result = json_pack("{s:b, s:I, s:I, s:O}", "on", 0, "attached",
				   (json_int_t)attached, "held", (json_int_t)attached, "holders",
				   json_object_get(holders, "connections"));
		out_json(result);
		json_decref(result);
	} else {
		fprintf(stderr, "xway: off, but %s still attached:\n",
			out_count(attached, "connection", text, sizeof(text)));
		holders_print(holders);
	}
	json_decref(holders);
	if (out_end())
		return EXIT_FAILED;
	return attached ? EXIT_ATTACHED : EXIT_OK;
}

int cmd_on(int argc, char **argv, const struct options *o)
{
	struct ipc *ipc;
	int ret;

	if (no_arguments(argc, argv))
		return EXIT_USAGE;
	ipc = ipc_open(IPC_SOCKETS);
	if (!ipc)
		return EXIT_FAILED;
	ret = set(ipc, true);
	ipc_close(ipc);
	if (ret)
		return EXIT_FAILED;
	if (o->json) {
		json_t *result = json_pack("{s:b}", "on", 1);

		out_json(result);
		json_decref(result);
	}
	return out_end();
}

int cmd_off(int argc, char **argv, const struct options *o)
{
	int ret = EXIT_FAILED;
	struct ipc *ipc;
	long long attached;

	if (no_arguments(argc, argv))
		return EXIT_USAGE;
	ipc = ipc_open(IPC_SOCKETS);
	if (!ipc)
		return EXIT_FAILED;
	if (!set(ipc, false)) {
		attached = wait_detached(ipc, o->wait < 0 ? WAIT_DEFAULT : o->wait);
		if (attached >= 0)
			ret = print_off(ipc, attached, o);
	}
	ipc_close(ipc);
	return ret;
}
