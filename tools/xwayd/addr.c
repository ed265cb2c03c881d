// SPDX-License-Identifier: GPL-2.0
#include "addr.h"

#include <arpa/inet.h>
#include <string.h>

static bool all_zero(const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i])
			return false;
	return true;
}

/*
 * An address that many hosts have, or that means something else on each host,
 * does not tell which domain is at the other end.
 */
static bool names_one_host(const struct addr *addr)
{
	const uint8_t *b = addr->bytes;

	if (addr->len == 4)
		return b[0] != 0 && b[0] != 127 && b[0] < 224;
	if (b[0] == 0xff) /* multicast */
		return false;
	if (b[0] == 0xfe && (b[1] & 0xc0) == 0x80) /* link-local */
		return false;
	if (all_zero(b, 10)) /* ::, ::1, IPv4-mapped, IPv4-compatible */
		return false;
	return true;
}

const char *addr_parse(const char *text, struct addr *addr)
{
	memset(addr, 0, sizeof(*addr));
	if (inet_pton(AF_INET, text, addr->bytes) == 1)
		addr->len = 4;
	else if (inet_pton(AF_INET6, text, addr->bytes) == 1)
		addr->len = 16;
	else
		return "is not an IP address";
	if (!names_one_host(addr))
		return "cannot be the address of one domain";
	return NULL;
}

const char *addr_format(const struct addr *addr, char text[ADDR_TEXT])
{
	if (!inet_ntop(addr->len == 4 ? AF_INET : AF_INET6, addr->bytes, text, ADDR_TEXT))
		strcpy(text, "?");
	return text;
}

int addr_compare(const struct addr *a, const struct addr *b)
{
	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	return memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}
