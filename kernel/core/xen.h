/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_XEN_H
#define _XWAY_XEN_H

#include <linux/atomic.h>
#include <xen/interface/event_channel.h>
#include <xen/interface/xen.h>

struct link;
struct xway_transport;

/**
 * struct xen_port - the event channel to a peer
 * @domid: the peer's domain id
 * @link: the link to the peer
 * @irq: the bound interrupt; 0 if the event channel is closed
 * @port: own port; 0 if the event channel is closed
 * @eoi_irq: the interrupt that waits for xen_irq_lateeoi(), or 0. It is not the same
 *	as @irq: an interrupt can come before the call that binds it has returned.
 */
struct xen_port {
	domid_t domid;
	struct link *link;
	int irq;
	evtchn_port_t port;
	atomic_t eoi_irq;
};

extern const struct xway_transport xway_xen_transport;	/* tp_data: struct xen_port */

int xway_xen_port_alloc(struct xen_port *p);
int xway_xen_port_join(struct xen_port *p, evtchn_port_t remote);
void xway_xen_port_close(struct xen_port *p);

void xway_xen_init(void);
void xway_xen_exit(void);

#endif /* _XWAY_XEN_H */
