// SPDX-License-Identifier: GPL-2.0
/* What each domain is told about the others: its xway/peer and xway/link. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "xwayd.h"

#define GONE "gone "

static bool is_gone(const char *said)
{
	return !strncmp(said, GONE, strlen(GONE));
}

struct peer *peer_find(struct domain *d, unsigned int id)
{
	for (struct peer *p = d->peers; p; p = p->next)
		if (p->id == id)
			return p;
	return NULL;
}

/* Where the peer is, or is to be put: in the order of the ids, from @at on. */
static struct peer **seek(struct peer **at, unsigned int id)
{
	while (*at && (*at)->id < id)
		at = &(*at)->next;
	return at;
}

static struct peer *find_or_add(struct domain *d, struct peer **at, unsigned int id)
{
	struct peer *p = *at;

	if (p && p->id == id)
		return p;
	p = must(calloc(1, sizeof(*p)));
	p->owner = d;
	p->id = id;
	p->gone_at = NEVER;
	p->next = *at;
	*at = p;
	return p;
}

static void free_one(struct peer **at)
{
	struct peer *p = *at;

	*at = p->next;
	relay_drop(p);
	free(p->said);
	free(p->link);
	free(p->net);
	free(p->stale);
	free(p->refused);
	free(p);
}

void peer_free_all(struct domain *d)
{
	while (d->peers)
		free_one(&d->peers);
}

/*
 * What is in the store now is no longer known: read it again. A domain that is
 * just going away has no directory any more, that is no error.
 */
static void failed(struct xwayd *x, struct domain *d, const char *path, int64_t now)
{
	if (errno != ENOENT)
		log_err("cannot write %s: %s", path, strerror(errno));
	d->loaded = false;
	d->made = false;
	sooner(&x->again_at, now + RETRY_MS);
}

/* @name: of the node below the domain's xway. @have: its value; set to the new one. */
static bool put(struct xwayd *x, struct domain *d, const char *name, char **have, const char *value,
		int64_t now)
{
	char guard[STORE_PATH], path[STORE_PATH];
	int ret;

	if (same_string(*have, value))
		return true;
	snprintf(guard, sizeof(guard), "/local/domain/%u/xway", d->id);
	snprintf(path, sizeof(path), "/local/domain/%u/xway/%s", d->id, name);
	if (value)
		ret = x->store->ops->write(x->store->ctx, guard, path, value);
	else
		ret = x->store->ops->remove(x->store->ctx, path);
	if (ret) {
		failed(x, d, path, now);
		return false;
	}
	log_debug("%s: %s", path, value ? value : "(removed)");
	set_string(have, value);
	return true;
}

/* @dir: which of the domain's nodes about the peer. @have: as put(). */
static bool put_of(struct xwayd *x, struct domain *d, const char *dir, struct peer *p, char **have,
		   const char *value, int64_t now)
{
	char name[32];

	snprintf(name, sizeof(name), "%s/%u", dir, p->id);
	return put(x, d, name, have, value, now);
}

static bool say(struct xwayd *x, struct domain *d, struct peer *p, const char *value, int64_t now)
{
	return put_of(x, d, "peer", p, &p->said, value, now);
}

void peer_set_link(struct xwayd *x, struct domain *d, struct peer *p, const char *value,
		   int64_t now)
{
	put_of(x, d, "link", p, &p->link, value, now);
}

static void set_net(struct xwayd *x, struct domain *d, struct peer *p, const char *value,
		    int64_t now)
{
	put_of(x, d, "net", p, &p->net, value, now);
}

static void tell_gone(struct xwayd *x, struct domain *d, struct peer *p, const char *reason,
		      int64_t now)
{
	char text[64];

	p->live = false;
	snprintf(text, sizeof(text), GONE "%s", reason);
	say(x, d, p, text, now);
	p->gone_at = now + GONE_MS;
	sooner(&x->gone_at, p->gone_at);
	/* Should it go on, this offer is of a link that has ended. */
	if (p->link)
		set_string(&p->stale, p->link);
	peer_set_link(x, d, p, NULL, now);
}

void peer_ended(struct xwayd *x, struct domain *q, int64_t now)
{
	for (struct domain *d = x->domains; d; d = d->next) {
		struct peer *p = d == q ? NULL : peer_find(d, q->id);

		if (p && p->said && !is_gone(p->said))
			tell_gone(x, d, p, q->ended, now);
	}
}

void peer_forgotten(struct xwayd *x, const struct domain *q)
{
	for (struct domain *d = x->domains; d; d = d->next) {
		struct peer *p = peer_find(d, q->id);

		if (p) {
			set_string(&p->stale, NULL);
			set_string(&p->refused, NULL);
		}
	}
}

static void load_dir(struct xwayd *x, struct domain *d, const char *dir, int64_t now)
{
	char path[STORE_PATH];
	unsigned int n, id;
	char **names;

	snprintf(path, sizeof(path), "/local/domain/%u/xway/%s", d->id, dir);
	names = list_nodes(x, path, &n);
	for (unsigned int i = 0; names && i < n; i++) {
		struct peer *p;
		char *value;

		if (!domain_parse_id(names[i], &id))
			continue;
		value = read_node(x, path, names[i]);
		if (!value)
			continue;
		p = find_or_add(d, seek(&d->peers, id), id);
		if (!strcmp(dir, "peer")) {
			p->said = value;
			if (is_gone(value))
				p->gone_at = now + GONE_MS;
			else
				snprintf(p->uuid, sizeof(p->uuid), "%.36s", value);
		} else if (!strcmp(dir, "link")) {
			p->link = value;
		} else {
			p->net = value;
		}
	}
	free(names);
}

/* What the store does not have of peers that were known before it was read again. */
static void keep_marks(struct domain *d, struct peer *old)
{
	for (; old; free_one(&old)) {
		struct peer *p = peer_find(d, old->id);

		if (!p && !old->stale)
			continue;
		p = find_or_add(d, seek(&d->peers, old->id), old->id);
		set_string(&p->stale, old->stale);
		set_string(&p->refused, old->refused);
		/* Whom it was told of last: a "gone" node does not say. */
		if (!p->uuid[0])
			memcpy(p->uuid, old->uuid, sizeof(p->uuid));
	}
}

/* Should one that has ended go on, what it offers now is of a link that has ended. */
static void find_stale(struct xwayd *x, struct domain *d)
{
	char dir[STORE_PATH], name[16];

	snprintf(name, sizeof(name), "%u", d->id);
	for (struct peer *p = d->peers; p; p = p->next) {
		const struct domain *q = domain_find(x, p->id);

		if (p->stale || !p->said || !is_gone(p->said) || !q || !q->ended)
			continue;
		snprintf(dir, sizeof(dir), "/local/domain/%u/data/xway", q->id);
		p->stale = read_node(x, dir, name);
	}
}

/* Gets the domain's node ready, and to know what is there. */
static void load(struct xwayd *x, struct domain *d, int64_t now)
{
	char guard[STORE_PATH], path[STORE_PATH];
	struct peer *old;

	snprintf(guard, sizeof(guard), "/local/domain/%u", d->id);
	snprintf(path, sizeof(path), "/local/domain/%u/xway", d->id);
	if (d->party && !d->made) {
		if (x->store->ops->make(x->store->ctx, guard, path, d->id)) {
			failed(x, d, path, now);
			return;
		}
		d->made = true;
	}
	if (d->loaded)
		return;
	old = d->peers;
	d->peers = NULL;
	x->unread = false;
	load_dir(x, d, "peer", now);
	load_dir(x, d, "link", now);
	load_dir(x, d, "net", now);
	free(d->self);
	d->self = read_node(x, path, "self");
	keep_marks(d, old);
	find_stale(x, d);
	/* What is there without our knowing it would stay for ever. */
	d->loaded = !x->unread;
	if (!d->loaded)
		sooner(&x->again_at, now + RETRY_MS);
}

/*
 * @d is about to hear of another domain under an id that it knows: what it
 * offers to this id now, it offers to the old one. False: it must not hear of it yet.
 */
static bool age_offer(struct xwayd *x, struct domain *d, struct domain *q, int64_t now)
{
	struct peer *r = find_or_add(q, seek(&q->peers, d->id), d->id);
	bool failed;
	size_t len;
	char *offer = offer_read(x, d->id, q->id, &len, &failed);

	if (failed) {
		sooner(&x->again_at, now + RETRY_MS);
		return false;
	}
	set_string(&r->stale, offer);
	free(offer);
	return true;
}

/* What @d may do with @q, and can. */
static unsigned int common(const struct xwayd *x, const struct domain *d, const struct domain *q)
{
	unsigned int services = claim_services(x, d, q);

	if (!d->addressed || !q->addressed)
		services &= ~SERVICE_SOCKETS;
	return services;
}

/* Was @p told of another domain under this id, as far as is known? */
static bool is_another(const struct peer *p, const struct domain *q)
{
	return p->uuid[0] ? strcmp(p->uuid, q->uuid) : p->said && is_gone(p->said);
}

static void introduce(struct xwayd *x, struct domain *d, struct peer *p, struct domain *q,
		      int64_t now)
{
	unsigned int services = common(x, d, q);

	/* Another domain under an old id: nothing of the old one is left first. */
	if (p->said && strncmp(p->said, q->value, strlen(q->uuid))) {
		if (!is_gone(p->said))
			p->live = false;
		if (!p->live)
			peer_set_link(x, d, p, NULL, now);
		set_net(x, d, p, NULL, now);
	}
	if (is_another(p, q) && !age_offer(x, d, q, now))
		return;
	if (services & SERVICE_NET) {
		char *pairs = vif_pairs(d, q);

		set_net(x, d, p, pairs, now);
		free(pairs);
	}
	/* The addresses are those that sockets go to. */
	if (!say(x, d, p, services & SERVICE_SOCKETS ? q->value : q->uuid, now))
		return;
	if (!(services & SERVICE_NET))
		set_net(x, d, p, NULL, now);
	memcpy(p->uuid, q->uuid, sizeof(p->uuid));
	p->gone_at = NEVER;
	if (!p->live) {
		p->live = true;
		relay_introduced(x, q, p);
	}
}

static void withdraw(struct xwayd *x, struct domain *d, struct peer *p, int64_t now)
{
	p->live = false;
	if (p->said && !is_gone(p->said)) {
		struct domain *q = domain_find(x, p->id);

		if (!q || q->ended) {
			tell_gone(x, d, p, q ? q->ended : "gone", now);
			return;
		}
		say(x, d, p, NULL, now);
	} else if (p->said && now >= p->gone_at) {
		say(x, d, p, NULL, now);
	}
	if (p->said)
		sooner(&x->gone_at, p->gone_at);
	else
		p->uuid[0] = '\0';
	peer_set_link(x, d, p, NULL, now);
	if (!p->said)
		set_net(x, d, p, NULL, now);
}

static bool has_peers(const struct xwayd *x, const struct domain *d)
{
	for (const struct domain *q = x->domains; q; q = q->next)
		if (common(x, d, q))
			return true;
	return false;
}

static void apply_one(struct xwayd *x, struct domain *d, int64_t now)
{
	struct peer **at = &d->peers;
	bool meets = has_peers(x, d);

	/*
	 * First, and removed last: a domain uses a peer only from addresses that it knows to be its
	 * own, but from any if there is no such node, as an older xwayd has it.
	 */
	if (meets && !put(x, d, "self", &d->self, d->value, now))
		return;
	for (struct peer *p = d->peers; p; p = p->next)
		p->wanted = false;
	/* Both lists are in the order of the ids. */
	for (struct domain *q = x->domains; q; q = q->next) {
		if (!common(x, d, q))
			continue;
		at = seek(at, q->id);
		find_or_add(d, at, q->id)->wanted = true;
		introduce(x, d, *at, q, now);
	}
	at = &d->peers;
	while (*at) {
		struct peer *p = *at;

		if (!p->wanted)
			withdraw(x, d, p, now);
		if (!p->said && !p->link && !p->net && !p->stale)
			free_one(at);
		else
			at = &p->next;
	}
	if (!meets)
		put(x, d, "self", &d->self, NULL, now);
}

void peer_apply(struct xwayd *x, int64_t now)
{
	claim_apply(x, now);
	x->gone_at = NEVER;
	for (struct domain *d = x->domains; d; d = d->next)
		if (!d->ended)
			load(x, d, now);
	for (struct domain *d = x->domains; d; d = d->next)
		if (!d->ended && d->loaded)
			apply_one(x, d, now);
}
