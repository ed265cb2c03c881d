/* SPDX-License-Identifier: GPL-2.0 */
/* The one thing that is asked of the hypervisor: what domains there are. */
#ifndef XWAYD_XEN_H
#define XWAYD_XEN_H

#include "store.h"

#define XEN_RELEASES "4.11 to 4.21"

struct xen;

/* NULL sets errno. */
struct xen *xen_open(void);
void xen_close(struct xen *xen);

/* 0, or -1 with errno: ESRCH when there is no such domain. */
int xen_domain(struct xen *xen, unsigned int id, struct domain_info *info);

#endif
