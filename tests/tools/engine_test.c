// SPDX-License-Identifier: GPL-2.0
/* xwayd against a XenStore in memory: one scenario for each thing it promises. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "scenario.h"

/* Two domains that may talk, and have said hello. */
static void two(void)
{
	mem_create(&m, 1, UUID_A, "app1", "10.0.0.1");
	mem_create(&m, 2, UUID_B, "db1", "10.0.0.2 fd00::2");
	start("group shop app1 db1\n");
	expect("1/xway", "");
	expect("1/xway/peer/2", UUID_B " 10.0.0.2 fd00::2");
	expect("2/xway/peer/1", UUID_A " 10.0.0.1");
	expect("1/xway/self", UUID_A " 10.0.0.1");
	expect("2/xway/self", UUID_B " 10.0.0.2 fd00::2");
	say_hello();
}

static void test_two(void)
{
	two();
	CHECK(mem_reader(&m, "/local/domain/1/xway") == 1);
	CHECK(mem_reader(&m, "/local/domain/1/xway/peer/2") == 1);
	CHECK(mem_reader(&m, "/local/domain/2/xway/link/1") == 2);
	expect("0/xway", NULL);
	expect("1/xway/peer/1", NULL);
	expect("1/xway/peer/0", NULL);
}

static void test_default_none(void)
{
	mem_create(&m, 1, UUID_A, "app1", "10.0.0.1");
	mem_create(&m, 2, UUID_B, "db1", "10.0.0.2");
	start("");
	mem_guest(&m, 1, "xway/2", OFFER_1);
	mem_run(&m, &x, 500);
	CHECK(!mem_count(&m, "/local/domain/1/xway"));
	CHECK(!mem_count(&m, "/local/domain/2/xway"));
	CHECK(!m.reads);
}

static void test_allow_all_late(void)
{
	start("allow all\n");
	mem_create(&m, 5, UUID_A, "app1", "10.0.0.1");
	mem_run(&m, &x, 300);
	expect("5/xway", "");
	CHECK(!mem_count(&m, "/local/domain/5/xway"));
	mem_create(&m, 6, UUID_B, "db1", NULL);
	mem_run(&m, &x, 300);
	/* Without an address there is nothing to say, on either side. */
	expect("5/xway/peer/6", NULL);
	expect("6/xway/peer/5", NULL);
	mem_put(&m, "/local/domain/0/backend/vif/6/0/ip", "10.0.0.6");
	mem_run(&m, &x, 300);
	expect("5/xway/peer/6", UUID_B " 10.0.0.6");
	expect("6/xway/peer/5", UUID_A " 10.0.0.1");
	mem_put(&m, "/local/domain/0/backend/vif/6/0/ip", "10.0.0.66");
	mem_run(&m, &x, 300);
	expect("5/xway/peer/6", UUID_B " 10.0.0.66");
}

static void test_groups(void)
{
	mem_create(&m, 1, UUID_A, "a", "10.0.0.1");
	mem_create(&m, 2, UUID_B, "b", "10.0.0.2");
	mem_create(&m, 3, UUID_C, "c", "10.0.0.3");
	start("group one a b # by name\ngroup two B " UUID_C "\n");
	expect("1/xway/peer/2", UUID_B " 10.0.0.2");
	expect("1/xway/peer/3", NULL);
	/* Names differ by case, UUIDs do not. */
	expect("2/xway/peer/3", NULL);
	xwayd_reload(&x, policy("group two b CCCCCCCC-0000-4000-8000-000000000003\n"));
	mem_run(&m, &x, 300);
	expect("2/xway/peer/3", UUID_C " 10.0.0.3");
	expect("2/xway/peer/1", NULL);
	expect("1/xway/peer/2", NULL);
	/* A domain is known by its present name. */
	mem_put(&m, "/local/domain/1/name", "b");
	mem_put(&m, "/local/domain/2/name", "x");
	mem_run(&m, &x, 300);
	expect("1/xway/peer/3", UUID_C " 10.0.0.3");
	expect("2/xway/peer/3", NULL);
}

/* Whoever names a domain chooses the text, and gets nobody's rights or addresses by it. */
static void test_names_that_lie(void)
{
	mem_create(&m, 1, UUID_A, "a", "10.0.0.1");
	mem_create(&m, 2, UUID_B, UUID_C, "10.0.0.2");
	mem_create(&m, 3, UUID_D, "Domain-0", "10.0.0.3");
	start("group one a " UUID_C "\ngroup two a Domain-0\n"
	      "address " UUID_C " 10.0.0.9\naddress Domain-0 10.0.0.254\n");
	expect("1/xway/peer/2", NULL);
	expect("2/xway/peer/1", NULL);
	expect("1/xway/peer/3", NULL);
	expect("1/xway/peer/0", UUID_0 " 10.0.0.254");
	/* The same word in capitals is a UUID as well. */
	mem_put(&m, "/local/domain/2/name", "CCCCCCCC-0000-4000-8000-000000000003");
	restart("group one a CCCCCCCC-0000-4000-8000-000000000003\n");
	expect("1/xway/peer/2", NULL);
	mem_create(&m, 4, UUID_C, "c", "10.0.0.4");
	mem_run(&m, &x, 300);
	expect("1/xway/peer/4", UUID_C " 10.0.0.4");
	/* Domain 0 is meant whatever its name is, and words that are nearly UUIDs are names. */
	mem_put(&m, "/local/domain/0/name", "host");
	mem_put(&m, "/local/domain/2/name", UUID_C "0");
	restart("group one a " UUID_C "0\ngroup two a Domain-0\naddress Domain-0 10.0.0.254\n");
	expect("1/xway/peer/0", UUID_0 " 10.0.0.254");
	expect("1/xway/peer/2", UUID_B " 10.0.0.2");
}

/* Nobody writes to the log, or to a terminal that shows it, by a name or an address. */
static void test_names_in_log(void)
{
	mem_create(&m, 1, UUID_A, "a\n<0>b: \x1b[2J", "10.0.0.1 \x1b[1m");
	mem_create(&m, 2, UUID_B, "c", "10.0.0.1");
	start("allow all\n");
	expect("2/xway/peer/1", NULL);
}

static void vif(unsigned int id, unsigned int number, const char *mac, const char *bridge)
{
	char path[STORE_PATH];

	snprintf(path, sizeof(path), "/local/domain/0/backend/vif/%u/%u/mac", id, number);
	mem_put(&m, path, mac);
	snprintf(path, sizeof(path), "/local/domain/0/backend/vif/%u/%u/bridge", id, number);
	mem_put(&m, path, bridge);
	snprintf(path, sizeof(path), "/local/domain/0/backend/vif/%u/%u/script", id, number);
	mem_put(&m, path, "/etc/xen/scripts/vif-bridge");
}

#define MAC_1 "00:16:3e:77:00:01"
#define MAC_2 "00:16:3e:77:00:02"
#define MAC_3 "00:16:3e:77:00:03"

/* Who may use the service net hears which interfaces are on one bridge, with no address too. */
static void test_net(void)
{
	mem_create(&m, 1, UUID_A, "a", "10.0.0.1");
	mem_create(&m, 2, UUID_B, "b", NULL);
	mem_create(&m, 3, UUID_C, "c", "10.0.0.3");
	vif(1, 0, MAC_1, "br0");
	vif(2, 0, "00:16:3E:77:00:02", "br0");
	vif(3, 1, MAC_3, "br0");
	start("group one services=net a b\ngroup two a c\n");
	expect("1/xway/peer/2", UUID_B);
	expect("2/xway/peer/1", UUID_A);
	expect("1/xway/net/2", "0 " MAC_1 " 0 " MAC_2);
	expect("2/xway/net/1", "0 " MAC_2 " 0 " MAC_1);
	expect("1/xway/peer/3", UUID_C " 10.0.0.3");
	expect("1/xway/net/3", NULL);
	expect("3/xway/net/1", NULL);
	expect("2/xway/net/3", NULL);
	/* Another interface comes, one leaves the bridge, one is routed. */
	vif(2, 1, MAC_3, "br0");
	mem_run(&m, &x, 300);
	expect("1/xway/net/2", "0 " MAC_1 " 0 " MAC_2 " 0 " MAC_1 " 1 " MAC_3);
	mem_put(&m, "/local/domain/0/backend/vif/2/0/bridge", "br1");
	mem_put(&m, "/local/domain/0/backend/vif/2/1/script", "/etc/xen/scripts/vif-route");
	mem_run(&m, &x, 300);
	expect("1/xway/net/2", "");
	expect("2/xway/net/1", "");
	/* VLANs on a bridge are networks of their own, and netback counts against a rate. */
	mem_put(&m, "/local/domain/0/backend/vif/2/0/bridge", "br0");
	mem_put(&m, "/local/domain/0/backend/vif/2/0/vlan", "10");
	mem_run(&m, &x, 300);
	expect("1/xway/net/2", "");
	mem_put(&m, "/local/domain/0/backend/vif/1/0/vlan", "10");
	mem_run(&m, &x, 300);
	expect("1/xway/net/2", "0 " MAC_1 " 0 " MAC_2);
	mem_put(&m, "/local/domain/0/backend/vif/1/0/rate", "1000,50000");
	mem_run(&m, &x, 300);
	expect("1/xway/net/2", "");
	mem_rm(&m, "/local/domain/0/backend/vif/1/0/rate");
	mem_rm(&m, "/local/domain/0/backend/vif/1/0/vlan");
	mem_rm(&m, "/local/domain/0/backend/vif/2/0/vlan");
	/* The policy changes with both links up. */
	restart("group one services=sockets,net a b c\n");
	expect("1/xway/net/2", "0 " MAC_1 " 0 " MAC_2);
	expect("1/xway/net/3", "0 " MAC_1 " 1 " MAC_3);
	expect("1/xway/peer/2", UUID_B);
	expect("1/xway/peer/3", UUID_C " 10.0.0.3");
	restart("group one a b c\n");
	expect("1/xway/net/2", NULL);
	expect("1/xway/net/3", NULL);
	expect("1/xway/peer/2", NULL);
	expect("1/xway/peer/3", UUID_C " 10.0.0.3");
}

/* Domain 0 exchanges packets with those of a group that names it, and has no sockets by that. */
static void test_net_host(void)
{
	mem_create(&m, 1, UUID_A, "a", "10.0.0.1");
	mem_create(&m, 2, UUID_B, "b", "10.0.0.2");
	vif(1, 0, MAC_1, "br0");
	vif(1, 3, MAC_3, "br1");
	vif(2, 0, MAC_2, "br0");
	start("allow all services=sockets,net\n");
	expect("0/xway/peer/1", NULL);
	expect("1/xway/peer/0", NULL);
	restart("allow all\ngroup outside services=net Domain-0 a\n");
	expect("0/xway/peer/1", UUID_A);
	expect("0/xway/net/1", "1.0 * 0 " MAC_1 " 1.3 * 3 " MAC_3);
	expect("1/xway/net/0", "0 " MAC_1 " 0 * 3 " MAC_3 " 3 *");
	expect("1/xway/peer/0", UUID_0);
	expect("1/xway/peer/2", UUID_B " 10.0.0.2");
	expect("2/xway/peer/0", NULL);
	mem_put(&m, "/local/domain/0/backend/vif/1/3/rate", "1000,50000");
	mem_run(&m, &x, 300);
	expect("0/xway/net/1", "1.0 * 0 " MAC_1);
	expect("1/xway/net/0", "0 " MAC_1 " 0 *");
	/* Two with one address could not be told apart. */
	vif(1, 4, MAC_1, "br1");
	mem_run(&m, &x, 300);
	expect("0/xway/net/1", "");
	mem_rm(&m, "/local/domain/0/backend/vif/1/4");
	mem_run(&m, &x, 300);
	expect("0/xway/net/1", "1.0 * 0 " MAC_1);
	/* Both ends hear each other's offers. */
	mem_guest(&m, 0, "xway/1", "1 0123456789abcdef 8 5");
	mem_guest(&m, 1, "xway/0", "1 fedcba9876543210 9 0");
	mem_run(&m, &x, 300);
	expect("1/xway/link/0", "1 0123456789abcdef 8 5");
	expect("0/xway/link/1", "1 fedcba9876543210 9 0");
	restart("allow all\ngroup outside Domain-0 a\n");
	expect("0/xway/peer/1", NULL);
	expect("1/xway/net/0", NULL);
}

/* Nobody has shared memory take packets that a bridge would have given to another one. */
static void test_net_conflict(void)
{
	mem_create(&m, 1, UUID_A, "a", NULL);
	mem_create(&m, 2, UUID_B, "b", NULL);
	mem_create(&m, 3, UUID_C, "c", NULL);
	vif(1, 0, MAC_1, "br0");
	vif(2, 0, MAC_2, "br0");
	vif(3, 0, "00:16:3E:77:00:01", "br0");
	start("group one services=net a b c Domain-0\n");
	expect("2/xway/net/1", "");
	expect("2/xway/net/3", "");
	expect("1/xway/net/2", "");
	expect("0/xway/net/1", "");
	/* On another bridge, or VLAN, it is another address. */
	mem_put(&m, "/local/domain/0/backend/vif/3/0/vlan", "7");
	mem_run(&m, &x, 300);
	expect("2/xway/net/1", "0 " MAC_2 " 0 " MAC_1);
	expect("2/xway/net/3", "");
	expect("0/xway/net/3", "3.0 * 0 " MAC_1);
	mem_rm(&m, "/local/domain/0/backend/vif/3/0/vlan");
	mem_run(&m, &x, 300);
	expect("2/xway/net/1", "");
	/* No conflict with one that meets none of them. */
	restart("group one services=net a b\ngroup two c b\n");
	expect("2/xway/net/1", "0 " MAC_2 " 0 " MAC_1);
	/* What has ended claims nothing. */
	restart("allow all services=net\n");
	expect("2/xway/net/1", "");
	mem_end(&m, 3, "suspend");
	mem_run(&m, &x, 300);
	expect("2/xway/net/1", "0 " MAC_2 " 0 " MAC_1);
}

/* What has xapi filter its packets goes by the switch, and what is no hardware address. */
static void test_net_not(void)
{
	mem_create(&m, 1, UUID_A, "a", "10.0.0.1");
	mem_create(&m, 2, UUID_B, "b", "10.0.0.2");
	vif(1, 0, MAC_1, "br0");
	vif(2, 0, MAC_2, "br0");
	mem_put(&m, "/xapi/" UUID_B "/private/vif/0/locking-mode", "locked");
	vif(2, 1, "01:16:3e:77:00:02", "br0");
	vif(2, 2, "00:16:3e:77:00:0", "br0");
	vif(2, 3, "00:16:3e:77-00:02", "br0");
	vif(2, 40, MAC_3, "br0");
	for (unsigned int i = 4; i < 32; i++)
		vif(2, i, MAC_3, "br9");
	start("allow all services=net\n");
	expect("1/xway/net/2", "");
	mem_put(&m, "/xapi/" UUID_B "/private/vif/0/locking-mode", "unlocked");
	mem_run(&m, &x, 500);
	expect("1/xway/net/2", "0 " MAC_1 " 0 " MAC_2);
	mem_end(&m, 2, "crash");
	mem_run(&m, &x, 300);
	/* A module that has not read yet that it has gone must not take it for forbidden. */
	expect("1/xway/peer/2", "gone crash");
	expect("1/xway/net/2", "0 " MAC_1 " 0 " MAC_2);
	mem_run(&m, &x, 61000);
	expect("1/xway/peer/2", NULL);
	expect("1/xway/net/2", NULL);
}

static void test_driver_domain(void)
{
	mem_create(&m, 1, UUID_A, "a", "10.0.0.1");
	mem_create(&m, 2, UUID_B, "b", NULL);
	/* A backend elsewhere: libxl's own copy counts... */
	mem_put(&m, "/libxl/2/device/vif/0/backend", "/local/domain/3/backend/vif/2/0");
	mem_put(&m, "/libxl/2/device/vif/0/ip", "10.0.0.2");
	/* ... and never where a guest points to. */
	mem_put(&m, "/local/domain/2/device/vif/0/backend", "/local/domain/2/data/fake");
	mem_guest(&m, 2, "fake/ip", "10.0.0.99");
	start("allow all\n");
	expect("1/xway/peer/2", UUID_B " 10.0.0.2");
	/* In domain 0, the backend's own node is the newer one. */
	mem_put(&m, "/libxl/1/device/vif/0/ip", "10.0.0.7");
	mem_run(&m, &x, 300);
	expect("2/xway/peer/1", UUID_A " 10.0.0.1");
}

static void test_odd_addresses(void)
{
	mem_create(&m, 1, UUID_A, "a",
		   "10.0.0.1/32 127.0.0.1 10.1.0.0/16 rubbish ::1 fe80::1 224.0.0.1 10.0.0.1");
	mem_create(&m, 2, UUID_B, "b", "10.0.0.2");
	start("allow all\naddress a fd00::1 10.0.0.1\n");
	expect("2/xway/peer/1", UUID_A " 10.0.0.1 fd00::1");
}

static void test_many_addresses(void)
{
	char ip[64 * 40] = "";
	size_t at = 0;

	for (int i = 1; i <= 60; i++)
		at += snprintf(ip + at, sizeof(ip) - at,
			       "fd00:1111:2222:3333:4444:5555:6666:70%02x ", i);
	mem_create(&m, 1, UUID_A, "a", ip);
	mem_create(&m, 2, UUID_B, "b", "10.0.0.2");
	start("allow all\n");
	CHECK(strstr(mem_get(&m, "/local/domain/2/xway/peer/1"), ":7020"));
	CHECK(!strstr(mem_get(&m, "/local/domain/2/xway/peer/1"), ":7021"));
}

static void test_domain_0(void)
{
	mem_create(&m, 1, UUID_A, "a", "10.0.0.1");
	start("allow all\n");
	expect("0/xway", NULL);
	expect("1/xway/peer/0", NULL);
	xwayd_reload(&x, policy("allow all\naddress Domain-0 10.0.0.254\n"));
	mem_run(&m, &x, 300);
	expect("1/xway/peer/0", UUID_0 " 10.0.0.254");
	expect("0/xway/peer/1", UUID_A " 10.0.0.1");
	mem_guest(&m, 0, "xway/1", "1 00000000000000aa 5 77");
	mem_run(&m, &x, 300);
	expect("1/xway/link/0", "1 00000000000000aa 5 77");
	xwayd_reload(&x, policy("allow all\n"));
	mem_run(&m, &x, 300);
	expect("1/xway/peer/0", NULL);
	expect("1/xway/link/0", NULL);
	expect("0/xway/peer/1", NULL);
}

static void test_offer_follows(void)
{
	two();
	mem_guest(&m, 1, "xway/2", OFFER_1B);
	mem_run(&m, &x, 200);
	expect("2/xway/link/1", OFFER_1B);
	mem_guest(&m, 1, "xway/2", NULL);
	mem_run(&m, &x, 200);
	expect("2/xway/link/1", NULL);
	mem_guest(&m, 1, "xway/2", OFFER_1);
	mem_run(&m, &x, 200);
	expect("2/xway/link/1", OFFER_1);
	/* All of it at once. */
	mem_guest(&m, 1, "xway", NULL);
	mem_run(&m, &x, 200);
	expect("2/xway/link/1", NULL);
	expect("1/xway/link/2", OFFER_2);
}

/* Not one of these may reach the other domain. */
/* clang-format off */
static const char * const bad_offers[] = {
	"", " ", "1", "1 ", "2 0123456789abcdef 17 9", "01 0123456789abcdef 17 9",
	" 1 0123456789abcdef 17 9", "1  0123456789abcdef 17 9", "1 0123456789abcdef 17 9 ",
	"1 0123456789abcdef 17 9\n", "1 0123456789abcdef  17 9", "1\t0123456789abcdef 17 9",
	"1 0123456789ABCDEF 17 9", "1 0123456789abcde 17 9", "1 0123456789abcdef0 17 9",
	"1 0123456789abcdeg 17 9", "1 0123456789abcdef 17", "1 0123456789abcdef 17 ",
	"1 0123456789abcdef 017 9", "1 0123456789abcdef 17 09", "1 0123456789abcdef -1 9",
	"1 0123456789abcdef +1 9", "1 0123456789abcdef 0x1 9", "1 0123456789abcdef 1e3 9",
	"1 0123456789abcdef 2147483648 9", "1 0123456789abcdef 4294967297 9",
	"1 0123456789abcdef 18446744073709551617 9", "1 0123456789abcdef 17 131072",
	"1 0123456789abcdef 17 4294967305", "1 0123456789abcdef 17 9 1",
	"1 0123456789abcdef 17 0",	/* the lower domain has to bring the port */
	"1 0123456789abcdef 000000000000000000000000000000000000000000017 9",
	"1 0123456789abcdef 17 9                                                        ",
	"gone crash", "../../../etc/passwd", "\x1b[2J", "%s%n%s%n",
};
/* clang-format on */

static void test_bad_offers(void)
{
	unsigned int writes;

	two();
	for (size_t i = 0; i < sizeof(bad_offers) / sizeof(bad_offers[0]); i++) {
		/* A bad one also takes the good one before it away. */
		mem_guest(&m, 1, "xway/2", OFFER_1);
		mem_run(&m, &x, 200);
		expect("2/xway/link/1", OFFER_1);
		mem_guest(&m, 1, "xway/2", bad_offers[i]);
		mem_run(&m, &x, 200);
		expect("2/xway/link/1", NULL);
	}
	/* A NUL hides what is behind it from those who take it for a string. */
	mem_put_bytes(&m, "/local/domain/1/data/xway/2", OFFER_1 "\0junk", strlen(OFFER_1) + 5);
	mem_run(&m, &x, 200);
	expect("2/xway/link/1", NULL);
	/* The higher one has no port to bring. */
	mem_guest(&m, 2, "xway/1", "1 0123456789abcdef 17 9");
	mem_run(&m, &x, 200);
	expect("1/xway/link/2", NULL);

	/* Nodes that mean nobody, or somebody else, or deeper ones. */
	writes = m.writes;
	mem_guest(&m, 1, "xway/1", OFFER_1);
	mem_guest(&m, 1, "xway/02", OFFER_1);
	mem_guest(&m, 1, "xway/3", OFFER_1);
	mem_guest(&m, 1, "xway/-2", OFFER_1);
	mem_guest(&m, 1, "xway/65536", OFFER_1);
	mem_guest(&m, 1, "xway/4294967298", OFFER_1);
	mem_guest(&m, 1, "xway/0", OFFER_1);
	mem_guest(&m, 1, "xway/2/2", OFFER_1);
	mem_guest(&m, 1, "xway/peer", OFFER_1);
	mem_run(&m, &x, 1000);
	CHECK(m.writes == writes);
	mem_guest(&m, 1, "xway/2", OFFER_1);
	mem_run(&m, &x, 200);
	expect("2/xway/link/1", OFFER_1);
}

static void test_offer_needs_policy(void)
{
	two();
	mem_create(&m, 3, UUID_C, "evil", "10.0.0.3");
	mem_run(&m, &x, 200);
	m.reads = 0;
	mem_guest(&m, 3, "xway/1", "1 00000000000000aa 5 0");
	mem_guest(&m, 3, "xway/2", "1 00000000000000aa 5 0");
	mem_guest(&m, 1, "xway/3", OFFER_1);
	mem_run(&m, &x, 500);
	expect("1/xway/link/3", NULL);
	expect("2/xway/link/3", NULL);
	expect("3/xway/link/1", NULL);
	CHECK(!m.reads);
	/* What was offered before is passed on once it may be. */
	xwayd_reload(&x, policy("allow all\n"));
	mem_run(&m, &x, 300);
	expect("1/xway/link/3", "1 00000000000000aa 5 0");
	expect("3/xway/link/1", OFFER_1);
	/* And taken away again. */
	xwayd_reload(&x, policy("group shop app1 db1\n"));
	mem_run(&m, &x, 300);
	expect("1/xway/link/3", NULL);
	expect("1/xway/peer/3", NULL);
	CHECK(!mem_get(&m, "/local/domain/3/xway/link/1"));
	expect("2/xway/link/1", OFFER_1);
}

static void test_rate(void)
{
	char offer[64];
	unsigned int writes;

	two();
	m.reads = 0;
	writes = m.writes;
	/* 1000 changes in one second, one each millisecond. */
	for (int i = 0; i < 1000; i++) {
		snprintf(offer, sizeof(offer), "1 %016x 17 9", i);
		mem_guest(&m, 1, "xway/2", offer);
		mem_run(&m, &x, 1);
	}
	mem_run(&m, &x, 200);
	CHECK(m.writes - writes <= 12);
	CHECK(m.writes - writes >= 8);
	CHECK(m.reads <= 12);
	/* The last one has come through. */
	expect("2/xway/link/1", offer);
	/* After a rest one goes through at once. */
	mem_run(&m, &x, 1000);
	mem_guest(&m, 1, "xway/2", OFFER_1);
	mem_run(&m, &x, 0);
	expect("2/xway/link/1", OFFER_1);
}

#define MANY 20

/* Domain 1, and so many others that it may talk to. */
static void with_many(void)
{
	char uuid[UUID_TEXT], name[16], ip[32];

	mem_create(&m, 1, UUID_A, "a", "10.0.0.1");
	for (unsigned int i = 2; i < 2 + MANY; i++) {
		snprintf(uuid, sizeof(uuid), "%08x-0000-4000-8000-000000000000", i);
		snprintf(name, sizeof(name), "guest%u", i);
		snprintf(ip, sizeof(ip), "10.0.0.%u", i);
		mem_create(&m, i, uuid, name, ip);
	}
	start("allow all\n");
	mem_run(&m, &x, 60000);
	m.reads = 0;
}

static void offer_to_all(unsigned int number)
{
	char path[32], offer[64];

	for (unsigned int i = 2; i < 2 + MANY; i++) {
		snprintf(path, sizeof(path), "xway/%u", i);
		snprintf(offer, sizeof(offer), "1 %016x 17 9", number);
		mem_guest(&m, 1, path, offer);
	}
}

static unsigned int have_offer(unsigned int number)
{
	char path[STORE_PATH], offer[64];
	unsigned int n = 0;

	snprintf(offer, sizeof(offer), "1 %016x 17 9", number);
	for (unsigned int i = 2; i < 2 + MANY; i++) {
		snprintf(path, sizeof(path), "/local/domain/%u/xway/link/1", i);
		n += same_string(mem_get(&m, path), offer);
	}
	return n;
}

/* What a domain can have done for it does not grow by its peers, which share it. */
static void test_rate_of_all(void)
{
	unsigned int writes;

	with_many();
	writes = m.writes;
	/* All at once, as when its module is loaded: nobody waits. */
	offer_to_all(1);
	mem_run(&m, &x, 0);
	CHECK(m.reads == MANY && have_offer(1) == MANY);
	/* Nor when it is loaded again, which takes all back first. */
	mem_run(&m, &x, 60000);
	mem_rm(&m, "/local/domain/1/data/xway");
	mem_run(&m, &x, 200);
	offer_to_all(2);
	mem_run(&m, &x, 200);
	CHECK(have_offer(2) == MANY);
	mem_run(&m, &x, 60000);
	m.reads = 0;
	writes = m.writes;
	/* Then it writes without an end. */
	for (unsigned int i = 2; i < 5002; i++) {
		offer_to_all(i);
		mem_run(&m, &x, 1);
	}
	CHECK(m.reads <= 2 * MANY + 10 + 50 + 1);
	CHECK(m.writes - writes <= 2 * MANY + 10 + 50 + 1);
	/* Each of them had its turn, and has the last offer at last. */
	mem_run(&m, &x, 100 * (MANY + 1));
	CHECK(have_offer(5001) == MANY);
	CHECK(m.reads <= 3 * MANY + 10 + 50 + 2);
	/* Others are not held up by it. */
	offer_to_all(6000);
	mem_guest(&m, 2, "xway/3", "1 0123456789abcdef 17 9");
	mem_run(&m, &x, 0);
	expect("3/xway/link/2", "1 0123456789abcdef 17 9");
	/* After a rest all is as at first. */
	mem_run(&m, &x, 60000);
	offer_to_all(7000);
	mem_run(&m, &x, 0);
	CHECK(have_offer(7000) == MANY);
}

/* So does what it does to the directory with all its offers. */
static void test_rate_of_directory(void)
{
	with_many();
	offer_to_all(1);
	mem_run(&m, &x, 60000);
	m.reads = 0;
	for (unsigned int i = 0; i < 5000; i++) {
		mem_put(&m, "/local/domain/1/data/xway", "");
		mem_run(&m, &x, 1);
	}
	CHECK(m.reads <= 2 * MANY + 10 + 50 + 1);
	mem_run(&m, &x, 60000);
	CHECK(have_offer(1) == MANY);
	mem_guest(&m, 1, "xway", NULL);
	mem_run(&m, &x, 100);
	CHECK(!have_offer(1));
	expect("2/xway/link/1", NULL);
}

static void test_coalesce(void)
{
	char ip[32];

	two();
	m.lists = 0;
	for (int i = 0; i < 1000; i++) {
		snprintf(ip, sizeof(ip), "10.0.%d.%d", i / 250, i % 250 + 1);
		mem_put(&m, "/local/domain/0/backend/vif/1/0/ip", ip);
		/* A guest can cause as many of these as it likes. */
		mem_put(&m, "/local/domain/0/backend/vif/2/0/state", "4");
		mem_run(&m, &x, 1);
	}
	CHECK(m.lists < 40);
	mem_run(&m, &x, 200);
	expect("2/xway/peer/1", UUID_A " 10.0.3.250");
	m.lists = 0;
	mem_put(&m, "/local/domain/0/backend/vif/2/0/state", "5");
	mem_run(&m, &x, 1000);
	CHECK(!m.lists);
}

static void ends(const char *reason)
{
	char gone[32];

	snprintf(gone, sizeof(gone), "gone %s", reason);
	two();
	mem_create(&m, 3, UUID_C, "other", "10.0.0.3");
	mem_end(&m, 1, reason);
	mem_run(&m, &x, 100);
	expect("2/xway/peer/1", gone);
	expect("2/xway/link/1", NULL);
	expect("3/xway/peer/1", NULL);
	mem_run(&m, &x, 2000);
	mem_destroy(&m, 1);
	mem_run(&m, &x, 56000);
	expect("2/xway/peer/1", gone);
	mem_run(&m, &x, 3000);
	expect("2/xway/peer/1", NULL);
	/* Nothing brings back the directory of the dead. */
	CHECK(!mem_get(&m, "/local/domain/1"));
}

static void test_poweroff(void)
{
	ends("poweroff");
}

static void test_crash(void)
{
	ends("crash");
}

static void test_suspend_saved(void)
{
	ends("suspend");
}

static void test_destroyed(void)
{
	two();
	mem_destroy(&m, 2);
	mem_run(&m, &x, 100);
	expect("1/xway/peer/2", "gone gone");
	expect("1/xway/link/2", NULL);
	CHECK(!mem_get(&m, "/local/domain/2"));
}

static void test_zombie(void)
{
	two();
	/* Its directory is gone, while the hypervisor still has it. */
	mem_rm(&m, "/local/domain/1");
	mem_end(&m, 1, "crash");
	mem_run(&m, &x, 200);
	expect("2/xway/peer/1", "gone crash");
	mem_forget(&m, 1);
	mem_release(&m);
	mem_run(&m, &x, 200);
	expect("2/xway/peer/1", "gone crash");
	CHECK(!mem_get(&m, "/local/domain/1"));
}

static void test_released_but_runs(void)
{
	unsigned int writes;

	two();
	writes = m.writes;
	mem_end(&m, 1, NULL);
	xwayd_event(&x, "@releaseDomain", "release");
	mem_run(&m, &x, 5000);
	CHECK(m.writes == writes);
}

static void test_suspend_resumed(void)
{
	two();
	mem_end(&m, 1, "suspend");
	mem_run(&m, &x, 300);
	expect("2/xway/peer/1", "gone suspend");
	expect("2/xway/link/1", NULL);
	mem_guest(&m, 2, "xway/1", NULL);
	mem_run(&m, &x, 300);
	expect("1/xway/link/2", NULL);
	/* It goes on, and nothing tells. */
	mem_end(&m, 1, NULL);
	mem_run(&m, &x, 1500);
	expect("2/xway/peer/1", UUID_A " 10.0.0.1");
	/* The offer from before is of no use any more. */
	expect("2/xway/link/1", NULL);
	mem_guest(&m, 1, "xway/2", OFFER_1B);
	mem_run(&m, &x, 300);
	expect("2/xway/link/1", OFFER_1B);
	mem_run(&m, &x, 100000);
	expect("2/xway/peer/1", UUID_A " 10.0.0.1");
}

static void test_id_reused(void)
{
	two();
	mem_destroy(&m, 1);
	mem_run(&m, &x, 200);
	expect("2/xway/peer/1", "gone gone");
	mem_create(&m, 1, UUID_C, "app1", "10.0.0.9");
	mem_run(&m, &x, 300);
	expect("2/xway/peer/1", UUID_C " 10.0.0.9");
	expect("2/xway/link/1", NULL);
	/* What domain 2 offers here still is for the old one. */
	expect("1/xway/peer/2", UUID_B " 10.0.0.2 fd00::2");
	expect("1/xway/link/2", NULL);
	mem_guest(&m, 2, "xway/1", "1 00000000000000bb 5 0");
	mem_run(&m, &x, 300);
	expect("1/xway/link/2", "1 00000000000000bb 5 0");
	mem_run(&m, &x, 100000);
	expect("2/xway/peer/1", UUID_C " 10.0.0.9");
	/* So fast that nobody saw it gone. */
	mem_guest(&m, 1, "xway/2", OFFER_1);
	mem_run(&m, &x, 300);
	expect("2/xway/link/1", OFFER_1);
	mem_destroy(&m, 1);
	mem_create(&m, 1, UUID_D, "app1", "10.0.0.10");
	mem_run(&m, &x, 300);
	expect("2/xway/peer/1", UUID_D " 10.0.0.10");
	expect("2/xway/link/1", NULL);
	expect("1/xway/peer/2", UUID_B " 10.0.0.2 fd00::2");
	expect("1/xway/link/2", NULL);
	/* And by one that may not talk. */
	mem_destroy(&m, 1);
	mem_create(&m, 1, UUID_A, "other", "10.0.0.11");
	mem_run(&m, &x, 300);
	expect("2/xway/link/1", NULL);
	expect("1/xway/peer/2", NULL);
	mem_run(&m, &x, 61000);
	expect("2/xway/peer/1", NULL);
}

static void goes_on(void)
{
	mem_end(&m, 1, NULL);
	mem_run(&m, &x, 1500);
	expect("2/xway/peer/1", UUID_A " 10.0.0.1");
	expect("2/xway/link/1", NULL);
}

static void offers_anew(void)
{
	mem_guest(&m, 1, "xway/2", OFFER_1B);
	mem_run(&m, &x, 300);
	expect("2/xway/link/1", OFFER_1B);
}

static void another_has_its_id(void)
{
	mem_create(&m, 1, UUID_C, "app1", "10.0.0.9");
	mem_run(&m, &x, 300);
	expect("1/xway/peer/2", UUID_B " 10.0.0.2 fd00::2");
	expect("1/xway/link/2", NULL);
}

/* What was offered before a suspend stays of no use, also if all is read again. */
static void test_stale_after_reload(void)
{
	two();
	mem_end(&m, 1, "suspend");
	mem_run(&m, &x, 300);
	goes_on();
	xwayd_reload(&x, policy("group shop app1 db1\n"));
	mem_run(&m, &x, 1500);
	expect("2/xway/link/1", NULL);
	offers_anew();
	/* So does what was offered to the one that had the id before. */
	mem_destroy(&m, 1);
	mem_run(&m, &x, 300);
	xwayd_reload(&x, policy("group shop app1 db1\n"));
	mem_run(&m, &x, 300);
	another_has_its_id();
}

static void test_stale_after_restart(void)
{
	two();
	mem_end(&m, 1, "suspend");
	mem_run(&m, &x, 300);
	restart("group shop app1 db1\n");
	goes_on();
	offers_anew();
	mem_destroy(&m, 1);
	mem_run(&m, &x, 300);
	restart("group shop app1 db1\n");
	another_has_its_id();
	mem_guest(&m, 2, "xway/1", "1 00000000000000bb 5 0");
	mem_run(&m, &x, 300);
	expect("1/xway/link/2", "1 00000000000000bb 5 0");
}

static void test_restart(void)
{
	unsigned int writes;

	two();
	mem_create(&m, 3, UUID_C, "other", "10.0.0.3");
	mem_run(&m, &x, 500);
	writes = m.writes;
	restart("group shop app1 db1\n");
	mem_run(&m, &x, 5000);
	CHECK(m.writes == writes);
	/* Only what changed while it was away. */
	xwayd_stop(&x);
	mem_disconnect(&m);
	mem_guest(&m, 2, "xway/1", "1 00000000000000bb 5 0");
	mem_destroy(&m, 3);
	start("group shop app1 db1\n");
	CHECK(m.writes == writes + 1);
	expect("1/xway/link/2", "1 00000000000000bb 5 0");
}

static void test_restart_after_end(void)
{
	two();
	xwayd_stop(&x);
	mem_disconnect(&m);
	mem_end(&m, 1, "crash");
	start("group shop app1 db1\n");
	expect("2/xway/peer/1", "gone crash");
	expect("2/xway/link/1", NULL);
	/* The old "gone" nodes go at last, even so. */
	mem_destroy(&m, 1);
	restart("group shop app1 db1\n");
	expect("2/xway/peer/1", "gone crash");
	mem_run(&m, &x, 61000);
	expect("2/xway/peer/1", NULL);
}

static void test_conflict(void)
{
	mem_create(&m, 1, UUID_A, "a", "10.0.0.1");
	mem_create(&m, 2, UUID_B, "b", "10.0.0.2 10.0.0.9");
	mem_create(&m, 3, UUID_C, "c", "10.0.0.3 10.0.0.9");
	start("allow all\n");
	expect("1/xway/peer/2", UUID_B " 10.0.0.2");
	expect("1/xway/peer/3", UUID_C " 10.0.0.3");
	mem_destroy(&m, 3);
	mem_run(&m, &x, 300);
	expect("1/xway/peer/2", UUID_B " 10.0.0.2 10.0.0.9");
	/* The only address of it: it is nobody's peer then. */
	mem_create(&m, 4, UUID_D, "d", "10.0.0.1");
	mem_run(&m, &x, 300);
	expect("2/xway/peer/1", NULL);
	expect("2/xway/peer/4", NULL);
	expect("1/xway/peer/2", NULL);
	/* No conflict for those that never meet. */
	xwayd_reload(&x, policy("group x a b\ngroup y d c\n"));
	mem_run(&m, &x, 300);
	expect("2/xway/peer/1", UUID_A " 10.0.0.1");
	/* But b would see it at both. */
	xwayd_reload(&x, policy("group x a b\ngroup y d b\n"));
	mem_run(&m, &x, 300);
	expect("2/xway/peer/1", NULL);
	expect("2/xway/peer/4", NULL);
}

/* The device model of an HVM guest has its interfaces, and is nobody's peer. */
static void test_stubdomain(void)
{
	start("allow all services=sockets,net\n");
	mem_create(&m, 1, UUID_A, "app1", "10.0.0.1");
	mem_create(&m, 2, UUID_B, "db1", "10.0.0.2");
	/* libxl introduces it, tells whom it is for, and gives it devices. */
	mem_create(&m, 3, UUID_C, "app1-dm", NULL);
	mem_run(&m, &x, 300);
	mem_put(&m, "/local/domain/3/target", "1");
	vif(3, 0, MAC_1, "br0");
	vif(1, 0, MAC_1, "br0");
	mem_put(&m, "/local/domain/0/backend/vif/3/0/ip", "10.0.0.1");
	mem_run(&m, &x, 300);
	expect("2/xway/peer/1", UUID_A " 10.0.0.1");
	expect("2/xway/peer/3", NULL);
	expect("3/xway/peer/2", NULL);
	expect("3/xway/net/2", NULL);
	/* Not even if the configuration names it. */
	restart("allow all\naddress app1-dm 10.0.0.3\ngroup both app1 app1-dm\n");
	expect("2/xway/peer/3", NULL);
	expect("1/xway/peer/3", NULL);
	expect("2/xway/peer/1", UUID_A " 10.0.0.1");
	/* What a guest writes of its own means nothing. */
	mem_guest(&m, 2, "target", "1");
	mem_run(&m, &x, 300);
	expect("1/xway/peer/2", UUID_B " 10.0.0.2");
}

/* Many that claim one address, and meet nobody: it takes no time that can be felt. */
static void test_conflicts_are_cheap(void)
{
	struct rlimit limit = { 10, 10 };
	char uuid[UUID_TEXT], name[16], *config;
	size_t size;
	FILE *file;

	CHECK(!setrlimit(RLIMIT_CPU, &limit));
	file = open_memstream(&config, &size);
	for (unsigned int i = 1; i <= 2000; i++)
		fprintf(file, "group g%u guest%u nobody%u\n", i, i, i);
	fclose(file);
	for (unsigned int i = 1; i <= 150; i++) {
		snprintf(uuid, sizeof(uuid), "%08x-0000-4000-8000-000000000000", i);
		snprintf(name, sizeof(name), "guest%u", i);
		mem_create(&m, i, uuid, name, "10.0.0.1");
	}
	start(config);
	free(config);
	CHECK(!x.conflicts || !*x.conflicts);
	xwayd_reload(&x, policy("allow all\n"));
	mem_run(&m, &x, 300);
	expect("1/xway/peer/2", NULL);
}

static void test_moving_within_host(void)
{
	two();
	/* The incoming half has the same UUID and the same addresses. */
	mem_create(&m, 7, UUID_B, "db1--incoming", "10.0.0.2 fd00::2");
	mem_run(&m, &x, 500);
	expect("1/xway/peer/2", UUID_B " 10.0.0.2 fd00::2");
	expect("1/xway/peer/7", NULL);
	mem_end(&m, 2, "suspend");
	mem_put(&m, "/local/domain/7/name", "db1");
	mem_run(&m, &x, 500);
	expect("1/xway/peer/2", "gone suspend");
	expect("1/xway/peer/7", UUID_B " 10.0.0.2 fd00::2");
	mem_destroy(&m, 2);
	mem_run(&m, &x, 61000);
	expect("1/xway/peer/2", NULL);
	expect("1/xway/peer/7", UUID_B " 10.0.0.2 fd00::2");
}

static void test_store_errors(void)
{
	mem_create(&m, 1, UUID_A, "a", "10.0.0.1");
	mem_create(&m, 2, UUID_B, "b", "10.0.0.2");
	m.fail = EIO;
	start("allow all\n");
	mem_run(&m, &x, 2000);
	expect("1/xway/peer/2", UUID_B " 10.0.0.2");
	expect("2/xway/peer/1", UUID_A " 10.0.0.1");
	m.fail = ENOSPC;
	mem_guest(&m, 1, "xway/2", OFFER_1);
	mem_run(&m, &x, 3000);
	expect("2/xway/link/1", OFFER_1);
	m.fail_read = EIO;
	mem_guest(&m, 1, "xway/2", OFFER_1B);
	mem_run(&m, &x, 500);
	expect("2/xway/link/1", OFFER_1);
	mem_run(&m, &x, 1000);
	expect("2/xway/link/1", OFFER_1B);
	/* Somebody removed a node: reading the configuration again mends it. */
	mem_rm(&m, "/local/domain/2/xway/peer/1");
	xwayd_reload(&x, policy("allow all\n"));
	mem_run(&m, &x, 300);
	expect("2/xway/peer/1", UUID_A " 10.0.0.1");
	mem_guest(&m, 1, "xway/2", OFFER_1);
	mem_run(&m, &x, 500);
	/* Somebody removed our node: the next word mends it. */
	mem_rm(&m, "/local/domain/2/xway");
	mem_guest(&m, 1, "xway/2", OFFER_1B);
	mem_run(&m, &x, 3000);
	expect("2/xway", "");
	expect("2/xway/peer/1", UUID_A " 10.0.0.1");
	expect("2/xway/link/1", OFFER_1B);
	CHECK(mem_reader(&m, "/local/domain/2/xway/peer/1") == 2);
}

/* What cannot be read is not known: it is no reason to take anything back, or to allow it. */
static void test_unreadable_vifs(void)
{
	mem_create(&m, 1, UUID_A, "a", "10.0.0.1");
	mem_create(&m, 2, UUID_B, "b", "10.0.0.2");
	vif(1, 0, MAC_1, "br0");
	vif(2, 0, MAC_2, "br0");
	mem_put(&m, "/xapi/" UUID_B "/private/vif/0/locking-mode", "locked");
	start("allow all services=sockets,net\n");
	expect("1/xway/net/2", "");
	m.unreadable = UUID_B "/private/vif/0/locking-mode";
	mem_put(&m, "/local/domain/0/backend/vif/2/0/ip", "10.0.0.22");
	mem_run(&m, &x, 5000);
	expect("1/xway/net/2", "");
	expect("1/xway/peer/2", UUID_B " 10.0.0.2");
	m.unreadable = NULL;
	mem_run(&m, &x, 1100);
	expect("1/xway/peer/2", UUID_B " 10.0.0.22");
	mem_rm(&m, "/xapi/" UUID_B "/private/vif/0/locking-mode");
	mem_run(&m, &x, 500);
	expect("1/xway/net/2", "0 " MAC_1 " 0 " MAC_2);
	m.unreadable = "vif/2/0/rate";
	mem_put(&m, "/local/domain/2/name", "c");
	mem_run(&m, &x, 300);
	expect("1/xway/net/2", "");
	m.unreadable = "backend/vif/2";
	mem_run(&m, &x, 5000);
	expect("1/xway/peer/2", UUID_B " 10.0.0.22");
	m.unreadable = NULL;
	mem_run(&m, &x, 1100);
	expect("1/xway/net/2", "0 " MAC_1 " 0 " MAC_2);
	/* One of whom nothing is known yet takes no part. */
	m.unreadable = "/local/domain/3/target";
	mem_create(&m, 3, UUID_C, "c", "10.0.0.3");
	mem_run(&m, &x, 5000);
	expect("1/xway/peer/3", NULL);
	expect("3/xway/peer/1", NULL);
	m.unreadable = NULL;
	mem_run(&m, &x, 1100);
	expect("1/xway/peer/3", UUID_C " 10.0.0.3");
}

static void test_unreadable_own(void)
{
	unsigned int writes;

	two();
	writes = m.writes;
	xwayd_stop(&x);
	mem_disconnect(&m);
	mem_destroy(&m, 2);
	m.unreadable = "/local/domain/1/xway/peer";
	start("");
	mem_run(&m, &x, 5000);
	CHECK(m.writes == writes);
	/* What is there is found, and has its end, once it can be read. */
	m.unreadable = NULL;
	mem_run(&m, &x, 1100);
	expect("1/xway/peer/2", "gone gone");
	expect("1/xway/link/2", NULL);
	mem_run(&m, &x, 61000);
	expect("1/xway/peer/2", NULL);
	m.unreadable = "/local/domain/1/xway";
	CHECK(xwayd_clear(&m.store));
	m.unreadable = NULL;
}

/* The offer that is there when an id has changed hands is not relayed unseen. */
static void test_unreadable_offer(void)
{
	two();
	mem_destroy(&m, 1);
	mem_run(&m, &x, 200);
	m.unreadable = "/local/domain/2/data/xway/1";
	mem_create(&m, 1, UUID_C, "app1", "10.0.0.9");
	mem_run(&m, &x, 3000);
	m.unreadable = NULL;
	mem_run(&m, &x, 3000);
	expect("2/xway/peer/1", UUID_C " 10.0.0.9");
	expect("1/xway/link/2", NULL);
}

static void test_wrong_permissions(void)
{
	mem_create(&m, 1, UUID_A, "a", "10.0.0.1");
	mem_put(&m, "/local/domain/1/xway", "");
	start("allow all\n");
	CHECK(mem_reader(&m, "/local/domain/1/xway") == 1);
}

static void test_clear(void)
{
	two();
	CHECK(mem_count(&m, "/local/domain/1/xway"));
	CHECK(!xwayd_clear(&m.store));
	expect("1/xway", NULL);
	expect("2/xway", NULL);
	CHECK(mem_get(&m, "/local/domain/1/data/xway/2"));
}

static void test_many(void)
{
	unsigned int writes, watches = mem_watches(&m);
	char uuid[UUID_TEXT], name[16], ip[32];

	start("allow all\n");
	for (unsigned int i = 1; i <= 60; i++) {
		snprintf(uuid, sizeof(uuid), "%08x-0000-4000-8000-000000000000", i);
		snprintf(name, sizeof(name), "guest%u", i);
		snprintf(ip, sizeof(ip), "10.0.0.%u", i);
		mem_create(&m, i, uuid, name, ip);
	}
	mem_run(&m, &x, 1000);
	CHECK(mem_count(&m, "/local/domain/60/xway/peer") == 59);
	for (unsigned int i = 1; i <= 59; i++)
		mem_destroy(&m, i);
	mem_run(&m, &x, 61000);
	writes = m.writes;
	mem_run(&m, &x, 61000);
	CHECK(m.writes == writes);
	CHECK(!mem_count(&m, "/local/domain/60/xway/peer"));
	CHECK(mem_watches(&m) == watches + 4 + 4 * 2);
}

static const struct scenario tests[] = {
	/* clang-format off */
	TEST(two), TEST(default_none), TEST(allow_all_late), TEST(groups), TEST(names_that_lie),
	TEST(names_in_log), TEST(net), TEST(net_host), TEST(net_conflict), TEST(net_not),
	TEST(driver_domain), TEST(odd_addresses), TEST(many_addresses), TEST(domain_0),
	TEST(offer_follows), TEST(bad_offers), TEST(offer_needs_policy), TEST(rate),
	TEST(rate_of_all), TEST(rate_of_directory), TEST(poweroff), TEST(crash),
	TEST(suspend_saved), TEST(destroyed), TEST(zombie), TEST(coalesce),
	TEST(released_but_runs), TEST(suspend_resumed), TEST(id_reused), TEST(stale_after_reload),
	TEST(stale_after_restart), TEST(restart), TEST(restart_after_end), TEST(conflict),
	TEST(conflicts_are_cheap), TEST(stubdomain), TEST(moving_within_host), TEST(store_errors),
	TEST(unreadable_vifs), TEST(unreadable_own), TEST(unreadable_offer),
	TEST(wrong_permissions), TEST(clear), TEST(many),
};
/* clang-format on */

int main(int argc, char **argv)
{
	return scenario_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
