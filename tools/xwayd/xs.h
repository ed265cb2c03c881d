/* SPDX-License-Identifier: GPL-2.0 */
/* A client of XenStore: its protocol, over the daemon's socket or the kernel's device. */
#ifndef XWAYD_XS_H
#define XWAYD_XS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is asked for, by its number in the protocol. */
enum xs_request {
	XS_DIRECTORY = 1,
	XS_READ = 2,
	XS_GET_PERMS = 3,
	XS_WATCH = 4,
	XS_UNWATCH = 5,
	XS_TRANSACTION_START = 6,
	XS_TRANSACTION_END = 7,
	XS_WRITE = 11,
	XS_MKDIR = 12,
	XS_RM = 13,
	XS_SET_PERMS = 14,
	XS_DIRECTORY_PART = 22,
};

struct xs;

/* NULL sets errno. */
struct xs *xs_open(void);
void xs_close(struct xs *xs);
int xs_fd(const struct xs *xs);

/*
 * The errno of why the connection is of no use any more, or 0. A daemon that
 * says what makes no sense, or takes a minute for one answer, breaks it.
 */
int xs_broken(const struct xs *xs);

/*
 * Asks with @path, its NUL and @len bytes of @rest. Returns the answer's *@got
 * bytes with a NUL behind them, to be freed; NULL sets errno. Events that come
 * meanwhile are kept.
 */
char *xs_ask(struct xs *xs, enum xs_request what, uint32_t transaction, const char *path,
	     const void *rest, size_t len, size_t *got);

/* The names in a directory, in one block, to be freed; NULL sets errno. */
char **xs_list(struct xs *xs, const char *path, unsigned int *n);

/* 0, or -1 with errno. After xs_unwatch() there is no event with @token any more. */
int xs_watch(struct xs *xs, const char *path, const char *token);
int xs_unwatch(struct xs *xs, const char *path, const char *token);

/* Is an event here already? It does not make xs_fd() readable. */
bool xs_has_event(const struct xs *xs);
/* The next event: 1, or 0 when there is none now. To be freed: *@block. */
int xs_event(struct xs *xs, char **path, char **token, void **block);

#endif
