// SPDX-License-Identifier: GPL-2.0
/* Frames that honest ends exchange. */
#include <linux/etherdevice.h>
#include <linux/vmalloc.h>
#include <net/tcp.h>

#include "ends.h"

static bool cross(int from, u32 len)
{
	u32 before = arrived[!from];

	EXPECT(send(from, len));
	poll(!from);
	EXPECT(arrived[!from] == before + 1 && !wrong[!from]);
	return true;
}

/* Each length, so that frames begin and end anywhere in a page, and go round the ring. */
static bool frames_lengths(void)
{
	u32 len;

	for (len = 46; len <= 65000; len += len < 5000 ? 61 : 1511)
		EXPECT(cross(P, len) && cross(A, len));
	EXPECT(!count(P, MM_VIOLATIONS) && !count(A, MM_VIOLATIONS));
	EXPECT(!count(P, MM_RX_BAD_HEADER) && !count(A, MM_RX_NO_MEMORY));
	return true;
}

/* More than the ring has room for: the device stops, and goes on when the peer has read. */
static bool frames_full(void)
{
	u32 sent = 0, i;

	while (!netif_queue_stopped(port[P]->dev) && sent < 1000) {
		EXPECT(send(P, 60000));
		sent++;
	}
	EXPECT(sent > 2 && sent < 1000 && count(P, MM_TX_STOPPED) == 1);
	EXPECT(!count(P, MM_TX_DROPPED));
	for (i = 0; i < 4 && netif_queue_stopped(port[P]->dev); i++) {
		poll(A);
		poll(P);
	}
	EXPECT(!netif_queue_stopped(port[P]->dev) && arrived[A] == sent && !wrong[A]);
	return cross(P, 1000);
}

/* Packets have waited for A for so many seconds, in which it took so many bytes. */
static void behind(unsigned int seconds, u64 taken)
{
	netif_tx_lock_bh(port[P]->dev);
	queue(P)->behind_since = jiffies - seconds * HZ;
	queue(P)->behind_bytes -= taken;
	netif_tx_unlock_bh(port[P]->dev);
	mod_delayed_work(mm_wq, &queue(P)->stall, 0);
	flush_delayed_work(&queue(P)->stall);
}

/* A peer that does not read for long holds nothing that is queued for it. */
static bool frames_stalled(void)
{
	struct mm_words *words;
	int i;

	for (i = 0; i < 1000 && !netif_queue_stopped(port[P]->dev); i++)
		EXPECT(send(P, 60000));
	EXPECT(i < 1000 && send(P, 1000) && !count(P, MM_TX_DROPPED));
	/* Who takes something, if only slowly, is waited for; not who takes a bit now and then. */
	behind(60, 4u << 20);
	EXPECT(!queue(P)->stalled && netif_queue_stopped(port[P]->dev));
	behind(9, 100000);
	EXPECT(!queue(P)->stalled && netif_queue_stopped(port[P]->dev));
	behind(11, 0);
	EXPECT(queue(P)->stalled && !netif_queue_stopped(port[P]->dev));
	/* They are no vif's, so they are dropped: what waited, some time, and what comes. */
	EXPECT(send(P, 1000));
	for (i = 0; i < 1000 && count(P, MM_TX_DROPPED) < 2; i++)
		usleep_range(1000, 2000);
	EXPECT(count(P, MM_TX_DROPPED) >= 2 && count(P, MM_TX_STALLED) == 1);
	/* It must read all before it gets more: here it reads the first frame alone. */
	spin_lock_bh(&queue(A)->rx_lock);
	words = queue(A)->ch->chan.own;
	words->cons += mm_space(60000 + ETH_HLEN);
	spin_unlock_bh(&queue(A)->rx_lock);
	poll(P);
	EXPECT(queue(P)->stalled);
	poll(A);
	poll(P);
	EXPECT(!queue(P)->stalled && live());
	return cross(P, 1000);
}

static void set_time(u32 usecs, bool adaptive)
{
	rtnl_lock();
	mm_coalesce_set(port[A], usecs, adaptive);
	rtnl_unlock();
}

/* A reader that waits for more gets an event when no more will come: the ring is full. */
static bool frames_lazy(void)
{
	struct mm_words *words = queue(A)->ch->chan.own;
	u64 events;
	int i;

	set_time(100 * USEC_PER_SEC, false);
	EXPECT(!words->lazy && send(P, 1000));
	/* One poll, for the event: poll() has the device look once more, and it finds nothing. */
	look(A);
	napi_synchronize(&queue(A)->napi);
	EXPECT(arrived[A] == 1 && !wrong[A] && words->lazy);
	events = count(P, MM_TX_EVENTS);
	EXPECT(send(P, 1000) && count(P, MM_TX_EVENTS) == events);
	for (i = 0; i < 1000 && !netif_queue_stopped(port[P]->dev); i++)
		EXPECT(send(P, 60000));
	EXPECT(i < 1000 && count(P, MM_TX_EVENTS) == events + 1);
	for (i = 0; i < 4 && netif_queue_stopped(port[P]->dev); i++) {
		poll(A);
		poll(P);
	}
	EXPECT(!netif_queue_stopped(port[P]->dev) && !wrong[A] && !count(P, MM_TX_DROPPED));
	/* When it has found nothing, it asks. The kernel may send by P's device, too. */
	for (i = 0; i < 10 && words->lazy; i++)
		poll(A);
	EXPECT(!words->lazy);
	EXPECT(send(P, 1000) && count(P, MM_TX_EVENTS) > events + 1);
	return true;
}

static void sample(int taken)
{
	spin_lock_bh(&queue(A)->rx_lock);
	mm_coalesce_sample(queue(A), taken);
	spin_unlock_bh(&queue(A)->rx_lock);
}

/* DIM has chosen its longest time, at so many packets in a millisecond. */
static u32 chosen(int ppms)
{
	struct dim *dim = &queue(A)->dim;

	dim->profile_ix = 4;	/* the last of net_dim.c's */
	dim->prev_stats.ppms = ppms;
	schedule_work(&dim->work);
	flush_work(&dim->work);
	return queue(A)->rx_usecs;
}

/* Where time is adapted, few packets do not wait for each other. */
static bool frames_few(void)
{
	int i;

	set_time(100, false);
	for (i = 0; i < 100; i++)
		sample(0);
	EXPECT(queue(A)->rx_usecs == 100);	/* it is the operator's */
	set_time(100, true);
	for (i = 0; i < 3; i++)
		sample(3);
	sample(4);
	for (i = 0; i < 3; i++)
		sample(0);
	EXPECT(queue(A)->rx_usecs == 100);
	sample(0);
	EXPECT(!queue(A)->rx_usecs);
	EXPECT(chosen(1000) == xway_dim_usecs(&queue(A)->dim));
	EXPECT(!chosen(1));
	return true;
}

/* What is in the ring when an end is taken down arrives at the other. */
static bool frames_rest(void)
{
	int i;

	for (i = 0; i < 5; i++)
		EXPECT(send(P, 3000));
	rtnl_lock();
	dev_close(port[P]->dev);
	rtnl_unlock();
	look(A);
	flush_workqueue(xway_core_wq);
	EXPECT(arrived[A] == 5 && !wrong[A] && !netif_carrier_ok(port[A]->dev));
	rtnl_lock();
	i = dev_open(port[P]->dev, NULL);
	rtnl_unlock();
	EXPECT(!i && live());
	return cross(A, 1000);
}

/* An end ends the channel. The other one knows only by its words until it looks. */
static void close_at(int which)
{
	struct xway_link *link = port[which]->link;

	mutex_lock(&link->lock);
	mm_port_close(port[which]);
	mutex_unlock(&link->lock);
}

/* What is written when the peer has stopped reading is taken back. It is no vif's: it is lost. */
static bool frames_back(void)
{
	u64 taken = count(A, MM_RX_PACKETS);
	int i;

	EXPECT(send(P, 3000));
	close_at(A);
	EXPECT(arrived[A] == 1 && !wrong[A] && count(A, MM_RX_PACKETS) == taken + 1);
	for (i = 0; i < 3; i++)
		EXPECT(send(P, 3000));
	EXPECT(count(P, MM_TX_PACKETS) == 4 && !count(P, MM_TX_LOST));
	look(P);
	flush_workqueue(xway_core_wq);
	EXPECT(count(P, MM_TX_LOST) == 3 && !count(P, MM_TX_BACK) && !count(P, MM_VIOLATIONS));
	EXPECT(!netif_carrier_ok(port[P]->dev) && live());
	return cross(P, 1000);
}

/* Both ends close at once: P does not know of A's CLOSE. */
static bool frames_back_both(void)
{
	close_at(A);
	EXPECT(send(P, 3000) && count(P, MM_TX_PACKETS) == 1);
	close_at(P);
	EXPECT(count(P, MM_TX_LOST) == 1 && !arrived[A] && live());
	/* An end that does not stop takes all, and then nothing is taken back. */
	EXPECT(send(P, 3000));
	close_at(P);
	look(A);
	flush_workqueue(xway_core_wq);
	EXPECT(count(P, MM_TX_LOST) == 1 && arrived[A] == 1 && !wrong[A] && live());
	return cross(P, 1000);
}

/* Does P's device leave a packet of segments whole for A? */
static bool whole(u32 type, u16 size, u8 sum)
{
	const netdev_features_t tso = NETIF_F_TSO | NETIF_F_TSO6;
	struct sk_buff *skb = alloc_skb(64, GFP_KERNEL);
	netdev_features_t left;

	if (!skb)
		return false;
	skb_shinfo(skb)->gso_type = type;
	skb_shinfo(skb)->gso_size = size;
	skb->ip_summed = sum;
	left = mm_tx_features(skb, port[P]->dev, tso);
	kfree_skb(skb);
	return left == tso;
}

/* What A would not take as segments is cut before. */
static bool frames_segments(void)
{
	EXPECT(whole(SKB_GSO_TCPV4, 1448, CHECKSUM_PARTIAL));
	EXPECT(whole(SKB_GSO_TCPV6, MM_TCP_SEGMENT, CHECKSUM_PARTIAL));
	EXPECT(!whole(SKB_GSO_TCPV4, MM_TCP_SEGMENT - 1, CHECKSUM_PARTIAL));
	EXPECT(!whole(SKB_GSO_TCPV4, 1448, CHECKSUM_UNNECESSARY));
	EXPECT(whole(SKB_GSO_UDP_L4, 100, CHECKSUM_PARTIAL) == !!XWAY_NETIF_F_USO);
	return true;
}

/* Has P's device packets of the socket? */
static bool holds(const struct sock *sk)
{
	return sk_wmem_alloc_get(sk);
}

static bool hold(struct sock *sk, struct sock *req)
{
	struct mm_words *own = queue(P)->ch->chan.own, *peer = queue(A)->ch->chan.own;
	u64 events = count(A, MM_RX_EVENTS), held;
	int i;

	/* What was asked for long ago is not to come. */
	own->want_room = queue(P)->prod + 0x7fffffff;
	/* What the peer finds alone is a request, and a long one is all that there is. */
	EXPECT(send_of(P, 100, sk) && !holds(sk));
	EXPECT(send_of(P, 40000, sk) && send_of(P, 100, sk) && !holds(sk));
	EXPECT(send_of(P, 100, sk) && holds(sk));
	/* When it has read them it says so. */
	poll(A);
	EXPECT(arrived[A] == 4 && !wrong[A] && count(A, MM_RX_EVENTS) == events + 1);
	poll(P);
	EXPECT(!holds(sk));
	/* This end looks as it writes, too. */
	EXPECT(send_of(P, 100, sk) && send_of(P, 100, sk) && holds(sk));
	poll(A);
	EXPECT(send(P, 100) && !holds(sk));
	/* The event about these was not a vain one. */
	WRITE_ONCE(queue(P)->news, false);
	EXPECT(send_of(P, 100, sk) && send_of(P, 100, sk) && holds(sk));
	poll(A);
	EXPECT(send(P, 100) && !holds(sk) && READ_ONCE(queue(P)->news));
	/* A peer that takes a byte now and then holds nothing. */
	EXPECT(send_of(P, 100, sk) && send_of(P, 100, sk) && holds(sk));
	for (i = 0; i < 12; i++) {
		spin_lock_bh(&queue(A)->rx_lock);
		peer->cons++;
		spin_unlock_bh(&queue(A)->rx_lock);
		msleep(100);
	}
	EXPECT(!holds(sk) && !queue(P)->stalled);
	spin_lock_bh(&queue(A)->rx_lock);
	peer->cons = queue(P)->prod;
	spin_unlock_bh(&queue(A)->rx_lock);
	/* Not that of a connection that has no others on the way, or of one that is none yet */
	tcp_sk(sk)->packets_out = 0;
	EXPECT(send_of(P, 100, sk) && !holds(sk));
	tcp_sk(sk)->packets_out = 1;
	held = count(P, MM_TX_HELD);
	EXPECT(send_of(P, 100, req) && count(P, MM_TX_HELD) == held);
	/* With the channel they end. */
	EXPECT(send_of(P, 100, sk) && holds(sk));
	close_at(P);
	EXPECT(!holds(sk) && live());
	return cross(P, 1000);
}

/* TCP's short packets are with the device until the peer has read them. */
static bool frames_held(void)
{
	struct tcp_request_sock *req;
	void *page = vzalloc(PAGE_SIZE);
	struct socket *sock;
	bool ok;

	EXPECT(page && !sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &sock));
	tcp_sk(sock->sk)->packets_out = 1;
	/* Behind it is nothing that could be read. */
	req = page + PAGE_SIZE - sizeof(*req);
	req->req.req.__req_common.skc_family = AF_INET;
	req->req.req.__req_common.skc_state = TCP_NEW_SYN_RECV;
	ok = hold(sock->sk, req_to_sk(&req->req.req));
	vfree(page);
	tcp_sk(sock->sk)->packets_out = 0;
	sock_release(sock);
	return ok;
}

const struct xway_test frames_tests[] = {
	{ "frames_lengths", frames_lengths, UP },
	{ "frames_full", frames_full, UP },
	{ "frames_lazy", frames_lazy, UP },
	{ "frames_few", frames_few, UP },
	{ "frames_segments", frames_segments, UP },
	{ "frames_stalled", frames_stalled, UP },
	{ "frames_held", frames_held, UP },
	{ "frames_rest", frames_rest, UP },
	{ "frames_back", frames_back, UP },
	{ "frames_back_both", frames_back_both, UP },
	{}
};
