// SPDX-License-Identifier: GPL-2.0
/*
 * Offers from one domain to another. They are the only thing of a guest that
 * is read, and nothing in them is believed: they have one form, one length and
 * a rate at which they may change, and go only where the policy lets them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "xwayd.h"

#define OFFER_BYTES 64
#define NONCE_DIGITS 16
#define GREF_END (1ull << 31)
#define PORT_END (1ull << 17)

/* Takes a decimal number in its shortest form, below @end. */
static bool take_number(const char **at, unsigned long long end, unsigned long long *value)
{
	const char *c = *at;

	if (c[0] == '0' && c[1] >= '0' && c[1] <= '9')
		return false;
	*value = 0;
	/* Leaves before it could overflow. */
	for (; *c >= '0' && *c <= '9' && *value < end; c++)
		*value = *value * 10 + (*c - '0');
	if (c == *at || *value >= end)
		return false;
	*at = c;
	return true;
}

static bool take_char(const char **at, char c)
{
	if (**at != c)
		return false;
	(*at)++;
	return true;
}

/* To be freed; NULL: there is none, or it could not be read, which is logged. */
char *offer_read(struct xwayd *x, unsigned int from, unsigned int to, size_t *len, bool *failed)
{
	char path[STORE_PATH], *value;

	snprintf(path, sizeof(path), "/local/domain/%u/data/xway/%u", from, to);
	value = x->store->ops->read(x->store->ctx, path, len);
	*failed = !value && errno != ENOENT;
	if (*failed)
		log_err("cannot read the offer of domain %u to domain %u: %s", from, to,
			strerror(errno));
	return value;
}

/* @value has a NUL behind its @len bytes. */
bool offer_ok(const char *value, size_t len, unsigned int from, unsigned int to)
{
	unsigned long long gref, port;
	const char *at = value;

	if (len > OFFER_BYTES || strlen(value) != len)
		return false;
	if (!take_char(&at, '1') || !take_char(&at, ' '))
		return false;
	for (int i = 0; i < NONCE_DIGITS; i++, at++)
		if (!((*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'f')))
			return false;
	if (!take_char(&at, ' ') || !take_number(&at, GREF_END, &gref))
		return false;
	if (!take_char(&at, ' ') || !take_number(&at, PORT_END, &port))
		return false;
	/* The lower domain allocates the port, the higher one binds to it. */
	return *at == '\0' && (from < to) == (port != 0);
}

/* What changes at most this often for each domain, and a few more at once. */
#define BURST 10

/* To be looked at when it is its turn, and no sooner than at @at. */
static void queue(struct xwayd *x, struct domain *from, struct peer *p, int64_t at)
{
	struct peer **end = &from->changed;

	if (!p->from) {
		while (*end)
			end = &(*end)->next_changed;
		*end = p;
		p->next_changed = NULL;
		p->from = from;
	}
	sooner(&from->relay_at, at);
	sooner(&x->relay_at, at);
}

void relay_drop(struct peer *p)
{
	struct peer **at;

	if (!p->from)
		return;
	at = &p->from->changed;
	while (*at != p)
		at = &(*at)->next_changed;
	*at = p->next_changed;
	p->from = NULL;
}

void relay_forget(struct domain *from)
{
	while (from->changed)
		relay_drop(from->changed);
}

static void mark(struct xwayd *x, struct domain *from, struct domain *to)
{
	struct peer *p = from == to ? NULL : peer_find(to, from->id);

	/* Offers to anybody else are not looked at until they may talk. */
	if (p && p->live)
		queue(x, from, p, p->relay_at);
}

void relay_introduced(struct xwayd *x, struct domain *from, struct peer *p)
{
	p->introduced = true;
	queue(x, from, p, p->relay_at);
}

void relay_changed(struct xwayd *x, struct domain *from, const char *path)
{
	char prefix[STORE_PATH], name[8];
	struct domain *to;
	unsigned int id;
	size_t len;

	len = snprintf(prefix, sizeof(prefix), "/local/domain/%u/data/xway/", from->id);
	if (!strncmp(path, prefix, len)) {
		snprintf(name, sizeof(name), "%s", path + len);
		to = domain_parse_id(name, &id) ? domain_find(x, id) : NULL;
		if (to)
			mark(x, from, to);
		return;
	}
	/* The whole directory came or went. It may do so as often as the guest likes. */
	if (from->all_changed)
		return;
	from->all_changed = true;
	sooner(&from->relay_at, from->all_at);
	sooner(&x->relay_at, from->all_at);
}

static void complain(struct domain *from, struct domain *to, struct peer *p, const char *value,
		     size_t len, int64_t now)
{
	char text[4 * OFFER_BYTES + 8];

	log_escape(value, len, text, sizeof(text));
	if (same_string(text, p->refused))
		return;
	set_string(&p->refused, text);
	if (domain_may_complain(from, now))
		log_warn("%s: bad offer to domain %u, not relayed: '%s'", domain_label(from),
			 to->id, text);
}

static void relay_one(struct xwayd *x, struct domain *from, struct peer *p, int64_t now)
{
	struct domain *to = p->owner;
	size_t len = 0;
	char *value;
	bool failed;

	p->introduced = false;
	p->relay_at = now + CHANGE_MS;
	value = offer_read(x, from->id, to->id, &len, &failed);
	if (failed) {
		p->relay_at = now + RETRY_MS;
		queue(x, from, p, p->relay_at);
		return;
	}
	if (value && !offer_ok(value, len, from->id, to->id)) {
		complain(from, to, p, value, len, now);
		free(value);
		value = NULL;
	} else {
		set_string(&p->refused, NULL);
	}
	/* Its link has ended since, or it was for somebody else. */
	if (value && same_string(value, p->stale)) {
		free(value);
		value = NULL;
	} else if (value) {
		set_string(&p->stale, NULL);
	}
	peer_set_link(x, to, p, value, now);
	free(value);
}

/*
 * At once it may take back what it has offered to each peer and offer anew, as when its module
 * is loaded again, and a few more. Then it has to wait.
 */
static unsigned int most_at_once(const struct domain *from)
{
	unsigned int n = BURST;

	for (const struct peer *p = from->peers; p; p = p->next)
		n += 2;
	return n;
}

static void earn(struct domain *from, int64_t now)
{
	int64_t earned = (now - from->spent_at) / CHANGE_MS;

	if (earned >= from->spent) {
		from->spent = 0;
		from->spent_at = now;
	} else {
		from->spent -= earned;
		from->spent_at += earned * CHANGE_MS;
	}
}

/*
 * What a domain changes costs xwayd reads, and writes to others. So each domain may
 * have so much of it, which its peers share: whoever was looked at goes to the end
 * of the queue.
 */
static void relay_from(struct xwayd *x, struct domain *from, int64_t now)
{
	unsigned int most = most_at_once(from);
	struct peer *p, *next;

	earn(from, now);
	from->relay_at = NEVER;
	for (p = from->changed; p; p = next) {
		int64_t at = p->relay_at;

		next = p->next_changed;
		if (!p->introduced && from->spent >= most && at < from->spent_at + CHANGE_MS)
			at = from->spent_at + CHANGE_MS;
		if (now < at) {
			sooner(&from->relay_at, at);
			continue;
		}
		from->spent += !p->introduced;
		relay_drop(p);
		if (p->live)
			relay_one(x, from, p, now);
	}
}

static void mark_all(struct xwayd *x, struct domain *from, int64_t now)
{
	from->all_changed = false;
	from->all_at = now + CHANGE_MS;
	for (struct domain *to = x->domains; to; to = to->next)
		mark(x, from, to);
}

void relay_run(struct xwayd *x, int64_t now)
{
	for (struct domain *d = x->domains; d; d = d->next) {
		if (d->all_changed && now >= d->all_at)
			mark_all(x, d, now);
		if (now >= d->relay_at)
			relay_from(x, d, now);
	}
	x->relay_at = NEVER;
	for (struct domain *d = x->domains; d; d = d->next) {
		if (d->all_changed)
			sooner(&d->relay_at, d->all_at);
		sooner(&x->relay_at, d->relay_at);
	}
}
