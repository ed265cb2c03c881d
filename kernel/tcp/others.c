// SPDX-License-Identifier: GPL-2.0
/*
 * Others: open connections with peers that are not attached, for who asks why. There is no
 * list of them, so TCP's hash is looked through, as inet_diag does it. Of those that fell
 * back a note says why, by the number of the socket's inode, until another one takes its place.
 */
#include <linux/hash.h>
#include <net/inet_hashtables.h>
#include <net/tcp.h>

#include "attach.h"
#include "others.h"

#define NOTES_BITS 10
#define NOTE_WHY 32	/* above the inode's number */
#define BUCKETS 1024u	/* empty ones between two looks whether others want the processor */

static u64 notes[1 << NOTES_BITS];

static_assert(sizeof(long) == sizeof(u64));	/* so a note is read and written as a whole */

/**
 * xway_others_note() - a connection is attached no more
 * @sk: its socket
 * @why: the reason, or XWAY_R_NONE if there is nothing to tell of it any more
 *
 * Context: any but hard interrupts.
 */
void xway_others_note(struct sock *sk, enum xway_reason why)
{
	u32 ino = sock_i_ino(sk);
	u64 *note = &notes[hash_32(ino, NOTES_BITS)];

	if (why != XWAY_R_NONE && ino)
		WRITE_ONCE(*note, (u64)why << NOTE_WHY | ino);
	else if ((u32)READ_ONCE(*note) == ino)
		WRITE_ONCE(*note, 0);
}

/**
 * xway_others_noted() - why a connection has fallen back
 * @sk: its socket
 *
 * Context: any but hard interrupts.
 * Return: XWAY_R_NONE if it has not, or nothing is known of it any more.
 */
enum xway_reason xway_others_noted(struct sock *sk)
{
	u32 ino = sock_i_ino(sk);
	u64 note = READ_ONCE(notes[hash_32(ino, NOTES_BITS)]);

	return ino && (u32)note == ino ? note >> NOTE_WHY : XWAY_R_NONE;
}

/* Is it open, with a peer, and not attached? RCU read-side section; the socket stays. */
static bool is_other(const struct sock *sk, const struct net *net)
{
	return READ_ONCE(sk->sk_state) == TCP_ESTABLISHED &&
	       (!net || net_eq(sock_net(sk), net)) && !xway_attached_rcu(sk) &&
	       xway_attach_to_peer(sk);
}

static struct sock *nth_of(struct inet_hashinfo *info, u32 bucket, u32 nth, const struct net *net)
{
	spinlock_t *lock = inet_ehash_lockp(info, bucket);
	struct sock *sk, *found = NULL;
	struct hlist_nulls_node *node;

	rcu_read_lock();
	spin_lock_bh(lock);
	sk_nulls_for_each(sk, node, &info->ehash[bucket].chain) {
		if (!is_other(sk, net) || nth--)
			continue;
		if (refcount_inc_not_zero(&sk->sk_refcnt))
			found = sk;
		break;
	}
	spin_unlock_bh(lock);
	rcu_read_unlock();
	return found;
}

/**
 * xway_others_next() - the next of them
 * @net: the only network namespace whose connections are wanted, NULL for all
 * @bucket: of TCP's hash, where to look; 0 to begin with, and moved on
 * @nth: place in it, as @bucket
 *
 * Connections that come or go meanwhile may be missed, or come twice. Network namespaces
 * that have a hash of their own are left alone, as by adopt.c.
 *
 * Context: process, may sleep.
 * Return: a socket with a reference, or NULL if there are no more.
 */
struct sock *xway_others_next(const struct net *net, u32 *bucket, u32 *nth)
{
	struct inet_hashinfo *info = init_net.ipv4.tcp_death_row.hashinfo;
	struct sock *sk;

	for (; *bucket <= info->ehash_mask; ++*bucket, *nth = 0) {
		if (!(*bucket % BUCKETS))
			cond_resched();
		if (hlist_nulls_empty(&info->ehash[*bucket].chain))
			continue;
		sk = nth_of(info, *bucket, (*nth)++, net);
		if (sk)
			return sk;
	}
	return NULL;
}
