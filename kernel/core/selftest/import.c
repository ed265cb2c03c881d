// SPDX-License-Identifier: GPL-2.0
/* Tests of imports */
#include "ends.h"

static bool unmap(int which, u32 first, u32 pages)
{
	struct link *link = end(which);
	bool ok;

	mutex_lock(&link->pub.lock);
	ok = xway_import_unmap(link, first, pages);
	mutex_unlock(&link->pub.lock);
	return ok;
}

/* A page is unmapped when the peer says so, and none that a channel uses. */
static bool import_unmaps(void)
{
	u32 nr, other, pages;

	EXPECT(!prepare(A) && !prepare(P));
	EXPECT(!open_import(P, end(A)->pub.nonce));
	EXPECT(!alloc(A, 8, &nr));
	EXPECT(get(P, nr) && get(P, nr + 7) && get(P, nr));
	EXPECT(atomic_read(&xway_fake.mapped) == 6 && end(P)->import.mapped == 6);
	EXPECT(!unmap(P, nr, 8) && !unmap(P, nr + 7, 1));
	EXPECT(unmap(P, nr + 1, 6));
	EXPECT(!unmap(P, 2, 8) && !unmap(P, nr + 1, 0));
	EXPECT(!unmap(P, ~0U, 2));
	EXPECT(!unmap(P, XWAY_ARENA_PAGES_MAX - 1, 2));
	EXPECT(!unmap(P, 3, 65535));
	EXPECT(atomic_read(&xway_fake.mapped) == 6);
	put(P, nr);
	EXPECT(!unmap(P, nr, 8));
	put(P, nr);
	put(P, nr + 7);
	EXPECT(atomic_read(&xway_fake.mapped) == 6 && unmap(P, nr, 8));
	EXPECT(atomic_read(&xway_fake.mapped) == 4 && end(P)->import.mapped == 4);

	/* What has that number next is another page. */
	mutex_lock(&end(A)->pub.lock);
	xway_arena_free(end(A), nr, 8);
	pages = xway_arena_withdraw(end(A), 512, &other);
	mutex_unlock(&end(A)->pub.lock);
	EXPECT(pages == end(A)->arena.pages - XWAY_PAGES_FIXED);
	EXPECT(!alloc(A, 8, &other) && other == nr);
	EXPECT(get(P, nr) == xway_arena_addr(end(A), nr));
	return true;
}

static bool import_lies(void)
{
	struct xway_header *hdr;

	EXPECT(!prepare(A) && !prepare(P));
	hdr = end(A)->arena.hdr;
	EXPECT(open_import(P, hdr->nonce + 1) == -EPROTO);
	hdr->magic++;
	EXPECT(open_import(P, hdr->nonce) == -EPROTO);
	hdr->magic--;
	hdr->pages = 2;
	EXPECT(open_import(P, hdr->nonce) == -EPROTO);
	EXPECT(!atomic_read(&xway_fake.mapped) && !end(P)->import.hdr);
	EXPECT(!end(P)->import.mapped);
	hdr->pages = 3;
	EXPECT(!open_import(P, hdr->nonce));
	/* Header, bells, messages, directory */
	EXPECT(atomic_read(&xway_fake.mapped) == 4 && end(P)->import.mapped == 4);
	EXPECT(get(P, 1) == end(P)->import.bell && atomic_read(&xway_fake.mapped) == 4);
	EXPECT(get(P, 3) == ERR_PTR(-EPROTO));
	hdr->pages = ~0U;
	EXPECT(get(P, XWAY_ARENA_PAGES_MAX) == ERR_PTR(-EPROTO));
	EXPECT(get(P, ~0U) == ERR_PTR(-EPROTO));
	EXPECT(atomic_read(&xway_fake.mapped) == 4);
	return true;
}

/* What the header of a peer says, and the version that the link then has; 0: no link */
static const struct {
	u32 version;
	u32 version_max;
	u32 agreed;
} versions[] = {
	/* A module that knows one version leaves version_max 0. */
	{ XWAY_WIRE_OLDEST, 0, XWAY_WIRE_OLDEST },
	{ XWAY_WIRE_NEWEST, XWAY_WIRE_NEWEST, XWAY_WIRE_NEWEST },
	{ XWAY_WIRE_OLDEST, XWAY_WIRE_NEWEST + 2, XWAY_WIRE_NEWEST },
	{ 1, XWAY_WIRE_OLDEST, XWAY_WIRE_OLDEST },
	{ 0, ~0U, XWAY_WIRE_NEWEST },
	{ XWAY_WIRE_NEWEST + 1, XWAY_WIRE_NEWEST + 2, 0 },
	{ XWAY_WIRE_NEWEST + 1, 0, 0 },
	{ 1, XWAY_WIRE_OLDEST - 1, 0 },
	{ XWAY_WIRE_OLDEST - 1, 0, 0 },
	{ ~0U, ~0U, 0 },
	{ 0, 0, 0 },
	/* Lies: the newest version is older than the oldest. */
	{ XWAY_WIRE_NEWEST, 1, XWAY_WIRE_NEWEST },
	{ XWAY_WIRE_NEWEST + 1, XWAY_WIRE_OLDEST, 0 },
};

static bool import_versions(void)
{
	struct xway_header *hdr;
	int i;

	EXPECT(!prepare(A) && !prepare(P));
	hdr = end(A)->arena.hdr;
	EXPECT(hdr->version == XWAY_WIRE_OLDEST);
	EXPECT(hdr->version_max == XWAY_WIRE_NEWEST);
	for (i = 0; i < ARRAY_SIZE(versions); i++) {
		hdr->version = versions[i].version;
		hdr->version_max = versions[i].version_max;
		if (versions[i].agreed) {
			EXPECT(!open_import(P, hdr->nonce));
			EXPECT(end(P)->version == versions[i].agreed);
			mutex_lock(&end(P)->pub.lock);
			xway_import_close(end(P));
			mutex_unlock(&end(P)->pub.lock);
		} else {
			EXPECT(map(P) == -EPROTO);
			EXPECT(end(P)->pub.state == XWAY_LINK_WAITING);
			EXPECT(!end(P)->arena.hdr->peer_nonce);
		}
		EXPECT(!atomic_read(&xway_fake.mapped) && !end(P)->import.hdr);
	}
	return true;
}

/* A link with a module that knows version 3 only comes up. */
static bool import_before_versions(void)
{
	EXPECT(!prepare(A) && !prepare(P));
	end(A)->arena.hdr->version = 3;
	end(A)->arena.hdr->version_max = 0;
	EXPECT(!map(P) && !map(A));
	look(P);
	flush_workqueue(xway_core_wq);
	EXPECT(end(P)->pub.state == XWAY_LINK_UP && end(P)->version == 3);
	/* Such a module looks at this field only. */
	EXPECT(end(P)->arena.hdr->version == 3);
	return true;
}

const struct xway_test import_tests[] = {
	{ "import_unmaps", import_unmaps, MADE },
	{ "import_lies", import_lies, MADE },
	{ "import_versions", import_versions, MADE },
	{ "import_before_versions", import_before_versions, MADE },
	{}
};
