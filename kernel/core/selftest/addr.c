// SPDX-License-Identifier: GPL-2.0
/* Tests of the address table */
#include <linux/in.h>
#include <linux/socket.h>
#include <net/net_namespace.h>

#include "core/addr.h"
#include "ends.h"

static const struct xway_addr net10 = { AF_INET, 8, { htonl(0x0a000000) } };
static const struct xway_addr host1 = { AF_INET, 32, { htonl(0x0a000001) } };
static const struct xway_addr bits33 = {
	AF_INET6, 33, { htonl(0x20010db8), htonl(0x80000000) }
};

static const struct xway_addr bits128 = {
	AF_INET6, 128, { htonl(0xfd000000), 0, 0, htonl(1) }
};

static struct xway_link *pub(int which)
{
	return &end(which)->pub;
}

static struct xway_link *find(u16 family, u32 first, u32 second, u32 last,
			      bool active)
{
	__be32 addr[4] = { htonl(first), htonl(second), 0, htonl(last) };
	struct xway_link *found;

	rcu_read_lock();
	found = xway_addr_find(family, addr, active);
	rcu_read_unlock();
	return found;
}

static bool addr_prefixes(void)
{
	EXPECT(!xway_addr_any());
	EXPECT(!find(AF_INET, 0x0a000001, 0, 0, true));
	EXPECT(!xway_addr_add(&net10, pub(A), pub(P)));
	EXPECT(!xway_addr_add(&bits33, pub(A), pub(P)));
	EXPECT(!xway_addr_add(&bits128, pub(A), pub(P)));
	EXPECT(xway_addr_any());

	EXPECT(find(AF_INET, 0x0a000000, 0, 0, true) == pub(A));
	EXPECT(find(AF_INET, 0x0affffff, 0, 0, false) == pub(P));
	EXPECT(!find(AF_INET, 0x09ffffff, 0, 0, true));
	EXPECT(!find(AF_INET, 0x0b000000, 0, 0, true));
	/* Words beyond an IPv4 address do not count. */
	EXPECT(find(AF_INET, 0x0a000001, 7, 7, true) == pub(A));
	EXPECT(find(AF_INET6, 0x20010db8, 0x80000000, 1, true) == pub(A));
	EXPECT(find(AF_INET6, 0x20010db8, 0xffffffff, 9, true) == pub(A));
	EXPECT(!find(AF_INET6, 0x20010db8, 0x7fffffff, 1, true));
	EXPECT(!find(AF_INET6, 0x20010db9, 0x80000000, 1, true));
	EXPECT(!find(AF_INET6, 0x0a000000, 0, 0, true));
	EXPECT(find(AF_INET6, 0xfd000000, 0, 1, true) == pub(A));
	EXPECT(!find(AF_INET6, 0xfd000000, 0, 2, true));

	/* An address of its own counts before the prefix it is in. */
	EXPECT(!xway_addr_add(&host1, pub(P), pub(A)));
	EXPECT(find(AF_INET, 0x0a000001, 0, 0, true) == pub(P));
	EXPECT(find(AF_INET, 0x0a000001, 7, 7, true) == pub(P));
	EXPECT(find(AF_INET, 0x0a000002, 0, 0, true) == pub(A));
	EXPECT(!xway_addr_del(&net10, pub(A)));
	EXPECT(!find(AF_INET, 0x0a000002, 0, 0, true));
	EXPECT(find(AF_INET, 0x0a000001, 0, 0, true) == pub(P));
	EXPECT(!xway_addr_del(&host1, pub(P)));
	EXPECT(!xway_addr_del(&bits33, pub(A)));
	EXPECT(!xway_addr_del(&bits128, pub(A)));
	EXPECT(!xway_addr_any());
	return true;
}

static bool addr_duplicates(void)
{
	struct xway_addr net16 = net10;

	net16.prefix = 16;
	EXPECT(!xway_addr_add(&net10, pub(A), pub(A)));
	EXPECT(refcount_read(&end(A)->pub.ref) == 3);
	EXPECT(xway_addr_add(&net10, pub(P), pub(P)) == -EEXIST);
	EXPECT(refcount_read(&end(P)->pub.ref) == 1);
	EXPECT(find(AF_INET, 0x0a000001, 0, 0, true) == pub(A));
	EXPECT(!xway_addr_add(&net16, pub(A), pub(A)));
	EXPECT(xway_addr_del(&net10, pub(P)) == -ENOENT);
	EXPECT(!xway_addr_del(&net10, pub(A)));
	EXPECT(xway_addr_del(&net10, pub(A)) == -ENOENT);
	EXPECT(find(AF_INET, 0x0a000001, 0, 0, true) == pub(A));
	EXPECT(!xway_addr_del(&net16, pub(A)));
	EXPECT(refcount_read(&end(A)->pub.ref) == 1);
	return true;
}

static int count_addr(const struct xway_addr *addr, void *arg)
{
	return ++*(int *)arg == 2 ? -EINTR : 0;
}

static bool addr_of_link(void)
{
	int n = 0;

	EXPECT(!xway_addr_add(&net10, pub(A), pub(P)));
	EXPECT(!xway_addr_add(&host1, pub(P), pub(P)));
	EXPECT(!xway_addr_add(&bits33, pub(A), pub(A)));
	EXPECT(!xway_addr_add(&bits128, pub(P), pub(A)));
	EXPECT(xway_addr_each(pub(A), count_addr, &n) == -EINTR && n == 2);
	n = 10;
	EXPECT(!xway_addr_each(pub(A), count_addr, &n) && n == 13);
	xway_addr_del_link(pub(A));
	EXPECT(!find(AF_INET, 0x0a000002, 0, 0, true));
	EXPECT(!find(AF_INET6, 0x20010db8, 0x80000000, 1, true));
	EXPECT(!find(AF_INET6, 0xfd000000, 0, 1, true));
	EXPECT(find(AF_INET, 0x0a000001, 0, 0, true) == pub(P));
	xway_addr_del_link(pub(A));
	xway_addr_del_link(pub(P));
	EXPECT(!xway_addr_any());
	EXPECT(refcount_read(&end(A)->pub.ref) == 1);
	EXPECT(refcount_read(&end(P)->pub.ref) == 1);
	return true;
}

/* What a link keeps is found all the time, and what it loses can be another's. */
static bool addr_kept(void)
{
	const struct xway_addr keep[] = { host1, bits33 };

	EXPECT(!xway_addr_add(&host1, pub(A), pub(A)));
	EXPECT(!xway_addr_add(&bits128, pub(A), pub(A)));
	EXPECT(xway_addr_add(&bits128, pub(P), pub(P)) == -EEXIST);
	EXPECT(xway_addr_keep(pub(A), keep, 2));
	EXPECT(!xway_addr_keep(pub(A), keep, 2));
	EXPECT(!xway_addr_keep(pub(P), keep, 2));
	EXPECT(find(AF_INET, 0x0a000001, 0, 0, true) == pub(A));
	EXPECT(!find(AF_INET6, 0x20010db8, 0x80000000, 1, true));
	EXPECT(!find(AF_INET6, 0xfd000000, 0, 1, true));
	EXPECT(!xway_addr_add(&bits128, pub(P), pub(P)));
	EXPECT(find(AF_INET6, 0xfd000000, 0, 1, true) == pub(P));
	return true;
}

/* Near addresses that are not this domain's, or only look so, do not count. */
static bool addr_own(void)
{
	const struct xway_addr lo = { AF_INET, 32, { htonl(INADDR_LOOPBACK) } };
	const struct xway_addr list[] = { host1, lo, bits128 };
	static struct net other, made_up;
	const struct net *net = &other;

	other.user_ns = &init_user_ns;
	/* Nobody has told them. */
	EXPECT(xway_addr_is_own(pub(A), &init_net, AF_INET, net10.addr));
	EXPECT(!xway_addr_own(list, 3));
	EXPECT(xway_addr_is_own(pub(A), &init_net, AF_INET, host1.addr));
	EXPECT(xway_addr_is_own(pub(A), &init_net, AF_INET6, bits128.addr));
	EXPECT(!xway_addr_is_own(pub(A), &init_net, AF_INET, net10.addr));
	EXPECT(!xway_addr_is_own(pub(A), &init_net, AF_INET6, bits33.addr));
	/* Both namespaces have the loopback address. */
	EXPECT(xway_addr_is_own(pub(A), net, AF_INET, host1.addr));
	/* A program without privileges is root in its own. */
	EXPECT(!xway_addr_is_own(pub(A), &made_up, AF_INET, host1.addr));
	EXPECT(xway_addr_is_own(pub(A), &init_net, AF_INET, lo.addr));
	EXPECT(!xway_addr_is_own(pub(A), net, AF_INET, lo.addr));
	EXPECT(!xway_addr_own(NULL, 0));
	EXPECT(xway_addr_is_own(pub(A), &init_net, AF_INET, net10.addr));
	EXPECT(!xway_addr_is_own(pub(A), net, AF_INET, lo.addr));
	return true;
}

const struct xway_test addr_tests[] = {
	{ "addr_prefixes", addr_prefixes, MADE },
	{ "addr_duplicates", addr_duplicates, MADE },
	{ "addr_of_link", addr_of_link, MADE },
	{ "addr_kept", addr_kept, MADE },
	{ "addr_own", addr_own, MADE },
	{}
};
