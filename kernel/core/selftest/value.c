// SPDX-License-Identifier: GPL-2.0
/* Tests of what is read from XenStore */
#include <linux/in.h>
#include <linux/slab.h>
#include <linux/socket.h>
#include <linux/string.h>

#include "core/addr.h"
#include "core/value.h"
#include "ends.h"

static bool value_offer(void)
{
	static const char *const bad[] = {
		"", "1", "1 0123456789abcdef 8", "1 0123456789abcdef 8 9 ",
		"1 0123456789abcdef 8 9 1", "2 0123456789abcdef 8 9", "1 0123456789abcdefa 8 9",
		"1 xyz 8 9", "1 1 -8 9", "1 1 8 9\n",
	};
	u64 nonce;
	u32 ref, port, i;

	EXPECT(xway_value_offer("1 0123456789abcdef 8 4294967295", &nonce, &ref, &port));
	EXPECT(nonce == 0x0123456789abcdef && ref == 8 && port == U32_MAX);
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		EXPECT(!xway_value_offer(bad[i], &nonce, &ref, &port));
	return true;
}

static int read(const char *value, struct xway_addr *first)
{
	struct xway_addr *list;
	int n = xway_value_addresses(value, "selftest", &list);

	memset(first, 0, sizeof(*first));
	if (n > 0)
		*first = list[0];
	if (n >= 0)
		kfree(list);
	return n;
}

static bool value_addresses(void)
{
	struct xway_addr first;

	EXPECT(read("", &first) == 0);
	EXPECT(read("10.0.0.1", &first) == 0);	/* in the UUID's place */
	EXPECT(read("u 10.0.0.1", &first) == 1);
	EXPECT(first.family == AF_INET && first.prefix == 32 && first.addr[0] == htonl(0x0a000001));
	EXPECT(read("u  fd00::1  10.0.0.1 ", &first) == 2);
	EXPECT(first.family == AF_INET6 && first.prefix == 128 && first.addr[3] == htonl(1));
	/* As many as there can be in so few characters */
	EXPECT(read(" :: :: :: ::", &first) == 4);
	EXPECT(read("u 10.0.0.1/24 10.0.0 x 1:2 10.0.0.1.2 ::1::", &first) == 0);
	return true;
}

static bool value_domain(void)
{
	EXPECT(xway_value_same_domain("a b", "a c") && xway_value_same_domain("a", "a b"));
	EXPECT(!xway_value_same_domain("a b", "ab") && !xway_value_same_domain("ab", "a"));
	EXPECT(xway_value_gone("gone x") && !xway_value_gone("gone"));
	EXPECT(!xway_value_gone("u gone "));
	return true;
}

const struct xway_test value_tests[] = {
	{ "value_offer", value_offer, MADE },
	{ "value_addresses", value_addresses, MADE },
	{ "value_domain", value_domain, MADE },
	{}
};
