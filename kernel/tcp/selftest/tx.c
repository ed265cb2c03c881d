// SPDX-License-Identifier: GPL-2.0
/* Tests of sending */
#include "ends.h"

static bool tx_cons_lies(void)
{
	u32 size = conn[P]->tx.size;

	conn[P]->tx.prod = 10;
	xway_own(conn[A])->cons = 10;
	EXPECT(room() == size);
	xway_own(conn[A])->cons = 10 - size;
	EXPECT(room() == 0 && !violated(P));
	xway_own(conn[A])->cons = 9 - size;
	EXPECT(room() == 0 && violated(P));
	clear_bit(XWAY_F_BAD, &conn[P]->flags);
	xway_own(conn[A])->cons = 11;
	EXPECT(room() == 0 && violated(P));
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
	tx->prod = xway_own(conn[A])->cons + 6143;
	EXPECT(room() == 1 && !writeable());
	tx->prod++;
	EXPECT(!room() && !writeable());
	xway_own(conn[A])->cons += 3072;
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
	conn[P]->tx.prod = xway_own(conn[A])->cons + half + 999;
	EXPECT(room() == 1 && xway_tx_backlog(conn[P], sk) == 999);
	conn[P]->tx.prod += 2;
	EXPECT(!room());
	tp[P]->notsent_lowat = half;
	EXPECT(room() == half - 1001 && !violated(P));
	return true;
}

const struct xway_test tx_tests[] = {
	{ "tx_cons_lies", tx_cons_lies, CHANNEL },
	{ "size_of_sndbuf", size_of_sndbuf, CHANNEL },
	{ "size_of_unsent", size_of_unsent, CHANNEL },
	{}
};
