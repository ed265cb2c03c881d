/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_IPSEC_H
#define _XWAY_IPSEC_H

#include <linux/types.h>

struct sock;
struct xway_conn;

#ifdef CONFIG_XFRM
bool xway_ipsec_set(const struct sock *sk);
int xway_ipsec_check(struct sock *sk);
void xway_ipsec_look(struct xway_conn *conn);
#else
static inline bool xway_ipsec_set(const struct sock *sk)
{
	return false;
}

static inline int xway_ipsec_check(struct sock *sk)
{
	return 0;
}

static inline void xway_ipsec_look(struct xway_conn *conn)
{
}
#endif

#endif /* _XWAY_IPSEC_H */
