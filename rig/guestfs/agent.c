// SPDX-License-Identifier: GPL-2.0
/*
 * agent: runs commands inside a domain for the rig.
 *
 * It is process 1 there, so that it also reaps what daemons leave behind. One TCP connection carries
 * one command. A frame is a type byte, a length (32 bits, big endian) and that many bytes.
 *
 *   to the agent    a  one argument            e  NAME=VALUE for the environment
 *                   d  working directory       t  time limit in milliseconds, decimal
 *                   x  start                   i  standard input; empty: end of it
 *   from the agent  h  hello, on connecting    o  standard output    r  standard error
 *                   s  how it ended: "exit N", "signal N", "timeout" or "error TEXT"
 *
 * A command has ended when its first process has: what that left in the background goes on, and the
 * handler stays to drain its output, so that it never gets SIGPIPE for the rig having lost interest.
 * When the rig goes away first, or the time is up, the command's whole session of processes is killed.
 *
 * "agent kmsg" prints the kernel log's records as /dev/kmsg has them, and ends at the newest.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PORT 7700
#define MAX_WORDS 4096
#define MAX_FRAME (1 << 20)
#define CHUNK 65536

static char *default_env[] = {
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/xen/bin",
	"HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/bash", "LANG=C.UTF-8", "TERM=dumb",
};

struct request {
	char *argv[MAX_WORDS + 1];
	int argc;
	char *cwd;
	long limit_ms;	/* 0: none */
};

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int read_all(int fd, void *buf, size_t len)
{
	char *p = buf;

	while (len) {
		ssize_t n = read(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		p += n;
		len -= n;
	}
	return 0;
}

static int write_all(int fd, const void *buf, size_t len)
{
	const char *p = buf;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		p += n;
		len -= n;
	}
	return 0;
}

/* `len` is never 0. */
static int send_frame(int fd, char type, const void *data, uint32_t len)
{
	char head[5] = { type };
	uint32_t be = htonl(len);

	memcpy(head + 1, &be, 4);
	if (send(fd, head, 5, MSG_MORE | MSG_NOSIGNAL) != 5)
		return -1;
	return write_all(fd, data, len);
}

static int send_text(int fd, char type, const char *text)
{
	return send_frame(fd, type, text, strlen(text));
}

/* Read one frame into a fresh, NUL-terminated buffer; NULL when the other side is gone. */
static char *read_frame(int fd, char *type, uint32_t *len)
{
	char head[5], *buf;

	if (read_all(fd, head, 5))
		return NULL;
	*type = head[0];
	memcpy(len, head + 1, 4);
	*len = ntohl(*len);
	if (*len > MAX_FRAME)
		return NULL;
	buf = malloc(*len + 1);
	if (!buf || read_all(fd, buf, *len))
		return NULL;
	buf[*len] = 0;
	return buf;
}

/* Read the frames that describe a command, until 'x'; 0 when it is complete. */
static int read_request(int fd, struct request *r)
{
	for (;;) {
		uint32_t len;
		char type, *data = read_frame(fd, &type, &len);

		if (!data)
			return -1;
		switch (type) {
		case 'a':
			if (r->argc == MAX_WORDS)
				return -1;
			r->argv[r->argc++] = data;
			break;
		case 'e':
			putenv(data);
			break;
		case 'd':
			r->cwd = data;
			break;
		case 't':
			r->limit_ms = atol(data);
			break;
		case 'x':
			return r->argc ? 0 : -1;
		default:
			return -1;
		}
	}
}

static void run_child(const struct request *r, int in, int out, int err)
{
	FILE *score;
	sigset_t none;

	setsid();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	dup2(in, 0);
	dup2(out, 1);
	dup2(err, 2);
	score = fopen("/proc/self/oom_score_adj", "w");
	if (score) {
		fputs("0", score);
		fclose(score);
	}
	if (chdir(r->cwd ? r->cwd : "/root") < 0) {
		dprintf(2, "cannot enter %s: %s\n", r->cwd, strerror(errno));
		_exit(126);
	}
	execvp(r->argv[0], r->argv);
	dprintf(2, "cannot run %s: %s\n", r->argv[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

/* Kill every process of session `sid`, whatever its process group. */
static void kill_session(pid_t sid)
{
	char cmd[256];

	kill(-sid, SIGKILL);
	snprintf(cmd, sizeof(cmd), "pkill -KILL -s %d", (int)sid);
	if (system(cmd) < 0)
		kill(sid, SIGKILL);
}

/* Forward what one of the command's pipes holds. Closes it at its end. */
static void forward(int sock, struct pollfd *p, char type, int *deaf)
{
	static char buf[CHUNK];
	ssize_t n = read(p->fd, buf, sizeof(buf));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		close(p->fd);
		p->fd = -1;
	} else if (!*deaf && send_frame(sock, type, buf, n)) {
		*deaf = 1;
	}
}

static void drain(int sock, struct pollfd *p, char type, int *deaf)
{
	while (p->fd >= 0) {
		struct pollfd one = { .fd = p->fd, .events = POLLIN };

		if (poll(&one, 1, 0) <= 0)
			return;
		forward(sock, p, type, deaf);
	}
}

enum { SOCK, OUT, ERR, IN, CHLD, NFDS };

static void handle(int sock)
{
	struct request r = { 0 };
	struct pollfd p[NFDS];
	int in[2], out[2], err[2], status = 0, deaf = 0, ended = 0;
	char *pending = NULL, *rest = NULL;
	uint32_t left = 0;
	int64_t deadline;
	char text[64];
	sigset_t chld;
	pid_t child;
	unsigned int i;

	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	clearenv();
	for (i = 0; i < sizeof(default_env) / sizeof(*default_env); i++)
		putenv(default_env[i]);
	if (send_text(sock, 'h', "xway-rig 1") || read_request(sock, &r))
		return;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);
	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC) ||
	    (child = fork()) < 0) {
		snprintf(text, sizeof(text), "error %s", strerror(errno));
		send_text(sock, 's', text);
		return;
	}
	if (!child)
		run_child(&r, in[0], out[1], err[1]);
	close(in[0]);
	close(out[1]);
	close(err[1]);
	fcntl(in[1], F_SETFL, O_NONBLOCK);
	p[SOCK] = (struct pollfd){ .fd = sock };
	p[OUT] = (struct pollfd){ .fd = out[0], .events = POLLIN };
	p[ERR] = (struct pollfd){ .fd = err[0], .events = POLLIN };
	p[IN] = (struct pollfd){ .fd = in[1] };
	p[CHLD] = (struct pollfd){ .fd = signalfd(-1, &chld, SFD_CLOEXEC), .events = POLLIN };
	deadline = r.limit_ms ? now_ms() + r.limit_ms : INT64_MAX;

	while (!ended) {
		int64_t wait = deadline == INT64_MAX ? -1 : deadline - now_ms();
		int n;

		if (deadline != INT64_MAX && wait <= 0) {
			kill_session(child);
			waitpid(child, &status, 0);
			snprintf(text, sizeof(text), "timeout");
			break;
		}
		p[SOCK].events = left ? 0 : POLLIN;
		p[IN].events = left ? POLLOUT : 0;
		n = poll(p, NFDS, wait > 1000000 ? 1000000 : (int)wait);
		if (n < 0 && errno != EINTR)
			break;
		if (n <= 0)
			continue;
		if (p[OUT].fd >= 0 && p[OUT].revents)
			forward(sock, &p[OUT], 'o', &deaf);
		if (p[ERR].fd >= 0 && p[ERR].revents)
			forward(sock, &p[ERR], 'r', &deaf);
		if (p[IN].fd >= 0 && p[IN].revents) {
			ssize_t m = left ? write(p[IN].fd, rest, left) : 0;

			if (m > 0) {
				rest += m;
				left -= m;
			}
			if ((m < 0 && errno != EAGAIN) || (p[IN].revents & POLLERR)) {
				close(p[IN].fd);	/* the command reads no more */
				p[IN].fd = -1;
				left = 0;
			}
			if (!left) {
				free(pending);
				pending = NULL;
			}
		}
		if (p[SOCK].revents) {
			uint32_t len;
			char type;
			char *data = p[SOCK].revents & POLLIN ? read_frame(sock, &type, &len) : NULL;

			if (!data || type != 'i') {	/* the rig has gone */
				kill_session(child);
				waitpid(child, &status, 0);
				return;
			}
			if (p[IN].fd < 0 || !len) {
				free(data);
				if (p[IN].fd >= 0)
					close(p[IN].fd);
				p[IN].fd = -1;
			} else {
				pending = rest = data;
				left = len;
			}
		}
		if (p[CHLD].revents) {
			struct signalfd_siginfo si;

			if (read(p[CHLD].fd, &si, sizeof(si)) < 0)
				continue;
			if (waitpid(child, &status, WNOHANG) != child)
				continue;
			ended = 1;
			if (WIFEXITED(status))
				snprintf(text, sizeof(text), "exit %d", WEXITSTATUS(status));
			else
				snprintf(text, sizeof(text), "signal %d", WTERMSIG(status));
		}
	}
	drain(sock, &p[OUT], 'o', &deaf);
	drain(sock, &p[ERR], 'r', &deaf);
	send_text(sock, 's', text);
	shutdown(sock, SHUT_WR);
	close(sock);

	/* What was left in the background may still write. */
	deaf = 1;
	while (p[OUT].fd >= 0 || p[ERR].fd >= 0) {
		if (poll(&p[OUT], 2, -1) < 0 && errno != EINTR)
			break;
		if (p[OUT].fd >= 0 && p[OUT].revents)
			forward(-1, &p[OUT], 'o', &deaf);
		if (p[ERR].fd >= 0 && p[ERR].revents)
			forward(-1, &p[ERR], 'r', &deaf);
	}
}

static int print_kmsg(void)
{
	static char buf[16384];
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);

	if (fd < 0) {
		perror("/dev/kmsg");
		return 1;
	}
	for (;;) {
		ssize_t n = read(fd, buf, sizeof(buf));

		if (n < 0 && (errno == EPIPE || errno == EINTR))
			continue;	/* overwritten while reading: the next read goes on */
		if (n <= 0)
			return 0;
		if (write_all(1, buf, n))
			return 1;
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int one = 1, listener;
	FILE *score;

	if (argc > 1 && !strcmp(argv[1], "kmsg"))
		return print_kmsg();

	score = fopen("/proc/self/oom_score_adj", "w");
	if (score) {
		fputs("-1000", score);
		fclose(score);
	}
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){ .rlim_cur = 65536, .rlim_max = 524288 });
	signal(SIGCHLD, SIG_IGN);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (listener < 0 || bind(listener, (struct sockaddr *)&any, sizeof(any)) ||
	    listen(listener, 64)) {
		perror("agent");
		for (;;)	/* process 1 must not end */
			pause();
	}
	for (;;) {
		int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (sock < 0)
			continue;
		setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		setsockopt(sock, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
		if (!fork()) {
			close(listener);
			handle(sock);
			_exit(0);
		}
		close(sock);
	}
}
