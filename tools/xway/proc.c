// SPDX-License-Identifier: GPL-2.0
/* Who has a socket open: /proc tells it by the socket's inode. */
#include "proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_number(const char *name)
{
	return *name && !name[strspn(name, "0123456789")];
}

static void read_command(int proc, const char *pid, char *text, size_t len)
{
	char path[64];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "%.20s/comm", pid);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, len - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	/* Anybody may give a process any name: it goes to a terminal, and JSON
	 * has to be UTF-8.
	 */
	for (char *c = text; *c; c++)
		if (*c < 0x20 || *c > 0x7e)
			*c = '?';
}

static void add_holder(json_t *conns, long long inode, int proc, const char *pid, const char *fd)
{
	char command[64];
	json_t *conn;
	size_t i;

	json_array_foreach(conns, i, conn) {
		if (json_integer_value(json_object_get(conn, "inode")) != inode)
			continue;
		read_command(proc, pid, command, sizeof(command));
		json_array_append_new(json_object_get(conn, "processes"),
				      json_pack("{s:i, s:s, s:i}", "pid", atoi(pid), "command",
						command, "fd", atoi(fd)));
	}
}

static void search_process(json_t *conns, int proc, const char *pid)
{
	char path[64], link[64];
	struct dirent *e;
	DIR *dir;
	int fds;

	snprintf(path, sizeof(path), "%.20s/fd", pid);
	fds = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* It has ended, or is somebody else's. */
	if (fds < 0)
		return;
	dir = fdopendir(fds);
	if (!dir) {
		close(fds);
		return;
	}
	while ((e = readdir(dir))) {
		ssize_t n = readlinkat(fds, e->d_name, link, sizeof(link) - 1);
		unsigned long long inode;

		if (n <= 0)
			continue;
		link[n] = '\0';
		if (sscanf(link, "socket:[%llu]", &inode) == 1 && inode)
			add_holder(conns, inode, proc, pid, e->d_name);
	}
	closedir(dir);
}

void proc_find_holders(json_t *conns)
{
	struct dirent *e;
	json_t *conn;
	size_t i;
	DIR *dir;

	json_array_foreach(conns, i, conn)
		json_object_set_new(conn, "processes", json_array());
	if (!json_array_size(conns))
		return;
	dir = opendir("/proc");
	if (!dir) {
		fprintf(stderr, "xway: cannot read /proc: %s\n", strerror(errno));
		return;
	}
	while ((e = readdir(dir)))
		if (is_number(e->d_name))
			search_process(conns, dirfd(dir), e->d_name);
	closedir(dir);
}

long long proc_module_references(void)
{
	FILE *file = fopen("/sys/module/xway/refcnt", "re");
	long long n = -1;

	if (!file)
		return -1;
	if (fscanf(file, "%lld", &n) != 1)
		n = -1;
	fclose(file);
	return n;
}
