/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_ADOPT_H
#define _XWAY_ADOPT_H

struct sock;
struct xway_conn;
struct xway_link;

/* Jiffies within which both ends have looked for the last time: see SCANS in adopt.c */
#define XWAY_ADOPT_TIME (100 * HZ)

void xway_adopt_up(struct xway_link *link);
void xway_adopt_missed(void);
void xway_adopt_settle(void);
void xway_adopt_look(struct xway_conn *conn, struct sock *sk);
bool xway_adopt_unsettled(struct xway_conn *conn);
void xway_adopt_init(void);
void xway_adopt_exit(void);

#endif /* _XWAY_ADOPT_H */
