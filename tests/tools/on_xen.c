// SPDX-License-Identifier: GPL-2.0
/*
 * on_xen [ROOT] PROGRAM [ARGUMENT...]
 *
 * Runs a program, linked to whatever, as if it ran in domain 0: its system
 * calls that go to the hypervisor are answered by the file $FAKE_XEN/domains
 * (see fake_xen.c). The hypervisor speaks version $FAKE_XEN_DOMCTL alone, in
 * hex, and says nothing of domain $FAKE_XEN_DENIED. $FAKE_XEN_CAPABILITIES is
 * what the kernel says that this domain may do, if it is set. The kernel knows no system
 * call that Linux 4.19 does not have. With ROOT, that is all that the program
 * can see of the file system.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fake_domains.h"

#define HYPERCALL _IOC(_IOC_NONE, 'P', 0, 6 * sizeof(uint64_t))
#define LAST_OF_4_19 334

static void check(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static void copy(pid_t pid, int out, void *here, uint64_t there, size_t len)
{
	struct iovec local = { here, len }, remote = { (void *)there, len };
	ssize_t n = out ? process_vm_writev(pid, &local, 1, &remote, 1, 0) :
			  process_vm_readv(pid, &local, 1, &remote, 1, 0);

	check(n == (ssize_t)len, "memory of the program");
}

static int hypercall(pid_t pid, uint64_t at)
{
	const char *version = getenv("FAKE_XEN_DOMCTL"), *denied = getenv("FAKE_XEN_DENIED");
	struct xen_domctl domctl;
	uint64_t call[6];

	copy(pid, 0, call, at, sizeof(call));
	if (call[0] != __HYPERVISOR_domctl)
		return -ENOSYS;
	copy(pid, 0, &domctl, call[1], sizeof(domctl));
	if (domctl.interface_version !=
	    (version ? strtoul(version, NULL, 16) : XEN_DOMCTL_INTERFACE_VERSION))
		return -EACCES;
	if (denied && domctl.domain == strtoul(denied, NULL, 10))
		return -EACCES;
	if (domctl.cmd != XEN_DOMCTL_getdomaininfo)
		return -ENOSYS;
	if (!fake_domain(domctl.domain, &domctl.u.getdomaininfo))
		return -ESRCH;
	domctl.domain = domctl.u.getdomaininfo.domain;
	copy(pid, 1, &domctl, call[1], sizeof(domctl));
	return 0;
}

static int file_with(const char *text)
{
	int fd = memfd_create("file", 0);

	check(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "a file");
	lseek(fd, 0, SEEK_SET);
	return fd;
}

/* A stand-in for one of Xen's devices, or -1 for any other file. */
static int device(pid_t pid, uint64_t at)
{
	char path[64] = "";
	int fd;

	/* It may end with the page. */
	for (size_t i = 0; i < sizeof(path) - 1; i++) {
		copy(pid, 0, path + i, at + i, 1);
		if (!path[i])
			break;
	}
	if (!strcmp(path, "/dev/xen/privcmd"))
		return open("/dev/null", O_RDWR);
	if (!strcmp(path, "/proc/xen/capabilities") && getenv("FAKE_XEN_CAPABILITIES"))
		return file_with(getenv("FAKE_XEN_CAPABILITIES"));
	if (strcmp(path, "/dev/xen/hypercall"))
		return -1;
	fd = memfd_create("hypercall", 0);
	check(!ftruncate(fd, 4096), "memory for hypercalls");
	return fd;
}

static void answer(int listener)
{
	struct seccomp_notif ask = { 0 };
	struct seccomp_notif_resp reply = { 0 };
	int fd;

	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &ask))
		return;
	reply.id = ask.id;
	if (ask.data.nr == SYS_ioctl) {
		reply.error = hypercall(ask.pid, ask.data.args[2]);
	} else if ((fd = device(ask.pid, ask.data.args[1])) >= 0) {
		struct seccomp_notif_addfd add = {
			.id = ask.id,
			.flags = SECCOMP_ADDFD_FLAG_SEND,
			.srcfd = fd,
			.newfd_flags = O_CLOEXEC,
		};

		check(ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add) >= 0, "a device's file");
		close(fd);
		return;
	} else {
		reply.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	}
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
}

static int watch_calls(void)
{
#define AT(field) (offsetof(struct seccomp_data, field))
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT(nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 5, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, LAST_OF_4_19, 0, 4),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT(args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, HYPERCALL, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	check(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges");
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
		       &program);
}

static void pass(int to, int fd)
{
	char space[CMSG_SPACE(sizeof(fd))] = { 0 }, byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = space,
			      .msg_controllen = sizeof(space) };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	*cmsg = (struct cmsghdr){ CMSG_LEN(sizeof(fd)), SOL_SOCKET, SCM_RIGHTS };
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	check(sendmsg(to, &msg, 0) == 1, "sendmsg");
}

static int take(int from)
{
	char space[CMSG_SPACE(sizeof(int))], byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = space,
			      .msg_controllen = sizeof(space) };
	int fd;

	if (recvmsg(from, &msg, 0) != 1)
		exit(1);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

int main(int argc, char **argv)
{
	struct stat st;
	int pair[2], listener;
	pid_t helper;

	check(argc > 1 && !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), "on_xen");
	helper = fork();
	if (!helper) {
		struct pollfd pollfd = { .events = POLLIN };

		close(pair[0]);
		pollfd.fd = take(pair[1]);
		while (poll(&pollfd, 1, -1) == 1 && !(pollfd.revents & POLLHUP))
			answer(pollfd.fd);
		return 0;
	}
	/* The helper is to read what belongs to its parent. */
	prctl(PR_SET_PTRACER, helper);
	argv++;
	if (!stat(argv[0], &st) && S_ISDIR(st.st_mode)) {
		if (geteuid())
			check(!unshare(CLONE_NEWUSER), "a user namespace");
		check(!chroot(argv[0]) && !chdir("/"), argv[0]);
		argv++;
	}
	listener = watch_calls();
	check(listener >= 0, "seccomp");
	pass(pair[0], listener);
	close(listener);
	execv(argv[0], argv);
	check(0, argv[0]);
}
