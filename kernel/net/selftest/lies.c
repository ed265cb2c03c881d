// SPDX-License-Identifier: GPL-2.0
/* The end A writes what no honest end does; P must come off unhurt. */
#include <linux/etherdevice.h>
#include <linux/random.h>

#include "ends.h"

static struct mm_words *words(int which)
{
	return port[which]->ch->chan.own;
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
	struct mm_record *rec = xway_ring_at(port[A]->ch->ring, at, port[A]->ch->size, &size);

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

	ring_store_release(&words(A)->prod, words(A)->prod + port[A]->ch->size + 16);
	EXPECT(found(before));
	ring_store_release(&words(A)->prod, words(A)->prod - 16);
	EXPECT(found(before + 1));
	/* What P sends it drops, since A claims to have read more than there was. */
	ring_store_release(&words(A)->cons, words(A)->cons + 16);
	EXPECT(send(P, 100) && found(before + 2));
	return true;
}

/* Headers and frames of random bytes: each is dropped, or is the network's to judge. */
static bool lies_noise(void)
{
	u64 packets = count(P, MM_RX_PACKETS), bad = count(P, MM_RX_BAD_HEADER);
	u32 n;

	for (n = 0; n < 3000; n++) {
		struct mm_chan *ch = port[A]->ch;
		u32 at, len = ETH_HLEN + get_random_u32() % 3000, i, size;
		struct mm_record *rec;

		/* The kernel may send by A's device, too. */
		netif_tx_lock_bh(port[A]->dev);
		at = port[A]->prod;

		for (i = 0; i < len; i += size) {
			void *to;

			size = len - i;
			to = xway_ring_at(ch->ring, at + sizeof(*rec) + i, ch->size, &size);
			get_random_bytes(to, size);
			/* Often enough one that is looked at: IPv4, IPv6, a VLAN's */
			if (!i && size >= ETH_HLEN + 1 && n % 4) {
				static const u16 types[] = { ETH_P_IP, ETH_P_IPV6, ETH_P_8021Q };

				*(__be16 *)(to + 12) = htons(types[n % 3]);
				*(u8 *)(to + ETH_HLEN) = n % 3 ? 0x60 : 0x45;
			}
		}
		size = sizeof(*rec);
		rec = xway_ring_at(ch->ring, at, ch->size, &size);
		get_random_bytes(rec, sizeof(*rec));
		rec->len = len;
		rec->hdr.flags &= VIRTIO_NET_HDR_F_NEEDS_CSUM | VIRTIO_NET_HDR_F_DATA_VALID;
		if (n % 2)
			rec->hdr.gso_type %= 8;
		if (n % 3) {
			rec->hdr.csum_start = (__force __virtio16)(get_random_u32() % 100);
			rec->hdr.csum_offset = (__force __virtio16)(get_random_u32() % 20);
		}
		port[A]->prod = at + mm_space(len);
		ring_store_release(&words(A)->prod, port[A]->prod);
		netif_tx_unlock_bh(port[A]->dev);
		poll(P);
		EXPECT(port[A]->ch == ch);
	}
	packets = count(P, MM_RX_PACKETS) - packets;
	bad = count(P, MM_RX_BAD_HEADER) - bad;
	EXPECT(packets + bad >= n && packets > n / 20 && bad > n / 20);
	EXPECT(!count(P, MM_VIOLATIONS) && live());
	return true;
}

const struct xway_test lies_tests[] = {
	{ "lies_records", lies_records, UP },
	{ "lies_indices", lies_indices, UP },
	{ "lies_noise", lies_noise, UP },
	{}
};
