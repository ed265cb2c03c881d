/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_CORE_SELFTEST_H
#define _XWAY_CORE_SELFTEST_H

#include <linux/types.h>

struct xway_ctl;

#ifdef XWAY_SELFTEST
int xway_core_selftest(void);
#else
static inline int xway_core_selftest(void)
{
	return 0;
}
#endif

#ifdef XWAY_LIAR
bool xway_liar_keeps(const struct xway_ctl *msg);
void xway_liar_alters(struct xway_ctl *msg);
bool xway_liar_writes(void);
#else
static inline bool xway_liar_keeps(const struct xway_ctl *msg)
{
	return false;
}

static inline void xway_liar_alters(struct xway_ctl *msg)
{
}

/* Is a peer's page to be mapped for writing, too? */
static inline bool xway_liar_writes(void)
{
	return false;
}
#endif

#endif /* _XWAY_CORE_SELFTEST_H */
