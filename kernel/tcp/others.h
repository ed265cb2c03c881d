/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_OTHERS_H
#define _XWAY_OTHERS_H

#include <linux/types.h>

struct net;
struct sock;

struct sock *xway_others_next(const struct net *net, u32 *bucket, u32 *nth);

#endif /* _XWAY_OTHERS_H */
