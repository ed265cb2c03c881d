// SPDX-License-Identifier: GPL-2.0
/*
 * Which virtual interfaces domains have on which bridge: packets between two on the same
 * bridge may go by shared memory. All that is read here is domain 0's own.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xwayd.h"

/* Numbers of interfaces that the modules know are below it. */
#define VIF_IDS 32

void vif_forget(struct domain *d)
{
	while (d->n_vifs)
		free(d->vifs[--d->n_vifs].bridge);
}

/* In lower case. Only the address of one interface counts. */
static bool parse_mac(const char *text, char mac[MAC_TEXT])
{
	if (!text || strlen(text) != MAC_TEXT - 1)
		return false;
	for (int i = 0; i < MAC_TEXT - 1; i++) {
		if (i % 3 == 2 ? text[i] != ':' : !isxdigit((unsigned char)text[i]))
			return false;
		mac[i] = tolower((unsigned char)text[i]);
	}
	mac[MAC_TEXT - 1] = '\0';
	return !strchr("13579bdf", mac[1]) && strcmp(mac, "00:00:00:00:00:00");
}

/*
 * libxl names a bridge for every interface, also for one that its script routes. So a
 * script counts that is known to use it: those of Xen, and xapi's.
 */
static bool is_bridged(const char *script)
{
	const char *name = script ? strrchr(script, '/') : NULL;

	name = name ? name + 1 : script;
	return name && (!strcmp(name, "vif-bridge") || !strcmp(name, "vif-openvswitch") ||
			!strcmp(name, "vif"));
}

void vif_private_dir(const struct domain *d, const char *name, char dir[STORE_PATH])
{
	snprintf(dir, STORE_PATH, "/xapi/%s/private/vif/%.8s", d->handle, name);
}

/*
 * libxl names the bridge in the back end's directory, xapi in its private one. xapi
 * changes nothing but the latter when it moves an interface, so that one counts.
 */
static char *bridge_of(struct xwayd *x, const struct domain *d, const char *name, const char *dir)
{
	char private[STORE_PATH], *bridge;

	vif_private_dir(d, name, private);
	bridge = read_node(x, private, "bridge");
	return bridge ? bridge : read_node(x, dir, "bridge");
}

/* The bridge and the VLAN on it, to be freed; NULL: none. */
static char *network(struct xwayd *x, const struct domain *d, const char *number, const char *dir)
{
	char *bridge = bridge_of(x, d, number, dir), *vlan = read_node(x, dir, "vlan");
	char *name = NULL;

	if (bridge && *bridge && asprintf(&name, "%s %s", bridge, vlan ? vlan : "") < 0)
		abort();
	free(bridge);
	free(vlan);
	return name;
}

/* xapi has the switch filter what a locked interface sends, so it must see all. */
static bool is_locked(struct xwayd *x, const struct domain *d, const char *name)
{
	char dir[STORE_PATH], *mode;
	bool locked;

	vif_private_dir(d, name, dir);
	mode = read_node(x, dir, "locking-mode");
	locked = mode && strcmp(mode, "unlocked");
	free(mode);
	return locked;
}

void vif_read(struct xwayd *x, struct domain *d, const char *name)
{
	char dir[STORE_PATH], *mac, *script;
	struct vif *vif;
	unsigned int id;

	if (d->n_vifs == DOMAIN_VIFS || !domain_parse_id(name, &id) || id >= VIF_IDS)
		return;
	vif = &d->vifs[d->n_vifs];
	vif->id = id;
	snprintf(dir, sizeof(dir), "/local/domain/0/backend/vif/%u/%.8s", d->id, name);
	mac = read_node(x, dir, "mac");
	script = read_node(x, dir, "script");
	/* What has a rate is slowed down by netback. */
	if (parse_mac(mac, vif->mac) && is_bridged(script) && !is_locked(x, d, name) &&
	    !has_node(x, dir, "rate")) {
		vif->bridge = network(x, d, name, dir);
		d->n_vifs += !!vif->bridge;
	}
	free(mac);
	free(script);
}

static int compare_places(const void *a, const void *b)
{
	const struct vif *va = a, *vb = b;
	int ret = strcmp(va->mac, vb->mac);

	return ret ? ret : strcmp(va->bridge, vb->bridge);
}

static void tell_vif(FILE *told, const struct held *a, const struct held *b)
{
	const struct vif *vif = a->what;

	fprintf(told, "%s on one bridge is of %s and %s: neither exchanges packets by it\n",
		vif->mac, domain_label(a->d), domain_label(b->d));
}

/*
 * A bridge sends to whoever was heard last with an address. Shared memory would go to
 * one of the two only, whoever is meant: so neither is taken. Within a domain see
 * is_unique().
 */
void vif_find_conflicts(struct xwayd *x, FILE *told)
{
	static const struct contest vifs = { SERVICE_NET, compare_places, tell_vif };
	unsigned int n = 0, at = 0;
	struct held *held;

	for (struct domain *d = x->domains; d; d = d->next)
		n += d->n_vifs;
	held = must(calloc(n + 1, sizeof(*held)));
	for (struct domain *d = x->domains; d; d = d->next)
		for (unsigned int i = 0; i < d->n_vifs; i++) {
			struct vif *vif = &d->vifs[i];

			vif->struck = false;
			held[at++] = (struct held){ d, vif, &vif->struck };
		}
	claim_settle(x, &vifs, held, n, told);
	free(held);
}

/* What has the address of another interface of its domain could not be told from it. */
static bool is_unique(const struct domain *d, unsigned int number)
{
	if (d->vifs[number].struck)
		return false;
	for (unsigned int i = 0; i < d->n_vifs; i++)
		if (i != number && !strcmp(d->vifs[i].mac, d->vifs[number].mac))
			return false;
	return true;
}

/* Domain 0 has the other end of each interface, and behind it all that is on the bridge. */
static void pairs_with_host(const struct domain *d, const struct domain *q, FILE *file)
{
	const struct domain *guest = d->id ? d : q;
	unsigned int n = 0;

	for (unsigned int i = 0; i < guest->n_vifs; i++) {
		const struct vif *vif = &guest->vifs[i];

		if (!is_unique(guest, i))
			continue;
		fputs(n++ ? " " : "", file);
		if (d->id)
			fprintf(file, "%u %s %u *", vif->id, vif->mac, vif->id);
		else
			fprintf(file, "%u.%u * %u %s", q->id, vif->id, vif->id, vif->mac);
	}
}

static void pairs_of_guests(const struct domain *d, const struct domain *q, FILE *file)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < d->n_vifs; i++)
		for (unsigned int j = 0; j < q->n_vifs; j++) {
			const struct vif *own = &d->vifs[i], *peer = &q->vifs[j];

			if (strcmp(own->bridge, peer->bridge) || !strcmp(own->mac, peer->mac) ||
			    !is_unique(d, i) || !is_unique(q, j))
				continue;
			fprintf(file, "%s%u %s %u %s", n++ ? " " : "", own->id, own->mac, peer->id,
				peer->mac);
		}
}

/* The value of @d's node for @q, to be freed; see doc/xenstore.md. */
char *vif_pairs(const struct domain *d, const struct domain *q)
{
	char *value;
	size_t size;
	FILE *file;

	file = must(open_memstream(&value, &size));
	if (d->id && q->id)
		pairs_of_guests(d, q, file);
	else
		pairs_with_host(d, q, file);
	fclose(file);
	return value;
}
