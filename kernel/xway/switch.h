/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_SWITCH_H
#define _XWAY_SWITCH_H

#include <linux/types.h>

struct sock;
struct xway_conn;
struct xway_tuple;

int xway_switch_init(void);
void xway_switch_exit(void);
void xway_switch_set(bool on);
bool xway_switch_is_on(void);
void xway_switch_detach(struct xway_conn *conn, struct sock *sk);
void xway_switch_release(struct xway_conn *conn, struct sock *sk);
void xway_switch_tuple(const struct sock *sk, bool active,
		       struct xway_tuple *tuple);
struct xway_conn *xway_switch_conn(const struct sock *sk);
struct xway_conn *xway_switch_again(struct xway_conn *conn,
				    const struct sock *sk);
struct xway_conn *xway_switch_conn_rcu(const struct sock *sk);

#endif /* _XWAY_SWITCH_H */
