/* SPDX-License-Identifier: GPL-2.0 */
/* Two devices that are each other's peer, up, with a channel; and frames of a known content. */
#ifndef _XWAY_MMNET_ENDS_H
#define _XWAY_MMNET_ENDS_H

#include "core/selftest/fake.h"
#include "core/selftest/test.h"
#include "net/mmnet.h"

extern const struct xway_test frames_tests[];
extern const struct xway_test lies_tests[];
extern const struct xway_test queues_tests[];

extern struct mm_port *port[2];	/* by P and A, see fake.h */
extern u32 flow;	/* of what is sent, or 0 */
extern u32 arrived[2], wrong[2];	/* frames of a known content, by where they came */

/* The first queue of an end's device */
static inline struct mm_queue *queue(int which)
{
	return &port[which]->queue[0];
}

bool ends_run(const struct xway_test *test);
void ends_end(void);
bool ends_nothing_left(void);

bool live(void);
void poll(int which);
bool send(int which, u32 len);
bool send_of(int which, u32 len, struct sock *sk);
u64 count(int which, enum mm_count what);

#endif /* _XWAY_MMNET_ENDS_H */
