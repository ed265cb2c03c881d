/* SPDX-License-Identifier: GPL-2.0 */
/* What the random calls and those who draw them share: see stress.c. */
#pragma once

#define _GNU_SOURCE
#include <linux/aio_abi.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "bytes.h"

#define CHUNK_MAX (1u << 19) /* bytes in one call */
#define HEADER 16	     /* bytes: the key twice */
#define CALLS_MAX 32	     /* kinds of calls in one direction */

/* Shared by all processes. */
struct totals {
	uint64_t conns;
	uint64_t bytes;
	uint64_t rude;		       /* connections cut short */
	uint64_t calls[2 * CALLS_MAX]; /* sends, then receives */
	uint32_t failures;
	uint32_t stop;
};

extern struct totals *totals;
extern int without_aio; /* else Linux AIO is drawn, too */

enum ending { GRACEFUL, CLOSE, RESET };

/* What both ends know of a connection; index: sent by the active end. */
struct plan {
	uint64_t size[2];
	enum ending ending[2];
};

struct half;
struct io_uring;

struct end {
	int fd;
	int active;
	uint64_t key;
	struct plan plan;
	struct half *tx;
	struct half *rx;
};

/* One direction at one end. */
struct half {
	const struct end *e;
	const char *call; /* the last one */
	uint8_t *buf;
	uint8_t *want;
	uint64_t key;
	uint64_t off;
	uint64_t limit; /* where this end stops */
	uint64_t size;	/* where the stream ends */
	uint64_t moved_ms;
	int pipe[2];
	int file;
	int epoll;
	struct io_uring *uring;
	aio_context_t aio;
	int sends;
	int over;
	unsigned int rand;
};

static inline size_t min(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Whether the other end may cut the connection short. */
static inline int rude(const struct half *h)
{
	return h->e->plan.ending[!h->e->active] != GRACEFUL;
}

/* A call on one direction; tables end with a name of NULL. */
struct call {
	const char *name;
	unsigned int weight;
	/*
	 * Try to move n bytes; may move fewer. Returns how many were moved and found right, 0 at the
	 * end of the stream, -EINTR if there is nothing to say, or another negative error.
	 */
	ssize_t (*run)(struct half *h, size_t n);
};

extern const struct call sends[], receives[];

/* Say on standard error what was wrong with a direction; err: errno or 0. */
void complain(const struct half *h, const char *what, int err);

unsigned int draw(struct half *h, unsigned int below);
int one_in(struct half *h, unsigned int n);
size_t draw_size(struct half *h);
const struct call *draw_call(struct half *h);
int send_flags(struct half *h);

/* Cut n bytes of buf into three parts, some of which may be empty; returns their number. */
int cut(struct half *h, struct iovec *v, uint8_t *buf, size_t n);

/* See that n bytes in buf are the next of the stream; n < 0: say what errno does. what: if not. */
ssize_t compared(struct half *h, const uint8_t *buf, ssize_t n, const char *what);

/* Wait for POLLIN or POLLOUT; returns what is ready, 0 after a signal. */
int wait_for(struct half *h, short events);

/* In stress_requests.c; run and wait as those of the tables do, and wait_for(). */
ssize_t do_uring_send(struct half *h, size_t n);
ssize_t do_uring_recv(struct half *h, size_t n);
ssize_t do_aio_send(struct half *h, size_t n);
ssize_t do_aio_recv(struct half *h, size_t n);

/* One call that does not wait, where there is something; returns how much, 0 at the end, or a negative errno. */
ssize_t uring_take(struct half *h, size_t n);
ssize_t aio_take(struct half *h, size_t n);
int uring_poll(struct half *h, short events);
int aio_poll(struct half *h, short events);
void end_requests(struct half *h);
