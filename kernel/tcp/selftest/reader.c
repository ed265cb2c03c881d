// SPDX-License-Identifier: GPL-2.0
/* Tests of readers inside the kernel. */
#include "tcp/attach.h"
#include "ends.h"

static int called;

/* It has the name of one that is known to use our calls. */
static void xs_data_ready(struct sock *sk)
{
	called++;
	lockdep_assert_held(&sk->sk_lock.slock);
}

/* Nobody knows what this one does. */
static void takes_packets(struct sock *sk)
{
	called++;
}

static bool reader_known(void)
{
	struct sock *sk = (struct sock *)tp[P];

	EXPECT(!xway_conn_inside(conn[P]) && !xway_conn_taken(conn[P], sk));
	sk->sk_data_ready = takes_packets;
	EXPECT(xway_conn_taken(conn[P], sk) && !xway_reader_fits(sk));
	EXPECT(xway_attach_unfit(sk) == XWAY_R_KERNEL);
	sk->sk_user_data = sk;
	EXPECT(xway_attach_unfit(sk) == XWAY_R_BUSY);
	sk->sk_data_ready = xs_data_ready;
	EXPECT(!xway_conn_taken(conn[P], sk) && xway_conn_inside(conn[P]));
	EXPECT(xway_attach_unfit(sk) != XWAY_R_BUSY && xway_attach_unfit(sk) != XWAY_R_KERNEL);
	sk->sk_data_ready = takes_packets;
	EXPECT(xway_conn_taken(conn[P], sk));
	return true;
}

static void arrive(void)
{
	xway_own(conn[A])->prod++;
	rcu_read_lock();
	xway_chan_post(&conn[A]->chan);
	rcu_read_unlock();
	look(P);
}

/* It is called with the socket locked, or else whoever has locked it calls it. */
static bool reader_told(void)
{
	struct sock *sk = (struct sock *)tp[P];

	dress_up();
	called = 0;
	sk->sk_data_ready = xs_data_ready;
	EXPECT(!xway_conn_taken(conn[P], sk));	/* as release_sock() learns of it */
	start_at(0, 1);
	arrive();
	EXPECT(called == 1);
	sk->sk_lock.owned = 1;
	arrive();
	xway_conn_wake(conn[P]);
	sk->sk_lock.owned = 0;
	EXPECT(called == 1 && test_and_clear_bit(XWAY_F_TELL, &conn[P]->flags));
	xway_conn_wake(conn[P]);
	EXPECT(called == 2);
	/* There is nothing any more that it has not read. */
	conn[P]->rx.cons = xway_own(conn[A])->prod;
	xway_conn_wake(conn[P]);
	EXPECT(called == 2 && !woken[P]);
	/* As without dress_up(): nobody resets what is still on the ring. */
	refcount_set(&sk->sk_refcnt, 0);
	refcount_set(&((struct sock *)tp[A])->sk_refcnt, 0);
	return true;
}

const struct xway_test reader_tests[] = {
	{ "reader_known", reader_known, CHANNEL },
	{ "reader_told", reader_told, CHANNEL },
	{}
};
