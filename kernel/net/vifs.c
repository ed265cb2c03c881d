// SPDX-License-Identifier: GPL-2.0
/*
 * Which vifs there are. netfront has no place for another way to send, so the table of
 * functions of a vif is replaced by a copy with other ones. All of this holds the RTNL.
 */
#include <linux/delay.h>
#include <linux/slab.h>
#include <net/net_namespace.h>
#ifdef CONFIG_XEN
#include <xen/xenbus.h>
#endif

#include "shade.h"

#define LEAVE	(HZ / 10)	/* until the peer knows that a vif takes its packets no more */

DEFINE_HASHTABLE(mm_shades, MM_SHADES_BITS);

static void work_fn(struct work_struct *work)
{
	rtnl_lock();
	mm_ports_shade();
	rtnl_unlock();
}

static DECLARE_DELAYED_WORK(shade_work, work_fn);

/**
 * mm_vifs_soon() - something has changed: look again which vifs to take packets of
 *
 * Context: any.
 */
void mm_vifs_soon(void)
{
	mod_delayed_work(mm_wq, &shade_work, 0);
}

/**
 * mm_vifs_look() - look again after a while, unless a look is due anyway
 * @delay: in jiffies
 *
 * Context: any.
 */
void mm_vifs_look(unsigned long delay)
{
	queue_delayed_work(mm_wq, &shade_work, delay);
}

/* Which vif is the device? Return: false if it is none. */
static bool vif_of(const struct net_device *dev, struct mm_vif *vif)
{
#ifdef CONFIG_XEN
	const struct device *parent = dev->dev.parent;
	const char *name;

	if (!parent || !parent->bus || !strstarts(parent->bus->name, "xen"))
		return false;
	name = container_of(parent, struct xenbus_device, dev)->nodename;
	vif->domid = 0;
	return (sscanf(name, "device/vif/%u", &vif->number) == 1 ||
		sscanf(name, "backend/vif/%u/%u", &vif->domid, &vif->number) == 2) &&
	       vif->number < MM_VIFS;
#else
	return false;
#endif
}

static bool same_vif(const struct mm_vif *a, const struct mm_vif *b)
{
	return a->domid == b->domid && a->number == b->number;
}

static struct mm_shade *shade_find(const struct mm_vif *vif)
{
	struct mm_shade *s;
	int i;

	hash_for_each(mm_shades, i, s, node)
		if (same_vif(&s->vif, vif))
			return s;
	return NULL;
}

/**
 * mm_vifs_taking() - which vifs take packets of a peer
 * @port: the peer's
 *
 * Context: process, RTNL held.
 * Return: a bit for the number of each.
 */
u32 mm_vifs_taking(const struct mm_port *port)
{
	const struct mm_pair *p;
	u32 vifs = 0;

	list_for_each_entry(p, &port->pairs, far)
		if (p->named && mm_shade_takes(p->shade) && !p->shade->leaving)
			vifs |= BIT(p->shade->vif.number);
	return vifs;
}

/* Have all peers know what a vif takes from now on. Return: whether there are any. */
static bool tell_peers(struct mm_shade *s)
{
	struct mm_pair *p;
	int i;

	hash_for_each(s->pairs, i, p, near)
		mm_port_set_vifs(p->port, mm_vifs_taking(p->port));
	return !hash_empty(s->pairs);
}

/* A program of the generic mode sees what comes by us, too. */
static bool has_xdp(const struct net_device *dev)
{
	return dev->xdp_state[XDP_MODE_DRV].prog || dev->xdp_state[XDP_MODE_DRV].link;
}

/* ndo_bpf of the vif; RTNL held */
static int shade_bpf(struct net_device *dev, struct netdev_bpf *bpf)
{
	bool attach = bpf->command == XDP_SETUP_PROG && bpf->prog;
	struct mm_shade *s = mm_shade_of(dev);
	bool told = false;
	int err;

	if (!s)
		return -ENODEV;
	if (attach && mm_shade_takes(s)) {
		s->leaving = true;
		told = tell_peers(s);
	}
	err = s->orig->ndo_bpf(dev, bpf);
	/* Nobody can tell what came before the program from what peers send until they know. */
	if (told && !err)
		msleep(jiffies_to_msecs(LEAVE));
	if (bpf->command == XDP_SETUP_PROG) {
		WRITE_ONCE(s->xdp, err ? has_xdp(dev) : !!bpf->prog);
		s->leaving = false;
		mm_vifs_soon();
	}
	return err;
}

static struct mm_shade *shade_add(struct net_device *dev, const struct mm_vif *vif)
{
	struct mm_shade *s = kzalloc(sizeof(*s), GFP_KERNEL);

	if (s)
		s->stats = netdev_alloc_pcpu_stats(struct pcpu_sw_netstats);
	if (!s || !s->stats) {
		kfree(s);
		mm_vifs_look(HZ);	/* by then there may be memory */
		return NULL;
	}
	hash_init(s->pairs);
	s->dev = dev;
	s->vif = *vif;
	s->xdp = has_xdp(dev);
	s->orig = dev->netdev_ops;
	s->ops = *s->orig;
	s->ops.ndo_start_xmit = mm_shade_xmit;
	s->ops.ndo_get_stats64 = mm_shade_stats;
	if (s->ops.ndo_bpf)
		s->ops.ndo_bpf = shade_bpf;
	netdev_hold(dev, &s->tracker, GFP_KERNEL);
	hash_add_rcu(mm_shades, &s->node, mm_dev_key(dev));
	/* Whoever comes by @ops finds the shade. */
	smp_store_release(&dev->netdev_ops, &s->ops);
	return s;
}

/**
 * mm_vifs_get() - find or make the shade of a vif
 * @vif: the vif's name
 *
 * Context: process, RTNL held.
 * Return: NULL if there is no such vif, or no memory.
 */
struct mm_shade *mm_vifs_get(const struct mm_vif *vif)
{
	struct mm_shade *s = shade_find(vif);
	struct net_device *dev;
	struct mm_vif other;

	if (s)
		return s;
	for_each_netdev(&init_net, dev)
		if (vif_of(dev, &other) && same_vif(&other, vif) &&
		    dev->reg_state == NETREG_REGISTERED)
			return shade_add(dev, vif);
	return NULL;
}

/* Shades that nobody finds any more */
static LLIST_HEAD(forgotten);

/*
 * Work: free them. Some look at a device's operations without RCU: netfront tells of its
 * carrier without RTNL, and the kernel then loads netdev_ops, and a function of it. Whoever
 * has done so has left our table by the time at which each task has slept or run elsewhere.
 */
static void bury(struct work_struct *work)
{
	struct llist_node *list = llist_del_all(&forgotten);
	struct mm_shade *s, *next;

	synchronize_rcu_tasks();
	llist_for_each_entry_safe(s, next, list, forgotten)
		kfree(s);
}

static DECLARE_WORK(bury_work, bury);

/* A vif goes, or the module: nobody uses it by us when this returns. */
static void forget(struct mm_shade *s)
{
	struct mm_pair *p, *gone = NULL;
	struct hlist_node *next;
	int i;

	hash_for_each_safe(s->pairs, i, next, p, near) {
		mm_pair_unlink(p);
		p->gone = gone;
		gone = p;
	}
	synchronize_net();	/* one for all of them */
	while ((p = gone)) {
		gone = p->gone;
		mm_shade_flush(p->port);
		kfree(p);
	}
	WRITE_ONCE(s->dev->netdev_ops, s->orig);
	/* Whoever has come by @ops finds the shade, and is done when this returns. */
	synchronize_net();
	hash_del_rcu(&s->node);
	/* Those that look for another one may be looking at it. */
	synchronize_net();
	netdev_put(s->dev, &s->tracker);
	free_percpu(s->stats);
	/* That wait is too long for RTNL. */
	llist_add(&s->forgotten, &forgotten);
	queue_work(mm_wq, &bury_work);
}

static int notified(struct notifier_block *nb, unsigned long event, void *ptr)
{
	struct net_device *dev = netdev_notifier_info_to_dev(ptr);
	struct mm_port *port = mm_device_port(dev);
	struct mm_shade *s;
	struct mm_vif vif;

	/* What waits in its queue goes by its vif. Later the kernel would drop it. */
	if (port && event == NETDEV_GOING_DOWN)
		mm_port_set_up(port, false);
	if (!vif_of(dev, &vif))
		return NOTIFY_DONE;
	s = shade_find(&vif);
	switch (event) {
	case NETDEV_UNREGISTER:
		if (s && s->dev == dev)
			forget(s);
		fallthrough;
	case NETDEV_REGISTER:
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
		mm_vifs_soon();
	}
	return NOTIFY_DONE;
}

static struct notifier_block netdev_nb = { .notifier_call = notified };

/* Context: initialization, before there is a port. Return: 0 or a negative errno. */
int mm_vifs_init(void)
{
	return register_netdevice_notifier(&netdev_nb);
}

/* Context: process, when no port has a link any more. The notifier hears that all vifs go. */
void mm_vifs_exit(void)
{
	unregister_netdevice_notifier(&netdev_nb);
	cancel_delayed_work_sync(&shade_work);
	flush_work(&bury_work);
}
