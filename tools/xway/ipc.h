/* SPDX-License-Identifier: GPL-2.0 */
/* The way to the modules: generic netlink. */
#ifndef XWAY_IPC_H
#define XWAY_IPC_H

#include <libmnl/libmnl.h>
#include <stdbool.h>
#include <stdint.h>

struct ipc;

/* Each module has a family: the core, and sockets, which need the core. */
enum ipc_family { IPC_CORE, IPC_SOCKETS, IPC_FAMILIES };

/* Puts the request's attributes; takes one message of the reply. */
typedef void (*ipc_put)(struct nlmsghdr *nlh, const void *arg);
typedef void (*ipc_take)(const struct nlmsghdr *nlh, void *arg);

/* NULL with errno after the reason has been printed. ENOENT: the module is not loaded. */
struct ipc *ipc_open(enum ipc_family needed);
/* The same without a word: the module may be absent. */
struct ipc *ipc_try(enum ipc_family needed);
bool ipc_has(const struct ipc *ipc, enum ipc_family family);
void ipc_close(struct ipc *ipc);

/*
 * One request and its reply: 0, or -1 with errno, and with ipc_reason() giving
 * what the kernel said. For a dump, EINTR: what was dumped changed meanwhile.
 */
int ipc_do(struct ipc *ipc, enum ipc_family family, uint8_t cmd, ipc_put put, const void *put_arg,
	   ipc_take take, void *take_arg);
int ipc_dump(struct ipc *ipc, enum ipc_family family, uint8_t cmd, ipc_take take, void *take_arg);

/* Prints why the last request failed, in the words of the kernel if it had any. */
void ipc_complain(struct ipc *ipc, const char *doing);

#endif
