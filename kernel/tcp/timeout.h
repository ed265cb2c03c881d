/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_TIMEOUT_H
#define _XWAY_TIMEOUT_H

void xway_timeout_begin(void);
void xway_timeout_exit(void);

#endif /* _XWAY_TIMEOUT_H */
