// SPDX-License-Identifier: GPL-2.0
/* Tests of the handshake */
#include <linux/jiffies.h>

#include "tcp/adopt.h"
#include "tcp/evict.h"
#include "tcp/handshake.h"
#include "ends.h"

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
	union xway_sock_ctl msg;
	int i;

	for (i = 0; i < ARRAY_SIZE(families); i++) {
		EXPECT(attach(families[i][P], families[i][A]));
		EXPECT(ask(&msg));
		macs[i] = msg.mac;
		EXPECT(msg.family == AF_INET && macs[i] == macs[0]);
		EXPECT(give(A, &msg) && take(A, &msg));
		EXPECT(msg.ctl.type == XWAY_CTL_ACCEPT);
		/* Nobody who only saw OPEN can answer it. */
		EXPECT(msg.mac != macs[i]);
		EXPECT(give(P, &msg) && conn[P]->state == XWAY_CONN_OPEN);
		EXPECT(rcu_access_pointer(conn[P]->chan.peer) == conn[A]->chan.own);
		EXPECT(rcu_access_pointer(conn[A]->chan.peer) == conn[P]->chan.own);
		xway_conn_abort(&end(A)->pub, true);
		xway_conn_abort(&end(P)->pub, true);
		flush_workqueue(xway_conn_wq);
		EXPECT(!conn[A]->chan.ring_pages && !conn[P]->chan.ring_pages);
		let_go();
	}
	return true;
}

static bool declined(const union xway_sock_ctl *open, u32 why)
{
	union xway_sock_ctl msg;

	EXPECT(give(A, open) && take(A, &msg));
	EXPECT(msg.ctl.type == XWAY_CTL_DECLINE && msg.ctl.arg == why);
	EXPECT(msg.ctl.chan == conn[P]->chan.id);
	EXPECT(!end(A)->pub.n_chans && !end(A)->arena.in_use);
	return true;
}

/* The peer's answer to the passive end's OPEN */
static bool say_no(u32 why)
{
	union xway_sock_ctl msg = {
		.ctl.type = XWAY_CTL_DECLINE,
		.ctl.chan = conn[P]->chan.id,
		.ctl.arg = why,
	};

	EXPECT(give(P, &msg));
	return true;
}

static bool proof_differs(void)
{
	union xway_sock_ctl open, msg;
	int i;

	EXPECT(ask(&open));
	for (i = 0; i < 2; i++) {
		conn[A]->isn[0][i]++;
		conn[A]->isn[1][i]++;
		EXPECT(declined(&open, XWAY_DECLINE_PROOF));
		conn[A]->isn[0][i]--;
		conn[A]->isn[1][i]--;
	}
	end(A)->pub.nonce++;
	EXPECT(declined(&open, XWAY_DECLINE_PROOF));
	end(A)->pub.nonce--;
	end(A)->pub.peer_nonce++;
	EXPECT(declined(&open, XWAY_DECLINE_PROOF));
	end(A)->pub.peer_nonce--;
	msg = open;
	msg.mac ^= 1ULL << 63;
	EXPECT(declined(&msg, XWAY_DECLINE_PROOF));
	/* What the active end answers with proves no passive one. */
	msg.mac = xway_conn_mac(conn[P], true);
	EXPECT(declined(&msg, XWAY_DECLINE_PROOF));
	/* OPEN looks for active ends only: its sender is none. */
	EXPECT(give(P, &open) && take(P, &msg));
	EXPECT(msg.ctl.type == XWAY_CTL_DECLINE && msg.ctl.arg == XWAY_DECLINE_UNKNOWN);
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
	EXPECT(msg.ctl.type == XWAY_CTL_ACCEPT);
	/* A connection gets one channel. */
	EXPECT(give(A, &open) && take(A, &msg));
	EXPECT(msg.ctl.type == XWAY_CTL_DECLINE && msg.ctl.arg == XWAY_DECLINE_OFF);
	return true;
}

/* One end was adopted, and knows what follows from the bytes alone. */
static bool proof_counted(void)
{
	union xway_sock_ctl open, msg;

	/* The active end */
	EXPECT(ask(&open));
	conn[A]->isn[0][0] += 2;
	conn[A]->isn[1][0] += 2;
	conn[P]->isn[1][0] += 2;
	EXPECT(give(A, &open) && take(A, &msg));
	EXPECT(msg.ctl.type == XWAY_CTL_DECLINE && msg.ctl.arg == XWAY_DECLINE_PROOF);
	EXPECT(give(P, &msg) && !test_bit(XWAY_F_FALLBACK, &conn[P]->flags));
	conn[P]->postponed = 0;
	EXPECT(ask(&open));
	EXPECT(give(A, &open) && take(A, &msg) && msg.ctl.type == XWAY_CTL_ACCEPT);
	EXPECT(give(P, &msg) && !test_bit(XWAY_F_FALLBACK, &conn[P]->flags));
	EXPECT(rcu_access_pointer(conn[P]->chan.peer));
	return true;
}

/* The other end was: the passive one asks with what it has. A second no counts. */
static bool proof_counted_passive(void)
{
	union xway_sock_ctl open, msg;

	conn[P]->isn[0][1] += 2;
	conn[P]->isn[1][1] += 2;
	conn[A]->isn[1][1] += 2;
	EXPECT(ask(&open));
	EXPECT(give(A, &open) && take(A, &msg) && msg.ctl.type == XWAY_CTL_ACCEPT);
	EXPECT(conn[A]->proof);
	EXPECT(give(P, &msg) && !test_bit(XWAY_F_FALLBACK, &conn[P]->flags));
	return true;
}

static bool proof_counted_differs(void)
{
	union xway_sock_ctl open, msg;

	EXPECT(ask(&open));
	conn[A]->isn[0][0] += 2;
	conn[A]->isn[1][0] += 2;
	conn[P]->isn[1][0] += 4;
	EXPECT(give(A, &open) && take(A, &msg) && give(P, &msg));
	EXPECT(!test_bit(XWAY_F_FALLBACK, &conn[P]->flags));
	conn[P]->postponed = 0;
	EXPECT(ask(&open));
	EXPECT(give(A, &open) && take(A, &msg));
	EXPECT(msg.ctl.type == XWAY_CTL_DECLINE && msg.ctl.arg == XWAY_DECLINE_PROOF);
	EXPECT(give(P, &msg) && test_bit(XWAY_F_FALLBACK, &conn[P]->flags));
	EXPECT(conn[P]->reason == XWAY_R_PROOF);
	return true;
}

/* The peer may adopt its end later. After a while it will not. */
static bool unknown_is_asked_again(void)
{
	union xway_sock_ctl open;
	int i;

	conn[P]->adopt_until = jiffies + HZ;
	for (i = 0; i < 8; i++) {
		EXPECT(!test_bit(XWAY_F_FALLBACK, &conn[P]->flags));
		if (i == 7)
			conn[P]->adopt_until = jiffies - 1;
		conn[P]->ask_at = jiffies;
		EXPECT(ask(&open) && say_no(XWAY_DECLINE_UNKNOWN));
	}
	EXPECT(test_bit(XWAY_F_FALLBACK, &conn[P]->flags));
	EXPECT(conn[P]->reason == XWAY_R_UNKNOWN);
	return true;
}

/* A peer that is off is asked again, for as much, and when it is on may adopt its end. */
static bool off_is_asked_again(void)
{
	union xway_sock_ctl open, first;
	int i;

	EXPECT(ask(&first));
	for (i = 0; i < 3; i++) {
		EXPECT(say_no(XWAY_DECLINE_AGAIN) && conn[P]->postponed);
		EXPECT(!test_bit(XWAY_F_FALLBACK, &conn[P]->flags));
		conn[P]->postponed = 0;
		EXPECT(ask(&open) && open.ctl.ring_pages == first.ctl.ring_pages);
	}
	EXPECT(say_no(XWAY_DECLINE_UNKNOWN) && conn[P]->postponed);
	EXPECT(!test_bit(XWAY_F_FALLBACK, &conn[P]->flags));
	conn[P]->postponed = 0;
	/* It may have unloaded the module, and loads the next one. */
	EXPECT(ask(&open) && say_no(XWAY_DECLINE_SERVICE) && conn[P]->postponed);
	EXPECT(!test_bit(XWAY_F_FALLBACK, &conn[P]->flags));
	conn[P]->postponed = 0;
	EXPECT(ask(&open) && say_no(XWAY_DECLINE_LATER));
	conn[P]->postponed = 0;
	EXPECT(ask(&open) && say_no(XWAY_DECLINE_LATER));
	conn[P]->postponed = 0;
	/* LATER may mean that the peer has no room for so much. */
	EXPECT(ask(&open) && open.ctl.ring_pages < first.ctl.ring_pages);
	return true;
}

/*
 * The passive end is turned off when it has asked, and so closes a channel that was accepted: the
 * active end parks, so that it may be asked again.
 * @late: the helper sees that it is off only when ACCEPT is there
 */
static bool off_as_it_asks(bool late)
{
	union xway_sock_ctl open, msg;

	EXPECT(ask(&open));
	if (late)
		set_bit(XWAY_F_FALLBACK, &conn[P]->flags);
	else
		xway_conn_fallback(conn[P], XWAY_R_OFF);
	settle();
	EXPECT(give(A, &open) && take(A, &msg) && msg.ctl.type == XWAY_CTL_ACCEPT);
	EXPECT(give(P, &msg));
	settle();
	EXPECT(take(P, &msg) && msg.ctl.type == XWAY_CTL_CLOSE);
	EXPECT(msg.ctl.chan == conn[A]->chan.id && !test_bit(XWAY_F_PARK, &conn[A]->flags));
	EXPECT(give(A, &msg));
	settle();
	EXPECT(test_bit(XWAY_F_PARK, &conn[A]->flags));
	return true;
}

static bool off_before_accept(void)
{
	return off_as_it_asks(false);
}

static bool off_as_accept_comes(void)
{
	return off_as_it_asks(true);
}

/* The link ends while OPEN is not answered, and the answer comes before the half is freed. */
static bool accept_after_abort(void)
{
	union xway_sock_ctl open, msg;

	EXPECT(ask(&open) && give(A, &open) && take(A, &msg));
	EXPECT(msg.ctl.type == XWAY_CTL_ACCEPT);
	mutex_lock(&conn[P]->rx.lock);
	xway_handshake_abort(conn[P]);
	mutex_unlock(&conn[P]->rx.lock);
	EXPECT(give(P, &msg));
	EXPECT(conn[P]->state == XWAY_CONN_TCP && conn[P]->chan.ring_pages);
	EXPECT(!conn[P]->chan.peer_ring_pages);
	xway_handshake_aborted(conn[P]);
	EXPECT(!conn[P]->chan.ring_pages);
	return true;
}

/* Somebody may be inside TCP's calls: no channel yet. */
static bool unsettled(void)
{
	union xway_sock_ctl open, msg;

	EXPECT(ask(&open));
	set_bit(XWAY_F_UNSETTLED, &conn[A]->flags);
	EXPECT(declined(&open, XWAY_DECLINE_LATER));
	clear_bit(XWAY_F_UNSETTLED, &conn[A]->flags);
	EXPECT(give(A, &open) && take(A, &msg) && msg.ctl.type == XWAY_CTL_ACCEPT);
	return true;
}

/* A call that sends has the socket for as long as the helper looks: it looks itself. */
static bool owner_looks(void)
{
	struct sock *sk = (struct sock *)tp[A];
	union xway_sock_ctl open, msg;
	bool ok;

	dress_up();
	EXPECT(ask(&open));
	set_bit(XWAY_F_CONNECTED, &conn[A]->flags);
	sk->sk_lock.owned = 1;
	ok = declined(&open, XWAY_DECLINE_LATER);
	sk->sk_lock.owned = 0;
	EXPECT(ok && test_bit(XWAY_F_LOOK, &conn[A]->flags));
	lock_sock(sk);
	xway_adopt_look(conn[A], sk);
	release_sock(sk);
	EXPECT(!(conn[A]->flags & (BIT(XWAY_F_LOOK) | BIT(XWAY_F_CONNECTED) |
				   BIT(XWAY_F_UNSETTLED))));
	sk->sk_lock.owned = 1;
	ok = give(A, &open) && take(A, &msg) && msg.ctl.type == XWAY_CTL_ACCEPT;
	sk->sk_lock.owned = 0;
	EXPECT(ok);
	return true;
}

/* It finds somebody who sleeps in TCP's calls: no channel yet. */
static bool owner_finds(void)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	struct sock *sk = (struct sock *)tp[A];
	union xway_sock_ctl open;
	bool ok;

	dress_up();
	EXPECT(ask(&open));
	set_bit(XWAY_F_CONNECTED, &conn[A]->flags);
	set_bit(XWAY_F_LOOK, &conn[A]->flags);
	add_wait_queue(sk_sleep(sk), &wait);
	lock_sock(sk);
	xway_adopt_look(conn[A], sk);
	release_sock(sk);
	remove_wait_queue(sk_sleep(sk), &wait);
	EXPECT(!test_bit(XWAY_F_CONNECTED, &conn[A]->flags));
	EXPECT(test_bit(XWAY_F_UNSETTLED, &conn[A]->flags));
	ok = declined(&open, XWAY_DECLINE_LATER);
	clear_bit(XWAY_F_UNSETTLED, &conn[A]->flags);
	return ok;
}

/* What a peer may leave in its rings is limited. */
static bool rings_limit(void)
{
	union xway_sock_ctl open, msg;
	atomic_t *charged = &end(A)->pub.peer->charged;
	u32 most = xway_link_pages_max();
	bool ok;

	EXPECT(ask(&open));
	atomic_set(charged, most - open.ctl.ring_pages + 1);
	ok = declined(&open, XWAY_DECLINE_LATER);
	EXPECT(ok && atomic_read(charged) == most - open.ctl.ring_pages + 1);
	EXPECT(!test_bit(XWAY_F_ASKED, &conn[A]->flags));
	/* Asked too early it does not even try. */
	atomic_set(charged, 0);
	EXPECT(declined(&open, XWAY_DECLINE_LATER));
	conn[A]->postponed = 0;
	EXPECT(give(A, &open) && take(A, &msg));
	EXPECT(msg.ctl.type == XWAY_CTL_ACCEPT);
	EXPECT(atomic_read(charged) == open.ctl.ring_pages);
	return true;
}

/* The end that asked may not keep the peer's ring: neither is refused one for good. */
static bool rings_limit_asking(void)
{
	union xway_sock_ctl open, msg;
	atomic_t *charged = &end(P)->pub.peer->charged;
	u32 few;

	EXPECT(ask(&open) && give(A, &open) && take(A, &msg));
	EXPECT(msg.ctl.type == XWAY_CTL_ACCEPT);
	few = xway_link_pages_max() - msg.ctl.ring_pages + 1;
	atomic_set(charged, few);
	EXPECT(give(P, &msg) && atomic_read(charged) == few);
	atomic_set(charged, 0);
	EXPECT(test_bit(XWAY_F_PARK, &conn[P]->flags));
	EXPECT(xway_own(conn[P])->flags == (XWAY_WORDS_FALLBACK | XWAY_WORDS_PARK));
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
	union xway_sock_ctl open, msg;

	EXPECT(ask(&open) && open.ctl.ring_pages > 2);
	open.ctl.ring_pages = 2;
	EXPECT(give(A, &open) && take(A, &msg));
	EXPECT(msg.ctl.type == XWAY_CTL_ACCEPT && msg.ctl.ring_pages == 2);
	msg.ctl.ring_pages = 2 * conn[P]->chan.ring_pages;
	EXPECT(give(P, &msg) && !rcu_access_pointer(conn[P]->chan.peer));
	return true;
}

/* The passive end is told that the channel ends, or was reset, before it is accepted. */
static bool accept_too_late(void)
{
	union xway_sock_ctl open, msg = { .ctl.type = XWAY_CTL_CLOSE };

	EXPECT(ask(&open));
	msg.ctl.chan = conn[P]->chan.id;
	EXPECT(!give(P, &msg) && !test_bit(XWAY_F_GOT_CLOSE, &conn[P]->flags));
	xway_conn_bad(conn[P]);
	flush_workqueue(xway_conn_wq);
	/* What comes now maps nothing. */
	EXPECT(give(A, &open) && take(A, &msg));
	EXPECT(msg.ctl.type == XWAY_CTL_ACCEPT && give(P, &msg));
	EXPECT(!rcu_access_pointer(conn[P]->chan.peer) && !conn[P]->tx.usable);
	return true;
}

/* A connection without a socket does not wait for a peer that does not close. */
static bool close_unanswered(void)
{
	union xway_sock_ctl msg;

	xway_conn_detached(conn[P]);
	settle();
	EXPECT(take(P, &msg) && msg.ctl.type == XWAY_CTL_CLOSE);
	EXPECT(msg.ctl.chan == conn[A]->chan.id);
	rcu_barrier();	/* queues free_work */
	flush_workqueue(xway_core_wq);
	EXPECT(conn[P]->state == XWAY_CONN_TCP && !conn[P]->chan.ring_pages);
	EXPECT(end(P)->pub.n_chans == 1 && end(P)->arena.in_use);
	msg.ctl.chan = conn[P]->chan.id;
	EXPECT(give(P, &msg) && !end(P)->pub.n_chans && !end(P)->arena.in_use);
	return true;
}

static bool proof_reflected(void)
{
	union xway_sock_ctl open, msg;

	EXPECT(ask(&open));
	EXPECT(give(A, &open) && take(A, &msg));
	msg.mac = open.mac;
	EXPECT(give(P, &msg));
	EXPECT(!rcu_access_pointer(conn[P]->chan.peer) && !conn[P]->tx.usable);
	EXPECT(conn[P]->reason == XWAY_R_PROOF);
	settle();
	EXPECT(take(P, &msg) && msg.ctl.type == XWAY_CTL_CLOSE);
	return true;
}

/* A peer without sockets declines. An answer of another service is a violation. */
static bool service_declined(void)
{
	union xway_sock_ctl msg;
	int i;

	EXPECT(ask(&msg) && msg.ctl.service == XWAY_SERVICE_SOCKETS);
	msg.ctl.chan = msg.ctl.from;
	msg.ctl.type = XWAY_CTL_DECLINE;
	msg.ctl.arg = XWAY_DECLINE_SERVICE;
	msg.ctl.service = XWAY_SERVICE_TEST;
	EXPECT(!give(P, &msg) && conn[P]->state == XWAY_CONN_OPENING);
	msg.ctl.service = XWAY_SERVICE_SOCKETS;
	EXPECT(give(P, &msg) && conn[P]->state == XWAY_CONN_TCP);
	/* It may get them, and adopt its end then. */
	EXPECT(conn[P]->postponed && conn[P]->adopt_until && !violated(P));
	EXPECT(!test_bit(XWAY_F_FALLBACK, &conn[P]->flags));
	EXPECT(!end(P)->pub.n_chans);
	/* It may never get them: this end asks ever less often. */
	for (i = 0; i < 8; i++) {
		conn[P]->ask_at = jiffies;
		EXPECT(ask(&msg) && say_no(XWAY_DECLINE_SERVICE));
	}
	EXPECT(time_after(conn[P]->ask_at, jiffies + msecs_to_jiffies(32 * 1000)));
	return true;
}

static bool handshake_lies(void)
{
	union xway_sock_ctl open, msg;
	int i;

	EXPECT(ask(&open));
	for (i = 0; i < 9; i++) {
		msg = open;
		switch (i) {
		case 0:
			msg.ctl.ring_pages = 0;
			break;
		case 1:
			msg.ctl.ring_pages = 3;
			break;
		case 2:
			msg.ctl.ring_pages = 2 * XWAY_RING_PAGES_MAX;
			break;
		case 3:
			msg.ctl.ring_page = 2;
			break;
		case 4:
			msg.ctl.ring_page = ~0U;
			break;
		case 5:
			msg.ctl.ring_page = end(P)->arena.pages - 1;
			msg.ctl.ring_pages = 2;
			break;
		case 6:
			msg.ctl.words_page = 2;
			break;
		case 7:
			msg.ctl.words_page = end(P)->arena.pages;
			break;
		case 8:
			msg.ctl.words_slot = XWAY_CHANS_PER_PAGE;
			break;
		}
		if (!declined(&msg, XWAY_DECLINE_OFF)) {
			pr_err("lie %d\n", i);
			return false;
		}
		EXPECT(!rcu_access_pointer(conn[A]->chan.peer));
		clear_bit(XWAY_F_ASKED, &conn[A]->flags);	/* as if it were another */
	}
	EXPECT(give(A, &open) && take(A, &msg));
	EXPECT(msg.ctl.type == XWAY_CTL_ACCEPT);
	msg.ctl.chan++;
	EXPECT(!give(P, &msg));
	msg.ctl.chan--;
	msg.ctl.type = 7;
	EXPECT(!give(P, &msg));
	msg.ctl.type = XWAY_CTL_ACCEPT;
	EXPECT(give(P, &msg) && !violated(P));
	/* Twice is once too often. */
	EXPECT(!give(P, &msg));
	return true;
}

/* Memory that is short for a moment costs no connection its ring for good. */
static bool memory_short(void)
{
	u64 before = atomic64_read(&xway_reasons[XWAY_R_MEMORY]);
	union xway_sock_ctl open, msg;
	int i;

	/* Asking: nothing is sent, and later it is. */
	atomic_set(&xway_fake.may_share, 0);
	for (i = 0; i < 4; i++)
		xway_conn_want(conn[P]);
	flush_workqueue(xway_conn_wq);
	EXPECT(conn[P]->postponed && !conn[P]->reason);
	EXPECT(!(conn[P]->flags & (BIT(XWAY_F_ASKED) | BIT(XWAY_F_FALLBACK))));
	atomic_set(&xway_fake.may_share, INT_MAX);
	conn[P]->postponed = 0;
	EXPECT(ask(&open));
	/* Answering */
	atomic_set(&xway_fake.may_share, 0);
	EXPECT(declined(&open, XWAY_DECLINE_LATER));
	atomic_set(&xway_fake.may_share, INT_MAX);
	EXPECT(conn[A]->postponed && !test_bit(XWAY_F_ASKED, &conn[A]->flags));
	EXPECT(atomic64_read(&xway_reasons[XWAY_R_MEMORY]) == before + 2);
	/* The answer of an older peer */
	EXPECT(say_no(XWAY_DECLINE_MEMORY) && conn[P]->postponed);
	EXPECT(!(conn[P]->flags & (BIT(XWAY_F_ASKED) | BIT(XWAY_F_FALLBACK))));
	conn[P]->postponed = 0;
	conn[A]->postponed = 0;
	EXPECT(ask(&open) && give(A, &open) && take(A, &msg));
	EXPECT(msg.ctl.type == XWAY_CTL_ACCEPT && give(P, &msg));
	EXPECT(conn[P]->state == XWAY_CONN_OPEN);
	return true;
}

const struct xway_test handshake_tests[] = {
	{ "proof_both_ways", proof_both_ways, UP },
	{ "proof_differs", proof_differs, ATTACHED },
	{ "proof_reflected", proof_reflected, ATTACHED },
	{ "proof_counted", proof_counted, ATTACHED },
	{ "proof_counted_passive", proof_counted_passive, ATTACHED },
	{ "proof_counted_differs", proof_counted_differs, ATTACHED },
	{ "unknown_is_asked_again", unknown_is_asked_again, ATTACHED },
	{ "off_is_asked_again", off_is_asked_again, ATTACHED },
	{ "off_before_accept", off_before_accept, ATTACHED },
	{ "off_as_accept_comes", off_as_accept_comes, ATTACHED },
	{ "accept_after_abort", accept_after_abort, ATTACHED },
	{ "unsettled", unsettled, ATTACHED },
	{ "owner_looks", owner_looks, ATTACHED },
	{ "owner_finds", owner_finds, ATTACHED },
	{ "rings_limit", rings_limit, ATTACHED },
	{ "rings_limit_asking", rings_limit_asking, ATTACHED },
	{ "rings_alike", rings_alike, ATTACHED },
	{ "accept_too_late", accept_too_late, ATTACHED },
	{ "close_unanswered", close_unanswered, CHANNEL },
	{ "memory_short", memory_short, ATTACHED },
	{ "service_declined", service_declined, ATTACHED },
	{ "handshake_lies", handshake_lies, ATTACHED },
	{}
};
