/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_HANDSHAKE_H
#define _XWAY_HANDSHAKE_H

#include <linux/types.h>

struct work_struct;
struct xway_chan;
struct xway_conn;
struct xway_ctl;
struct xway_link;

void xway_handshake_open(struct xway_conn *conn);
bool xway_handshake_ctl(struct xway_link *link, struct xway_chan *chan,
			const struct xway_ctl *ctl);
void xway_words_flag(struct xway_conn *conn, u32 flag);
void xway_handshake_close(struct xway_conn *conn);
void xway_handshake_abort(struct xway_conn *conn);
void xway_handshake_aborted(struct xway_conn *conn);
void xway_handshake_free_work(struct work_struct *work);
void xway_handshake_exit(void);

#endif /* _XWAY_HANDSHAKE_H */
