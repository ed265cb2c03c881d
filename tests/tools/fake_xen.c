// SPDX-License-Identifier: GPL-2.0
/*
 * Preloaded into a real xenstored or oxenstored: a hypervisor that knows
 * the domains in the file $FAKE_XEN/domains, one a line: id, flags (in hex, as
 * XEN_DOMINF_*) and a number that becomes the UUID. Guests get rings that are
 * never used. Paths of Xen are looked for in $FAKE_XEN.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <xenctrl.h>
#include <xenevtchn.h>
#include <xengnttab.h>

#include "fake_domains.h"

#define HANDLE ((void *)8)

xc_interface *xc_interface_open(xentoollog_logger *l, xentoollog_logger *d, unsigned int flags)
{
	(void)l, (void)d, (void)flags;
	return HANDLE;
}

int xc_interface_close(xc_interface *xch)
{
	(void)xch;
	return 0;
}

int xc_domain_getinfolist(xc_interface *xch, uint32_t first, unsigned int max,
			  xc_domaininfo_t *info)
{
	(void)xch, (void)max;
	return fake_domain(first, info);
}

#if XEN_DOMCTL_INTERFACE_VERSION < 0x16 /* Xen before 4.18 */
int xc_domain_getinfo(xc_interface *xch, uint32_t first, unsigned int max, xc_dominfo_t *out)
{
	xc_domaininfo_t info;

	if (!xc_domain_getinfolist(xch, first, max, &info))
		return 0;
	memset(out, 0, sizeof(*out));
	out->domid = info.domain;
	out->dying = !!(info.flags & XEN_DOMINF_dying);
	out->shutdown = !!(info.flags & XEN_DOMINF_shutdown);
	out->shutdown_reason = (info.flags >> XEN_DOMINF_shutdownshift) & XEN_DOMINF_shutdownmask;
	return 1;
}
#else
int xc_domain_getinfo_single(xc_interface *xch, uint32_t id, xc_domaininfo_t *out)
{
	if (xc_domain_getinfolist(xch, id, 1, out) && out->domain == id)
		return 0;
	errno = ESRCH;
	return -1;
}
#endif

void *xc_map_foreign_range(xc_interface *xch, uint32_t dom, int size, int prot, unsigned long mfn)
{
	(void)xch, (void)dom, (void)prot, (void)mfn;
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
}

static int event_fd = -1;

xenevtchn_handle *xenevtchn_open(xentoollog_logger *l, unsigned int flags)
{
	(void)l, (void)flags;
	event_fd = eventfd(0, 0);
	return HANDLE;
}

int xenevtchn_fd(xenevtchn_handle *x)
{
	(void)x;
	return event_fd;
}

xenevtchn_port_or_error_t xenevtchn_bind_virq(xenevtchn_handle *x, unsigned int virq)
{
	(void)x, (void)virq;
	return 1;
}

xenevtchn_port_or_error_t xenevtchn_bind_interdomain(xenevtchn_handle *x, uint32_t dom,
						     evtchn_port_t port)
{
	static int next = 5;

	(void)x, (void)dom, (void)port;
	return next++;
}

int xenevtchn_notify(xenevtchn_handle *x, evtchn_port_t port)
{
	(void)x, (void)port;
	return 0;
}

int xenevtchn_unbind(xenevtchn_handle *x, evtchn_port_t port)
{
	(void)x, (void)port;
	return 0;
}

int xenevtchn_unmask(xenevtchn_handle *x, evtchn_port_t port)
{
	(void)x, (void)port;
	return 0;
}

xenevtchn_port_or_error_t xenevtchn_pending(xenevtchn_handle *x)
{
	(void)x;
	return -1;
}

xengnttab_handle *xengnttab_open(xentoollog_logger *l, unsigned int flags)
{
	(void)l, (void)flags;
	return HANDLE;
}

int xengnttab_set_max_grants(xengnttab_handle *x, uint32_t n)
{
	(void)x, (void)n;
	return 0;
}

void *xengnttab_map_grant_ref(xengnttab_handle *x, uint32_t dom, uint32_t ref, int prot)
{
	(void)x, (void)ref;
	return xc_map_foreign_range(NULL, dom, 4096, prot, 0);
}

int xengnttab_unmap(xengnttab_handle *x, void *addr, uint32_t n)
{
	(void)x, (void)addr, (void)n;
	return 0;
}

/* It raises its limit of open files, which not everybody may. */
int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
	(void)resource, (void)limit;
	return 0;
}

int setrlimit64(__rlimit_resource_t resource, const struct rlimit64 *limit)
{
	(void)resource, (void)limit;
	return 0;
}

/* /proc/xen/xsd_port -> xsd_port, /run/xenstored/socket -> socket, ..., and where oxenstored's plugins are */
static const char *moved(const char *path, char to[256])
{
	if (strncmp(path, "/proc/xen/", 10) && strncmp(path, "/run/xenstored", 14) &&
	    strncmp(path, "/var/run/xenstored", 18) && !strstr(path, "/xenctrl_plugin/"))
		return path;
	snprintf(to, 256, "%s/%s", getenv("FAKE_XEN"), strrchr(path, '/') + 1);
	return to;
}

#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

int open(const char *path, int flags, ...)
{
	char to[256];
	va_list args;
	int mode;

	va_start(args, flags);
	mode = va_arg(args, int);
	va_end(args);
	return REAL(open)(moved(path, to), flags, mode);
}

int open64(const char *path, int flags, ...)
{
	char to[256];
	va_list args;
	int mode;

	va_start(args, flags);
	mode = va_arg(args, int);
	va_end(args);
	return REAL(open)(moved(path, to), flags, mode);
}

DIR *opendir(const char *path)
{
	char to[256];

	return REAL(opendir)(moved(path, to));
}

int stat64(const char *path, struct stat64 *found)
{
	char to[256];

	return REAL(stat64)(moved(path, to), found);
}

int stat(const char *path, struct stat *found)
{
	char to[256];

	return REAL(stat)(moved(path, to), found);
}

void *dlopen(const char *path, int flags)
{
	char to[256];

	return REAL(dlopen)(path ? moved(path, to) : NULL, flags);
}

int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_un un = { 0 };
	char to[256];

	if (addr->sa_family != AF_UNIX || len > sizeof(un))
		return REAL(bind)(fd, addr, len);
	memcpy(&un, addr, len);
	snprintf(to, sizeof(to), "%s", un.sun_path);
	snprintf(un.sun_path, sizeof(un.sun_path), "%s", moved(to, (char[256]){ 0 }));
	return REAL(bind)(fd, (struct sockaddr *)&un, sizeof(un));
}

int unlink(const char *path)
{
	char to[256];

	return REAL(unlink)(moved(path, to));
}

int chmod(const char *path, mode_t mode)
{
	char to[256];

	return REAL(chmod)(moved(path, to), mode);
}

int mkdir(const char *path, mode_t mode)
{
	char to[256];

	return REAL(mkdir)(moved(path, to), mode);
}
