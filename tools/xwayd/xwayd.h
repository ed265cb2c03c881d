/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The state of xwayd. XenStore is the truth: everything here is a copy of what
 * is there, or follows from it and from the policy, so that a restart loses
 * nothing and writes nothing.
 */
#ifndef XWAYD_XWAYD_H
#define XWAYD_XWAYD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "addr.h"
#include "policy.h"
#include "store.h"

#define MS_PER_S 1000
/* Changes of one offer, and of domains and addresses, are acted on this often. */
#define CHANGE_MS 100
/* How long the peers of a domain that ended can read why. */
#define GONE_MS (60 * MS_PER_S)
/* Nothing tells that a suspended domain goes on: look again. */
#define SUSPENDED_MS MS_PER_S
/* After an error of XenStore. */
#define RETRY_MS MS_PER_S
#define NEVER INT64_MAX

/* More than any domain needs, and a peer's node stays below 2048 bytes. */
#define DOMAIN_ADDRS 32
/* Of which packets may go by shared memory: a node of all pairs stays below 2048 bytes. */
#define DOMAIN_VIFS 6
#define MAC_TEXT 18
/* Complaints about one domain: so many at once, and one more each period. */
#define COMPLAINTS 10
#define COMPLAINT_MS (6 * MS_PER_S)

struct domain;

/* What domain P's subtree says of domain Q. */
struct peer {
	struct peer *next;
	struct domain *owner; /* P */
	unsigned int id;      /* Q */
	char *said;	      /* value of P's xway/peer/Q, NULL: no node */
	char *link;	      /* value of P's xway/link/Q, NULL: no node */
	char *net;	      /* value of P's xway/net/Q, NULL: no node */
	bool wanted;	      /* the policy wants Q introduced */
	bool live;	      /* @said introduces Q: its offers are relayed */
	int64_t gone_at;      /* when a "gone" node goes, else NEVER */
	struct domain *from;  /* Q, if its offer may have changed: this is in its queue */
	struct peer *next_changed;
	bool introduced;      /* since its offer was looked at: that costs Q nothing */
	int64_t relay_at;     /* look at the offer no sooner than this */
	char uuid[UUID_TEXT]; /* of the Q that P was told of last, or "" */
	char *stale;	      /* an offer of Q's that is not, or no longer, for P */
	char *refused;	      /* Q's last bad offer, not to log it twice */
};

/* A virtual interface on a bridge of domain 0. */
struct vif {
	unsigned int id;
	char mac[MAC_TEXT];
	char *bridge; /* and what tells networks on it apart */
	bool struck;  /* another domain has the address on the same bridge */
};

struct domain {
	struct domain *next;
	unsigned int id;
	char uuid[UUID_TEXT];	/* as policy and peers know it */
	char handle[UUID_TEXT]; /* what the hypervisor has: another one while it moves */
	char *name;		/* may be NULL */
	const char *ended;	/* reason, NULL while it runs */
	uint64_t born;		/* in which order they were found */
	bool seen;		/* in the present scan */
	bool doubted;		/* it could not be read whether it is still this one */
	bool reread;		/* name and vif addresses may have changed */
	bool made;		/* its xway node is there */
	bool loaded;		/* its peers are what XenStore has */
	bool known;		/* its nodes could be read once */
	bool serves;		/* it is the device model of another domain */
	bool party;		/* may have peers at all */
	bool misses;		/* it was said that it has no address */

	struct vif vifs[DOMAIN_VIFS];
	unsigned int n_vifs;
	struct addr vif[DOMAIN_ADDRS];
	unsigned int n_vif;
	struct addr addrs[DOMAIN_ADDRS]; /* of vifs and configuration */
	unsigned int n_addrs;
	bool struck[DOMAIN_ADDRS]; /* claimed by another one too */
	uint64_t *groups;	   /* bitmap of the policy's groups */
	char *value;		   /* for peer/ nodes */
	bool addressed;		   /* @value has an address */
	char *self;		   /* value of its xway/self, NULL: no node */

	struct peer *peers;
	struct peer *changed; /* peers to look at its offers to, first come, first served */
	bool all_changed;     /* offers to any may have changed */
	int64_t all_at;	      /* but take that up no sooner than this */
	int64_t relay_at;     /* when the first of the queue is due */
	unsigned int spent;   /* looks at its offers, less those that time has given back */
	int64_t spent_at;
	unsigned int complaints;
	int64_t complained_at;
};

struct xwayd {
	struct store *store;
	struct policy *policy;
	struct domain *domains;
	bool scan;	  /* domains may have come or gone */
	bool apply;	  /* addresses or policy may have changed */
	bool settle;	  /* more of such changes are likely to come at once */
	bool settling;	  /* so wait for them, but once only */
	int64_t apply_at; /* but do it no sooner than this */
	int64_t again_at; /* scan again then, without being told */
	int64_t gone_at;  /* the first "gone" node to go */
	int64_t relay_at; /* the first offer that waits to be relayed */
	bool unread;	  /* since this was cleared, something could not be read */
	uint64_t births;
	char *conflicts; /* what was last logged of them */
};

/* engine.c: events in, work out */
int xwayd_start(struct xwayd *x, struct store *store, struct policy *policy);
void xwayd_event(struct xwayd *x, const char *path, const char *token);
void xwayd_run(struct xwayd *x, int64_t now);
int64_t xwayd_next(const struct xwayd *x);
void xwayd_reload(struct xwayd *x, struct policy *policy);
void xwayd_stop(struct xwayd *x);
int xwayd_clear(struct store *store);

/* domain.c: which domains there are */
struct domain *domain_find(struct xwayd *x, unsigned int id);
bool domain_parse_id(const char *text, unsigned int *id);
void domain_scan(struct xwayd *x, int64_t now);
void domain_free_all(struct xwayd *x);
const char *domain_label(const struct domain *d);
bool domain_may_complain(struct domain *d, int64_t now);

/* claim.c: which addresses they have */
void claim_apply(struct xwayd *x, int64_t now);
unsigned int claim_services(const struct xwayd *x, const struct domain *a, const struct domain *b);

/* What a domain has that no two may have. */
struct held {
	struct domain *d;
	const void *what;
	bool *struck; /* it has it no more, as another one has it, too */
};

/* How such things are told apart. What one service uses matters to those that it joins. */
struct contest {
	unsigned int service;
	int (*compare)(const void *a, const void *b);
	void (*tell)(FILE *told, const struct held *a, const struct held *b);
};

/* Strikes what somebody would see at two domains, and tells of it. */
void claim_settle(struct xwayd *x, const struct contest *contest, struct held *held, unsigned int n,
		  FILE *told);
bool claim_may_talk(const struct xwayd *x, const struct domain *a, const struct domain *b);

/* vif.c: which virtual interfaces they have */
void vif_forget(struct domain *d);
void vif_read(struct xwayd *x, struct domain *d, const char *name);
/* Where xapi keeps what the guest need not know of an interface. */
void vif_private_dir(const struct domain *d, const char *name, char dir[STORE_PATH]);
void vif_find_conflicts(struct xwayd *x, FILE *told);
char *vif_pairs(const struct domain *d, const struct domain *q);

/* peer.c: what each domain is told about the others */
struct peer *peer_find(struct domain *d, unsigned int id);
void peer_ended(struct xwayd *x, struct domain *q, int64_t now);
void peer_forgotten(struct xwayd *x, const struct domain *q);
void peer_apply(struct xwayd *x, int64_t now);
void peer_free_all(struct domain *d);
void peer_set_link(struct xwayd *x, struct domain *d, struct peer *peer, const char *value,
		   int64_t now);

/* relay.c: offers from one domain to another */
char *offer_read(struct xwayd *x, unsigned int from, unsigned int to, size_t *len, bool *failed);
bool offer_ok(const char *value, size_t len, unsigned int from, unsigned int to);
void relay_changed(struct xwayd *x, struct domain *from, const char *path);
void relay_introduced(struct xwayd *x, struct domain *from, struct peer *p);
void relay_forget(struct domain *from);
void relay_drop(struct peer *p);
void relay_run(struct xwayd *x, int64_t now);

/* util.c: small things of all */
void sooner(int64_t *when, int64_t at);
void set_string(char **where, const char *value);
bool same_string(const char *a, const char *b);
void *must(void *allocated);
char *read_node(struct xwayd *x, const char *dir, const char *leaf);
bool has_node(struct xwayd *x, const char *dir, const char *leaf);
char **list_nodes(struct xwayd *x, const char *dir, unsigned int *n);

#endif
