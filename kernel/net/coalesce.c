// SPDX-License-Identifier: GPL-2.0
/*
 * How long an end waits for more packets. The peer sends an event only if it was asked to.
 * An end that has found packets may look again after a while and ask only if there are none
 * then: more packets share an event, a poll and what GRO makes of them, and those in between
 * wait. NAPI does that by itself, by @napi_defer_hard_irqs (Documentation/networking/napi.rst,
 * "IRQ mitigation"). The time is the operator's, or DIM adapts it to the load (net_dim.rst).
 * This is the aggregation of Bourguiba et al., "Packet aggregation based network I/O
 * virtualization": the ring is the container, released by this deadline, by a reader that has
 * nothing to do, or when it is full.
 */
#include "mmnet.h"

/*
 * DIM takes whatever changes the rate of packets and polls for an improvement, and so tries
 * long times also where hardly anything comes. A wait is worth its time if so many packets
 * share it. A few waits in a row that found less than half of that end the waiting.
 */
#define MM_WORTH	8
#define MM_VAIN		4

static void set(struct mm_queue *q, u32 usecs)
{
	WRITE_ONCE(q->rx_usecs, usecs);
	xway_napi_defer(&q->napi, usecs * (u64)NSEC_PER_USEC);
}

/* Work of @dim: it has chosen another level. */
static void adapt(struct work_struct *work)
{
	struct dim *dim = container_of(work, struct dim, work);
	struct mm_queue *q = container_of(dim, struct mm_queue, dim);
	u32 usecs = xway_dim_usecs(dim);

	if (usecs * dim->prev_stats.ppms < MM_WORTH * USEC_PER_MSEC)
		usecs = 0;
	/* A poll may have queued this while the operator set the time himself. */
	if (READ_ONCE(q->port->adaptive))
		set(q, usecs);
	dim->state = DIM_START_MEASURE;
}

/* Context: before the device is registered. */
void mm_coalesce_init(struct mm_queue *q)
{
	INIT_WORK(&q->dim.work, adapt);
}

/* Context: process, when nothing polls any more. */
void mm_coalesce_exit(struct mm_queue *q)
{
	cancel_work_sync(&q->dim.work);
}

/**
 * mm_coalesce_sample() - a poll has taken all that there was
 * @q: the queue
 * @taken: packets that it took
 *
 * Context: the poll, @rx_lock held.
 */
void mm_coalesce_sample(struct mm_queue *q, int taken)
{
	struct dim_sample sample = {};

	lockdep_assert_held(&q->rx_lock);
	if (!READ_ONCE(q->port->adaptive))
		return;
	if (!q->rx_usecs || taken >= MM_WORTH / 2)
		q->vain = 0;
	else if (++q->vain >= MM_VAIN)
		set(q, 0);	/* what adapt() sets meanwhile ends here as well */
	dim_update_sample(q->count[MM_RX_POLLS], q->count[MM_RX_PACKETS],
			  q->count[MM_RX_BYTES], &sample);
	xway_net_dim(&q->dim, &sample);
}

static void set_usecs(struct mm_queue *q, u32 usecs)
{
	/* What a poll queues after this finds @adaptive false. */
	cancel_work_sync(&q->dim.work);
	spin_lock_bh(&q->rx_lock);
	/* The work may not have run, and DIM waits for it. */
	q->dim.state = DIM_START_MEASURE;
	q->vain = 0;
	set(q, usecs);
	spin_unlock_bh(&q->rx_lock);
}

/**
 * mm_coalesce_set() - wait for packets from now on
 * @port: the port
 * @usecs: microseconds
 * @adaptive: DIM is to adapt them
 *
 * Context: process, RTNL held.
 */
void mm_coalesce_set(struct mm_port *port, u32 usecs, bool adaptive)
{
	unsigned int i;

	ASSERT_RTNL();
	WRITE_ONCE(port->adaptive, adaptive);
	for (i = 0; i < port->max_queues && !adaptive; i++)
		set_usecs(&port->queue[i], usecs);
}
