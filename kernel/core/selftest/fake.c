// SPDX-License-Identifier: GPL-2.0
/*
 * The two links of a test: their transport, and how they are made, brought up, brought
 * down and destroyed.
 */
#include <linux/export.h>
#include <linux/mm.h>
#include <linux/socket.h>

#include "core/addr.h"
#include "ends.h"

struct xway_fake xway_fake;
EXPORT_SYMBOL_GPL(xway_fake);

static const char *const peer_ids[2] = { "selftest:0", "selftest:1" };

static int fake_share(struct link *link, struct page *page, u32 *ref)
{
	if (atomic_dec_if_positive(&xway_fake.may_share) < 0)
		return -ENOMEM;
	atomic_inc(&xway_fake.shared);
	*ref = page_to_pfn(page);
	return 0;
}

static int fake_unshare(struct page *page, u32 ref)
{
	if (xway_fake.held)
		return -EBUSY;
	atomic_dec(&xway_fake.shared);
	return 0;
}

static void fake_abandon(struct page *page, u32 ref)
{
	__free_page(page);
}

/* One page at a time: a transport may map fewer than it is asked for. */
static int fake_map(struct link *link, const u32 *refs, struct xway_mapping **m, u32 n)
{
	m[0]->page = pfn_to_page(refs[0]);
	get_page(m[0]->page);
	m[0]->addr = page_address(m[0]->page);
	atomic_inc(&xway_fake.mapped);
	return 1;
}

static void fake_unmap(struct link *link, struct xway_mapping **m, u32 n)
{
	atomic_sub(n, &xway_fake.mapped);
	while (n--)
		put_page(m[n]->page);
}

static void fake_notify(struct link *link)
{
	xway_fake.notified++;
}

static bool fake_gone(struct link *link)
{
	return xway_fake.gone;
}

static void fake_seen(struct link *link, bool idle)
{
	xway_fake.seen[!idle]++;
}

static void fake_lost(struct link *link)
{
	xway_fake.lost++;
}

static const struct xway_transport transport = {
	.name = "selftest",
	.domains = true,
	.share = fake_share,
	.unshare = fake_unshare,
	.abandon = fake_abandon,
	.map = fake_map,
	.unmap = fake_unmap,
	.notify = fake_notify,
	.gone = fake_gone,
	.seen = fake_seen,
};

/* Make another link to the peer of an end. Return: NULL without memory. */
struct link *xway_fake_other(int which)
{
	return xway_link_create(&transport, NULL, fake_lost, "selftest",
				peer_ids[which]);
}

bool xway_fake_make(void)
{
	int i;

	memset(&xway_fake, 0, sizeof(xway_fake));
	atomic_set(&xway_fake.may_share, INT_MAX);
	for (i = 0; i < 2; i++)
		xway_fake.link[i] = xway_fake_other(i);
	EXPECT(end(P) && end(A));
	return true;
}

bool xway_fake_up(void)
{
	int i;

	for (i = 0; i < 2; i++)
		EXPECT(!prepare(i));
	for (i = 0; i < 2; i++)
		EXPECT(!map(i));
	mutex_lock(&end(P)->pub.lock);
	xway_link_check_up(end(P));
	mutex_unlock(&end(P)->pub.lock);
	for (i = 0; i < 2; i++) {
		tasklet_kill(&end(i)->bell.task);
		EXPECT(end(i)->pub.state == XWAY_LINK_UP);
	}
	return true;
}

/* Both ends treat the peer as dead. An orderly end would wait for the other end. */
void xway_fake_down(void)
{
	int i;

	xway_fake.held = false;
	xway_addr_own(NULL, 0);
	for (i = 0; i < 2; i++) {
		if (!end(i))
			continue;
		xway_addr_del_link(&end(i)->pub);
		xway_link_down(end(i), true);
	}
}

/* End an end's session without the other end's help. @dead: as for xway_link_down() */
void xway_fake_end(int which, bool dead)
{
	xway_link_drain(end(which));
	/* The time for an orderly end is over. */
	end(which)->drain_by = jiffies - 1;
	xway_link_down(end(which), dead);
}
EXPORT_SYMBOL_GPL(xway_fake_end);

void xway_fake_destroy(void)
{
	int i;

	for (i = 0; i < 2; i++)
		if (end(i))
			xway_link_destroy(end(i));
}

/* The peer of an end has an IPv4 address from now on. */
bool xway_fake_list(int which, __be32 addr)
{
	struct xway_addr a = { .family = AF_INET, .prefix = 32, .addr = { addr } };

	return !xway_addr_add(&a, &end(which)->pub, &end(which)->pub);
}
EXPORT_SYMBOL_GPL(xway_fake_list);

/* Take a message that an end has sent. There must be exactly one. */
bool xway_fake_take(int from, struct xway_ctl *msg)
{
	struct link *to = end(!from);
	const struct xway_ctl *slots = xway_arena_addr(end(from), XWAY_PAGE_CTL);

	EXPECT(end(from)->arena.hdr->ctl_prod == to->ctl.cons + 1);
	*msg = slots[to->ctl.cons % XWAY_CTLS];
	to->arena.hdr->ctl_cons = ++to->ctl.cons;
	return true;
}
EXPORT_SYMBOL_GPL(xway_fake_take);

/* Have an end handle a message. Return: false if no honest peer would send it. */
bool xway_fake_give(int to, const struct xway_ctl *msg)
{
	bool honest;

	mutex_lock(&end(to)->pub.lock);
	honest = xway_ctl_handle(end(to), msg);
	mutex_unlock(&end(to)->pub.lock);
	return honest;
}
EXPORT_SYMBOL_GPL(xway_fake_give);
