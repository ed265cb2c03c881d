// SPDX-License-Identifier: GPL-2.0
/* Tests of connections that wait for their peer's link */
#include <linux/jiffies.h>

#include "tcp/attach.h"
#include "tcp/evict.h"
#include "ends.h"

/* The peer of an end has the far address of its connection. */
static bool list(int which)
{
	return xway_fake_list(which, ((struct sock *)tp[which])->sk_daddr);
}

static bool shown(const char *state)
{
	bool ret;

	rcu_read_lock();
	ret = !strcmp(xway_conn_state_name(conn[P]), state);
	rcu_read_unlock();
	return ret;
}

static bool wants_in_vain(void)
{
	int i;

	conn[P]->postponed = 0;
	for (i = 0; i < 20; i++)
		xway_conn_want(conn[P]);
	EXPECT(!test_bit(XWAY_F_ASKED, &conn[P]->flags));
	EXPECT(xway_conn_waiting(conn[P]) && xway_evict_too_early(conn[P]));
	conn[P]->postponed = 0;
	return true;
}

/* The end that asks looks for a link that is up and leads to the far address. */
static bool waits_to_ask(void)
{
	union xway_sock_ctl msg;
	struct xway_link *link = &end(P)->pub;

	EXPECT(attach_waiting());
	EXPECT(shown("waiting"));
	EXPECT(wants_in_vain());
	link->state = XWAY_LINK_CONNECTING;
	EXPECT(list(P) && wants_in_vain());
	link->state = XWAY_LINK_CLOSING;
	EXPECT(wants_in_vain());
	EXPECT(shown("waiting"));
	link->state = XWAY_LINK_UP;
	EXPECT(shown("tcp"));
	EXPECT(ask(&msg) && conn[P]->chan.link == link);
	EXPECT(conn[P]->tl == rcu_access_pointer(link->data[XWAY_SERVICE_SOCKETS]));
	EXPECT(atomic_read(&conn[P]->tl->conns) == 1);
	EXPECT(shown("opening"));
	return true;
}

static bool declined(const union xway_sock_ctl *open, u32 why)
{
	union xway_sock_ctl msg;

	EXPECT(give(A, open) && take(A, &msg));
	EXPECT(msg.ctl.type == XWAY_CTL_DECLINE && msg.ctl.arg == why);
	EXPECT(xway_conn_waiting(conn[A]) && !end(A)->pub.n_chans);
	return true;
}

/* The end that is asked takes the link by which it is asked, if that is its peer's. */
static bool waits_to_be_asked(void)
{
	union xway_sock_ctl open, wrong, msg;

	EXPECT(attach_waiting() && list(P) && ask(&open));
	wrong = open;
	wrong.mac ^= 1;
	/* Whose connection it is, is not for others to know. */
	EXPECT(declined(&wrong, XWAY_DECLINE_UNKNOWN));
	/* Domain 0 may only be about to say whose address it is. */
	EXPECT(declined(&open, XWAY_DECLINE_LATER));
	EXPECT(list(A) && declined(&wrong, XWAY_DECLINE_PROOF));
	end(A)->pub.state = XWAY_LINK_CLOSING;
	EXPECT(declined(&open, XWAY_DECLINE_LATER));
	end(A)->pub.state = XWAY_LINK_UP;
	EXPECT(give(A, &open) && take(A, &msg));
	EXPECT(msg.ctl.type == XWAY_CTL_ACCEPT && conn[A]->chan.link == &end(A)->pub);
	EXPECT(give(P, &msg) && conn[P]->state == XWAY_CONN_OPEN);
	EXPECT(!atomic_read(&xway_no_link.conns));
	return true;
}

/* A connection that has another link yet leaves that soon. */
static bool still_elsewhere(void)
{
	union xway_sock_ctl open, msg;

	EXPECT(attach(AF_INET, AF_INET) && ask(&open));
	conn[A]->chan.link = &end(P)->pub;
	EXPECT(give(A, &open) && take(A, &msg));
	conn[A]->chan.link = &end(A)->pub;
	EXPECT(msg.ctl.type == XWAY_CTL_DECLINE && msg.ctl.arg == XWAY_DECLINE_LATER);
	EXPECT(!test_bit(XWAY_F_ASKED, &conn[A]->flags));
	return true;
}

/* Both links end, or are up again. */
static void links(enum xway_link_state state)
{
	end(P)->pub.state = state;
	end(A)->pub.state = state;
}

static bool waits(int which, u32 isn)
{
	EXPECT(conn[which] && xway_conn_waiting(conn[which]));
	EXPECT(!(conn[which]->flags & (BIT(XWAY_F_FALLBACK) | BIT(XWAY_F_PARK))));
	EXPECT(conn[which]->established && conn[which]->isn[0][0] == isn);
	EXPECT(conn[which]->tuple.dport == htons(80));
	return true;
}

/* A new session of the link, or another link: the channel is another one. */
static bool goes_back(void)
{
	union xway_sock_ctl msg;

	links(XWAY_LINK_UP);
	EXPECT(list(P) && list(A));
	conn[P]->postponed = 0;
	conn[A]->postponed = 0;
	EXPECT(ask(&msg) && give(A, &msg) && take(A, &msg));
	EXPECT(msg.ctl.type == XWAY_CTL_ACCEPT && give(P, &msg));
	EXPECT(conn[P]->state == XWAY_CONN_OPEN && conn[A]->state == XWAY_CONN_OPEN);
	return true;
}

/* The session ends in order: both ends leave the link and come back. */
static bool session_ends(void)
{
	u64 before = atomic64_read(&xway_reasons[XWAY_R_LINK]);
	const struct xway_words *words;
	u32 isn = conn[P]->isn[0][0];
	union xway_sock_ctl msg;

	dress_up();
	links(XWAY_LINK_CLOSING);
	words = rcu_access_pointer(conn[A]->chan.peer);
	xway_conn_drain(&end(P)->pub);
	settle();
	/* The core keeps the half until the peer's CLOSE comes. */
	EXPECT(waits(P, isn) && (words->flags & XWAY_WORDS_PARK));
	EXPECT(take(P, &msg) && msg.ctl.type == XWAY_CTL_CLOSE && give(A, &msg));
	settle();
	EXPECT(take(A, &msg) && msg.ctl.type == XWAY_CTL_CLOSE && give(P, &msg));
	settle();
	EXPECT(waits(P, isn) && waits(A, isn));
	EXPECT(!end(P)->pub.n_chans && !end(A)->pub.n_chans);
	EXPECT(atomic64_read(&xway_reasons[XWAY_R_LINK]) == before + 2);
	/* The link does not find them any more. */
	xway_conn_drain(&end(P)->pub);
	xway_conn_abort(&end(P)->pub, true);
	settle();
	EXPECT(waits(P, isn));
	return goes_back();
}

/* The peer answers no more. No direction was on a ring. */
static bool peer_ends(void)
{
	u64 before = atomic64_read(&xway_reasons[XWAY_R_GONE]);
	u32 isn = conn[P]->isn[0][0];

	dress_up();
	links(XWAY_LINK_CLOSING);
	set_bit(XWAY_F_UNSETTLED, &conn[P]->flags);
	xway_conn_abort(&end(P)->pub, true);
	xway_conn_abort(&end(A)->pub, true);
	settle();
	EXPECT(waits(P, isn) && waits(A, isn));
	EXPECT(atomic64_read(&xway_reasons[XWAY_R_GONE]) == before + 2);
	/* Who is inside TCP's calls is there still. */
	EXPECT(test_and_clear_bit(XWAY_F_UNSETTLED, &conn[P]->flags));
	EXPECT(!test_bit(XWAY_F_UNSETTLED, &conn[A]->flags));
	return goes_back();
}

/* A connection that falls back for good does so, whatever its link does. */
static bool not_for_ever(void)
{
	EXPECT(attach(AF_INET, AF_INET));
	dress_up();
	xway_conn_fallback(conn[P], XWAY_R_OPTION);
	xway_conn_drain(&end(P)->pub);
	xway_conn_abort(&end(P)->pub, true);
	settle();
	EXPECT(!conn[P]);
	return true;
}

/* After "xway off" nothing of those that wait is left. */
static bool off_while_waiting(void)
{
	EXPECT(attach_waiting());
	dress_up();
	xway_attach_set(false);
	settle();
	xway_attach_set(true);
	EXPECT(!conn[P] && !conn[A] && !xway_conn_count());
	EXPECT(!atomic_read(&xway_no_link.conns));
	return true;
}

const struct xway_test waiting_tests[] = {
	{ "waits_to_ask", waits_to_ask, UP },
	{ "waits_to_be_asked", waits_to_be_asked, UP },
	{ "still_elsewhere", still_elsewhere, UP },
	{ "session_ends", session_ends, CHANNEL },
	{ "peer_ends", peer_ends, CHANNEL },
	{ "not_for_ever", not_for_ever, UP },
	{ "off_while_waiting", off_while_waiting, UP },
	{}
};
