/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_XENBUS_H
#define _XWAY_XENBUS_H

#include <linux/kconfig.h>

#if IS_ENABLED(CONFIG_XEN)
int xway_xenbus_init(void);
void xway_xenbus_exit(void);
#else
static inline int xway_xenbus_init(void)
{
	return 0;
}

static inline void xway_xenbus_exit(void)
{
}
#endif

#endif /* _XWAY_XENBUS_H */
