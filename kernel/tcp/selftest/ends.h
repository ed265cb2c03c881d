/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The two ends of a link with a connection between them, for the tests of sockets.
 */
#ifndef _XWAY_TCP_ENDS_H
#define _XWAY_TCP_ENDS_H

#include <net/tcp.h>

#include "core/selftest/fake.h"
#include "core/selftest/test.h"
#include "tcp/client.h"
#include "tcp/conn.h"

extern const struct xway_test handshake_tests[];
extern const struct xway_test rx_tests[];
extern const struct xway_test tx_tests[];
extern const struct xway_test ringsize_tests[];
extern const struct xway_test waiting_tests[];
extern const struct xway_test cut_tests[];
extern const struct xway_test reader_tests[];

/* Levels of these tests above UP */
enum {
	ATTACHED = ABOVE_UP,	/* both ends have a connection */
	CHANNEL,		/* it has a channel */
	READING,		/* the passive end's rx.lock is held */
};

/* By P and A. woken: how many times the reader was woken */
extern struct xway_conn *conn[2];
extern struct tcp_sock *tp[2];
extern int woken[2];

bool ends_run(const struct xway_test *test);
void ends_end(void);
bool ends_nothing_left(void);

bool attach(u16 passive, u16 active);
bool attach_waiting(void);
void dress_up(void);
void settle(void);
void let_go(void);
bool ask(union xway_sock_ctl *msg);
bool open_channel(void);
void start_at(u32 idx, u32 gen);

static inline bool take(int from, union xway_sock_ctl *msg)
{
	return xway_fake_take(from, &msg->ctl);
}

static inline bool give(int to, const union xway_sock_ctl *msg)
{
	return xway_fake_give(to, &msg->ctl);
}

static inline bool violated(int which)
{
	return test_bit(XWAY_F_BAD, &conn[which]->flags);
}

/* Of the passive end: bytes that fit into its ring; does poll() say that it takes bytes? */
static inline u32 room(void)
{
	return xway_tx_look(conn[P], (struct sock *)tp[P]);
}

static inline bool writeable(void)
{
	return xway_tx_writeable(conn[P], (struct sock *)tp[P]);
}

#endif /* _XWAY_TCP_ENDS_H */
