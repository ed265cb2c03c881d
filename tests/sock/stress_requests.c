// SPDX-License-Identifier: GPL-2.0
/* Calls that hand a request to the kernel and wait for its completion, by io_uring and Linux AIO: see stress.c. */
#include "stress.h"

#include <errno.h>
#include <liburing.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GROUP 1	    /* of buffers */
#define BUFFERS 4   /* in a group */
#define REQUEST 1ul /* which completion is whose */
#define CANCEL 2ul

/* Of this direction and process, made when it is needed first. */
static struct io_uring *uring(struct half *h)
{
	if (!h->uring) {
		int err = -ENOMEM;

		h->uring = calloc(1, sizeof(*h->uring));
		if (!h->uring || (err = io_uring_queue_init(8, h->uring, 0))) {
			fprintf(stderr, "stress: io_uring: %s\n", strerror(-err));
			exit(2);
		}
	}
	return h->uring;
}

static aio_context_t aio(struct half *h)
{
	if (!h->aio && syscall(SYS_io_setup, 4, &h->aio)) {
		perror("stress: io_setup");
		exit(2);
	}
	return h->aio;
}

void end_requests(struct half *h)
{
	if (h->uring)
		io_uring_queue_exit(h->uring);
	free(h->uring);
	if (h->aio)
		syscall(SYS_io_destroy, h->aio);
}

static struct io_uring_sqe *request(struct half *h)
{
	return io_uring_get_sqe(uring(h));
}

/* What comes of a request; each completion but its last may be one of several. */
struct outcome {
	int result;
	int buffers;
	struct {
		int id;
		int bytes;
	} buffer[BUFFERS];
};

static void note(struct outcome *o, const struct io_uring_cqe *cqe)
{
	if (cqe->flags & IORING_CQE_F_NOTIF)
		return;
	o->result = cqe->res;
	if (cqe->flags & IORING_CQE_F_BUFFER && cqe->res > 0 && o->buffers < BUFFERS) {
		o->buffer[o->buffers].id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
		o->buffer[o->buffers++].bytes = cqe->res;
	}
}

static void hand_in(struct half *h)
{
	int err;

	do
		err = io_uring_submit(uring(h));
	while (err == -EAGAIN || err == -EBUSY || err == -EINTR);
	if (err != 1)
		complain(h, "io_uring_submit", err < 0 ? -err : 0);
}

/*
 * Hand in the request and wait until it is done, or cancel it and wait for that: after some time,
 * after a signal, or once it has brought something and would bring more.
 */
static struct outcome complete(struct half *h, struct io_uring_sqe *sqe)
{
	int waits =
		sqe->opcode != IORING_OP_PROVIDE_BUFFERS && sqe->opcode != IORING_OP_REMOVE_BUFFERS;
	/* Polls are waited for as wait_for() says. */
	int hasty = sqe->opcode != IORING_OP_POLL_ADD && one_in(h, 4);
	struct __kernel_timespec patience = { 0, hasty ? draw(h, 20000000) : 0 };
	struct io_uring *ring = uring(h);
	struct outcome o = { 0 };
	int open = 1, cancelled = 0;

	io_uring_sqe_set_data64(sqe, REQUEST);
	if (waits && one_in(h, 4))
		io_uring_sqe_set_flags(sqe, sqe->flags | IOSQE_ASYNC);
	hand_in(h);
	while (open) {
		struct io_uring_cqe *cqe = NULL;
		int enough = 1, err;

		if (patience.tv_nsec && !cancelled)
			err = io_uring_wait_cqe_timeout(ring, &cqe, &patience);
		else
			err = io_uring_wait_cqe(ring, &cqe);
		if (!err) {
			int more = cqe->flags & IORING_CQE_F_MORE;

			if (cqe->user_data == REQUEST)
				note(&o, cqe);
			enough = more && o.buffers;
			open -= !more;
			io_uring_cqe_seen(ring, cqe);
		} else if (err != -EINTR && err != -ETIME && err != -EAGAIN) {
			complain(h, "io_uring_wait_cqe", -err);
		}
		if (waits && enough && open && !cancelled) {
			struct io_uring_sqe *cancel = request(h);

			io_uring_prep_cancel64(cancel, REQUEST, 0);
			io_uring_sqe_set_data64(cancel, CANCEL);
			hand_in(h);
			cancelled = 1;
			open++;
		}
	}
	if (o.result == -ECANCELED)
		o.result = -EINTR;
	return o;
}

ssize_t do_uring_send(struct half *h, size_t n)
{
	struct io_uring_sqe *sqe = request(h);
	struct msghdr m;
	struct iovec v[3];

	fill(h->buf, n, h->key, h->off);
	switch (draw(h, 8)) {
	case 0:
		/* The memory is ours again when it is told so, which complete() waits for. */
		io_uring_prep_send_zc(sqe, h->e->fd, h->buf, n, MSG_NOSIGNAL, 0);
		break;
	case 1:
	case 2:
		io_uring_prep_write(sqe, h->e->fd, h->buf, n, 0);
		break;
	case 3:
	case 4:
		m = (struct msghdr){ .msg_iov = v, .msg_iovlen = cut(h, v, h->buf, n) };
		io_uring_prep_sendmsg(sqe, h->e->fd, &m, send_flags(h));
		break;
	default:
		io_uring_prep_send(sqe, h->e->fd, h->buf, n,
				   send_flags(h) | (one_in(h, 3) ? MSG_WAITALL : 0));
	}
	return complete(h, sqe).result;
}

/* A request that stays, into buffers of the group, until all are full or it is cancelled. */
static ssize_t receive_often(struct half *h, size_t n)
{
	size_t each = n / BUFFERS;
	struct io_uring_sqe *sqe;
	struct outcome o, gone;
	ssize_t sum = 0;
	uint8_t *buf;
	int i;

	buf = malloc(n);
	sqe = request(h);
	io_uring_prep_provide_buffers(sqe, buf, each, BUFFERS, GROUP, 0);
	o = complete(h, sqe);
	if (!buf || o.result < 0)
		complain(h, "provided buffers", -o.result);
	sqe = request(h);
	io_uring_prep_recv_multishot(sqe, h->e->fd, NULL, 0, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	o = complete(h, sqe);
	for (i = 0; i < o.buffers; i++) {
		memcpy(h->buf + sum, buf + o.buffer[i].id * each, o.buffer[i].bytes);
		sum += o.buffer[i].bytes;
	}
	if (o.buffers < BUFFERS) {
		sqe = request(h);
		io_uring_prep_remove_buffers(sqe, BUFFERS, GROUP);
		gone = complete(h, sqe);
		if (gone.result != BUFFERS - o.buffers)
			complain(h, "provided buffers gone", gone.result < 0 ? -gone.result : 0);
	}
	free(buf);
	if (sum)
		return compared(h, h->buf, sum, "wrong byte");
	return o.result == -ENOBUFS ? -EINTR : o.result;
}

ssize_t do_uring_recv(struct half *h, size_t n)
{
	struct io_uring_sqe *sqe;
	struct msghdr m;
	struct iovec v[3];
	int result;

	if (n >= BUFFERS && one_in(h, 4))
		return receive_often(h, n);
	sqe = request(h);
	switch (draw(h, 6)) {
	case 0:
		io_uring_prep_read(sqe, h->e->fd, h->buf, n, 0);
		break;
	case 1:
		m = (struct msghdr){ .msg_iov = v, .msg_iovlen = cut(h, v, h->buf, n) };
		io_uring_prep_recvmsg(sqe, h->e->fd, &m, 0);
		break;
	default:
		io_uring_prep_recv(sqe, h->e->fd, h->buf, n, one_in(h, 3) ? MSG_DONTWAIT : 0);
		if (one_in(h, 4) && h->off + n <= h->size)
			sqe->msg_flags |= MSG_WAITALL;
	}
	result = complete(h, sqe).result;
	return result <= 0 ? result : compared(h, h->buf, result, "wrong byte");
}

ssize_t uring_take(struct half *h, size_t n)
{
	struct io_uring_sqe *sqe = request(h);

	io_uring_prep_recv(sqe, h->e->fd, h->buf, n, MSG_DONTWAIT);
	return complete(h, sqe).result;
}

int uring_poll(struct half *h, short events)
{
	struct io_uring_sqe *sqe = request(h);
	int ready;

	io_uring_prep_poll_add(sqe, h->e->fd, events);
	ready = complete(h, sqe).result;
	if (ready < 0 && ready != -EINTR)
		complain(h, "io_uring's poll", -ready);
	return ready > 0 ? ready : 0;
}

/* Requests but poll's are done by the time that they are handed in. */
static long aio_run(struct half *h, struct iocb *request)
{
	struct io_event event;
	long got;

	if (without_aio)
		return -EINTR;
	request->aio_fildes = h->e->fd;
	if (syscall(SYS_io_submit, aio(h), 1, &request) != 1)
		return -errno;
	for (;;) {
		got = syscall(SYS_io_getevents, aio(h), 1, 1, &event, NULL);
		if (got == 1)
			return event.res;
		if (got < 0 && errno != EINTR)
			complain(h, "io_getevents", errno);
		/* What is cancelled is told as an event, too. */
		syscall(SYS_io_cancel, aio(h), request, &event);
	}
}

ssize_t do_aio_send(struct half *h, size_t n)
{
	struct iocb request = { .aio_lio_opcode = IOCB_CMD_PWRITE,
				.aio_buf = (uintptr_t)h->buf,
				.aio_nbytes = n };

	fill(h->buf, n, h->key, h->off);
	return aio_run(h, &request);
}

ssize_t aio_take(struct half *h, size_t n)
{
	struct iocb request = { .aio_lio_opcode = IOCB_CMD_PREAD,
				.aio_buf = (uintptr_t)h->buf,
				.aio_nbytes = n };

	return aio_run(h, &request);
}

ssize_t do_aio_recv(struct half *h, size_t n)
{
	ssize_t got = aio_take(h, n);

	return got <= 0 ? got : compared(h, h->buf, got, "wrong byte");
}

int aio_poll(struct half *h, short events)
{
	struct iocb request = { .aio_lio_opcode = IOCB_CMD_POLL, .aio_buf = events };
	long ready = aio_run(h, &request);

	if (ready < 0 && ready != -EINTR)
		complain(h, "AIO's poll", -ready);
	return ready > 0 ? ready : 0;
}
