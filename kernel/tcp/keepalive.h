/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_KEEPALIVE_H
#define _XWAY_KEEPALIVE_H

int xway_keepalive_init(void);
void xway_keepalive_exit(void);

#endif /* _XWAY_KEEPALIVE_H */
