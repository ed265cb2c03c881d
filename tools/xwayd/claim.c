// SPDX-License-Identifier: GPL-2.0
/* Which addresses each domain has, and which domains may talk. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "xwayd.h"

static bool add_addr(struct addr *addrs, unsigned int *n, const struct addr *addr)
{
	for (unsigned int i = 0; i < *n; i++)
		if (!addr_compare(&addrs[i], addr))
			return true;
	if (*n == DOMAIN_ADDRS)
		return false;
	addrs[(*n)++] = *addr;
	return true;
}

/* libxl's lists have spaces, xapi's have commas. */
#define BETWEEN " ,\t\n"

static void read_vif_addrs(struct domain *d, char *text)
{
	char *rest, *word;
	struct addr addr;

	for (word = strtok_r(text, BETWEEN, &rest); word; word = strtok_r(NULL, BETWEEN, &rest)) {
		char *slash = strchr(word, '/');
		char shown[80];
		const char *wrong;

		/* One address may be written as a network of one. */
		if (slash && (!strcmp(slash, "/32") || !strcmp(slash, "/128")))
			*slash = '\0';
		wrong = addr_parse(word, &addr);
		if (wrong)
			log_notice("%s: '%s' of its vif %s, left out", domain_label(d),
				   log_escape(word, strlen(word), shown, sizeof(shown)), wrong);
		else if (!add_addr(d->vif, &d->n_vif, &addr))
			log_warn("%s: more than %d addresses, the others are left out",
				 domain_label(d), DOMAIN_ADDRS);
	}
}

static void read_addrs(struct xwayd *x, struct domain *d, const char *dir, const char *leaf)
{
	char *text = read_node(x, dir, leaf);

	if (text)
		read_vif_addrs(d, text);
	free(text);
}

/*
 * Only nodes that domain 0 owns: the frontend's directory, with its "backend",
 * is the guest's own, and it could point to anywhere. For a backend in another
 * domain libxl keeps a copy below /libxl.
 */
static const char *const vif_dirs[] = {
	"/local/domain/0/backend/vif/%u",
	"/libxl/%u/device/vif",
};

/*
 * xapi's nodes of a vif belong to its back end's domain, so those of a vif with
 * a back end elsewhere do not count. Nor does an address that the guest is free
 * to change: only "locked" has the switch drop what comes from any other.
 */
static void read_locked(struct xwayd *x, struct domain *d, const char *vif)
{
	char dir[STORE_PATH], *mode;

	vif_private_dir(d, vif, dir);
	mode = read_node(x, dir, "locking-mode");
	if (mode && !strcmp(mode, "locked")) {
		read_addrs(x, d, dir, "ipv4-allowed");
		read_addrs(x, d, dir, "ipv6-allowed");
	}
	free(mode);
}

static void read_vifs(struct xwayd *x, struct domain *d)
{
	char dir[2][64];
	unsigned int n;

	d->n_vif = 0;
	vif_forget(d);
	for (int i = 0; i < 2; i++) {
		char **vifs;

		snprintf(dir[i], sizeof(dir[i]), vif_dirs[i], d->id);
		vifs = list_nodes(x, dir[i], &n);
		if (!vifs)
			continue;
		for (unsigned int v = 0; v < n; v++) {
			char vif[STORE_PATH], *seen = NULL;

			/* The backend's directory comes first, and counts. */
			if (i) {
				seen = read_node(x, dir[0], vifs[v]);
				free(seen);
			} else {
				read_locked(x, d, vifs[v]);
				vif_read(x, d, vifs[v]);
			}
			snprintf(vif, sizeof(vif), "%.64s/%.8s", dir[i], vifs[v]);
			if (!seen)
				read_addrs(x, d, vif, "ip");
		}
		free(vifs);
	}
}

/*
 * The device model of an HVM guest, in a domain of its own: libxl gives it copies of
 * the guest's interfaces, with their addresses. The node is right below the domain's
 * directory, where none but domain 0 makes any.
 */
static bool serves_another(struct xwayd *x, const char *dir)
{
	return has_node(x, dir, "target");
}

static void read_name(struct xwayd *x, struct domain *d, const char *dir)
{
	char *name = read_node(x, dir, "name");

	if (!x->unread && !same_string(name, d->name)) {
		set_string(&d->name, name);
		if (name)
			log_info("%s, %s", domain_label(d), d->uuid);
	}
	free(name);
}

/*
 * What cannot be read says nothing. The addresses stay as they were last, so that
 * connections go on, but for packets each condition must be known to hold.
 */
static void claim_read(struct xwayd *x, struct domain *d, int64_t now)
{
	struct addr vif[DOMAIN_ADDRS];
	unsigned int n_vif = d->n_vif;
	char dir[64];
	bool serves;

	memcpy(vif, d->vif, sizeof(vif));
	x->unread = false;
	snprintf(dir, sizeof(dir), "/local/domain/%u", d->id);
	read_name(x, d, dir);
	serves = serves_another(x, dir);
	read_vifs(x, d);
	if (x->unread) {
		memcpy(d->vif, vif, sizeof(vif));
		d->n_vif = n_vif;
		vif_forget(d);
		sooner(&x->again_at, now + RETRY_MS);
		return;
	}
	d->serves = serves;
	d->known = true;
	d->reread = false;
}

#define WORD_BITS 64

static struct subject subject_of(const struct domain *d)
{
	return (struct subject){ d->id, d->name, d->uuid };
}

static void join_groups(struct xwayd *x, struct domain *d)
{
	struct subject subject = subject_of(d);

	free(d->groups);
	d->groups = must(calloc(x->policy->n_groups / WORD_BITS + 1, sizeof(uint64_t)));
	for (unsigned int i = 0; i < x->policy->n_groups; i++)
		if (policy_group_has(&x->policy->groups[i], &subject))
			d->groups[i / WORD_BITS] |= 1ull << (i % WORD_BITS);
}

static bool in_a_group(const struct xwayd *x, const struct domain *d)
{
	for (unsigned int i = 0; i < x->policy->n_groups; i += WORD_BITS)
		if (d->groups[i / WORD_BITS])
			return true;
	return false;
}

/* Domain 0 has the addresses of the configuration alone. */
static bool named_only(const struct domain *d)
{
	return !d->id && !d->n_addrs;
}

unsigned int claim_services(const struct xwayd *x, const struct domain *a, const struct domain *b)
{
	unsigned int allowed;
	uint64_t common;

	if (a == b || !a->party || !b->party || a->ended || b->ended)
		return 0;
	/* Domain 0 is not one of all, unless it was given an address. */
	allowed = named_only(a) || named_only(b) ? 0 : x->policy->allow_all;
	for (unsigned int i = 0; i < x->policy->n_groups; i += WORD_BITS) {
		common = a->groups[i / WORD_BITS] & b->groups[i / WORD_BITS];
		for (; common; common &= common - 1)
			allowed |= x->policy->groups[i + __builtin_ctzll(common)].services;
	}
	return allowed;
}

bool claim_may_talk(const struct xwayd *x, const struct domain *a, const struct domain *b)
{
	return claim_services(x, a, b) & SERVICE_SOCKETS;
}

/* xapi renames the new end of a move when the old one has ended. */
static bool has_own_name(const struct domain *d)
{
	return !strcmp(d->handle, d->uuid);
}

/*
 * While a domain moves within this host there are two of it: the first one has
 * the addresses until it has ended.
 */
static bool is_second(struct xwayd *x, const struct domain *d)
{
	for (struct domain *o = x->domains; o; o = o->next) {
		if (o == d || o->ended || strcmp(o->uuid, d->uuid))
			continue;
		if (has_own_name(o) != has_own_name(d) ? has_own_name(o) : o->born < d->born)
			return true;
	}
	return false;
}

static void collect(struct xwayd *x, struct domain *d)
{
	struct subject subject = subject_of(d);

	memcpy(d->addrs, d->vif, sizeof(d->vif));
	memset(d->struck, 0, sizeof(d->struck));
	d->n_addrs = d->n_vif;
	for (unsigned int i = 0; i < x->policy->n_claims; i++) {
		struct claim *claim = &x->policy->claims[i];

		if (!policy_means(claim->who, &subject))
			continue;
		if (!add_addr(d->addrs, &d->n_addrs, &claim->addr))
			log_warn("%s: more than %d addresses, the others are left out",
				 domain_label(d), DOMAIN_ADDRS);
	}
	join_groups(x, d);
	/* Domain 0 has no vif of its own, and is nobody's peer by accident. */
	d->party =
		(!named_only(d) || in_a_group(x, d)) && !is_second(x, d) && d->known && !d->serves;
}

/* Can either of the two, or a third one, use the service with both? */
static bool meet(const struct xwayd *x, const struct domain *a, const struct domain *b,
		 unsigned int service)
{
	if (claim_services(x, a, b) & service)
		return true;
	for (const struct domain *c = x->domains; c; c = c->next) {
		/* Sockets take an address at both ends. */
		if (service == SERVICE_SOCKETS && !c->n_addrs)
			continue;
		if (claim_services(x, a, c) & claim_services(x, b, c) & service)
			return true;
	}
	return false;
}

static int compare_held(const void *a, const void *b, void *arg)
{
	const struct held *ha = a, *hb = b;
	const struct contest *contest = arg;
	int ret = contest->compare(ha->what, hb->what);

	return ret ? ret : (ha->d->id > hb->d->id) - (ha->d->id < hb->d->id);
}

/* If each of the two has lost it to another one already, this changes nothing. */
static void settle(struct xwayd *x, const struct contest *contest, const struct held *a,
		   const struct held *b, FILE *told)
{
	if (a->d == b->d || (*a->struck && *b->struck) || !meet(x, a->d, b->d, contest->service))
		return;
	*a->struck = *b->struck = true;
	contest->tell(told, a, b);
}

void claim_settle(struct xwayd *x, const struct contest *contest, struct held *held, unsigned int n,
		  FILE *told)
{
	qsort_r(held, n, sizeof(*held), compare_held, (void *)contest);
	for (unsigned int a = 0; a < n; a++)
		for (unsigned int b = a + 1; b < n; b++) {
			if (contest->compare(held[a].what, held[b].what))
				break;
			settle(x, contest, &held[a], &held[b], told);
		}
}

static int compare_addrs(const void *a, const void *b)
{
	return addr_compare(a, b);
}

static void tell_addr(FILE *told, const struct held *a, const struct held *b)
{
	char text[ADDR_TEXT];

	fprintf(told, "address %s is claimed by %s and %s: given to neither\n",
		addr_format(a->what, text), domain_label(a->d), domain_label(b->d));
}

static void log_conflicts(struct xwayd *x, char *told)
{
	char *rest, *line;

	if (same_string(told, x->conflicts))
		return;
	set_string(&x->conflicts, told);
	for (line = strtok_r(told, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		log_warn("%s", line);
}

static void find_conflicts(struct xwayd *x, FILE *told)
{
	static const struct contest addrs = { SERVICE_SOCKETS, compare_addrs, tell_addr };
	unsigned int n = 0, at = 0;
	struct held *held;

	for (struct domain *d = x->domains; d; d = d->next)
		n += d->n_addrs;
	held = must(calloc(n + 1, sizeof(*held)));
	for (struct domain *d = x->domains; d; d = d->next)
		for (unsigned int i = 0; i < d->n_addrs; i++)
			held[at++] = (struct held){ d, &d->addrs[i], &d->struck[i] };
	claim_settle(x, &addrs, held, n, told);
	free(held);
}

static void settle_conflicts(struct xwayd *x)
{
	char *told = NULL;
	size_t size;
	FILE *file = must(open_memstream(&told, &size));

	find_conflicts(x, file);
	vif_find_conflicts(x, file);
	fclose(file);
	log_conflicts(x, told);
	free(told);
}

static void set_value(struct domain *d)
{
	char text[ADDR_TEXT];
	bool any = false;
	char *value;
	size_t size;
	FILE *file;

	file = must(open_memstream(&value, &size));
	fputs(d->uuid, file);
	for (unsigned int i = 0; i < d->n_addrs; i++) {
		if (d->struck[i])
			continue;
		fprintf(file, " %s", addr_format(&d->addrs[i], text));
		any = true;
	}
	fclose(file);
	free(d->value);
	d->value = value;
	d->addressed = any;
}

/* The most likely reason why nothing happens: said once, until it has one. */
static void miss_address(struct xwayd *x, struct domain *d)
{
	bool misses = false;

	if (!d->addressed && !d->n_addrs)
		for (struct domain *o = x->domains; o && !misses; o = o->next)
			misses = claim_may_talk(x, d, o);
	if (misses && !d->misses)
		log_notice("%s has no address that xwayd knows, so nobody has sockets to it: give"
			   " it ip= in its vif, or an 'address' line",
			   domain_label(d));
	d->misses = misses;
}

void claim_apply(struct xwayd *x, int64_t now)
{
	for (struct domain *d = x->domains; d; d = d->next) {
		if (d->reread)
			claim_read(x, d, now);
		collect(x, d);
	}
	settle_conflicts(x);
	for (struct domain *d = x->domains; d; d = d->next)
		set_value(d);
	for (struct domain *d = x->domains; d; d = d->next)
		miss_address(x, d);
}
