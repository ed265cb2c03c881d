/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_COMPANION_H
#define _XWAY_COMPANION_H

struct sock;
struct xway_conn;

void xway_companion_init(void);
void xway_companion_exit(void);
void xway_companion_ack(struct xway_conn *conn, struct sock *sk);

#endif /* _XWAY_COMPANION_H */
