// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* To be freed; NULL: not there. */
char *read_node(struct xwayd *x, const char *dir, const char *leaf)
{
	char path[STORE_PATH];
	size_t len;

	snprintf(path, sizeof(path), "%.100s/%.32s", dir, leaf);
	return x->store->ops->read(x->store->ctx, path, &len);
}
