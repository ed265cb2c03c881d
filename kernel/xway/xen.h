/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_XEN_H
#define _XWAY_XEN_H

int xway_xen_init(void);
void xway_xen_exit(void);

#endif /* _XWAY_XEN_H */
