// SPDX-License-Identifier: GPL-2.0
/* Frames that honest ends exchange. */
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

const struct xway_test frames_tests[] = {
	{ "frames_lengths", frames_lengths, UP },
	{ "frames_full", frames_full, UP },
	{ "frames_rest", frames_rest, UP },
	{}
};
