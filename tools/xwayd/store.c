// SPDX-License-Identifier: GPL-2.0
/* All access to XenStore and to the hypervisor. */
#include "store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "xen.h"
#include "xs.h"

/* Transactions that others keep getting in the way of. */
#define TRIES 20

/* Permissions, as XenStore has them: one after another, a NUL behind each. */
#define PERMS_MAX 32

struct real {
	struct store store;
	struct xs *xs;
	struct xen *xen;
};

static char *real_read(void *ctx, const char *path, size_t *len)
{
	struct real *r = ctx;

	return xs_ask(r->xs, XS_READ, 0, path, NULL, 0, len);
}

static char **real_list(void *ctx, const char *path, unsigned int *n)
{
	struct real *r = ctx;

	return xs_list(r->xs, path, n);
}

/* Something whose answer says no more than that it is done. */
static bool done(struct real *r, enum xs_request what, uint32_t t, const char *path,
		 const void *rest, size_t len)
{
	size_t got;
	char *answer = xs_ask(r->xs, what, t, path, rest, len, &got);

	free(answer);
	return answer != NULL;
}

/* The permissions of a node that domain 0 owns and @reader may read. */
static size_t wanted_perms(char perms[PERMS_MAX], unsigned int reader)
{
	if (!reader)
		return sprintf(perms, "n0") + 1;
	return sprintf(perms, "n0%cr%u", '\0', reader) + 1;
}

static bool has_perms(struct real *r, const char *path, unsigned int reader)
{
	char want[PERMS_MAX], *have;
	size_t n_want = wanted_perms(want, reader), n_have;
	bool same;

	have = xs_ask(r->xs, XS_GET_PERMS, 0, path, NULL, 0, &n_have);
	same = have && n_have == n_want && !memcmp(have, want, n_want);
	free(have);
	return same;
}

static bool begin(struct real *r, uint32_t *t)
{
	size_t got;
	char *answer = xs_ask(r->xs, XS_TRANSACTION_START, 0, "", NULL, 0, &got);

	if (!answer)
		return false;
	*t = strtoul(answer, NULL, 10);
	free(answer);
	return true;
}

/* Writes @value, or makes the node when there is none, while @guard exists. */
static int change(struct real *r, const char *guard, const char *path, const char *value,
		  unsigned int reader)
{
	char perms[PERMS_MAX];
	size_t n_perms = wanted_perms(perms, reader);
	int err = EAGAIN;

	for (int i = 0; i < TRIES && err == EAGAIN; i++) {
		uint32_t t;
		bool ok;

		if (!begin(r, &t))
			return -1;
		ok = done(r, XS_READ, t, guard, NULL, 0);
		if (ok && value)
			ok = done(r, XS_WRITE, t, path, value, strlen(value));
		else if (ok)
			ok = done(r, XS_MKDIR, t, path, NULL, 0) &&
			     done(r, XS_SET_PERMS, t, path, perms, n_perms);
		err = ok ? 0 : errno;
		if (!done(r, XS_TRANSACTION_END, t, ok ? "T" : "F", NULL, 0) && ok)
			err = errno;
	}
	errno = err;
	return err ? -1 : 0;
}

static int real_write(void *ctx, const char *guard, const char *path, const char *value)
{
	return change(ctx, guard, path, value, 0);
}

static int real_make(void *ctx, const char *guard, const char *path, unsigned int reader)
{
	if (has_perms(ctx, path, reader))
		return 0;
	return change(ctx, guard, path, NULL, reader);
}

static int real_remove(void *ctx, const char *path)
{
	return done(ctx, XS_RM, 0, path, NULL, 0) || errno == ENOENT ? 0 : -1;
}

static int real_watch(void *ctx, const char *path, const char *token)
{
	struct real *r = ctx;

	return xs_watch(r->xs, path, token);
}

static int real_unwatch(void *ctx, const char *path, const char *token)
{
	struct real *r = ctx;

	return xs_unwatch(r->xs, path, token);
}

static int real_domain(void *ctx, unsigned int id, struct domain_info *info)
{
	struct real *r = ctx;

	return xen_domain(r->xen, id, info);
}

static const struct store_ops real_ops = {
	.read = real_read,
	.list = real_list,
	.write = real_write,
	.make = real_make,
	.remove = real_remove,
	.watch = real_watch,
	.unwatch = real_unwatch,
	.domain = real_domain,
};

/* What domain 0 can do is in this file of every domain that has it. */
static bool in_other_domain(void)
{
	char text[64] = "";
	FILE *file = fopen("/proc/xen/capabilities", "re");
	size_t n;

	if (!file)
		return false;
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	fclose(file);
	return !strstr(text, "control_d");
}

/* The hypervisor's answer to any domain but the first, or in an interface that is not known here. */
static bool is_final(int err)
{
	return err == EPERM || err == EACCES || err == ENOSYS;
}

struct store *store_open(bool *hopeless)
{
	struct real *r;
	struct domain_info info;

	*hopeless = in_other_domain();
	if (*hopeless) {
		log_err("this is not domain 0: /proc/xen/capabilities has no 'control_d'");
		return NULL;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		abort();
	r->store = (struct store){ &real_ops, r };
	r->xs = xs_open();
	if (!r->xs) {
		log_err("XenStore does not answer: %s (xwayd runs in domain 0 of a Xen host)",
			strerror(errno));
		free(r);
		return NULL;
	}
	r->xen = xen_open();
	if (!r->xen || xen_domain(r->xen, 0, &info)) {
		*hopeless = r->xen && is_final(errno);
		log_err("the hypervisor does not answer: %s (xwayd runs in domain 0, as root,"
			" on Xen " XEN_RELEASES ")",
			strerror(errno));
		if (r->xen)
			xen_close(r->xen);
		xs_close(r->xs);
		free(r);
		return NULL;
	}
	return &r->store;
}

void store_close(struct store *store)
{
	struct real *r = store->ctx;

	xen_close(r->xen);
	xs_close(r->xs);
	free(r);
}

int store_fd(struct store *store)
{
	struct real *r = store->ctx;

	return xs_fd(r->xs);
}

int store_broken(struct store *store)
{
	struct real *r = store->ctx;

	return xs_broken(r->xs);
}

bool store_has_event(struct store *store)
{
	struct real *r = store->ctx;

	return xs_has_event(r->xs);
}

int store_event(struct store *store, char **path, char **token, void **block)
{
	struct real *r = store->ctx;

	return xs_event(r->xs, path, token, block);
}
