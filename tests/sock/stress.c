// SPDX-License-Identifier: GPL-2.0
/*
 * Random calls on random connections, against a model of what TCP promises.
 *
 * Active workers connect, one connection after the other; passive workers accept. The first bytes of a
 * connection are its key, from which both ends know how long each direction's stream is and how each end
 * ends it: gracefully (half-close, read to the end), by closing with bytes unread, or by a reset. Each end
 * sends and receives at once, in two threads or two processes, by calls drawn at random with random sizes,
 * flags and options, while signals interrupt it. The model: every byte received is the stream's at its
 * place; the end comes after the last byte and not before; errors come only from an end that was not
 * graceful; whoever waits for something that has come wakes up.
 */
#include "stress.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "address.h"

static struct options {
	unsigned int seconds;
	unsigned int workers;
	unsigned int hang;   /* seconds */
	const char *on_hang; /* a command */
	uint64_t seed;
	uint64_t max; /* bytes in one direction */
} opt = { .seconds = 10, .workers = 4, .hang = 120, .seed = 1, .max = 4 << 20 };

struct totals *totals;
int without_aio;

void complain(const struct half *h, const char *what, int err)
{
	const struct plan *p = &h->e->plan;

	fprintf(stderr,
		"%s end %s, key %016llx: %s at byte %llu of %llu (limit %llu) in %s%s%s; endings: active %d, passive %d\n",
		h->e->active ? "active" : "passive", h->sends ? "sending" : "receiving",
		(unsigned long long)h->e->key, what, (unsigned long long)h->off,
		(unsigned long long)h->size, (unsigned long long)h->limit, h->call, err ? ": " : "",
		err ? strerror(err) : "", p->ending[1], p->ending[0]);
	__atomic_add_fetch(&totals->failures, 1, __ATOMIC_RELAXED);
}

/* Move one direction to its limit, or to what ends it. */
static void run_half(struct half *h)
{
	ssize_t got;

	while (!h->over && h->off < h->limit) {
		const struct call *c = draw_call(h);
		size_t n = draw_size(h);

		if (h->sends || h->limit < h->size)
			n = min(n, h->limit - h->off);
		h->call = c->name;
		got = c->run(h, n);
		if (got > 0) {
			h->off += got;
			__atomic_add_fetch(&totals->bytes, got, __ATOMIC_RELAXED);
		} else if (got == -EAGAIN) {
			wait_for(h, h->sends ? POLLOUT : POLLIN);
		} else if (got == 0 && !h->sends) {
			/* The other direction may have consumed the error of a rude end. */
			if (h->off != h->size && !rude(h))
				complain(h, "the end came too early", 0);
			h->over = 1;
		} else if (got != -EINTR) {
			if (!rude(h) || (got != -ECONNRESET && got != -EPIPE))
				complain(h, "error", -got);
			h->over = 1;
		}
		h->moved_ms = now_ms();
	}
	if (h->sends && !h->over && h->e->plan.ending[h->e->active] == GRACEFUL) {
		h->call = "shutdown";
		if (shutdown(h->e->fd, SHUT_WR) && !(rude(h) && errno == ENOTCONN))
			complain(h, "error", errno);
	}
	h->over = 1;
}

static int init_half(struct half *h, const struct end *e, int sends)
{
	int from_active = e->active == sends;

	memset(h, 0, sizeof(*h));
	h->e = e;
	h->sends = sends;
	h->call = "start";
	h->key = word(e->key, 1000 + from_active);
	h->rand = word(e->key ^ opt.seed, 2 * sends + e->active);
	h->size = e->plan.size[from_active];
	/* Sent is all. Received is all and the end, or so much that something may be left. */
	h->limit = h->size + !sends;
	if (!sends && e->plan.ending[e->active] != GRACEFUL)
		h->limit = draw(h, h->size + 1);
	h->moved_ms = now_ms();
	h->buf = malloc(CHUNK_MAX);
	h->want = malloc(CHUNK_MAX);
	h->epoll = epoll_create1(EPOLL_CLOEXEC);
	return h->buf && h->want && h->epoll >= 0 && !pipe2(h->pipe, O_CLOEXEC) ? 0 : -1;
}

static void free_half(struct half *h)
{
	end_requests(h);
	free(h->buf);
	free(h->want);
	close(h->epoll);
	close(h->pipe[0]);
	close(h->pipe[1]);
}

/* The connection of this process, whose halves are watched; the lock: so that they stay meanwhile. */
static struct end *watched;
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;

static void set_watched(struct end *e)
{
	pthread_mutex_lock(&watch_lock);
	watched = e;
	pthread_mutex_unlock(&watch_lock);
}

static void check_progress(struct half *h)
{
	/* It may move meanwhile. */
	if (!h || h->over || (int64_t)(now_ms() - h->moved_ms) < opt.hang * 1000ll)
		return;
	complain(h, "no progress", 0);
	if (opt.on_hang && system(opt.on_hang))
		fprintf(stderr, "stress: that failed: %s\n", opt.on_hang);
	__atomic_store_n(&totals->stop, 1, __ATOMIC_RELAXED);
	for (;;)
		pause();
}

static void *watch(void *arg)
{
	for (;;) {
		usleep(500000);
		pthread_mutex_lock(&watch_lock);
		if (watched) {
			check_progress(watched->tx);
			check_progress(watched->rx);
		}
		pthread_mutex_unlock(&watch_lock);
	}
	return arg;
}

static void *run_thread(void *half)
{
	run_half(half);
	return half;
}

static void on_signal(int number)
{
	(void)number;
}

static void want_signals(struct half *h)
{
	struct itimerval t = { { 0, 3000 + draw(h, 50000) }, { 0, 1000 } };
	struct sigaction a = { .sa_handler = on_signal, .sa_flags = one_in(h, 2) ? SA_RESTART : 0 };

	if (one_in(h, 2))
		memset(&t, 0, sizeof(t));
	sigaction(SIGALRM, &a, NULL);
	setitimer(ITIMER_REAL, &t, NULL);
}

/* Pass the socket to the child by a message, as servers do. */
static int pass(int by, int fd)
{
	char c = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec v = { &c, 1 };
	struct msghdr m = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	if (fd < 0) {
		if (recvmsg(by, &m, 0) != 1)
			return -1;
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
		return fd;
	}
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	return sendmsg(by, &m, 0) == 1 ? 0 : -1;
}

/* Send in another process, which has the socket by inheritance or by a message. */
static void run_processes(struct end *e, struct half *tx, struct half *rx)
{
	int pair[2], by_message = one_in(tx, 2), status;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) {
		complain(tx, "socketpair", errno);
		return;
	}
	child = fork();
	if (!child) {
		pthread_t watcher;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (by_message) {
			close(e->fd);
			e->fd = pass(pair[1], -1);
		}
		e->rx = NULL;
		pthread_mutex_init(&watch_lock, NULL); /* the parent's watch may have held it */
		set_watched(e);
		pthread_create(&watcher, NULL, watch, NULL);
		want_signals(tx);
		run_half(tx);
		_exit(0);
	}
	if (by_message && pass(pair[0], e->fd))
		complain(tx, "SCM_RIGHTS", errno);
	e->tx = NULL;
	run_half(rx);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (status)
		complain(tx, "the sending process died", 0);
	close(pair[0]);
	close(pair[1]);
}

static struct plan plan_of(uint64_t key)
{
	struct plan p;
	int i;

	for (i = 0; i < 2; i++) {
		uint64_t w = word(key, i), max = opt.max >> (w % 12);

		p.size[i] = (w >> 8) % (max + 1);
		p.ending[i] = (w >> 4) % 16 < 11 ? GRACEFUL : (w >> 4) % 16 < 14 ? CLOSE : RESET;
	}
	/* If neither end read on, both might wait for room for ever. */
	if (p.ending[1] != GRACEFUL)
		p.ending[0] = GRACEFUL;
	return p;
}

/* Run a connection whose key both ends know, to its end; the descriptor stays open. */
static void run_end(struct end *e)
{
	struct half tx, rx;
	struct linger linger = { 1, 0 };
	pthread_t thread;

	e->plan = plan_of(e->key);
	if (init_half(&tx, e, 1) || init_half(&rx, e, 0)) {
		perror("stress: a connection");
		exit(2);
	}
	e->tx = &tx;
	e->rx = &rx;
	set_watched(e);
	want_signals(&rx);
	if (one_in(&rx, 2))
		fcntl(e->fd, F_SETFL, fcntl(e->fd, F_GETFL) | O_NONBLOCK);
	if (one_in(&tx, 4)) {
		run_processes(e, &tx, &rx);
	} else if (pthread_create(&thread, NULL, run_thread, &tx)) {
		complain(&tx, "no thread", errno);
	} else {
		void *done = NULL;

		run_half(&rx);
		/* One that the kernel killed, as after an oops, returns NULL. */
		if (pthread_join(thread, &done) || done != &tx)
			complain(&tx, "the sending thread died", 0);
	}
	set_watched(NULL);
	if (e->plan.ending[e->active] == RESET)
		setsockopt(e->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	__atomic_add_fetch(&totals->conns, 1, __ATOMIC_RELAXED);
	if (e->plan.ending[0] || e->plan.ending[1])
		__atomic_add_fetch(&totals->rude, 1, __ATOMIC_RELAXED);
	free_half(&tx);
	free_half(&rx);
}

static void no_signals(void)
{
	struct itimerval none = { 0 };

	setitimer(ITIMER_REAL, &none, NULL);
}

static int new_socket(int family)
{
	int fd = socket(family, SOCK_STREAM, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	return fd;
}

static int connect_to(int fd, const struct addrinfo *to, int nonblocking)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	socklen_t len = sizeof(errno);
	int flags = fcntl(fd, F_GETFL), err;
	struct timeval none = { 0 };

	/* What an earlier connection left. */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));

	fcntl(fd, F_SETFL, nonblocking ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
	if (connect(fd, to->ai_addr, to->ai_addrlen) &&
	    (errno != EINPROGRESS || poll(&p, 1, -1) < 0 ||
	     getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) || (errno = err)))
		return -1;
	fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
	return 0;
}

static void work_active(const struct addrinfo *to, unsigned int number)
{
	uint64_t end = now_ms() + opt.seconds * 1000ull, header[2], i;
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct end e = { .fd = -1, .active = 1 };
	int left;

	for (i = 0; now_ms() < end && !totals->stop; i++) {
		header[0] = header[1] = e.key = word(opt.seed << 20 | number, i << 40);
		if (e.fd < 0)
			e.fd = new_socket(to->ai_family);
		if (connect_to(e.fd, to, e.key >> 60 & 1)) {
			perror("stress: connect");
			totals->failures++;
			totals->stop = 1;
			return;
		}
		/* A blocking send of so few bytes on a new connection is whole. */
		if (send(e.fd, header, HEADER, MSG_NOSIGNAL) != HEADER) {
			perror("stress: the key");
			totals->failures++;
			return;
		}
		run_end(&e);
		no_signals();
		/* After an orderly end, with nothing under way, the socket can be used once more. */
		if (!e.plan.ending[0] && !e.plan.ending[1] && e.key >> 61 & 1 &&
		    !ioctl(e.fd, SIOCOUTQ, &left) && !left && !connect(e.fd, &none, sizeof(none)))
			continue;
		close(e.fd);
		e.fd = -1;
	}
}

static void work_passive(int listener)
{
	struct end e = { 0 };
	uint64_t header[2];
	ssize_t got;

	for (;;) {
		e.fd = accept(listener, NULL, NULL);
		if (e.fd < 0)
			continue;
		got = recv(e.fd, header, HEADER, MSG_WAITALL);
		if (got == HEADER && header[0] == header[1]) {
			e.key = header[0];
			run_end(&e);
			no_signals();
		} else if (got >= 0 || errno != ECONNRESET) {
			fprintf(stderr, "stress: %zd bytes of a key: %s\n", got, strerror(errno));
			totals->failures++;
		}
		close(e.fd);
	}
}

static volatile sig_atomic_t ended;

static void on_end(int number)
{
	(void)number;
	ended = 1;
}

static void report(void)
{
	const struct call *c;
	const char *comma = "";

	printf("{\"connections\": %llu, \"cut_short\": %llu, \"bytes\": %llu, \"failures\": %u, \"drawn\": {",
	       (unsigned long long)totals->conns, (unsigned long long)totals->rude,
	       (unsigned long long)totals->bytes, totals->failures);
	for (c = sends; c->name; c++, comma = ", ")
		printf("%s\"tx %s\": %llu", comma, c->name,
		       (unsigned long long)totals->calls[c - sends]);
	for (c = receives; c->name; c++)
		printf(", \"rx %s\": %llu", c->name,
		       (unsigned long long)totals->calls[CALLS_MAX + (c - receives)]);
	printf("}}\n");
}

static const char usage[] =
	"usage: stress listen|connect HOST PORT [--seconds N] [--workers N] [--seed N]\n"
	"              [--max BYTES] [--hang SECONDS] [--on-hang COMMAND] [--without-aio]\n"
	"Give both ends the same --seed and --max, and the passive one more --workers;\n"
	"it ends with SIGTERM. Prints what it did as JSON; exit status 1 if TCP's\n"
	"promises were not kept, and standard error says which.\n";

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "seconds", 1, NULL, 's' }, { "workers", 1, NULL, 'w' },
		{ "seed", 1, NULL, 'r' },    { "max", 1, NULL, 'm' },
		{ "hang", 1, NULL, 'g' },    { "on-hang", 1, NULL, 'o' },
		{ "help", 0, NULL, 'h' },    { "without-aio", 0, &without_aio, 1 },
		{ NULL, 0, NULL, 0 },
	};
	struct sigaction end = { .sa_handler = on_end };
	struct addrinfo *ai;
	int c, active, listener = -1;
	unsigned int i;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) >= 0) {
		switch (c) {
		case 0:
			break;
		case 's':
			opt.seconds = atoi(optarg);
			break;
		case 'w':
			opt.workers = atoi(optarg);
			break;
		case 'r':
			opt.seed = strtoull(optarg, NULL, 0);
			break;
		case 'm':
			opt.max = strtoull(optarg, NULL, 0);
			break;
		case 'o':
			opt.on_hang = optarg;
			break;
		case 'g':
			opt.hang = atoi(optarg);
			break;
		default:
			fputs(usage, c == 'h' ? stdout : stderr);
			return c == 'h' ? 0 : 2;
		}
	}
	if (argc - optind != 3) {
		fputs(usage, stderr);
		return 2;
	}
	active = !strcmp(argv[optind], "connect");
	ai = resolve("stress", argv[optind + 1], argv[optind + 2]);
	totals = mmap(NULL, sizeof(*totals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	signal(SIGPIPE, SIG_IGN);
	if (!active) {
		listener = new_socket(ai->ai_family);
		if (bind(listener, ai->ai_addr, ai->ai_addrlen) || listen(listener, 128)) {
			perror("stress: listen");
			return 2;
		}
	}
	for (i = 0; i < opt.workers; i++) {
		if (!fork()) {
			pthread_t watcher;

			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pthread_create(&watcher, NULL, watch, NULL);
			if (active)
				work_active(ai, i);
			else
				work_passive(listener);
			return 0;
		}
	}
	sigaction(SIGTERM, &end, NULL);
	sigaction(SIGINT, &end, NULL);
	/* The active end: until all are through. The passive one: until it is told. */
	while (!ended && !totals->stop && (waitpid(-1, NULL, WNOHANG) >= 0 || errno == EINTR))
		usleep(50000);
	report();
	return totals->failures ? 1 : 0;
}
