/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_HEARTBEAT_H
#define _XWAY_HEARTBEAT_H

struct link;

void xway_heartbeat_reset(struct link *link);
void xway_heartbeat_init(void);
void xway_heartbeat_exit(void);

#endif /* _XWAY_HEARTBEAT_H */
