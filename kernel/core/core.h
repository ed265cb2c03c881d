/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The interface of the core for clients. A client includes this file, and may
 * use ring.h (a byte ring) and genl.h (helpers for netlink) as well.
 *
 * A *link* joins this domain with one peer. Each of the two domains shows the
 * other an *arena* of pages, read-only, so neither can write into the other's
 * memory. (Fido, USENIX ATC 2009, section 3.3.1, maps the peer's memory
 * read-only too, but all of it.) A link has one event channel, by which each end
 * wakes the other.
 *
 * A *client* is a module that carries something over links: sockets, packets,
 * blocks. Both ends of a link know a client by its *service* number. A client
 * opens a *channel* for each thing that it carries. A channel has *words* (128
 * bytes) and a *ring* (of pages) in each direction: one end writes them, the
 * other end reads them. The client alone decides what they contain, and how its
 * two ends agree on a channel.
 *
 * Calls of a client, in their order:
 *
 *	xway_client_register()		the core calls @add_link for each link
 *	  for each channel, at both ends:
 *	    xway_chan_init()		the object that contains it was allocated
 *	    xway_chan_create()		make the own half: number, words, ring
 *	    xway_chan_describe(), xway_ctl_send()  tell the peer where it is
 *	    xway_chan_map()		map the half that the peer's message describes
 *	    xway_chan_post()		have the peer call its @event, any number of times
 *	    xway_chan_unmap()		stop using the peer's half,
 *	    xway_ctl_send()		and tell the peer so: CLOSE
 *	    xway_chan_destroy()		stop using the own half
 *	xway_client_unregister()	the core calls @del_link for each link
 *
 * One end sends OPEN. The other end answers with ACCEPT or DECLINE. To end the
 * channel each end sends CLOSE. wire.h says what these messages mean. If the peer
 * has no client of the service, its core answers an OPEN with DECLINE, reason
 * XWAY_DECLINE_SERVICE.
 *
 * The peer's last message to a channel is DECLINE or CLOSE. Until then it may name the
 * channel's number, and read words and ring. A client may destroy the channel earlier,
 * so it need not wait for a peer that does not answer. The core then keeps number, words
 * and ring as a *tombstone*, without the client, until that message comes or the session
 * ends. If OPEN was not answered yet and the answer is ACCEPT, the core sends CLOSE. The
 * pages are those of this link's arena, and the arena's limit holds: a silent peer leaves
 * less room for channels to that peer. Only the end of a session waits for it, for a few
 * seconds.
 *
 * Trust: a peer may write anything into its words, its ring and its control
 * messages, and may change them at any time. The core checks only the fields of a
 * message for which it says so. A client reads a word once (READ_ONCE()), checks
 * the copy and uses the copy. Reading a mapped half is always safe; believing it
 * is not.
 *
 * Who uses a channel: @peer of a channel is set while the peer's half may be read, the
 * own half written, and the channel posted. Who does one of these has seen it set, and
 * is protected in one of two ways. The client chooses one for each place in its code:
 *
 *	RCU		The user is in an RCU read-side section. Whoever clears @peer waits for
 *			a grace period before xway_chan_unmap().
 *	a lock		The user holds a lock of the client, or the link's. Whoever clears
 *			@peer holds it, too. No grace period is needed.
 *
 * So nobody uses the channel any more when xway_chan_unmap() is called. A client that
 * goes on writing the own half after that, as under the link's lock, ends this before
 * xway_chan_destroy().
 *
 * Locks: a link's @lock is a mutex. A client may take it while it holds its own
 * locks. Under it, a client may take no lock of its own but spinlocks. Functions
 * that need it say so and check it with lockdep. If nothing else is said, a
 * function that is called in process context may sleep, and @event may not.
 *
 * Allocations under @lock must not wait for I/O: the I/O may go by a channel that
 * waits for this very lock. So whoever takes @lock does it between
 * memalloc_noio_save() and memalloc_noio_restore(). The core has called the former
 * before each call into a client but @event, so a client does it in its work items
 * and system calls only, and needs no GFP_NOIO.
 */
#ifndef _XWAY_CORE_H
#define _XWAY_CORE_H

#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/types.h>

#include "wire.h"

struct net;
struct sk_buff;
struct workqueue_struct;
struct xway_chan;
struct xway_link;
struct xway_peer;

/* ---- links ---- */

/**
 * enum xway_link_state - state of a link's session
 * @XWAY_LINK_WAITING: the peer's arena is not mapped here yet
 * @XWAY_LINK_CONNECTING: the peer's arena is mapped here
 * @XWAY_LINK_UP: each end has mapped the other's arena; channels may open
 * @XWAY_LINK_CLOSING: no channel may open; open channels end
 * @XWAY_LINK_DEAD: no channel is left; the core unmaps the peer's arena
 */
enum xway_link_state {
	XWAY_LINK_WAITING,
	XWAY_LINK_CONNECTING,
	XWAY_LINK_UP,
	XWAY_LINK_CLOSING,
	XWAY_LINK_DEAD,
};

/**
 * struct xway_link - a link, the part that clients see
 * @ref: reference count, see xway_link_get() and xway_link_put()
 * @lock: see the top of this file
 * @state: written under @lock; read with READ_ONCE() without it
 * @name: for users: the transport and the peer's number there, as in "xen:7"
 * @peer: the peer, which outlives its links
 * @nonce: this end's random number of the session
 * @peer_nonce: the peer's random number of the session
 * @n_chans: channels of all clients, also those that the core keeps for the peer;
 *	written under @lock
 * @data: a pointer for each client, by service; the client may set its own from
 *	@add_link to @del_link
 *
 * Clients write only their @data. A link goes up and down many times. Each time is
 * a session, with new nonces.
 */
struct xway_link {
	refcount_t ref;
	struct mutex lock;	/* see the top of this file */
	enum xway_link_state state;
	char name[24];
	struct xway_peer *peer;
	u64 nonce;
	u64 peer_nonce;
	u32 n_chans;
	void __rcu *data[XWAY_SERVICES];
};

/**
 * xway_link_free() - free a link whose last reference is gone; see xway_link_put()
 * @link: the link
 *
 * Context: any but hard interrupt.
 */
void xway_link_free(struct xway_link *link);

/* Take one more reference on a link. Context: any; the caller has a reference. */
static inline struct xway_link *xway_link_get(struct xway_link *link)
{
	refcount_inc(&link->ref);
	return link;
}

/* Drop a reference on a link. Context: any but hard interrupt. */
static inline void xway_link_put(struct xway_link *link)
{
	if (refcount_dec_and_test(&link->ref))
		xway_link_free(link);
}

/*
 * Is the session up? Context: any. A client tests this, and makes a new object
 * known to its own @drain, in one RCU read-side section. The core calls @drain a
 * grace period after the last true, so @drain finds the object.
 */
static inline bool xway_link_is_up(const struct xway_link *link)
{
	return READ_ONCE(link->state) == XWAY_LINK_UP;
}

/**
 * xway_link_has_room() - are there enough pages for a large ring?
 * @link: the link
 * @pages: pages of that ring
 * @keep: pages of xway_link_pages_max() to leave for small rings
 *
 * Once seven eighths of all pages are allocated, a large ring may use pages that
 * the arena has, but the arena does not grow for it. Later links need the rest,
 * and reclaim takes long.
 *
 * Context: process, link's lock held.
 * Return: true if the ring may be that large.
 */
bool xway_link_has_room(struct xway_link *link, u32 pages, u32 keep);

/**
 * xway_link_pages_max() - the most pages that the arena of a link may have
 *
 * A peer gets at most three quarters of all pages, so that none keeps the others from
 * theirs. Even where all peers together have few, it may have the 16 that a session
 * needs.
 *
 * Context: any.
 * Return: the smaller one of the parameter peer_pages_max and three quarters of
 * pages_max.
 */
u32 xway_link_pages_max(void);

/**
 * xway_link_version() - the version of the protocol that both ends use
 * @link: the link
 *
 * Context: any; it stays the same as long as a channel is open.
 * Return: a number from XWAY_WIRE_OLDEST to XWAY_WIRE_NEWEST, see wire.h.
 */
u32 xway_link_version(const struct xway_link *link);

/**
 * xway_link_silent() - ask whether the peer's kernel runs
 * @link: the link
 *
 * A client that waits for the peer to read calls this about once a second. The first
 * call only asks. The time counts while somebody asks, so it is never too long.
 *
 * Context: process; takes the link's lock.
 * Return: seconds for which the peer's kernel has not answered; 0 if it runs, or if
 * the link is not up.
 */
unsigned int xway_link_silent(struct xway_link *link);

/**
 * xway_link_gone() - has the peer ended, without having ended the session?
 * @link: the link
 *
 * A peer that is paused has not. What the transport does not know, domain 0 tells.
 *
 * Context: process; takes the link's lock.
 * Return: true if nobody will ever read the own half of a channel.
 */
bool xway_link_gone(struct xway_link *link);

/*
 * For work of the core and of clients. It must not wait for a user's page fault,
 * which might never be served. WQ_UNBOUND | WQ_MEM_RECLAIM.
 */
extern struct workqueue_struct *xway_core_wq;

/* ---- addresses ---- */

/**
 * xway_addr_any() - is there any address in the table?
 *
 * Context: any.
 * Return: true if there is. A caller without the lock may get the old answer.
 */
bool xway_addr_any(void);

/**
 * xway_addr_find() - find the link to the peer that has an address
 * @family: AF_INET or AF_INET6
 * @addr: the address: one word for IPv4, four for IPv6
 * @active: true at the end that connects, false at the end that accepts
 *
 * If several prefixes match, the longest one counts.
 *
 * Context: RCU read-side section; the result is valid until its end.
 * Return: the link, or NULL if no peer has the address.
 */
struct xway_link *xway_addr_find(u16 family, const __be32 *addr, bool active);

/**
 * xway_addr_is_own() - is the near address of a connection this end's own?
 * @link: the link that xway_addr_find() has found for the far address
 * @net: the network namespace of the connection
 * @family: AF_INET or AF_INET6
 * @addr: the near address, as for xway_addr_find()
 *
 * Another network namespace may have a network in which both addresses are somebody
 * else's. An address that the initial namespace has, too, is not that of another one.
 *
 * Context: any.
 * Return: false if a client must not tell the peer of the connection.
 */
bool xway_addr_is_own(struct xway_link *link, const struct net *net, u16 family,
		      const __be32 *addr);

/* ---- clients ---- */

/**
 * struct xway_client - a user of the core
 * @service: enum xway_service; a service has at most one client
 * @name: for users: messages and the command xway
 * @add_link: a link was created, or existed when the client registered. The client
 *	may set its @data of the link. Context: process, xway_links_lock held, no link's
 *	lock. Return: 0, or a negative errno: the client cannot use this link, and its
 *	@data stays NULL.
 * @del_link: the link is destroyed, or the client is being unregistered. The client
 *	clears its @data, begins no channel any more, and ends each one that it has on
 *	the link, without waiting for the peer. There is none if the link is destroyed. Its
 *	@data may be NULL. Context: process, xway_links_lock held, no link's lock.
 * @policy: what domain 0 says of this service and peer, doc/xenstore.md: @text, which is
 *	valid during the call, or NULL if the two may not use the service. Called after
 *	@add_link if domain 0 has said something, and for each change. Optional: a client
 *	without it needs no word of its own. Context: process, xway_links_lock held, no
 *	link's lock.
 * @up: a session has begun. Optional. Context: process, link's lock held.
 * @ctl: the peer has sent a control message for this service. @msg is a private
 *	copy. @chan is the channel that it names, and this client's; it is NULL for
 *	OPEN. The message is due: ACCEPT or DECLINE comes once after OPEN was sent, and
 *	CLOSE once after ACCEPT was sent or has come. Context: process, link's lock
 *	held. Return: false if no honest peer would send the message; this ends the
 *	session. OPEN must be answered, soon: a peer that has waited for two minutes
 *	ends the session.
 * @event: the peer has posted a channel. The call may be spurious. The client may
 *	be destroying the channel, so the channel's memory must stay for a grace
 *	period after xway_chan_destroy(). Context: softirq, RCU read-side section.
 *	Return: true if the peer had changed its words since the last call, now or when
 *	the client looked last: it may need a lock for that. Who posts
 *	again and again without that is held up.
 * @drain: the session is ending. The client starts to end each of its channels on
 *	the link, with the peer's help, and does not wait for it. The core gives
 *	all of them a few seconds together. No caller that saw xway_link_is_up()
 *	true is left in its RCU read-side section. May be called twice in a
 *	session. Context: process, no link's lock held.
 * @abort: the peer does not answer any more, or the time of @drain is over. The
 *	client ends each channel that is left, without the peer. It has called
 *	xway_chan_unmap() and xway_chan_destroy() for each when this returns. With @dead
 *	the peer is gone for good, or lies. Otherwise it may run again: it can read the
 *	own half as it is now until it has unmapped it. Context: process, no link's
 *	lock held.
 * @addresses: the peer has lost an address. The client starts to end each channel
 *	that it has because of an address by which xway_addr_find() does not find the
 *	link any more. No caller that has found it so is left in its RCU read-side
 *	section. Optional. Context: process, no link's lock held.
 * @reclaim: the kernel needs memory. The client has channels give up pages of rings,
 *	about @wanted of them, and subtracts their number from @wanted. Optional.
 *	Context: process, no link's lock held. Return: the number of
 *	further pages that channels could give up.
 * @show: put the client's attributes of a link into a netlink message, see
 *	include/uapi/linux/xway.h. Optional. Context: process, with xway_links_lock
 *	held. Return: 0 or -EMSGSIZE.
 *
 * A hostile peer can cause calls of @ctl and @event at any time. The core makes
 * one call at a time of the others for a link.
 */
struct xway_client {
	u16 service;
	const char *name;
	int (*add_link)(struct xway_link *link);
	void (*del_link)(struct xway_link *link);
	void (*policy)(struct xway_link *link, const char *text);
	void (*up)(struct xway_link *link);
	bool (*ctl)(struct xway_link *link, struct xway_chan *chan,
		    const struct xway_ctl *msg);
	bool (*event)(struct xway_chan *chan);
	void (*drain)(struct xway_link *link);
	void (*abort)(struct xway_link *link, bool dead);
	void (*addresses)(struct xway_link *link);
	long (*reclaim)(long *wanted);
	int (*show)(struct xway_link *link, struct sk_buff *skb);
};

/**
 * xway_client_register() - begin to use the core
 * @client: the client; it must stay valid until it is unregistered
 *
 * Before this returns, @add_link was called for each link, and @up for each link that
 * is up.
 *
 * Context: process, may sleep; takes xway_links_lock.
 * Return: 0; -EINVAL if the service does not exist; -EBUSY if it has a client.
 */
int xway_client_register(const struct xway_client *client);

/**
 * xway_client_unregister() - stop using the core
 * @client: the client
 *
 * The core calls @del_link for each link, so a client needs no list of links. No call
 * into the client follows when this returns.
 *
 * Context: process, may sleep; takes xway_links_lock.
 */
void xway_client_unregister(const struct xway_client *client);

/**
 * xway_decline_name() - the name of a reason to decline, for users
 * @reason: enum xway_decline; the peer has sent it, so it may be any number
 *
 * Context: any.
 * Return: the name, as in doc/protocol.md; "other" for a reason that is not known here.
 */
const char *xway_decline_name(u32 reason);

/* ---- channels ---- */

/**
 * struct xway_chan - one end of a channel; a member of the client's own object
 * @link: the link that carries it
 * @client: the client that owns it
 * @own: own words, XWAY_WORDS_SIZE bytes, which the peer reads; NULL without an own
 *	half
 * @peer: the peer's words; NULL while they are not mapped. xway_chan_map() sets it, and
 *	the client clears it: see the top of this file
 * @peer_id: the peer's number of the channel
 * @last_post: private to xway_chan_post()
 * @id: own number of the channel, by which the peer's messages name it
 * @ring_page: private: first page of the own ring, in the own arena
 * @peer_ring_page: private: first page of the peer's ring, in the peer's arena
 * @ring_pages: pages of the own ring; 0 without an own half
 * @peer_ring_pages: mapped pages of the peer's ring; 0 without any
 * @words_page: private: page of the own words
 * @peer_words_page: private: page of the peer's words
 * @words_slot: private: place of the own words in @words_page
 * @expects: private: what the peer is to send next to the channel: XWAY_CTL_ACCEPT (or
 *	DECLINE), XWAY_CTL_CLOSE, or 0 for nothing
 *
 * The client keeps the memory from xway_chan_create() until a grace period after
 * xway_chan_destroy().
 */
struct xway_chan {
	struct xway_link *link;
	const struct xway_client *client;
	void *own;
	const void __rcu *peer;
	u32 peer_id;
	u32 last_post;

	u32 id;
	u32 ring_page;
	u32 peer_ring_page;
	u16 ring_pages;
	u16 peer_ring_pages;
	u16 words_page;
	u16 peer_words_page;
	u16 words_slot;
	u16 expects;
};

/* Initialize a channel, whose memory is zero. Context: any. */
static inline void xway_chan_init(struct xway_chan *chan,
				  const struct xway_client *client,
				  struct xway_link *link)
{
	chan->client = client;
	chan->link = link;
}

/**
 * xway_chan_create() - make this end's half of a channel
 * @chan: an initialized channel without an own half
 * @pages: pages of the own ring, a power of two of at most XWAY_RING_PAGES_MAX
 * @ring: set to the addresses of the ring's pages, which need not be contiguous;
 *	has room for @pages addresses
 *
 * The words are zero. The ring may contain bytes of an earlier channel to the same
 * peer, which that peer could read anyway.
 *
 * Context: process, may sleep, link's lock held.
 * Return: 0; -ENOSPC if the arena may not grow or the link has XWAY_CHANS_MAX
 * channels; -ENOMEM.
 */
int xway_chan_create(struct xway_chan *chan, u32 pages, void **ring);

/**
 * xway_chan_destroy() - stop using this end's half of a channel
 * @chan: a channel with an own half. This end does not write it any more. It has sent
 *	CLOSE, unless the session is ending or ACCEPT has not come.
 *
 * If the peer has sent CLOSE or DECLINE, the number may name another channel at once.
 * Otherwise the core keeps the half until then: see the top of this file. @event may
 * still run for this channel until a grace period is over.
 *
 * Context: process, may sleep, link's lock held.
 */
void xway_chan_destroy(struct xway_chan *chan);

/**
 * xway_chan_describe() - put the place of this end's half into a message
 * @chan: a channel with an own half
 * @msg: OPEN or ACCEPT; @from and the fields of words and ring are set
 *
 * Context: any.
 */
void xway_chan_describe(const struct xway_chan *chan, struct xway_ctl *msg);

/**
 * xway_chan_described() - does a message describe a half of a channel?
 * @msg: a private copy of the peer's message
 *
 * Context: any.
 * Return: true if @ring_pages is a power of two of at most XWAY_RING_PAGES_MAX, and
 * the other fields are such that xway_chan_map() may be called.
 */
bool xway_chan_described(const struct xway_ctl *msg);

/**
 * xway_chan_map() - map the peer's half of a channel
 * @chan: a channel on which the peer's half is not mapped
 * @msg: a private copy for which xway_chan_described() is true
 * @ring: set to the addresses of the pages of the peer's ring; has room for
 *	@ring_pages of @msg
 *
 * The pages stay mapped at least until xway_chan_unmap(). @peer of @chan is set last,
 * with release.
 *
 * After an error the client does without the channel: it declines an OPEN, and after an
 * ACCEPT it sends CLOSE, see xway_chan_set_peer_id(). -EPROTO is no proof of a lie,
 * because the pages of a domain that is being destroyed look the same. So the client
 * does not end the session for it, nor count a violation.
 *
 * Context: process, may sleep, link's lock held.
 * Return: 0; -EPROTO for pages that the peer has not shared; -ENOSPC if the peer
 * shows more pages than may be mapped; -ENOMEM.
 */
int xway_chan_map(struct xway_chan *chan, const struct xway_ctl *msg, void **ring);

/**
 * xway_chan_set_peer_id() - keep the peer's number of a channel
 * @chan: the channel; nothing was posted for it yet
 * @msg: OPEN or ACCEPT of the peer
 *
 * For a client that does not map the peer's half, but must still send CLOSE.
 * xway_chan_map() includes this.
 *
 * Context: link's lock held.
 */
void xway_chan_set_peer_id(struct xway_chan *chan, const struct xway_ctl *msg);

/**
 * xway_chan_unmap() - stop using the peer's half of a channel
 * @chan: the channel. The client has cleared @peer, and nobody uses the channel any
 *	more who saw it set: see the top of this file.
 *
 * The pages stay mapped for the next channel until the peer sends UNMAP, which may be as
 * soon as the link's lock is released. Nothing happens if the peer's half is not mapped.
 *
 * Context: process, link's lock held.
 */
void xway_chan_unmap(struct xway_chan *chan);

/**
 * xway_chan_post() - make the peer's client look at a channel
 * @chan: a channel after xway_chan_map() or xway_chan_set_peer_id()
 *
 * The caller has stored what the peer is to find, and has made a full barrier.
 *
 * Context: any but hard interrupt. The caller has seen @peer of the channel in an RCU
 * read-side section, or under the client's lock under which it is cleared; or it holds
 * the link's lock.
 */
void xway_chan_post(struct xway_chan *chan);

/**
 * xway_chan_count_violation() - count that the peer has broken a rule of a client
 * @chan: the channel; the client ends it, the core does not
 *
 * Context: any.
 */
void xway_chan_count_violation(struct xway_chan *chan);

/**
 * xway_ctl_send() - send a control message of a client
 * @client: the client
 * @link: the link
 * @msg: the message, which is copied; its @service is set
 *
 * All messages of a link arrive in order, whatever their client. If the peer's arena
 * is not mapped, the message is discarded.
 *
 * Context: process, may sleep, link's lock held.
 */
void xway_ctl_send(const struct xway_client *client, struct xway_link *link,
		   struct xway_ctl *msg);

/* ---- memory ---- */

#define XWAY_PEER_ID 40	/* bytes of a peer's id, NUL included */

/**
 * xway_peer_id() - what a peer is called, whatever its number is at the moment
 * @peer: the peer
 *
 * Context: any; valid as long as the caller has a link of the peer.
 * Return: the UUID of the domain; with the transport "local" the name of the link.
 */
const char *xway_peer_id(const struct xway_peer *peer);

/**
 * xway_peer_charge() - count pages that a client keeps for a peer
 * @peer: the peer
 * @pages: how many
 *
 * A client charges pages whose number the peer decides: the peer's rings while they
 * are mapped, and private copies of unread bytes. The limit is xway_link_pages_max() for
 * all clients and all links of the peer together. An honest peer with the same
 * parameters never reaches it, since its arena has no more pages. All peers together may
 * have an eighth of the memory.
 *
 * Context: any.
 * Return: true if the pages are charged now; false if they would exceed the limit.
 */
bool xway_peer_charge(struct xway_peer *peer, u32 pages);

/**
 * xway_peer_uncharge() - undo xway_peer_charge()
 * @peer: the peer
 * @pages: how many pages the client does not keep any more
 *
 * Context: any.
 */
void xway_peer_uncharge(struct xway_peer *peer, u32 pages);

/**
 * xway_reclaim_now() - reclaim all free pages of a link for the kernel
 * @link: the link
 *
 * For the next 5 seconds, pages that channels free are reclaimed at once too.
 *
 * Context: process, link's lock held.
 */
void xway_reclaim_now(struct xway_link *link);

/**
 * xway_reclaim_urgent() - has the kernel asked for pages in the last seconds?
 * @link: the link
 *
 * Context: link's lock held.
 * Return: true if xway_reclaim_now() was called less than 5 seconds ago.
 */
bool xway_reclaim_urgent(const struct xway_link *link);

#endif /* _XWAY_CORE_H */
