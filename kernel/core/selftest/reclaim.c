// SPDX-License-Identifier: GPL-2.0
/* Tests of reclaim */
#include "core/reclaim.h"
#include "ends.h"

static void period(struct link *link)
{
	mod_delayed_work(xway_core_wq, &link->reclaim, 0);
	/* Not flush_delayed_work(): it would run the work once more. */
	flush_work(&link->reclaim.work);
}

/* When the kernel needs pages, those not in use are reclaimed at once, in parts. */
static bool reclaim_urgent(void)
{
	struct xway_arena *a = &end(A)->arena;
	struct xway_ctl msg, answer;
	u32 nr, could, again, gone = 0;

	EXPECT(!alloc(A, 600, &nr));
	mutex_lock(&end(A)->pub.lock);
	xway_arena_free(end(A), nr, 600);
	could = xway_reclaimable(end(A));
	xway_reclaim_now(&end(A)->pub);
	again = xway_reclaimable(end(A));
	mutex_unlock(&end(A)->pub.lock);
	flush_work(&end(A)->reclaim.work);
	EXPECT(could >= 600 && !again);
	while (a->n_withdrawn) {
		EXPECT(take(A, &msg) && msg.type == XWAY_CTL_UNMAP);
		EXPECT(give(P, &msg) && take(P, &answer));
		EXPECT(give(A, &answer));
		gone += msg.ring_pages;
	}
	EXPECT(gone > XWAY_UNMAP_MAX && could - gone <= 32);
	return true;
}

/* Pages that were not in use for two periods are reclaimed, once the peer has unmapped them. */
static bool reclaim_periods(void)
{
	struct xway_arena *a = &end(A)->arena;
	struct xway_ctl msg, answer, lie = { .type = XWAY_CTL_UNMAP };
	u32 nr, said = a->hdr->ctl_prod;

	EXPECT(!alloc(A, 600, &nr));
	mutex_lock(&end(A)->pub.lock);
	xway_arena_free(end(A), nr, 600);
	mutex_unlock(&end(A)->pub.lock);
	period(end(A));
	EXPECT(a->hdr->ctl_prod == said && a->shared >= 600 + 257 + 3);
	period(end(A));
	EXPECT(take(A, &msg) && msg.type == XWAY_CTL_UNMAP);
	EXPECT(msg.ring_page > nr && msg.ring_pages > 200);
	EXPECT(a->shared == XWAY_PAGES_FIXED + a->in_use + 257);
	/* One question at a time */
	period(end(A));
	EXPECT(a->hdr->ctl_prod == said + 1 && a->n_withdrawn == msg.ring_pages);
	EXPECT(give(P, &msg));
	EXPECT(take(P, &answer) && answer.type == XWAY_CTL_UNMAPPED);
	nr = xway_arena_pages_total();
	EXPECT(give(A, &answer) && !a->n_withdrawn);
	EXPECT(xway_arena_pages_total() == nr - msg.ring_pages);
	/* Not asked; too much; and what a channel uses */
	EXPECT(!give(A, &answer));
	lie.ring_page = fake_client.chan[A].ring_page + 1000;
	lie.ring_pages = XWAY_UNMAP_MAX + 1;
	EXPECT(!give(P, &lie));
	lie.ring_pages = XWAY_UNMAP_MAX;
	EXPECT(give(P, &lie) && take(P, &answer));
	lie.ring_page = fake_client.chan[A].ring_page + 255;
	lie.ring_pages = 1;
	EXPECT(!give(P, &lie));
	lie.ring_page = fake_client.chan[A].words_page;
	EXPECT(!give(P, &lie));
	return true;
}

const struct xway_test reclaim_tests[] = {
	{ "reclaim_periods", reclaim_periods, CHANNEL },
	{ "reclaim_urgent", reclaim_urgent, CHANNEL },
	{}
};
