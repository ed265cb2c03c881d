// SPDX-License-Identifier: GPL-2.0
/*
 * A hostile peer for a fuzzer in user space, in modules built with XWAY_FUZZ=1, which are
 * for a kernel that checks memory and locks. fuzz.h says what it can do. Sockets and
 * devices are those of the modules as they are; their coverage is counted in whatever
 * context they run.
 */
#include <linux/bitfield.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/panic_notifier.h>
#include <linux/slab.h>
#include <linux/socket.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "core/addr.h"
#include "core/link.h"
#include "core/local.h"
#include "core/revoke.h"
#include "core/selftest.h"
#include "core/value.h"
#include "fuzz.h"

#define STEPS_MAX 64	/* of one write() */

enum { VICTIM, PEER };

static struct link *ends[2];
static struct xarray shared[2];	/* pages by page frame number, which is the reference */
static LIST_HEAD(copies);	/* struct page, under the victim's lock */
static u8 *counters;
static struct fuzz_text texts[FUZZ_TEXTS];
static unsigned int n_texts;
static bool lost;
static bool renewed;	/* since the input began: a new session takes longer than all steps */
static u8 input[FUZZ_INPUT_MAX];
static size_t input_len;
static DEFINE_MUTEX(fuzz_lock);

/* A word that changes while the victim looks, so between two reads of it, too. On one
 * processor nobody who unmaps its page is interrupted by that halfway.
 */
static struct {
	u32 *word;
	u32 values[2];
	u32 blocks;
	u32 passed;
} flicker;

/* ---- coverage ---- */

/* The compiler has each block of code call this. */
noinline notrace void __sanitizer_cov_trace_pc(void)
{
	u64 ip = (unsigned long)__builtin_return_address(0), at = 0;
	unsigned int i;

	if (flicker.word && !(++flicker.passed % flicker.blocks))
		WRITE_ONCE(*flicker.word, flicker.values[flicker.passed / flicker.blocks % 2]);
	for (i = 0; i < n_texts; i++) {
		if (ip - texts[i].base < texts[i].size) {
			at += (ip - texts[i].base) / FUZZ_GRAIN;
			counters[at] += counters[at] < U8_MAX;
			return;
		}
		at += texts[i].size / FUZZ_GRAIN;
	}
}
EXPORT_SYMBOL_GPL(__sanitizer_cov_trace_pc);

/* ---- the transport ---- */

static int which(const struct link *link)
{
	return link == ends[PEER] ? PEER : VICTIM;
}

static int fuzz_share(struct link *link, struct page *page, u32 *ref)
{
	*ref = page_to_pfn(page);
	return xa_err(xa_store(&shared[which(link)], *ref, page, GFP_KERNEL));
}

static int fuzz_unshare(struct page *page, u32 ref)
{
	/* The honest end's mappings of the victim's pages are references. */
	if (page_count(page) > 1)
		return -EBUSY;
	xa_erase(&shared[VICTIM], ref);
	xa_erase(&shared[PEER], ref);
	return 0;
}

static void fuzz_abandon(struct page *page, u32 ref)
{
	xa_erase(&shared[VICTIM], ref);
	xa_erase(&shared[PEER], ref);
	__free_page(page);
}

/* One page at a time */
static int fuzz_map(struct link *link, const u32 *refs, struct xway_mapping **m, u32 n)
{
	struct page *page = xa_load(&shared[!which(link)], refs[0]), *copy;

	/* As the hypervisor does */
	if (!page)
		return -EPROTO;
	if (which(link) == PEER) {
		get_page(page);
		copy = page;
	} else {
		copy = alloc_page(GFP_KERNEL);
		if (!copy)
			return -ENOMEM;
		copy_highpage(copy, page);
		set_page_private(copy, refs[0]);
		list_add_tail(&copy->lru, &copies);
	}
	m[0]->page = copy;
	m[0]->addr = page_address(copy);
	return 1;
}

static void fuzz_unmap(struct link *link, struct xway_mapping **m, u32 n)
{
	while (n--) {
		struct page *page = m[n]->page;

		if (which(link) == VICTIM) {
			WRITE_ONCE(flicker.word, NULL);
			list_del(&page->lru);
			set_page_private(page, 0);
		}
		put_page(page);
	}
}

static void fuzz_notify(struct link *link)
{
	tasklet_schedule(&ends[!which(link)]->bell.task);
}

static void fuzz_seen(struct link *link, bool idle)
{
}

static void fuzz_lost(struct link *link)
{
	WRITE_ONCE(lost, true);
}

static const struct xway_transport transport = {
	.name = "fuzz",
	.domains = true,
	.share = fuzz_share,
	.unshare = fuzz_unshare,
	.abandon = fuzz_abandon,
	.map = fuzz_map,
	.unmap = fuzz_unmap,
	.notify = fuzz_notify,
	.seen = fuzz_seen,
};

/* ---- sessions ---- */

/* The victim maps last: its copies then say that the other end has mapped its pages. */
static int session_begin(void)
{
	return xway_local_join(ends[PEER], ends[VICTIM]);
}

static void session_end(void)
{
	/* The honest end first, since the victim's pages are its. */
	xway_link_down(ends[PEER], true);
	xway_link_down(ends[VICTIM], true);
	xway_revoke_flush();
	WARN_ON(!list_empty(&copies));
	WARN_ON(!xa_empty(&shared[VICTIM]) || !xa_empty(&shared[PEER]));
}

static void update_copies(void)
{
	struct page *copy;

	lockdep_assert_held(&ends[VICTIM]->pub.lock);
	list_for_each_entry(copy, &copies, lru) {
		struct page *page = xa_load(&shared[PEER], page_private(copy));

		/* The peer may have taken it back: the victim's mapping then stays as it is. */
		if (page)
			copy_highpage(copy, page);
	}
}

static void look(int end)
{
	tasklet_schedule(&ends[end]->bell.task);
	tasklet_kill(&ends[end]->bell.task);
	flush_workqueue(xway_core_wq);
}

static void pump(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		mutex_lock(&ends[VICTIM]->pub.lock);
		update_copies();
		mutex_unlock(&ends[VICTIM]->pub.lock);
		look(VICTIM);
		look(PEER);
	}
}

/* ---- steps ---- */

/* A channel of the victim's that has the other half, and its mapped words */
static struct xway_chan *chan_of(const struct fuzz_step *step, u32 **words)
{
	unsigned int n = FIELD_GET(FUZZ_HOW_CHAN, step->how);
	struct xway_chan *chan, *found = NULL;
	unsigned long nr;

	xa_for_each(&ends[VICTIM]->chans, nr, chan) {
		if (xa_is_value(chan) || !rcu_access_pointer(chan->peer) || !chan->own)
			continue;
		found = chan;
		if (!n--)
			break;
	}
	if (found)
		*words = (void *)(unsigned long)rcu_access_pointer(found->peer);
	return found;
}

/* What of a ring the victim reads next: @cons of its words, as each client has it */
static u32 chan_cons(const struct xway_chan *chan)
{
	const u32 *own = chan->own;

	return own[chan->client->service == XWAY_SERVICE_NET ? 16 : 1];
}

static void *word_of(const void *from, const struct fuzz_step *step, size_t size)
{
	return (u32 *)from + step->at % (size / sizeof(u32));
}

/* Clients use words of the two cache lines, from the beginning of each. */
static void *word_of_chan(void *words, const struct fuzz_step *step)
{
	return (u32 *)words + (step->at & 7) + (step->at & 8 ? 16 : 0);
}

/* @words: the word, from what is read next on */
static void *word_of_ring(const struct xway_chan *chan, int words)
{
	struct xway_mapping *m;
	u32 at;

	if (!chan->peer_ring_pages)
		return NULL;
	at = round_down(chan_cons(chan) + words * 4, 4) % (chan->peer_ring_pages * PAGE_SIZE);
	m = xa_load(&ends[VICTIM]->import.maps, chan->peer_ring_page + at / PAGE_SIZE);
	return m ? (void *)m->addr + at % PAGE_SIZE : NULL;
}

static u32 *target(const struct fuzz_step *step)
{
	struct link *link = ends[VICTIM];
	struct xway_import *in = &link->import;
	struct xway_chan *chan;
	u32 *words, *word;

	switch (step->what) {
	case FUZZ_HEADER:
		return word_of(in->hdr, step, sizeof(*in->hdr));
	case FUZZ_BELL:
		return (u32 *)in->bell + (link->bell.cons + step->at) % XWAY_DOORBELL_SLOTS;
	case FUZZ_CTL:
		return word_of(&in->ctl[link->ctl.cons % XWAY_CTLS], step, sizeof(*in->ctl));
	case FUZZ_DIR:
		return word_of(in->dir[0].addr, step, PAGE_SIZE);
	case FUZZ_WORDS:
		return chan_of(step, &words) ? word_of_chan(words, step) : NULL;
	case FUZZ_RING:
		chan = chan_of(step, &words);
		return chan ? word_of_ring(chan, (s8)step->at) : NULL;
	case FUZZ_PUT:
		chan = chan_of(step, &words);
		word = chan ? word_of_ring(chan, step->at % 4) : NULL;
		if (!word)
			return NULL;
		/* Both clients have @prod first. */
		WRITE_ONCE(words[0], chan_cons(chan) + chan->peer_ring_pages * PAGE_SIZE);
		if (step->how & FUZZ_HOW_ADD)
			WRITE_ONCE(*word, 64);
		return word;
	default:
		return NULL;
	}
}

static u32 value_of(const struct fuzz_step *step)
{
	u32 *words, limits[] = { 0, XWAY_CTLS, PAGE_SIZE, 1 << 16, INT_MAX, 0 }, value;
	struct xway_chan *chan;

	if (!(step->how & FUZZ_HOW_LIMIT))
		return step->value;
	chan = chan_of(step, &words);
	if (chan)
		limits[5] = chan->peer_ring_pages * PAGE_SIZE;
	value = limits[(u8)step->value % ARRAY_SIZE(limits)] + (s8)(step->value >> 8);
	return step->value & BIT(16) ? value << 16 : value;
}

static void change(u32 *word, const struct fuzz_step *step)
{
	u32 value = value_of(step), old;

	if (!word)
		return;
	old = *word;
	if (step->how & FUZZ_HOW_ADD)
		value += old;
	WRITE_ONCE(*word, value);
	if (!(step->how & FUZZ_HOW_FLICKER))
		return;
	flicker.blocks = 1 + (step->value >> 30);
	flicker.values[0] = value;
	flicker.values[1] = old;
	flicker.passed = 0;
	WRITE_ONCE(flicker.word, word);
}

static void post(u32 value)
{
	struct xway_header *hdr = (void *)ends[VICTIM]->import.hdr;
	u32 *bell = (void *)ends[VICTIM]->import.bell;

	WRITE_ONCE(bell[hdr->bell_prod % XWAY_DOORBELL_SLOTS], value);
	WRITE_ONCE(hdr->bell_prod, hdr->bell_prod + 1);
}

static void message(const struct fuzz_step *step)
{
	struct xway_header *hdr = (void *)ends[VICTIM]->import.hdr;
	struct xway_ctl *ctl = (void *)ends[VICTIM]->import.ctl, *msg;

	msg = &ctl[hdr->ctl_prod % XWAY_CTLS];
	*msg = ctl[(hdr->ctl_prod - 1) % XWAY_CTLS];
	if (step->at % (sizeof(*msg) / sizeof(u32)))
		change(word_of(msg, step, sizeof(*msg)), step);
	else
		WRITE_ONCE(msg->type, step->value % (XWAY_CTL_UNMAPPED + 2));
	WRITE_ONCE(hdr->ctl_prod, hdr->ctl_prod + 1);
	post(XWAY_POST_CTL);
}

static void lie(const struct fuzz_step *step)
{
	struct link *link = ends[VICTIM];
	struct xway_chan *chan;
	u32 *words;

	mutex_lock(&link->pub.lock);
	if (link->import.hdr && link->import.bell && link->import.ctl) {
		if (step->how & FUZZ_HOW_FRESH)
			update_copies();
		if (step->what == FUZZ_POST)
			post(value_of(step));
		else if (step->what == FUZZ_MESSAGE)
			message(step);
		else
			change(target(step), step);
		chan = chan_of(step, &words);
		if (chan && (step->how & FUZZ_HOW_LOOK))
			post(chan->id);
	}
	mutex_unlock(&link->pub.lock);
	if (step->how & FUZZ_HOW_LOOK)
		look(VICTIM);
}

static void step_run(const struct fuzz_step *step)
{
	WRITE_ONCE(flicker.word, NULL);
	switch (step->what) {
	case FUZZ_LOOK:
		look(VICTIM);
		break;
	case FUZZ_PUMP:
		pump();
		break;
	default:
		lie(step);
	}
}

/* ---- the device ---- */

/* As membership does when a session is lost */
static void renew(void)
{
	int err;

	session_end();
	WRITE_ONCE(lost, false);
	err = session_begin();
	WARN_ON(err && err != -EBUSY && err != -ENOMEM);
	if (err)
		WRITE_ONCE(lost, true);
}

/* Steps, up to STEPS_MAX. Afterwards a session that was lost is a new one, once for an input. */
static ssize_t fuzz_write(struct file *file, const char __user *from, size_t len, loff_t *at)
{
	struct fuzz_step steps[STEPS_MAX];
	size_t i;

	if (len > sizeof(steps) || len % sizeof(*steps))
		return -EINVAL;
	if (copy_from_user(steps, from, len))
		return -EFAULT;
	mutex_lock(&fuzz_lock);
	for (i = 0; i < len / sizeof(*steps); i++)
		step_run(&steps[i]);
	if (READ_ONCE(lost) && !renewed) {
		renew();
		renewed = true;
	}
	mutex_unlock(&fuzz_lock);
	return len;
}

/* The counters. Who maps them sets them to 0. */
static int fuzz_mmap(struct file *file, struct vm_area_struct *vma)
{
	return remap_vmalloc_range(vma, counters, 0);
}

static int set_input(const void __user *arg)
{
	struct fuzz_input in;

	if (copy_from_user(&in, arg, sizeof(in)))
		return -EFAULT;
	mutex_lock(&fuzz_lock);
	if (READ_ONCE(lost))
		renew();
	renewed = false;
	mutex_unlock(&fuzz_lock);
	input_len = min_t(u64, in.len, sizeof(input));
	return copy_from_user(input, u64_to_user_ptr(in.bytes), input_len) ? -EFAULT : 0;
}

/* What membership does with values, and clients with domain 0's words. */
static int read_value(const void __user *arg)
{
	struct xway_addr *list;
	struct fuzz_value in;
	u32 ref, port;
	char *value;
	u64 nonce;

	if (copy_from_user(&in, arg, sizeof(in)))
		return -EFAULT;
	if (in.len >= FUZZ_VALUE_MAX)
		return -EINVAL;
	/* Of just its length, so that whatever is read behind it is noticed */
	value = memdup_user_nul(u64_to_user_ptr(in.bytes), in.len);
	if (IS_ERR(value))
		return PTR_ERR(value);
	xway_value_offer(value, &nonce, &ref, &port);
	xway_value_gone(value);
	xway_value_same_domain(value, ends[PEER]->pub.name);
	if (xway_value_addresses(value, "fuzz", &list) >= 0)
		kfree(list);
	mutex_lock(&fuzz_lock);
	xway_client_policy(ends[VICTIM], XWAY_SERVICE_NET, value);
	mutex_unlock(&fuzz_lock);
	kfree(value);
	return 0;
}

static int add_text(const void __user *arg)
{
	struct fuzz_text text;
	u64 sum = 0;
	unsigned int i;

	if (copy_from_user(&text, arg, sizeof(text)))
		return -EFAULT;
	text.size = round_up(text.size, FUZZ_GRAIN);
	for (i = 0; i < n_texts; i++) {
		if (texts[i].base == text.base)
			return 0;
		sum += texts[i].size;
	}
	if (n_texts == FUZZ_TEXTS || sum + text.size > FUZZ_COUNTERS * FUZZ_GRAIN)
		return -ENOSPC;
	texts[n_texts] = text;
	/* The counters are found by texts that are there. */
	smp_store_release(&n_texts, n_texts + 1);
	return 0;
}

/* The program's own calls, by one: in User-mode Linux the way to it and back is what takes time. */
static int make_calls(const void __user *arg)
{
	struct fuzz_call *calls;
	struct fuzz_calls in;
	int err = 0;
	u64 i;

	if (copy_from_user(&in, arg, sizeof(in)))
		return -EFAULT;
	if (in.n > FUZZ_CALLS_MAX)
		return -EINVAL;
	calls = memdup_user(u64_to_user_ptr(in.calls), in.n * sizeof(*calls));
	if (IS_ERR(calls))
		return PTR_ERR(calls);
	for (i = 0; i < in.n; i++) {
		struct fuzz_call *call = &calls[i];
		u64 *a = call->args;

		if (call->fd > i) {
			err = -EINVAL;
			break;
		}
		if (call->fd)
			a[0] = call[-(int)call->fd].result;
		call->result = sys_call_table[call->nr](a[0], a[1], a[2], a[3], a[4], a[5]);
		/* As when it returns */
		cond_resched();
	}
	if (copy_to_user(u64_to_user_ptr(in.calls), calls, in.n * sizeof(*calls)))
		err = -EFAULT;
	kfree(calls);
	return err;
}

static long fuzz_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	switch (cmd) {
	case FUZZ_IOC_TEXT:
		return add_text((void __user *)arg);
	case FUZZ_IOC_INPUT:
		return set_input((void __user *)arg);
	case FUZZ_IOC_VALUE:
		return read_value((void __user *)arg);
	case FUZZ_IOC_CALLS:
		return make_calls((void __user *)arg);
	default:
		return -ENOTTY;
	}
}

static int fuzz_open(struct inode *inode, struct file *file)
{
	static const struct xway_addr loopback = {
		.family = AF_INET, .prefix = 8, .addr = { htonl(0x7f000000) },
	};
	int i, err = 0;

	mutex_lock(&fuzz_lock);
	if (ends[VICTIM])
		goto out;
	for (i = 0; i < 2; i++) {
		ends[i] = xway_link_create(&transport, NULL, fuzz_lost, i ? "fuzz:1" : "fuzz:0",
					   i ? "fuzz:1" : "fuzz:0");
		if (!ends[i] || xway_client_policy(ends[i], XWAY_SERVICE_NET, "")) {
			err = -ENOMEM;
			goto out;
		}
	}
	err = session_begin() ?:
	      xway_addr_add(&loopback, &ends[PEER]->pub, &ends[VICTIM]->pub);
out:
	mutex_unlock(&fuzz_lock);
	return err;
}

static const struct file_operations fuzz_ops = {
	.owner = THIS_MODULE,
	.open = fuzz_open,
	.write = fuzz_write,
	.mmap = fuzz_mmap,
	.unlocked_ioctl = fuzz_ioctl,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "xway_fuzz",
	.fops = &fuzz_ops,
};

/* The last words of a kernel that dies of an input */
static int died(struct notifier_block *nb, unsigned long action, void *data)
{
	print_hex_dump(KERN_EMERG, "xway_fuzz: ", DUMP_PREFIX_OFFSET, 32, 1, input, input_len,
		       false);
	return NOTIFY_DONE;
}

/* Before User-mode Linux's own, which ends the process */
static struct notifier_block panics = { .notifier_call = died, .priority = INT_MAX };

/* In the place of tests: the device, which stays until the kernel ends. */
int xway_core_selftest(void)
{
	int err;

	counters = vmalloc_user(FUZZ_COUNTERS);
	if (!counters)
		return -ENOMEM;
	xa_init(&shared[VICTIM]);
	xa_init(&shared[PEER]);
	err = misc_register(&device);
	if (err) {
		vfree(counters);
		return err;
	}
	atomic_notifier_chain_register(&panic_notifier_list, &panics);
	__module_get(THIS_MODULE);
	return 0;
}
