// SPDX-License-Identifier: GPL-2.0
/*
 * Values of XenStore's nodes, as doc/xenstore.md has them: offers of peers, whose form xwayd
 * has checked, and what xwayd itself says of this domain and its peers.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/inet.h>
#include <linux/slab.h>
#include <linux/socket.h>
#include <linux/string.h>

#include "addr.h"
#include "value.h"

/**
 * xway_value_offer() - read an offer
 * @text: the value
 * @nonce: set to the number of the peer's session
 * @ref: set to the reference of its header page
 * @port: set to its end of the event channel
 *
 * Context: any.
 * Return: false if it is no offer. The numbers may be any: they are the peer's.
 */
bool xway_value_offer(const char *text, u64 *nonce, u32 *ref, u32 *port)
{
	unsigned int version, used = 0;

	return sscanf(text, "%u %16llx %u %u%n", &version, nonce, ref, port, &used) == 4 &&
	       !text[used] && version == XWAY_OFFER_VERSION;
}

static bool address(const char *word, struct xway_addr *addr)
{
	const char *end = word;

	memset(addr, 0, sizeof(*addr));
	if (in4_pton(word, -1, (u8 *)addr->addr, -1, &end)) {
		addr->family = AF_INET;
		addr->prefix = 32;
	} else if (in6_pton(word, -1, (u8 *)addr->addr, -1, &end)) {
		addr->family = AF_INET6;
		addr->prefix = 128;
	}
	/* Both stop at what belongs to no address. */
	return addr->family && !*end;
}

/**
 * xway_value_addresses() - read the addresses of a domain, which are behind its UUID
 * @value: the value
 * @whose: whose they are, for the log. Words that are no addresses are left out
 * @list: set to an array that the caller frees
 *
 * Context: process, may sleep.
 * Return: how many addresses there are, or -ENOMEM.
 */
int xway_value_addresses(const char *value, const char *whose, struct xway_addr **list)
{
	char *copy = kstrdup(value, GFP_KERNEL), *at = copy, *word;
	int n = 0;

	/* Each address has at least two characters and a space. */
	*list = kcalloc(strlen(value) / 3 + 1, sizeof(**list), GFP_KERNEL);
	if (!copy || !*list) {
		kfree(copy);
		kfree(*list);
		return -ENOMEM;
	}
	strsep(&at, " ");	/* the UUID */
	while ((word = strsep(&at, " "))) {
		if (!*word)
			continue;
		if (address(word, *list + n))
			n++;
		else
			pr_warn_ratelimited("%s: \"%s\" is not an IP address\n", whose, word);
	}
	kfree(copy);
	return n;
}

/**
 * xway_value_same_domain() - do two values begin with the same UUID?
 * @a: one value
 * @b: the other one
 *
 * Context: any.
 */
bool xway_value_same_domain(const char *a, const char *b)
{
	size_t n = strcspn(a, " ");

	return n == strcspn(b, " ") && !memcmp(a, b, n);
}

/**
 * xway_value_gone() - does a value say that its domain has ended?
 * @value: the value
 *
 * Context: any.
 */
bool xway_value_gone(const char *value)
{
	return strstarts(value, "gone ");
}
