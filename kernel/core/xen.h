/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_XEN_H
#define _XWAY_XEN_H

#ifdef CONFIG_XEN
int xway_xen_init(void);
void xway_xen_exit(void);
#else
static inline int xway_xen_init(void)
{
	return 0;
}

static inline void xway_xen_exit(void)
{
}
#endif

#endif /* _XWAY_XEN_H */
