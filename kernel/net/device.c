// SPDX-License-Identifier: GPL-2.0
/* The network device. It has a carrier while there is a channel. */
#include <linux/etherdevice.h>
#include <net/addrconf.h>

#include "mmnet.h"

/* Pages that are kept for later frames, besides PP_ALLOC_CACHE_SIZE that page_pool has at hand */
#define MM_POOL_PAGES 128

/**
 * mm_device_no_ipv6() - have IPv6 leave the device alone, or not any more
 * @port: what it keeps
 * @none: it is about to come up for vifs alone
 *
 * Else the kernel would give it an address, announce that to the peer, and send multicasts that
 * name no interface by it.
 *
 * Context: process, RTNL held.
 */
void mm_device_no_ipv6(struct mm_port *port, bool none)
{
#if IS_ENABLED(CONFIG_IPV6)
	struct inet6_dev *in6 = __in6_dev_get(port->dev);
	bool was = port->no_ipv6;

	/* An operator's own word stays: the device's, or what he has said of all meanwhile. */
	port->no_ipv6 = none && in6 && (was || !in6->cnf.disable_ipv6);
	if (!in6 || was == port->no_ipv6)
		return;
	WRITE_ONCE(in6->cnf.disable_ipv6,
		   none || READ_ONCE(dev_net(port->dev)->ipv6.devconf_dflt->disable_ipv6));
#endif
}

static int mm_open(struct net_device *dev)
{
	struct mm_port *port = netdev_priv(dev);

	unsigned int i;

	for (i = 0; i < port->max_queues; i++)
		napi_enable(&port->queue[i].napi);
	netif_tx_start_all_queues(dev);
	mm_port_set_up(port, true);
	return 0;
}

static int mm_stop(struct net_device *dev)
{
	struct mm_port *port = netdev_priv(dev);
	unsigned int i;

	/* What is in the peer's ring still comes in; nothing polls after that. */
	mm_port_set_up(port, false);
	/* Who brings it up again wants it for more than vifs. */
	WRITE_ONCE(port->ours, false);
	mm_device_no_ipv6(port, false);
	netif_tx_stop_all_queues(dev);
	for (i = 0; i < port->max_queues; i++)
		napi_disable(&port->queue[i].napi);
	return 0;
}

/**
 * mm_device_count() - what has been counted for all queues of a device
 * @port: what it keeps
 * @what: which counter
 *
 * Context: any.
 */
u64 mm_device_count(const struct mm_port *port, enum mm_count what)
{
	unsigned int i;
	u64 sum = 0;

	for (i = 0; i < port->max_queues; i++)
		sum += READ_ONCE(port->queue[i].count[what]);
	return sum;
}

static void mm_stats64(struct net_device *dev, struct rtnl_link_stats64 *stats)
{
	const struct mm_port *port = netdev_priv(dev);

	stats->tx_packets = mm_device_count(port, MM_TX_PACKETS);
	stats->tx_bytes = mm_device_count(port, MM_TX_BYTES);
	stats->tx_dropped = mm_device_count(port, MM_TX_DROPPED) +
			    mm_device_count(port, MM_TX_LOST);
	stats->rx_packets = mm_device_count(port, MM_RX_PACKETS);
	stats->rx_bytes = mm_device_count(port, MM_RX_BYTES);
	stats->rx_dropped = mm_device_count(port, MM_RX_NO_MEMORY);
	stats->rx_frame_errors = mm_device_count(port, MM_RX_BAD_HEADER);
	stats->rx_errors = stats->rx_frame_errors + mm_device_count(port, MM_VIOLATIONS);
}

static const struct net_device_ops mm_ops = {
	.ndo_open = mm_open,
	.ndo_stop = mm_stop,
	.ndo_start_xmit = mm_tx,
	.ndo_select_queue = mm_queue_select,
	.ndo_features_check = mm_tx_features,
	.ndo_get_stats64 = mm_stats64,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

static void mm_setup(struct net_device *dev)
{
	const netdev_features_t plain = NETIF_F_SG | NETIF_F_FRAGLIST | NETIF_F_HIGHDMA;
	/* No checksum is left out but those that describe() in rx.c finds by itself. */
	const netdev_features_t features =
		plain | NETIF_F_IP_CSUM | NETIF_F_IPV6_CSUM |
		NETIF_F_TSO | NETIF_F_TSO6 | NETIF_F_TSO_ECN | XWAY_NETIF_F_USO;

	ether_setup(dev);
	dev->netdev_ops = &mm_ops;
	dev->ethtool_ops = &mm_ethtool_ops;
	/* Who reads the ring looks at headers by itself: set_segments() in rx.c. */
	dev->features = features | NETIF_F_GSO_ROBUST;
	dev->hw_features = features;
	dev->vlan_features = plain;
	dev->min_mtu = ETH_MIN_MTU;
	dev->max_mtu = ETH_MAX_MTU;
	dev->mtu = ETH_MAX_MTU;
	/* The doorbell cannot be used in a hard interrupt. */
	dev->priv_flags |= IFF_LIVE_ADDR_CHANGE | IFF_LIVE_RENAME_OK | IFF_DISABLE_NETPOLL;
	eth_hw_addr_random(dev);
}

/**
 * mm_device_port() - what a device keeps
 * @dev: any device
 *
 * Context: any.
 * Return: NULL if the device is none of ours.
 */
struct mm_port *mm_device_port(struct net_device *dev)
{
	return dev->netdev_ops == &mm_ops ? netdev_priv(dev) : NULL;
}

static void queue_free(struct mm_queue *q)
{
	mm_queue_exit_poll(q);
	cancel_delayed_work_sync(&q->stall);
	cancel_delayed_work_sync(&q->held_work);
	mm_coalesce_exit(q);
	page_pool_destroy(q->pool);
}

static void queues_free(struct mm_port *port)
{
	unsigned int i;

	for (i = 0; i < port->max_queues; i++)
		queue_free(&port->queue[i]);
}

/* Return: 0, or a negative error number. queue_free() may follow in any case. */
static int queue_init(struct mm_queue *q, struct mm_port *port, unsigned int index)
{
	struct page_pool_params params = { .pool_size = MM_POOL_PAGES, .nid = NUMA_NO_NODE };
	struct page_pool *pool;

	q->port = port;
	q->txq = netdev_get_tx_queue(port->dev, index);
	q->index = index;
	q->began = jiffies - MM_RETRY;
	spin_lock_init(&q->rx_lock);
	INIT_DELAYED_WORK(&q->stall, mm_tx_stall);
	__skb_queue_head_init(&q->held);
	INIT_DELAYED_WORK(&q->held_work, mm_tx_held);
	mm_queue_init_poll(q);
	mm_coalesce_init(q);
	netif_napi_add(port->dev, &q->napi, mm_rx_poll);
	pool = page_pool_create(&params);
	if (IS_ERR(pool))
		return PTR_ERR(pool);
	q->pool = pool;
	return 0;
}

static int queues_init(struct mm_port *port)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < port->max_queues; i++)
		err = queue_init(&port->queue[i], port, i) ?: err;
	return err;
}

/**
 * mm_device_create() - make and register the device of a peer
 * @id: the peer's id
 *
 * Context: process; takes the RTNL.
 * Return: what the device keeps, or an error pointer.
 */
struct mm_port *mm_device_create(const char *id)
{
	unsigned int nr_queues = mm_nr_queues();
	struct net_device *dev;
	struct mm_port *port;
	int err;

	dev = alloc_netdev_mq(sizeof(*port), "mm%d", NET_NAME_ENUM, mm_setup, nr_queues);
	if (!dev)
		return ERR_PTR(-ENOMEM);
	port = netdev_priv(dev);
	port->dev = dev;
	strscpy(port->id, id, sizeof(port->id));
	mutex_init(&port->lock);
	INIT_DELAYED_WORK(&port->tend, mm_port_tend);
	INIT_LIST_HEAD(&port->pairs);
	skb_queue_head_init(&port->returned);
	INIT_WORK(&port->resend, mm_shade_resend);
	port->nr_queues = nr_queues;
	port->max_queues = nr_queues;
	err = queues_init(port);
	if (err)
		goto err_free;
	netif_carrier_off(dev);
	/* Its locks are taken under those of a vif, see shade.c. */
	netdev_lockdep_set_classes(dev);
	/* It says which peer this is, also to udev. The device is no worse without it. */
	dev_set_alias(dev, id, strlen(id));
	err = register_netdev(dev);
	if (!err)
		return port;

	dev_set_alias(dev, NULL, 0);
err_free:
	queues_free(port);
	free_netdev(dev);
	return ERR_PTR(err);
}

/**
 * mm_device_state() - the state of a device, for users
 * @port: what it keeps
 *
 * Context: any.
 * Return: "down" here, "waiting" for the peer's end, "stalled" since the peer does not read, or
 * "up".
 */
const char *mm_device_state(const struct mm_port *port)
{
	unsigned int i;

	if (!netif_running(port->dev))
		return "down";
	if (!netif_carrier_ok(port->dev))
		return "waiting";
	for (i = 0; i < port->max_queues; i++)
		if (READ_ONCE(port->queue[i].stalled))
			return "stalled";
	return "up";
}

/**
 * mm_device_destroy() - unregister and free a device
 * @port: what it keeps; it has no link, and gets none any more
 *
 * Context: process; takes the RTNL.
 */
void mm_device_destroy(struct mm_port *port)
{
	rtnl_lock();
	mm_pairs_set(port, NULL);
	unregister_netdevice(port->dev);
	rtnl_unlock();
	/* mm_port_event() may still run for the last channel. After that nothing queues work. */
	synchronize_rcu();
	cancel_delayed_work_sync(&port->tend);
	cancel_work_sync(&port->resend);
	queues_free(port);
	synchronize_rcu();	/* see mm_queue_exit_poll() */
	skb_queue_purge(&port->returned);
	kfree(port->policy);
	free_netdev(port->dev);
}
