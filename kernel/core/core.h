/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The client's interface of the core: all that a client includes.
 *
 * The core joins this domain with its peers. A *link* joins it with one of them:
 * each of the two shows the other an *arena* of pages, read-only, and one event
 * channel lets each wake the other. Nobody writes into the other's memory. A
 * *client* is a module that carries something over links: sockets, packets,
 * blocks. Both ends of a link know it by its *service* number. For each thing
 * that it carries a client opens a *channel*: 128 bytes of *words* that this end
 * writes and the peer reads, the same the other way round, and a *ring* of pages
 * in each direction. What is in words and rings is the client's own business,
 * and so is how the two ends agree on a channel; ring.h has a byte ring to use.
 *
 * The life of a client
 *
 *	xway_client_register()		each link is shown to @add_link
 *	  for each channel, both ends:
 *	    xway_chan_init()		when the object that holds it is made
 *	    xway_chan_create()		this end's half: a number, words, ring
 *	    xway_chan_describe(), xway_ctl_send()  tell the peer where it is
 *	    xway_chan_map()		the half of the peer that its message describes
 *	    xway_chan_bell()		have the peer's @event called, again and again
 *	    xway_chan_unmap()		nothing of the peer's half is touched any more,
 *	    xway_ctl_send()		and the peer is told so: CLOSE
 *	    xway_chan_destroy()		once the peer has said the same
 *	xway_client_unregister()	no channel is left
 *
 * The control messages OPEN, ACCEPT, DECLINE and CLOSE have the meanings that
 * wire.h gives them; one end opens, the other accepts or declines, and each says
 * CLOSE. A peer that has no client of the service declines by itself, with
 * XWAY_DECLINE_SERVICE.
 *
 * Trust. All that a peer writes may be wrong, and may change while it is looked
 * at: its words, its ring, and each field of a control message that the core
 * does not promise to have checked. Read it once (READ_ONCE()), check the copy,
 * use the copy. Reading a mapped half is always safe; its content is not.
 *
 * Locks. @lock of a link is a mutex. It may be taken in a client's own locks,
 * and none of these may be taken under it, but for spinlocks. What needs it says
 * so, and checks it with lockdep. In doubt: process context may sleep, @event
 * may not. Memory that is allocated under it must not wait for I/O:
 * memalloc_noio_save() around work that takes it, because a channel may be what
 * reclaim would write by.
 */
#ifndef _XWAY_CORE_H
#define _XWAY_CORE_H

#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/types.h>

#include "wire.h"

struct module;
struct sk_buff;
struct workqueue_struct;
struct xway_chan;
struct xway_link;
struct xway_peer;

/* ---- links ---- */

/**
 * enum xway_link_state - where a link is in its session
 * @XWAY_LINK_WAITING: the peer has not answered yet
 * @XWAY_LINK_CONNECTING: its arena is mapped here
 * @XWAY_LINK_UP: and this one there: channels can be opened
 * @XWAY_LINK_CLOSING: no new channels; those that are there end
 * @XWAY_LINK_DEAD: nothing of the peer is touched any more
 */
enum xway_link_state {
	XWAY_LINK_WAITING,
	XWAY_LINK_CONNECTING,
	XWAY_LINK_UP,
	XWAY_LINK_CLOSING,
	XWAY_LINK_DEAD,
};

/**
 * struct xway_link - what joins this domain with a peer, as far as clients see
 * @ref: use xway_link_get() and xway_link_put()
 * @lock: see above
 * @state: changes under @lock; otherwise READ_ONCE()
 * @name: transport and the peer's number there, as in "xen:7", for messages
 * @peer: whom it joins with; the same for all links with the same domain
 * @nonce: random number of this session, as this end chose it
 * @peer_nonce: as the peer chose it
 * @n_chans: channels of all clients; changes under @lock
 * @data: of each client, by service; the client's own from @add_link to @del_link
 *
 * All of it is to be read only, but for @data. A link is up and goes down many
 * times: each time is a session, with new nonces.
 */
struct xway_link {
	refcount_t ref;
	struct mutex lock;	/* see above */
	enum xway_link_state state;
	char name[24];
	struct xway_peer *peer;
	u64 nonce;
	u64 peer_nonce;
	u32 n_chans;
	void __rcu *data[XWAY_SERVICES];
};

void xway_link_free(struct xway_link *link);

static inline struct xway_link *xway_link_get(struct xway_link *link)
{
	refcount_inc(&link->ref);
	return link;
}

/* Context: any but hard interrupt. */
static inline void xway_link_put(struct xway_link *link)
{
	if (refcount_dec_and_test(&link->ref))
		xway_link_free(link);
}

/* Who calls it and sees true in an RCU section is seen by @drain, see below. */
static inline bool xway_link_is_up(const struct xway_link *link)
{
	return READ_ONCE(link->state) == XWAY_LINK_UP;
}

bool xway_link_roomy(struct xway_link *link, u32 pages, u32 keep);
u32 xway_link_pages_max(void);

/* For work of clients that must not wait for user memory: WQ_UNBOUND | WQ_MEM_RECLAIM */
extern struct workqueue_struct *xway_link_wq;

/* ---- addresses ---- */

bool xway_addr_any(void);
struct xway_link *xway_addr_find(u16 family, const __be32 *addr, bool active);

/* ---- clients ---- */

/**
 * struct xway_client - a user of the core
 * @service: its number, enum xway_service; one client each
 * @name: for messages and the command xway
 * @add_link: a link was made, or was there when the client came. The client may
 *	set @data of it. Sleeps; under no lock of a link. Return: 0, or an errno:
 *	then this client does without the link, and @data stays NULL.
 * @del_link: the link ends for good, or the client is being unregistered; none
 *	of its channels is on it. The client clears @data. Sleeps; under no lock
 *	of a link.
 * @up: a session has begun. Optional. Sleeps; under the link's lock.
 * @ctl: a control message of the service. @msg is a private copy. @chan is the
 *	channel that it names, which is this client's; NULL for OPEN. Sleeps; under
 *	the link's lock. Return: false if no honest peer would have sent it: that
 *	ends the session.
 * @event: the peer has rung for a channel. Softirq, in an RCU section; the
 *	channel may be at its end, so its memory must wait for a grace period
 *	after xway_chan_destroy(). Spurious calls are allowed.
 * @drain: the session is to end: bring each channel on it to its end with the
 *	peer's help, within a few seconds. No new channel begins: who saw the link
 *	up in an RCU section before has left that section. Only starts that; sleeps;
 *	under no lock of a link. May be called twice.
 * @abort: the peer answers no more: end each channel that is left at once,
 *	without it: xway_chan_unmap() and xway_chan_destroy() before it returns.
 *	Sleeps; under no lock of a link.
 * @reclaim: the kernel needs memory: have channels give up @wanted pages of rings,
 *	or fewer, and take those off @wanted. Optional. Sleeps; under no lock of a
 *	link. Return: pages that could be given up besides.
 * @show: put attributes of this client for a link into a netlink message, see
 *	include/uapi/linux/xway.h. Optional. Sleeps. Return: 0 or -EMSGSIZE.
 *
 * The peer is only ever as honest as its module: @ctl and @event are called
 * whenever it likes. All others are called one at a time for each link.
 */
struct xway_client {
	u16 service;
	const char *name;
	int (*add_link)(struct xway_link *link);
	void (*del_link)(struct xway_link *link);
	void (*up)(struct xway_link *link);
	bool (*ctl)(struct xway_link *link, struct xway_chan *chan,
		    const struct xway_ctl *msg);
	void (*event)(struct xway_chan *chan);
	void (*drain)(struct xway_link *link);
	void (*abort)(struct xway_link *link);
	long (*reclaim)(long *wanted);
	int (*show)(struct xway_link *link, struct sk_buff *skb);
};

int xway_client_register(const struct xway_client *client);
void xway_client_unregister(const struct xway_client *client);

/* ---- channels ---- */

/**
 * struct xway_chan - one end of a channel; part of the client's own object
 * @link: that it is on
 * @client: whose it is
 * @own: own words, XWAY_WORDS_SIZE bytes, which the peer reads; NULL without
 * @peer: the peer's words, NULL while they are not mapped. The client clears it
 *	before xway_chan_unmap(), then waits for a grace period: readers use RCU,
 *	or what the client has instead.
 * @peer_id: the peer's number of the channel
 * @bell_last: for xway_chan_bell()
 * @id: own number, by which the peer's messages name it
 * @ring_page: private
 * @peer_ring_page: private
 * @ring_pages: pages of the own ring; 0: there is no own half
 * @peer_ring_pages: pages of the peer's ring that are mapped
 * @words_page: private
 * @peer_words_page: private
 * @words_slot: private
 *
 * The client's reference keeps it from xway_chan_create() until a grace period
 * after xway_chan_destroy().
 */
struct xway_chan {
	struct xway_link *link;
	const struct xway_client *client;
	void *own;
	const void __rcu *peer;
	u32 peer_id;
	u32 bell_last;

	u32 id;
	u32 ring_page;
	u32 peer_ring_page;
	u16 ring_pages;
	u16 peer_ring_pages;
	u16 words_page;
	u16 peer_words_page;
	u16 words_slot;
};

/* Context: any. The memory is zeroed before. */
static inline void xway_chan_init(struct xway_chan *chan,
				  const struct xway_client *client,
				  struct xway_link *link)
{
	chan->client = client;
	chan->link = link;
}

int xway_chan_create(struct xway_chan *chan, u32 pages, void **ring);
void xway_chan_destroy(struct xway_chan *chan);
void xway_chan_describe(const struct xway_chan *chan, struct xway_ctl *msg);
bool xway_chan_described(const struct xway_ctl *msg);
int xway_chan_map(struct xway_chan *chan, const struct xway_ctl *msg, void **ring);
void xway_chan_answered(struct xway_chan *chan, const struct xway_ctl *msg);
void xway_chan_unmap(struct xway_chan *chan);
void xway_chan_bell(struct xway_chan *chan);
void xway_chan_violated(struct xway_chan *chan);

void xway_ctl_send(const struct xway_client *client, struct xway_link *link,
		   struct xway_ctl *msg);

/* ---- memory ---- */

bool xway_peer_charge(struct xway_peer *peer, u32 pages);
void xway_peer_uncharge(struct xway_peer *peer, u32 pages);
void xway_reclaim_press(struct xway_link *link);
bool xway_reclaim_pressed(const struct xway_link *link);

#endif /* _XWAY_CORE_H */
