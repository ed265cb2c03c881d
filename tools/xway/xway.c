// SPDX-License-Identifier: GPL-2.0
/* xway: shows and sets the state of the xway module. */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv, const struct options *o);
	const char *arguments;
	const char *what;
} commands[] = {
	{ "show", cmd_show, "", "the state, and the peers in short (also without a command)" },
	{ "peer", cmd_peer, "", "the peers" },
	{ "conn", cmd_conn, "[--all]", "the connections: which way each direction goes, and why" },
	{ "net", cmd_net, "", "the network devices to peers" },
	{ "stats", cmd_stats, "", "counters, and reasons for which connections stayed on TCP" },
	{ "on", cmd_on, "", "accelerate new connections" },
	{ "off", cmd_off, "[--wait SECONDS]", "stop, and return open connections to TCP" },
	{ "holders", cmd_holders, "", "which processes and sockets hold the module" },
	{ "local", cmd_local, "add|del PREFIX",
	  "addresses of this kernel that count as co-resident" },
	{ "version", cmd_version, "", "the versions of this command and of the module" },
	{ "help", cmd_help, "", "this text" },
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

int usage_error(const char *format, ...)
{
	va_list args;

	fputs("xway: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputs(" (see 'xway help')\n", stderr);
	return EXIT_USAGE;
}

int no_arguments(int argc, char **argv)
{
	return argc ? usage_error("'%s' is too much", argv[0]) : 0;
}

int cmd_help(int argc, char **argv, const struct options *o)
{
	(void)o;
	if (no_arguments(argc, argv))
		return EXIT_USAGE;
	puts("Usage: xway [-j] [COMMAND]\n");
	for (size_t i = 0; i < N_COMMANDS; i++) {
		char head[40];

		snprintf(head, sizeof(head), "%s %s", commands[i].name, commands[i].arguments);
		printf("  %-24s %s\n", head, commands[i].what);
	}
	puts("\n"
	     "  -j, --json      print JSON\n"
	     "  -h, --help      this text\n"
	     "  -V, --version   the version\n"
	     "\n"
	     "Exit status: 0 well, 1 failure, 2 usage, 3 off but connections still attached.\n"
	     "To unload the module: xway off && modprobe -r xway");
	return EXIT_OK;
}

/* Any beginning that fits one command only does, as with ip. */
static int find(const char *name)
{
	int found = -1;

	for (size_t i = 0; i < N_COMMANDS; i++) {
		if (!strcmp(commands[i].name, name))
			return i;
		if (*name && !strncmp(commands[i].name, name, strlen(name)))
			found = found == -1 ? (int)i : -2;
	}
	return found;
}

static bool parse_seconds(const char *text, int *seconds)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || n > 86400)
		return false;
	*seconds = n;
	return true;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "all", no_argument, NULL, 'a' },	  { "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },	  { "version", no_argument, NULL, 'V' },
		{ "wait", required_argument, NULL, 'w' }, { NULL, 0, NULL, 0 },
	};
	struct options o = { .wait = -1 };
	const char *name = NULL;
	int c, i;

	while ((c = getopt_long(argc, argv, "ajhVw:", options, NULL)) != -1) {
		switch (c) {
		case 'a':
			o.all = true;
			break;
		case 'j':
			o.json = true;
			break;
		case 'h':
			name = "help";
			break;
		case 'V':
			name = "version";
			break;
		case 'w':
			if (!parse_seconds(optarg, &o.wait))
				return usage_error(
					"--wait: '%s' is no number of seconds up to a day", optarg);
			break;
		default:
			fputs("Try 'xway help'.\n", stderr);
			return EXIT_USAGE;
		}
	}
	argc -= optind;
	argv += optind;
	if (name) {
		argc = 0;
	} else if (argc) {
		name = argv[0];
		argc--;
		argv++;
	} else {
		name = "show";
	}
	i = find(name);
	if (i == -2)
		return usage_error("'%s' may be more than one command", name);
	if (i < 0)
		return usage_error("'%s' is no command", name);
	if (o.all && commands[i].run != cmd_conn)
		return usage_error("--all goes with 'conn' only");
	if (o.wait >= 0 && commands[i].run != cmd_off)
		return usage_error("--wait goes with 'off' only");
	return commands[i].run(argc, argv, &o);
}
