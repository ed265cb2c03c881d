// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of switches and cuts with real sockets, by the loopback device, so that TCP
 * carries what comes before and after the ring. In a cut the reader, P, ends a stretch
 * on the ring alone. The writer, A, is paused: its helper runs only when wake() lets it.
 */
#include <linux/delay.h>
#include <linux/in.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/random.h>

#include "tcp/attach.h"
#include "tcp/calls.h"
#include "ends.h"

/* The longest time for bytes that are on their way, in jiffies */
#define ARRIVE (10 * HZ)

static struct socket *sock[2];
static u32 sent[2], got[2];	/* bytes of what an end writes; of what it reads */
static u8 buf[16384];

/* Each byte of a stream tells its place. */
static u8 byte_at(int from, u32 at)
{
	return (at * 7 >> 3) + from;
}

static void fill(int from, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++)
		buf[i] = byte_at(from, sent[from] + i);
}

static bool connect_pair(void)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct socket *listener;
	bool ok;

	EXPECT(!sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &listener));
	ok = !kernel_bind(listener, (void *)&addr, sizeof(addr)) &&
	     !kernel_listen(listener, 1) &&
	     kernel_getsockname(listener, (void *)&addr) > 0 &&
	     !sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &sock[A]) &&
	     !kernel_connect(sock[A], (void *)&addr, sizeof(addr), 0) &&
	     !kernel_accept(listener, &sock[P], 0);
	sock_release(listener);
	EXPECT(ok);
	return true;
}

/* A channel; both directions are on TCP. The test has a reference on each connection. */
static bool begin_on_tcp(void)
{
	int i;

	memset(sent, 0, sizeof(sent));
	memset(got, 0, sizeof(got));
	EXPECT(connect_pair());
	for (i = 0; i < 2; i++) {
		struct sock *sk = sock[i]->sk;

		sk->sk_rcvtimeo = ARRIVE;
		lock_sock(sk);
		conn[i] = xway_conn_create(sk, &end(i)->pub, i == A);
		if (conn[i]) {
			xway_conn_get(conn[i]);
			conn[i]->base_prot = READ_ONCE(sk->sk_prot);
			xway_conn_established(conn[i], sk);
		}
		release_sock(sk);
		EXPECT(conn[i]);
	}
	return open_channel();
}

static bool to_ring(int which)
{
	bool ok;

	lock_sock(sock[which]->sk);
	ok = xway_tx_to_ring(conn[which], sock[which]->sk);
	release_sock(sock[which]->sk);
	return ok;
}

static void to_tcp(int which)
{
	lock_sock(sock[which]->sk);
	xway_tx_to_tcp(conn[which], sock[which]->sk);
	release_sock(sock[which]->sk);
}

/* As begin_on_tcp(), but both directions are on their rings. */
static bool begin(void)
{
	return begin_on_tcp() && to_ring(A) && to_ring(P);
}

static void flush(void)
{
	flush_workqueue(xway_core_wq);
	flush_workqueue(xway_conn_wq);
}

static void let_work(void)
{
	int i;

	flush();
	/* Where the test had the socket's lock; these are TCP's own, without xway_release_cb(). */
	for (i = 0; i < 2; i++)
		if (conn[i] && test_and_clear_bit(XWAY_F_LATER, &conn[i]->flags))
			xway_conn_queue(conn[i]);
	flush();
	/* A helper that closes a channel runs again after a grace period. */
	flush();
}

/* Let an end see its posts and messages. */
static void wake(int which)
{
	look(which);
	let_work();
	let_work();
}

static void finish(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (conn[i]) {
			lock_sock(sock[i]->sk);
			if (conn[i]->sk)
				xway_detach(conn[i], sock[i]->sk);
			release_sock(sock[i]->sk);
		}
	}
	for (i = 0; i < 6; i++) {
		if (end(i & 1)->pub.state == XWAY_LINK_UP)
			look(i & 1);
		let_work();
		rcu_barrier();
	}
	for (i = 0; i < 2; i++) {
		if (conn[i])
			xway_conn_put(conn[i]);
		conn[i] = NULL;
		if (sock[i])
			sock_release(sock[i]);
		sock[i] = NULL;
	}
}

/* Put up to @n bytes into an end's ring. Return: how many. The socket is locked. */
static u32 put_locked(int from, u32 n)
{
	struct kvec vec = { buf, min_t(u32, n, sizeof(buf)) };
	struct msghdr msg = {};
	int ret;

	fill(from, vec.iov_len);
	iov_iter_kvec(&msg.msg_iter, WRITE, &vec, 1, vec.iov_len);
	ret = xway_tx_put(conn[from], sock[from]->sk, &msg, 0, false);
	if (ret <= 0)
		return 0;
	sent[from] += ret;
	return ret;
}

static u32 put(int from, u32 n)
{
	u32 done = 0, part;

	lock_sock(sock[from]->sk);
	do {
		part = put_locked(from, n - done);
		done += part;
	} while (part && done < n);
	release_sock(sock[from]->sk);
	return done;
}

/* Send by TCP, as a program does once nothing of a cut is left. */
static bool send(int from, u32 n)
{
	struct msghdr msg = {};
	struct kvec vec = { buf, n };

	fill(from, n);
	EXPECT(kernel_sendmsg(sock[from], &msg, &vec, 1, n) == n);
	sent[from] += n;
	return true;
}

/* Read by TCP what is there; without MSG_DONTWAIT wait for some. */
static bool receive_some(int to, int flags)
{
	struct msghdr msg = {};
	struct kvec vec = { buf, min_t(u32, sizeof(buf), sent[!to] - got[to]) };
	int n = kernel_recvmsg(sock[to], &msg, &vec, 1, vec.iov_len, flags), i;

	EXPECT(n > 0 || (n == -EAGAIN && flags));
	for (i = 0; i < n; i++)
		EXPECT(buf[i] == byte_at(!to, got[to] + i));
	got[to] += max(n, 0);
	return true;
}

/* Read by TCP all that the other end has sent so far. */
static bool receive(int to)
{
	while (got[to] != sent[!to])
		EXPECT(receive_some(to, 0));
	return true;
}

static bool receive_end(int to)
{
	struct msghdr msg = {};
	struct kvec vec = { buf, 1 };

	EXPECT(receive(to));
	EXPECT(!kernel_recvmsg(sock[to], &msg, &vec, 1, 1, 0));
	return true;
}

static bool nothing_more(int to)
{
	struct msghdr msg = {};
	struct kvec vec = { buf, 1 };

	EXPECT(kernel_recvmsg(sock[to], &msg, &vec, 1, 1, MSG_DONTWAIT) == -EAGAIN);
	return true;
}

static bool cuts(int which)
{
	return xway_own(conn[which])->flags & XWAY_WORDS_CUT;
}

/* P falls back, waits in vain for A, and cuts. */
static bool fall_back(void)
{
	conn[P]->cut_at = (u32)jiffies ?: 1;
	xway_conn_fallback(conn[P], XWAY_R_OFF);
	let_work();
	/* The channel has ended here. */
	EXPECT(test_bit(XWAY_F_DETACHED, &conn[P]->flags));
	EXPECT(!violated(P) && conn[P]->rx.spilled);
	EXPECT(READ_ONCE(((const struct xway_words *)
			  rcu_access_pointer(conn[A]->chan.peer))->flags) & XWAY_WORDS_CUT);
	return true;
}

/*
 * The channel has ended, in order. The connection parks until what came by ring is read,
 * which these tests do by TCP's own call.
 */
static bool left_ring(int which)
{
	const struct xway_conn *c = conn[which];

	EXPECT(!rcu_access_pointer(c->chan.peer) && !violated(which));
	EXPECT(!(c->tx.gen & 1) && !c->tx.resend && c->rx.spilled);
	return true;
}

/* A's helper finds the cut. Then TCP carries both directions. */
static bool goes_on(void)
{
	wake(A);
	EXPECT(test_bit(XWAY_F_DETACHED, &conn[A]->flags) || left_ring(A));
	EXPECT(!violated(A));
	EXPECT(!conn[A]->tx.resend);
	EXPECT(send(A, 1000) && receive(P) && nothing_more(P));
	EXPECT(send(P, 1000) && receive(A) && nothing_more(A));
	return true;
}

/* Nothing is in the ring, and nothing comes twice. */
static bool empty(void)
{
	EXPECT(fall_back() && receive(P) && goes_on());
	return true;
}

/* The ring is full of bytes that nobody has read, and so is the other one. */
static bool full(void)
{
	EXPECT(put(A, ~0U) == conn[A]->tx.size);
	EXPECT(put(P, ~0U) == conn[P]->tx.size);
	EXPECT(fall_back() && receive(P) && goes_on());
	return true;
}

/* A has sent on after the cut, of which it did not know. */
static bool late(void)
{
	EXPECT(put(A, 5000) == 5000);
	EXPECT(fall_back());
	EXPECT(put(A, 20000) == 20000);
	EXPECT(goes_on());
	return true;
}

/* An error that does not end the connection is the program's, and loses no byte. */
static bool error(void)
{
	struct sock *sk = sock[A]->sk;
	int err;

	EXPECT(fall_back());
	EXPECT(put(A, 20000) == 20000);
	sk->sk_err = EHOSTUNREACH;
	wake(A);
	err = xchg(&sk->sk_err, 0);
	EXPECT(err == EHOSTUNREACH && receive(P));
	EXPECT(goes_on());
	return true;
}

/* P has read up to somewhere in the ring, and more has come since, more than once around. */
static bool around(void)
{
	u32 size = conn[A]->tx.size, n = size - 1000;
	struct sock *sk = sock[P]->sk;

	EXPECT(put(A, n) == n);
	mutex_lock(&conn[P]->rx.lock);
	xway_rx_update(conn[P]);
	while (xway_rx_advance(conn[P], sk))
		;
	while (got[P] != n) {
		struct kvec vec = { buf, min_t(u32, n - got[P], sizeof(buf)) };
		struct msghdr msg = {};
		int len;

		iov_iter_kvec(&msg.msg_iter, READ, &vec, 1, vec.iov_len);
		len = xway_rx_ring(conn[P], &msg, vec.iov_len, 0, 0);
		if (len <= 0)
			break;
		got[P] += len;
	}
	mutex_unlock(&conn[P]->rx.lock);
	EXPECT(got[P] == n);
	EXPECT(put(A, 3000) == 3000);
	EXPECT(fall_back());
	EXPECT(put(A, ~0U) == size - 3000);
	EXPECT(goes_on());
	return true;
}

/* How A sends while P cuts */
static bool switches;		/* it also switches to TCP by itself */
static struct completion racing, raced;

static int race_fn(void *data)
{
	struct sock *sk = sock[A]->sk;
	u32 turns = get_random_u32() % 40;
	bool tcp = false;

	complete(&racing);
	while (turns--) {
		lock_sock(sk);
		put_locked(A, 1 + turns * 13);
		release_sock(sk);
	}
	/* As sendmsg() with a flag that the ring does not carry */
	while (switches && !tcp) {
		lock_sock(sk);
		xway_tx_to_tcp(conn[A], sk);
		tcp = xway_tx_resend(conn[A], sk);
		release_sock(sk);
		if (!tcp)
			usleep_range(500, 1000);
	}
	complete(&raced);
	return 0;
}

static bool race(void)
{
	struct task_struct *task;
	bool ok;

	init_completion(&racing);
	init_completion(&raced);
	task = kthread_run(race_fn, NULL, "xway_selftest");
	EXPECT(!IS_ERR(task));
	wait_for_completion(&racing);
	usleep_range(0, get_random_u32() % 200 + 1);
	conn[P]->cut_at = (u32)jiffies ?: 1;
	xway_conn_fallback(conn[P], XWAY_R_OFF);
	let_work();
	wait_for_completion(&raced);
	/* A may have switched before it could be cut. */
	ok = test_bit(XWAY_F_DETACHED, &conn[P]->flags);
	EXPECT(ok && goes_on());
	return true;
}

/* TCP takes only a part: the rest follows as TCP has room, and the ring is not needed. */
static bool leftover(void)
{
	struct sock *sk = sock[A]->sk;
	struct xway_tx *tx = &conn[A]->tx;
	bool resent, kept;
	void **ring;
	u32 i, n, n0;

	EXPECT(fall_back());
	n = put(A, ~0U);
	EXPECT(n == tx->size);
	/* As no program may: of what A resends TCP takes only what it can send at once. */
	tcp_sk(sk)->notsent_lowat = 1;
	ring = kmemdup(tx->pages, n / PAGE_SIZE * sizeof(*ring), GFP_KERNEL);
	EXPECT(ring);
	lock_sock(sk);
	xway_tx_to_tcp(conn[A], sk);
	resent = xway_tx_resend(conn[A], sk);
	/* Newer bytes and a FIN must wait. */
	kept = xway_tx_keep(conn[A], sk) && tx->kept;
	release_sock(sk);
	EXPECT(!resent && kept && tx->resent != 0);
	for (i = 0; i < n / PAGE_SIZE; i++)
		memset(ring[i], 0xee, PAGE_SIZE);
	kfree(ring);
	lock_sock(sk);
	WRITE_ONCE(sk->sk_shutdown, sk->sk_shutdown | SEND_SHUTDOWN);
	tx->fin = !xway_tx_may_fin(conn[A], sk);
	release_sock(sk);
	EXPECT(tx->fin);
	for (i = 0; i < 5000 && got[P] != n; i++) {
		n0 = got[P];
		EXPECT(receive_some(P, MSG_DONTWAIT));
		lock_sock(sk);
		xway_tx_resend(conn[A], sk);
		release_sock(sk);
		if (got[P] == n0)
			usleep_range(500, 1000);
	}
	EXPECT(!tx->resend && !tx->fin && receive_end(P));
	return true;
}

/* A has closed before the cut, and after it. */
static bool fin_before(void)
{
	struct sock *sk = sock[A]->sk;
	bool may;

	EXPECT(put(A, 9000) == 9000);
	lock_sock(sk);
	may = xway_tx_may_fin(conn[A], sk) && (conn[A]->tx.gen & 1);
	release_sock(sk);
	EXPECT(may);
	EXPECT(!kernel_sock_shutdown(sock[A], SHUT_WR));
	EXPECT(fall_back() && receive_end(P));
	wake(A);
	EXPECT(test_bit(XWAY_F_DETACHED, &conn[A]->flags) && !violated(A));
	EXPECT(send(P, 1000) && receive(A) && nothing_more(A));
	return true;
}

static bool fin_after(void)
{
	struct sock *sk = sock[A]->sk;
	bool may;

	EXPECT(put(A, 9000) == 9000);
	EXPECT(fall_back());
	EXPECT(put(A, 9000) == 9000);
	lock_sock(sk);
	may = xway_tx_may_fin(conn[A], sk) && !(conn[A]->tx.gen & 1);
	release_sock(sk);
	EXPECT(may);
	EXPECT(!kernel_sock_shutdown(sock[A], SHUT_WR));
	EXPECT(receive_end(P));
	wake(A);
	EXPECT(test_bit(XWAY_F_DETACHED, &conn[A]->flags) && !violated(A));
	EXPECT(send(P, 1000) && receive(A));
	return true;
}

/* P was stopped in the middle of its cut: A waits, with all that is newer. */
static bool halfway_at(s32 from_sent)
{
	struct sock *sk = sock[A]->sk;
	bool early, resent;

	EXPECT(put(A, 3000) == 3000);
	xway_own(conn[P])->flags |= XWAY_WORDS_FALLBACK | XWAY_WORDS_CUTTING;
	EXPECT(put(A, 3000) == 3000);
	lock_sock(sk);
	early = xway_tx_may_fin(conn[A], sk);
	release_sock(sk);
	EXPECT(!early && conn[A]->tx.resend && !(conn[A]->tx.gen & 1));
	/* It lies. */
	xway_own(conn[P])->cut = sent[A] + from_sent;
	xway_own(conn[P])->flags |= XWAY_WORDS_CUT;
	lock_sock(sk);
	resent = xway_tx_resend(conn[A], sk);
	release_sock(sk);
	EXPECT(!resent && violated(A));
	let_work();
	EXPECT(sk->sk_state == TCP_CLOSE);
	return true;
}

static bool halfway(void)
{
	return halfway_at(1);
}

/* Bytes of the ring that were never sent must not be sent again. */
static bool halfway_before(void)
{
	return halfway_at(-6001);
}

/* The link ends at one end, and the other does not answer. */
static void link_down(int which, bool dead)
{
	xway_fake_end(which, dead);
	let_work();
}

/* A finds the cut in pages that P has given up, after P's link has ended. */
static bool after_link(void)
{
	EXPECT(put(A, ~0U) == conn[A]->tx.size);
	EXPECT(put(P, 7000) == 7000);
	xway_fake.held = true;
	link_down(P, false);
	EXPECT(left_ring(P));
	EXPECT(end(P)->pub.state == XWAY_LINK_DEAD && atomic_read(&xway_fake.shared));
	EXPECT(sock[P]->sk->sk_state == TCP_ESTABLISHED && receive(P));
	EXPECT(send(P, 5000));
	link_down(A, false);
	EXPECT(left_ring(A));
	EXPECT(goes_on());
	return true;
}

/* The same, but A hears that P's domain is gone, as after a migration. */
static bool after_migration(void)
{
	EXPECT(put(A, 30000) == 30000);
	EXPECT(put(P, 7000) == 7000);
	xway_fake.held = true;
	link_down(P, false);
	EXPECT(put(A, 30000) == 30000);
	EXPECT(send(P, 5000));
	link_down(A, true);
	EXPECT(left_ring(A));
	EXPECT(goes_on());
	return true;
}

static bool is_reset(int which)
{
	EXPECT(sock[which]->sk->sk_state == TCP_CLOSE);
	EXPECT(sock[which]->sk->sk_err == ECONNRESET);
	return true;
}

/* P's domain has ended without a cut: nobody knows what was read. */
static bool dead(void)
{
	EXPECT(put(A, 3000) == 3000);
	xway_fake.held = true;
	link_down(A, true);
	EXPECT(is_reset(A));
	return true;
}

/* P was stopped in the middle of its cut, and A's link must end. */
static bool stopped(void)
{
	EXPECT(put(A, 3000) == 3000);
	xway_own(conn[P])->flags |= XWAY_WORDS_FALLBACK | XWAY_WORDS_CUTTING;
	xway_fake.held = true;
	link_down(A, false);
	EXPECT(is_reset(A));
	return true;
}

/* The same, and A is to leave for good, and has tried for a while. */
static bool stopped_off(void)
{
	EXPECT(put(A, 3000) == 3000);
	xway_own(conn[P])->flags |= XWAY_WORDS_FALLBACK | XWAY_WORDS_CUTTING;
	xway_fake.held = true;
	conn[A]->retry_in = 3 * HZ;
	conn[A]->retry_at = jiffies + HZ;
	xway_conn_fallback(conn[A], XWAY_R_OFF);
	let_work();
	EXPECT(is_reset(A));
	return true;
}

/* P says CLOSE, and not up to where it has cut. */
static bool closed_halfway(void)
{
	EXPECT(put(A, 3000) == 3000);
	xway_own(conn[P])->flags |= XWAY_WORDS_FALLBACK | XWAY_WORDS_CUTTING;
	set_bit(XWAY_F_GOT_CLOSE, &conn[A]->flags);
	xway_conn_fallback(conn[A], XWAY_R_OFF);
	let_work();
	EXPECT(violated(A));
	let_work();
	EXPECT(sock[A]->sk->sk_state == TCP_CLOSE);
	return true;
}

/* As dead(), but domain 0 says only that it is no peer any more. */
static bool gone(void)
{
	EXPECT(put(P, 3000) == 3000);
	xway_fake.held = true;
	xway_fake.gone = true;
	conn[A]->cut_at = (u32)jiffies ?: 1;
	xway_conn_fallback(conn[A], XWAY_R_LINK);
	let_work();
	EXPECT(!cuts(A) && !test_bit(XWAY_F_DETACHED, &conn[A]->flags));
	link_down(A, false);
	EXPECT(is_reset(A));
	return true;
}

/* A peer of an older version does not know of cuts. */
static bool older(void)
{
	const struct xway_words *words = conn[P]->chan.own;

	end(P)->version = XWAY_WIRE_CUT - 1;
	EXPECT(put(A, 3000) == 3000);
	conn[P]->cut_at = (u32)jiffies ?: 1;
	xway_conn_fallback(conn[P], XWAY_R_OFF);
	let_work();
	EXPECT(!cuts(P) && !conn[P]->rx.spilled);
	EXPECT(!test_bit(XWAY_F_DETACHED, &conn[P]->flags));
	xway_fake.held = true;
	link_down(P, false);
	EXPECT(!(words->flags & XWAY_WORDS_CUTTING));
	EXPECT(is_reset(P));
	return true;
}

/* P closes with the rings full, and A is silent: only the half stays, of the arena. */
static bool closed_silent(void)
{
	struct sock *sk = sock[P]->sk;
	int i;

	EXPECT(put(A, ~0U) == conn[A]->tx.size && put(P, ~0U) == conn[P]->tx.size);
	lock_sock(sk);
	xway_detach(conn[P], sk);
	release_sock(sk);
	for (i = 0; i < 3; i++) {
		let_work();
		rcu_barrier();
	}
	/* The reference is the test's own: neither connection nor module is kept. */
	EXPECT(refcount_read(&conn[P]->ref) == 1 && !conn[P]->chan.ring_pages);
	EXPECT(!conn[P]->rx.charged && !atomic_read(&end(P)->pub.peer->charged));
	EXPECT(end(P)->pub.n_chans == 1 && end(P)->pub.state == XWAY_LINK_UP);
	return true;
}

/* P begins to cut, and says no more: all of A's that are closed wait a second together. */
static bool closed_late(void)
{
	unsigned long *by = &conn[A]->tl->close_by, first;

	EXPECT(put(A, 3000) == 3000 && !xway_tx_cut_late(conn[A]) && !*by);
	xway_own(conn[P])->flags |= XWAY_WORDS_FALLBACK | XWAY_WORDS_CUTTING;
	to_tcp(A);
	EXPECT(!xway_tx_cut_late(conn[A]));
	first = *by;
	EXPECT(time_in_range(first, jiffies + HZ / 2, jiffies + HZ + 1));
	EXPECT(!xway_tx_cut_late(conn[A]) && *by == first);
	*by = jiffies - HZ;
	EXPECT(xway_tx_cut_late(conn[A]));
	*by = jiffies - 10 * HZ;
	EXPECT(!xway_tx_cut_late(conn[A]) && time_after(*by, jiffies));
	/* What is known is not late. */
	*by = jiffies - HZ;
	xway_own(conn[P])->cut = xway_own(conn[A])->prod;
	xway_own(conn[P])->flags |= XWAY_WORDS_CUT;
	EXPECT(!xway_tx_cut_late(conn[A]));
	return true;
}

/* Somebody puts a table over ours, and will put ours back: see xway_proto_restore(). */
static bool table_taken(void)
{
	static struct proto theirs;
	struct proto *kept[2];
	int held, i;

	theirs = *xway_proto_of(sock[A]->sk);
	sock[A]->sk->sk_prot = &theirs;
	sock[P]->sk->sk_prot = xway_proto_of(sock[P]->sk);
	held = module_refcount(THIS_MODULE);
	for (i = 0; i < 2; i++) {
		struct sock *sk = sock[i]->sk;

		lock_sock(sk);
		xway_detach(conn[i], sk);
		kept[i] = sk->sk_prot;
		sk->sk_prot = conn[i]->base_prot;
		release_sock(sk);
	}
	EXPECT(kept[A] == &theirs && kept[P] == conn[P]->base_prot);
	EXPECT(module_refcount(THIS_MODULE) == held + 1);
	module_put(THIS_MODULE);
	return true;
}

/* Calls of P's socket find its connection from now on, or find none. */
static void attached(bool on)
{
	struct inet_connection_sock *icsk = inet_csk(sock[P]->sk);

	icsk->icsk_ulp_data = (void __force __rcu *)(on ? conn[P] : NULL);
	icsk->icsk_ulp_ops = on ? &xway_ulp : NULL;
}

/* Read without waiting by the call of an attached socket; -1 if a byte is wrong. */
static int call(size_t len, int flags)
{
	struct kvec vec = { buf, sizeof(buf) };
	struct msghdr msg = {};
	int n, i;

	memset(buf, 0, sizeof(buf));
	iov_iter_kvec(&msg.msg_iter, READ, &vec, 1, len);
	n = xway_recvmsg(sock[P]->sk, &msg, len, flags | MSG_DONTWAIT);
	for (i = 0; i < n && !(flags & MSG_TRUNC); i++)
		if (buf[i] != byte_at(A, got[P] + i))
			return -1;
	if (n > 0 && !(flags & MSG_PEEK))
		got[P] += n;
	return n;
}

/* TCP may need a moment. */
static bool arrived(u32 n)
{
	unsigned long till = jiffies + ARRIVE;

	while (xway_peek_len(sock[P]) < n && time_before(jiffies, till))
		usleep_range(500, 1000);
	return xway_peek_len(sock[P]) == n;
}

/* All that is unread, in one call, whatever way it is asked for */
static bool in_one_call(void)
{
	u32 n = sent[A] - got[P];

	EXPECT(arrived(n) && xway_rx_unread(conn[P], sock[P]->sk) == n);
	EXPECT(call(sizeof(buf), MSG_PEEK) == n);
	EXPECT(call(n - 1, MSG_PEEK) == n - 1);
	EXPECT(call(sizeof(buf), MSG_PEEK | MSG_TRUNC) == n);
	EXPECT(call(n / 2, MSG_PEEK) == n / 2);
	EXPECT(call(sizeof(buf), 0) == n);
	EXPECT(call(1, 0) == -EAGAIN && !xway_peek_len(sock[P]));
	return true;
}

static bool switch_reads(void)
{
	/* TCP, ring */
	EXPECT(send(A, 1000) && to_ring(A) && put(A, 4000) == 4000);
	EXPECT(in_one_call());
	/* Ring, TCP */
	EXPECT(put(A, 3000) == 3000);
	to_tcp(A);
	EXPECT(send(A, 700) && in_one_call());
	/* TCP, ring, TCP */
	EXPECT(send(A, 1000) && to_ring(A) && put(A, 5000) == 5000);
	to_tcp(A);
	EXPECT(send(A, 700) && in_one_call());
	/* Nothing is between two switches. */
	EXPECT(send(A, 1000) && to_ring(A));
	to_tcp(A);
	EXPECT(send(A, 700) && in_one_call());
	EXPECT(!violated(P));
	return true;
}

/* TCP, ring, TCP, when one of the calls finds the urgent byte in the last stretch */
static bool switch_urgent(void)
{
	struct msghdr msg = { .msg_flags = MSG_OOB };
	struct kvec vec = { buf, 1 };
	int turns = 0;

	EXPECT(send(A, 1000) && to_ring(A) && put(A, 5000) == 5000);
	to_tcp(A);
	EXPECT(send(A, 700));
	fill(A, 1);
	EXPECT(kernel_sendmsg(sock[A], &msg, &vec, 1, 1) == 1);
	EXPECT(arrived(6700));
	/* The urgent byte itself may still be on its way. */
	while (!tcp_sk(sock[P]->sk)->urg_data && turns++ < 1000)
		usleep_range(500, 1000);
	EXPECT(call(sizeof(buf), MSG_PEEK) == 6700);
	EXPECT(call(sizeof(buf), 0) == 6700);
	return true;
}

/* Calls as connect() has attached the socket, and stores its state after that; as it is closed */
static bool read_early(void)
{
	struct sock *sk = sock[P]->sk;
	int early, closed;

	WRITE_ONCE(conn[P]->established, false);
	WRITE_ONCE(sk->sk_state, TCP_CLOSE);
	early = call(1, 0);
	WRITE_ONCE(conn[P]->established, true);
	closed = call(1, 0);
	WRITE_ONCE(sk->sk_state, TCP_ESTABLISHED);
	EXPECT(early == -ENOTCONN && closed == 0 && call(1, 0) == -EAGAIN);
	return true;
}

/* A call of a socket whose receiving side is shut, as TCP stores the numbers of SYN-ACK */
static bool read_half_stored(void)
{
	struct sock *sk = sock[P]->sk;
	struct tcp_sock *tcp = tcp_sk(sk);
	u32 seq = tcp->copied_seq;
	int ret;

	WRITE_ONCE(sk->sk_shutdown, RCV_SHUTDOWN);
	WRITE_ONCE(tcp->copied_seq, tcp->rcv_nxt + 1000);
	ret = call(1, 0);
	WRITE_ONCE(tcp->copied_seq, seq);
	WRITE_ONCE(sk->sk_shutdown, 0);
	EXPECT(ret == 0 && !violated(P) && call(1, 0) == -EAGAIN);
	return true;
}

static bool with_calls(bool (*test)(void))
{
	bool ok = begin_on_tcp();

	if (ok) {
		tcp_sock_set_nodelay(sock[A]->sk);
		attached(true);
		ok = test();
		attached(false);
	}
	finish();
	return ok;
}

static bool switch_one_call(void)
{
	return with_calls(switch_reads) && with_calls(switch_urgent);
}

static bool reads_as_it_connects(void)
{
	return with_calls(read_early) && with_calls(read_half_stored);
}

/* Twenty minutes pass for P's bytes that wait for others. */
static void minutes(void)
{
	conn[P]->rx.late_at -= 21 * 60 * HZ;
	xway_conn_queue(conn[P]);
	let_work();
}

/* A's mark announces bytes by TCP that never come. */
static bool late_mark(void)
{
	struct tcp_sock *tp = tcp_sk(sock[P]->sk);
	struct xway_conn *c = conn[P];
	u32 window;

	EXPECT(put(A, 3000) == 3000);
	xway_own(conn[A])->mark[1].seq += 1000;
	c->cut_at = (u32)jiffies ?: 1;
	xway_conn_fallback(c, XWAY_R_OFF);
	let_work();
	EXPECT(c->rx.spilled && c->rx.late_at && !test_bit(XWAY_F_DETACHED, &c->flags));
	EXPECT(sock[P]->sk->sk_state == TCP_ESTABLISHED);
	/* They may not come as long as the window is closed. */
	window = tp->rcv_wnd;
	tp->rcv_wnd = 0;
	tp->rcv_wup = tp->rcv_nxt;
	minutes();
	tp->rcv_wnd = window;
	EXPECT(sock[P]->sk->sk_state == TCP_ESTABLISHED);
	/* Or come slowly. */
	c->rx.late_seq -= 65536;
	minutes();
	EXPECT(sock[P]->sk->sk_state == TCP_ESTABLISHED);
	minutes();
	let_work();
	EXPECT(is_reset(P) && test_bit(XWAY_F_DETACHED, &c->flags));
	return true;
}

static bool with_channel(bool (*test)(void))
{
	bool ok = begin() && test();

	finish();
	return ok;
}

static bool cut_races(void)
{
	int i;

	for (i = 0; i < 24; i++) {
		switches = i & 1;
		EXPECT(with_channel(race));
	}
	return true;
}

/* A call keeps its socket's lock, as in a page fault without end: the helper waits for nobody. */
static bool owned(void)
{
	struct sock *sk = sock[P]->sk;
	int i;

	lock_sock(sk);
	xway_conn_fallback(conn[P], XWAY_R_OFF);
	for (i = 0; i < 1000 && !test_bit(XWAY_F_LATER, &conn[P]->flags); i++)
		usleep_range(1000, 2000);
	/* It would look again in a second. */
	if (cancel_delayed_work_sync(&conn[P]->work))
		xway_conn_put(conn[P]);
	release_sock(sk);
	EXPECT(i < 1000 && (conn[P]->tx.gen & 1));
	/* xway_release_cb() has it run again; the sockets of these tests are TCP's own. */
	EXPECT(test_and_clear_bit(XWAY_F_LATER, &conn[P]->flags));
	xway_conn_queue(conn[P]);
	let_work();
	EXPECT(!(conn[P]->tx.gen & 1) && !test_bit(XWAY_F_LATER, &conn[P]->flags));
	return true;
}

static int disconnect_fn(void *data)
{
	struct sock *sk = sock[A]->sk;

	lock_sock(sk);
	complete(&racing);
	xway_disconnect(sk, 0);
	release_sock(sk);
	complete(&raced);
	return 0;
}

/* A reset is under way, which would hit the next connection of the socket as well. */
static bool reset_first(void)
{
	struct inet_connection_sock *icsk = inet_csk(sock[A]->sk);
	bool early;

	WRITE_ONCE(*(void *__force *)&icsk->icsk_ulp_data, conn[A]);
	WRITE_ONCE(icsk->icsk_ulp_ops, &xway_ulp);
	init_completion(&racing);
	init_completion(&raced);
	set_bit(XWAY_F_ABORTING, &conn[A]->flags);
	EXPECT(!IS_ERR(kthread_run(disconnect_fn, NULL, "xway_selftest")));
	wait_for_completion(&racing);
	msleep(20);
	early = completion_done(&raced);
	clear_and_wake_up_bit(XWAY_F_ABORTING, &conn[A]->flags);
	wait_for_completion(&raced);
	EXPECT(!early && sock[A]->sk->sk_state == TCP_CLOSE && !conn[A]->sk);
	return true;
}

#define CUT_TEST(name)				\
	static bool cut_##name(void)		\
	{					\
		return with_channel(name);	\
	}

CUT_TEST(empty)
CUT_TEST(owned)
CUT_TEST(full)
CUT_TEST(late)
CUT_TEST(error)
CUT_TEST(around)
CUT_TEST(leftover)
CUT_TEST(fin_before)
CUT_TEST(fin_after)
CUT_TEST(halfway)
CUT_TEST(halfway_before)
CUT_TEST(after_link)
CUT_TEST(after_migration)
CUT_TEST(stopped)
CUT_TEST(stopped_off)
CUT_TEST(closed_halfway)
CUT_TEST(dead)
CUT_TEST(gone)
CUT_TEST(older)
CUT_TEST(closed_silent)
CUT_TEST(closed_late)
CUT_TEST(table_taken)
CUT_TEST(late_mark)
CUT_TEST(reset_first)

const struct xway_test cut_tests[] = {
	{ "switch_one_call", switch_one_call, UP },
	{ "reads_as_it_connects", reads_as_it_connects, UP },
	{ "cut_empty", cut_empty, UP },
	{ "cut_owned", cut_owned, UP },
	{ "cut_full", cut_full, UP },
	{ "cut_late", cut_late, UP },
	{ "cut_error", cut_error, UP },
	{ "cut_around", cut_around, UP },
	{ "cut_races", cut_races, UP },
	{ "cut_leftover", cut_leftover, UP },
	{ "cut_fin_before", cut_fin_before, UP },
	{ "cut_fin_after", cut_fin_after, UP },
	{ "cut_halfway", cut_halfway, UP },
	{ "cut_halfway_before", cut_halfway_before, UP },
	{ "cut_after_link", cut_after_link, UP },
	{ "cut_after_migration", cut_after_migration, UP },
	{ "cut_stopped", cut_stopped, UP },
	{ "cut_stopped_off", cut_stopped_off, UP },
	{ "cut_closed_halfway", cut_closed_halfway, UP },
	{ "cut_dead", cut_dead, UP },
	{ "cut_gone", cut_gone, UP },
	{ "cut_older", cut_older, UP },
	{ "cut_closed_silent", cut_closed_silent, UP },
	{ "cut_closed_late", cut_closed_late, UP },
	{ "cut_table_taken", cut_table_taken, UP },
	{ "cut_late_mark", cut_late_mark, UP },
	{ "cut_reset_first", cut_reset_first, UP },
	{}
};
