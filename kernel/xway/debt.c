// SPDX-License-Identifier: GPL-2.0
/*
 * Debts: what a peer has us keep, and what limits are for.
 *
 * A peer's link ends and another begins as it is saved, or taken out of the policy
 * and put back. What is left of the first, unread or still mapped, counts on: a
 * peer would have all over again with each new link otherwise.
 */
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "debt.h"

static LIST_HEAD(debts);
static DEFINE_SPINLOCK(debts_lock);

static struct xway_debt *debt_find(const char *debtor)
{
	struct xway_debt *debt;

	lockdep_assert_held(&debts_lock);
	list_for_each_entry(debt, &debts, node)
		if (!strcmp(debt->debtor, debtor))
			return debt;
	return NULL;
}

/**
 * xway_debt_get() - the debts of a peer
 * @debtor: what names the peer
 *
 * May sleep. Return: them, with a reference, or NULL without memory.
 */
struct xway_debt *xway_debt_get(const char *debtor)
{
	struct xway_debt *fresh = kzalloc(sizeof(*fresh), GFP_KERNEL);
	struct xway_debt *debt;

	if (!fresh)
		return NULL;
	strscpy(fresh->debtor, debtor, sizeof(fresh->debtor));
	refcount_set(&fresh->ref, 1);
	spin_lock_bh(&debts_lock);
	debt = debt_find(fresh->debtor);
	/* The last reference goes under the lock: there is one. */
	if (debt)
		refcount_inc(&debt->ref);
	else
		list_add(&fresh->node, &debts);
	spin_unlock_bh(&debts_lock);
	if (!debt)
		return fresh;
	kfree(fresh);
	return debt;
}

/* Any context but a hard interrupt */
void xway_debt_put(struct xway_debt *debt)
{
	bool last;

	spin_lock_bh(&debts_lock);
	last = refcount_dec_and_test(&debt->ref);
	if (last)
		list_del(&debt->node);
	spin_unlock_bh(&debts_lock);
	if (last)
		kfree(debt);
}
