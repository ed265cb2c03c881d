// SPDX-License-Identifier: GPL-2.0
/* Tests of the charges of a peer */
#include "ends.h"

static bool peer_charge(void)
{
	struct xway_peer *peer = end(P)->pub.peer;
	u32 most = xway_link_pages_max();
	struct link *other;
	bool same, more;

	EXPECT(!xway_peer_charge(peer, most + 1) && !atomic_read(&peer->charged));
	EXPECT(!xway_peer_charge(peer, 1U << 31) && !xway_peer_charge(peer, U32_MAX));
	EXPECT(!atomic_read(&peer->charged));
	EXPECT(xway_peer_charge(peer, most - 2));
	EXPECT(!xway_peer_charge(peer, 3) && xway_peer_charge(peer, 2));
	EXPECT(!xway_peer_charge(peer, 1) && xway_peer_charge(peer, 0));
	EXPECT(!xway_peer_charge(peer, U32_MAX) && !xway_peer_charge(peer, U32_MAX - most + 1));
	EXPECT(atomic_read(&peer->charged) == most);
	/* The limit is lowered below what is charged. */
	atomic_set(&peer->charged, most + 1);
	EXPECT(!xway_peer_charge(peer, 0) && !xway_peer_charge(peer, 1));
	atomic_set(&peer->charged, most);
	/* Another link to this peer has the same charge. */
	other = xway_fake_other(P);
	EXPECT(other);
	same = other->pub.peer == peer;
	more = xway_peer_charge(other->pub.peer, 1);
	xway_link_destroy(other);
	EXPECT(same && !more);
	/* The other peer has a charge of its own. */
	EXPECT(xway_peer_charge(end(A)->pub.peer, most));
	xway_peer_uncharge(end(A)->pub.peer, most);
	xway_peer_uncharge(peer, 1);
	EXPECT(!xway_peer_charge(peer, 2) && xway_peer_charge(peer, 1));
	xway_peer_uncharge(peer, most);
	return true;
}

/* Many peers together may have us keep no more than a part of the memory. */
static bool peer_charge_all(void)
{
	struct xway_peer *a = end(A)->pub.peer, *p = end(P)->pub.peer;
	bool first, more, rest, undone, freed;

	xway_charged_max = 400;
	first = xway_peer_charge(a, 340) && !xway_peer_charge(a, 11);
	/* The last eighth is for who has little. */
	more = xway_peer_charge(p, 33);
	undone = !atomic_read(&p->charged);
	rest = xway_peer_charge(p, 32) && !xway_peer_charge(a, 1) && !xway_peer_charge(p, 1);
	xway_peer_uncharge(a, 340);
	freed = xway_peer_charge(p, 300);
	xway_peer_uncharge(p, 332);
	EXPECT(first && !more && undone && rest && freed);
	return true;
}

const struct xway_test peer_tests[] = {
	{ "peer_charge_all", peer_charge_all, MADE },
	{ "peer_charge", peer_charge, MADE },
	{}
};
