/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_DEBT_H
#define _XWAY_DEBT_H

#include <linux/list.h>
#include <linux/refcount.h>

#define XWAY_DEBTOR 40	/* what names a peer, with its end */

/**
 * struct xway_debt - memory that one peer has us keep, link after link
 * @debtor: what names the peer, whatever number it has
 * @rx_pages: pages of its rings that are mapped, or were copied out and not read
 * @unrevoked: own pages that it still maps though their link has ended, or though it
 *	has said that it does not
 */
struct xway_debt {
	struct list_head node;
	refcount_t ref;
	char debtor[XWAY_DEBTOR];
	atomic_t rx_pages;
	atomic_t unrevoked;
};

struct xway_debt *xway_debt_get(const char *debtor);
void xway_debt_put(struct xway_debt *debt);

#endif /* _XWAY_DEBT_H */
