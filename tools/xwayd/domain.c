// SPDX-License-Identifier: GPL-2.0
/* Which domains there are, and when one has come to its end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "xwayd.h"

/* Above are Xen's own domains. */
#define DOMAIN_IDS 0x7ff0

struct domain *domain_find(struct xwayd *x, unsigned int id)
{
	for (struct domain *d = x->domains; d; d = d->next)
		if (d->id == id)
			return d;
	return NULL;
}

/* Only the one way to write a number counts: guests write some of these. */
bool domain_parse_id(const char *text, unsigned int *id)
{
	unsigned int n = 0;
	size_t len = strlen(text);

	if (!len || len > 5 || (text[0] == '0' && len > 1))
		return false;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		n = n * 10 + (text[i] - '0');
	}
	*id = n;
	return n < DOMAIN_IDS;
}

const char *domain_label(const struct domain *d)
{
	/* Two in one message. */
	static char text[2][200];
	static unsigned int turn;
	char *t = text[turn++ % 2], name[160];
	const char *shown = d->name ? d->name : "no name";

	/* Names may be free text of whoever owns the domain. */
	log_escape(shown, strlen(shown), name, sizeof(name));
	snprintf(t, sizeof(text[0]), "domain %u (%s)", d->id, name);
	return t;
}

bool domain_may_complain(struct domain *d, int64_t now)
{
	if (d->complaints && now - d->complained_at >= COMPLAINT_MS) {
		int64_t earned = (now - d->complained_at) / COMPLAINT_MS;

		d->complaints -= earned < d->complaints ? earned : d->complaints;
		d->complained_at = now;
	}
	if (!d->complaints)
		d->complained_at = now;
	if (d->complaints >= COMPLAINTS)
		return false;
	if (++d->complaints == COMPLAINTS)
		log_warn("%s: complaints about it are rare from now on", domain_label(d));
	return true;
}

/*
 * All these nodes are domain 0's, except data/xway: that one is the guest's
 * own, and the only thing of a guest that is read.
 */
static const struct {
	const char *path;
	const char *token;
} watches[] = {
	{ "/local/domain/%u/name", "name/%u" },
	{ "/local/domain/%u/target", "target/%u" },
	{ "/libxl/%u/device/vif", "vif/%u" },
	{ "/local/domain/%u/data/xway", "offer/%u" },
};

static void watch_all(struct xwayd *x, const struct domain *d, bool on)
{
	char path[STORE_PATH], token[32];

	for (size_t i = 0; i < sizeof(watches) / sizeof(watches[0]); i++) {
		int ret;

		snprintf(path, sizeof(path), watches[i].path, d->id);
		snprintf(token, sizeof(token), watches[i].token, d->id);
		if (on)
			ret = x->store->ops->watch(x->store->ctx, path, token);
		else
			ret = x->store->ops->unwatch(x->store->ctx, path, token);
		if (ret && on)
			log_err("cannot watch %s: %s", path, strerror(errno));
	}
}

static bool is_uuid(const char *text)
{
	return strlen(text) == UUID_TEXT - 1 && strspn(text, "0123456789abcdef-") == UUID_TEXT - 1;
}

/*
 * With xapi a VM that moves has a UUID of its own at each end. The real one is
 * in a node of domain 0: at the new end from the beginning, at the old one
 * since the domain was renamed.
 */
static bool find_uuid(struct xwayd *x, const char *handle, char uuid[UUID_TEXT])
{
	static const char *const notes[] = { "final-uuid", "origin-uuid" };

	memcpy(uuid, handle, UUID_TEXT);
	x->unread = false;
	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
		char dir[64], *note;

		snprintf(dir, sizeof(dir), "/vm/%s", handle);
		note = read_node(x, dir, notes[i]);
		if (note && is_uuid(note))
			memcpy(uuid, note, UUID_TEXT);
		free(note);
	}
	return !x->unread;
}

/* xapi's name for a domain that it is about to destroy, its id behind. */
#define DOOMED "deadbeef-dead-beef-dead-beef0000"

enum identity {
	NOBODY,
	SOMEBODY,
	UNKNOWN, /* for now */
};

/* Which domain this is, @d being the one that had the id last. */
static enum identity identify(struct xwayd *x, const struct domain *d, unsigned int id,
			      struct domain_info *info, char uuid[UUID_TEXT])
{
	char handle[UUID_TEXT];

	if (x->store->ops->domain(x->store->ctx, id, info))
		return NOBODY;
	do {
		bool doomed = !strncmp(info->uuid, DOOMED, strlen(DOOMED));

		if (doomed && !d)
			return NOBODY;
		if (doomed && !info->ended)
			info->ended = "gone";
		memcpy(handle, info->uuid, sizeof(handle));
		if (doomed || (d && !strcmp(d->handle, handle))) {
			memcpy(uuid, d->uuid, UUID_TEXT);
			return SOMEBODY;
		}
		if (!find_uuid(x, handle, uuid))
			return UNKNOWN;
		/* Once it is renamed, the note under its former name is gone. */
		if (x->store->ops->domain(x->store->ctx, id, info))
			return NOBODY;
	} while (strcmp(handle, info->uuid));
	return SOMEBODY;
}

static struct domain *add(struct xwayd *x, unsigned int id, const struct domain_info *info,
			  const char *uuid)
{
	struct domain *d = must(calloc(1, sizeof(*d)));
	struct domain **at = &x->domains;

	d->id = id;
	memcpy(d->uuid, uuid, sizeof(d->uuid));
	memcpy(d->handle, info->uuid, sizeof(d->handle));
	d->ended = info->ended;
	d->born = x->births++;
	d->reread = true;
	d->relay_at = NEVER;
	/* In the order of their ids, so that all runs give the same result. */
	while (*at && (*at)->id < id)
		at = &(*at)->next;
	d->next = *at;
	*at = d;
	watch_all(x, d, true);
	log_debug("domain %u has come, %s", id, d->uuid);
	return d;
}

static void forget(struct xwayd *x, struct domain **at)
{
	struct domain *d = *at;

	*at = d->next;
	watch_all(x, d, false);
	peer_forgotten(x, d);
	relay_forget(d);
	peer_free_all(d);
	free(d->name);
	free(d->groups);
	free(d->value);
	free(d->self);
	vif_forget(d);
	free(d);
}

void domain_free_all(struct xwayd *x)
{
	while (x->domains)
		forget(x, &x->domains);
}

static void end(struct xwayd *x, struct domain *d, const char *reason, int64_t now)
{
	if (!d->ended)
		log_info("%s has ended: %s", domain_label(d), reason);
	d->ended = reason;
	peer_ended(x, d, now);
}

static void set_state(struct xwayd *x, struct domain *d, const struct domain_info *info,
		      int64_t now)
{
	if (info->ended && !d->ended) {
		end(x, d, info->ended, now);
	} else if (!info->ended && d->ended) {
		log_info("%s goes on after %s", domain_label(d), d->ended);
		d->ended = NULL;
		d->reread = true;
	}
}

static void scan_one(struct xwayd *x, unsigned int id, int64_t now)
{
	struct domain *d = domain_find(x, id);
	struct domain_info info;
	char uuid[UUID_TEXT];

	switch (identify(x, d, id, &info, uuid)) {
	case NOBODY:
		/* A directory without a domain: a toolstack builds or removes it. */
		return;
	case UNKNOWN:
		sooner(&x->again_at, now + RETRY_MS);
		if (d)
			d->seen = d->doubted = true;
		return;
	case SOMEBODY:
		break;
	}
	if (d && strcmp(d->uuid, uuid))
		return; /* another one under the same id */
	if (!d)
		d = add(x, id, &info, uuid);
	else
		set_state(x, d, &info, now);
	if (strcmp(d->handle, info.uuid)) {
		log_debug("domain %u was %s, is %s", id, d->handle, info.uuid);
		memcpy(d->handle, info.uuid, sizeof(d->handle));
		/* Events of its nodes may have come and gone meanwhile. */
		d->reread |= d->doubted;
	}
	d->doubted = false;
	d->seen = true;
	if (d->ended && !strcmp(d->ended, "suspend"))
		sooner(&x->again_at, now + SUSPENDED_MS);
}

/* A domain without its directory in the store, or replaced by another one. */
static bool forget_unseen(struct xwayd *x, int64_t now)
{
	struct domain **at = &x->domains;
	bool replaced = false;

	while (*at) {
		struct domain *d = *at;
		struct domain_info info;
		char uuid[UUID_TEXT];
		const char *reason = "gone";

		if (d->seen) {
			at = &d->next;
			continue;
		}
		/* The hypervisor may still know why. */
		switch (identify(x, d, d->id, &info, uuid)) {
		case SOMEBODY:
			if (strcmp(uuid, d->uuid))
				replaced = true;
			else if (info.ended)
				reason = info.ended;
			break;
		case UNKNOWN:
			sooner(&x->again_at, now + RETRY_MS);
			break;
		default:
			break;
		}
		if (!d->ended)
			end(x, d, reason, now);
		forget(x, at);
	}
	return replaced;
}

void domain_scan(struct xwayd *x, int64_t now)
{
	unsigned int n, id;
	char **names;

	/* Again at once when an id has changed hands: the old one had to be
	 * taken leave of first.
	 */
	do {
		names = x->store->ops->list(x->store->ctx, "/local/domain", &n);
		if (!names) {
			log_err("cannot list /local/domain: %s", strerror(errno));
			sooner(&x->again_at, now + RETRY_MS);
			return;
		}
		for (struct domain *d = x->domains; d; d = d->next)
			d->seen = false;
		for (unsigned int i = 0; i < n; i++)
			if (domain_parse_id(names[i], &id))
				scan_one(x, id, now);
		free(names);
	} while (forget_unseen(x, now));
	x->apply = true;
}
