/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_COMPANION_H
#define _XWAY_COMPANION_H

int xway_companion_init(void);
void xway_companion_exit(void);

#endif /* _XWAY_COMPANION_H */
