/* SPDX-License-Identifier: GPL-2.0 */
/* IP addresses, of either family. */
#ifndef XWAYD_ADDR_H
#define XWAYD_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest text of an address, with its NUL. */
#define ADDR_TEXT 46

struct addr {
	uint8_t len;	   /* 4 or 16 */
	uint8_t bytes[16]; /* the rest of an IPv4 address is zero */
};

/* The reason why @text is no address of a domain, or NULL. */
const char *addr_parse(const char *text, struct addr *addr);
const char *addr_format(const struct addr *addr, char text[ADDR_TEXT]);
int addr_compare(const struct addr *a, const struct addr *b);

#endif
