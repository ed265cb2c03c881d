// SPDX-License-Identifier: GPL-2.0
#include "ipc.h"

#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/xway.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "absent.h"

/* The kernel makes no longer datagrams than this for a dump. */
#define BUFFER 65536

#ifndef NETLINK_EXT_ACK
#define NETLINK_EXT_ACK 11
#endif

struct ipc {
	struct mnl_socket *nl;
	uint16_t families[IPC_FAMILIES];
	uint32_t seq;
	char reason[256];
	char buf[BUFFER];
};

/* The text of an extended acknowledgement, if there is one. */
static void take_reason(struct ipc *ipc, const struct nlmsghdr *nlh, size_t skip)
{
	const struct nlattr *attr;

	if (!(nlh->nlmsg_flags & NLM_F_ACK_TLVS))
		return;
	mnl_attr_for_each(attr, nlh, skip) {
		if (mnl_attr_get_type(attr) == NLMSGERR_ATTR_MSG &&
		    mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
			snprintf(ipc->reason, sizeof(ipc->reason), "%s", mnl_attr_get_str(attr));
	}
}

/* Takes an NLMSG_ERROR: 0 for an acknowledgement, else a negative error. */
static int take_error(struct ipc *ipc, const struct nlmsghdr *nlh)
{
	const struct nlmsgerr *err = mnl_nlmsg_get_payload(nlh);
	size_t skip = sizeof(*err);

	if (mnl_nlmsg_get_payload_len(nlh) < sizeof(*err))
		return -EBADMSG;
	/* Behind the error is the request, unless it is capped. */
	if (!(nlh->nlmsg_flags & NLM_F_CAPPED) && err->msg.nlmsg_len > sizeof(err->msg))
		skip += MNL_ALIGN(err->msg.nlmsg_len - sizeof(err->msg));
	take_reason(ipc, nlh, skip);
	return err->error;
}

static int take_done(struct ipc *ipc, const struct nlmsghdr *nlh)
{
	const int *error = mnl_nlmsg_get_payload(nlh);

	if (mnl_nlmsg_get_payload_len(nlh) < sizeof(*error))
		return 0;
	take_reason(ipc, nlh, sizeof(*error));
	return *error < 0 ? *error : 0;
}

static int transact(struct ipc *ipc, struct nlmsghdr *request, ipc_take take, void *arg)
{
	bool interrupted = false;
	int ret = 1;

	ipc->reason[0] = '\0';
	request->nlmsg_seq = ++ipc->seq;
	if (mnl_socket_sendto(ipc->nl, request, request->nlmsg_len) < 0)
		return -1;
	while (ret > 0) {
		ssize_t n = mnl_socket_recvfrom(ipc->nl, ipc->buf, sizeof(ipc->buf));
		const struct nlmsghdr *nlh = (void *)ipc->buf;
		int len = n;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		for (; ret > 0 && mnl_nlmsg_ok(nlh, len); nlh = mnl_nlmsg_next(nlh, &len)) {
			/* Left over from a request that failed half-way. */
			if (nlh->nlmsg_seq != ipc->seq)
				continue;
			if (nlh->nlmsg_flags & NLM_F_DUMP_INTR)
				interrupted = true;
			if (nlh->nlmsg_type == NLMSG_ERROR)
				ret = take_error(ipc, nlh);
			else if (nlh->nlmsg_type == NLMSG_DONE)
				ret = take_done(ipc, nlh);
			else if (nlh->nlmsg_type >= NLMSG_MIN_TYPE && take &&
				 mnl_nlmsg_get_payload_len(nlh) >= sizeof(struct genlmsghdr))
				take(nlh, arg);
		}
	}
	if (!ret && interrupted)
		ret = -EINTR;
	errno = -ret;
	return ret ? -1 : 0;
}

static struct nlmsghdr *begin(char *buf, uint16_t type, uint16_t flags, uint8_t cmd)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct genlmsghdr *genl;

	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST | flags;
	genl = mnl_nlmsg_put_extra_header(nlh, sizeof(*genl));
	genl->cmd = cmd;
	genl->version = 1;
	return nlh;
}

static void take_family(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlattr *attr;
	uint16_t *family = arg;

	mnl_attr_for_each(attr, nlh, sizeof(struct genlmsghdr))
		if (mnl_attr_get_type(attr) == CTRL_ATTR_FAMILY_ID &&
		    mnl_attr_validate(attr, MNL_TYPE_U16) >= 0)
			*family = mnl_attr_get_u16(attr);
}

static bool resolve(struct ipc *ipc, enum ipc_family family)
{
	static const char *const names[IPC_FAMILIES] = {
		[IPC_CORE] = XWAY_CORE_GENL_NAME,
		[IPC_SOCKETS] = XWAY_GENL_NAME,
	};
	char buf[256];
	struct nlmsghdr *nlh = begin(buf, GENL_ID_CTRL, NLM_F_ACK, CTRL_CMD_GETFAMILY);

	mnl_attr_put_strz(nlh, CTRL_ATTR_FAMILY_NAME, names[family]);
	if (transact(ipc, nlh, take_family, &ipc->families[family]))
		return false;
	errno = ENOENT;
	return ipc_has(ipc, family);
}

bool ipc_has(const struct ipc *ipc, enum ipc_family family)
{
	return ipc->families[family] != 0;
}

struct ipc *ipc_try(enum ipc_family needed)
{
	struct ipc *ipc = calloc(1, sizeof(*ipc));
	int on = 1, err;

	if (!ipc)
		return NULL;
	ipc->nl = mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC);
	if (ipc->nl && !mnl_socket_bind(ipc->nl, 0, MNL_SOCKET_AUTOPID)) {
		/* Without it there are fewer words, no more. */
		mnl_socket_setsockopt(ipc->nl, NETLINK_EXT_ACK, &on, sizeof(on));
		bool core = resolve(ipc, IPC_CORE);
		bool sockets = (core || errno == ENOENT) && resolve(ipc, IPC_SOCKETS);

		if (core && (sockets || (errno == ENOENT && needed == IPC_CORE)))
			return ipc;
		/* Before there was a core one module had one family. */
		if (sockets)
			errno = EPROTONOSUPPORT;
	}
	err = errno;
	ipc_close(ipc);
	errno = err;
	return NULL;
}

struct ipc *ipc_open(enum ipc_family needed)
{
	struct ipc *ipc = ipc_try(needed);
	int err = errno;
	json_t *absent;

	if (ipc)
		return ipc;
	if (err == ENOENT) {
		absent = absent_find();
		absent_print(absent);
		json_decref(absent);
	} else if (err == EPROTONOSUPPORT) {
		fputs("xway: the module is older than this command (modprobe -r xway; modprobe xway)\n",
		      stderr);
	} else {
		fprintf(stderr, "xway: cannot ask the kernel: %s\n", strerror(err));
	}
	errno = err;
	return NULL;
}

void ipc_close(struct ipc *ipc)
{
	if (!ipc)
		return;
	if (ipc->nl)
		mnl_socket_close(ipc->nl);
	free(ipc);
}

int ipc_do(struct ipc *ipc, enum ipc_family family, uint8_t cmd, ipc_put put, const void *put_arg,
	   ipc_take take, void *take_arg)
{
	char buf[1024];
	struct nlmsghdr *nlh = begin(buf, ipc->families[family], NLM_F_ACK, cmd);

	if (put)
		put(nlh, put_arg);
	return transact(ipc, nlh, take, take_arg);
}

int ipc_dump(struct ipc *ipc, enum ipc_family family, uint8_t cmd, ipc_take take, void *take_arg)
{
	char buf[256];

	return transact(ipc, begin(buf, ipc->families[family], NLM_F_DUMP, cmd), take, take_arg);
}

void ipc_complain(struct ipc *ipc, const char *doing)
{
	int err = errno;

	if (ipc->reason[0])
		fprintf(stderr, "xway: %s: %s (%s)\n", doing, ipc->reason, strerror(err));
	else if (err == EPERM)
		fprintf(stderr, "xway: %s: only root may (CAP_NET_ADMIN)\n", doing);
	else
		fprintf(stderr, "xway: %s: %s\n", doing, strerror(err));
}
