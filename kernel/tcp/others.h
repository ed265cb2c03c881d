/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_OTHERS_H
#define _XWAY_OTHERS_H

#include <linux/types.h>

#include "stats.h"

struct net;
struct sock;

struct sock *xway_others_next(const struct net *net, u32 *bucket, u32 *nth);
void xway_others_note(struct sock *sk, enum xway_reason why);
enum xway_reason xway_others_noted(struct sock *sk);

#endif /* _XWAY_OTHERS_H */
