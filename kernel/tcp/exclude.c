// SPDX-License-Identifier: GPL-2.0
/*
 * Ports whose connections stay on TCP, by the operator's word: what looks at packets, as a
 * connection tracker's helper for FTP, sees none of a ring's.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitmap.h>
#include <linux/moduleparam.h>
#include <linux/string.h>
#include <net/inet_sock.h>

#include "exclude.h"

#define PORTS 65536

static DECLARE_BITMAP(ports, PORTS);

static int exclude_ports_set(const char *text, const struct kernel_param *param)
{
	unsigned long *wanted = bitmap_zalloc(PORTS, GFP_KERNEL);
	int err;

	if (!wanted)
		return -ENOMEM;
	err = bitmap_parselist(text, wanted, PORTS);
	/* A socket that has not chosen its port yet says 0. */
	__clear_bit(0, wanted);
	/* Who looks at a port meanwhile finds what was said of it before, or now. */
	if (err)
		pr_err("%s=%.*s: must be ports and ranges of them, as 20-21,5060\n", param->name,
		       (int)strcspn(text, "\n"), text);
	else
		bitmap_copy(ports, wanted, PORTS);
	bitmap_free(wanted);
	return err ? -EINVAL : 0;
}

static int exclude_ports_get(char *text, const struct kernel_param *param)
{
	return scnprintf(text, PAGE_SIZE, "%*pbl\n", PORTS, ports);
}

static const struct kernel_param_ops exclude_ports_ops = {
	.set = exclude_ports_set,
	.get = exclude_ports_get,
};
module_param_cb(exclude_ports, &exclude_ports_ops, NULL, 0644);
MODULE_PARM_DESC(exclude_ports, "ports whose connections stay on TCP, as 20-21,5060, for connections made later");

/**
 * xway_excluded() - is one of a connection's ports excluded?
 * @sk: its socket; one that has not chosen its own port yet is looked at by the other
 *
 * Context: any.
 * Return: true if it is.
 */
bool xway_excluded(const struct sock *sk)
{
	const struct inet_sock *inet = inet_sk(sk);

	return test_bit(ntohs(READ_ONCE(inet->inet_dport)), ports) ||
	       test_bit(ntohs(READ_ONCE(inet->inet_sport)), ports);
}
