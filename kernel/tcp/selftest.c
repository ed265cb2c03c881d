// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of what needs a kernel but no peer: built with XWAY_SELFTEST=1, run as
 * the module is loaded, which fails if one of them does.
 *
 * Each test gets two links that are each other's peer over a transport that
 * does nothing by itself, as far up as it asks for. What a hostile peer would
 * write is written into the other end's words.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uio.h>
#include <net/tcp.h>

#include "handshake.h"
#include "conn.h"
#include "evict.h"
#include "link.h"
#include "addr.h"
#include "selftest.h"
#include "ringsize.h"
#include "reclaim.h"

#define EXPECT(cond)							\
	do {								\
		if (!(cond)) {						\
			pr_err("selftest %s: line %d: %s\n", running,	\
			       __LINE__, #cond);			\
			return false;					\
		}							\
	} while (0)

static const char *running;

/* The transport: how often it may share yet, does the peer hold on to pages? */
static struct {
	int may_share;
	bool held;
	int shared;
	int mapped;
	int notified;
	int lost;
} fake;

static int fake_share(struct xway_link *link, struct page *page, u32 *ref)
{
	if (!fake.may_share)
		return -ENOMEM;
	fake.may_share--;
	fake.shared++;
	*ref = page_to_pfn(page);
	return 0;
}

static int fake_unshare(struct xway_link *link, struct page *page, u32 ref)
{
	if (fake.held)
		return -EBUSY;
	fake.shared--;
	return 0;
}

static void fake_abandon(struct xway_link *link, struct page *page, u32 ref)
{
	__free_page(page);
}

static int fake_map(struct xway_link *link, u32 ref, struct xway_mapping *m)
{
	m->page = pfn_to_page(ref);
	get_page(m->page);
	m->addr = page_address(m->page);
	fake.mapped++;
	return 0;
}

static void fake_unmap(struct xway_link *link, struct xway_mapping *m)
{
	put_page(m->page);
	fake.mapped--;
}

static void fake_notify(struct xway_link *link)
{
	fake.notified++;
}

static void fake_seen(struct xway_link *link, bool idle)
{
}

static void fake_lost(struct xway_link *link)
{
	fake.lost++;
}

static const struct xway_transport transport = {
	.name = "selftest",
	.share = fake_share,
	.unshare = fake_unshare,
	.abandon = fake_abandon,
	.map = fake_map,
	.unmap = fake_unmap,
	.notify = fake_notify,
	.seen = fake_seen,
	.lost = fake_lost,
};

/* How far up a test wants its links; each includes those before. */
enum level {
	MADE,		/* no arena yet */
	UP,
	HELD,		/* both ends hold the connection */
	CHANNEL,	/* it has a channel */
	READING,	/* and the passive end's rx.lock is held */
};

enum { P, A };		/* passive end, active end */

static struct xway_link *link[2];
static struct xway_conn *conn[2];
static struct tcp_sock *tp[2];
static int woken[2];

static void ready(struct sock *sk)
{
	woken[tcp_sk(sk) == tp[A]]++;
}

static int prepare(struct xway_link *l)
{
	int err;

	mutex_lock(&l->lock);
	err = xway_link_prepare(l);
	mutex_unlock(&l->lock);
	return err;
}

static int alloc(struct xway_link *l, u32 pages, u32 *first)
{
	int err;

	mutex_lock(&l->lock);
	err = xway_arena_alloc(l, pages, first);
	mutex_unlock(&l->lock);
	return err;
}

static int open_view(struct xway_link *l, struct xway_link *of, u64 nonce)
{
	int err;

	mutex_lock(&l->lock);
	err = xway_import_open(l, of->arena.slot[0].ref, nonce);
	mutex_unlock(&l->lock);
	return err;
}

static int map(struct xway_link *l, struct xway_link *of)
{
	int err;

	mutex_lock(&l->lock);
	err = xway_link_map(l, of->arena.slot[0].ref, of->nonce);
	mutex_unlock(&l->lock);
	return err;
}

static const void *view(struct xway_link *l, u32 nr)
{
	const void *addr;

	mutex_lock(&l->lock);
	addr = xway_import_get(l, nr);
	mutex_unlock(&l->lock);
	return addr;
}

static void unview(struct xway_link *l, u32 nr)
{
	mutex_lock(&l->lock);
	xway_import_put(l, nr, 1);
	mutex_unlock(&l->lock);
}

static bool forget(struct xway_link *l, u32 first, u32 pages)
{
	bool ok;

	mutex_lock(&l->lock);
	ok = xway_import_unmap(l, first, pages);
	mutex_unlock(&l->lock);
	return ok;
}

static bool bring_up(void)
{
	int i;

	for (i = 0; i < 2; i++)
		EXPECT(prepare(link[i]) == 0);
	for (i = 0; i < 2; i++)
		EXPECT(!map(link[i], link[!i]));
	mutex_lock(&link[P]->lock);
	xway_link_check_up(link[P]);
	mutex_unlock(&link[P]->lock);
	for (i = 0; i < 2; i++) {
		tasklet_kill(&link[i]->bell_task);
		EXPECT(link[i]->state == XWAY_LINK_UP);
	}
	return true;
}

/* No file, no user, no reference: workers find that it is gone already. */
static void dress(int end, u16 family)
{
	struct sock *sk = (struct sock *)tp[end];

	sock_net_set(sk, &init_net);
	rwlock_init(&sk->sk_callback_lock);
	sk->sk_data_ready = ready;
	sk->sk_family = family;
	sk->sk_daddr = htonl(0x0a000001 + !end);
	sk->sk_rcv_saddr = htonl(0x0a000001 + end);
#if IS_ENABLED(CONFIG_IPV6)
	ipv6_addr_set_v4mapped(sk->sk_daddr, &sk->sk_v6_daddr);
	ipv6_addr_set_v4mapped(sk->sk_rcv_saddr, &sk->sk_v6_rcv_saddr);
#endif
	inet_sk(sk)->inet_sport = htons(end == A ? 40000 : 80);
	inet_sk(sk)->inet_dport = htons(end == A ? 80 : 40000);
	tp[end]->snd_una = end == A ? 1001 : 0xfffffff0;
	tp[end]->rcv_nxt = end == A ? 0xfffffff0 : 1001;
	tp[end]->copied_seq = tp[end]->rcv_nxt;
}

static bool hold(u16 passive, u16 active)
{
	int i;

	for (i = 0; i < 2; i++) {
		dress(i, i == A ? active : passive);
		conn[i] = xway_conn_create((struct sock *)tp[i], link[i],
					   i == A);
		EXPECT(conn[i]);
		xway_conn_established(conn[i], (struct sock *)tp[i]);
	}
	return true;
}

static void let_go(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (!conn[i])
			continue;
		xway_conn_unlist(conn[i]);
		xway_conn_put(conn[i]);
		conn[i] = NULL;
	}
}

/* Take the one message that the end @from has sent since the last one. */
static bool take(int from, struct xway_ctl *msg)
{
	struct xway_link *to = link[!from];
	const struct xway_ctl *slots = xway_arena_addr(link[from],
						       XWAY_PAGE_CTL);

	EXPECT(link[from]->arena.hdr->ctl_prod == to->ctl_cons + 1);
	*msg = slots[to->ctl_cons % XWAY_CTLS];
	to->arena.hdr->ctl_cons = ++to->ctl_cons;
	return true;
}

static bool give(int to, const struct xway_ctl *msg)
{
	bool honest;

	mutex_lock(&link[to]->lock);
	honest = xway_handshake_ctl(link[to], msg);
	mutex_unlock(&link[to]->lock);
	return honest;
}

/* The passive end's OPEN, as its helper sends it */
static bool ask(struct xway_ctl *msg)
{
	int i;

	for (i = 0; i < 100 && !test_bit(XWAY_F_ASKED, &conn[P]->flags); i++)
		xway_conn_want(conn[P]);
	flush_workqueue(xway_conn_wq);
	EXPECT(take(P, msg));
	EXPECT(msg->type == XWAY_CTL_OPEN);
	return true;
}

static bool open_channel(void)
{
	struct xway_ctl msg;

	EXPECT(ask(&msg));
	EXPECT(give(A, &msg));
	EXPECT(take(A, &msg));
	EXPECT(msg.type == XWAY_CTL_ACCEPT && msg.chan == conn[P]->id);
	EXPECT(give(P, &msg));
	EXPECT(conn[P]->state == XWAY_CONN_OPEN && conn[P]->tx.usable);
	EXPECT(conn[A]->state == XWAY_CONN_OPEN && conn[A]->tx.usable);
	return true;
}

static bool violated(int end)
{
	return test_bit(XWAY_F_BAD, &conn[end]->flags);
}

/* The co-residency table */

static const struct xway_addr net10 = { AF_INET, 8, { htonl(0x0a000000) } };
static const struct xway_addr host1 = { AF_INET, 32, { htonl(0x0a000001) } };
static const struct xway_addr bits33 = {
	AF_INET6, 33, { htonl(0x20010db8), htonl(0x80000000) }
};

static const struct xway_addr bits128 = {
	AF_INET6, 128, { htonl(0xfd000000), 0, 0, htonl(1) }
};

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

static bool peer_prefixes(void)
{
	EXPECT(!xway_addr_any());
	EXPECT(!find(AF_INET, 0x0a000001, 0, 0, true));
	EXPECT(!xway_addr_add(&net10, link[A], link[P]));
	EXPECT(!xway_addr_add(&bits33, link[A], link[P]));
	EXPECT(!xway_addr_add(&bits128, link[A], link[P]));
	EXPECT(xway_addr_any());

	EXPECT(find(AF_INET, 0x0a000000, 0, 0, true) == link[A]);
	EXPECT(find(AF_INET, 0x0affffff, 0, 0, false) == link[P]);
	EXPECT(!find(AF_INET, 0x09ffffff, 0, 0, true));
	EXPECT(!find(AF_INET, 0x0b000000, 0, 0, true));
	/* Words beyond an IPv4 address do not count. */
	EXPECT(find(AF_INET, 0x0a000001, 7, 7, true) == link[A]);
	EXPECT(find(AF_INET6, 0x20010db8, 0x80000000, 1, true) == link[A]);
	EXPECT(find(AF_INET6, 0x20010db8, 0xffffffff, 9, true) == link[A]);
	EXPECT(!find(AF_INET6, 0x20010db8, 0x7fffffff, 1, true));
	EXPECT(!find(AF_INET6, 0x20010db9, 0x80000000, 1, true));
	EXPECT(!find(AF_INET6, 0x0a000000, 0, 0, true));
	EXPECT(find(AF_INET6, 0xfd000000, 0, 1, true) == link[A]);
	EXPECT(!find(AF_INET6, 0xfd000000, 0, 2, true));

	/* An address of its own counts before the prefix it is in. */
	EXPECT(!xway_addr_add(&host1, link[P], link[A]));
	EXPECT(find(AF_INET, 0x0a000001, 0, 0, true) == link[P]);
	EXPECT(find(AF_INET, 0x0a000001, 7, 7, true) == link[P]);
	EXPECT(find(AF_INET, 0x0a000002, 0, 0, true) == link[A]);
	EXPECT(!xway_addr_del(&net10));
	EXPECT(!find(AF_INET, 0x0a000002, 0, 0, true));
	EXPECT(find(AF_INET, 0x0a000001, 0, 0, true) == link[P]);
	EXPECT(!xway_addr_del(&host1));
	EXPECT(!xway_addr_del(&bits33));
	EXPECT(!xway_addr_del(&bits128));
	EXPECT(!xway_addr_any());
	return true;
}

static bool peer_duplicates(void)
{
	struct xway_addr net16 = net10;

	net16.prefix = 16;
	EXPECT(!xway_addr_add(&net10, link[A], link[A]));
	EXPECT(refcount_read(&link[A]->ref) == 3);
	EXPECT(xway_addr_add(&net10, link[P], link[P]) == -EEXIST);
	EXPECT(refcount_read(&link[P]->ref) == 1);
	EXPECT(find(AF_INET, 0x0a000001, 0, 0, true) == link[A]);
	EXPECT(!xway_addr_add(&net16, link[A], link[A]));
	EXPECT(!xway_addr_del(&net10));
	EXPECT(xway_addr_del(&net10) == -ENOENT);
	EXPECT(find(AF_INET, 0x0a000001, 0, 0, true) == link[A]);
	EXPECT(!xway_addr_del(&net16));
	EXPECT(refcount_read(&link[A]->ref) == 1);
	return true;
}

static int count_addr(const struct xway_addr *addr, void *arg)
{
	return ++*(int *)arg == 2 ? -EINTR : 0;
}

static bool peer_of_link(void)
{
	int n = 0;

	EXPECT(!xway_addr_add(&net10, link[A], link[P]));
	EXPECT(!xway_addr_add(&host1, link[P], link[P]));
	EXPECT(!xway_addr_add(&bits33, link[A], link[A]));
	EXPECT(!xway_addr_add(&bits128, link[P], link[A]));
	EXPECT(xway_addr_each(link[A], count_addr, &n) == -EINTR && n == 2);
	n = 10;
	EXPECT(!xway_addr_each(link[A], count_addr, &n) && n == 13);
	xway_addr_del_link(link[A]);
	EXPECT(!find(AF_INET, 0x0a000002, 0, 0, true));
	EXPECT(!find(AF_INET6, 0x20010db8, 0x80000000, 1, true));
	EXPECT(!find(AF_INET6, 0xfd000000, 0, 1, true));
	EXPECT(find(AF_INET, 0x0a000001, 0, 0, true) == link[P]);
	xway_addr_del_link(link[A]);
	xway_addr_del_link(link[P]);
	EXPECT(!xway_addr_any());
	EXPECT(refcount_read(&link[A]->ref) == 1);
	EXPECT(refcount_read(&link[P]->ref) == 1);
	return true;
}

/* Arenas */

static bool arena_pages(void)
{
	u32 a, b, c, i, ref;
	struct xway_arena *arena = &link[A]->arena;
	u32 *dir;

	EXPECT(!prepare(link[A]));
	EXPECT(arena->pages == XWAY_PAGES_FIXED && !arena->in_use);
	EXPECT(arena->hdr->magic == XWAY_MAGIC && arena->hdr->pages == 3);
	EXPECT(!alloc(link[A], 4, &a));
	EXPECT(!alloc(link[A], 1, &b));
	EXPECT(a >= XWAY_PAGES_FIXED && (b < a || b >= a + 4));
	EXPECT(arena->in_use == 5);
	for (i = 0; i < 4; i++)
		EXPECT(!memchr_inv(xway_arena_addr(link[A], a + i), 0,
				   PAGE_SIZE));
	mutex_lock(&link[A]->lock);
	xway_arena_free(link[A], a, 4);
	mutex_unlock(&link[A]->lock);
	EXPECT(arena->in_use == 1);
	EXPECT(!alloc(link[A], 4, &c) && c == a);

	/* More than a directory lists, and the peer finds it all. */
	EXPECT(!prepare(link[P]));
	EXPECT(!open_view(link[P], link[A], link[A]->nonce));
	EXPECT(!alloc(link[A], 1100, &a));
	EXPECT(arena->hdr->pages == arena->pages && arena->pages >= 1108);
	EXPECT(arena->hdr->dirs[1] == link[A]->dir[1].ref);
	EXPECT(!arena->hdr->dirs[2]);
	for (i = 0; i < 1100; i += 99) {
		dir = page_address(link[A]->dir[(a + i) / 1024].page);
		ref = page_to_pfn(virt_to_page(xway_arena_addr(link[A], a + i)));
		EXPECT(dir[(a + i) % 1024] == ref);
		EXPECT(view(link[P], a + i) == xway_arena_addr(link[A], a + i));
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
	err[0] = prepare(link[A]);
	left = xway_arena_pages_total();
	xway_pages_max = before + 4;
	err[1] = prepare(link[A]);
	err[2] = alloc(link[A], 1, &nr);
	xway_pages_max = before + 14;
	err[3] = alloc(link[A], 11, &nr);
	had = xway_arena_pages_total();
	err[4] = alloc(link[A], 10, &nr);
	xway_pages_max = max;
	EXPECT(err[0] < 0 && !err[1] && err[2] == -ENOSPC);
	EXPECT(left == before && err[3] == -ENOSPC && !err[4]);
	EXPECT(had == before + 4);
	EXPECT(link[A]->arena.pages == 13 && link[A]->arena.in_use == 10);
	EXPECT(xway_arena_pages_total() == before + 14);

	EXPECT(alloc(link[A], XWAY_ARENA_PAGES_MAX, &nr) == -ENOSPC);
	EXPECT(xway_arena_pages_total() == before + 14);
	mutex_lock(&link[A]->lock);
	roomy[0] = xway_arena_roomy(link[A], 10, 0);
	xway_pages_max = before + 14;
	roomy[1] = xway_arena_roomy(link[A], 10, 0);
	/* It may not grow now, but what it has may be used. */
	xway_arena_free(link[A], nr, 10);
	roomy[2] = xway_arena_roomy(link[A], 10, 0);
	roomy[3] = xway_arena_roomy(link[A], 11, 0);
	mutex_unlock(&link[A]->lock);
	EXPECT(roomy[0] && !roomy[1] && roomy[2] && !roomy[3]);
	return true;
}

static bool arena_not_shared(void)
{
	u32 before = xway_arena_pages_total(), nr;

	fake.may_share = 3;
	EXPECT(prepare(link[A]) == -ENOMEM);
	EXPECT(!fake.shared && !link[A]->arena.hdr);
	EXPECT(xway_arena_pages_total() == before);
	fake.may_share = 4 + 20;
	EXPECT(!prepare(link[A]));
	EXPECT(alloc(link[A], 64, &nr) == -ENOMEM);
	EXPECT(link[A]->arena.hdr->pages == link[A]->arena.pages);
	EXPECT(xway_arena_pages_total() == before + fake.shared);
	EXPECT(!alloc(link[A], 20, &nr) && !link[A]->arena.hdr->dirs[1]);
	return true;
}

/* The pages with the highest numbers go, and their numbers come again. */
static bool arena_parts(void)
{
	struct xway_arena *a = &link[A]->arena;
	u32 before = xway_arena_pages_total(), nr, first, n[4], other;

	EXPECT(!prepare(link[A]) && !alloc(link[A], 100, &nr));
	EXPECT(!alloc(link[A], 10, &other));
	mutex_lock(&link[A]->lock);
	n[0] = xway_arena_withdraw(link[A], 512, &first);
	xway_arena_free(link[A], nr, 100);
	/* Of 113 the chunk had some more. */
	n[1] = xway_arena_withdraw(link[A], 40, &first);
	n[2] = xway_arena_withdraw(link[A], 1, &first);
	xway_arena_revoke_withdrawn(link[A]);
	n[3] = xway_arena_withdraw(link[A], 40, &first);
	mutex_unlock(&link[A]->lock);
	EXPECT(n[0] == a->pages - 113 && n[1] == 0 && n[2] == 0);
	EXPECT(n[3] == 40 && first == nr + 60);
	EXPECT(((u32 *)page_address(link[A]->dir[0].page))[first] == 0);
	EXPECT(a->shared == 73 && a->n_withdrawn == 40);
	EXPECT(xway_arena_pages_total() == before + 114);
	/* While they leave, and after it */
	EXPECT(!alloc(link[A], 60, &other) && other == nr);
	EXPECT(!alloc(link[A], 30, &other) && other == first);
	mutex_lock(&link[A]->lock);
	xway_arena_revoke_withdrawn(link[A]);
	mutex_unlock(&link[A]->lock);
	EXPECT(!alloc(link[A], 2, &other) && other == first + 30);
	EXPECT(a->in_use == 102 && a->shared == fake.shared - 1);
	EXPECT(xway_arena_pages_total() == before + fake.shared);
	EXPECT(((u32 *)page_address(link[A]->dir[0].page))[first + 30] ==
	       a->slot[first + 30].ref);
	return true;
}

/* Pages that the peer says it has let go of, and has not, count as before. */
static bool arena_parts_held(void)
{
	struct xway_arena *a = &link[A]->arena;
	u32 all = xway_arena_pages_max(), nr, first, n;

	xway_pages_max = 4 * all;
	EXPECT(!prepare(link[A]) && !alloc(link[A], all - 3, &nr));
	fake.held = true;
	mutex_lock(&link[A]->lock);
	xway_arena_free(link[A], nr + all - 503, 500);
	n = xway_arena_withdraw(link[A], 512, &first);
	xway_arena_revoke_withdrawn(link[A]);
	mutex_unlock(&link[A]->lock);
	EXPECT(n == 500 && xway_arena_unrevoked() == 500 && !a->n_withdrawn);
	EXPECT(alloc(link[A], 1, &nr) == -ENOSPC && a->shared == all - 500);
	fake.held = false;
	xway_arena_flush();
	EXPECT(!xway_arena_unrevoked() && !alloc(link[A], 100, &nr));
	/* The last sixteenth of all is not for who has most. */
	xway_pages_max = xway_arena_pages_total() + 200;
	EXPECT(alloc(link[A], 1, &nr) == -ENOSPC && !prepare(link[P]));
	EXPECT(!alloc(link[P], 1, &nr));
	return true;
}

/* A page is unmapped when the peer says so, and none that a channel uses. */
static bool view_forgets(void)
{
	u32 nr, other, pages;

	EXPECT(!prepare(link[A]) && !prepare(link[P]));
	EXPECT(!open_view(link[P], link[A], link[A]->nonce));
	EXPECT(!alloc(link[A], 8, &nr));
	EXPECT(view(link[P], nr) && view(link[P], nr + 7) && view(link[P], nr));
	EXPECT(fake.mapped == 6 && link[P]->import.mapped == 6);
	EXPECT(!forget(link[P], nr, 8) && !forget(link[P], nr + 7, 1));
	EXPECT(forget(link[P], nr + 1, 6));
	EXPECT(!forget(link[P], 2, 8) && !forget(link[P], nr + 1, 0));
	EXPECT(!forget(link[P], ~0U, 2));
	EXPECT(!forget(link[P], XWAY_ARENA_PAGES_MAX - 1, 2));
	EXPECT(!forget(link[P], 3, 65535));
	EXPECT(fake.mapped == 6);
	unview(link[P], nr);
	EXPECT(!forget(link[P], nr, 8));
	unview(link[P], nr);
	unview(link[P], nr + 7);
	EXPECT(fake.mapped == 6 && forget(link[P], nr, 8));
	EXPECT(fake.mapped == 4 && link[P]->import.mapped == 4);

	/* What has that number next is another page. */
	mutex_lock(&link[A]->lock);
	xway_arena_free(link[A], nr, 8);
	pages = xway_arena_withdraw(link[A], 512, &other);
	mutex_unlock(&link[A]->lock);
	EXPECT(pages == link[A]->arena.pages - XWAY_PAGES_FIXED);
	EXPECT(!alloc(link[A], 8, &other) && other == nr);
	EXPECT(view(link[P], nr) == xway_arena_addr(link[A], nr));
	return true;
}

static const char *const peer_ids[2] = { "selftest:0", "selftest:1" };

/* Pages that the peer does not let go of stay, and no second arena begins. */
static bool arena_held(void)
{
	u32 before = xway_arena_pages_total();
	struct xway_link *other;
	int err;

	EXPECT(!prepare(link[A]));
	fake.held = true;
	xway_link_down(link[A], true);
	EXPECT(xway_arena_unrevoked() == 4);
	EXPECT(xway_arena_pages_total() == before + 4);
	EXPECT(prepare(link[A]) == -EBUSY);
	/* Nor by another link to the same peer */
	other = xway_link_create(&transport, NULL, "selftest:other",
				 peer_ids[A]);
	EXPECT(other);
	err = prepare(other);
	xway_link_destroy(other);
	EXPECT(err == -EBUSY);
	fake.held = false;
	xway_arena_flush();
	EXPECT(!xway_arena_unrevoked() && !fake.shared);
	EXPECT(xway_arena_pages_total() == before);
	EXPECT(!prepare(link[A]));
	return true;
}

static bool view_lies(void)
{
	struct xway_header *hdr;

	EXPECT(!prepare(link[A]) && !prepare(link[P]));
	hdr = link[A]->arena.hdr;
	EXPECT(open_view(link[P], link[A], hdr->nonce + 1) == -EPROTO);
	hdr->magic++;
	EXPECT(open_view(link[P], link[A], hdr->nonce) == -EPROTO);
	hdr->magic--;
	hdr->version++;
	EXPECT(open_view(link[P], link[A], hdr->nonce) == -EPROTO);
	hdr->version--;
	hdr->pages = 2;
	EXPECT(open_view(link[P], link[A], hdr->nonce) == -EPROTO);
	EXPECT(!fake.mapped && !link[P]->import.hdr && !link[P]->import.mapped);
	hdr->pages = 3;
	EXPECT(!open_view(link[P], link[A], hdr->nonce));
	/* Header, bells, messages, directory */
	EXPECT(fake.mapped == 4 && link[P]->import.mapped == 4);
	EXPECT(view(link[P], 1) == link[P]->import.bell && fake.mapped == 4);
	EXPECT(view(link[P], 3) == ERR_PTR(-EPROTO));
	hdr->pages = ~0U;
	EXPECT(view(link[P], XWAY_ARENA_PAGES_MAX) == ERR_PTR(-EPROTO));
	EXPECT(view(link[P], ~0U) == ERR_PTR(-EPROTO));
	EXPECT(fake.mapped == 4);
	return true;
}

/* A peer may ring before it shows anything, and while that is no longer wanted. */
static bool link_ends_waiting(void)
{
	EXPECT(!prepare(link[A]));
	tasklet_schedule(&link[A]->bell_task);
	tasklet_kill(&link[A]->bell_task);
	xway_link_drain(link[A]);
	EXPECT(link[A]->state == XWAY_LINK_CLOSING && !link[A]->import.hdr);
	tasklet_schedule(&link[A]->bell_task);
	tasklet_kill(&link[A]->bell_task);	/* once it has run */
	return true;
}

/* An offer outlives what it offers, and who ends may not say so. */
static bool link_past_life(void)
{
	struct xway_header *hdr;
	int i;

	EXPECT(!prepare(link[A]) && !prepare(link[P]));
	hdr = link[A]->arena.hdr;
	hdr->peer_nonce = link[P]->nonce + 1;
	EXPECT(map(link[P], link[A]) == -EAGAIN);
	hdr->peer_nonce = link[P]->nonce;
	hdr->state = XWAY_ARENA_CLOSING;
	EXPECT(map(link[P], link[A]) == -EAGAIN);
	EXPECT(!fake.mapped && !link[P]->import.hdr);
	EXPECT(link[P]->state == XWAY_LINK_WAITING);
	hdr->peer_nonce = 0;
	hdr->state = XWAY_ARENA_INIT;
	EXPECT(!map(link[P], link[A]));
	EXPECT(link[P]->state == XWAY_LINK_CONNECTING && !fake.lost);
	hdr->state = XWAY_ARENA_CLOSING;
	for (i = 0; i < 100 && !READ_ONCE(fake.lost); i++)
		msleep(50);
	EXPECT(fake.lost);
	return true;
}

/* Is it the same connection? */

static bool proof_both_ways(void)
{
	static const u16 families[][2] = {
		{ AF_INET, AF_INET },
#if IS_ENABLED(CONFIG_IPV6)
		{ AF_INET6, AF_INET },	/* an IPv4-mapped listener */
		{ AF_INET, AF_INET6 },
		{ AF_INET6, AF_INET6 },
#endif
	};
	u64 macs[ARRAY_SIZE(families)] = {};
	struct xway_ctl msg;
	int i;

	for (i = 0; i < ARRAY_SIZE(families); i++) {
		EXPECT(hold(families[i][P], families[i][A]));
		EXPECT(ask(&msg));
		macs[i] = msg.mac;
		EXPECT(msg.family == AF_INET && macs[i] == macs[0]);
		EXPECT(give(A, &msg) && take(A, &msg));
		EXPECT(msg.type == XWAY_CTL_ACCEPT);
		/* Nobody who only saw OPEN can answer it. */
		EXPECT(msg.mac != macs[i]);
		EXPECT(give(P, &msg) && conn[P]->state == XWAY_CONN_OPEN);
		EXPECT(rcu_access_pointer(conn[P]->peer) == conn[A]->own);
		EXPECT(rcu_access_pointer(conn[A]->peer) == conn[P]->own);
		xway_conn_leave(link[A], true);
		xway_conn_leave(link[P], true);
		flush_workqueue(xway_conn_wq);
		EXPECT(!link[A]->n_chans && !link[P]->n_chans);
		let_go();
	}
	return true;
}

static bool declined(const struct xway_ctl *open, u32 why)
{
	struct xway_ctl msg;

	EXPECT(give(A, open) && take(A, &msg));
	EXPECT(msg.type == XWAY_CTL_DECLINE && msg.arg == why);
	EXPECT(msg.chan == conn[P]->id);
	EXPECT(!link[A]->n_chans && !link[A]->arena.in_use);
	return true;
}

static bool proof_differs(void)
{
	struct xway_ctl open, msg;

	EXPECT(ask(&open));
	conn[A]->isn[0]++;
	EXPECT(declined(&open, XWAY_DECLINE_PROOF));
	conn[A]->isn[0]--;
	conn[A]->isn[1]++;
	EXPECT(declined(&open, XWAY_DECLINE_PROOF));
	conn[A]->isn[1]--;
	link[A]->nonce++;
	EXPECT(declined(&open, XWAY_DECLINE_PROOF));
	link[A]->nonce--;
	link[A]->peer_nonce++;
	EXPECT(declined(&open, XWAY_DECLINE_PROOF));
	link[A]->peer_nonce--;
	msg = open;
	msg.mac ^= 1ULL << 63;
	EXPECT(declined(&msg, XWAY_DECLINE_PROOF));
	/* The table of the other end's own kind of connections is not asked. */
	conn[A]->active = false;
	EXPECT(declined(&open, XWAY_DECLINE_UNKNOWN));
	conn[A]->active = true;
	msg = open;
	msg.sport ^= htons(1);
	EXPECT(declined(&msg, XWAY_DECLINE_UNKNOWN));
	msg = open;
	msg.saddr[3] = htonl(1);
	EXPECT(declined(&msg, XWAY_DECLINE_UNKNOWN));
	msg = open;
	msg.family = AF_INET6;
	EXPECT(declined(&msg, XWAY_DECLINE_UNKNOWN));
	EXPECT(give(A, &open) && take(A, &msg));
	EXPECT(msg.type == XWAY_CTL_ACCEPT);
	/* A connection gets one channel. */
	EXPECT(give(A, &open) && take(A, &msg));
	EXPECT(msg.type == XWAY_CTL_DECLINE && msg.arg == XWAY_DECLINE_OFF);
	return true;
}

/* What a peer may leave in its rings is limited. */
static bool rings_limit(void)
{
	struct xway_ctl open, msg;
	atomic_t *charged = &link[A]->peer->rx_pages;
	u32 most = xway_arena_pages_max();
	bool ok;

	EXPECT(ask(&open));
	atomic_set(charged, most - open.ring_pages + 1);
	ok = declined(&open, XWAY_DECLINE_LATER);
	EXPECT(ok && atomic_read(charged) == most - open.ring_pages + 1);
	EXPECT(!test_bit(XWAY_F_ASKED, &conn[A]->flags));
	/* Asked too early it does not even try. */
	atomic_set(charged, 0);
	EXPECT(declined(&open, XWAY_DECLINE_LATER));
	conn[A]->postponed = 0;
	EXPECT(give(A, &open) && take(A, &msg));
	EXPECT(msg.type == XWAY_CTL_ACCEPT);
	EXPECT(atomic_read(charged) == open.ring_pages);
	return true;
}

/* The end that asked may not keep the peer's ring: neither is refused one for good. */
static bool rings_limit_asking(void)
{
	struct xway_ctl open, msg;
	atomic_t *charged = &link[P]->peer->rx_pages;
	u32 few;

	EXPECT(ask(&open) && give(A, &open) && take(A, &msg));
	EXPECT(msg.type == XWAY_CTL_ACCEPT);
	few = xway_arena_pages_max() - msg.ring_pages + 1;
	atomic_set(charged, few);
	EXPECT(give(P, &msg) && atomic_read(charged) == few);
	atomic_set(charged, 0);
	EXPECT(test_bit(XWAY_F_PARK, &conn[P]->flags));
	EXPECT(conn[P]->own->flags == (XWAY_WORDS_FALLBACK | XWAY_WORDS_PARK));
	EXPECT(conn[P]->reason == XWAY_R_LIMIT);
	/* And it asks as seldom as any. */
	xway_evict_replace(conn[A], conn[P]);
	EXPECT(time_after(conn[A]->ask_at, jiffies + 7 * HZ));
	xway_conn_queue(conn[A]);
	flush_workqueue(xway_conn_wq);
	EXPECT(test_bit(XWAY_F_PARK, &conn[A]->flags));
	return true;
}

/* The end that is asked makes no larger ring than it is shown. */
static bool rings_alike(void)
{
	struct xway_ctl open, msg;

	EXPECT(ask(&open) && open.ring_pages > 2);
	open.ring_pages = 2;
	EXPECT(give(A, &open) && take(A, &msg));
	EXPECT(msg.type == XWAY_CTL_ACCEPT && msg.ring_pages == 2);
	msg.ring_pages = 2 * conn[P]->ring_pages;
	EXPECT(give(P, &msg) && !rcu_access_pointer(conn[P]->peer));
	return true;
}

/* The passive end has not seen the other half yet, and is told that it ends. */
static bool close_too_early(void)
{
	struct xway_ctl open, msg = { .type = XWAY_CTL_CLOSE };

	EXPECT(ask(&open));
	msg.chan = conn[P]->id;
	EXPECT(give(P, &msg) && violated(P));
	EXPECT(!test_bit(XWAY_F_GOT_CLOSE, &conn[P]->flags));
	flush_workqueue(xway_conn_wq);
	/* It was reset meanwhile: what comes now maps nothing. */
	EXPECT(give(A, &open) && take(A, &msg));
	EXPECT(msg.type == XWAY_CTL_ACCEPT && give(P, &msg));
	EXPECT(!rcu_access_pointer(conn[P]->peer) && !conn[P]->tx.usable);
	return true;
}

static bool proof_reflected(void)
{
	struct xway_ctl open, msg;

	EXPECT(ask(&open));
	EXPECT(give(A, &open) && take(A, &msg));
	msg.mac = open.mac;
	EXPECT(give(P, &msg));
	EXPECT(!rcu_access_pointer(conn[P]->peer) && !conn[P]->tx.usable);
	EXPECT(conn[P]->reason == XWAY_R_PROOF);
	flush_workqueue(xway_conn_wq);
	EXPECT(take(P, &msg) && msg.type == XWAY_CTL_CLOSE);
	return true;
}

static bool ctl_lies(void)
{
	struct xway_ctl open, msg;
	int i;

	EXPECT(ask(&open));
	for (i = 0; i < 9; i++) {
		msg = open;
		switch (i) {
		case 0:
			msg.ring_pages = 0;
			break;
		case 1:
			msg.ring_pages = 3;
			break;
		case 2:
			msg.ring_pages = 2 * XWAY_RING_PAGES_MAX;
			break;
		case 3:
			msg.ring_page = 2;
			break;
		case 4:
			msg.ring_page = ~0U;
			break;
		case 5:
			msg.ring_page = link[P]->arena.pages - 1;
			msg.ring_pages = 2;
			break;
		case 6:
			msg.shm_page = 2;
			break;
		case 7:
			msg.shm_page = link[P]->arena.pages;
			break;
		case 8:
			msg.shm_slot = XWAY_CHANS_PER_PAGE;
			break;
		}
		if (!declined(&msg, XWAY_DECLINE_MEMORY)) {
			pr_err("selftest %s: lie %d\n", running, i);
			return false;
		}
		EXPECT(!rcu_access_pointer(conn[A]->peer));
		clear_bit(XWAY_F_ASKED, &conn[A]->flags);	/* as if it were another */
	}
	EXPECT(give(A, &open) && take(A, &msg));
	EXPECT(msg.type == XWAY_CTL_ACCEPT);
	msg.chan++;
	EXPECT(!give(P, &msg));
	msg.chan--;
	msg.type = 7;
	EXPECT(!give(P, &msg));
	msg.type = XWAY_CTL_ACCEPT;
	EXPECT(give(P, &msg) && !violated(P));
	/* Twice is once too often. */
	EXPECT(give(P, &msg) && violated(P));
	return true;
}

static void trim(struct xway_link *l)
{
	mod_delayed_work(xway_core_wq, &l->reclaim, 0);
	/* Not flush_delayed_work(): it would have the next run come now. */
	flush_work(&l->reclaim.work);
}

/* When the kernel wants pages, what is not in use goes at once, part by part. */
static bool trim_pressed(void)
{
	struct xway_arena *a = &link[A]->arena;
	struct xway_ctl msg, answer;
	u32 nr, could, again, gone = 0;

	EXPECT(!alloc(link[A], 600, &nr));
	mutex_lock(&link[A]->lock);
	xway_arena_free(link[A], nr, 600);
	could = xway_reclaim_could(link[A]);
	xway_reclaim_now(link[A]);
	again = xway_reclaim_could(link[A]);
	mutex_unlock(&link[A]->lock);
	flush_work(&link[A]->reclaim.work);
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

/* What was not needed for two periods goes when the peer lets it go. */
static bool trim_both(void)
{
	struct xway_arena *a = &link[A]->arena;
	struct xway_ctl msg, answer, lie = { .type = XWAY_CTL_UNMAP };
	u32 nr, said = a->hdr->ctl_prod;

	EXPECT(!alloc(link[A], 600, &nr));
	mutex_lock(&link[A]->lock);
	xway_arena_free(link[A], nr, 600);
	mutex_unlock(&link[A]->lock);
	trim(link[A]);
	EXPECT(a->hdr->ctl_prod == said && a->shared >= 600 + 257 + 3);
	trim(link[A]);
	EXPECT(take(A, &msg) && msg.type == XWAY_CTL_UNMAP);
	EXPECT(msg.ring_page > nr && msg.ring_pages > 200);
	EXPECT(a->shared == XWAY_PAGES_FIXED + a->in_use + 257);
	/* One question at a time */
	trim(link[A]);
	EXPECT(a->hdr->ctl_prod == said + 1 && a->n_withdrawn == msg.ring_pages);
	EXPECT(give(P, &msg));
	EXPECT(take(P, &answer) && answer.type == XWAY_CTL_UNMAPPED);
	nr = xway_arena_pages_total();
	EXPECT(give(A, &answer) && !a->n_withdrawn);
	EXPECT(xway_arena_pages_total() == nr - msg.ring_pages);
	/* Not asked; too much; and what a channel uses */
	EXPECT(!give(A, &answer));
	lie.ring_page = conn[A]->ring_page + 1000;
	lie.ring_pages = XWAY_UNMAP_MAX + 1;
	EXPECT(!give(P, &lie));
	lie.ring_pages = XWAY_UNMAP_MAX;
	EXPECT(give(P, &lie) && take(P, &answer));
	lie.ring_page = conn[A]->ring_page + 255;
	lie.ring_pages = 1;
	EXPECT(!give(P, &lie));
	lie.ring_page = conn[A]->shm_page;
	EXPECT(!give(P, &lie));
	return true;
}

/* Doorbells */

static void bell(u32 chan, u32 *last)
{
	rcu_read_lock();
	xway_link_bell(link[A], chan, last);
	rcu_read_unlock();
}

/* The passive end's tasklet looks; more than once if it must. */
static void look(void)
{
	int i;

	for (i = 0; i < 8; i++) {
		tasklet_schedule(&link[P]->bell_task);
		tasklet_kill(&link[P]->bell_task);
	}
}

static void begin_bells(u32 at)
{
	look();
	link[A]->bell_prod = at;
	link[A]->arena.hdr->bell_prod = at;
	link[P]->bell_cons = at;
	link[P]->arena.hdr->bell_cons = at;
	link[P]->arena.hdr->bell_event = at + 1;
	fake.notified = 0;
}

static void start_at(u32 idx, u32 gen)
{
	struct xway_rx *rx = &conn[P]->rx;

	rx->cons = idx;
	rx->prod = idx;
	rx->gen = gen;
	rx->seen = gen;
	conn[P]->own->cons = idx;
	conn[P]->own->gen_done = gen;
	conn[A]->own->prod = idx;
	conn[A]->own->gen = gen;
}

static bool bell_accounts(u32 at)
{
	u64 sent = xway_counted(XWAY_N_DOORBELL_POSTS);
	u64 saved = xway_counted(XWAY_N_DOORBELL_POSTS_SAVED);
	struct xway_header *own = link[A]->arena.hdr;
	u32 before = own->bell_overflow, unposted = at - XWAY_DOORBELL_SLOTS - 1, i;
	u32 last = unposted, lost = unposted, end = at + XWAY_DOORBELL_SLOTS;

	begin_bells(at);
	bell(1000, &last);
	EXPECT(fake.notified == 1 && own->bell_prod == at + 1);
	EXPECT(last == at + 1);
	/* Still due: nothing more to say. */
	bell(1000, &last);
	EXPECT(fake.notified == 1 && own->bell_prod == at + 1);
	EXPECT(xway_counted(XWAY_N_DOORBELL_POSTS_SAVED) == saved + 1);
	/* Another is posted, without a second event. */
	for (i = 1; i < XWAY_DOORBELL_SLOTS; i++) {
		last = unposted;
		bell(1000 + i, &last);
	}
	EXPECT(fake.notified == 1 && own->bell_prod == end);
	EXPECT(own->bell_overflow == before);
	bell(conn[P]->id, &lost);
	EXPECT(fake.notified == 2 && own->bell_prod == end);
	EXPECT(own->bell_overflow == before + 1 && lost == unposted);
	bell(conn[P]->id, &lost);
	EXPECT(fake.notified == 3 && own->bell_overflow == before + 2);
	EXPECT(xway_counted(XWAY_N_DOORBELL_POSTS) == sent + XWAY_DOORBELL_SLOTS + 2);

	/* The channel whose post found no slot is looked at nevertheless. */
	start_at(0, 1);
	woken[P] = 0;
	conn[A]->own->prod++;
	look();
	EXPECT(woken[P] == 1);
	EXPECT(link[P]->bell_overflow_seen == before + 2);
	EXPECT(link[P]->arena.hdr->bell_cons == end);
	EXPECT(link[P]->arena.hdr->bell_event == end + 1);
	woken[P] = 0;
	conn[A]->own->prod++;
	look();
	EXPECT(!woken[P]);
	bell(conn[P]->id, &lost);
	EXPECT(fake.notified == 4 && own->bell_prod == end + 1);
	look();
	EXPECT(woken[P] == 1);

	/* Of what has been read by then nobody is told. */
	conn[P]->rx.cons = ++conn[A]->own->prod;
	bell(conn[P]->id, &lost);
	look();
	EXPECT(woken[P] == 1);
	return true;
}

static bool bells(void)
{
	EXPECT(bell_accounts(0));
	EXPECT(bell_accounts(0xffffff00));
	EXPECT(bell_accounts(0x7ffffffe));
	EXPECT(!link[P]->broken);
	return true;
}

/* With no room for its own messages a side still takes the other's. */
static bool ctl_both_full(void)
{
	struct xway_ctl msg = { .type = XWAY_CTL_OPEN, .from = 1 };
	u32 i;

	mutex_lock(&link[P]->lock);
	for (i = 0; i < XWAY_CTLS + 1; i++)
		xway_link_ctl_send(link[P], &msg);
	mutex_unlock(&link[P]->lock);
	EXPECT(link[P]->ctl_queued == 1);
	mutex_lock(&link[A]->lock);
	for (i = 0; i < XWAY_CTLS + 1; i++)
		xway_link_ctl_send(link[A], &msg);
	mutex_unlock(&link[A]->lock);
	EXPECT(link[A]->ctl_queued == 1);

	queue_work(xway_core_wq, &link[P]->work);
	flush_work(&link[P]->work);
	/* A declining answer to each */
	EXPECT(link[P]->ctl_cons == XWAY_CTLS && !link[P]->broken);
	EXPECT(link[P]->ctl_queued == XWAY_CTLS + 1);

	mutex_lock(&link[P]->lock);
	link[P]->ctl_queued += 3 * XWAY_CHANS_MAX;
	xway_link_ctl_send(link[P], &msg);
	link[P]->ctl_queued -= 3 * XWAY_CHANS_MAX;
	mutex_unlock(&link[P]->lock);
	EXPECT(link[P]->broken && link[P]->ctl_queued == XWAY_CTLS + 1);
	return true;
}

static bool bell_lies(void)
{
	u64 before = xway_counted(XWAY_N_VIOLATIONS);
	u32 at = link[P]->bell_cons;

	link[A]->arena.hdr->bell_prod = at + XWAY_DOORBELL_SLOTS + 1;
	look();
	flush_workqueue(xway_core_wq);
	EXPECT(link[P]->broken && fake.lost == 1);
	EXPECT(xway_counted(XWAY_N_VIOLATIONS) == before + 1);
	EXPECT(link[P]->bell_cons == at);
	return true;
}

/* Receiving: the passive end reads, what the active end says is written here. */

static void sent(u32 gen, u32 seq, u32 idx)
{
	struct xway_words *peer = conn[A]->own;

	peer->mark[gen & 1].seq = seq;
	peer->mark[gen & 1].idx = idx;
	peer->gen = gen;
	xway_rx_update(conn[P]);
}

/* Put bytes that tell their index; returns the new index. */
static u32 put(u32 from, u32 n)
{
	u32 i;

	for (i = from; i != from + n; i++) {
		u32 len = 1;

		*(u8 *)xway_ring_at(conn[A]->tx.pages, i, conn[A]->tx.size,
				    &len) = i * 7 >> 3;
	}
	conn[A]->own->prod = i;
	return i;
}

/* Read up to 4096 bytes; returns how many came, or -1 if one was wrong. */
static int get(u32 from, u32 len)
{
	static u8 buf[4096];
	struct kvec vec = { buf, len };
	struct msghdr msg = {};
	int n, i;

	iov_iter_kvec(&msg.msg_iter, READ, &vec, 1, len);
	n = xway_rx_ring(conn[P], &msg, len, 0, 0);
	if (n >= 0 && msg_data_left(&msg) != len - n)
		return -1;
	for (i = 0; i < n; i++)
		if (buf[i] != (u8)((from + i) * 7 >> 3))
			return -1;
	return n;
}

static bool readable(bool tcp)
{
	return xway_rx_readable(conn[P], (struct sock *)tp[P], tcp);
}

static bool advance(void)
{
	return xway_rx_advance(conn[P], (struct sock *)tp[P]);
}

/* TCP, ring, TCP, from a given index, generation and sequence number */
static bool rx_walk(u32 at, u32 gen, u32 seq)
{
	struct xway_rx *rx = &conn[P]->rx;
	u32 end;

	start_at(at, gen);
	tp[P]->copied_seq = seq - 100;
	tp[P]->rcv_nxt = seq;
	EXPECT(!advance() && !readable(false) && readable(true));
	EXPECT(xway_rx_done(conn[P]));
	sent(gen + 1, seq, at);
	put(at, 3000);
	EXPECT(rx->seen == gen + 1 && !xway_rx_done(conn[P]));
	EXPECT(!advance() && !readable(false));
	tp[P]->copied_seq = seq - 1;
	EXPECT(!advance() && !readable(false) && readable(true));
	tp[P]->copied_seq = seq;
	EXPECT(readable(false));
	EXPECT(advance() && rx->gen == gen + 1 && !advance());
	EXPECT(conn[P]->own->gen_done == gen + 1);
	EXPECT(xway_rx_avail(conn[P]) == 3000 && readable(false));
	EXPECT(get(at, 2000) == 2000 && conn[P]->own->cons == at + 2000);
	EXPECT(get(at + 2000, 2000) == 1000 && !readable(true));
	EXPECT(get(at + 3000, 1) == 0);

	/* Bytes beyond the end of the stretch are not of it. */
	end = put(at + 3000, 500);
	sent(gen + 2, seq, end);
	put(end, 100);
	tp[P]->rcv_nxt = seq + 10;
	EXPECT(!advance() && readable(false));
	EXPECT(xway_rx_avail(conn[P]) == 500);
	EXPECT(get(at + 3000, 2000) == 500 && get(end, 1) == 0);
	EXPECT(readable(true));
	EXPECT(advance() && rx->gen == gen + 2 && !advance());
	EXPECT(conn[P]->own->gen_done == gen + 2 && xway_rx_done(conn[P]));
	EXPECT(readable(true) && !readable(false));
	EXPECT(!violated(P));
	return true;
}

static bool rx_walks(void)
{
	EXPECT(rx_walk(0, 0, 5000));
	EXPECT(rx_walk(0xfffff800, 0xfffffffe, 50));
	EXPECT(rx_walk(0x7ffffc00, 0x7ffffffe, 0x80000032));
	return true;
}

/* FIN takes a sequence number: the reader may be past the mark by one. */
static bool rx_after_fin(void)
{
	sent(1, 1000, 0);
	put(0, 10);
	tp[P]->copied_seq = 1001;
	EXPECT(advance() && get(0, 10) == 10);
	return true;
}

/* Two switches at once: there and back again with nothing between */
static bool rx_two_marks(void)
{
	conn[A]->own->mark[1].seq = 1000;
	conn[A]->own->mark[1].idx = 0;
	sent(2, 1000, 0);
	tp[P]->copied_seq = 1000;
	tp[P]->rcv_nxt = 1001;
	EXPECT(conn[P]->rx.seen == 2 && readable(true));
	EXPECT(advance() && advance() && !advance());
	EXPECT(xway_rx_done(conn[P]) && !violated(P));
	return true;
}

static void on_ring(u32 at)
{
	start_at(at, 0);
	sent(1, 1000, at);
	tp[P]->copied_seq = 1000;
	advance();
}

static bool rx_prod_lies(void)
{
	u32 size = conn[P]->rx.size, at = 0xfffff000;

	on_ring(at);
	conn[A]->own->prod = at + size;
	EXPECT(xway_rx_avail(conn[P]) == size && !violated(P));
	conn[A]->own->prod = at + size + 1;
	EXPECT(get(at, 4096) == 0 && violated(P));
	conn[A]->own->prod = at - 1;
	EXPECT(get(at, 4096) == 0);
	EXPECT(conn[P]->rx.cons == at && conn[P]->own->cons == at);
	/* What is copied out for later is nothing, too. */
	EXPECT(!xway_rx_spill(conn[P], true));
	EXPECT(conn[P]->rx.spilled && conn[P]->rx.prod == at);
	EXPECT(get(at, 4096) == 0);
	return true;
}

static bool rx_gen_lies(u32 gen, u32 lie)
{
	start_at(0, gen);
	clear_bit(XWAY_F_BAD, &conn[P]->flags);
	sent(lie, 0, 0);
	EXPECT(violated(P) && conn[P]->rx.seen == gen && !advance());
	return true;
}

static bool rx_gens_lie(void)
{
	EXPECT(rx_gen_lies(0, 3));
	EXPECT(rx_gen_lies(0, 0x80000001));
	EXPECT(rx_gen_lies(0, 0xffffffff));
	EXPECT(rx_gen_lies(7, 6));
	EXPECT(rx_gen_lies(7, 10));
	EXPECT(rx_gen_lies(0xffffffff, 2));
	/* Taking back what was seen and not yet passed */
	start_at(0, 0);
	clear_bit(XWAY_F_BAD, &conn[P]->flags);
	sent(1, tp[P]->copied_seq + 1, 0);
	EXPECT(!violated(P));
	sent(0, 0, 0);
	EXPECT(violated(P) && conn[P]->rx.seen == 1);
	return true;
}

static bool rx_mark_lies(u32 at, u32 n, u32 mark)
{
	on_ring(at);
	clear_bit(XWAY_F_BAD, &conn[P]->flags);
	put(at, n);
	sent(2, 1000, mark);
	EXPECT(get(at, 4096) == 0 && violated(P));
	EXPECT(conn[P]->own->cons == at && !advance());
	return true;
}

static bool rx_marks_lie(void)
{
	EXPECT(rx_mark_lies(0, 100, 101));
	EXPECT(rx_mark_lies(100, 100, 99));
	EXPECT(rx_mark_lies(0xffffff00, 100, 0x7fffff00));
	/* A stretch of the ring begins where the last one ended. */
	start_at(50, 0);
	clear_bit(XWAY_F_BAD, &conn[P]->flags);
	sent(1, 1000, 51);
	tp[P]->copied_seq = 1000;
	EXPECT(!advance() && violated(P) && conn[P]->rx.gen == 0);
	return true;
}

static u32 room(void)
{
	return xway_tx_look(conn[P], (struct sock *)tp[P]);
}

static bool writeable(void)
{
	return xway_tx_writeable(conn[P], (struct sock *)tp[P]);
}

static bool tx_cons_lies(void)
{
	u32 size = conn[P]->tx.size;

	conn[P]->tx.prod = 10;
	conn[A]->own->cons = 10;
	EXPECT(room() == size);
	conn[A]->own->cons = 10 - size;
	EXPECT(room() == 0 && !violated(P));
	conn[A]->own->cons = 9 - size;
	EXPECT(room() == 0 && violated(P));
	clear_bit(XWAY_F_BAD, &conn[P]->flags);
	conn[A]->own->cons = 11;
	EXPECT(room() == 0 && violated(P));
	return true;
}

static u32 ring_of_next(u32 chans)
{
	u32 had = link[P]->n_chans, pages;

	xway_pages_max = xway_arena_pages_max();
	mutex_lock(&link[P]->lock);
	link[P]->n_chans = chans;
	pages = xway_ringsize_next(link[P]);
	link[P]->n_chans = had;
	mutex_unlock(&link[P]->lock);
	return pages;
}

static bool size_of_many(void)
{
	EXPECT(ring_of_next(0) == 256 && ring_of_next(3) == 256);
	EXPECT(ring_of_next(4) == 128 && ring_of_next(8) == 64);
	EXPECT(ring_of_next(16) == 32 && ring_of_next(31) == 32);
	EXPECT(ring_of_next(32) == 16 && ring_of_next(511) == 16);
	EXPECT(ring_of_next(512) == 4);
	EXPECT(ring_of_next(XWAY_CHANS_MAX) == 4);
	return true;
}

static bool grows_among(u32 chans)
{
	u32 had = link[P]->n_chans;
	bool ret;

	link[P]->n_chans = chans;
	conn[P]->grow_at = jiffies;
	ret = xway_ringsize_grows(conn[P]);
	link[P]->n_chans = had;
	return ret;
}

/* A small ring is given up when there was room for a larger one twice in a row. */
static bool size_grows(void)
{
	u32 had = conn[P]->ring_pages;
	bool first, second, crowd, again, large;

	xway_pages_max = xway_arena_pages_max();
	conn[P]->ring_pages = 16;
	first = grows_among(8);
	second = grows_among(8);
	crowd = grows_among(30);	/* 32 pages are not worth it */
	again = grows_among(8);
	conn[P]->ring_pages = had;
	large = grows_among(1) || grows_among(1);
	EXPECT(!first && second && !crowd && !again && !large);
	return true;
}

/* So many connections filled theirs before, and now one more. */
static u32 window_after(u32 fillers, u32 chans)
{
	struct xway_fill *fill = &link[P]->fill;
	u32 had = link[P]->n_chans;

	xway_pages_max = xway_arena_pages_max();
	link[P]->n_chans = chans;
	fill->now = fillers;
	/* The second may pass meanwhile: then they are those before. */
	fill->period = jiffies / HZ;
	conn[P]->tx.full_in = fill->period - 1;
	xway_ringsize_full(conn[P]);
	link[P]->n_chans = had;
	return xway_ringsize_window(conn[P]);
}

/* Who has a large ring may fill what it would get now, no more. */
static bool size_of_window(void)
{
	struct xway_tx *tx = &conn[P]->tx;
	u32 size = tx->size;

	EXPECT(size == 256 * PAGE_SIZE && xway_ringsize_window(conn[P]) == size);
	EXPECT(window_after(0, 100) == size && window_after(3, 100) == size);
	EXPECT(window_after(5, 100) == size / 2);
	EXPECT(window_after(15, 100) == size / 4);
	EXPECT(window_after(90, 4) == size);
	EXPECT(window_after(10000, 20000) == 4 * PAGE_SIZE);
	/* Long ago */
	link[P]->fill.period -= 3;
	EXPECT(xway_ringsize_window(conn[P]) == size);
	/* More may be in it than it may fill by now. */
	tx->window = PAGE_SIZE;
	tx->prod = conn[A]->own->cons + 2 * PAGE_SIZE;
	EXPECT(!room() && !writeable());
	conn[A]->own->cons = tx->prod - PAGE_SIZE / 2;
	EXPECT(room() == PAGE_SIZE / 2);
	EXPECT(writeable() && !violated(P));
	return true;
}

/* SO_SNDBUF bounds it, with what the peer has offered to keep. */
static bool size_of_sndbuf(void)
{
	struct sock *sk = (struct sock *)tp[P];
	struct xway_tx *tx = &conn[P]->tx;
	u32 size = tx->size;

	sk->sk_sndbuf = 8192;
	tp[P]->max_window = 2048;
	EXPECT(room() == size);
	sk->sk_userlocks |= SOCK_SNDBUF_LOCK;
	EXPECT(room() == 4096 + 2048 && writeable());
	tx->prod = conn[A]->own->cons + 6143;
	EXPECT(room() == 1 && !writeable());
	tx->prod++;
	EXPECT(!room() && !writeable());
	conn[A]->own->cons += 3072;
	EXPECT(room() == 3072 && writeable());
	sk->sk_sndbuf = INT_MAX;
	EXPECT(room() == size - 3072 && !violated(P));
	return true;
}

/* TCP_NOTSENT_LOWAT bounds what lies beyond the half that stands for the reader's. */
static bool size_of_unsent(void)
{
	struct sock *sk = (struct sock *)tp[P];
	u32 half = conn[P]->tx.size / 2;

	tp[P]->notsent_lowat = 1000;
	EXPECT(room() == half + 1000 && !xway_tx_backlog(conn[P], sk));
	conn[P]->tx.prod = conn[A]->own->cons + half + 999;
	EXPECT(room() == 1 && xway_tx_backlog(conn[P], sk) == 999);
	conn[P]->tx.prod += 2;
	EXPECT(!room());
	tp[P]->notsent_lowat = half;
	EXPECT(room() == half - 1001 && !violated(P));
	return true;
}

static const struct {
	const char *name;
	bool (*run)(void);
	enum level level;
} tests[] = {
	{ "peer_prefixes", peer_prefixes, MADE },
	{ "peer_duplicates", peer_duplicates, MADE },
	{ "peer_of_link", peer_of_link, MADE },
	{ "arena_pages", arena_pages, MADE },
	{ "arena_limits", arena_limits, MADE },
	{ "arena_parts", arena_parts, MADE },
	{ "arena_parts_held", arena_parts_held, MADE },
	{ "view_forgets", view_forgets, MADE },
	{ "arena_not_shared", arena_not_shared, MADE },
	{ "arena_held", arena_held, MADE },
	{ "view_lies", view_lies, MADE },
	{ "link_ends_waiting", link_ends_waiting, MADE },
	{ "link_past_life", link_past_life, MADE },
	{ "proof_both_ways", proof_both_ways, UP },
	{ "proof_differs", proof_differs, HELD },
	{ "proof_reflected", proof_reflected, HELD },
	{ "rings_limit", rings_limit, HELD },
	{ "rings_limit_asking", rings_limit_asking, HELD },
	{ "rings_alike", rings_alike, HELD },
	{ "close_too_early", close_too_early, HELD },
	{ "ctl_lies", ctl_lies, HELD },
	{ "bells", bells, CHANNEL },
	{ "ctl_both_full", ctl_both_full, UP },
	{ "trim_both", trim_both, CHANNEL },
	{ "trim_pressed", trim_pressed, CHANNEL },
	{ "bell_lies", bell_lies, UP },
	{ "rx_walks", rx_walks, READING },
	{ "rx_after_fin", rx_after_fin, READING },
	{ "rx_two_marks", rx_two_marks, READING },
	{ "rx_prod_lies", rx_prod_lies, READING },
	{ "rx_gens_lie", rx_gens_lie, READING },
	{ "rx_marks_lie", rx_marks_lie, READING },
	{ "tx_cons_lies", tx_cons_lies, CHANNEL },
	{ "size_of_many", size_of_many, UP },
	{ "size_grows", size_grows, CHANNEL },
	{ "size_of_window", size_of_window, CHANNEL },
	{ "size_of_sndbuf", size_of_sndbuf, CHANNEL },
	{ "size_of_unsent", size_of_unsent, CHANNEL },
};

static bool run_one(bool (*run)(void), enum level level)
{
	bool ok;

	if ((level >= UP && !bring_up()) ||
	    (level >= HELD && !hold(AF_INET, AF_INET)) ||
	    (level >= CHANNEL && !open_channel()))
		return false;
	if (level >= READING)
		mutex_lock(&conn[P]->rx.lock);
	ok = run();
	if (level >= READING)
		mutex_unlock(&conn[P]->rx.lock);
	return ok;
}

static bool nothing_left(u32 pages)
{
	EXPECT(!xway_addr_any());
	EXPECT(!xway_arena_unrevoked());
	EXPECT(xway_arena_pages_total() == pages);
	EXPECT(!xway_arena_pages_in_use());
	EXPECT(!fake.shared && !fake.mapped);
	EXPECT(!xway_conn_count());
	EXPECT(!link[P] || !atomic_read(&link[P]->peer->rx_pages));
	EXPECT(!link[A] || !atomic_read(&link[A]->peer->rx_pages));
	EXPECT(!link[P] || refcount_read(&link[P]->ref) == 1);
	EXPECT(!link[A] || refcount_read(&link[A]->ref) == 1);
	return true;
}

/* Make the two ends, run, and take everything away, however far it got. */
static bool test(bool (*run)(void), enum level level)
{
	u32 pages = xway_arena_pages_total(), i;
	unsigned int max = xway_pages_max;
	bool ok = true;

	memset(&fake, 0, sizeof(fake));
	fake.may_share = INT_MAX;
	for (i = 0; i < 2; i++) {
		link[i] = xway_link_create(&transport, NULL, "selftest",
					   peer_ids[i]);
		tp[i] = kzalloc(sizeof(*tp[i]), GFP_KERNEL);
		ok = ok && link[i] && tp[i];
	}
	if (ok)
		ok = run_one(run, level);
	else
		pr_err("selftest %s: no memory\n", running);

	xway_pages_max = max;
	fake.held = false;
	for (i = 0; i < 2; i++)
		if (link[i]) {
			xway_addr_del_link(link[i]);
			xway_link_down(link[i], true);
		}
	flush_workqueue(xway_conn_wq);
	rcu_barrier();	/* what that queued for after a grace period */
	flush_workqueue(xway_core_wq);
	let_go();
	xway_arena_flush();
	ok = nothing_left(pages) && ok;
	for (i = 0; i < 2; i++) {
		if (link[i])
			xway_link_destroy(link[i]);
		kfree(tp[i]);
	}
	return ok;
}

/**
 * xway_selftest() - run all tests, before anything else can happen
 *
 * Return: 0, or -EINVAL if one fails; the kernel's log says which and where.
 */
int xway_selftest(void)
{
	int i, failed = 0;

	for (i = 0; i < ARRAY_SIZE(tests); i++) {
		running = tests[i].name;
		if (test(tests[i].run, tests[i].level))
			continue;
		pr_err("selftest %s failed\n", running);
		failed++;
	}
	/* Connections that are freed hold the module until then. */
	rcu_barrier();
	for_each_possible_cpu(i)
		memset(per_cpu(xway_counters, i), 0, sizeof(xway_counters));
	for (i = 0; i < XWAY_REASONS_MAX; i++)
		atomic64_set(&xway_reasons[i], 0);
	if (failed)
		return -EINVAL;
	pr_info("selftest: %zu passed\n", ARRAY_SIZE(tests));
	return 0;
}
