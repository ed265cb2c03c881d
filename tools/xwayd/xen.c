// SPDX-License-Identifier: GPL-2.0
/*
 * Xen's library speaks to the one release that it comes with. The numbers
 * below are the same in all of them, so the version is tried.
 */
#include "xen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define PRIVCMD "/dev/xen/privcmd"
/* Pages of it stay where the hypervisor finds them (Linux 4.18). */
#define BUFFER "/dev/xen/hypercall"

#define DOMCTL 36
#define DOMCTL_GETDOMAININFO 5
/*
 * Those of XEN_RELEASES. Another version is refused, with EACCES. So is a domain
 * that a security policy of Xen's keeps to itself.
 */
#define FIRST_VERSION 0x10
#define LAST_VERSION 0x17

#define FLAG_DYING (1u << 0)
#define FLAG_SHUTDOWN (1u << 2)
#define FLAG_REASON(flags) ((flags) >> 16 & 0xff)

enum {
	REASON_POWEROFF,
	REASON_REBOOT,
	REASON_SUSPEND,
	REASON_CRASH,
	REASON_WATCHDOG,
	REASON_SOFT_RESET,
};

struct hypercall {
	uint64_t op;
	uint64_t arg[5];
};

#define IOCTL_HYPERCALL _IOC(_IOC_NONE, 'P', 0, sizeof(struct hypercall))

/* The beginning of the answer; what is behind differs between releases. */
struct domctl {
	uint32_t command;
	uint32_t version;
	uint16_t asked;
	uint16_t pad[3];
	uint16_t domain;
	uint16_t pad1;
	uint32_t flags;
	uint64_t counts[7];
	uint32_t vcpus[2];
	uint32_t ssid;
	uint8_t handle[16];
};

_Static_assert(offsetof(struct domctl, domain) == 16, "as Xen has it");
_Static_assert(offsetof(struct domctl, handle) == 16 + 76, "as Xen has it");

/* Room for all of the answer, of any release. */
#define BUFFER_BYTES 4096

struct xen {
	int fd;
	uint32_t version;
	bool known; /* the version is right */
	struct domctl *buffer;
};

struct xen *xen_open(void)
{
	int fd, buffer_fd, err;
	void *buffer;
	struct xen *xen;

	fd = open(PRIVCMD, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	buffer = MAP_FAILED;
	buffer_fd = open(BUFFER, O_RDWR | O_CLOEXEC);
	if (buffer_fd >= 0)
		buffer = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, buffer_fd, 0);
	if (buffer == MAP_FAILED) {
		err = errno;
		if (buffer_fd >= 0)
			close(buffer_fd);
		close(fd);
		errno = err;
		return NULL;
	}
	close(buffer_fd);
	xen = calloc(1, sizeof(*xen));
	if (!xen)
		abort();
	*xen = (struct xen){ .fd = fd, .version = FIRST_VERSION, .buffer = buffer };
	return xen;
}

void xen_close(struct xen *xen)
{
	munmap(xen->buffer, BUFFER_BYTES);
	close(xen->fd);
	free(xen);
}

static int ask(struct xen *xen, unsigned int id)
{
	struct hypercall call = { .op = DOMCTL, .arg = { (uintptr_t)xen->buffer } };

	memset(xen->buffer, 0, BUFFER_BYTES);
	xen->buffer->command = DOMCTL_GETDOMAININFO;
	xen->buffer->version = xen->version;
	xen->buffer->asked = id;
	return ioctl(xen->fd, IOCTL_HYPERCALL, &call);
}

static const char *end_reason(uint32_t flags)
{
	if (flags & FLAG_SHUTDOWN) {
		switch (FLAG_REASON(flags)) {
		case REASON_POWEROFF:
			return "poweroff";
		case REASON_REBOOT:
		case REASON_SOFT_RESET:
			return "reboot";
		case REASON_SUSPEND:
			return "suspend";
		case REASON_CRASH:
		case REASON_WATCHDOG:
			return "crash";
		}
		return "gone";
	}
	return flags & FLAG_DYING ? "gone" : NULL;
}

int xen_domain(struct xen *xen, unsigned int id, struct domain_info *info)
{
	const uint8_t *h = xen->buffer->handle;
	int ret;

	while ((ret = ask(xen, id)) < 0 && errno == EACCES && !xen->known &&
	       xen->version < LAST_VERSION)
		xen->version++;
	if (ret < 0)
		return -1;
	xen->known = true;
	/* Older releases answer with the first domain from this id on. */
	if (xen->buffer->domain != id) {
		errno = ESRCH;
		return -1;
	}
	snprintf(info->uuid, sizeof(info->uuid),
		 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", h[0], h[1],
		 h[2], h[3], h[4], h[5], h[6], h[7], h[8], h[9], h[10], h[11], h[12], h[13], h[14],
		 h[15]);
	info->ended = end_reason(xen->buffer->flags);
	return 0;
}
