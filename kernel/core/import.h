/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_IMPORT_H
#define _XWAY_IMPORT_H

#include <linux/xarray.h>

#include "transport.h"
#include "wire.h"

struct link;

/**
 * struct xway_import - the peer's arena, as far as it is mapped here
 * @hdr: its header page; NULL while nothing is mapped
 * @bell: its doorbell page
 * @ctl: its control page
 * @maps: the mapped pages by number, struct xway_mapping
 * @dir: its directory pages; @addr of one is NULL while it is not mapped
 * @mapped: number of mapped pages, directories included
 *
 * The link's lock guards all of it. struct link says who may read the pages.
 */
struct xway_import {
	const struct xway_header *hdr;
	const u32 *bell;
	const struct xway_ctl *ctl;
	struct xarray maps;
	struct xway_mapping dir[XWAY_DIRS];
	u32 mapped;
};

int xway_import_open(struct link *link, u32 ref, u64 nonce);
int xway_import_get(struct link *link, u32 first, u32 pages, void **addr);
void xway_import_put(struct link *link, u32 first, u32 pages);
bool xway_import_unmap(struct link *link, u32 first, u32 pages);
void xway_import_close(struct link *link);

#endif /* _XWAY_IMPORT_H */
