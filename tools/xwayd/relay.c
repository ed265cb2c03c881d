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

char *offer_read(struct xwayd *x, unsigned int from, unsigned int to, size_t *len)
{
	char path[STORE_PATH];

	snprintf(path, sizeof(path), "/local/domain/%u/data/xway/%u", from, to);
	return x->store->ops->read(x->store->ctx, path, len);
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

static void mark(struct xwayd *x, struct domain *from, struct domain *to)
{
	struct peer *p = from == to ? NULL : peer_find(to, from->id);

	/* Offers to anybody else are not looked at until they may talk. */
	if (!p || !p->live)
		return;
	p->dirty = true;
	sooner(&x->relay_at, p->relay_at);
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
	/* The whole directory came or went. */
	for (to = x->domains; to; to = to->next)
		mark(x, from, to);
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

static void relay_one(struct xwayd *x, struct domain *to, struct peer *p, int64_t now)
{
	struct domain *from = domain_find(x, p->id);
	size_t len = 0;
	char *value;

	p->dirty = false;
	p->relay_at = now + CHANGE_MS;
	if (!from)
		return;
	value = offer_read(x, from->id, to->id, &len);
	if (!value && errno != ENOENT) {
		log_err("cannot read the offer of domain %u to domain %u: %s", from->id, to->id,
			strerror(errno));
		p->dirty = true;
		p->relay_at = now + RETRY_MS;
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

void relay_run(struct xwayd *x, int64_t now)
{
	x->relay_at = NEVER;
	for (struct domain *d = x->domains; d; d = d->next) {
		for (struct peer *p = d->peers; p; p = p->next) {
			if (!p->dirty || !p->live)
				continue;
			if (now >= p->relay_at)
				relay_one(x, d, p, now);
			if (p->dirty)
				sooner(&x->relay_at, p->relay_at);
		}
	}
}
