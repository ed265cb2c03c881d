// SPDX-License-Identifier: GPL-2.0
/*
 * The queues of a device: how many there are, which of them a packet takes, and on which CPU
 * each is polled. So several CPUs can copy to a peer at once, and from it.
 */
#include "mmnet.h"

/* ndo_select_queue */
u16 mm_queue_select(struct net_device *dev, struct sk_buff *skb, struct net_device *sb_dev)
{
	return mm_queue_for(netdev_priv(dev), skb)->index;
}

/* A hard interrupt on the queue's CPU */
static void poll_here(void *info)
{
	struct mm_queue *q = info;

	/* First: what is posted from now on needs another poll. */
	smp_store_mb(q->sent, false);
	napi_schedule_irqoff(&q->napi);
}

/* As many online CPUs behind this one as the queue is behind the first */
static unsigned int cpu_of(const struct mm_queue *q)
{
	unsigned int cpu = smp_processor_id(), i;

	for (i = 0; i < q->index; i++) {
		cpu = cpumask_next(cpu, cpu_online_mask);
		if (cpu >= nr_cpu_ids)
			cpu = cpumask_first(cpu_online_mask);
	}
	return cpu;
}

/**
 * mm_queue_poll() - have a queue polled, soon, but the first one
 * @q: the queue
 *
 * All events of a link come on one CPU. There the first queue is polled, and each other one on
 * another CPU, as packets are by RPS (Documentation/networking/scaling.rst).
 *
 * Context: softirq.
 */
void mm_queue_poll(struct mm_queue *q)
{
	unsigned int cpu = cpu_of(q);

	if (cpu == smp_processor_id()) {
		napi_schedule(&q->napi);
	} else if (!xchg(&q->sent, true) && smp_call_function_single_async(cpu, &q->call)) {
		/* The CPU has gone. */
		WRITE_ONCE(q->sent, false);
		napi_schedule(&q->napi);
	}
}

/**
 * mm_queue_init_poll() - before the first mm_queue_poll()
 * @q: the queue
 */
void mm_queue_init_poll(struct mm_queue *q)
{
	INIT_CSD(&q->call, poll_here, q);
}

/**
 * mm_queue_exit_poll() - wait until mm_queue_poll() has done what it does
 * @q: the queue, for which nobody calls that any more
 *
 * Context: process.
 */
void mm_queue_exit_poll(struct mm_queue *q)
{
	/* A CPU takes its interrupts before it goes, so this ends. */
	while (READ_ONCE(q->sent))
		usleep_range(500, 1000);
	/* The caller waits for a grace period: the interrupt may still run. */
}

/**
 * mm_queues_set() - use another number of queues
 * @dev: the device
 * @nr: how many, 1 to as many as it has
 *
 * Those that are too many end, in order. There are no more than the peer uses, too.
 *
 * Context: process, RTNL held.
 * Return: 0, or a negative error number with nothing changed.
 */
int mm_queues_set(struct net_device *dev, unsigned int nr)
{
	struct mm_port *port = netdev_priv(dev);
	unsigned int old = port->nr_queues;
	int err = 0;

	ASSERT_RTNL();
	/* A packet takes no queue that the kernel does not know. */
	if (nr < old)
		mm_port_set_queues(port, nr);
	err = netif_set_real_num_queues(dev, nr, nr);
	if (err || nr > old)
		mm_port_set_queues(port, err ? old : nr);
	return err;
}
