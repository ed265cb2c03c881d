// SPDX-License-Identifier: GPL-2.0
/*
 * A connection between the two ends of a link. Its sockets are nothing but memory
 * with the fields that the module looks at. Those that helpers need are set by
 * dress_up() only.
 */
#include <linux/slab.h>

#include "tcp/evict.h"
#include "ends.h"

struct xway_conn *conn[2];
struct tcp_sock *tp[2];
int woken[2];
static bool registered, dressed;
static struct socket_alloc files[2];

static void ready(struct sock *sk)
{
	woken[tcp_sk(sk) == tp[A]]++;
}

static int routed(struct sock *sk)
{
	return 0;
}

static const struct inet_connection_sock_af_ops af_ops = {
	.rebuild_header = routed,
};

/* No file, no user, no reference: workers find that it is gone already. */
static void dress(int which, u16 family)
{
	struct sock *sk = (struct sock *)tp[which];

	sock_net_set(sk, &init_net);
	rwlock_init(&sk->sk_callback_lock);
	sk->sk_data_ready = ready;
	sk->sk_family = family;
	inet_csk(sk)->icsk_af_ops = &af_ops;
	sk->sk_daddr = htonl(0x0a000001 + !which);
	sk->sk_rcv_saddr = htonl(0x0a000001 + which);
#if IS_ENABLED(CONFIG_IPV6)
	ipv6_addr_set_v4mapped(sk->sk_daddr, &sk->sk_v6_daddr);
	ipv6_addr_set_v4mapped(sk->sk_rcv_saddr, &sk->sk_v6_rcv_saddr);
#endif
	inet_sk(sk)->inet_sport = htons(which == A ? 40000 : 80);
	inet_sk(sk)->inet_dport = htons(which == A ? 80 : 40000);
	tp[which]->snd_una = which == A ? 1001 : 0xfffffff0;
	tp[which]->rcv_nxt = which == A ? 0xfffffff0 : 1001;
	tp[which]->copied_seq = tp[which]->rcv_nxt;
}

static bool hold_end(int which, u16 family, struct xway_link *link)
{
	dress(which, family);
	conn[which] = xway_conn_create((struct sock *)tp[which], link, which == A);
	EXPECT(conn[which]);
	xway_conn_established(conn[which], (struct sock *)tp[which]);
	return true;
}

bool attach(u16 passive, u16 active)
{
	return hold_end(P, passive, &end(P)->pub) && hold_end(A, active, &end(A)->pub);
}

/* As attach(), but both ends wait for their link. */
bool attach_waiting(void)
{
	return hold_end(P, AF_INET, NULL) && hold_end(A, AF_INET, NULL);
}

/* The slot of a socket, see attach.c */
static struct xway_conn **slot(int which)
{
	return (void *__force)&inet_csk((struct sock *)tp[which])->icsk_ulp_data;
}

/* From now on the sockets are in use, and their connections can park. */
void dress_up(void)
{
	static struct lock_class_key key;
	int i;

	for (i = 0; i < 2; i++) {
		struct sock *sk = (struct sock *)tp[i];

		/* Not by the kernel's macro, which takes a reference on the module. */
		spin_lock_init(&sk->sk_lock.slock);
		init_waitqueue_head(&sk->sk_lock.wq);
		lockdep_init_map(&sk->sk_lock.dep_map, "sk_lock-XWAY-TEST", &key, 0);
		skb_queue_head_init(&sk->sk_receive_queue);
		refcount_set(&sk->sk_refcnt, 1);
		sk->sk_prot = &tcp_prot;
		sk->sk_state = TCP_ESTABLISHED;
		sk->sk_rcvlowat = 1;
		sk->sk_peek_off = -1;
		sk->sk_max_pacing_rate = ~0UL;
		memset(&files[i], 0, sizeof(files[i]));
		init_waitqueue_head(&files[i].socket.wq.wait);
		RCU_INIT_POINTER(sk->sk_wq, &files[i].socket.wq);
		sk_set_socket(sk, &files[i].socket);
		conn[i]->base_prot = &tcp_prot;
		*slot(i) = conn[i];
	}
	dressed = true;
}

/* Wait for the helpers; the sockets may have fresh connections, or none, by then. */
void settle(void)
{
	int i;

	flush_workqueue(xway_conn_wq);
	rcu_barrier();	/* what that queued for after a grace period */
	flush_workqueue(xway_core_wq);
	flush_workqueue(xway_conn_wq);
	for (i = 0; dressed && i < 2; i++)
		conn[i] = *slot(i);
}

void let_go(void)
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

/* The passive end's OPEN, as its helper sends it */
bool ask(union xway_sock_ctl *msg)
{
	int i;

	for (i = 0; i < 100 && !test_bit(XWAY_F_ASKED, &conn[P]->flags); i++)
		xway_conn_want(conn[P]);
	flush_workqueue(xway_conn_wq);
	EXPECT(take(P, msg));
	EXPECT(msg->ctl.type == XWAY_CTL_OPEN);
	return true;
}

/* The channel of the two connections, which have none yet */
bool open_channel(void)
{
	union xway_sock_ctl msg;

	EXPECT(ask(&msg));
	EXPECT(give(A, &msg));
	EXPECT(take(A, &msg));
	EXPECT(msg.ctl.type == XWAY_CTL_ACCEPT && msg.ctl.chan == conn[P]->chan.id);
	EXPECT(give(P, &msg));
	EXPECT(conn[P]->state == XWAY_CONN_OPEN && conn[P]->tx.usable);
	EXPECT(conn[A]->state == XWAY_CONN_OPEN && conn[A]->tx.usable);
	return true;
}

/* Set index and generation of what the active end sends, at both ends. */
void start_at(u32 idx, u32 gen)
{
	struct xway_rx *rx = &conn[P]->rx;

	rx->cons = idx;
	rx->prod = idx;
	rx->gen = gen;
	rx->seen = gen;
	xway_own(conn[P])->cons = idx;
	xway_own(conn[P])->gen_done = gen;
	xway_own(conn[A])->prod = idx;
	xway_own(conn[A])->gen = gen;
}

static bool bring_up(int level)
{
	int i;

	EXPECT(!xway_client_register(&xway_sockets));
	registered = true;
	xway_base_data_ready = ready;	/* until xway_proto_init() */
	for (i = 0; i < 2; i++) {
		woken[i] = 0;
		tp[i] = kzalloc(sizeof(*tp[i]), GFP_KERNEL);
		EXPECT(tp[i]);
	}
	return (level < ATTACHED || attach(AF_INET, AF_INET)) &&
	       (level < CHANNEL || open_channel());
}

bool ends_run(const struct xway_test *test)
{
	bool ok;

	if (!bring_up(test->level))
		return false;
	if (test->level >= READING)
		mutex_lock(&conn[P]->rx.lock);
	ok = test->run();
	if (test->level >= READING)
		mutex_unlock(&conn[P]->rx.lock);
	return ok;
}

void ends_end(void)
{
	int i;

	settle();
	dressed = false;
	let_go();
	if (registered)
		xway_client_unregister(&xway_sockets);
	registered = false;
	for (i = 0; i < 2; i++) {
		kfree(tp[i]);
		tp[i] = NULL;
	}
}

bool ends_nothing_left(void)
{
	EXPECT(!xway_conn_count());
	return true;
}
