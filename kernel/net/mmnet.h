/* SPDX-License-Identifier: GPL-2.0 */
/*
 * MMNet: a network device for each peer, over a channel of its own. (Fido, USENIX ATC
 * 2009, section 4.1)
 *
 * The ring of a channel holds records: a struct mm_record, a frame, and padding to the
 * record's alignment. The writer publishes whole records. It copies a frame into its
 * own ring, and the reader copies it out again: so what the reader's kernel checks and
 * keeps cannot change, and a slow reader keeps no page of the peer.
 *
 * A device is its peer's, by the peer's id, and outlives the link: a peer that was saved
 * or migrated comes back by another one.
 *
 * Locks, each taken under those before it:
 *	the RTNL		devices go up and down, vifs come and go
 *	mm_ports_lock		the list of ports
 *	mm_port's @lock		which link it has
 *	a link's @lock		channels begin and end
 *	mm_queue's @rx_lock	who reads the peer's ring holds it
 *	the queue's tx lock	who writes the own ring holds it
 */
#ifndef _XWAY_MMNET_H
#define _XWAY_MMNET_H

#include <linux/dim.h>
#include <linux/ethtool.h>
#include <linux/netdevice.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/virtio_net.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "core/core.h"
#include "core/ring.h"

#define MM_LEN_MAX	(65535u + VLAN_ETH_HLEN)	/* bytes of a frame */
#define MM_ALIGN	16u
#define MM_RECORD_MAX	ALIGN(sizeof(struct mm_record) + MM_LEN_MAX, MM_ALIGN)
#define MM_TCP_SEGMENT	8u	/* bytes of a segment, at least: TCP_MIN_SND_MSS without options */
#define MM_QUEUES	4u	/* of a device, at most; see also the parameter queues */
#define MM_PAGES_MIN	32u	/* of a ring: one record is read, another is written */
#define MM_PAGES_MAX	XWAY_RING_PAGES_MAX
#define MM_PAGE_KIB	((u32)(PAGE_SIZE / 1024))
#define MM_RING_KIB_MIN	(MM_PAGES_MIN * MM_PAGE_KIB)
#define MM_RING_KIB_MAX	(MM_PAGES_MAX * MM_PAGE_KIB)

#ifndef MM_RETRY	/* see Kbuild */
#define MM_RETRY	HZ	/* between two channels, and after an error */
#endif

/* Own words: the writer's of the own ring, the reader's of the peer's */
struct mm_words {
	u32 prod;
	u32 want_room;

	u32 cons __aligned(64);
	u32 want_data;
	u32 vifs;	/* bits: of these vifs the reader takes packets, see pairs.c */
	u32 lazy;	/* the reader waits for more: see coalesce.c */
	u32 stop;	/* MM_STOP* */
};

/* Of the reader's @stop, which older modules leave 0. Who stops writing looks at it. */
enum {
	MM_STOPS = 1,	/* takes what was written before this, and perhaps more */
	MM_STOPPED,	/* takes nothing any more: @cons is the last */
};

static_assert(sizeof(struct mm_words) <= XWAY_WORDS_SIZE);

/**
 * struct mm_record - what precedes a frame in the ring
 * @len: bytes of the frame, ETH_HLEN to MM_LEN_MAX
 * @hdr: checksum and segmentation, in native byte order (virtio 1.2, section 5.1.6)
 * @pad: zero
 *
 * A record begins at a multiple of MM_ALIGN, so this does not cross a page.
 */
struct mm_record {
	u32 len;
	struct virtio_net_hdr hdr;
	u16 pad;
};

static_assert(sizeof(struct mm_record) == MM_ALIGN);

/* Bits of @features in struct mm_hello */
#define MM_FEATURE_USO	BIT(0)	/* VIRTIO_NET_HDR_GSO_UDP_L4 may come */
#define MM_FEATURE_QUEUES BIT(1)	/* @queue may be other than 0 */

/**
 * struct mm_hello - the body of OPEN and ACCEPT
 * @features: what the sender of the message can receive
 * @queue: which queue of the device the channel is; older modules leave it 0
 */
struct mm_hello {
	u32 features;
	u32 queue;
};

static_assert(sizeof(struct mm_hello) <= sizeof_field(struct xway_ctl, body));

enum mm_state {
	MM_OPENING,	/* this end has sent OPEN */
	MM_LIVE,	/* the peer's half is mapped */
};

struct mm_chan {
	struct xway_chan chan;
	struct mm_queue *queue;
	enum mm_state state;	/* under the link's lock */
	u32 size;		/* bytes of the own ring */
	u32 peer_size;		/* bytes of the peer's ring */
	u32 features;		/* of the peer, see struct mm_hello */
	struct rcu_head rcu;
	void *ring[MM_PAGES_MAX];
	void *peer_ring[MM_PAGES_MAX];
};

/* What a device counts. Each has one writer at a time, named in ethtool.c. */
enum mm_count {
	MM_TX_PACKETS,
	MM_TX_BYTES,
	MM_TX_DROPPED,
	MM_TX_PUBLISHED,
	MM_TX_EVENTS,
	MM_TX_STOPPED,
	MM_TX_STALLED,
	MM_TX_HELD,
	MM_TX_BACK,
	MM_TX_LOST,
	MM_RX_PACKETS,
	MM_RX_BYTES,
	MM_RX_POLLS,
	MM_RX_EVENTS,
	MM_RX_NO_MEMORY,
	MM_RX_BAD_HEADER,
	MM_RX_NO_PAIR,
	MM_OPENED,
	MM_VIOLATIONS,
	MM_COUNTS
};

/**
 * struct mm_queue - a queue of a device: one channel, its rings, and the poll of the peer's
 * @port: the device's
 * @txq: what the kernel keeps of it for sending, with the tx lock
 * @index: which of its queues. The first has the carrier, and the words about vifs; the others
 *	are there as long as it is.
 * @stalled: the peer has read too little for long, so packets go another way; read for each
 *	packet that leaves a vif, written under the tx lock
 * @emptied: the channel is about to end: what waits here goes another way; written under the
 *	tx lock, or by let_go()
 * @broken: the peer has broken the rules of the channel
 * @ch: the channel, or NULL; under the link's lock
 * @began: when the last channel began, in jiffies; under the link's lock
 * @call: has it polled by another CPU, and @sent: that is on its way
 * @count: see enum mm_count
 * @dim: adapts @rx_usecs, if the device is adaptive
 * @napi: reads the peer's ring
 * @news: a poll has found something since the last event
 * @vain: waits in a row that found few packets; under @rx_lock
 * @rx_usecs: microseconds that this end waits for more packets; under the RTNL, or while the
 *	device is adaptive written by @dim's work
 * @rx_lock: see the top of this file
 * @peer_prod: what the peer's words said last of what it has written; under @rx_lock
 * @rx: the channel while the peer's ring may be read, or NULL; written under @rx_lock
 * @pool: recycles pages of received frames
 * @tx: the channel while the own ring may be written, or NULL; written under the tx lock
 * @prod: bytes written into the own ring, published or not; under the tx lock
 * @cons: what the peer said last that it has read of these, and @taken, the same since the
 *	channel began without going round; as @prod
 * @behind_since: since when it is watched how much a peer takes for which packets wait, in
 *	jiffies, and @behind_bytes, what it had taken by then; under the tx lock
 * @stalled_at: when @stalled was set last, in jiffies, and @strikes, how often lately; under
 *	the tx lock
 * @stall: sets @stalled
 * @held: packets that the peer has not read, see held.c; under the tx lock, but for the poll's
 *	look whether there are some
 * @held_work: frees those that are held for long
 * @after_short: the last packet was short, but for acknowledgements; under the tx lock
 */
struct mm_queue {
	struct mm_port *port;
	struct netdev_queue *txq;
	unsigned int index;
	bool stalled;
	bool emptied;
	bool broken;
	struct mm_chan *ch;
	unsigned long began;
	bool sent;
	call_single_data_t call;
	u64 count[MM_COUNTS];
	struct dim dim;

	struct napi_struct napi ____cacheline_aligned_in_smp;
	bool news;
	u8 vain;
	u32 rx_usecs;
	spinlock_t rx_lock;	/* see the top of this file */
	u32 peer_prod;
	struct mm_chan *rx;
	struct page_pool *pool;

	struct mm_chan *tx ____cacheline_aligned_in_smp;
	u32 prod;
	u32 cons;
	u64 taken;
	u8 strikes;
	unsigned long behind_since;
	u64 behind_bytes;
	unsigned long stalled_at;
	struct delayed_work stall;
	struct sk_buff_head held;
	struct delayed_work held_work;
	bool after_short;
};

/**
 * struct mm_port - what a device keeps: its end of the channels to one peer
 * @dev: the device, whose private part this is
 * @peer_vifs: what the peer's words said last; written under the first queue's @rx_lock, read
 *	for each packet that leaves a vif, by any CPU
 * @live: how many of the queues can be used now; written under the link's lock
 * @adaptive: see coalesce.c; under the RTNL
 * @node: in the list of ports
 * @id: the peer's id, see xway_peer_id()
 * @lock: see the top of this file
 * @link: the link, a reference, or NULL while there is none; written under @lock and the
 *	link's lock
 * @policy: what domain 0 says of the two domains' vifs, doc/xenstore.md; under
 *	mm_ports_lock
 * @linger: destroys the device when there has been no link for long
 * @up: the device is up; written under @lock, and the link's lock if there is a link
 * @vifs: what the own words are to say; as @up
 * @nr_queues: how many queues are to be used; as @up
 * @max_queues: how many it has
 * @ring_kib: KiB of an own ring, for channels that begin later; 0: the module's; as @up
 * @tend: opens channels, and ends broken ones
 * @pairs: vifs of which packets are taken: see shade.h
 * @opened: the module has brought up the device; once, and under the RTNL
 * @ours: it did so last, so the device takes nothing but what is for vifs
 * @no_ipv6: it has turned IPv6 off there
 * @returned: packets that go by their vif after all, and @resend, which sends them
 * @queue: its queues
 */
struct mm_port {
	struct net_device *dev;
	u32 peer_vifs;
	unsigned int live;
	bool adaptive;
	struct list_head node;
	char id[XWAY_PEER_ID];
	struct mutex lock;	/* see the top of this file */
	struct xway_link *link;
	char *policy;
	struct delayed_work linger;
	bool up;
	u32 vifs;
	unsigned int nr_queues;
	unsigned int max_queues;
	u32 ring_kib;
	struct delayed_work tend;
	struct list_head pairs;
	bool opened;
	bool ours;
	bool no_ipv6;
	struct sk_buff_head returned;
	struct work_struct resend;
	struct mm_queue queue[MM_QUEUES];
};

static inline void mm_add(struct mm_queue *q, enum mm_count what, u64 n)
{
	WRITE_ONCE(q->count[what], q->count[what] + n);
}

/**
 * mm_queue_for() - the queue that a packet takes
 * @port: the port
 * @skb: the packet, to be sent
 *
 * The packets of a flow take the same, as long as it is there: so they stay in order.
 *
 * Context: any but hard interrupts.
 */
static inline struct mm_queue *mm_queue_for(struct mm_port *port, struct sk_buff *skb)
{
	unsigned int live = READ_ONCE(port->live);

	if (likely(live <= 1))
		return &port->queue[0];
	return &port->queue[reciprocal_scale(skb_get_hash(skb), live)];
}

/* Bytes of a record with a frame of @len */
static inline u32 mm_space(u32 len)
{
	return ALIGN(sizeof(struct mm_record) + len, MM_ALIGN);
}

/* main.c */
extern struct workqueue_struct *mm_wq;
extern const struct xway_client mm_client;
u32 mm_ring_kib(void);
bool mm_ring_kib_fits(u32 kib);
unsigned int mm_nr_queues(void);
void mm_set_nr_queues(unsigned int nr);

/* device.c */
struct mm_port *mm_device_create(const char *id);
void mm_device_destroy(struct mm_port *port);
struct mm_port *mm_device_port(struct net_device *dev);
const char *mm_device_state(const struct mm_port *port);
u64 mm_device_count(const struct mm_port *port, enum mm_count what);
void mm_device_no_ipv6(struct mm_port *port, bool none);

/* ports.c: which link has which device */
void mm_ports_policy(struct xway_link *link, const char *text);
void mm_ports_del_link(struct xway_link *link);
void mm_ports_shade(void);
void mm_ports_exit(void);

/* port.c: the life of a channel */
struct mm_port *mm_port_of(struct xway_link *link);
void mm_port_broken(struct mm_queue *q);
void mm_port_set_up(struct mm_port *port, bool up);
void mm_port_set_vifs(struct mm_port *port, u32 vifs);
void mm_port_set_queues(struct mm_port *port, unsigned int nr);
void mm_port_set_ring(struct mm_port *port, u32 kib);
void mm_port_rings(struct mm_port *port, u32 *kib, u32 *peer_kib);
void mm_port_close(struct mm_port *port);
void mm_port_tend(struct work_struct *work);
bool mm_port_ctl(struct xway_link *link, struct xway_chan *chan, const struct xway_ctl *msg);
bool mm_port_event(struct xway_chan *chan);
void mm_port_up(struct xway_link *link);
void mm_port_drain(struct xway_link *link);
void mm_port_abort(struct xway_link *link, bool dead);

/* pairs.c: which vifs are on one bridge; vifs.c: those of this domain; shade.c: their packets */
void mm_pairs_set(struct mm_port *port, const char *text);
void mm_pairs_names(const struct mm_port *port, char *text, size_t size);
int mm_vifs_init(void);
void mm_vifs_exit(void);
void mm_vifs_soon(void);
bool mm_shade_return(struct mm_port *port, struct sk_buff *skb);
void mm_shade_resend(struct work_struct *work);

/* queue.c: which queue, on which CPU */
u16 mm_queue_select(struct net_device *dev, struct sk_buff *skb, struct net_device *sb_dev);
void mm_queue_poll(struct mm_queue *q);
void mm_queue_init_poll(struct mm_queue *q);
void mm_queue_exit_poll(struct mm_queue *q);
int mm_queues_set(struct net_device *dev, unsigned int nr);

/* tx.c */
netdev_tx_t mm_tx(struct sk_buff *skb, struct net_device *dev);
netdev_features_t mm_tx_features(struct sk_buff *skb, struct net_device *dev,
				 netdev_features_t features);
void mm_tx_end(struct mm_queue *q);
bool mm_tx_wake(struct mm_queue *q, struct sk_buff_head *done);
bool mm_tx_crowded(const struct mm_port *port);
bool mm_tx_waiting(const struct mm_queue *q);
void mm_tx_held(struct work_struct *work);
void mm_tx_stall(struct work_struct *work);

/* held.c */
bool mm_held_add(struct mm_queue *q, struct sk_buff *skb);
void mm_held_free(struct mm_queue *q);
void mm_held_expire(struct mm_queue *q);
void mm_held_take(struct mm_queue *q, struct sk_buff_head *done);
u32 mm_held_end(const struct mm_queue *q);

/* rx.c */
int mm_rx_poll(struct napi_struct *napi, int budget);
void mm_rx_rest(struct mm_queue *q);
void mm_rx_back(struct mm_queue *q, u32 from);

/* coalesce.c: how long an end waits for more packets */
#define MM_USECS_MAX 1000
void mm_coalesce_init(struct mm_queue *q);
void mm_coalesce_exit(struct mm_queue *q);
void mm_coalesce_sample(struct mm_queue *q, int taken);
void mm_coalesce_set(struct mm_port *port, u32 usecs, bool adaptive);

/* ethtool.c */
extern const struct ethtool_ops mm_ethtool_ops;
extern const char mm_count_names[MM_COUNTS][ETH_GSTRING_LEN];

/* netlink.c */
int mm_netlink_show(struct xway_link *link, struct sk_buff *skb);

#endif /* _XWAY_MMNET_H */
