/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_EXCLUDE_H
#define _XWAY_EXCLUDE_H

#include <linux/types.h>

struct sock;

bool xway_excluded(const struct sock *sk);

#endif /* _XWAY_EXCLUDE_H */
