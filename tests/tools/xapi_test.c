// SPDX-License-Identifier: GPL-2.0
/*
 * xwayd beside xapi (XCP-ng, XenServer): a VM's whole life, in nodes and steps
 * as its xenopsd makes them.
 */
#include <stdarg.h>
#include <string.h>

#include "scenario.h"

/* What xenopsd makes of UUID_B while the VM moves: at the old end, at the new one. */
#define OLD_B "bbbbbbbb-0000-4000-8000-000000000000"
#define NEW_B "bbbbbbbb-0000-4000-8000-000000000001"

/* Of a domain's interface */
#define MAC "00:16:3e:00:%02x:%02x"

#define NODE(...) node((char[STORE_PATH]){ 0 }, __VA_ARGS__)

__attribute__((format(printf, 2, 3))) static const char *node(char path[STORE_PATH],
							      const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(path, STORE_PATH, format, args);
	va_end(args);
	return path;
}

/* The tree comes first, then devices, and the introduction last. */
static void create(unsigned int id, const char *uuid, const char *name, const char *final)
{
	mem_domain_create(&m, id, uuid);
	mem_put(&m, NODE("/local/domain/%u", id), "");
	mem_put(&m, NODE("/vm/%s/uuid", uuid), uuid);
	mem_put(&m, NODE("/vm/%s/name", uuid), name);
	if (final)
		mem_put(&m, NODE("/vm/%s/final-uuid", uuid), final);
	mem_put(&m, NODE("/local/domain/%u/vm", id), NODE("/vm/%s", uuid));
	mem_put(&m, NODE("/local/domain/%u/name", id), name);
	mem_put(&m, NODE("/local/domain/%u/data", id), "");
	/* The guest's own, all of them: whatever they say means nothing. */
	mem_put(&m, NODE("/local/domain/%u/attr/vif/0/ipv4/0", id), "10.6.6.6");
	mem_put(&m, NODE("/local/domain/%u/vm-data/networking/ipv4-allowed", id), "10.6.6.6");
}

static void lock(const char *uuid, unsigned int vif, const char *mode, const char *v4,
		 const char *v6)
{
	mem_put(&m, NODE("/xapi/%s/private/vif/%u/locking-mode", uuid, vif), mode);
	if (v4)
		mem_put(&m, NODE("/xapi/%s/private/vif/%u/ipv4-allowed", uuid, vif), v4);
	if (v6)
		mem_put(&m, NODE("/xapi/%s/private/vif/%u/ipv6-allowed", uuid, vif), v6);
}

/* Also while it runs: first the old nodes go, then come the new ones, one by one. */
static void lock_anew(const char *uuid, unsigned int vif, const char *mode, const char *v4,
		      const char *v6)
{
	static const char *const nodes[] = { "locking-mode", "ipv4-allowed", "ipv6-allowed" };

	for (int i = 0; i < 3; i++) {
		mem_rm(&m, NODE("/xapi/%s/private/vif/%u/%s", uuid, vif, nodes[i]));
		mem_run(&m, &x, 2);
	}
	mem_put(&m, NODE("/xapi/%s/private/vif/%u/locking-mode", uuid, vif), mode);
	mem_run(&m, &x, 2);
	mem_put(&m, NODE("/xapi/%s/private/vif/%u/ipv4-allowed", uuid, vif), v4);
	mem_run(&m, &x, 2);
	mem_put(&m, NODE("/xapi/%s/private/vif/%u/ipv6-allowed", uuid, vif), v6);
	mem_run(&m, &x, 2);
}

static void plug(unsigned int id, const char *uuid, unsigned int vif, unsigned int backend,
		 const char *mode, const char *v4, const char *v6)
{
	const char *back = NODE("/local/domain/%u/backend/vif/%u/%u", backend, id, vif);
	const char *private = NODE("/xapi/%s/private/vif/%u", uuid, vif);

	mem_put(&m, NODE("/local/domain/%u/device/vif/%u/backend", id, vif), back);
	mem_put(&m, NODE("/xenops/domain/%u/device/vif/%u/backend", id, vif), back);
	mem_put(&m, NODE("%s/frontend-id", back), NODE("%u", id));
	mem_put(&m, NODE("%s/online", back), "1");
	mem_put(&m, NODE("%s/state", back), "1");
	mem_put(&m, NODE("%s/script", back), "/usr/libexec/xenopsd/vif");
	mem_put(&m, NODE("%s/mac", back), NODE(MAC, id, vif));
	mem_put(&m, NODE("%s/handle", back), NODE("%u", vif));
	mem_put(&m, NODE("%s/backend-kind", private), "vif");
	mem_put(&m, NODE("%s/bridge", private), "xenbr0");
	mem_put(&m, NODE("%s/bridge-MAC", private), "fe:ff:ff:ff:ff:ff");
	lock(uuid, vif, mode, v4, v6);
	/* The guest's own again. */
	mem_put(&m,
		NODE("/local/domain/%u/xenserver/device/vif/%u/static-ip-setting/address", id, vif),
		"10.6.6.6/24");
}

/* The private nodes stay. */
static void unplug(unsigned int id, unsigned int vif)
{
	mem_rm(&m, NODE("/local/domain/%u/device/vif/%u", id, vif));
	mem_rm(&m, NODE("/xenops/domain/%u/device/vif/%u", id, vif));
	mem_rm(&m, NODE("/local/domain/0/backend/vif/%u/%u", id, vif));
}

static void rename_domain(unsigned int id, const char *from, const char *to, bool before)
{
	mem_domain_rename(&m, id, to);
	if (before)
		mem_put(&m, NODE("/vm/%s/origin-uuid", to), from);
	else
		mem_rm(&m, NODE("/vm/%s/final-uuid", from));
	mem_put(&m, NODE("/local/domain/%u/vm", id), NODE("/vm/%s", to));
	mem_move(&m, NODE("/xapi/%s", from), NODE("/xapi/%s", to));
	mem_move(&m, NODE("/vm/%s", from), NODE("/vm/%s", to));
}

/* First of all it gets a UUID that nobody has. */
static void doom(unsigned int id)
{
	mem_domain_rename(&m, id, NODE("deadbeef-dead-beef-dead-beef0000%04x", id));
}

static void destroy(unsigned int id, const char *uuid)
{
	doom(id);
	mem_run(&m, &x, 100);
	mem_end(&m, id, "gone");
	mem_run(&m, &x, 100);
	mem_forget(&m, id);
	mem_rm(&m, NODE("/local/domain/%u", id));
	mem_rm(&m, NODE("/xenops/domain/%u", id));
	mem_rm(&m, NODE("/local/domain/0/backend/vif/%u", id));
	mem_rm(&m, NODE("/xapi/%s", uuid));
	mem_rm(&m, NODE("/vm/%s", uuid));
	mem_release(&m);
	mem_run(&m, &x, 100);
}

static void boot(unsigned int id, const char *uuid, const char *name, const char *v4)
{
	create(id, uuid, name, NULL);
	plug(id, uuid, 0, 0, "locked", v4, "");
	mem_introduce(&m);
}

#define BOTH "group shop " UUID_A " " UUID_B "\n"

/* Two domains that may talk by their UUIDs, and have said hello. */
static void two(void)
{
	start(BOTH);
	boot(1, UUID_A, "an app", "10.0.0.1");
	boot(2, UUID_B, "a db", "10.0.0.2");
	mem_run(&m, &x, 300);
	expect("1/xway/peer/2", UUID_B " 10.0.0.2");
	expect("2/xway/peer/1", UUID_A " 10.0.0.1");
	say_hello();
}

static void test_start(void)
{
	start("allow all\n");
	create(1, UUID_A, "a", NULL);
	mem_run(&m, &x, 300);
	plug(1, UUID_A, 0, 0, "locked", "10.0.0.1,10.0.0.11", "fd00::1,fd00::11");
	mem_run(&m, &x, 300);
	mem_introduce(&m);
	mem_run(&m, &x, 300);
	boot(2, UUID_B, "b", "10.0.0.2");
	mem_run(&m, &x, 300);
	expect("2/xway/peer/1", UUID_A " 10.0.0.1 10.0.0.11 fd00::1 fd00::11");
	expect("1/xway/peer/2", UUID_B " 10.0.0.2");
	CHECK(mem_reader(&m, "/local/domain/1/xway") == 1);
}

static void test_only_locked(void)
{
	two();
	/* The guest may take any other address, so these tell nothing. */
	lock_anew(UUID_B, 0, "unlocked", "10.0.0.2", "");
	mem_run(&m, &x, 300);
	expect("1/xway/peer/2", NULL);
	expect("1/xway/link/2", NULL);
	lock_anew(UUID_B, 0, "disabled", "10.0.0.2", "");
	mem_run(&m, &x, 300);
	expect("1/xway/peer/2", NULL);
	mem_rm(&m, "/xapi/" UUID_B "/private/vif/0/locking-mode");
	mem_run(&m, &x, 300);
	expect("1/xway/peer/2", NULL);
	/* The operator knows better. */
	xwayd_reload(&x, policy(BOTH "address " UUID_B " 10.0.0.22\n"));
	mem_run(&m, &x, 300);
	expect("1/xway/peer/2", UUID_B " 10.0.0.22");
	lock_anew(UUID_B, 0, "locked", "10.0.0.2", "fd00::2");
	mem_run(&m, &x, 300);
	expect("1/xway/peer/2", UUID_B " 10.0.0.2 fd00::2 10.0.0.22");
}

static void test_lock_anew(void)
{
	unsigned int writes;

	two();
	writes = m.writes;
	lock_anew(UUID_B, 0, "locked", "10.0.0.2,10.0.0.22", "");
	mem_run(&m, &x, 300);
	expect("1/xway/peer/2", UUID_B " 10.0.0.2 10.0.0.22");
	/* At no time had it no address: its peer's node and its own were written once. */
	CHECK(m.writes == writes + 2);
	expect("1/xway/link/2", OFFER_2);
	/* However often it changes, something is done in the end. */
	for (int i = 1; i <= 100; i++) {
		lock(UUID_B, 0, "locked", NODE("10.0.1.%d", i), "");
		mem_run(&m, &x, 9);
	}
	CHECK(m.writes >= writes + 5);
	mem_run(&m, &x, 300);
	expect("1/xway/peer/2", UUID_B " 10.0.1.100");
}

static void test_hot_plug(void)
{
	two();
	plug(2, UUID_B, 1, 0, "locked", "10.1.0.2", "fd01::2");
	mem_run(&m, &x, 300);
	expect("1/xway/peer/2", UUID_B " 10.0.0.2 10.1.0.2 fd01::2");
	unplug(2, 1);
	mem_run(&m, &x, 300);
	CHECK(mem_get(&m, "/xapi/" UUID_B "/private/vif/1/ipv4-allowed"));
	expect("1/xway/peer/2", UUID_B " 10.0.0.2");
	expect("1/xway/link/2", OFFER_2);
}

#define PAIR(own, peer) "0 00:16:3e:00:" own ":00 0 00:16:3e:00:" peer ":00"

/* Which bridge an interface is on is in a private node alone. */
static void test_net(void)
{
	start("group shop services=net " UUID_A " " UUID_B "\n");
	boot(1, UUID_A, "a", "10.0.0.1");
	boot(2, UUID_B, "b", "10.0.0.2");
	mem_run(&m, &x, 300);
	/* The switch must see what a locked one sends. */
	expect("1/xway/net/2", "");
	lock_anew(UUID_A, 0, "unlocked", "", "");
	lock_anew(UUID_B, 0, "unlocked", "", "");
	mem_run(&m, &x, 300);
	expect("1/xway/net/2", PAIR("01", "02"));
	expect("2/xway/net/1", PAIR("02", "01"));
	lock_anew(UUID_B, 0, "disabled", "", "");
	mem_run(&m, &x, 300);
	expect("1/xway/net/2", "");
	lock_anew(UUID_B, 0, "unlocked", "", "");
	mem_run(&m, &x, 300);
	expect("1/xway/net/2", PAIR("01", "02"));
	mem_put(&m, "/local/domain/0/backend/vif/2/0/rate", "1000,50000");
	mem_run(&m, &x, 300);
	expect("1/xway/net/2", "");
}

static void test_net_move(void)
{
	test_net();
	mem_rm(&m, "/local/domain/0/backend/vif/2/0/rate");
	mem_put(&m, "/xapi/" UUID_B "/private/vif/0/bridge", "xapi7");
	mem_run(&m, &x, 300);
	expect("1/xway/net/2", "");
	mem_put(&m, "/xapi/" UUID_A "/private/vif/0/bridge", "xapi7");
	mem_run(&m, &x, 300);
	expect("1/xway/net/2", PAIR("01", "02"));
	/* A move leaves what is in the back end's directory as it was. */
	mem_put(&m, "/local/domain/0/backend/vif/1/0/bridge", "xenbr0");
	mem_put(&m, "/local/domain/0/backend/vif/2/0/bridge", "xapi7");
	mem_run(&m, &x, 300);
	expect("1/xway/net/2", PAIR("01", "02"));
	mem_put(&m, "/xapi/" UUID_A "/private/vif/0/bridge", "xenbr0");
	mem_put(&m, "/local/domain/0/backend/vif/1/0/bridge", "xapi7");
	mem_run(&m, &x, 300);
	expect("1/xway/net/2", "");
}

/* The private nodes of such an interface are its back end's domain's. */
static void test_net_backend_elsewhere(void)
{
	start("group shop services=net " UUID_A " " UUID_B "\n");
	boot(1, UUID_A, "a", "10.0.0.1");
	lock(UUID_A, 0, "unlocked", "", "");
	create(2, UUID_B, "b", NULL);
	plug(2, UUID_B, 0, 5, "unlocked", "", "");
	mem_introduce(&m);
	mem_run(&m, &x, 300);
	expect("1/xway/net/2", "");
}

static void test_other_devices(void)
{
	two();
	m.lists = 0;
	for (int i = 0; i < 100; i++) {
		mem_put(&m, "/xapi/" UUID_B "/private/vbd3/51712/params", "x");
		mem_put(&m, "/xapi/" UUID_B "/hotplug/2/vif/0/hotplug", "online");
		mem_run(&m, &x, 100);
	}
	CHECK(!m.lists);
}

static void test_backend_elsewhere(void)
{
	two();
	/* What belongs to its back end's domain is a guest's. */
	plug(2, UUID_B, 1, 5, "locked", "10.1.0.2", "");
	mem_run(&m, &x, 300);
	expect("1/xway/peer/2", UUID_B " 10.0.0.2");
}

static void test_move_out(void)
{
	two();
	mem_end(&m, 2, "suspend");
	mem_run(&m, &x, 300);
	expect("1/xway/peer/2", "gone suspend");
	expect("1/xway/link/2", NULL);
	rename_domain(2, UUID_B, OLD_B, true);
	mem_run(&m, &x, 300);
	expect("1/xway/peer/2", "gone suspend");
	destroy(2, OLD_B);
	expect("1/xway/peer/2", "gone suspend");
	mem_run(&m, &x, 61000);
	expect("1/xway/peer/2", NULL);
	CHECK(!mem_get(&m, "/local/domain/2"));
}

/* So soon that its end is seen only when it has another name. */
static void test_move_out_quickly(void)
{
	two();
	mem_end(&m, 2, "suspend");
	rename_domain(2, UUID_B, OLD_B, true);
	mem_run(&m, &x, 300);
	expect("1/xway/peer/2", "gone suspend");
	expect("1/xway/link/2", NULL);
}

static void test_move_in(void)
{
	unsigned int writes;

	start(BOTH);
	boot(1, UUID_A, "a", "10.0.0.1");
	create(7, NEW_B, "b", UUID_B);
	plug(7, NEW_B, 0, 0, "locked", "10.0.0.2", "");
	mem_run(&m, &x, 300);
	mem_introduce(&m);
	mem_run(&m, &x, 300);
	/* Policy and peers know it by its real name from the beginning. */
	expect("1/xway/peer/7", UUID_B " 10.0.0.2");
	expect("7/xway/peer/1", UUID_A " 10.0.0.1");
	mem_guest(&m, 1, "xway/7", OFFER_1);
	mem_run(&m, &x, 300);
	expect("7/xway/link/1", OFFER_1);
	/* So its new name is news to nobody. */
	writes = m.writes;
	rename_domain(7, NEW_B, UUID_B, false);
	mem_run(&m, &x, 300);
	CHECK(m.writes == writes);
	expect("1/xway/peer/7", UUID_B " 10.0.0.2");
	expect("7/xway/link/1", OFFER_1);
	/* And its nodes are read where they are now. */
	lock_anew(UUID_B, 0, "locked", "10.0.0.2,10.0.0.22", "");
	mem_run(&m, &x, 300);
	expect("1/xway/peer/7", UUID_B " 10.0.0.2 10.0.0.22");
}

/* It gets its real name between two looks of ours. */
static void rename_it(const char *path)
{
	if (strcmp(path, "/vm/" NEW_B "/final-uuid"))
		return;
	m.on_read = NULL;
	rename_domain(7, NEW_B, UUID_B, false);
}

static void test_renamed_meanwhile(void)
{
	start(BOTH);
	boot(1, UUID_A, "a", "10.0.0.1");
	mem_run(&m, &x, 300);
	create(7, NEW_B, "b", UUID_B);
	plug(7, NEW_B, 0, 0, "locked", "10.0.0.2", "");
	m.on_read = rename_it;
	mem_introduce(&m);
	mem_run(&m, &x, 300);
	CHECK(!m.on_read);
	expect("1/xway/peer/7", UUID_B " 10.0.0.2");
}

/* While its real name cannot be read it is nobody. */
static void test_unreadable_note(void)
{
	two();
	m.unreadable = "/final-uuid";
	create(7, NEW_B, "b", UUID_D);
	plug(7, NEW_B, 0, 0, "locked", "10.0.0.7", "");
	mem_introduce(&m);
	xwayd_reload(&x, policy("allow all\n"));
	mem_run(&m, &x, 5000);
	expect("1/xway/peer/7", NULL);
	m.unreadable = NULL;
	mem_run(&m, &x, 1100);
	expect("1/xway/peer/7", UUID_D " 10.0.0.7");
	m.unreadable = "/final-uuid";
	rename_domain(7, NEW_B, UUID_D, false);
	mem_run(&m, &x, 5000);
	/* Its addresses are not known either, but it has not ended. */
	expect("1/xway/peer/7", NULL);
	m.unreadable = NULL;
	mem_run(&m, &x, 1100);
	expect("1/xway/peer/7", UUID_D " 10.0.0.7");
}

static void test_strange_note(void)
{
	start(BOTH "group odd " UUID_A " " NEW_B "\n");
	boot(1, UUID_A, "a", "10.0.0.1");
	create(7, NEW_B, "b", "what is this");
	plug(7, NEW_B, 0, 0, "locked", "10.0.0.2", "");
	mem_introduce(&m);
	mem_run(&m, &x, 300);
	expect("1/xway/peer/7", NEW_B " 10.0.0.2");
}

static void move_here(void)
{
	two();
	create(7, NEW_B, "a db", UUID_B);
	plug(7, NEW_B, 0, 0, "locked", "10.0.0.2", "");
	mem_run(&m, &x, 300);
	mem_introduce(&m);
	mem_run(&m, &x, 1000);
	/* The old end runs on, with its addresses and its links. */
	expect("1/xway/peer/2", UUID_B " 10.0.0.2");
	expect("1/xway/link/2", OFFER_2);
	expect("2/xway/link/1", OFFER_1);
	expect("1/xway/peer/7", NULL);
	expect("7/xway/peer/1", NULL);
}

static void arrive_here(void)
{
	mem_end(&m, 2, "suspend");
	mem_run(&m, &x, 300);
	expect("1/xway/peer/2", "gone suspend");
	expect("1/xway/link/2", NULL);
	rename_domain(2, UUID_B, OLD_B, true);
	mem_run(&m, &x, 300);
	rename_domain(7, NEW_B, UUID_B, false);
	mem_run(&m, &x, 300);
	expect("1/xway/peer/2", "gone suspend");
	expect("1/xway/peer/7", UUID_B " 10.0.0.2");
	expect("7/xway/peer/1", UUID_A " 10.0.0.1");
	destroy(2, OLD_B);
	mem_run(&m, &x, 61000);
	expect("1/xway/peer/2", NULL);
	expect("1/xway/peer/7", UUID_B " 10.0.0.2");
}

static void test_move_here(void)
{
	move_here();
	arrive_here();
}

static void test_move_here_restart(void)
{
	unsigned int writes;

	move_here();
	writes = m.writes;
	/* Whichever end is found first. */
	m.list_backwards = true;
	restart(BOTH);
	mem_run(&m, &x, 1000);
	CHECK(m.writes == writes);
	arrive_here();
}

static void test_move_here_fails(void)
{
	unsigned int writes;

	move_here();
	writes = m.writes;
	destroy(7, NEW_B);
	mem_run(&m, &x, 61000);
	CHECK(m.writes == writes);
	expect("1/xway/peer/2", UUID_B " 10.0.0.2");
	expect("1/xway/link/2", OFFER_2);
}

static void ends(const char *reason, const char *gone)
{
	two();
	mem_end(&m, 2, reason);
	mem_run(&m, &x, 300);
	expect("1/xway/peer/2", gone);
	destroy(2, UUID_B);
	expect("1/xway/peer/2", gone);
	/* The next life of it has another id, and the same UUID. */
	boot(3, UUID_B, "a db", "10.0.0.2");
	mem_run(&m, &x, 300);
	expect("1/xway/peer/3", UUID_B " 10.0.0.2");
	expect("3/xway/peer/1", UUID_A " 10.0.0.1");
	expect("1/xway/peer/2", gone);
	mem_run(&m, &x, 61000);
	expect("1/xway/peer/2", NULL);
}

static void test_reboot(void)
{
	ends("reboot", "gone reboot");
}

static void test_crash(void)
{
	ends("crash", "gone crash");
}

static void test_forced_off(void)
{
	static const char config[] = "allow all\naddress db 10.0.0.22\n";

	boot(1, UUID_A, "app", "10.0.0.1");
	boot(2, UUID_B, "db", "10.0.0.2");
	start(config);
	expect("1/xway/peer/2", UUID_B " 10.0.0.2 10.0.0.22");
	/* It still runs, under a UUID that no one is to hear of. */
	doom(2);
	mem_release(&m);
	mem_run(&m, &x, 90);
	expect("1/xway/peer/2", "gone gone");
	restart(config);
	expect("1/xway/peer/2", "gone gone");
	destroy(2, UUID_B);
	expect("1/xway/peer/2", "gone gone");
	mem_run(&m, &x, 61000);
	expect("1/xway/peer/2", NULL);
}

static const struct scenario tests[] = {
	/* clang-format off */
	TEST(start), TEST(only_locked), TEST(lock_anew), TEST(hot_plug), TEST(net),
	TEST(net_move), TEST(net_backend_elsewhere), TEST(other_devices), TEST(backend_elsewhere),
	TEST(move_out), TEST(move_out_quickly), TEST(move_in), TEST(renamed_meanwhile),
	TEST(unreadable_note), TEST(strange_note), TEST(move_here), TEST(move_here_restart),
	TEST(move_here_fails), TEST(reboot), TEST(crash), TEST(forced_off),
};
/* clang-format on */

int main(int argc, char **argv)
{
	return scenario_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
