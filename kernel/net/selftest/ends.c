// SPDX-License-Identifier: GPL-2.0
#include <linux/etherdevice.h>
#include <linux/rtnetlink.h>
#include <net/sch_generic.h>

#include "ends.h"

#define PROTOCOL 0x88b5	/* for experiments: IEEE 802 */
#define PATIENCE (5 * HZ)

struct mm_port *port[2];
u32 arrived[2], wrong[2], flow;
static u32 sent[2];
static bool registered;

static u8 byte_at(u32 len, u32 at)
{
	return len * 31 + at + (at >> 8);
}

static int receive(struct sk_buff *skb, struct net_device *dev, struct packet_type *type,
		   struct net_device *orig)
{
	int which = port[A] && dev == port[A]->dev ? A : P;
	u32 i;

	arrived[which]++;
	if (skb_linearize(skb)) {
		wrong[which]++;
	} else {
		for (i = 0; i < skb->len; i++)
			if (skb->data[i] != byte_at(skb->len, i))
				break;
		wrong[which] += i < skb->len;
	}
	kfree_skb(skb);
	return 0;
}

static struct packet_type type = {
	.type = cpu_to_be16(PROTOCOL),
	.func = receive,
};

static void forget(struct sk_buff *skb)
{
	skb->sk = NULL;
}

/* Send a frame of a known content, of so many bytes behind its Ethernet header, for a socket. */
bool send_of(int which, u32 len, struct sock *sk)
{
	struct net_device *dev = port[which]->dev;
	struct sk_buff *skb = alloc_skb(len + ETH_HLEN + LL_RESERVED_SPACE(dev), GFP_KERNEL);
	u32 i;

	if (!skb)
		return false;
	skb_reserve(skb, LL_RESERVED_SPACE(dev));
	skb->dev = dev;
	skb->protocol = htons(PROTOCOL);
	for (i = 0; i < len; i++)
		*(u8 *)skb_put(skb, 1) = byte_at(len, i);
	skb_reset_network_header(skb);
	dev_hard_header(skb, dev, PROTOCOL, dev->broadcast, NULL, len);
	if (flow)
		skb_set_hash(skb, flow, PKT_HASH_TYPE_L4);
	if (sk && sk_fullsock(sk)) {
		skb_set_owner_w(skb, sk);
	} else if (sk) {
		skb->sk = sk;
		skb->destructor = forget;
	}
	sent[which]++;
	dev_queue_xmit(skb);
	return true;
}

/* The same, for nobody */
bool send(int which, u32 len)
{
	return send_of(which, len, NULL);
}

u64 count(int which, enum mm_count what)
{
	return mm_device_count(port[which], what);
}

/* Let an end's device look at the ring. */
void poll(int which)
{
	unsigned int i;

	look(which);
	for (i = 0; i < MM_QUEUES; i++) {
		struct napi_struct *napi = &port[which]->queue[i].napi;

		local_bh_disable();
		napi_schedule(napi);
		local_bh_enable();
		napi_synchronize(napi);
	}
	flush_workqueue(xway_core_wq);
}

/* Wait for a channel between the two devices. */
bool live(void)
{
	unsigned long till = jiffies + PATIENCE;

	while (time_before(jiffies, till)) {
		bool ready = true;
		int i;

		for (i = 0; i < 2; i++) {
			queue(i)->began = jiffies - MM_RETRY;
			mod_delayed_work(xway_core_wq, &port[i]->tend, 0);
		}
		flush_workqueue(xway_core_wq);
		look(P);
		look(A);
		flush_workqueue(xway_core_wq);
		/* Until the kernel has seen the carrier, it drops what is sent. */
		for (i = 0; i < 2; i++)
			ready &= netif_carrier_ok(port[i]->dev) &&
				 !qdisc_tx_is_noop(port[i]->dev);
		if (ready)
			return true;
		usleep_range(500, 1000);
	}
	return false;
}

static bool begin(void)
{
	int i, err = 0;

	memset(arrived, 0, sizeof(arrived));
	memset(wrong, 0, sizeof(wrong));
	memset(sent, 0, sizeof(sent));
	EXPECT(!xway_client_register(&mm_client));
	registered = true;
	mm_set_nr_queues(MM_QUEUES);
	/* Nobody else knows these links, so nobody calls at once. */
	for (i = 0; i < 2; i++)
		mm_client.policy(&end(i)->pub, "");
	flush_workqueue(mm_wq);
	for (i = 0; i < 2; i++) {
		struct xway_link *link = &end(i)->pub;

		mutex_lock(&link->lock);
		port[i] = mm_port_of(link);
		mutex_unlock(&link->lock);
		EXPECT(port[i]);
	}
	dev_add_pack(&type);
	rtnl_lock();
	for (i = 0; i < 2; i++) {
		/* IPv6 leaves a device with so small an MTU alone. It would send by itself. */
		err = dev_set_mtu(port[i]->dev, ETH_MIN_MTU) ?: err;
		err = mm_queues_set(port[i]->dev, 1) ?: err;
		err = dev_open(port[i]->dev, NULL) ?: err;
	}
	rtnl_unlock();
	EXPECT(!err && live());
	return true;
}

/* Nobody but the test has sent anything, which would spoil a lie or hold up a frame. */
static bool alone(void)
{
	EXPECT(count(P, MM_TX_PACKETS) <= sent[P] && count(A, MM_TX_PACKETS) <= sent[A]);
	return true;
}

/* Set up a channel and run the test. */
bool ends_run(const struct xway_test *test)
{
	return begin() && test->run() && alone();
}

void ends_end(void)
{
	if (!registered)
		return;
	registered = false;
	mm_set_nr_queues(1);
	xway_client_unregister(&mm_client);
	mm_ports_exit();
	if (port[P] && port[A])
		dev_remove_pack(&type);
	port[P] = NULL;
	port[A] = NULL;
}

bool ends_nothing_left(void)
{
	return true;
}
