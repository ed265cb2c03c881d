/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The byte ring: one writer, one reader, two indices, two requests for events.
 *
 * An index counts bytes modulo 2^32 and only moves forward. The ring's size is a
 * power of two of at most 2^30 bytes. Its pages need not be contiguous. Every
 * shared word has one writer:
 *
 *   the writer's end:  prod (bytes put), want_room (an event is due at this cons)
 *   the reader's end:  cons (bytes taken), want_data (an event is due at this prod)
 *
 * Order of data: the writer copies bytes in, then stores prod with release. The
 * reader loads prod with acquire, then copies bytes out. The same holds for room
 * and cons.
 *
 * Order of events: each end stores its own word, makes a full barrier, then loads
 * the other end's word:
 *
 *   writer: prod = new    ; mb ; if (prod has passed want_data) send an event
 *   reader: want_data = w ; mb ; if (prod != cons) read on, else sleep
 *
 * At least one of the two sees the other's store, so no wake-up is lost (store
 * buffering, in Linux' tools/memory-model/Documentation/recipes.txt). doc/models/ring.pml
 * is a model of this.
 *
 * This file also compiles without the kernel. The unit tests run the same code in
 * user space, under sanitizers.
 */
#ifndef _XWAY_RING_H
#define _XWAY_RING_H

#include <linux/types.h>

#ifdef __KERNEL__
#include <asm/barrier.h>
#include <asm/page.h>
#define ring_load_acquire(p)	 virt_load_acquire(p)	/* the other end's index */
#define ring_store_release(p, v) virt_store_release(p, v) /* the own index */
#define ring_load(p)		 READ_ONCE(*(p))
#define ring_store(p, v)	 WRITE_ONCE(*(p), v)
#define ring_mb()		 virt_mb()	/* own word; mb; the other's */
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
 * xway_ring_unread() - number of unread bytes, and whether it is possible
 * @prod: the writer's index; a private copy
 * @cons: the reader's index; a private copy
 * @size: size of the ring in bytes
 * @bytes: set to the number of bytes between them; valid only on true
 *
 * Context: any.
 * Return: true if @bytes is at most @size; false if the other end's index is one
 * that no honest end writes.
 */
static inline bool xway_ring_unread(u32 prod, u32 cons, u32 size, u32 *bytes)
{
	*bytes = prod - cons;
	return *bytes <= size;
}

/**
 * xway_ring_crossed() - has an index passed the value that was asked for?
 * @want: the value asked for
 * @new: the index now
 * @old: the index before
 *
 * Context: any.
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
 * @want: the request of the other end, in that end's memory
 *
 * The full barrier pairs with the one in xway_ring_arm() at the other end.
 *
 * Context: any.
 * Return: true if the caller must send an event.
 */
static inline bool xway_ring_publish(u32 *own, u32 new, u32 old,
				     const u32 *want)
{
	ring_store_release(own, new);
	ring_mb();
	return xway_ring_crossed(ring_load(want), new, old);
}

/**
 * xway_ring_arm() - ask for an event
 * @own: the own shared request
 * @want: value of the other end's index at which an event is wanted
 *
 * The caller must then load the other end's index again: it may have reached @want
 * before. The full barrier pairs with the one in xway_ring_publish() at the other
 * end.
 *
 * Context: any.
 */
static inline void xway_ring_arm(u32 *own, u32 want)
{
	ring_store(own, want);
	ring_mb();
}

/**
 * xway_ring_at() - address of an index
 * @pages: the addresses of the ring's pages
 * @idx: the index
 * @size: size of the ring in bytes, a power of two
 * @len: in: bytes wanted; out: how many of these are contiguous at the address
 *
 * Pages with consecutive addresses count as one piece, because a processor copies
 * a piece of several pages faster than single pages.
 *
 * Context: any.
 * Return: the address.
 */
static inline void *xway_ring_at(void *const *pages, u32 idx, u32 size,
				 u32 *len)
{
	u32 off = idx & (size - 1), nr = off / RING_PAGE_SIZE;
	u32 have = RING_PAGE_SIZE - off % RING_PAGE_SIZE;
	char *at = (char *)pages[nr] + off % RING_PAGE_SIZE;
	u32 last = size / RING_PAGE_SIZE - 1;

	/* Fast path: short pieces rarely cross a page. */
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
