/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_HEARTBEAT_H
#define _XWAY_HEARTBEAT_H

#include <linux/types.h>

struct link;

void xway_heartbeat_reset(struct link *link);
void xway_heartbeat_await(void);
bool xway_heartbeat_awaits(struct link *link);
void xway_heartbeat_init(void);
void xway_heartbeat_exit(void);

#endif /* _XWAY_HEARTBEAT_H */
