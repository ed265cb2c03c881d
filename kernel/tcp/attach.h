/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_ATTACH_H
#define _XWAY_ATTACH_H

#include <net/tcp.h>

#include "stats.h"

struct xway_conn;
struct xway_tuple;

int xway_attach_init(void);
void xway_attach_exit(void);
void xway_attach_set(bool on);
bool xway_attach_is_on(void);
bool xway_attach_to_peer(const struct sock *sk);
bool xway_attach_candidate(const struct sock *sk);
bool xway_attach_adopt(struct sock *sk);
enum xway_reason xway_attach_unfit(const struct sock *sk);
bool xway_attach_why_not(struct sock *sk, enum xway_reason *why);
void xway_attach_accepted(struct xway_conn *conn, struct sock *sk);
void xway_detach(struct xway_conn *conn, struct sock *sk);
bool xway_detach_or_park(struct xway_conn *conn, struct sock *sk);
void xway_attach_tuple(const struct sock *sk, bool active,
		       struct xway_tuple *tuple);
bool xway_attach_listed(const struct xway_conn *conn, const struct sock *sk);
struct xway_link *xway_attach_link(const struct sock *sk, bool active);
struct xway_conn *xway_attached(const struct sock *sk);
struct xway_conn *xway_attached_again(struct xway_conn *conn,
				      const struct sock *sk);

extern struct tcp_ulp_ops xway_ulp;

/**
 * xway_attached_rcu() - the connection of a socket, without a reference
 * @sk: a socket that is attached, or was a moment ago
 *
 * Context: RCU read-side section, in which the result stays valid; or the
 * socket is locked.
 * Return: the connection, or NULL if the socket is not attached.
 */
static inline struct xway_conn *
xway_attached_rcu(const struct sock *sk)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);
	struct xway_conn *conn =
		READ_ONCE(*(void *__force *)&icsk->icsk_ulp_data);

	/* Data before owner: pairs with xway_detach(), which clears the owner
	 * first. So another owner's data is never taken for a connection.
	 */
	smp_rmb();
	return READ_ONCE(icsk->icsk_ulp_ops) == &xway_ulp ? conn : NULL;
}

#endif /* _XWAY_ATTACH_H */
