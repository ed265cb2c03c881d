// SPDX-License-Identifier: GPL-2.0
/* Tests of arenas */
#include <linux/mm.h>
#include <linux/string.h>

#include "core/revoke.h"
#include "ends.h"

#define STALE_ORDERS 7	/* all that an arena tries to get */
#define STALE_BLOCKS 8	/* of each */

/* Have something in the pages that the next allocations get. Return: false without memory. */
static bool leave_stale(void)
{
	static unsigned long stale[STALE_ORDERS * STALE_BLOCKS];
	bool all = true;
	int i;

	for (i = 0; i < ARRAY_SIZE(stale); i++) {
		stale[i] = __get_free_pages(GFP_KERNEL, i / STALE_BLOCKS);
		if (stale[i])
			memset((void *)stale[i], 0xa5, PAGE_SIZE << (i / STALE_BLOCKS));
		else
			all = false;
	}
	while (i--)
		free_pages(stale[i], i / STALE_BLOCKS);
	return all;
}

static bool arena_pages(void)
{
	u32 a, b, c, i, ref;
	struct xway_arena *arena = &end(A)->arena;
	u32 *dir;

	EXPECT(!prepare(A));
	EXPECT(arena->pages == XWAY_PAGES_FIXED && !arena->in_use);
	EXPECT(arena->hdr->magic == XWAY_MAGIC && arena->hdr->pages == 3);
	EXPECT(leave_stale() && !alloc(A, 4, &a));
	EXPECT(!alloc(A, 1, &b));
	EXPECT(a >= XWAY_PAGES_FIXED && (b < a || b >= a + 4));
	EXPECT(arena->in_use == 5);
	for (i = 0; i < 4; i++)
		EXPECT(!memchr_inv(xway_arena_addr(end(A), a + i), 0,
				   PAGE_SIZE));
	mutex_lock(&end(A)->pub.lock);
	xway_arena_free(end(A), a, 4);
	mutex_unlock(&end(A)->pub.lock);
	EXPECT(arena->in_use == 1);
	EXPECT(!alloc(A, 4, &c) && c == a);

	/* More than a directory lists, and the peer finds it all. */
	EXPECT(!prepare(P));
	EXPECT(!open_import(P, end(A)->pub.nonce));
	EXPECT(!alloc(A, 1100, &a));
	EXPECT(arena->hdr->pages == arena->pages && arena->pages >= 1108);
	EXPECT(arena->hdr->dirs[1] == end(A)->dir[1].ref);
	EXPECT(!arena->hdr->dirs[2]);
	for (i = 0; i < 1100; i += 99) {
		dir = page_address(end(A)->dir[(a + i) / 1024].page);
		ref = page_to_pfn(virt_to_page(xway_arena_addr(end(A), a + i)));
		EXPECT(dir[(a + i) % 1024] == ref);
		EXPECT(get(P, a + i) == xway_arena_addr(end(A), a + i));
	}
	return true;
}

static bool arena_limits(void)
{
	unsigned int max = xway_pages_max;
	u32 before = xway_arena_pages_total(), left, had, nr;
	bool roomy[4];
	int err[5];

	/* Three pages and their directory */
	xway_pages_max = before + 3;
	err[0] = prepare(A);
	left = xway_arena_pages_total();
	xway_pages_max = before + 4;
	err[1] = prepare(A);
	err[2] = alloc(A, 1, &nr);
	xway_pages_max = before + 14;
	err[3] = alloc(A, 11, &nr);
	had = xway_arena_pages_total();
	err[4] = alloc(A, 10, &nr);
	xway_pages_max = max;
	EXPECT(err[0] < 0 && !err[1] && err[2] == -ENOSPC);
	EXPECT(left == before && err[3] == -ENOSPC && !err[4]);
	EXPECT(had == before + 4);
	EXPECT(end(A)->arena.pages == 13 && end(A)->arena.in_use == 10);
	EXPECT(xway_arena_pages_total() == before + 14);

	EXPECT(alloc(A, XWAY_ARENA_PAGES_MAX, &nr) == -ENOSPC);
	EXPECT(xway_arena_pages_total() == before + 14);
	mutex_lock(&end(A)->pub.lock);
	roomy[0] = xway_link_has_room(&end(A)->pub, 10, 0);
	xway_pages_max = before + 14;
	roomy[1] = xway_link_has_room(&end(A)->pub, 10, 0);
	/* It may not grow now, but what it has may be used. */
	xway_arena_free(end(A), nr, 10);
	roomy[2] = xway_link_has_room(&end(A)->pub, 10, 0);
	roomy[3] = xway_link_has_room(&end(A)->pub, 11, 0);
	mutex_unlock(&end(A)->pub.lock);
	EXPECT(roomy[0] && !roomy[1] && roomy[2] && !roomy[3]);
	return true;
}

static bool arena_not_shared(void)
{
	u32 before = xway_arena_pages_total(), nr;

	atomic_set(&xway_fake.may_share, 3);
	EXPECT(prepare(A) == -ENOMEM);
	EXPECT(!atomic_read(&xway_fake.shared) && !end(A)->arena.hdr);
	EXPECT(xway_arena_pages_total() == before);
	atomic_set(&xway_fake.may_share, 4 + 20);
	EXPECT(!prepare(A));
	EXPECT(alloc(A, 64, &nr) == -ENOMEM);
	EXPECT(end(A)->arena.hdr->pages == end(A)->arena.pages);
	EXPECT(xway_arena_pages_total() == before + atomic_read(&xway_fake.shared));
	EXPECT(!alloc(A, 20, &nr) && !end(A)->arena.hdr->dirs[1]);
	return true;
}

/* The pages with the highest numbers go, and their numbers come again. */
static bool arena_parts(void)
{
	struct xway_arena *a = &end(A)->arena;
	u32 before = xway_arena_pages_total(), nr, first, n[4], other;

	EXPECT(!prepare(A) && !alloc(A, 100, &nr));
	EXPECT(!alloc(A, 10, &other));
	mutex_lock(&end(A)->pub.lock);
	n[0] = xway_arena_withdraw(end(A), 512, &first);
	xway_arena_free(end(A), nr, 100);
	/* Of 113 the chunk had some more. */
	n[1] = xway_arena_withdraw(end(A), 40, &first);
	n[2] = xway_arena_withdraw(end(A), 1, &first);
	xway_arena_revoke_withdrawn(end(A));
	n[3] = xway_arena_withdraw(end(A), 40, &first);
	mutex_unlock(&end(A)->pub.lock);
	EXPECT(n[0] == a->pages - 113 && n[1] == 0 && n[2] == 0);
	EXPECT(n[3] == 40 && first == nr + 60);
	EXPECT(((u32 *)page_address(end(A)->dir[0].page))[first] == 0);
	EXPECT(a->shared == 73 && a->n_withdrawn == 40);
	EXPECT(xway_arena_pages_total() == before + 114);
	/* While they leave, and after it */
	EXPECT(!alloc(A, 60, &other) && other == nr);
	EXPECT(!alloc(A, 30, &other) && other == first);
	mutex_lock(&end(A)->pub.lock);
	xway_arena_revoke_withdrawn(end(A));
	mutex_unlock(&end(A)->pub.lock);
	EXPECT(!alloc(A, 2, &other) && other == first + 30);
	EXPECT(a->in_use == 102 && a->shared == atomic_read(&xway_fake.shared) - 1);
	EXPECT(xway_arena_pages_total() == before + atomic_read(&xway_fake.shared));
	EXPECT(((u32 *)page_address(end(A)->dir[0].page))[first + 30] ==
	       a->slot[first + 30].ref);
	return true;
}

/* Pages that the peer says it has let go of, and has not, count as before. */
static bool arena_parts_held(void)
{
	struct xway_arena *a = &end(A)->arena;
	u32 all = xway_link_pages_max(), nr, first, n;

	xway_pages_max = 4 * all;
	EXPECT(!prepare(A) && !alloc(A, all - 3, &nr));
	xway_fake.held = true;
	mutex_lock(&end(A)->pub.lock);
	xway_arena_free(end(A), nr + all - 503, 500);
	n = xway_arena_withdraw(end(A), 512, &first);
	xway_arena_revoke_withdrawn(end(A));
	mutex_unlock(&end(A)->pub.lock);
	EXPECT(n == 500 && xway_unrevoked() == 500 && !a->n_withdrawn);
	EXPECT(alloc(A, 1, &nr) == -ENOSPC && a->shared == all - 500);
	xway_fake.held = false;
	xway_revoke_flush();
	EXPECT(!xway_unrevoked() && !alloc(A, 100, &nr));
	return true;
}

/*
 * One peer gets three quarters of all pages, also where these are few. Two that take what
 * they can leave an eighth for others.
 */
static bool arena_most(void)
{
	u32 nr, most, floor;
	int err[4];

	xway_pages_max = 200;
	most = xway_link_pages_max();
	err[0] = prepare(A) ?: alloc(A, 147, &nr);
	err[1] = alloc(A, 1, &nr);
	/* The rest is there for others: 22 pages more for who has much, all for who has little. */
	EXPECT(prepare(P) == 0 && alloc(P, 40, &nr) == -ENOSPC);
	err[2] = alloc(P, 20, &nr);
	xway_pages_max = 20;
	floor = xway_link_pages_max();
	xway_pages_max = 2 * XWAY_ARENA_PAGES_MAX;
	err[3] = alloc(A, 1, &nr);
	EXPECT(most == 150 && floor == 16);
	EXPECT(!err[0] && err[1] == -ENOSPC && !err[2] && !err[3]);
	return true;
}

/* Pages that the peer does not let go of stay, and no second arena begins. */
static bool arena_held(void)
{
	u32 before = xway_arena_pages_total();
	struct link *other;
	int err;

	EXPECT(!prepare(A));
	xway_fake.held = true;
	xway_link_down(end(A), true);
	EXPECT(xway_unrevoked() == 4);
	EXPECT(xway_arena_pages_total() == before + 4);
	EXPECT(prepare(A) == -EBUSY);
	/* Nor by another link to the same peer */
	other = xway_fake_other(A);
	EXPECT(other);
	mutex_lock(&other->pub.lock);
	err = xway_link_prepare(other);
	mutex_unlock(&other->pub.lock);
	xway_link_destroy(other);
	EXPECT(err == -EBUSY);
	xway_fake.held = false;
	xway_revoke_flush();
	EXPECT(!xway_unrevoked() && !atomic_read(&xway_fake.shared));
	EXPECT(xway_arena_pages_total() == before);
	EXPECT(!prepare(A));
	return true;
}

const struct xway_test arena_tests[] = {
	{ "arena_pages", arena_pages, MADE },
	{ "arena_limits", arena_limits, MADE },
	{ "arena_parts", arena_parts, MADE },
	{ "arena_parts_held", arena_parts_held, MADE },
	{ "arena_not_shared", arena_not_shared, MADE },
	{ "arena_held", arena_held, MADE },
	{ "arena_most", arena_most, MADE },
	{}
};
