/* SPDX-License-Identifier: GPL-2.0 */
/* The configuration file: who may talk to whom, and extra addresses. */
#ifndef XWAYD_POLICY_H
#define XWAYD_POLICY_H

#include <stdbool.h>
#include <stdio.h>

#include "addr.h"

/* What a policy may allow, as bits: the core's clients in the guests. */
#define SERVICE_SOCKETS 1u
#define SERVICE_NET 2u /* network packets: MMNet */

struct group {
	char *name;
	unsigned int line;
	unsigned int services;
	char **members;
	unsigned int n_members;
};

struct claim {
	char *who;
	struct addr addr;
};

struct policy {
	unsigned int allow_all; /* services that all may use */
	struct group *groups;
	unsigned int n_groups;
	struct claim *claims;
	unsigned int n_claims;
};

#define POLICY_ERROR 512

/*
 * Both return NULL and fill @error with "FILE:LINE: what is wrong" when the
 * text is not right. A file that does not exist is an empty policy, unless
 * @must_exist.
 */
struct policy *policy_load(const char *path, bool must_exist, char error[POLICY_ERROR]);
struct policy *policy_parse(FILE *file, const char *name, char error[POLICY_ERROR]);
void policy_free(struct policy *policy);

/* Whom a word of the configuration may mean. */
struct subject {
	unsigned int id;
	const char *name; /* may be NULL */
	const char *uuid;
};

bool policy_means(const char *who, const struct subject *subject);
bool policy_group_has(const struct group *group, const struct subject *subject);

#endif
