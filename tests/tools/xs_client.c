// SPDX-License-Identifier: GPL-2.0
/*
 * A toolstack in the small. Commands are lines on standard input:
 *   put PATH [VALUE]   rm PATH   perms PATH OWNER [READER]
 *   introduce ID   release ID
 *   ls PATH            prints every node below: path, permissions, value; then a dot
 *   watch PATH         and from then on "changed" counts events below it
 *   changed            prints how many there were
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xenstore.h>

static struct xs_handle *xs;

static void check(int ok, const char *line)
{
	if (ok)
		return;
	perror(line);
	exit(1);
}

static void list(const char *path)
{
	unsigned int n, n_perms, len;
	struct xs_permissions *perms = xs_get_permissions(xs, XBT_NULL, path, &n_perms);
	char **names = xs_directory(xs, XBT_NULL, path, &n),
	     *value = xs_read(xs, XBT_NULL, path, &len);
	char below[512];

	if (perms && value) {
		printf("%s ", path);
		for (unsigned int i = 0; i < n_perms; i++)
			printf("%s%c%u", i ? "," : "", "nrwb"[perms[i].perms & 3], perms[i].id);
		printf(" %s\n", value);
	}
	for (unsigned int i = 0; names && i < n; i++) {
		snprintf(below, sizeof(below), "%s/%s", path, names[i]);
		list(below);
	}
	free(perms);
	free(names);
	free(value);
}

static unsigned int changed(void)
{
	unsigned int n = 0;
	char **event;

	usleep(100000);
	while ((event = xs_check_watch(xs))) {
		n += strstr(event[XS_WATCH_PATH], "/xway") &&
		     !strstr(event[XS_WATCH_PATH], "/data");
		free(event);
	}
	return n;
}

int main(void)
{
	char line[512], verb[16], path[256];

	xs = xs_open(0);
	check(xs != NULL, "xs_open");
	while (fgets(line, sizeof(line), stdin)) {
		unsigned int id, reader = 0;
		int at = 0;

		line[strcspn(line, "\n")] = '\0';
		path[0] = '\0';
		sscanf(line, "%15s %255s %n", verb, path, &at);
		if (!strcmp(verb, "put"))
			check(xs_write(xs, XBT_NULL, path, line + at, at ? strlen(line + at) : 0),
			      line);
		else if (!strcmp(verb, "rm"))
			check(xs_rm(xs, XBT_NULL, path), line);
		else if (!strcmp(verb, "introduce"))
			check(xs_introduce_domain(xs, atoi(path), 77, atoi(path) + 10), line);
		else if (!strcmp(verb, "release"))
			check(xs_release_domain(xs, atoi(path)), line);
		else if (!strcmp(verb, "watch"))
			check(xs_watch(xs, path, "seen"), line);
		else if (!strcmp(verb, "changed"))
			printf("%u\n", changed());
		else if (!strcmp(verb, "ls"))
			list(path), puts(".");
		else if (sscanf(line, "perms %255s %u %u", path, &id, &reader) >= 2)
			check(xs_set_permissions(xs, XBT_NULL, path,
						 (struct xs_permissions[]){
							 { .id = id, .perms = XS_PERM_NONE },
							 { .id = reader, .perms = XS_PERM_READ } },
						 reader ? 2 : 1),
			      line);
		else
			check(0, line);
		fflush(stdout);
	}
	return 0;
}
