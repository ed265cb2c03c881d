/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_READER_H
#define _XWAY_READER_H

#include <linux/types.h>

struct sock;
struct xway_conn;

bool xway_reader_fits(const struct sock *sk);
bool xway_reader_changed(struct xway_conn *conn, const struct sock *sk);
void xway_reader_call(struct xway_conn *conn, struct sock *sk);
void xway_reader_tell(struct xway_conn *conn, struct sock *sk);
void xway_reader_to_tcp(struct sock *sk);

#endif /* _XWAY_READER_H */
