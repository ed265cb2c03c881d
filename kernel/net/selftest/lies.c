// SPDX-License-Identifier: GPL-2.0
/* The end A writes what no honest end does; P must come off unhurt. */
#include <linux/etherdevice.h>
#include <linux/ip.h>
#include <linux/random.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include "ends.h"

static struct mm_words *words(int which)
{
	return queue(which)->ch->chan.own;
}

/* Has P found a lie, and ended the channel? Then begin another. */
static bool found(u64 before)
{
	poll(P);
	EXPECT(count(P, MM_VIOLATIONS) == before + 1);
	EXPECT(live());
	return true;
}

/* A record of A's: its length, and how far the index goes that is published with it */
static bool lie(u32 len, u32 prod)
{
	u64 before = count(P, MM_VIOLATIONS);
	u32 size = sizeof(struct mm_record), at = words(A)->prod;
	struct mm_record *rec = xway_ring_at(queue(A)->ch->ring, at, queue(A)->ch->size, &size);

	memset(rec, 0, sizeof(*rec));
	rec->len = len;
	ring_store_release(&words(A)->prod, at + prod);
	return found(before);
}

static bool lies_records(void)
{
	EXPECT(lie(0, 64));
	EXPECT(lie(ETH_HLEN - 1, 64));
	EXPECT(lie(MM_LEN_MAX + 1, MM_RECORD_MAX + MM_ALIGN));
	EXPECT(lie(U32_MAX, 4096));
	EXPECT(lie(U32_MAX - 30, 4096));
	EXPECT(lie(1000, 1000));
	EXPECT(lie(1000, 16));
	/* An index that is no multiple of a record's */
	EXPECT(lie(100, 8));
	return true;
}

static bool lies_indices(void)
{
	u64 before = count(P, MM_VIOLATIONS);
	u32 one;

	ring_store_release(&words(A)->prod, words(A)->prod + queue(A)->ch->size + 16);
	EXPECT(found(before));
	ring_store_release(&words(A)->prod, words(A)->prod - 16);
	EXPECT(found(before + 1));
	/* What P sends it drops, since A claims to have read more than there was. */
	ring_store_release(&words(A)->cons, words(A)->cons + 16);
	EXPECT(send(P, 100) && found(before + 2));
	/* Nor can it have written less than it has said. */
	EXPECT(send(A, 100));
	one = words(A)->prod;
	EXPECT(send(A, 100));
	local_bh_disable();
	mm_rx_poll(&queue(P)->napi, 1);
	words(A)->prod = one;
	local_bh_enable();
	EXPECT(found(before + 3));
	/* Nor read. */
	EXPECT(send(P, 1000));
	poll(A);
	EXPECT(send(P, 100));
	words(A)->cons = 0;
	EXPECT(send(P, 100) && found(before + 4));
	return true;
}

/* A sends a frame behind a record, which has its length, and P takes it. */
static void write_frame(const struct mm_record *rec, const void *frame)
{
	struct mm_chan *ch = queue(A)->ch;
	u32 at, i, n = sizeof(*rec);

	/* The kernel may send by A's device, too. */
	netif_tx_lock_bh(port[A]->dev);
	at = queue(A)->prod;
	memcpy(xway_ring_at(ch->ring, at, ch->size, &n), rec, sizeof(*rec));
	for (i = 0; i < rec->len; i += n) {
		void *to;

		n = rec->len - i;
		to = xway_ring_at(ch->ring, at + sizeof(*rec) + i, ch->size, &n);
		memcpy(to, frame + i, n);
	}
	queue(A)->prod = at + mm_space(rec->len);
	ring_store_release(&words(A)->prod, queue(A)->prod);
	netif_tx_unlock_bh(port[A]->dev);
	poll(P);
}

/* A ends the channel, at once or by CLOSE with an index behind it that P finds wrong then. */
static void end_channel(bool lying)
{
	struct xway_link *link = port[A]->link;

	if (!queue(A)->ch)
		return;
	if (!lying) {
		mm_port_broken(queue(A));
		return;
	}
	queue(A)->prod -= MM_ALIGN;	/* which it publishes last of all */
	mutex_lock(&link->lock);
	mm_port_close(port[A]);
	mutex_unlock(&link->lock);
	look(P);
}

/* Channels begin once in a while, however often the peer ends them, and whoever asks for one. */
static bool again(bool lying)
{
	u64 before = count(P, MM_OPENED);
	unsigned long since = jiffies;
	int i, n;

	for (i = 0; i < 50; i++) {
		end_channel(lying);
		/* A asks for the next, or takes what P asks for. */
		for (n = 0; n < 2; n++) {
			queue(A)->began = jiffies - MM_RETRY;
			if (!lying)
				mod_delayed_work(xway_core_wq, &port[A]->tend, 0);
			flush_workqueue(xway_core_wq);
		}
		look(P);
		look(A);
	}
	EXPECT(count(P, MM_OPENED) - before <= 1 + (jiffies - since) / MM_RETRY);
	return live();
}

static bool lies_again(void)
{
	return again(false) && again(true);
}

/* Headers and frames of random bytes: each is dropped, or is the network's to judge. */
static bool lies_noise(void)
{
	static const u16 types[] = { ETH_P_IP, ETH_P_IPV6, ETH_P_8021Q };
	u64 packets = count(P, MM_RX_PACKETS), bad = count(P, MM_RX_BAD_HEADER);
	const struct mm_chan *ch = queue(A)->ch;
	static u8 frame[ETH_HLEN + 3000];
	struct mm_record rec;
	u32 n;

	for (n = 0; n < 3000; n++) {
		get_random_bytes(&rec, sizeof(rec));
		rec.len = ETH_HLEN + get_random_u32() % 3000;
		get_random_bytes(frame, rec.len);
		/* Often enough one that is looked at: IPv4, IPv6, a VLAN's */
		if (rec.len > ETH_HLEN && n % 4) {
			*(__be16 *)(frame + 12) = htons(types[n % 3]);
			frame[ETH_HLEN] = n % 3 ? 0x60 : 0x45;
		}
		rec.hdr.flags &= VIRTIO_NET_HDR_F_NEEDS_CSUM | VIRTIO_NET_HDR_F_DATA_VALID;
		if (n % 4 == 1)
			rec.hdr.gso_type %= 8;
		else if (n % 4 == 3)
			rec.hdr.gso_type = VIRTIO_NET_HDR_GSO_NONE;
		if (n % 3) {
			rec.hdr.csum_start = (__force __virtio16)(get_random_u32() % 100);
			rec.hdr.csum_offset = (__force __virtio16)(get_random_u32() % 20);
		}
		write_frame(&rec, frame);
		EXPECT(queue(A)->ch == ch);
	}
	packets = count(P, MM_RX_PACKETS) - packets;
	bad = count(P, MM_RX_BAD_HEADER) - bad;
	EXPECT(packets + bad >= n && packets > n / 20 && bad > n / 20);
	EXPECT(!count(P, MM_VIOLATIONS) && live());
	return true;
}

/* What P's kernel has got last: where its checksum belongs, and its segments */
static struct {
	u32 start, offset, size, segments, n;
} got;

static int look_at(struct sk_buff *skb, struct net_device *dev, struct packet_type *type,
		   struct net_device *orig)
{
	got.n++;
	got.start = skb->ip_summed == CHECKSUM_PARTIAL ? skb_checksum_start_offset(skb) : 0;
	got.offset = skb->ip_summed == CHECKSUM_PARTIAL ? skb->csum_offset : 0;
	got.size = skb_shinfo(skb)->gso_size;
	got.segments = skb_shinfo(skb)->gso_segs;
	kfree_skb(skb);
	return 0;
}

static struct packet_type look_type = {
	.type = cpu_to_be16(ETH_P_IP),
	.func = look_at,
};

/*
 * A sends an IPv4 packet of 200 bytes of a protocol above IP, with such a header, and one of
 * IP's of @ihl words.
 */
static void send_packet(u16 type, u8 protocol, u8 ihl, const struct virtio_net_hdr *hdr)
{
	struct {
		struct ethhdr eth;
		struct iphdr ip;
		u8 rest[200 - sizeof(struct iphdr)];
	} __packed frame = {
		.eth.h_proto = htons(type),
		.ip = { .version = 4, .ihl = ihl, .protocol = protocol, .tot_len = htons(200) },
	};
	const struct mm_record rec = { .len = sizeof(frame), .hdr = *hdr };

	eth_broadcast_addr(frame.eth.h_dest);
	write_frame(&rec, &frame);
}

static void send_lie(u16 type, u8 protocol, const struct virtio_net_hdr *hdr)
{
	send_packet(type, protocol, 5, hdr);
}

static __virtio16 v16(u16 n)
{
	return __cpu_to_virtio16(virtio_legacy_is_little_endian(), n);
}

/*
 * Where a checksum belongs is what the packet says, not its header: who sends the packet on
 * writes it there, behind domain 0's filters.
 */
static bool lies_checksums(void)
{
	struct virtio_net_hdr hdr = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM };
	u64 bad = count(P, MM_RX_BAD_HEADER);
	u8 ihl;

	/* Into the EtherType, and the source's address, of what is no IP */
	hdr.csum_offset = v16(12);
	send_lie(0x88b5, IPPROTO_UDP, &hdr);
	hdr.csum_start = v16(26);
	hdr.csum_offset = v16(0);
	send_lie(0x88b5, IPPROTO_UDP, &hdr);
	EXPECT(count(P, MM_RX_BAD_HEADER) == bad + 2);
	/* IP's source; UDP's port */
	got.n = 0;
	send_lie(ETH_P_IP, IPPROTO_UDP, &hdr);
	EXPECT(got.n == 1 && got.start == sizeof(struct iphdr) &&
	       got.offset == offsetof(struct udphdr, check));
	hdr.csum_start = v16(ETH_HLEN + sizeof(struct iphdr));
	hdr.csum_offset = v16(2);
	send_lie(ETH_P_IP, IPPROTO_TCP, &hdr);
	EXPECT(got.n == 2 && got.offset == offsetof(struct tcphdr, check) && !got.size);
	send_lie(ETH_P_IP, IPPROTO_GRE, &hdr);
	EXPECT(count(P, MM_RX_BAD_HEADER) == bad + 3);
	/* Segments of another protocol than the packet's; of none; without a checksum left out */
	hdr.gso_size = v16(100);
	hdr.gso_type = VIRTIO_NET_HDR_GSO_TCPV4;
	send_lie(ETH_P_IP, IPPROTO_UDP, &hdr);
	hdr.gso_type = VIRTIO_NET_HDR_GSO_TCPV6;
	send_lie(ETH_P_IP, IPPROTO_TCP, &hdr);
	hdr.gso_type = VIRTIO_NET_HDR_GSO_UDP;
	send_lie(ETH_P_IP, IPPROTO_UDP, &hdr);
	hdr.gso_type = VIRTIO_NET_HDR_GSO_TCPV4;
	hdr.gso_size = 0;
	send_lie(ETH_P_IP, IPPROTO_TCP, &hdr);
	hdr.gso_size = v16(100);
	hdr.flags = 0;
	send_lie(ETH_P_IP, IPPROTO_TCP, &hdr);
	EXPECT(count(P, MM_RX_BAD_HEADER) == bad + 8 && got.n == 2);
	hdr.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
	send_lie(ETH_P_IP, IPPROTO_TCP, &hdr);
	/* As netback: a card that takes a few at once is not given more. */
	EXPECT(got.n == 3 && got.size == 100 && got.segments == 2);
	/* Segments of a byte, which are many */
	hdr.gso_size = v16(1);
	send_lie(ETH_P_IP, IPPROTO_TCP, &hdr);
	hdr.gso_type = XWAY_VIRTIO_GSO_USO;
	send_lie(ETH_P_IP, IPPROTO_UDP, &hdr);
	EXPECT(count(P, MM_RX_BAD_HEADER) == bad + 10 && got.n == 3);
	hdr.gso_size = v16(2);
	send_lie(ETH_P_IP, IPPROTO_UDP, &hdr);
	EXPECT(got.n == 4 && got.size == 2 && got.segments == 86);
	EXPECT(count(P, MM_RX_BAD_HEADER) == bad + 10);
	/* Where IP's own header would have the checksum */
	hdr.gso_type = VIRTIO_NET_HDR_GSO_NONE;
	for (ihl = 0; ihl < 5; ihl++)
		send_packet(ETH_P_IP, IPPROTO_TCP, ihl, &hdr);
	EXPECT(count(P, MM_RX_BAD_HEADER) == bad + 15 && got.n == 4 && live());
	return true;
}

static bool lies_checksums_seen(void)
{
	bool ok;

	dev_add_pack(&look_type);
	ok = lies_checksums();
	dev_remove_pack(&look_type);
	return ok;
}

const struct xway_test lies_tests[] = {
	{ "lies_records", lies_records, UP },
	{ "lies_indices", lies_indices, UP },
	{ "lies_again", lies_again, UP },
	{ "lies_noise", lies_noise, UP },
	{ "lies_checksums", lies_checksums_seen, UP },
	{}
};
