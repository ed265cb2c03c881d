/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_MMNET_SELFTEST_H
#define _XWAY_MMNET_SELFTEST_H

#ifdef XWAY_SELFTEST
int mm_selftest(void);
#else
static inline int mm_selftest(void)
{
	return 0;
}
#endif

#endif /* _XWAY_MMNET_SELFTEST_H */
