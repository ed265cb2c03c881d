// SPDX-License-Identifier: GPL-2.0
/*
 * A second client of the core, for tests and as an example: it sends datagrams.
 * doc/client.md goes through it.
 *
 * A link that is up gets one channel. The end with the lower nonce opens it, and
 * tries again while there is none: as long as the peer has not loaded this module,
 * its core declines. A ring holds records: a length, a serial number, as many bytes,
 * which follow from the number, and padding to eight bytes. The writer publishes
 * whole records. The reader checks all of it.
 *
 * Each link has a file in debugfs. "COUNT SIZE" written to it sends datagrams, and
 * waits for room. "lie" breaks the rules instead, and "silent" stops reading rings and
 * messages until "speak", as a client does that hangs while its core lives. Reading the
 * file shows the state of the channel and what was counted.
 *
 * Locks, each taken under those before it:
 *	a link's @lock		channels begin and end
 *	dgram_link's @lock	the rings: who uses a channel holds it
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "core/core.h"
#include "core/ring.h"

#define DGRAM_PAGES	16u
#define DGRAM_RING	(DGRAM_PAGES * RING_PAGE_SIZE)
#define DGRAM_MAX	16384u	/* bytes of a datagram */
#define DGRAM_RETRY	(HZ / 5)
#define DGRAM_PATIENCE	(5 * HZ)
#define DGRAM_UNHEARD	8u	/* messages that a silent end keeps */

/* Own words: the writer's of the own ring, the reader's of the peer's */
struct dgram_words {
	u32 prod;
	u32 want_room;

	u32 cons __aligned(64);
	u32 want_data;
};

static_assert(sizeof(struct dgram_words) <= XWAY_WORDS_SIZE);

struct dgram_record {
	u32 len;
	u32 serial;
};

enum dgram_count {
	DGRAM_OPENED,		/* channels that came to be live */
	DGRAM_VIOLATIONS,	/* of the format above */
	DGRAM_SENT,
	DGRAM_SENT_BYTES,
	DGRAM_RECEIVED,
	DGRAM_RECEIVED_BYTES,
	DGRAM_BAD,		/* the content is not that of the number */
	DGRAM_LOST,		/* the number is not the next one */
	DGRAM_COUNTS
};

static const char *const dgram_counts[DGRAM_COUNTS] = {
	"opened", "violations", "sent", "sent_bytes", "received", "received_bytes", "bad", "lost",
};

enum dgram_state {
	DGRAM_NONE,
	DGRAM_OPENING,	/* this end has sent OPEN */
	DGRAM_LIVE,	/* the peer's half is mapped */
	DGRAM_BROKEN,	/* the same, but nobody reads it: the peer has broken the rules */
};

static const char *const dgram_states[] = {
	"none", "opening", "live", "broken",
};

struct dgram_chan {
	struct xway_chan chan;
	struct dgram_link *dl;
	enum dgram_state state;	/* written under both locks; BROKEN under the spinlock */
	u32 sent;		/* the next serial number */
	u32 received;		/* the same of the peer's */
	void *ring[DGRAM_PAGES];
	void *peer_ring[DGRAM_PAGES];
	struct rcu_head rcu;
};

struct dgram_link {
	struct xway_link *link;		/* a reference */
	struct dentry *file;
	spinlock_t lock;		/* see the top of this file */
	struct dgram_chan *ch;		/* written under both locks */
	u64 count[DGRAM_COUNTS];	/* under @lock */
	u64 declined[XWAY_DECLINES];	/* by reason, 0 for those not known here; under @lock */
	wait_queue_head_t wait;		/* for room in the ring */
	struct work_struct receive;
	bool news;			/* the last look at the words has found some */
	u32 seen_cons;			/* the peer's at that look; under @lock */
	struct delayed_work tend;
	bool silent;			/* written under both locks */
	u32 n_unheard;			/* length of @unheard, under the link's lock */
	struct xway_ctl unheard[DGRAM_UNHEARD];
};

static const struct xway_client dgram_client;
static struct dentry *dgram_folder;

/* ---- the rings ---- */

static u32 dgram_space(u32 len)
{
	return ALIGN(sizeof(struct dgram_record) + len, sizeof(struct dgram_record));
}

static u8 dgram_byte(u32 serial, u32 at)
{
	return serial * 29 + at + (at >> 8);
}

/* Write a datagram's content into the own ring, or read the peer's. Return: false if it differs. */
static bool dgram_content(void *const *ring, u32 idx, u32 serial, u32 len, bool write)
{
	u32 done, n, i;

	for (done = 0; done < len; done += n) {
		u8 *at;

		n = len - done;
		at = xway_ring_at(ring, idx + done, DGRAM_RING, &n);
		for (i = 0; i < n; i++) {
			if (write)
				at[i] = dgram_byte(serial, done + i);
			else if (at[i] != dgram_byte(serial, done + i))
				return false;
		}
	}
	return true;
}

/*
 * The peer's words of a live channel. They stay while the caller holds the spinlock:
 * dgram_close() takes it before it lets go of them.
 */
static const struct dgram_words *dgram_peer(const struct dgram_chan *ch)
{
	return rcu_dereference_protected(ch->chan.peer, lockdep_is_held(&ch->dl->lock));
}

/* The peer has broken the rules. The caller cannot close: that takes the link's lock. */
static void dgram_broken(struct dgram_chan *ch)
{
	lockdep_assert_held(&ch->dl->lock);
	ch->state = DGRAM_BROKEN;
	ch->dl->count[DGRAM_VIOLATIONS]++;
	xway_chan_count_violation(&ch->chan);
	mod_delayed_work(xway_core_wq, &ch->dl->tend, 0);
}

/* Read what is in the ring of a live channel. Return: true if the peer has written more. */
static bool dgram_take(struct dgram_chan *ch)
{
	const struct dgram_words *peer = dgram_peer(ch);
	struct dgram_words *own = ch->chan.own;
	struct dgram_link *dl = ch->dl;
	u32 cons = own->cons, left;

	/* Pairs with the release of @prod in dgram_put(): the records are there. */
	if (!xway_ring_unread(ring_load_acquire(&peer->prod), cons, DGRAM_RING, &left))
		goto broken;
	while (left) {
		u32 size = sizeof(struct dgram_record), len, serial;
		const struct dgram_record *rec;

		/* It does not cross a page: @cons is a multiple of its size. */
		rec = xway_ring_at(ch->peer_ring, cons, DGRAM_RING, &size);
		len = READ_ONCE(rec->len);
		serial = READ_ONCE(rec->serial);
		if (left < size || len > DGRAM_MAX || dgram_space(len) > left)
			goto broken;
		dl->count[DGRAM_RECEIVED]++;
		dl->count[DGRAM_RECEIVED_BYTES] += len;
		dl->count[DGRAM_LOST] += serial != ch->received;
		if (!dgram_content(ch->peer_ring, cons + size, serial, len, false))
			dl->count[DGRAM_BAD]++;
		ch->received = serial + 1;
		cons += dgram_space(len);
		left -= dgram_space(len);
	}
	if (cons != own->cons || ring_load(&peer->cons) != dl->seen_cons) {
		dl->seen_cons = ring_load(&peer->cons);
		WRITE_ONCE(dl->news, true);
	}
	if (cons != own->cons && xway_ring_publish(&own->cons, cons, own->cons, &peer->want_room))
		xway_chan_post(&ch->chan);
	xway_ring_arm(&own->want_data, cons + 1);
	return ring_load(&peer->prod) != cons;
broken:
	dgram_broken(ch);
	return false;
}

static void dgram_receive(struct work_struct *work)
{
	struct dgram_link *dl = container_of(work, struct dgram_link, receive);
	bool more;

	do {
		spin_lock(&dl->lock);
		more = dl->ch && dl->ch->state == DGRAM_LIVE && !dl->silent && dgram_take(dl->ch);
		spin_unlock(&dl->lock);
		cond_resched();
	} while (more);
}

/*
 * Write a datagram into the ring. The caller holds the spinlock. Return: 0; -EAGAIN
 * without room (dgram_event() is called when there is); -ENOTCONN; -EPROTO.
 */
static int dgram_put(struct dgram_chan *ch, u32 len)
{
	u32 size = sizeof(struct dgram_record), need = dgram_space(len), used, prod;
	struct dgram_words *own;
	struct dgram_record *rec;
	bool armed = false;

	if (!ch || ch->state != DGRAM_LIVE)
		return -ENOTCONN;
	own = ch->chan.own;
	prod = own->prod;
	for (;; armed = true) {
		/* Pairs with the release of @cons in dgram_take(): what was there is read. */
		u32 cons = ring_load_acquire(&dgram_peer(ch)->cons);

		if (!xway_ring_unread(prod, cons, DGRAM_RING, &used)) {
			dgram_broken(ch);
			return -EPROTO;
		}
		if (DGRAM_RING - used >= need)
			break;
		if (armed)
			return -EAGAIN;
		xway_ring_arm(&own->want_room, prod + need - DGRAM_RING);
	}
	rec = xway_ring_at(ch->ring, prod, DGRAM_RING, &size);
	rec->len = len;
	rec->serial = ch->sent;
	dgram_content(ch->ring, prod + size, ch->sent++, len, true);
	ch->dl->count[DGRAM_SENT]++;
	ch->dl->count[DGRAM_SENT_BYTES] += len;
	if (xway_ring_publish(&own->prod, prod + need, prod, &dgram_peer(ch)->want_data))
		xway_chan_post(&ch->chan);
	return 0;
}

static int dgram_try_send(struct dgram_link *dl, u32 len)
{
	int err;

	spin_lock(&dl->lock);
	err = dgram_put(dl->ch, len);
	spin_unlock(&dl->lock);
	return err;
}

/* Do what no honest end does: claim more unread bytes than the ring has. */
static int dgram_lie(struct dgram_link *dl)
{
	struct dgram_chan *ch;
	int err = -ENOTCONN;

	spin_lock(&dl->lock);
	ch = dl->ch;
	if (ch && ch->state == DGRAM_LIVE) {
		struct dgram_words *own = ch->chan.own;

		ring_store_release(&own->prod, own->prod + 2 * DGRAM_RING);
		ring_mb();	/* as in xway_ring_publish() */
		xway_chan_post(&ch->chan);
		err = 0;
	}
	spin_unlock(&dl->lock);
	return err;
}

/* ---- channels: all of this holds the link's lock ---- */

static struct dgram_link *dgram_link(struct xway_link *link)
{
	return rcu_dereference_protected(link->data[XWAY_SERVICE_TEST],
					 lockdep_is_held(&link->lock));
}

/* May a channel begin? Not after dgram_del_link(). */
static bool dgram_may_begin(struct dgram_link *dl)
{
	return xway_link_is_up(dl->link) && dgram_link(dl->link) == dl;
}

static void dgram_set(struct dgram_link *dl, struct dgram_chan *ch, enum dgram_state state)
{
	lockdep_assert_held(&dl->link->lock);
	spin_lock(&dl->lock);
	dl->ch = ch;
	ch->state = state;
	dl->count[DGRAM_OPENED] += state == DGRAM_LIVE;
	spin_unlock(&dl->lock);
	wake_up_all(&dl->wait);
}

/* Make a channel with an own half. Return: NULL without memory. */
static struct dgram_chan *dgram_create(struct dgram_link *dl)
{
	struct dgram_chan *ch = kzalloc(sizeof(*ch), GFP_KERNEL);
	struct dgram_words *own;

	if (!ch)
		return NULL;
	ch->dl = dl;
	xway_chan_init(&ch->chan, &dgram_client, dl->link);
	if (xway_chan_create(&ch->chan, DGRAM_PAGES, ch->ring)) {
		kfree(ch);
		return NULL;
	}
	own = ch->chan.own;
	own->want_data = 1;	/* the peer's first record is to cause an event */
	return ch;
}

static void dgram_destroy(struct dgram_chan *ch)
{
	xway_chan_destroy(&ch->chan);
	/* dgram_event() may still run for it. */
	kfree_rcu(ch, rcu);
}

static void dgram_say(struct dgram_link *dl, struct dgram_chan *ch, u32 type)
{
	struct xway_ctl msg = { .type = type, .chan = ch->chan.peer_id };

	if (type != XWAY_CTL_CLOSE)
		xway_chan_describe(&ch->chan, &msg);
	xway_ctl_send(&dgram_client, dl->link, &msg);
}

/* Has the peer accepted the channel while this end was silent? Then it is owed a CLOSE. */
static bool dgram_unheard_accept(const struct dgram_link *dl, struct dgram_chan *ch)
{
	u32 i;

	for (i = 0; i < dl->n_unheard; i++) {
		if (dl->unheard[i].type != XWAY_CTL_ACCEPT || dl->unheard[i].chan != ch->chan.id)
			continue;
		xway_chan_set_peer_id(&ch->chan, &dl->unheard[i]);
		return true;
	}
	return false;
}

/*
 * End the channel, if there is one, and try to open another. Nobody waits for the peer:
 * the core keeps for it what it may still use. If this end has asked and the answer has not
 * come, it cannot send CLOSE, and the core does that.
 */
static void dgram_close(struct dgram_link *dl)
{
	struct dgram_chan *ch = dl->ch;

	lockdep_assert_held(&dl->link->lock);
	if (!ch)
		return;
	/* Who uses the channel holds the spinlock, so no grace period is needed. */
	spin_lock(&dl->lock);
	dl->ch = NULL;
	RCU_INIT_POINTER(ch->chan.peer, NULL);
	spin_unlock(&dl->lock);
	wake_up_all(&dl->wait);
	if (ch->state != DGRAM_OPENING) {
		xway_peer_uncharge(dl->link->peer, ch->chan.peer_ring_pages);
		xway_chan_unmap(&ch->chan);
	}
	if (ch->state != DGRAM_OPENING || dgram_unheard_accept(dl, ch))
		dgram_say(dl, ch, XWAY_CTL_CLOSE);
	dgram_destroy(ch);
	queue_delayed_work(xway_core_wq, &dl->tend, DGRAM_RETRY);
}

/* Open a channel, if this end is to and there is none, or close a broken one. */
static void dgram_tend(struct work_struct *work)
{
	struct dgram_link *dl = container_of(to_delayed_work(work), struct dgram_link, tend);
	struct xway_link *link = dl->link;
	unsigned int noio = memalloc_noio_save();
	struct dgram_chan *ch;

	mutex_lock(&link->lock);
	if (dl->ch && READ_ONCE(dl->ch->state) == DGRAM_BROKEN) {
		dgram_close(dl);
	} else if (!dl->ch && dgram_may_begin(dl) && link->nonce < link->peer_nonce) {
		ch = dgram_create(dl);
		if (ch) {
			dgram_set(dl, ch, DGRAM_OPENING);
			dgram_say(dl, ch, XWAY_CTL_OPEN);
		} else {
			queue_delayed_work(xway_core_wq, &dl->tend, DGRAM_RETRY);
		}
	}
	mutex_unlock(&link->lock);
	memalloc_noio_restore(noio);
}

static bool dgram_map(struct dgram_chan *ch, const struct xway_ctl *msg)
{
	struct xway_peer *peer = ch->chan.link->peer;

	if (!xway_peer_charge(peer, DGRAM_PAGES))
		return false;
	if (!xway_chan_map(&ch->chan, msg, ch->peer_ring))
		return true;
	xway_peer_uncharge(peer, DGRAM_PAGES);
	return false;
}

/* Can this half be mapped, and has @peer_ring room for it? */
static bool dgram_fits(const struct xway_ctl *msg)
{
	return xway_chan_described(msg) && msg->ring_pages == DGRAM_PAGES;
}

/* The peer has sent OPEN. Return: 0, or the reason to decline. */
static int dgram_accept(struct dgram_link *dl, const struct xway_ctl *msg)
{
	struct dgram_chan *ch;

	if (!dl)
		return XWAY_DECLINE_MEMORY;
	if (!dgram_may_begin(dl))
		return XWAY_DECLINE_OFF;
	if (dl->ch)
		return XWAY_DECLINE_LATER;
	ch = dgram_create(dl);
	if (!ch)
		return XWAY_DECLINE_MEMORY;
	if (!dgram_map(ch, msg)) {
		dgram_destroy(ch);
		return XWAY_DECLINE_MEMORY;
	}
	dgram_set(dl, ch, DGRAM_LIVE);
	dgram_say(dl, ch, XWAY_CTL_ACCEPT);
	return 0;
}

static void dgram_accepted(struct dgram_link *dl, struct dgram_chan *ch,
			   const struct xway_ctl *msg)
{
	if (dgram_map(ch, msg)) {
		dgram_set(dl, ch, DGRAM_LIVE);
		/* The peer may have written and posted before this. */
		queue_work(xway_core_wq, &dl->receive);
	} else {
		xway_chan_set_peer_id(&ch->chan, msg);
		dgram_say(dl, ch, XWAY_CTL_CLOSE);
		dgram_close(dl);
	}
}

static bool dgram_hear(struct xway_link *link, const struct xway_ctl *msg)
{
	struct dgram_link *dl = dgram_link(link);
	struct dgram_chan *ch = dl ? dl->ch : NULL;	/* a link has no other */
	struct xway_ctl no = { .type = XWAY_CTL_DECLINE, .chan = msg->from };

	switch (msg->type) {
	case XWAY_CTL_OPEN:
		if (!dgram_fits(msg))
			return false;
		no.arg = dgram_accept(dl, msg);
		if (no.arg)
			xway_ctl_send(&dgram_client, link, &no);
		return true;
	case XWAY_CTL_ACCEPT:
		if (!dgram_fits(msg))
			return false;
		dgram_accepted(dl, ch, msg);
		return true;
	case XWAY_CTL_DECLINE:
		spin_lock(&dl->lock);
		dl->declined[msg->arg < XWAY_DECLINES ? msg->arg : 0]++;
		spin_unlock(&dl->lock);
		dgram_close(dl);
		return true;
	case XWAY_CTL_CLOSE:
		/* The peer keeps its half until we send CLOSE: nothing that it sent is lost. */
		spin_lock(&dl->lock);
		if (ch->state == DGRAM_LIVE)
			dgram_take(ch);
		spin_unlock(&dl->lock);
		dgram_close(dl);
		return true;
	}
	return false;
}

static bool dgram_ctl(struct xway_link *link, struct xway_chan *chan, const struct xway_ctl *msg)
{
	struct dgram_link *dl = dgram_link(link);

	if (!dl || !dl->silent)
		return dgram_hear(link, msg);
	if (dl->n_unheard == DGRAM_UNHEARD)
		return false;
	dl->unheard[dl->n_unheard++] = *msg;
	return true;
}

static void dgram_set_silent(struct dgram_link *dl, bool silent)
{
	lockdep_assert_held(&dl->link->lock);
	spin_lock(&dl->lock);
	dl->silent = silent;
	spin_unlock(&dl->lock);
}

/* Be silent, or hear what came while this end was. */
static void dgram_hush(struct dgram_link *dl, bool silent)
{
	unsigned int noio = memalloc_noio_save();
	u32 i;

	mutex_lock(&dl->link->lock);
	dgram_set_silent(dl, silent);
	if (!silent) {
		for (i = 0; i < dl->n_unheard; i++)
			if (dl->unheard[i].type == XWAY_CTL_OPEN || dl->ch)
				dgram_hear(dl->link, &dl->unheard[i]);
		dl->n_unheard = 0;
	}
	mutex_unlock(&dl->link->lock);
	memalloc_noio_restore(noio);
	queue_work(xway_core_wq, &dl->receive);
}

static bool dgram_event(struct xway_chan *chan)
{
	/* dgram_del_link() waits for us before it frees this. */
	struct dgram_link *dl = container_of(chan, struct dgram_chan, chan)->dl;
	/* A lock protects the words, which cannot be taken here. So tell of the last look. */
	bool news = READ_ONCE(dl->news);

	WRITE_ONCE(dl->news, false);
	queue_work(xway_core_wq, &dl->receive);
	wake_up_all(&dl->wait);
	return news;
}

/* ---- links ---- */

static void dgram_up(struct xway_link *link)
{
	struct dgram_link *dl = dgram_link(link);

	if (!dl)
		return;
	dgram_set_silent(dl, false);
	dl->n_unheard = 0;	/* of the session before */
	queue_delayed_work(xway_core_wq, &dl->tend, 0);
}

static void dgram_drain(struct xway_link *link)
{
	struct dgram_link *dl;

	mutex_lock(&link->lock);
	dl = dgram_link(link);
	if (dl)
		dgram_close(dl);
	mutex_unlock(&link->lock);
}

static int dgram_show(struct seq_file *seq, void *unused)
{
	struct dgram_link *dl = seq->private;
	unsigned int i;

	spin_lock(&dl->lock);
	seq_printf(seq, "state %s\n", dgram_states[dl->ch ? dl->ch->state : DGRAM_NONE]);
	seq_printf(seq, "opens %d\n", dl->link->nonce < dl->link->peer_nonce);
	for (i = 0; i < DGRAM_COUNTS; i++)
		seq_printf(seq, "%s %llu\n", dgram_counts[i], dl->count[i]);
	for (i = 0; i < XWAY_DECLINES; i++)
		seq_printf(seq, "declined:%s %llu\n", xway_decline_name(i), dl->declined[i]);
	spin_unlock(&dl->lock);
	return 0;
}

static int dgram_open(struct inode *inode, struct file *file)
{
	return single_open(file, dgram_show, inode->i_private);
}

static ssize_t dgram_write(struct file *file, const char __user *from, size_t len, loff_t *pos)
{
	struct dgram_link *dl = ((struct seq_file *)file->private_data)->private;
	u32 count, size;
	char text[32];
	int err;

	if (len >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, len))
		return -EFAULT;
	text[len] = 0;
	if (sysfs_streq(text, "lie"))
		return dgram_lie(dl) ?: len;
	if (sysfs_streq(text, "silent") || sysfs_streq(text, "speak")) {
		dgram_hush(dl, sysfs_streq(text, "silent"));
		return len;
	}
	if (sscanf(text, "%u %u", &count, &size) != 2 || size > DGRAM_MAX)
		return -EINVAL;
	for (; count; count--) {
		long left = wait_event_interruptible_timeout(dl->wait,
				(err = dgram_try_send(dl, size)) != -EAGAIN, DGRAM_PATIENCE);

		if (left < 0)
			return -EINTR;
		if (!left)
			return -ETIMEDOUT;
		if (err)
			return err;
	}
	return len;
}

static const struct file_operations dgram_fops = {
	.owner = THIS_MODULE,
	.open = dgram_open,
	.read = seq_read,
	.write = dgram_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static int dgram_add_link(struct xway_link *link)
{
	struct dgram_link *dl = kzalloc(sizeof(*dl), GFP_KERNEL);

	if (!dl)
		return -ENOMEM;
	dl->link = xway_link_get(link);
	spin_lock_init(&dl->lock);
	init_waitqueue_head(&dl->wait);
	INIT_WORK(&dl->receive, dgram_receive);
	INIT_DELAYED_WORK(&dl->tend, dgram_tend);
	mutex_lock(&link->lock);
	rcu_assign_pointer(link->data[XWAY_SERVICE_TEST], dl);
	mutex_unlock(&link->lock);
	dl->file = debugfs_create_file(link->name, 0600, dgram_folder, dl, &dgram_fops);
	return 0;
}

static void dgram_del_link(struct xway_link *link)
{
	struct dgram_link *dl;

	mutex_lock(&link->lock);
	dl = dgram_link(link);
	if (dl)
		dgram_close(dl);
	RCU_INIT_POINTER(link->data[XWAY_SERVICE_TEST], NULL);
	mutex_unlock(&link->lock);
	if (!dl)
		return;
	debugfs_remove(dl->file);	/* waits for those in dgram_write() */
	/* dgram_event() may run for the last channel. After that nothing queues work. */
	synchronize_rcu();
	cancel_delayed_work_sync(&dl->tend);
	cancel_work_sync(&dl->receive);
	xway_link_put(link);
	kfree(dl);
}

/* The drain leaves nothing to do: it does not wait. */
static void dgram_abort(struct xway_link *link, bool dead)
{
	dgram_drain(link);
}

static const struct xway_client dgram_client = {
	.service = XWAY_SERVICE_TEST,
	.name = "dgram-test",
	.add_link = dgram_add_link,
	.del_link = dgram_del_link,
	.up = dgram_up,
	.ctl = dgram_ctl,
	.event = dgram_event,
	.drain = dgram_drain,
	.abort = dgram_abort,
};

static int __init dgram_init(void)
{
	int err;

	dgram_folder = debugfs_create_dir("xway_dgram", NULL);
	err = xway_client_register(&dgram_client);
	if (err)
		debugfs_remove(dgram_folder);
	return err;
}

static void __exit dgram_exit(void)
{
	xway_client_unregister(&dgram_client);
	debugfs_remove(dgram_folder);
}

module_init(dgram_init);
module_exit(dgram_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("XWAY: datagrams over channels of its own, a test");
