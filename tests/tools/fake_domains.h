/* SPDX-License-Identifier: GPL-2.0 */
/* The domains of the stand-ins for the hypervisor: lines of $FAKE_XEN/domains, see fake_xen.c. */
#ifndef FAKE_DOMAINS_H
#define FAKE_DOMAINS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xenctrl.h>

/* The first domain from @first on, as old releases answer. */
static inline int fake_domain(unsigned int first, xc_domaininfo_t *info)
{
	unsigned int id, flags, uuid;
	char path[256];
	int found = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/domains", getenv("FAKE_XEN"));
	file = fopen(path, "r");
	while (file && fscanf(file, "%u %x %u", &id, &flags, &uuid) == 3) {
		if (id < first || (found && id >= info->domain))
			continue;
		memset(info, 0, sizeof(*info));
		info->domain = id;
		info->flags = flags;
		info->handle[15] = uuid;
		found = 1;
	}
	if (file)
		fclose(file);
	return found;
}

#endif
