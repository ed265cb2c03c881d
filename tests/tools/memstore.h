/* SPDX-License-Identifier: GPL-2.0 */
/* A XenStore and a hypervisor in memory, and a clock that is turned by hand. */
#ifndef MEMSTORE_H
#define MEMSTORE_H

#include <stdint.h>

#include "check.h"
#include "xwayd/xwayd.h"

struct mem {
	struct store store;
	int64_t now;
	unsigned int writes; /* changes that xwayd made */
	unsigned int reads;  /* of what guests own */
	unsigned int lists;
	bool list_backwards;
	int fail;			   /* errno of xwayd's next change, once */
	int fail_read;			   /* the same of the next offer */
	const char *unreadable;		   /* a part of paths: to read or list one is EIO */
	void (*on_read)(const char *path); /* before xwayd reads it */
	struct node *nodes;
	struct watch *watches;
	struct event *events, **last_event;
	struct dom *doms;
};

void mem_init(struct mem *m);
void mem_free(struct mem *m);
/* Watches go with the connection. */
void mem_disconnect(struct mem *m);

/* The toolstack: makes, ends and destroys domains, writes where it likes. */
void mem_create(struct mem *m, unsigned int id, const char *uuid, const char *name, const char *ip);
void mem_end(struct mem *m, unsigned int id, const char *reason); /* NULL: goes on */
void mem_destroy(struct mem *m, unsigned int id);
/* The hypervisor's half of it, and what tells of it. */
void mem_domain_create(struct mem *m, unsigned int id, const char *uuid);
void mem_domain_rename(struct mem *m, unsigned int id, const char *uuid);
void mem_forget(struct mem *m, unsigned int id);
void mem_introduce(struct mem *m);
void mem_release(struct mem *m);
void mem_put(struct mem *m, const char *path, const char *value);
void mem_put_bytes(struct mem *m, const char *path, const void *value, size_t len);
void mem_rm(struct mem *m, const char *path);
void mem_move(struct mem *m, const char *from, const char *to);

/* A guest: may write below its data/ only; NULL removes. */
void mem_guest(struct mem *m, unsigned int id, const char *below_data, const char *value);

const char *mem_get(struct mem *m, const char *path);
unsigned int mem_reader(struct mem *m, const char *path);
unsigned int mem_watches(struct mem *m);
unsigned int mem_count(struct mem *m, const char *below);

/* Delivers events and runs xwayd until the clock has moved on by @ms. */
void mem_run(struct mem *m, struct xwayd *x, int64_t ms);

#endif
