// SPDX-License-Identifier: GPL-2.0
#include "memstore.h"

#include <errno.h>
#include <string.h>

struct node {
	struct node *next;
	char *path;
	char *value; /* with a NUL behind it */
	size_t len;
	unsigned int reader;
};

struct watch {
	struct watch *next;
	char *path, *token;
};

struct event {
	struct event *next;
	char *path, *token;
};

struct dom {
	struct dom *next;
	unsigned int id;
	char uuid[UUID_TEXT];
	const char *ended;
};

static bool is_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	return !strncmp(path, dir, len) && (!path[len] || path[len] == '/');
}

static struct node **find(struct mem *m, const char *path)
{
	struct node **at = &m->nodes;

	while (*at && strcmp((*at)->path, path))
		at = &(*at)->next;
	return at;
}

static struct dom *find_dom(struct mem *m, unsigned int id)
{
	struct dom *d = m->doms;

	while (d && d->id != id)
		d = d->next;
	return d;
}

static void queue(struct mem *m, const char *path, const char *token)
{
	struct event *e = calloc(1, sizeof(*e));

	e->path = strdup(path);
	e->token = strdup(token);
	*m->last_event = e;
	m->last_event = &e->next;
}

static void fire(struct mem *m, const char *path, bool removed)
{
	for (struct watch *w = m->watches; w; w = w->next) {
		if (is_below(path, w->path))
			queue(m, path, w->token);
		else if (removed && is_below(w->path, path))
			queue(m, w->path, w->token);
	}
}

void mem_put_bytes(struct mem *m, const char *path, const void *value, size_t len)
{
	char parent[STORE_PATH];
	struct node **at = find(m, path);
	struct node *node = *at;
	char *slash;

	if (!node) {
		snprintf(parent, sizeof(parent), "%s", path);
		slash = strrchr(parent, '/');
		if (slash != parent) {
			*slash = '\0';
			if (!*find(m, parent))
				mem_put_bytes(m, parent, "", 0);
		}
		node = calloc(1, sizeof(*node));
		node->path = strdup(path);
		if (slash != parent)
			node->reader = (*find(m, parent))->reader;
		at = find(m, path);
		*at = node;
	}
	free(node->value);
	node->value = calloc(1, len + 1);
	memcpy(node->value, value, len);
	node->len = len;
	fire(m, path, false);
}

void mem_put(struct mem *m, const char *path, const char *value)
{
	mem_put_bytes(m, path, value, strlen(value));
}

void mem_move(struct mem *m, const char *from, const char *to)
{
	char path[STORE_PATH];

	for (struct node *node = m->nodes; node; node = node->next) {
		if (!is_below(node->path, from))
			continue;
		snprintf(path, sizeof(path), "%s%s", to, node->path + strlen(from));
		mem_put_bytes(m, path, node->value, node->len);
	}
	mem_rm(m, from);
}

void mem_rm(struct mem *m, const char *path)
{
	struct node **at = &m->nodes;
	bool any = false;

	while (*at) {
		struct node *node = *at;

		if (!is_below(node->path, path)) {
			at = &node->next;
			continue;
		}
		*at = node->next;
		free(node->path);
		free(node->value);
		free(node);
		any = true;
	}
	if (any)
		fire(m, path, true);
}

static bool unreadable(const struct mem *m, const char *path)
{
	if (!m->unreadable || !strstr(path, m->unreadable))
		return false;
	errno = EIO;
	return true;
}

static char *mem_read(void *ctx, const char *path, size_t *len)
{
	struct mem *m = ctx;
	struct node *node;
	char *copy;

	if (m->on_read)
		m->on_read(path);
	if (unreadable(m, path))
		return NULL;
	node = *find(m, path);
	if (strstr(path, "/data/")) {
		m->reads++;
		if (m->fail_read) {
			errno = m->fail_read;
			m->fail_read = 0;
			return NULL;
		}
	}
	if (!node) {
		errno = ENOENT;
		return NULL;
	}
	copy = malloc(node->len + 1);
	memcpy(copy, node->value, node->len + 1);
	*len = node->len;
	return copy;
}

static char **mem_list(void *ctx, const char *path, unsigned int *n)
{
	struct mem *m = ctx;
	size_t len = strlen(path), bytes = 0;
	char **names, *text;

	m->lists++;
	if (unreadable(m, path))
		return NULL;
	if (!*find(m, path)) {
		errno = ENOENT;
		return NULL;
	}
	*n = 0;
	for (struct node *node = m->nodes; node; node = node->next) {
		if (is_below(node->path, path) && node->path[len] &&
		    !strchr(node->path + len + 1, '/')) {
			bytes += strlen(node->path + len + 1) + 1;
			(*n)++;
		}
	}
	names = malloc(*n * sizeof(*names) + bytes + 1);
	text = (char *)(names + *n);
	*n = 0;
	for (struct node *node = m->nodes; node; node = node->next) {
		if (is_below(node->path, path) && node->path[len] &&
		    !strchr(node->path + len + 1, '/')) {
			strcpy(text, node->path + len + 1);
			names[(*n)++] = text;
			text += strlen(text) + 1;
		}
	}
	for (unsigned int i = 0; m->list_backwards && i < *n / 2; i++) {
		text = names[i];
		names[i] = names[*n - 1 - i];
		names[*n - 1 - i] = text;
	}
	return names;
}

/* Every change of xwayd comes here: it is to stay where it belongs. */
static int changing(struct mem *m, const char *path)
{
	unsigned int id;
	int end = 0;

	CHECK(sscanf(path, "/local/domain/%u/xway%n", &id, &end) == 1 && end);
	CHECK(!path[end] || path[end] == '/');
	if (m->fail) {
		errno = m->fail;
		m->fail = 0;
		return -1;
	}
	m->writes++;
	return 0;
}

/* Who meets a new domain must not find the link of the old one. */
static void check_introduction(struct mem *m, const char *path, const char *value)
{
	struct node *old = *find(m, path);
	const char *peer = strstr(path, "/peer/");
	char link[STORE_PATH];

	if (!peer || !old || !strncmp(value, "gone ", 5) || !strncmp(old->value, value, 36))
		return;
	snprintf(link, sizeof(link), "%.*s/link/%s", (int)(peer - path), path, peer + 6);
	CHECK(!*find(m, link));
}

static int mem_write(void *ctx, const char *guard, const char *path, const char *value)
{
	struct mem *m = ctx;

	if (!*find(m, guard)) {
		errno = ENOENT;
		return -1;
	}
	if (changing(m, path))
		return -1;
	CHECK(strlen(value) < 2048);
	check_introduction(m, path, value);
	mem_put(m, path, value);
	return 0;
}

static int mem_make(void *ctx, const char *guard, const char *path, unsigned int reader)
{
	struct mem *m = ctx;
	struct node *node = *find(m, path);

	if (node && node->reader == reader)
		return 0;
	if (!*find(m, guard)) {
		errno = ENOENT;
		return -1;
	}
	if (changing(m, path))
		return -1;
	if (!node)
		mem_put(m, path, "");
	(*find(m, path))->reader = reader;
	return 0;
}

static int mem_remove(void *ctx, const char *path)
{
	struct mem *m = ctx;

	if (changing(m, path))
		return -1;
	mem_rm(m, path);
	return 0;
}

static struct watch **find_watch(struct mem *m, const char *path, const char *token)
{
	struct watch **at = &m->watches;

	while (*at && (strcmp((*at)->path, path) || strcmp((*at)->token, token)))
		at = &(*at)->next;
	return at;
}

static int mem_watch(void *ctx, const char *path, const char *token)
{
	struct mem *m = ctx;
	struct watch *w;

	if (*find_watch(m, path, token)) {
		errno = EEXIST;
		return -1;
	}
	w = calloc(1, sizeof(*w));
	w->path = strdup(path);
	w->token = strdup(token);
	w->next = m->watches;
	m->watches = w;
	queue(m, path, token);
	return 0;
}

static int mem_unwatch(void *ctx, const char *path, const char *token)
{
	struct mem *m = ctx;
	struct watch **at = find_watch(m, path, token), *w = *at;

	CHECK(w);
	*at = w->next;
	free(w->path);
	free(w->token);
	free(w);
	return 0;
}

static int mem_domain(void *ctx, unsigned int id, struct domain_info *info)
{
	struct dom *d = find_dom(ctx, id);

	if (!d) {
		errno = ESRCH;
		return -1;
	}
	memcpy(info->uuid, d->uuid, sizeof(info->uuid));
	info->ended = d->ended;
	return 0;
}

static const struct store_ops mem_ops = {
	.read = mem_read,
	.list = mem_list,
	.write = mem_write,
	.make = mem_make,
	.remove = mem_remove,
	.watch = mem_watch,
	.unwatch = mem_unwatch,
	.domain = mem_domain,
};

void mem_init(struct mem *m)
{
	memset(m, 0, sizeof(*m));
	m->store = (struct store){ &mem_ops, m };
	m->last_event = &m->events;
	m->now = 1000000;
	mem_put(m, "/local/domain", "");
	mem_create(m, 0, "00000000-0000-0000-0000-000000000000", "Domain-0", NULL);
}

static void drop_events(struct mem *m)
{
	while (m->events) {
		struct event *e = m->events;

		m->events = e->next;
		free(e->path);
		free(e->token);
		free(e);
	}
	m->last_event = &m->events;
}

void mem_disconnect(struct mem *m)
{
	while (m->watches)
		mem_unwatch(m, m->watches->path, m->watches->token);
}

void mem_free(struct mem *m)
{
	CHECK(!m->watches || mem_watches(m) == 4); /* those that are never taken back */
	mem_disconnect(m);
	mem_rm(m, "");
	drop_events(m);
	while (m->doms) {
		struct dom *d = m->doms;

		m->doms = d->next;
		free(d);
	}
}

void mem_domain_create(struct mem *m, unsigned int id, const char *uuid)
{
	struct dom *d = calloc(1, sizeof(*d));

	CHECK(!find_dom(m, id));
	d->id = id;
	d->next = m->doms;
	m->doms = d;
	mem_domain_rename(m, id, uuid);
}

void mem_domain_rename(struct mem *m, unsigned int id, const char *uuid)
{
	snprintf(find_dom(m, id)->uuid, UUID_TEXT, "%s", uuid);
}

void mem_create(struct mem *m, unsigned int id, const char *uuid, const char *name, const char *ip)
{
	char path[STORE_PATH];

	mem_domain_create(m, id, uuid);
	snprintf(path, sizeof(path), "/local/domain/%u", id);
	mem_put(m, path, "");
	snprintf(path, sizeof(path), "/local/domain/%u/name", id);
	mem_put(m, path, name);
	snprintf(path, sizeof(path), "/local/domain/%u/data", id);
	mem_put(m, path, "");
	mem_introduce(m);
	/* The devices come later, as with libxl. */
	snprintf(path, sizeof(path), "/local/domain/0/backend/vif/%u/0/ip", id);
	if (ip)
		mem_put(m, path, ip);
}

void mem_end(struct mem *m, unsigned int id, const char *reason)
{
	struct dom *d = find_dom(m, id);

	d->ended = reason;
	if (reason)
		mem_release(m);
}

void mem_forget(struct mem *m, unsigned int id)
{
	struct dom **at = &m->doms, *d;

	while ((*at)->id != id)
		at = &(*at)->next;
	d = *at;
	*at = d->next;
	free(d);
}

void mem_introduce(struct mem *m)
{
	queue(m, "@introduceDomain", "introduce");
}

void mem_release(struct mem *m)
{
	queue(m, "@releaseDomain", "release");
}

void mem_destroy(struct mem *m, unsigned int id)
{
	char path[STORE_PATH];

	mem_forget(m, id);
	snprintf(path, sizeof(path), "/local/domain/0/backend/vif/%u", id);
	mem_rm(m, path);
	snprintf(path, sizeof(path), "/libxl/%u", id);
	mem_rm(m, path);
	snprintf(path, sizeof(path), "/local/domain/%u", id);
	mem_rm(m, path);
	mem_release(m);
}

void mem_guest(struct mem *m, unsigned int id, const char *below_data, const char *value)
{
	char path[STORE_PATH];

	snprintf(path, sizeof(path), "/local/domain/%u/data/%s", id, below_data);
	if (value)
		mem_put(m, path, value);
	else
		mem_rm(m, path);
}

const char *mem_get(struct mem *m, const char *path)
{
	struct node *node = *find(m, path);

	return node ? node->value : NULL;
}

unsigned int mem_reader(struct mem *m, const char *path)
{
	struct node *node = *find(m, path);

	return node ? node->reader : ~0u;
}

unsigned int mem_watches(struct mem *m)
{
	unsigned int n = 0;

	for (struct watch *w = m->watches; w; w = w->next)
		n++;
	return n;
}

unsigned int mem_count(struct mem *m, const char *below)
{
	unsigned int n = 0;

	for (struct node *node = m->nodes; node; node = node->next)
		n += is_below(node->path, below) && strcmp(node->path, below);
	return n;
}

static void deliver(struct mem *m, struct xwayd *x)
{
	while (m->events) {
		struct event *e = m->events;

		m->events = e->next;
		if (!m->events)
			m->last_event = &m->events;
		xwayd_event(x, e->path, e->token);
		free(e->path);
		free(e->token);
		free(e);
	}
}

void mem_run(struct mem *m, struct xwayd *x, int64_t ms)
{
	int64_t end = m->now + ms;
	unsigned int turns = 0;

	for (;;) {
		int64_t next;

		deliver(m, x);
		xwayd_run(x, m->now);
		if (m->events)
			continue;
		next = xwayd_next(x);
		/* Work that never comes to rest would spin here. */
		CHECK(++turns < 100000);
		if (next > end)
			break;
		if (next > m->now)
			m->now = next;
	}
	m->now = end;
}
