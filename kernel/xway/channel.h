/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_CHANNEL_H
#define _XWAY_CHANNEL_H

#include <linux/types.h>

struct work_struct;
struct xway_conn;
struct xway_ctl;
struct xway_link;

void xway_chan_open(struct xway_conn *conn);
bool xway_chan_ctl(struct xway_link *link, const struct xway_ctl *msg);
void xway_chan_flag(struct xway_conn *conn, u32 flag);
void xway_chan_close(struct xway_conn *conn);
void xway_chan_drop(struct xway_conn *conn);
void xway_chan_free_work(struct work_struct *work);

#endif /* _XWAY_CHANNEL_H */
