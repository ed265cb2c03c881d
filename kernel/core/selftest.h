/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_CORE_SELFTEST_H
#define _XWAY_CORE_SELFTEST_H

#ifdef XWAY_SELFTEST
int xway_core_selftest(void);
#else
static inline int xway_core_selftest(void)
{
	return 0;
}
#endif

#endif /* _XWAY_CORE_SELFTEST_H */
