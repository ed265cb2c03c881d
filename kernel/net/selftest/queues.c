// SPDX-License-Identifier: GPL-2.0
/* Several queues: how many are used, and what goes by which. */
#include <linux/rtnetlink.h>

#include "ends.h"

#define PATIENCE (5 * HZ)

static int use(int which, unsigned int nr)
{
	int err;

	rtnl_lock();
	err = mm_queues_set(port[which]->dev, nr);
	rtnl_unlock();
	return err;
}

/* Wait until both ends use so many queues. */
static bool used(unsigned int nr)
{
	unsigned long till = jiffies + PATIENCE;
	unsigned int i;

	while (time_before(jiffies, till)) {
		flush_workqueue(xway_core_wq);
		look(P);
		look(A);
		flush_workqueue(xway_core_wq);
		if (port[P]->live == nr && port[A]->live == nr)
			return true;
		for (i = 0; i < MM_QUEUES; i++) {
			port[P]->queue[i].began = jiffies - MM_RETRY;
			port[A]->queue[i].began = jiffies - MM_RETRY;
		}
		mod_delayed_work(xway_core_wq, &port[P]->tend, 0);
		mod_delayed_work(xway_core_wq, &port[A]->tend, 0);
		usleep_range(500, 1000);
	}
	return false;
}

static u64 went_by(unsigned int index)
{
	return READ_ONCE(port[P]->queue[index].count[MM_TX_PACKETS]);
}

/* P sends a frame of the flow that takes this one of so many queues. */
static bool send_by(unsigned int index, unsigned int nr)
{
	u64 before = went_by(index);
	bool ok;

	flow = (u32)(((u64)index << 32) / nr) + 100;
	ok = send(P, 3000) && went_by(index) == before + 1;
	flow = 0;
	return ok;
}

/* Each flow has its queue, of as many as both ends use. What is in one that ends arrives. */
static bool queues_flows(void)
{
	unsigned int i;

	EXPECT(port[P]->live == 1 && send_by(0, 1));
	EXPECT(!use(P, 3) && !use(A, 4) && used(3));
	for (i = 0; i < 3; i++)
		EXPECT(send_by(i, 3));
	poll(A);
	EXPECT(arrived[A] == 4);
	for (i = 0; i < 3; i++)
		EXPECT(send_by(i, 3));
	EXPECT(!use(A, 1) && arrived[A] == 6 && port[A]->live == 1);
	/* P does not know yet, and what it writes then is nobody's. */
	EXPECT(send_by(2, 3));
	EXPECT(used(1) && count(P, MM_TX_LOST) == 1 && !count(P, MM_TX_DROPPED));
	EXPECT(send_by(0, 1) && netif_carrier_ok(port[P]->dev));
	EXPECT(!use(A, 2) && used(2) && send_by(1, 2));
	poll(A);
	EXPECT(arrived[A] == 9 && !wrong[A]);
	EXPECT(!count(P, MM_VIOLATIONS) && !count(A, MM_VIOLATIONS));
	return true;
}

/* The others end with the first, and come back with it. */
static bool queues_down(void)
{
	int err;

	EXPECT(!use(P, 2) && !use(A, 2) && used(2) && send_by(1, 2));
	rtnl_lock();
	dev_close(port[P]->dev);
	rtnl_unlock();
	EXPECT(used(0) && arrived[A] == 1 && !wrong[A] && !netif_carrier_ok(port[A]->dev));
	rtnl_lock();
	err = dev_open(port[P]->dev, NULL);
	rtnl_unlock();
	EXPECT(!err && live() && used(2) && send_by(1, 2) && send_by(0, 2));
	poll(A);
	EXPECT(arrived[A] == 3 && !wrong[A]);
	return true;
}

/* A peer that breaks the rules of one queue loses that one, and may ask for it again. */
static bool queues_broken(void)
{
	EXPECT(!use(P, 2) && !use(A, 2) && used(2));
	mm_port_broken(&port[P]->queue[1]);
	flush_workqueue(xway_core_wq);
	EXPECT(port[P]->live == 1 && netif_carrier_ok(port[P]->dev) && send_by(0, 1));
	poll(A);
	EXPECT(arrived[A] == 1 && used(2) && send_by(1, 2));
	poll(A);
	EXPECT(arrived[A] == 2 && !wrong[A]);
	return true;
}

/* A names a queue that there is not, or that P does not use. */
static bool queues_lies(void)
{
	static const unsigned int indices[] = { 1, MM_QUEUES, MM_QUEUES + 1, U32_MAX - 1 };
	struct mm_queue *liar = &port[A]->queue[1];
	unsigned int i;

	EXPECT(!use(A, 2) && used(1));
	for (i = 0; i < ARRAY_SIZE(indices); i++) {
		u64 opened = count(P, MM_OPENED);

		mutex_lock(&port[A]->link->lock);
		liar->index = indices[i];
		port[A]->nr_queues = U32_MAX;
		mutex_unlock(&port[A]->link->lock);
		liar->began = jiffies - MM_RETRY;
		/* It asks in turn as each of its queues. */
		mod_delayed_work(xway_core_wq, &port[A]->tend, 0);
		flush_workqueue(xway_core_wq);
		EXPECT(liar->ch && liar->ch->state == MM_OPENING);
		look(P);
		flush_workqueue(xway_core_wq);
		look(A);
		flush_workqueue(xway_core_wq);
		EXPECT(!liar->ch && count(P, MM_OPENED) == opened && port[P]->live == 1);
	}
	mutex_lock(&port[A]->link->lock);
	liar->index = 1;
	port[A]->nr_queues = 2;
	mutex_unlock(&port[A]->link->lock);
	EXPECT(used(1) && send_by(0, 1));
	poll(A);
	EXPECT(arrived[A] == 1 && !wrong[A]);
	return true;
}

/* An older module has one queue, and is asked for no other. */
static bool queues_older(void)
{
	mutex_lock(&port[P]->link->lock);
	queue(P)->ch->features &= ~MM_FEATURE_QUEUES;
	mutex_unlock(&port[P]->link->lock);
	EXPECT(!use(P, 2));
	flush_workqueue(xway_core_wq);
	EXPECT(!port[P]->queue[1].ch && port[P]->live == 1 && used(1));
	return true;
}

const struct xway_test queues_tests[] = {
	{ "queues_flows", queues_flows, UP },
	{ "queues_down", queues_down, UP },
	{ "queues_broken", queues_broken, UP },
	{ "queues_lies", queues_lies, UP },
	{ "queues_older", queues_older, UP },
	{}
};
