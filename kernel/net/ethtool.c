// SPDX-License-Identifier: GPL-2.0
/* What ethtool shows of a device. */
#include "mmnet.h"

/*
 * The writer of TX_ counters holds the tx lock, that of RX_ counters @rx_lock (but for
 * RX_NO_PAIR: of two at a time one may get lost), that of the others, of TX_BACK and of
 * TX_LOST the link's lock, or it is the only one that has found @broken false.
 */
const char mm_count_names[MM_COUNTS][ETH_GSTRING_LEN] = {
	[MM_TX_PACKETS] = "tx_packets",
	[MM_TX_BYTES] = "tx_bytes",
	[MM_TX_DROPPED] = "tx_dropped",
	[MM_TX_PUBLISHED] = "tx_published",
	[MM_TX_EVENTS] = "tx_events",
	[MM_TX_STOPPED] = "tx_stopped",
	[MM_TX_STALLED] = "tx_stalled",
	[MM_TX_HELD] = "tx_held",
	[MM_TX_BACK] = "tx_back",
	[MM_TX_LOST] = "tx_lost",
	[MM_RX_PACKETS] = "rx_packets",
	[MM_RX_BYTES] = "rx_bytes",
	[MM_RX_POLLS] = "rx_polls",
	[MM_RX_EVENTS] = "rx_events",
	[MM_RX_NO_MEMORY] = "rx_no_memory",
	[MM_RX_BAD_HEADER] = "rx_bad_header",
	[MM_RX_NO_PAIR] = "rx_no_pair",
	[MM_OPENED] = "opened",
	[MM_VIOLATIONS] = "violations",
};

static void get_drvinfo(struct net_device *dev, struct ethtool_drvinfo *info)
{
	strscpy(info->driver, "mmnet", sizeof(info->driver));
	strscpy(info->version, XWAY_VERSION, sizeof(info->version));
}

/* What is shown for each queue, too */
static const enum mm_count of_queue[] = { MM_TX_PACKETS, MM_RX_PACKETS };

static int get_sset_count(struct net_device *dev, int set)
{
	const struct mm_port *port = netdev_priv(dev);

	if (set != ETH_SS_STATS)
		return -EOPNOTSUPP;
	return MM_COUNTS + port->max_queues * ARRAY_SIZE(of_queue);
}

static void get_strings(struct net_device *dev, u32 set, u8 *data)
{
	const struct mm_port *port = netdev_priv(dev);
	u8 *at = data + sizeof(mm_count_names);
	unsigned int i, j;

	if (set != ETH_SS_STATS)
		return;
	memcpy(data, mm_count_names, sizeof(mm_count_names));
	for (i = 0; i < port->max_queues; i++)
		for (j = 0; j < ARRAY_SIZE(of_queue); j++, at += ETH_GSTRING_LEN)
			snprintf(at, ETH_GSTRING_LEN, "queue%u_%s", i, mm_count_names[of_queue[j]]);
}

static void get_ethtool_stats(struct net_device *dev, struct ethtool_stats *stats, u64 *data)
{
	const struct mm_port *port = netdev_priv(dev);
	unsigned int i, j;

	for (i = 0; i < MM_COUNTS; i++)
		*data++ = mm_device_count(port, i);
	for (i = 0; i < port->max_queues; i++)
		for (j = 0; j < ARRAY_SIZE(of_queue); j++)
			*data++ = READ_ONCE(port->queue[i].count[of_queue[j]]);
}

static int get_coalesce(struct net_device *dev, struct ethtool_coalesce *c,
			struct kernel_ethtool_coalesce *kernel, struct netlink_ext_ack *extack)
{
	const struct mm_port *port = netdev_priv(dev);

	c->rx_coalesce_usecs = READ_ONCE(port->queue[0].rx_usecs);
	c->use_adaptive_rx_coalesce = port->adaptive;
	return 0;
}

#define NO_ADAPTIVE "adaptive-rx with several queues needs Linux 6.13 or later"

/* Would each queue choose the time of all? */
static bool adapts_all(bool adaptive, unsigned int nr_queues)
{
	return adaptive && nr_queues > 1 && !XWAY_NAPI_DEFERS_EACH;
}

static int set_coalesce(struct net_device *dev, struct ethtool_coalesce *c,
			struct kernel_ethtool_coalesce *kernel, struct netlink_ext_ack *extack)
{
	const struct mm_port *port = netdev_priv(dev);

	if (c->rx_coalesce_usecs > MM_USECS_MAX) {
		NL_SET_ERR_MSG_MOD(extack, "rx-usecs can be 0 to 1000");
		return -EINVAL;
	}
	if (c->use_adaptive_rx_coalesce && !XWAY_HAVE_DIM) {
		NL_SET_ERR_MSG_MOD(extack, "adaptive-rx needs a kernel with CONFIG_DIMLIB");
		return -EOPNOTSUPP;
	}
	if (adapts_all(c->use_adaptive_rx_coalesce, port->nr_queues)) {
		NL_SET_ERR_MSG_MOD(extack, NO_ADAPTIVE);
		return -EOPNOTSUPP;
	}
	mm_coalesce_set(netdev_priv(dev), c->rx_coalesce_usecs, c->use_adaptive_rx_coalesce);
	return 0;
}

/* A ring holds bytes: its entries are KiB. */
static void get_ringparam(struct net_device *dev, struct ethtool_ringparam *ring,
			  struct kernel_ethtool_ringparam *kernel, struct netlink_ext_ack *extack)
{
	ring->tx_max_pending = MM_RING_KIB_MAX;
	ring->rx_max_pending = MM_RING_KIB_MAX;
	mm_port_rings(netdev_priv(dev), &ring->tx_pending, &ring->rx_pending);
}

static int set_ringparam(struct net_device *dev, struct ethtool_ringparam *ring,
			 struct kernel_ethtool_ringparam *kernel, struct netlink_ext_ack *extack)
{
	struct mm_port *port = netdev_priv(dev);
	u32 kib, peer_kib;

	mm_port_rings(port, &kib, &peer_kib);
	/* A channel may have come or gone since ethtool has looked. */
	if (peer_kib && ring->rx_pending && ring->rx_pending != peer_kib) {
		NL_SET_ERR_MSG_MOD(extack, "rx is the peer's ring: set tx there");
		return -EINVAL;
	}
	if (!mm_ring_kib_fits(ring->tx_pending)) {
		NL_SET_ERR_MSG_MOD(extack, "tx is KiB, and can be a power of two from 128 on");
		return -EINVAL;
	}
	/* ethtool also sends what is not to change. */
	if (ring->tx_pending != kib)
		mm_port_set_ring(port, ring->tx_pending);
	return 0;
}

static void get_channels(struct net_device *dev, struct ethtool_channels *channels)
{
	const struct mm_port *port = netdev_priv(dev);

	channels->max_combined = port->max_queues;
	channels->combined_count = port->nr_queues;
}

/* ethtool has looked that it is 1 to as many as there are. */
static int set_channels(struct net_device *dev, struct ethtool_channels *channels)
{
	const struct mm_port *port = netdev_priv(dev);

	if (adapts_all(port->adaptive, channels->combined_count)) {
		netdev_err(dev, NO_ADAPTIVE "\n");
		return -EOPNOTSUPP;
	}
	return mm_queues_set(dev, channels->combined_count);
}

const struct ethtool_ops mm_ethtool_ops = {
	.supported_coalesce_params = ETHTOOL_COALESCE_RX_USECS | ETHTOOL_COALESCE_USE_ADAPTIVE_RX,
	.get_coalesce = get_coalesce,
	.set_coalesce = set_coalesce,
	.get_ringparam = get_ringparam,
	.set_ringparam = set_ringparam,
	.get_channels = get_channels,
	.set_channels = set_channels,
	.get_drvinfo = get_drvinfo,
	.get_link = ethtool_op_get_link,
	.get_ts_info = ethtool_op_get_ts_info,
	.get_sset_count = get_sset_count,
	.get_strings = get_strings,
	.get_ethtool_stats = get_ethtool_stats,
};
