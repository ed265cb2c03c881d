// SPDX-License-Identifier: GPL-2.0
/*
 * domcpu - nanoseconds of CPU that each domain has used, domain 0 first, one in a line.
 *
 * In domain 0. `xl list` shows tenths of a second, and takes more than a short measurement does.
 */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <xenctrl.h>

#define MOST 64

int main(int argc, char **argv)
{
	xc_domaininfo_t domains[MOST];
	xc_interface *xen;
	int n, i;

	if (argc > 1)
		errx(2, "%s: no such argument; usage: domcpu", argv[1]);
	xen = xc_interface_open(NULL, NULL, 0);
	if (!xen)
		err(1, "cannot open the interface of Xen");
	n = xc_domain_getinfolist(xen, 0, MOST, domains);
	if (n < 1)
		err(1, "cannot list the domains");
	for (i = 0; i < n; i++)
		printf("%" PRIu64 "\n", (uint64_t)domains[i].cpu_time);
	return 0;
}
