// SPDX-License-Identifier: GPL-2.0
/* All access to XenStore and to the hypervisor. */
#include "store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xenctrl.h>
#include <xenstore.h>

#include "log.h"

/* Transactions that others keep getting in the way of. */
#define TRIES 20

struct real {
	struct store store;
	struct xs_handle *xs;
	xc_interface *xc;
};

static char *real_read(void *ctx, const char *path, size_t *len)
{
	struct real *r = ctx;
	unsigned int n = 0;
	char *value = xs_read(r->xs, XBT_NULL, path, &n);

	*len = n;
	return value;
}

static char **real_list(void *ctx, const char *path, unsigned int *n)
{
	struct real *r = ctx;

	return xs_directory(r->xs, XBT_NULL, path, n);
}

static bool exists(struct real *r, xs_transaction_t t, const char *path)
{
	unsigned int len;
	void *value = xs_read(r->xs, t, path, &len);

	free(value);
	return value != NULL;
}

/* The permissions of a node that domain 0 owns and @reader may read. */
static unsigned int wanted_perms(struct xs_permissions perms[2], unsigned int reader)
{
	perms[0] = (struct xs_permissions){ .id = 0, .perms = XS_PERM_NONE };
	perms[1] = (struct xs_permissions){ .id = reader, .perms = XS_PERM_READ };
	return reader ? 2 : 1;
}

static bool has_perms(struct real *r, const char *path, unsigned int reader)
{
	struct xs_permissions want[2], *have;
	unsigned int n_want = wanted_perms(want, reader), n_have = 0;
	bool same;

	have = xs_get_permissions(r->xs, XBT_NULL, path, &n_have);
	if (!have)
		return false;
	same = n_have == n_want;
	for (unsigned int i = 0; same && i < n_want; i++)
		same = have[i].id == want[i].id && have[i].perms == want[i].perms;
	free(have);
	return same;
}

/* Writes @value, or makes the node when there is none, while @guard exists. */
static int change(struct real *r, const char *guard, const char *path, const char *value,
		  unsigned int reader)
{
	struct xs_permissions perms[2];
	unsigned int n_perms = wanted_perms(perms, reader);
	int err = EAGAIN;

	for (int i = 0; i < TRIES && err == EAGAIN; i++) {
		xs_transaction_t t = xs_transaction_start(r->xs);
		bool ok;

		if (t == XBT_NULL)
			return -1;
		ok = exists(r, t, guard);
		if (ok && value)
			ok = xs_write(r->xs, t, path, value, strlen(value));
		else if (ok)
			ok = xs_mkdir(r->xs, t, path) &&
			     xs_set_permissions(r->xs, t, path, perms, n_perms);
		err = ok ? 0 : errno;
		if (!xs_transaction_end(r->xs, t, !ok) && ok)
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
	struct real *r = ctx;

	return xs_rm(r->xs, XBT_NULL, path) || errno == ENOENT ? 0 : -1;
}

static int real_watch(void *ctx, const char *path, const char *token)
{
	struct real *r = ctx;

	return xs_watch(r->xs, path, token) ? 0 : -1;
}

static int real_unwatch(void *ctx, const char *path, const char *token)
{
	struct real *r = ctx;

	return xs_unwatch(r->xs, path, token) ? 0 : -1;
}

static const char *end_reason(const xc_domaininfo_t *info)
{
	if (info->flags & XEN_DOMINF_shutdown) {
		switch ((info->flags >> XEN_DOMINF_shutdownshift) & XEN_DOMINF_shutdownmask) {
		case SHUTDOWN_poweroff:
			return "poweroff";
		case SHUTDOWN_reboot:
		case SHUTDOWN_soft_reset:
			return "reboot";
		case SHUTDOWN_suspend:
			return "suspend";
		case SHUTDOWN_crash:
		case SHUTDOWN_watchdog:
			return "crash";
		}
		return "gone";
	}
	return info->flags & XEN_DOMINF_dying ? "gone" : NULL;
}

static int real_domain(void *ctx, unsigned int id, struct domain_info *out)
{
	struct real *r = ctx;
	xc_domaininfo_t info;
	const uint8_t *h;
	int n;

	/* It answers with the first domain from this id on. */
	n = xc_domain_getinfolist(r->xc, id, 1, &info);
	if (n < 0)
		return -1;
	if (n != 1 || info.domain != id) {
		errno = ESRCH;
		return -1;
	}
	h = info.handle;
	snprintf(out->uuid, sizeof(out->uuid),
		 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", h[0], h[1],
		 h[2], h[3], h[4], h[5], h[6], h[7], h[8], h[9], h[10], h[11], h[12], h[13], h[14],
		 h[15]);
	out->ended = end_reason(&info);
	return 0;
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

struct store *store_open(void)
{
	struct real *r = calloc(1, sizeof(*r));

	if (!r)
		abort();
	r->store = (struct store){ &real_ops, r };
	/* The filter drops events of a watch that was taken back: tokens hold
	 * domain ids, and those come again.
	 */
	r->xs = xs_open(XS_UNWATCH_FILTER);
	if (!r->xs) {
		log_err("XenStore does not answer: %s (xwayd runs in domain 0 of a Xen host)",
			strerror(errno));
		free(r);
		return NULL;
	}
	r->xc = xc_interface_open(NULL, NULL, 0);
	if (!r->xc) {
		log_err("the hypervisor does not answer: %s (xwayd runs in domain 0, as root)",
			strerror(errno));
		xs_close(r->xs);
		free(r);
		return NULL;
	}
	return &r->store;
}

void store_close(struct store *store)
{
	struct real *r = store->ctx;

	xc_interface_close(r->xc);
	xs_close(r->xs);
	free(r);
}

int store_fd(struct store *store)
{
	struct real *r = store->ctx;

	return xs_fileno(r->xs);
}

int store_event(struct store *store, char **path, char **token, void **block)
{
	struct real *r = store->ctx;
	char **event = xs_check_watch(r->xs);

	if (!event)
		return 0;
	*path = event[XS_WATCH_PATH];
	*token = event[XS_WATCH_TOKEN];
	*block = event;
	return 1;
}
