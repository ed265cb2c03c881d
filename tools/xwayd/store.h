/* SPDX-License-Identifier: GPL-2.0 */
/*
 * XenStore and the hypervisor, as xwayd needs them. Everything else goes
 * through this table, so that the tests can put a store in memory below it.
 */
#ifndef XWAYD_STORE_H
#define XWAYD_STORE_H

#include <stdbool.h>
#include <stddef.h>

#define UUID_TEXT 37

struct domain_info {
	char uuid[UUID_TEXT];
	const char *ended; /* why it has ended, or NULL */
};

struct store_ops {
	/* The value with a NUL behind it, to be freed; NULL sets errno. */
	char *(*read)(void *ctx, const char *path, size_t *len);
	/* Names in one block, to be freed. */
	char **(*list)(void *ctx, const char *path, unsigned int *n);
	/*
	 * Writes only while @guard exists (else ENOENT), in one transaction: a
	 * domain may vanish at any moment, and a plain write would bring its
	 * directory back.
	 */
	int (*write)(void *ctx, const char *guard, const char *path, const char *value);
	/*
	 * Makes an empty node of domain 0 that @reader may read, or mends the
	 * permissions of the one that is there.
	 */
	int (*make)(void *ctx, const char *guard, const char *path, unsigned int reader);
	/* A node that is not there is no error. */
	int (*remove)(void *ctx, const char *path);
	int (*watch)(void *ctx, const char *path, const char *token);
	int (*unwatch)(void *ctx, const char *path, const char *token);
	/* 0, or -1 with errno: ESRCH when there is no such domain. */
	int (*domain)(void *ctx, unsigned int id, struct domain_info *info);
};

struct store {
	const struct store_ops *ops;
	void *ctx;
};

#define STORE_PATH 160

/*
 * The real store; NULL after an error has been logged. @hopeless is set when
 * trying again on this host gives nothing else.
 */
struct store *store_open(bool *hopeless);
void store_close(struct store *store);
int store_fd(struct store *store);
/* The errno of why the store will answer nothing any more, or 0. */
int store_broken(struct store *store);
/* Is an event here already? It does not make store_fd() readable. */
bool store_has_event(struct store *store);
/* The next event: 1, or 0 when there is none now. To be freed: *block. */
int store_event(struct store *store, char **path, char **token, void **block);

#endif
