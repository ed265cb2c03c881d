// SPDX-License-Identifier: GPL-2.0
/*
 * Transport "xen": grant tables and event channels. See xen/interface/grant_table.h
 * and xen/interface/event_channel.h.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/sort.h>
#include <xen/events.h>
#include <xen/grant_table.h>
#include <xen/page.h>
#include <asm/xen/hypercall.h>

#include "arena.h"
#include "link.h"
#include "selftest.h"
#include "xen.h"

/* ---- grants ---- */

static int xen_share(struct link *link, struct page *page, u32 *ref)
{
	struct xen_port *p = link->tp_data;
	int ret = gnttab_grant_foreign_access(p->domid, xen_page_to_gfn(page),
					      1);

	if (ret < 0)
		return ret;
	*ref = ret;
	return 0;
}

/* A grant ends only if the peer does not map the page. */
static int xen_unshare(struct page *page, u32 ref)
{
	return gnttab_try_end_foreign_access(ref) ? 0 : -EBUSY;
}

/* The kernel frees the page when the grant has ended. */
static void xen_abandon(struct page *page, u32 ref)
{
	gnttab_end_foreign_access(ref, page);
}

/*
 * Addresses at which peers' pages are mapped. They are allocated in batches, and used
 * in ascending order. So the pages of a ring, which are mapped one after the other,
 * get consecutive addresses: see xway_ring_at().
 */
static DEFINE_MUTEX(spare_lock);
static struct page *spare[64];
static u32 spares;	/* length of spare[]; the last one is used next */

static int later_first(const void *a, const void *b)
{
	const struct page *x = *(struct page *const *)a;
	const struct page *y = *(struct page *const *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* Take @n addresses. Return: how many there are, or a negative errno. */
static int spare_take(struct page **pages, u32 n)
{
	int taken = 0;

	mutex_lock(&spare_lock);
	while (taken < n) {
		if (!spares) {
			if (gnttab_alloc_pages(ARRAY_SIZE(spare), spare))
				break;
			spares = ARRAY_SIZE(spare);
			sort(spare, spares, sizeof(*spare), later_first, NULL);
		}
		pages[taken++] = spare[--spares];
	}
	if (!taken)
		taken = gnttab_alloc_pages(1, pages) ?: 1;
	mutex_unlock(&spare_lock);
	return taken;
}

static void xen_unmap(struct link *link, struct xway_mapping **m, u32 n)
{
	struct gnttab_unmap_grant_ref ops[XWAY_MAP_BATCH];
	struct page *pages[XWAY_MAP_BATCH];
	u32 i, unmapped = 0;
	int err;

	for (i = 0; i < n; i++) {
		pages[i] = m[i]->page;
		gnttab_set_unmap_op(&ops[i], (unsigned long)m[i]->addr,
				    GNTMAP_host_map | GNTMAP_readonly, m[i]->handle);
	}
	err = gnttab_unmap_refs(ops, NULL, pages, n);
	for (i = 0; i < n; i++) {
		if (!err && !ops[i].status)
			pages[unmapped++] = pages[i];
		else	/* leak the page: it may still be mapped */
			pr_err("%s: cannot unmap a page: %d\n", link->pub.name,
			       err ?: ops[i].status);
	}
	gnttab_free_pages(unmapped, pages);
}

/*
 * Each page has an address of its own: a PV guest cannot vmap() granted pages. Xen maps
 * what it can, so the pages behind the first one that it has refused are unmapped.
 */
static int xen_map(struct link *link, const u32 *refs, struct xway_mapping **m, u32 n)
{
	struct xen_port *p = link->tp_data;
	struct gnttab_map_grant_ref ops[XWAY_MAP_BATCH];
	struct xway_mapping *undo[XWAY_MAP_BATCH];
	struct page *pages[XWAY_MAP_BATCH];
	int got, err, i, mapped = 0, undone = 0;

	got = spare_take(pages, n);
	if (got < 0)
		return got;
	for (i = 0; i < got; i++)
		gnttab_set_map_op(&ops[i], (unsigned long)page_address(pages[i]),
				  GNTMAP_host_map | (xway_liar_writes() ? 0 : GNTMAP_readonly),
				  refs[i], p->domid);
	err = gnttab_map_refs(ops, NULL, pages, got);
	for (i = 0; i < got; i++) {
		if (err || ops[i].status != GNTST_okay) {
			gnttab_free_pages(1, &pages[i]);
			continue;
		}
		m[i]->page = pages[i];
		m[i]->addr = page_address(pages[i]);
		m[i]->handle = ops[i].handle;
		if (mapped == i)
			mapped++;
		else
			undo[undone++] = m[i];
	}
	if (undone)
		xen_unmap(link, undo, undone);
	if (mapped)
		return mapped;
	return err ?: ops[0].status == GNTST_no_space ? -ENOSPC : -EPROTO;
}

static void xen_notify(struct link *link)
{
	struct xen_port *p = link->tp_data;

	/* Not by the interrupt's number, which Linux would have to look up. */
	if (p->irq)
		notify_remote_via_evtchn(p->port);
}

/* Xen closes the ports of a domain that ends. The other end is then unbound. */
static bool xen_gone(struct link *link)
{
	struct xen_port *p = link->tp_data;
	struct evtchn_status op = { .dom = DOMID_SELF, .port = p->port };

	return p->port &&
	       !HYPERVISOR_event_channel_op(EVTCHNOP_status, &op) &&
	       op.status != EVTCHNSTAT_interdomain;
}

/* Allow the next event. Spurious ones delay it: see XEN_EOI_FLAG_SPURIOUS. */
static void xen_seen(struct link *link, bool idle)
{
	struct xen_port *p = link->tp_data;
	int irq = atomic_xchg(&p->eoi_irq, 0);

	if (irq)
		xen_irq_lateeoi(irq, idle ? XEN_EOI_FLAG_SPURIOUS : 0);
}

const struct xway_transport xway_xen_transport = {
	.name = "xen",
	.domains = true,
	.share = xen_share,
	.unshare = xen_unshare,
	.abandon = xen_abandon,
	.map = xen_map,
	.unmap = xen_unmap,
	.notify = xen_notify,
	.gone = xen_gone,
	.seen = xen_seen,
};

/* ---- event channel ---- */

/* Hard interrupt: the tasklet does the work, and then allows the next event. */
static irqreturn_t interrupt(int irq, void *data)
{
	struct xen_port *p = data;

	atomic_set(&p->eoi_irq, irq);
	tasklet_schedule(&p->link->bell.task);
	return IRQ_HANDLED;
}

static int port_bind(struct xen_port *p, evtchn_port_t port)
{
	int irq = bind_evtchn_to_irqhandler_lateeoi(port, interrupt, 0, "xway",
						    p);

	/* On failure the kernel may have closed the port, and its number may be
	 * in use again. So do not close it; it may stay open for nothing.
	 */
	if (irq < 0)
		return irq;
	p->irq = irq;
	return 0;
}

/**
 * xway_xen_port_alloc() - make an event channel that the peer can join
 * @p: a port that is closed
 *
 * Context: process, may sleep.
 * Return: 0 or a negative errno.
 */
int xway_xen_port_alloc(struct xen_port *p)
{
	struct evtchn_alloc_unbound op = {
		.dom = DOMID_SELF,
		.remote_dom = p->domid,
	};
	int err = HYPERVISOR_event_channel_op(EVTCHNOP_alloc_unbound, &op);

	if (err)
		return err;
	p->port = op.port;
	return port_bind(p, op.port);
}

/**
 * xway_xen_port_join() - join the event channel that the peer has made
 * @p: a port that is closed
 * @remote: the peer's port, from its offer
 *
 * Context: process, may sleep.
 * Return: 0 or a negative errno.
 */
int xway_xen_port_join(struct xen_port *p, evtchn_port_t remote)
{
	struct evtchn_bind_interdomain op = {
		.remote_dom = p->domid,
		.remote_port = remote,
	};
	int err = HYPERVISOR_event_channel_op(EVTCHNOP_bind_interdomain, &op);

	if (err)
		return err;
	p->port = op.local_port;
	return port_bind(p, op.local_port);
}

/**
 * xway_xen_port_close() - close an event channel
 * @p: the port; nothing happens if it is closed
 *
 * Context: process, may sleep.
 */
void xway_xen_port_close(struct xen_port *p)
{
	int irq = p->irq;

	p->irq = 0;
	if (irq) {
		/* The tasklet may be about to call xen_irq_lateeoi(): wait for it
		 * before the interrupt is unbound.
		 */
		disable_irq(irq);
		tasklet_kill(&p->link->bell.task);
		unbind_from_irqhandler(irq, p);
	}
	atomic_set(&p->eoi_irq, 0);
	p->port = 0;
}

/* Limit the pages of all arenas. Context: initialization. */
void __init xway_xen_init(void)
{
	/* A grant (version 1) has 8 bytes. Disks and network cards need grants of
	 * the same table, so arenas get at most three eighths.
	 */
	xway_arena_limit(gnttab_max_grant_frames() * (PAGE_SIZE / 8) * 3 / 8);
}

/* No page of a peer is mapped any more. Context: process. */
void xway_xen_exit(void)
{
	gnttab_free_pages(spares, spare);
}
