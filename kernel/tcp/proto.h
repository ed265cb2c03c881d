/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_PROTO_H
#define _XWAY_PROTO_H

#include <linux/types.h>

struct proto;
struct sock;

extern void (*xway_base_data_ready)(struct sock *sk);

int xway_proto_init(void);
void xway_proto_exit(void);
bool xway_proto_is_base(const struct proto *prot);
struct proto *xway_proto_of(const struct sock *sk);
void xway_proto_set_ops(struct sock *sk);
bool xway_proto_has_ops(const struct sock *sk);
bool xway_proto_has_base_ops(const struct sock *sk);
bool xway_proto_untouched(const struct sock *sk);
void xway_proto_restore(struct sock *sk, struct proto *base);

#endif /* _XWAY_PROTO_H */
