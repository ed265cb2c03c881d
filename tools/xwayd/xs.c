// SPDX-License-Identifier: GPL-2.0
/*
 * Xen's library does the same, but each of its releases is another one, and
 * domain 0 of some hosts takes none but its own.
 */
#include "xs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "clock.h"

#define DAEMON "/var/run/xenstored/socket"
#define DEVICE "/dev/xen/xenbus"

/* A request may not be longer. */
#define REQUEST_MAX 4096
/* Over its socket oxenstored answers with lists of any length. */
#define ANSWER_MAX (1 << 20)

/* A daemon that takes longer for one request is as good as gone. */
#ifndef LIMIT_MS
#define LIMIT_MS 60000
#endif

/* Answers that are no answer to a request, or a bad one. */
#define XS_WATCH_EVENT 15
#define XS_ERROR 16

struct header {
	uint32_t type;
	uint32_t id; /* the answer has the request's */
	uint32_t transaction;
	uint32_t len; /* of what follows */
};

struct event {
	struct event *next;
	char *path; /* the token is behind its NUL */
	char *token;
};

struct xs {
	int fd;
	int broken;    /* errno: what comes next is not known to be a header */
	int64_t until; /* when the request that is under way must be done */
	uint32_t id;
	struct event *events, **last_event;
};

static int open_daemon(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct timeval limit = { .tv_sec = LIMIT_MS / 1000, .tv_usec = LIMIT_MS % 1000 * 1000 };
	int fd, err;

	if (strlen(path) >= sizeof(addr.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(addr.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	/* Its queue is short. A busy daemon is waited for, as it is for an answer. */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (!connect(fd, (struct sockaddr *)&addr, sizeof(addr)) && !fcntl(fd, F_SETFL, O_NONBLOCK))
		return fd;
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

struct xs *xs_open(void)
{
	const char *path = getenv("XENSTORED_PATH"); /* as Xen's own tools take it */
	struct xs *xs;
	int fd;

	fd = open_daemon(path ? path : DAEMON);
	/* The daemon may run in a domain of its own. */
	if (fd < 0 && !path)
		fd = open(DEVICE, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	/* A daemon that is gone is an error of the call. */
	signal(SIGPIPE, SIG_IGN);
	xs = calloc(1, sizeof(*xs));
	if (!xs)
		abort();
	xs->fd = fd;
	xs->last_event = &xs->events;
	return xs;
}

/* Takes events with @token out of the queue, or all of them if it is NULL. */
static void drop_events(struct xs *xs, const char *token)
{
	struct event **at = &xs->events;

	while (*at) {
		struct event *e = *at;

		if (token && strcmp(e->token, token)) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		free(e->path);
		free(e);
	}
	xs->last_event = at;
}

void xs_close(struct xs *xs)
{
	drop_events(xs, NULL);
	close(xs->fd);
	free(xs);
}

int xs_fd(const struct xs *xs)
{
	return xs->fd;
}

int xs_broken(const struct xs *xs)
{
	return xs->broken;
}

static bool broken(struct xs *xs, int err)
{
	xs->broken = err;
	errno = err;
	return false;
}

/* Goes on after a read or a write that failed: when it can be done, if it ever can. */
static bool wait_for(struct xs *xs, short events)
{
	struct pollfd pollfd = { .fd = xs->fd, .events = events };
	int64_t left = xs->until - now_ms();
	int ret;

	if (errno == EINTR)
		return true;
	if (errno != EAGAIN)
		return broken(xs, errno);
	ret = poll(&pollfd, 1, left > 0 ? left : 0);
	if (ret < 0 && errno != EINTR)
		return broken(xs, errno);
	return ret || broken(xs, ETIMEDOUT);
}

static bool send_all(struct xs *xs, const char *bytes, size_t len)
{
	while (len) {
		ssize_t n = write(xs->fd, bytes, len);

		if (n < 0) {
			if (!wait_for(xs, POLLOUT))
				return false;
			continue;
		}
		bytes += n;
		len -= n;
	}
	return true;
}

static bool receive_all(struct xs *xs, char *bytes, size_t len)
{
	while (len) {
		ssize_t n = read(xs->fd, bytes, len);

		if (!n)
			return broken(xs, EPIPE);
		if (n < 0) {
			if (!wait_for(xs, POLLIN))
				return false;
			continue;
		}
		bytes += n;
		len -= n;
	}
	return true;
}

static void keep_event(struct xs *xs, char *path, size_t len)
{
	struct event *e = calloc(1, sizeof(*e));

	if (!e)
		abort();
	e->path = path;
	e->token = path + strlen(path);
	if (e->token < path + len)
		e->token++;
	*xs->last_event = e;
	xs->last_event = &e->next;
}

/* One message, with a NUL behind it, to be freed, or NULL. */
static char *receive(struct xs *xs, struct header *header)
{
	char *message;

	if (!receive_all(xs, (char *)header, sizeof(*header)))
		return NULL;
	if (header->len > ANSWER_MAX) {
		broken(xs, EPROTO);
		return NULL;
	}
	message = calloc(1, header->len + 1);
	if (!message)
		abort();
	if (receive_all(xs, message, header->len))
		return message;
	free(message);
	return NULL;
}

/* The same, but of events, which are kept. */
static char *receive_answer(struct xs *xs, struct header *header)
{
	for (;;) {
		char *message = receive(xs, header);

		if (!message || header->type != XS_WATCH_EVENT)
			return message;
		keep_event(xs, message, header->len);
	}
}

static int error_of(const char *name)
{
	static const struct {
		const char *name;
		int err;
	} errors[] = {
		{ "EINVAL", EINVAL }, { "EACCES", EACCES }, { "EEXIST", EEXIST },
		{ "ENOENT", ENOENT }, { "ENOMEM", ENOMEM }, { "ENOSPC", ENOSPC },
		{ "ENOSYS", ENOSYS }, { "EROFS", EROFS },   { "EBUSY", EBUSY },
		{ "EAGAIN", EAGAIN }, { "E2BIG", E2BIG },   { "EPERM", EPERM },
	};

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (!strcmp(name, errors[i].name))
			return errors[i].err;
	return EIO;
}

char *xs_ask(struct xs *xs, enum xs_request what, uint32_t transaction, const char *path,
	     const void *rest, size_t len, size_t *got)
{
	size_t path_len = strlen(path) + 1;
	struct header header = {
		.type = what,
		.id = ++xs->id,
		.transaction = transaction,
		.len = path_len + len,
	};
	char message[sizeof(header) + REQUEST_MAX];
	char *answer;

	if (xs->broken) {
		errno = EPIPE;
		return NULL;
	}
	if (path_len + len > REQUEST_MAX) {
		errno = E2BIG;
		return NULL;
	}
	memcpy(message, &header, sizeof(header));
	memcpy(message + sizeof(header), path, path_len);
	if (len)
		memcpy(message + sizeof(header) + path_len, rest, len);
	xs->until = now_ms() + LIMIT_MS;
	if (!send_all(xs, message, sizeof(header) + path_len + len))
		return NULL;
	answer = receive_answer(xs, &header);
	if (!answer)
		return NULL;
	*got = header.len;
	if (header.id == xs->id && header.type == what)
		return answer;
	if (header.id != xs->id || header.type != XS_ERROR)
		broken(xs, EPROTO);
	else
		errno = error_of(answer);
	free(answer);
	return NULL;
}

/*
 * Names that are more than one message holds come in parts: each begins with
 * the directory's generation, and the last one ends with an empty name.
 */
static char *list_parts(struct xs *xs, const char *path, size_t *len)
{
	char *all = NULL, generation[32] = "", offset[16];
	size_t head, got;

	*len = 0;
	for (;;) {
		char *part;

		snprintf(offset, sizeof(offset), "%zu", *len);
		part = xs_ask(xs, XS_DIRECTORY_PART, 0, path, offset, strlen(offset) + 1, &got);
		head = part ? strlen(part) + 1 : 0;
		if (part && (head > got || head > sizeof(generation))) {
			free(part);
			errno = EPROTO;
			part = NULL;
		}
		if (!part) {
			free(all);
			return NULL;
		}
		/* Names have come or gone since: again from the beginning. */
		if (*len && strcmp(part, generation)) {
			free(part);
			*len = 0;
			continue;
		}
		strcpy(generation, part);
		all = realloc(all, *len + got - head + 1);
		if (!all)
			abort();
		memcpy(all + *len, part + head, got - head);
		*len += got - head;
		free(part);
		if (got == head || (*len && !all[*len - 1] && (*len == 1 || !all[*len - 2])))
			break;
	}
	if (*len)
		--*len;
	return all;
}

char **xs_list(struct xs *xs, const char *path, unsigned int *n)
{
	size_t len;
	char *names = xs_ask(xs, XS_DIRECTORY, 0, path, NULL, 0, &len), *copy;
	char **list;

	if (!names && errno == E2BIG)
		names = list_parts(xs, path, &len);
	if (!names)
		return NULL;
	*n = 0;
	for (size_t i = 0; i < len; i++)
		*n += !names[i];
	list = malloc(*n * sizeof(*list) + len + 1);
	if (!list)
		abort();
	copy = (char *)(list + *n);
	memcpy(copy, names, len);
	free(names);
	for (unsigned int i = 0; i < *n; i++, copy += strlen(copy) + 1)
		list[i] = copy;
	return list;
}

int xs_watch(struct xs *xs, const char *path, const char *token)
{
	size_t got;
	char *answer = xs_ask(xs, XS_WATCH, 0, path, token, strlen(token) + 1, &got);

	free(answer);
	return answer ? 0 : -1;
}

int xs_unwatch(struct xs *xs, const char *path, const char *token)
{
	size_t got;
	char *answer = xs_ask(xs, XS_UNWATCH, 0, path, token, strlen(token) + 1, &got);

	free(answer);
	/* Those that were fired before are here already. */
	drop_events(xs, token);
	return answer ? 0 : -1;
}

static bool readable(const struct xs *xs)
{
	struct pollfd pollfd = { .fd = xs->fd, .events = POLLIN };

	return poll(&pollfd, 1, 0) == 1 && (pollfd.revents & POLLIN);
}

bool xs_has_event(const struct xs *xs)
{
	return xs->events != NULL;
}

int xs_event(struct xs *xs, char **path, char **token, void **block)
{
	struct header header;
	struct event *e;

	if (!xs->events && !xs->broken && readable(xs)) {
		char *message;

		xs->until = now_ms() + LIMIT_MS;
		message = receive(xs, &header);
		if (message && header.type == XS_WATCH_EVENT)
			keep_event(xs, message, header.len);
		else
			free(message);
	}
	e = xs->events;
	if (!e)
		return 0;
	xs->events = e->next;
	if (!xs->events)
		xs->last_event = &xs->events;
	*path = e->path;
	*token = e->token;
	*block = e->path;
	free(e);
	return 1;
}
