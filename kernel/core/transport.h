/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a transport must do for a link: share pages, map the peer's, signal.
 */
#ifndef _XWAY_TRANSPORT_H
#define _XWAY_TRANSPORT_H

#include <linux/types.h>

struct page;
struct xway_link;

/**
 * struct xway_mapping - one page of the peer, mapped read-only
 * @page: the page that stands for it here
 * @addr: where it can be read
 * @handle: the transport's name for the mapping
 * @users: channels that use it
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
 * @share: let the peer map @page read-only; @ref is what the peer needs for it.
 *	May sleep. Returns 0 or a negative errno.
 * @unshare: withdraw that. Returns -EBUSY while the peer still maps it; the
 *	page must then not be freed. May sleep.
 * @abandon: take over the page for good: free it once the peer lets go.
 * @map: map one page of the peer. May sleep. Returns 0 or a negative errno.
 * @unmap: undo @map. May sleep.
 * @notify: make the peer look at its bells. Any context.
 * @seen: the bells were looked at; @idle if there was none. Softirq.
 * @lost: the peer has closed the link or broken its rules: end this life of it
 *	and offer a new one. Any context that may sleep; must not wait for the
 *	link's work.
 */
struct xway_transport {
	const char *name;
	int (*share)(struct xway_link *link, struct page *page, u32 *ref);
	int (*unshare)(struct xway_link *link, struct page *page, u32 ref);
	void (*abandon)(struct xway_link *link, struct page *page, u32 ref);
	int (*map)(struct xway_link *link, u32 ref, struct xway_mapping *m);
	void (*unmap)(struct xway_link *link, struct xway_mapping *m);
	void (*notify)(struct xway_link *link);
	void (*seen)(struct xway_link *link, bool idle);
	void (*lost)(struct xway_link *link);
};

#endif /* _XWAY_TRANSPORT_H */
