// SPDX-License-Identifier: GPL-2.0
/*
 * The life of a device's channel. Either end opens it, when its device is up and the
 * link is. An end whose device is down declines, and opens when it is brought up. So
 * nobody has to ask again, but after an error. If the messages of both cross, the OPEN
 * of the end with the lower nonce counts.
 */
#include <linux/delay.h>
#include <linux/nospec.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "mmnet.h"

/* Looks, half a millisecond or more each: at a peer that is about to stop, at the own queue */
#define STOP_LOOKS 50
#define QUEUE_LOOKS 20

/* Return: what the device of a link keeps, or NULL. The caller holds the link's lock. */
struct mm_port *mm_port_of(struct xway_link *link)
{
	return rcu_dereference_protected(link->data[XWAY_SERVICE_NET],
					 lockdep_is_held(&link->lock));
}

/**
 * mm_port_broken() - the peer has broken the rules: end the channel soon
 * @q: the channel's queue
 *
 * Context: the caller reads or writes a ring, under the lock for that.
 */
void mm_port_broken(struct mm_queue *q)
{
	if (READ_ONCE(q->broken))
		return;
	WRITE_ONCE(q->broken, true);
	mm_add(q, MM_VIOLATIONS, 1);
	mod_delayed_work(xway_core_wq, &q->port->tend, 0);
}

static bool may_begin(struct mm_port *port)
{
	struct xway_link *link = port->link;

	return port->up && link && xway_link_is_up(link) && mm_port_of(link) == port;
}

/*
 * Does the peer take nothing more of what this end has written? If it is about to stop, wait
 * for that. Own @prod; mb; its @stop here, and there @stop; mb; our @prod: so if it does not
 * even stop yet, it will take all that there is.
 */
static bool has_stopped(struct xway_link *link, const struct mm_words *peer)
{
	/* Where a link ends its peers are not waited for, one after another. */
	unsigned int i = xway_link_is_up(link) ? 0 : STOP_LOOKS;

	ring_mb();
	for (; i < STOP_LOOKS && READ_ONCE(peer->stop) == MM_STOPS; i++)
		usleep_range(500, 1000);
	/* A packet that comes twice is better than one that does not come. */
	return ring_load_acquire(&peer->stop);	/* before @cons */
}

/*
 * What waits for room goes by its vif, if it has come by one: at once, as without a carrier, or
 * taken down, the device has no queue, and the kernel drops what was in it.
 */
static void empty_queue(const struct mm_queue *q)
{
	unsigned int i;

	/* Who has seen the peer take packets of vifs has queued his by then. */
	synchronize_rcu_expedited();
	local_bh_disable();
	netif_tx_wake_queue(q->txq);
	local_bh_enable();
	/* Another thread may have to do that. A discipline that delays packets has them longer. */
	for (i = 0; i < QUEUE_LOOKS && mm_tx_waiting(q); i++)
		usleep_range(500, 1000);
}

/*
 * Who uses a channel holds one of the locks, so no grace period is needed.
 * @closed: the peer reads no more, and has said so
 */
static void let_go(struct mm_queue *q, bool closed)
{
	struct mm_port *port = q->port;
	struct mm_chan *ch = q->ch;
	const struct mm_words *peer = rcu_dereference_protected(ch->chan.peer, true);
	struct mm_words *own = ch->chan.own;
	bool broken;

	/* Packets take other queues from now on; for those that do not, see empty_queue(). */
	WRITE_ONCE(port->live, min(port->live, q->index));
	spin_lock_bh(&q->rx_lock);
	/* netif_tx_lock() keeps nobody out of a queue without a discipline (noqueue). */
	__netif_tx_lock(q->txq, smp_processor_id());
	mm_tx_end(q);
	q->emptied = true;
	q->rx = NULL;
	ring_store_release(&own->stop, MM_STOPPED);	/* after @cons */
	if (!q->index)
		WRITE_ONCE(port->peer_vifs, 0);
	broken = q->broken;
	q->broken = false;
	WRITE_ONCE(q->stalled, false);
	RCU_INIT_POINTER(ch->chan.peer, NULL);
	__netif_tx_unlock(q->txq);
	spin_unlock_bh(&q->rx_lock);
	/* The peer's words stay until they are unmapped. */
	if (broken)
		xway_chan_count_violation(&ch->chan);
	else if (closed || has_stopped(port->link, peer))
		mm_rx_back(q, ring_load(&peer->cons));
	empty_queue(q);
	WRITE_ONCE(q->emptied, false);
	if (!q->index)
		netif_carrier_off(port->dev);
}

static bool is_live(const struct mm_queue *q)
{
	return q->ch && q->ch->state == MM_LIVE;
}

/* Use the queues up to the first one that is missing. */
static void set_live(struct mm_port *port)
{
	unsigned int nr = 0;

	while (nr < port->nr_queues && is_live(&port->queue[nr]))
		nr++;
	WRITE_ONCE(port->live, nr);
}

static void go_live(struct mm_queue *q, struct mm_chan *ch, const struct mm_hello *hello)
{
	struct mm_words *own = ch->chan.own;

	ch->state = MM_LIVE;
	WRITE_ONCE(own->stop, 0);
	ch->features = hello->features;
	q->began = jiffies;
	spin_lock_bh(&q->rx_lock);
	__netif_tx_lock(q->txq, smp_processor_id());
	q->ch = ch;
	q->rx = ch;
	q->tx = ch;
	q->peer_prod = 0;
	q->prod = 0;
	q->cons = 0;
	q->taken = 0;
	q->broken = false;
	q->news = true;
	WRITE_ONCE(q->stalled, false);
	__netif_tx_unlock(q->txq);
	spin_unlock_bh(&q->rx_lock);
	mm_add(q, MM_OPENED, 1);
	netif_tx_wake_queue(q->txq);
	set_live(q->port);
	if (!q->index) {
		netif_carrier_on(q->port->dev);
		/* The others come after it. */
		mod_delayed_work(xway_core_wq, &q->port->tend, 0);
	}
	/* The peer may have written and posted before this. */
	local_bh_disable();
	napi_schedule(&q->napi);
	local_bh_enable();
	/* Nor does the peer know what the own words have come to say since it looked. */
	smp_mb();	/* see xway_chan_post() */
	xway_chan_post(&ch->chan);
}

static struct mm_chan *create(struct mm_queue *q)
{
	struct mm_chan *ch = kzalloc(sizeof(*ch), GFP_KERNEL);
	struct mm_port *port = q->port;
	u32 keep = xway_link_pages_max() / 3, pages;
	struct mm_words *own;

	if (!ch)
		return NULL;
	ch->queue = q;
	xway_chan_init(&ch->chan, &mm_client, port->link);
	/* Where pages are scarce, a smaller ring does, or fewer. */
	for (pages = (port->ring_kib ?: mm_ring_kib()) / MM_PAGE_KIB; pages >= MM_PAGES_MIN;
	     pages /= 2)
		if (((pages == MM_PAGES_MIN && !q->index) ||
		     xway_link_has_room(port->link, pages, keep)) &&
		    !xway_chan_create(&ch->chan, pages, ch->ring))
			break;
	if (pages < MM_PAGES_MIN) {
		kfree(ch);
		return NULL;
	}
	ch->size = pages * PAGE_SIZE;
	own = ch->chan.own;
	own->want_data = 1;	/* the peer's first record is to cause an event */
	own->stop = MM_STOPPED;	/* if this never gets live, nothing was read */
	own->vifs = port->vifs;
	return ch;
}

static void destroy(struct mm_chan *ch)
{
	xway_chan_destroy(&ch->chan);
	/* mm_port_event() may still run for it. */
	kfree_rcu(ch, rcu);
}

static void say(struct mm_chan *ch, u32 type)
{
	struct xway_ctl msg = { .type = type, .chan = ch->chan.peer_id };
	struct mm_hello *hello = (void *)msg.body;

	if (type != XWAY_CTL_CLOSE) {
		xway_chan_describe(&ch->chan, &msg);
		hello->features = MM_FEATURE_QUEUES | (XWAY_NETIF_F_USO ? MM_FEATURE_USO : 0);
		hello->queue = ch->queue->index;
	}
	xway_ctl_send(&mm_client, ch->chan.link, &msg);
}

/* @closed: by the peer. See mm_port_close(). The other queues end before the first one. */
static void end(struct mm_queue *q, bool closed)
{
	struct xway_link *link = q->port->link;
	struct mm_chan *ch = q->ch;
	unsigned int i;

	lockdep_assert_held(&link->lock);
	for (i = q->index ? 0 : q->port->max_queues - 1; i; i--)
		end(&q->port->queue[i], false);
	if (!ch)
		return;
	if (ch->state == MM_LIVE) {
		mm_rx_rest(q);
		let_go(q, closed);
		xway_peer_uncharge(link->peer, ch->chan.peer_ring_pages);
		xway_chan_unmap(&ch->chan);
		say(ch, XWAY_CTL_CLOSE);
	}
	q->ch = NULL;
	destroy(ch);
}

/**
 * mm_port_close() - end the channels, if there are some
 * @port: the port
 *
 * What the peer has written is received. What it has not read it will read when it gets
 * CLOSE, or has go another way if it has stopped reading: see has_stopped().
 *
 * Nobody waits for the peer: the core keeps for it what it may still use. Before the
 * answer to OPEN this end cannot send CLOSE, and the core does that.
 *
 * Context: process, link's lock held.
 */
void mm_port_close(struct mm_port *port)
{
	/* What comes back meanwhile does not go by another one that ends, too. */
	WRITE_ONCE(port->live, 0);
	end(&port->queue[0], false);
}

/* Take the port's lock, and its link's if it has one: see mmnet.h. */
static void lock(struct mm_port *port)
{
	mutex_lock(&port->lock);
	if (port->link)
		mutex_lock(&port->link->lock);
}

static void unlock(struct mm_port *port)
{
	if (port->link)
		mutex_unlock(&port->link->lock);
	mutex_unlock(&port->lock);
}

/* The channel of a locked port's queue, or NULL */
static struct mm_chan *chan_of(const struct mm_queue *q)
{
	return q->port->link ? q->ch : NULL;
}

/*
 * Until when must the next channel wait, in jiffies? A peer that ends its channels costs a
 * carrier's change, and pages, once in a while.
 */
static unsigned long too_soon(const struct mm_queue *q)
{
	unsigned long due = q->began + MM_RETRY;

	return time_before(jiffies, due) ? due - jiffies : 0;
}

/* Have mm_port_tend() run so soon, if not sooner. */
static void tend_in(struct mm_port *port, unsigned long wait)
{
	queue_delayed_work(xway_core_wq, &port->tend, wait);
}

/* Is there to be a channel? A peer that has fewer queues declines. */
static bool is_wanted(const struct mm_queue *q)
{
	const struct mm_queue *first = &q->port->queue[0];

	if (!may_begin(q->port))
		return false;
	return q == first || (q->index < q->port->nr_queues && is_live(first) &&
			      first->ch->features & MM_FEATURE_QUEUES);
}

/* There was no memory, here or there. A device does without other queues until it begins anew. */
static void retry(struct mm_queue *q)
{
	if (!q->index)
		tend_in(q->port, MM_RETRY);
}

static void tend(struct mm_queue *q)
{
	struct mm_port *port = q->port;
	unsigned long wait = too_soon(q);

	if (q->ch && READ_ONCE(q->broken)) {
		end(q, false);
		tend_in(port, MM_RETRY);
	} else if (!q->ch && is_wanted(q) && wait) {
		/* As the peer ends a channel, what it wrote last may have had this run at once. */
		tend_in(port, wait);
	} else if (!q->ch && is_wanted(q)) {
		q->ch = create(q);
		if (q->ch) {
			q->ch->state = MM_OPENING;
			say(q->ch, XWAY_CTL_OPEN);
		} else {
			retry(q);
		}
	}
}

/* Work: open channels that are not there, and end broken ones. */
void mm_port_tend(struct work_struct *work)
{
	struct mm_port *port = container_of(to_delayed_work(work), struct mm_port, tend);
	unsigned int noio = memalloc_noio_save(), i;

	lock(port);
	for (i = 0; i < port->max_queues && port->link; i++)
		tend(&port->queue[i]);
	unlock(port);
	memalloc_noio_restore(noio);
}

/**
 * mm_port_set_up() - the device is up now, or down
 * @port: the port
 * @up: which
 *
 * Context: process, RTNL held; takes the link's lock.
 */
void mm_port_set_up(struct mm_port *port, bool up)
{
	unsigned int noio = memalloc_noio_save();

	lock(port);
	port->up = up;
	if (!up && port->link)
		mm_port_close(port);
	unlock(port);
	memalloc_noio_restore(noio);
	if (up)
		mod_delayed_work(xway_core_wq, &port->tend, 0);
}

/**
 * mm_port_set_vifs() - tell the peer of which vifs this end takes packets
 * @port: the port
 * @vifs: a bit for each
 *
 * Context: process, RTNL held; takes the link's lock.
 */
void mm_port_set_vifs(struct mm_port *port, u32 vifs)
{
	unsigned int noio = memalloc_noio_save();
	struct mm_chan *ch;

	lock(port);
	ch = chan_of(&port->queue[0]);
	if (ch && port->vifs != vifs) {
		struct mm_words *own = ch->chan.own;

		WRITE_ONCE(own->vifs, vifs);
		if (ch->state == MM_LIVE) {
			smp_mb();	/* see xway_chan_post() */
			xway_chan_post(&ch->chan);
		}
	}
	port->vifs = vifs;
	unlock(port);
	memalloc_noio_restore(noio);
}

/**
 * mm_port_set_queues() - use so many queues from now on
 * @port: the port
 * @nr: how many
 *
 * Context: process, RTNL held; takes the link's lock.
 */
void mm_port_set_queues(struct mm_port *port, unsigned int nr)
{
	unsigned int noio = memalloc_noio_save(), i;

	lock(port);
	port->nr_queues = nr;
	for (i = port->max_queues; i-- > nr && port->link;)
		end(&port->queue[i], false);
	if (port->link)
		set_live(port);
	unlock(port);
	memalloc_noio_restore(noio);
	mod_delayed_work(xway_core_wq, &port->tend, 0);
}

/**
 * mm_port_set_ring() - give the own rings another size
 * @port: the port
 * @kib: KiB, which mm_ring_kib_fits() takes
 *
 * A channel ends, and the next one begins after MM_RETRY.
 *
 * Context: process, RTNL held; takes the link's lock.
 */
void mm_port_set_ring(struct mm_port *port, u32 kib)
{
	unsigned int noio = memalloc_noio_save();
	const struct mm_chan *ch;

	lock(port);
	port->ring_kib = kib;
	ch = chan_of(&port->queue[0]);
	if (ch && ch->size != kib * 1024)
		mm_port_close(port);
	unlock(port);
	memalloc_noio_restore(noio);
	tend_in(port, MM_RETRY);
}

/**
 * mm_port_rings() - the sizes of the rings
 * @port: the port
 * @kib: set to KiB of the own ring, or of the next one if there is no channel
 * @peer_kib: set to KiB of the peer's, or 0
 *
 * Context: process; takes the port's lock, and the link's.
 */
void mm_port_rings(struct mm_port *port, u32 *kib, u32 *peer_kib)
{
	const struct mm_chan *ch;

	lock(port);
	*kib = port->ring_kib ?: mm_ring_kib();
	*peer_kib = 0;
	ch = chan_of(&port->queue[0]);
	if (ch && ch->state == MM_LIVE) {
		*kib = ch->size / 1024;
		*peer_kib = ch->peer_size / 1024;
	}
	unlock(port);
}

static bool map(struct mm_chan *ch, const struct xway_ctl *msg)
{
	struct xway_peer *peer = ch->chan.link->peer;

	if (!xway_peer_charge(peer, msg->ring_pages))
		return false;
	if (!xway_chan_map(&ch->chan, msg, ch->peer_ring)) {
		ch->peer_size = msg->ring_pages * PAGE_SIZE;
		return true;
	}
	xway_peer_uncharge(peer, msg->ring_pages);
	return false;
}

/* Can this half be mapped, and has it room for records? It depends on own parameters, too. */
static bool fits(const struct xway_ctl *msg)
{
	return xway_chan_described(msg) && msg->ring_pages >= MM_PAGES_MIN;
}

/* The queue for which the peer has sent OPEN, or NULL */
static struct mm_queue *queue_for(struct mm_port *port, const struct xway_ctl *msg)
{
	u32 index = ((const struct mm_hello *)msg->body)->queue;

	if (!port || !may_begin(port) || index >= port->nr_queues)
		return NULL;
	return &port->queue[array_index_nospec(index, MM_QUEUES)];
}

/* The peer has sent OPEN. Return: 0, or the reason to decline. */
static int accept(struct xway_link *link, const struct xway_ctl *msg)
{
	struct mm_queue *q = queue_for(mm_port_of(link), msg);
	struct mm_chan *ch;

	if (!q || !fits(msg))
		return XWAY_DECLINE_OFF;
	if (q->ch && (q->ch->state == MM_LIVE || link->nonce < link->peer_nonce))
		return XWAY_DECLINE_LATER;
	if (too_soon(q) || (q->index && !is_live(&q->port->queue[0])))
		return XWAY_DECLINE_LATER;
	end(q, false);	/* the own OPEN, which the peer declines */
	ch = create(q);
	if (!ch)
		return XWAY_DECLINE_MEMORY;
	if (!map(ch, msg)) {
		destroy(ch);
		return XWAY_DECLINE_MEMORY;
	}
	say(ch, XWAY_CTL_ACCEPT);
	go_live(q, ch, (const void *)msg->body);
	return 0;
}

static void accepted(struct mm_queue *q, const struct xway_ctl *msg)
{
	struct mm_chan *ch = q->ch;

	if (fits(msg) && map(ch, msg)) {
		go_live(q, ch, (const void *)msg->body);
		return;
	}
	xway_chan_set_peer_id(&ch->chan, msg);
	say(ch, XWAY_CTL_CLOSE);
	end(q, false);
	retry(q);
}

static struct mm_queue *queue_of(struct xway_chan *chan)
{
	return container_of(chan, struct mm_chan, chan)->queue;
}

/* See @ctl in core.h. */
bool mm_port_ctl(struct xway_link *link, struct xway_chan *chan, const struct xway_ctl *msg)
{
	struct xway_ctl no = { .type = XWAY_CTL_DECLINE, .chan = msg->from };
	struct mm_queue *q = chan ? queue_of(chan) : NULL;

	switch (msg->type) {
	case XWAY_CTL_OPEN:
		no.arg = accept(link, msg);
		if (no.arg)
			xway_ctl_send(&mm_client, link, &no);
		return true;
	case XWAY_CTL_ACCEPT:
		accepted(q, msg);
		return true;
	case XWAY_CTL_DECLINE:
		end(q, false);
		if (msg->arg == XWAY_DECLINE_LATER)
			tend_in(q->port, MM_RETRY);
		else if (msg->arg == XWAY_DECLINE_MEMORY)
			retry(q);
		return true;
	case XWAY_CTL_CLOSE:
		/* The peer keeps its half until we send CLOSE: nothing that it sent is lost. */
		end(q, true);
		/* If its device is not down, either end may open the next channel. */
		tend_in(q->port, MM_RETRY);
		return true;
	}
	return false;
}

/*
 * See @event in core.h. mm_device_destroy() waits for us before it frees the port. The
 * words are the poll's to read, under its lock, so this tells what the last poll has found.
 */
bool mm_port_event(struct xway_chan *chan)
{
	struct mm_queue *q = queue_of(chan);
	bool news;

	if (unlikely(q->index)) {
		/* A poll by another CPU may set it just now. */
		news = xchg(&q->news, false);
		mm_queue_poll(q);
		return news;
	}
	news = READ_ONCE(q->news);
	WRITE_ONCE(q->news, false);
	napi_schedule(&q->napi);
	return news;
}

/* See @up in core.h. */
void mm_port_up(struct xway_link *link)
{
	struct mm_port *port = mm_port_of(link);

	if (port)
		mod_delayed_work(xway_core_wq, &port->tend, 0);
}

/* See @drain in core.h. */
void mm_port_drain(struct xway_link *link)
{
	struct mm_port *port;

	mutex_lock(&link->lock);
	port = mm_port_of(link);
	if (port)
		mm_port_close(port);
	mutex_unlock(&link->lock);
}

/* See @abort in core.h. The drain leaves nothing to do: it does not wait. */
void mm_port_abort(struct xway_link *link, bool dead)
{
	mm_port_drain(link);
}
