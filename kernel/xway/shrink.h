/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_SHRINK_H
#define _XWAY_SHRINK_H

int xway_shrink_init(void);
void xway_shrink_exit(void);

#endif /* _XWAY_SHRINK_H */
