/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_VALUE_H
#define _XWAY_VALUE_H

#include <linux/types.h>

struct xway_addr;

/* First field of an offer, see doc/xenstore.md */
#define XWAY_OFFER_VERSION 1

bool xway_value_offer(const char *text, u64 *nonce, u32 *ref, u32 *port);
int xway_value_addresses(const char *value, const char *whose, struct xway_addr **list);
bool xway_value_same_domain(const char *a, const char *b);
bool xway_value_gone(const char *value);

#endif /* _XWAY_VALUE_H */
