// SPDX-License-Identifier: GPL-2.0
/* MMNet as a client of the core. */
#include <linux/module.h>

#include "mmnet.h"
#include "selftest.h"

static uint ring_kib = 512;

static int set_ring_kib(const char *text, const struct kernel_param *param)
{
	unsigned int kib;
	int err = kstrtouint(text, 0, &kib);

	if (err || !mm_ring_kib_fits(kib)) {
		pr_err("mmnet: ring_kib=%.*s: must be a power of two from %u to %u\n",
		       (int)strcspn(text, "\n"), text, MM_RING_KIB_MIN, MM_RING_KIB_MAX);
		return -EINVAL;
	}
	WRITE_ONCE(ring_kib, kib);
	return 0;
}

static const struct kernel_param_ops ring_kib_ops = {
	.set = set_ring_kib,
	.get = param_get_uint,
};
module_param_cb(ring_kib, &ring_kib_ops, &ring_kib, 0644);
MODULE_PARM_DESC(ring_kib, "KiB of the ring to a peer, a power of two, for channels that begin later");

static uint queues = 1;

/**
 * mm_set_nr_queues() - have devices that are made later have so many queues
 * @nr: how many, 1 to MM_QUEUES
 *
 * Context: any.
 */
void mm_set_nr_queues(unsigned int nr)
{
	WRITE_ONCE(queues, nr);
}

static int set_queues(const char *text, const struct kernel_param *param)
{
	unsigned int nr;
	int err = kstrtouint(text, 0, &nr);

	if (err || !nr || nr > MM_QUEUES) {
		pr_err("mmnet: queues=%.*s: must be a number from 1 to %u\n",
		       (int)strcspn(text, "\n"), text, MM_QUEUES);
		return -EINVAL;
	}
	mm_set_nr_queues(nr);
	return 0;
}

static const struct kernel_param_ops queues_ops = {
	.set = set_queues,
	.get = param_get_uint,
};
module_param_cb(queues, &queues_ops, &queues, 0644);
MODULE_PARM_DESC(queues, "of a device that is made later, 1 to 4; the peer's end needs as many");

static bool local;
module_param(local, bool, 0444);
MODULE_PARM_DESC(local, "have devices for the transport local, too, for tests");

/**
 * mm_ring_kib_fits() - can a ring be of so many KiB?
 * @kib: their number
 *
 * Context: any.
 */
bool mm_ring_kib_fits(u32 kib)
{
	return is_power_of_2(kib) && kib >= MM_RING_KIB_MIN && kib <= MM_RING_KIB_MAX;
}

/**
 * mm_ring_kib() - KiB of the ring of a new channel, where its device has no number of its own
 *
 * Context: any.
 */
u32 mm_ring_kib(void)
{
	return READ_ONCE(ring_kib);
}

/**
 * mm_nr_queues() - how many queues a new device has
 *
 * Context: any.
 */
unsigned int mm_nr_queues(void)
{
	return READ_ONCE(queues);
}

/* Nothing is there for a link before domain 0 allows it. */
static int add_link(struct xway_link *link)
{
	return 0;
}

static void policy(struct xway_link *link, const char *text)
{
	if (local || !strstarts(link->name, "local:"))
		mm_ports_policy(link, text);
}

const struct xway_client mm_client = {
	.service = XWAY_SERVICE_NET,
	.name = "net",
	.add_link = add_link,
	.del_link = mm_ports_del_link,
	.policy = policy,
	.up = mm_port_up,
	.ctl = mm_port_ctl,
	.event = mm_port_event,
	.drain = mm_port_drain,
	.abort = mm_port_abort,
	.show = mm_netlink_show,
};

/* For what takes the RTNL. Unlike xway_core_wq, nothing waits for it while memory is short. */
struct workqueue_struct *mm_wq;

static int __init mm_init(void)
{
	int err;

	mm_wq = alloc_workqueue("mmnet", WQ_UNBOUND, 0);
	if (!mm_wq)
		return -ENOMEM;
	err = mm_selftest() ?: mm_vifs_init();
	if (err)
		goto err_wq;
	err = xway_client_register(&mm_client);
	if (err)
		goto err_shade;
	flush_workqueue(mm_wq);	/* who loads it finds the devices of today's peers */
	return 0;

err_shade:
	mm_vifs_exit();
err_wq:
	destroy_workqueue(mm_wq);
	return err;
}

static void __exit mm_exit(void)
{
	xway_client_unregister(&mm_client);
	mm_vifs_exit();
	mm_ports_exit();
	destroy_workqueue(mm_wq);
}

module_init(mm_init);
module_exit(mm_exit);

MODULE_DESCRIPTION("A network device to each co-resident domain through shared memory");
MODULE_VERSION(XWAY_VERSION);
MODULE_LICENSE("GPL");
