/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Transports: how a link shares pages, maps the peer's pages, and sends events.
 */
#ifndef _XWAY_TRANSPORT_H
#define _XWAY_TRANSPORT_H

#include <linux/types.h>

struct page;
struct link;

/* Most pages that one call of @map or @unmap is for */
#define XWAY_MAP_BATCH 16

/**
 * struct xway_mapping - one page of the peer, mapped read-only
 * @page: the struct page of the mapping in this domain
 * @addr: its address
 * @handle: the transport's number of the mapping
 * @users: number of channels that use it, under the link's lock
 */
struct xway_mapping {
	struct page *page;
	const void *addr;
	u32 handle;
	u32 users;
};

/**
 * struct xway_transport - how the two ends of a link reach each other
 * @name: prefix of the names of its links
 * @domains: the two ends are different domains, which trust each other with nothing
 * @share: let the peer map @page read-only. @ref is set to the reference by which
 *	the peer maps it. Context: process, link's lock held. Return: 0 or a
 *	negative errno.
 * @unshare: undo @share; the link may be gone. Context: process. Return: 0, or
 *	-EBUSY while the peer still maps the page, which must then not be freed.
 * @abandon: take the page over for good, and free it when the peer has unmapped
 *	it. Context: process.
 * @map: map the peer's pages of the references @refs, @n of them: one to
 *	XWAY_MAP_BATCH. Context: process, link's lock held; may sleep. Return: how many of
 *	the first ones are mapped now, at least one; or for the first one -EPROTO if the
 *	peer has not shared such a page, or another negative errno.
 * @unmap: undo @map for @n pages, as many. Context: process, link's lock held.
 * @notify: send the peer an event. Context: any.
 * @gone: has the peer ended, for good? Optional. Context: process, link's lock held, the
 *	peer's header is mapped.
 * @seen: the tasklet has handled the last event; @idle is true if it has found nothing
 *	new. While the doorbell rests this waits. Context: softirq.
 */
struct xway_transport {
	const char *name;
	bool domains;
	int (*share)(struct link *link, struct page *page, u32 *ref);
	int (*unshare)(struct page *page, u32 ref);
	void (*abandon)(struct page *page, u32 ref);
	int (*map)(struct link *link, const u32 *refs, struct xway_mapping **m, u32 n);
	void (*unmap)(struct link *link, struct xway_mapping **m, u32 n);
	void (*notify)(struct link *link);
	bool (*gone)(struct link *link);
	void (*seen)(struct link *link, bool idle);
};

#endif /* _XWAY_TRANSPORT_H */
