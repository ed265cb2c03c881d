// SPDX-License-Identifier: GPL-2.0
/* Events come in, and what follows from them is done when it is due. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "xwayd.h"

static const struct {
	const char *path;
	const char *token;
} watches[] = {
	{ "@introduceDomain", "introduce" },
	{ "@releaseDomain", "release" },
	{ "/local/domain/0/backend/vif", "vifs" },
	{ "/xapi", "xapi" },
};

int xwayd_start(struct xwayd *x, struct store *store, struct policy *policy)
{
	*x = (struct xwayd){
		.store = store,
		.policy = policy,
		.scan = true,
		.again_at = NEVER,
		.gone_at = NEVER,
		.relay_at = NEVER,
	};
	/* Before the first look, so that nothing falls between the two. */
	for (size_t i = 0; i < sizeof(watches) / sizeof(watches[0]); i++) {
		if (store->ops->watch(store->ctx, watches[i].path, watches[i].token)) {
			log_err("cannot watch %s: %s", watches[i].path, strerror(errno));
			return -1;
		}
	}
	return 0;
}

static bool take_prefix(const char **path, const char *prefix)
{
	size_t len = strlen(prefix);

	if (strncmp(*path, prefix, len))
		return false;
	*path += len;
	return true;
}

/* Below a domain's directory of vifs: "", "/0", "/0/ip", "/0/state", ... */
static bool matters(const char *rest)
{
	static const char *const leaves[] = {
		"/ip", "/mac", "/bridge", "/vlan", "/script", "/rate"
	};
	const char *leaf = *rest == '/' ? strchr(rest + 1, '/') : NULL;

	for (size_t i = 0; leaf && i < sizeof(leaves) / sizeof(leaves[0]); i++)
		if (!strcmp(leaf, leaves[i]))
			return true;
	return !leaf;
}

static void reread(struct xwayd *x, struct domain *d)
{
	d->reread = true;
	x->apply = true;
}

static void vifs_event(struct xwayd *x, const char *path)
{
	char id[8];
	unsigned int n;
	size_t len;

	if (!take_prefix(&path, "/local/domain/0/backend/vif/")) {
		for (struct domain *d = x->domains; d; d = d->next)
			reread(x, d);
		return;
	}
	len = strcspn(path, "/");
	snprintf(id, sizeof(id), "%.*s", (int)(len < 7 ? len : 7), path);
	if (domain_parse_id(id, &n) && matters(path + len)) {
		struct domain *d = domain_find(x, n);

		if (d)
			reread(x, d);
	}
}

/*
 * Below a VM's directory of xapi. One that nobody has is of a domain that is
 * new, or was renamed.
 */
static void xapi_event(struct xwayd *x, const char *path)
{
	static const char vifs[] = "/private/vif";
	bool known = false;
	const char *rest;
	size_t len;

	if (!take_prefix(&path, "/xapi/"))
		return;
	len = strcspn(path, "/");
	rest = path + len;
	/* Its vifs, or what holds them. */
	if (strncmp(rest, vifs, strlen(rest) < strlen(vifs) ? strlen(rest) : strlen(vifs)))
		return;
	for (struct domain *d = x->domains; d; d = d->next) {
		if (len != strlen(d->handle) || strncmp(path, d->handle, len))
			continue;
		reread(x, d);
		known = true;
	}
	if (!known)
		x->scan = true;
	/* The nodes of one change are written one by one. */
	x->settle = true;
}

void xwayd_event(struct xwayd *x, const char *path, const char *token)
{
	const char *id = strchr(token, '/');
	struct domain *d;
	unsigned int n;

	log_debug("event %s (%s)", path, token);
	if (!strcmp(token, "introduce") || !strcmp(token, "release")) {
		x->scan = true;
		return;
	}
	if (!strcmp(token, "vifs")) {
		vifs_event(x, path);
		return;
	}
	if (!strcmp(token, "xapi")) {
		xapi_event(x, path);
		return;
	}
	if (!id || !domain_parse_id(id + 1, &n))
		return;
	d = domain_find(x, n);
	if (!d)
		return;
	if (take_prefix(&token, "offer/")) {
		relay_changed(x, d, path);
	} else if (take_prefix(&token, "vif/")) {
		char dir[STORE_PATH];

		snprintf(dir, sizeof(dir), "/libxl/%u/device/vif", n);
		if (!take_prefix(&path, dir) || matters(path))
			reread(x, d);
	} else if (take_prefix(&token, "name/") || take_prefix(&token, "target/")) {
		reread(x, d);
	}
}

void xwayd_run(struct xwayd *x, int64_t now)
{
	if (now >= x->again_at) {
		x->again_at = NEVER;
		x->scan = true;
	}
	if (now >= x->gone_at)
		x->apply = true;
	if (x->settle && !x->settling) {
		x->settling = true;
		if (x->apply_at < now + CHANGE_MS)
			x->apply_at = now + CHANGE_MS;
	}
	x->settle = false;
	if ((x->scan || x->apply) && now >= x->apply_at) {
		x->settling = false;
		if (x->scan) {
			x->scan = false;
			domain_scan(x, now);
		}
		x->apply = false;
		peer_apply(x, now);
		x->apply_at = now + CHANGE_MS;
	}
	if (now >= x->relay_at)
		relay_run(x, now);
}

int64_t xwayd_next(const struct xwayd *x)
{
	int64_t next = x->scan || x->apply ? x->apply_at : NEVER;

	sooner(&next, x->again_at);
	sooner(&next, x->gone_at);
	sooner(&next, x->relay_at);
	return next;
}

void xwayd_reload(struct xwayd *x, struct policy *policy)
{
	policy_free(x->policy);
	x->policy = policy;
	x->scan = true;
	x->apply_at = 0;
	/* A good moment to mend what somebody else has changed in the store. */
	for (struct domain *d = x->domains; d; d = d->next) {
		d->reread = true;
		d->loaded = false;
		d->made = false;
	}
}

void xwayd_stop(struct xwayd *x)
{
	domain_free_all(x);
	policy_free(x->policy);
	free(x->conflicts);
}

int xwayd_clear(struct store *store)
{
	char **names, path[STORE_PATH];
	unsigned int n, id, removed = 0;
	int ret = 0;

	names = store->ops->list(store->ctx, "/local/domain", &n);
	if (!names) {
		log_err("cannot list /local/domain: %s", strerror(errno));
		return -1;
	}
	for (unsigned int i = 0; i < n; i++) {
		size_t len;
		char *value;

		if (!domain_parse_id(names[i], &id))
			continue;
		snprintf(path, sizeof(path), "/local/domain/%u/xway", id);
		value = store->ops->read(store->ctx, path, &len);
		if (!value) {
			if (errno != ENOENT) {
				log_err("cannot read %s: %s", path, strerror(errno));
				ret = -1;
			}
			continue;
		}
		free(value);
		if (store->ops->remove(store->ctx, path)) {
			log_err("cannot remove %s: %s", path, strerror(errno));
			ret = -1;
		} else {
			removed++;
		}
	}
	free(names);
	log_info("removed the nodes of %u domains", removed);
	return ret;
}
