/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a transport must do for a link: share pages, map the peer's, signal.
 */
#ifndef _XWAY_TRANSPORT_H
#define _XWAY_TRANSPORT_H

#include <linux/types.h>

struct page;
struct link;

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
 * @unshare: withdraw that, also after the link is gone. Returns -EBUSY while the
 *	peer still maps it; the page must then not be freed. May sleep.
 * @abandon: take over the page for good: free it once the peer lets go.
 * @map: map one page of the peer. May sleep. Returns 0 or a negative errno.
 * @unmap: undo @map. May sleep.
 * @notify: send the peer an event. Any context.
 * @seen: the doorbell was looked at; @idle if nothing was posted. Softirq.
 */
struct xway_transport {
	const char *name;
	int (*share)(struct link *link, struct page *page, u32 *ref);
	int (*unshare)(struct page *page, u32 ref);
	void (*abandon)(struct page *page, u32 ref);
	int (*map)(struct link *link, u32 ref, struct xway_mapping *m);
	void (*unmap)(struct link *link, struct xway_mapping *m);
	void (*notify)(struct link *link);
	void (*seen)(struct link *link, bool idle);
};

#endif /* _XWAY_TRANSPORT_H */
