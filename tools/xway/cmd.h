/* SPDX-License-Identifier: GPL-2.0 */
#ifndef XWAY_CMD_H
#define XWAY_CMD_H

#include <stdbool.h>

enum {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,	   /* the command line is not right */
	EXIT_ATTACHED = 3, /* off, but connections are still attached */
};

#define WAIT_DEFAULT 10

struct options {
	bool json;
	bool all; /* connections that are not attached, too */
	int wait; /* seconds; -1: not given */
};

/* Arguments are those after the name of the command. */
int cmd_show(int argc, char **argv, const struct options *o);
int cmd_peer(int argc, char **argv, const struct options *o);
int cmd_conn(int argc, char **argv, const struct options *o);
int cmd_net(int argc, char **argv, const struct options *o);
int cmd_stats(int argc, char **argv, const struct options *o);
int cmd_on(int argc, char **argv, const struct options *o);
int cmd_off(int argc, char **argv, const struct options *o);
int cmd_holders(int argc, char **argv, const struct options *o);
int cmd_local(int argc, char **argv, const struct options *o);
int cmd_version(int argc, char **argv, const struct options *o);
int cmd_help(int argc, char **argv, const struct options *o);

/* Says what is wrong with the command line; returns EXIT_USAGE. */
int usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* EXIT_USAGE after a message when there are arguments, else 0. */
int no_arguments(int argc, char **argv);

#endif
