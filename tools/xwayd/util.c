// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "xwayd.h"

/*
 * Out of memory: start again. The store has everything, and systemd starts us
 * anew, so that no path of the code need survive half done work.
 */
void *must(void *allocated)
{
	if (!allocated)
		abort();
	return allocated;
}

void set_string(char **where, const char *value)
{
	char *new = value ? must(strdup(value)) : NULL;

	free(*where);
	*where = new;
}

bool same_string(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

void sooner(int64_t *when, int64_t at)
{
	if (at < *when)
		*when = at;
}

/* Only ENOENT says that there is nothing. */
static void note_error(struct xwayd *x, const char *path)
{
	if (errno == ENOENT)
		return;
	if (!x->unread)
		log_err("cannot read %s: %s", path, strerror(errno));
	x->unread = true;
}

/* To be freed; NULL: not there, or x->unread is set. */
char *read_node(struct xwayd *x, const char *dir, const char *leaf)
{
	char path[STORE_PATH], *value;
	size_t len;

	snprintf(path, sizeof(path), "%.100s/%.32s", dir, leaf);
	value = x->store->ops->read(x->store->ctx, path, &len);
	if (!value)
		note_error(x, path);
	return value;
}

bool has_node(struct xwayd *x, const char *dir, const char *leaf)
{
	char *value = read_node(x, dir, leaf);

	free(value);
	return value;
}

/* As read_node() of the names in a directory. */
char **list_nodes(struct xwayd *x, const char *dir, unsigned int *n)
{
	char **names = x->store->ops->list(x->store->ctx, dir, n);

	if (!names)
		note_error(x, dir);
	return names;
}
