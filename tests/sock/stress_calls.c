// SPDX-License-Identifier: GPL-2.0
/* Calls that send or receive, each checked against what TCP promises: see stress.c. */
#include "stress.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#define PIPE_MAX (1u << 16)

unsigned int draw(struct half *h, unsigned int below)
{
	return rand_r(&h->rand) % below;
}

int one_in(struct half *h, unsigned int n)
{
	return draw(h, n) == 0;
}

/* Sizes spread evenly over the powers of two up to CHUNK_MAX. */
size_t draw_size(struct half *h)
{
	unsigned int bits = draw(h, 19);

	return (1u << bits) + draw(h, 1u << bits);
}

/* Options that change no byte and no order, at either half. */
static void set_option(struct half *h)
{
	static const struct {
		int level, name, from, to;
	} options[] = {
		{ SOL_SOCKET, SO_RCVBUF, 1024, 400000 },
		{ SOL_SOCKET, SO_SNDBUF, 2048, 400000 },
		{ SOL_SOCKET, SO_KEEPALIVE, 0, 1 },
		{ SOL_SOCKET, SO_PRIORITY, 0, 6 },
		{ SOL_SOCKET, SO_BUSY_POLL, 0, 50 },
		{ SOL_SOCKET, SO_MARK, 0, 0 },
		{ IPPROTO_TCP, TCP_NODELAY, 0, 1 },
		{ IPPROTO_TCP, TCP_CORK, 0, 1 },
		{ IPPROTO_TCP, TCP_QUICKACK, 0, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, 10, 100 },
		{ IPPROTO_TCP, TCP_USER_TIMEOUT, 600000, 900000 },
		{ IPPROTO_TCP, TCP_NOTSENT_LOWAT, 10000, 100000 },
		{ IPPROTO_TCP, TCP_WINDOW_CLAMP, 10000, 100000 },
		{ IPPROTO_TCP, TCP_INQ, 0, 1 },
	};
	size_t i = draw(h, sizeof(options) / sizeof(options[0]));
	int value = options[i].from + draw(h, options[i].to - options[i].from + 1);
	socklen_t len = sizeof(value);

	if (setsockopt(h->e->fd, options[i].level, options[i].name, &value, sizeof(value)) &&
	    errno != EINVAL && errno != EPERM && errno != ECONNRESET)
		complain(h, "setsockopt", errno);
	getsockopt(h->e->fd, options[i].level, options[i].name, &value, &len);
}

static ssize_t do_option(struct half *h, size_t n)
{
	(void)n;
	set_option(h);
	return -EINTR;
}

/* Options for which a connection falls back, at either half, and from which no byte changes. */
static ssize_t do_rare_option(struct half *h, size_t n)
{
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, ~0u);
	struct sock_fprog filter = { 1, &all };
	int one = 1, fd = h->e->fd;

	(void)n;
	if (!one_in(h, 60))
		return -EINTR;
	if (one_in(h, 2) ? setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) :
			   setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one)))
		complain(h, "setsockopt", errno);
	return -EINTR;
}

static ssize_t do_nap(struct half *h, size_t n)
{
	(void)n;
	usleep(draw(h, one_in(h, 20) ? 60000 : 2000));
	return -EINTR;
}

/* What the kernel says of the stream must fit what is known of it. */
static ssize_t do_ask(struct half *h, size_t n)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);
	int bytes = 0;

	(void)n;
	if (getsockopt(h->e->fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		complain(h, "TCP_INFO", errno);
	if (ioctl(h->e->fd, h->sends ? SIOCOUTQ : SIOCINQ, &bytes))
		complain(h, "ioctl", errno);
	if (bytes < 0 || (uint64_t)bytes > (h->sends ? h->off + HEADER + 2 : h->size - h->off + 1))
		complain(h,
			 h->sends ? "SIOCOUTQ beyond what was sent" : "SIOCINQ beyond what comes",
			 0);
	return -EINTR;
}

/*
 * Wait until there is something to do; a wake-up that is missing ends here, and the watch tells.
 * Time limits would hide it.
 */
int wait_for(struct half *h, short events)
{
	int fd = h->e->fd, n;

	switch (draw(h, 7)) {
	case 0:
		return uring_poll(h, events);
	case 1:
		return aio_poll(h, events);
	case 2:
	case 3: {
		struct pollfd p = { fd, events, 0 };

		n = poll(&p, 1, -1);
		return n > 0 ? p.revents : 0;
	}
	case 4: {
		fd_set set;

		FD_ZERO(&set);
		FD_SET(fd, &set);
		n = select(fd + 1, events & POLLIN ? &set : NULL, events & POLLOUT ? &set : NULL,
			   NULL, NULL);
		return n > 0 ? events | POLLERR : 0; /* it does not tell them apart */
	}
	default: {
		struct epoll_event ev = { .events = events };

		/* A new entry each time: some end it, so that entries also come and go. */
		if (one_in(h, 2))
			epoll_ctl(h->epoll, EPOLL_CTL_DEL, fd, NULL);
		if (epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &ev) && errno != EEXIST)
			complain(h, "epoll_ctl", errno);
		n = epoll_wait(h->epoll, &ev, 1, -1);
		return n > 0 ? (int)ev.events : 0;
	}
	}
}

/* Sends */

static ssize_t result(ssize_t n)
{
	return n < 0 ? -errno : n;
}

int send_flags(struct half *h)
{
	return MSG_NOSIGNAL | (one_in(h, 3) ? MSG_DONTWAIT : 0) | (one_in(h, 6) ? MSG_MORE : 0);
}

static ssize_t do_send(struct half *h, size_t n)
{
	fill(h->buf, n, h->key, h->off);
	return result(send(h->e->fd, h->buf, n, send_flags(h)));
}

static ssize_t do_write(struct half *h, size_t n)
{
	fill(h->buf, n, h->key, h->off);
	return result(write(h->e->fd, h->buf, n));
}

int cut(struct half *h, struct iovec *v, uint8_t *buf, size_t n)
{
	size_t a = draw(h, n + 1), b = a + draw(h, n - a + 1);

	v[0] = (struct iovec){ buf, a };
	v[1] = (struct iovec){ buf + a, b - a };
	v[2] = (struct iovec){ buf + b, n - b };
	return 3;
}

static ssize_t do_writev(struct half *h, size_t n)
{
	struct iovec v[3];

	fill(h->buf, n, h->key, h->off);
	return result(writev(h->e->fd, v, cut(h, v, h->buf, n)));
}

static ssize_t do_sendmsg(struct half *h, size_t n)
{
	struct iovec v[3];
	struct msghdr m = { .msg_iov = v, .msg_iovlen = cut(h, v, h->buf, n) };

	fill(h->buf, n, h->key, h->off);
	return result(sendmsg(h->e->fd, &m, send_flags(h)));
}

static ssize_t do_sendmmsg(struct half *h, size_t n)
{
	struct iovec v[3];
	struct mmsghdr m[3] = { 0 };
	int got, i;
	ssize_t sum = 0;

	cut(h, v, h->buf, n);
	for (i = 0; i < 3; i++)
		m[i].msg_hdr = (struct msghdr){ .msg_iov = &v[i], .msg_iovlen = 1 };
	fill(h->buf, n, h->key, h->off);
	got = sendmmsg(h->e->fd, m, 3, MSG_NOSIGNAL);
	if (got < 0)
		return -errno;
	for (i = 0; i < got; i++) {
		sum += m[i].msg_len;
		/* The next one goes behind a short one: the rest would be at a wrong place. */
		if (m[i].msg_len < v[i].iov_len && i + 1 < got && v[i + 1].iov_len)
			return -EPROTO;
	}
	return sum ? sum : -EINTR;
}

static ssize_t do_sendfile(struct half *h, size_t n)
{
	off_t off = 0;

	fill(h->buf, n, h->key, h->off);
	/* Pages of a file may be sent as they are: each time a new file. */
	h->file = memfd_create("stress", 0);
	if (h->file < 0 || write(h->file, h->buf, n) != (ssize_t)n) {
		complain(h, "memfd", errno);
		return -EINTR;
	}
	n = result(sendfile(h->e->fd, h->file, &off, n));
	close(h->file);
	return n;
}

/* Move what is in the pipe to the socket, all of it: a pipe is no place to leave bytes in. */
static ssize_t drain(struct half *h, size_t n)
{
	unsigned int flags = one_in(h, 3) ? SPLICE_F_NONBLOCK : 0;
	size_t done = 0;
	ssize_t got;

	while (done < n) {
		got = splice(h->pipe[0], NULL, h->e->fd, NULL, n - done,
			     flags | (one_in(h, 3) ? SPLICE_F_MORE : 0));
		if (got > 0) {
			done += got;
			h->moved_ms = now_ms();
		} else if (got < 0 && errno == EAGAIN) {
			wait_for(h, POLLOUT);
		} else if (got < 0 && errno != EINTR) {
			return -errno;
		} else if (!got) {
			return -EPROTO;
		}
	}
	return done;
}

static ssize_t do_splice_out(struct half *h, size_t n)
{
	n = min(n, PIPE_MAX);
	fill(h->buf, n, h->key, h->off);
	if (write(h->pipe[1], h->buf, n) != (ssize_t)n)
		return -EPROTO;
	return drain(h, n);
}

/* What goes out stays in a second pipe as well, which shares its pages. */
static ssize_t do_tee(struct half *h, size_t n)
{
	int copy[2];
	ssize_t got;

	n = min(n, PIPE_MAX / 2);
	fill(h->buf, n, h->key, h->off);
	if (pipe2(copy, O_CLOEXEC)) {
		complain(h, "pipe", errno);
		return -EINTR;
	}
	if (write(h->pipe[1], h->buf, n) != (ssize_t)n ||
	    tee(h->pipe[0], copy[1], n, 0) != (ssize_t)n) {
		close(copy[0]);
		close(copy[1]);
		return -EPROTO;
	}
	got = drain(h, n);
	memset(h->buf, 0, n);
	if (read(copy[0], h->buf, n) != (ssize_t)n ||
	    first_wrong(h->buf, h->want, n, h->key, h->off) < n)
		complain(h, "wrong byte in the second pipe", 0);
	close(copy[0]);
	close(copy[1]);
	return got;
}

/* The pages themselves: never written again, only unmapped. */
static ssize_t do_vmsplice(struct half *h, size_t n)
{
	struct iovec v = { .iov_len = n = min(n, PIPE_MAX / 2) };
	ssize_t got;

	v.iov_base = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fill(v.iov_base, n, h->key, h->off);
	got = vmsplice(h->pipe[1], &v, 1, 0);
	got = got < 0 ? -errno : drain(h, got);
	munmap(v.iov_base, n);
	return got;
}

static ssize_t do_zerocopy(struct half *h, size_t n)
{
	int one = 1;
	ssize_t got;
	uint8_t *p;

	if (!one_in(h, 40))
		return -EINTR;
	setsockopt(h->e->fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one));
	p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fill(p, n, h->key, h->off);
	got = result(send(h->e->fd, p, n, MSG_ZEROCOPY | MSG_NOSIGNAL));
	munmap(p, n);
	return got == -ENOBUFS ? -EINTR : got;
}

/* Receivers take it inline, so it is a byte like others. */
static ssize_t do_urgent(struct half *h, size_t n)
{
	if (!one_in(h, 100))
		return -EINTR;
	n = 1;
	fill(h->buf, n, h->key, h->off);
	return result(send(h->e->fd, h->buf, n, MSG_OOB | MSG_NOSIGNAL));
}

static ssize_t do_poll_out(struct half *h, size_t n)
{
	wait_for(h, POLLOUT);
	fill(h->buf, n, h->key, h->off);
	return result(send(h->e->fd, h->buf, n, MSG_DONTWAIT | MSG_NOSIGNAL));
}

/* Receives */

ssize_t compared(struct half *h, const uint8_t *buf, ssize_t n, const char *what)
{
	size_t right;

	if (n < 0)
		return -errno;
	if (h->off + n > h->size) {
		complain(h, "more bytes than were sent", 0);
		return -EPROTO;
	}
	right = first_wrong(buf, h->want, n, h->key, h->off);
	if (right < (size_t)n) {
		h->off += right;
		complain(h, what, 0);
		return -EPROTO;
	}
	return n;
}

static ssize_t do_recv(struct half *h, size_t n)
{
	int flags = one_in(h, 3) ? MSG_DONTWAIT : 0;

	/* Until all has come that is asked for, which is less than all that will come. */
	if (one_in(h, 4) && h->off + n <= h->size)
		flags |= MSG_WAITALL;
	return compared(h, h->buf, recv(h->e->fd, h->buf, n, flags), "wrong byte");
}

static ssize_t do_read(struct half *h, size_t n)
{
	return compared(h, h->buf, read(h->e->fd, h->buf, n), "wrong byte");
}

static ssize_t do_readv(struct half *h, size_t n)
{
	struct iovec v[3];

	return compared(h, h->buf, readv(h->e->fd, v, cut(h, v, h->buf, n)), "wrong byte");
}

static ssize_t do_recvmsg(struct half *h, size_t n)
{
	char control[256];
	struct iovec v[3];
	struct msghdr m = {
		.msg_iov = v,
		.msg_iovlen = cut(h, v, h->buf, n),
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c;
	ssize_t got = recvmsg(h->e->fd, &m, one_in(h, 3) ? MSG_DONTWAIT : 0);
	int inq;

	for (c = got > 0 ? CMSG_FIRSTHDR(&m) : NULL; c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != IPPROTO_TCP || c->cmsg_type != TCP_CM_INQ)
			continue;
		memcpy(&inq, CMSG_DATA(c), sizeof(inq));
		if (inq < 0 || (uint64_t)inq > h->size - h->off - got + 1)
			complain(h, "TCP_CM_INQ beyond what comes", 0);
	}
	return compared(h, h->buf, got, "wrong byte");
}

static ssize_t do_recvmmsg(struct half *h, size_t n)
{
	struct mmsghdr m[2] = { 0 };
	struct iovec v[3];
	size_t sum = 0;
	int got, i;

	cut(h, v, h->buf, n);
	for (i = 0; i < 2; i++)
		m[i].msg_hdr = (struct msghdr){ .msg_iov = &v[i], .msg_iovlen = 1 };
	if (!v[0].iov_len || !v[1].iov_len)
		return -EINTR;
	got = recvmmsg(h->e->fd, m, 2, MSG_WAITFORONE, NULL);
	/*
	 * It alone tells an error before what is unread. An end without memory for TIME_WAIT forgets
	 * that it has closed, and resets it when asked. If that cost a byte, the next call finds the
	 * end too early.
	 */
	if (got < 0)
		return errno == ECONNRESET && !rude(h) ? -EINTR : -errno;
	for (i = 0; i < got; i++) {
		memmove(h->buf + sum, v[i].iov_base, m[i].msg_len);
		sum += m[i].msg_len;
	}
	return compared(h, h->buf, sum, "wrong byte");
}

static ssize_t do_peek(struct half *h, size_t n)
{
	int flags = MSG_PEEK | (one_in(h, 2) ? MSG_DONTWAIT : 0);
	ssize_t got;

	/* Peeking waits for all of it only as far as buffers reach. */
	if (one_in(h, 4) && n < 1000 && h->off + n <= h->size)
		flags |= MSG_WAITALL;
	got = recv(h->e->fd, h->buf, n, flags);
	got = compared(h, h->buf, got, "wrong byte peeked");
	return got > 0 ? -EINTR : got;
}

/* SO_PEEK_OFF, where TCP has it, is no state of the stream's: it is unset again. */
static ssize_t do_peek_further(struct half *h, size_t n)
{
	int off = draw(h, 5000), none = -1;
	ssize_t got;

	if (!one_in(h, 60) || setsockopt(h->e->fd, SOL_SOCKET, SO_PEEK_OFF, &off, sizeof(off)))
		return -EINTR;
	got = recv(h->e->fd, h->buf, n, MSG_PEEK | MSG_DONTWAIT);
	h->off += off;
	if (got > 0)
		got = compared(h, h->buf, got, "wrong byte peeked further");
	h->off -= off;
	setsockopt(h->e->fd, SOL_SOCKET, SO_PEEK_OFF, &none, sizeof(none));
	return got == -EPROTO ? got : -EINTR;
}

/* MSG_TRUNC throws bytes away unread. */
static ssize_t do_skip(struct half *h, size_t n)
{
	ssize_t got;

	if (!one_in(h, 5))
		return -EINTR;
	got = recv(h->e->fd, NULL, n, MSG_TRUNC | MSG_DONTWAIT);
	return got > 0 && h->off + got > h->size ? compared(h, h->buf, got, "") : result(got);
}

static ssize_t do_splice_in(struct half *h, size_t n)
{
	ssize_t got = splice(h->e->fd, NULL, h->pipe[1], NULL, min(n, PIPE_MAX),
			     one_in(h, 3) ? SPLICE_F_NONBLOCK : 0);
	ssize_t have = 0, more;

	/* None at an urgent mark, which is not the end: others tell. */
	if (got <= 0)
		return got ? -errno : -EINTR;
	while (have < got) {
		more = read(h->pipe[0], h->buf + have, got - have);
		if (more > 0)
			have += more;
		else if (more == 0 || errno != EINTR)
			return -EPROTO;
	}
	return compared(h, h->buf, got, "wrong byte spliced");
}

static ssize_t do_poll_in(struct half *h, size_t n)
{
	int ready = wait_for(h, POLLIN), mark = 0;
	ssize_t got;

	if (!(ready & POLLIN))
		return -EINTR;
	ioctl(h->e->fd, SIOCATMARK, &mark);
	got = recv(h->e->fd, h->buf, n, MSG_DONTWAIT);
	/*
	 * Errors wake up as well; the other direction may have consumed them. And TCP does not read an
	 * urgent byte while a signal is pending.
	 */
	if (got < 0 && errno == EAGAIN && !(ready & (POLLERR | POLLHUP)) && !mark && !rude(h))
		complain(h, "readable, but nothing to read", errno);
	return compared(h, h->buf, got, "wrong byte");
}

/* One call of any kind but splice(), which takes no more than a pipe has room for. Return: as of read(). */
static ssize_t take_at_once(struct half *h, size_t n)
{
	struct msghdr m = { 0 };
	struct iovec v[3];
	ssize_t got, seen;

	switch (draw(h, 8)) {
	case 0:
		return read(h->e->fd, h->buf, n);
	case 1:
		return readv(h->e->fd, v, cut(h, v, h->buf, n));
	case 2:
		m.msg_iov = v;
		m.msg_iovlen = cut(h, v, h->buf, n);
		return recvmsg(h->e->fd, &m, MSG_DONTWAIT);
	case 3:
		seen = recv(h->e->fd, h->buf, n, MSG_PEEK | MSG_DONTWAIT);
		if (seen <= 0)
			return seen;
		got = recv(h->e->fd, h->buf, seen, MSG_DONTWAIT);
		if (got >= 0 && got < seen && !rude(h))
			complain(h, "less than was peeked", 0);
		return got;
	case 4:
		got = uring_take(h, n);
		break;
	case 5:
		got = aio_take(h, n);
		break;
	default:
		return recv(h->e->fd, h->buf, n, MSG_DONTWAIT);
	}
	errno = got < 0 ? -got : 0;
	return got < 0 ? -1 : got;
}

/* A reader that believes SIOCINQ: one call gives all that was counted, up to an urgent byte. */
static ssize_t do_counted(struct half *h, size_t n)
{
	int bytes = 0, mark = 0;
	ssize_t got;

	(void)n;
	if (ioctl(h->e->fd, SIOCINQ, &bytes) || bytes <= 0)
		return -EINTR;
	bytes = min(bytes, CHUNK_MAX);
	got = take_at_once(h, bytes);
	bytes = got >= 0 && got < bytes ? bytes : 0;
	if (bytes)
		ioctl(h->e->fd, SIOCATMARK, &mark);
	if (bytes && !mark && !rude(h))
		complain(h, "less than SIOCINQ has counted", 0);
	return compared(h, h->buf, got, "wrong byte");
}

/* Low-water mark and time limit: what waits may return early or late, but loses nothing. */
static ssize_t do_limits(struct half *h, size_t n)
{
	struct timeval tv = { 0, draw(h, 2) * (1000 + draw(h, 20000)) };
	int lowat = one_in(h, 50) ? min(n, 5000) : 1;

	setsockopt(h->e->fd, SOL_SOCKET, h->sends ? SO_SNDTIMEO : SO_RCVTIMEO, &tv, sizeof(tv));
	if (!h->sends)
		setsockopt(h->e->fd, SOL_SOCKET, SO_RCVLOWAT, &lowat, sizeof(lowat));
	return -EINTR;
}

const struct call sends[] = {
	{ "send", 12, do_send },
	{ "write", 6, do_write },
	{ "writev", 4, do_writev },
	{ "sendmsg", 4, do_sendmsg },
	{ "sendmmsg", 2, do_sendmmsg },
	{ "sendfile", 2, do_sendfile },
	{ "splice out", 3, do_splice_out },
	{ "tee", 1, do_tee },
	{ "vmsplice", 1, do_vmsplice },
	{ "zero-copy send", 1, do_zerocopy },
	{ "io_uring send", 6, do_uring_send },
	{ "AIO send", 2, do_aio_send },
	{ "urgent byte", 1, do_urgent },
	{ "poll, send", 4, do_poll_out },
	{ "option", 2, do_option },
	{ "rare option", 1, do_rare_option },
	{ "question", 2, do_ask },
	{ "nap", 2, do_nap },
	{ "limits", 1, do_limits },
	{ NULL, 0, NULL },
};

const struct call receives[] = {
	{ "recv", 12, do_recv },
	{ "read", 6, do_read },
	{ "readv", 4, do_readv },
	{ "recvmsg", 4, do_recvmsg },
	{ "recvmmsg", 2, do_recvmmsg },
	{ "peek", 4, do_peek },
	{ "skip", 1, do_skip },
	{ "splice in", 3, do_splice_in },
	{ "io_uring recv", 6, do_uring_recv },
	{ "AIO recv", 2, do_aio_recv },
	{ "poll, recv", 4, do_poll_in },
	{ "SIOCINQ, recv", 4, do_counted },
	{ "peek further", 1, do_peek_further },
	{ "option", 2, do_option },
	{ "rare option", 1, do_rare_option },
	{ "question", 2, do_ask },
	{ "nap", 2, do_nap },
	{ "limits", 1, do_limits },
	{ NULL, 0, NULL },
};

const struct call *draw_call(struct half *h)
{
	const struct call *c, *calls = h->sends ? sends : receives;
	unsigned int sum = 0, at;

	for (c = calls; c->name; c++)
		sum += c->weight;
	at = draw(h, sum);
	for (c = calls; at >= c->weight; c++)
		at -= c->weight;
	__atomic_add_fetch(&totals->calls[(h->sends ? 0 : CALLS_MAX) + (c - calls)], 1,
			   __ATOMIC_RELAXED);
	return c;
}
