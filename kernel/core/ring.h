/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The byte ring: one writer, one reader, two indices, two requests for events.
 *
 * An index counts bytes modulo 2^32 and only moves forward; the ring's size is
 * a power of two of at most 2^30 bytes, in pages that need not be contiguous.
 * Every shared word has one writer:
 *
 *   writer's side:  prod (bytes put), want_room (cons that is worth an event)
 *   reader's side:  cons (bytes taken), want_data (prod that is worth an event)
 *
 * Order. Bytes are copied before prod is stored with release, and read after
 * prod is loaded with acquire; likewise room and cons. For events each side
 * stores its own word, then a full barrier, then loads the other's word:
 *
 *   writer: prod = new    ; mb ; if (want_data crossed) ring
 *   reader: want_data = w ; mb ; if (prod - cons != 0) go on, else sleep
 *
 * At least one of the two sees the other's store, so no wake-up is lost.
 *
 * This file needs nothing of the kernel, so that the unit tests run the same
 * code in user space under the thread sanitizer.
 */
#ifndef _XWAY_RING_H
#define _XWAY_RING_H

#include <linux/types.h>

#ifdef __KERNEL__
#include <asm/barrier.h>
#include <asm/page.h>
#define ring_load_acquire(p)	 virt_load_acquire(p)	/* of the other's index */
#define ring_store_release(p, v) virt_store_release(p, v) /* of the own one */
#define ring_load(p)		 READ_ONCE(*(p))
#define ring_store(p, v)	 WRITE_ONCE(*(p), v)
#define ring_mb()		 virt_mb()	/* own word; mb; other's */
#define RING_PAGE_SIZE		 ((u32)PAGE_SIZE)
#else
#include <stdbool.h>
typedef __u32 u32;
#define ring_load_acquire(p)	 __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define ring_store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define ring_load(p)		 __atomic_load_n(p, __ATOMIC_RELAXED)
#define ring_store(p, v)	 __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define ring_mb()		 __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define RING_PAGE_SIZE		 4096u
#endif

/**
 * xway_ring_unread() - bytes between two indices, if the pair can be true
 * @prod: index of the writer, as the reader copied it once
 * @cons: index of the reader, as the writer copied it once
 * @size: size of the ring in bytes
 * @bytes: the result, 0 to @size
 *
 * Return: false if the other side has written an index that no honest one could
 * have.
 */
static inline bool xway_ring_unread(u32 prod, u32 cons, u32 size, u32 *bytes)
{
	*bytes = prod - cons;
	return *bytes <= size;
}

/**
 * xway_ring_crossed() - does moving an index pass the one that was asked for?
 * @want: the index asked for
 * @new: the index stored now
 * @old: the index stored before
 *
 * Return: true if @old < @want <= @new, modulo 2^32.
 */
static inline bool xway_ring_crossed(u32 want, u32 new, u32 old)
{
	return (u32)(new - want) < (u32)(new - old);
}

/**
 * xway_ring_publish() - store an own index; is an event due?
 * @own: the own shared index
 * @new: its new value
 * @old: its value before
 * @want: the other side's request, in its memory
 */
static inline bool xway_ring_publish(u32 *own, u32 new, u32 old,
				     const u32 *want)
{
	ring_store_release(own, new);
	ring_mb();
	return xway_ring_crossed(ring_load(want), new, old);
}

/**
 * xway_ring_arm() - ask for an event; the caller must then look again
 * @own: the own shared request
 * @want: index of the other side at which an event is wanted
 */
static inline void xway_ring_arm(u32 *own, u32 want)
{
	ring_store(own, want);
	ring_mb();
}

/**
 * xway_ring_at() - where an index lies
 * @pages: the ring's pages
 * @idx: index
 * @size: size of the ring in bytes, a power of two
 * @len: in: bytes wanted; out: of these, bytes that follow each other there
 *
 * Pages that happen to follow each other are one piece: processors copy pieces
 * of more than a page faster.
 */
static inline void *xway_ring_at(void *const *pages, u32 idx, u32 size,
				 u32 *len)
{
	u32 off = idx & (size - 1), nr = off / RING_PAGE_SIZE;
	u32 have = RING_PAGE_SIZE - off % RING_PAGE_SIZE;
	char *at = (char *)pages[nr] + off % RING_PAGE_SIZE;
	u32 last = size / RING_PAGE_SIZE - 1;

	/* Most short ones end in the page where they begin. */
	if (*len <= have)
		return at;
	while (have < *len && nr < last &&
	       pages[nr + 1] == (char *)pages[nr] + RING_PAGE_SIZE) {
		have += RING_PAGE_SIZE;
		nr++;
	}
	if (*len > have)
		*len = have;
	return at;
}

#endif /* _XWAY_RING_H */
