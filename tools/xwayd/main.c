// SPDX-License-Identifier: GPL-2.0
/* xwayd: tells the domains of this host who may talk over shared memory. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "xwayd.h"

#define CONFIG "/etc/xway/xwayd.conf"
#define RUN "/run/xwayd"
#define LOCK RUN "/lock"
/* Whoever can open it can hold the lock, and keep us from starting. */
#define LOCK_MODE 0600

enum {
	EXIT_USAGE = 2,		    /* also an error in the configuration file */
	EXIT_HOPELESS = EXIT_USAGE, /* nor is anything won by trying again */
	EXIT_RUNNING = 3,
};

/* Ask now and then, as a XenStore that is gone ends no poll(). */
#define ALIVE_MS (30 * MS_PER_S)
/* Events taken in one go, so that a flood of them holds up nothing else. */
#define EVENTS 1000

static const char usage[] =
	"Usage: xwayd [OPTION]...\n"
	"Tells the domains of this Xen host who may talk over shared memory.\n"
	"\n"
	"  -c, --config FILE    the configuration file (" CONFIG ")\n"
	"      --check-config FILE\n"
	"                       only tell whether FILE is right\n"
	"      --clear          remove all that xwayd wrote into XenStore\n"
	"      --lock FILE      the file that keeps a second xwayd away (" LOCK ")\n"
	"  -d, --debug          tell every event and every change\n"
	"  -h, --help           this text\n"
	"  -V, --version        the version\n"
	"\n"
	"Signals: SIGHUP reads the configuration file again, SIGTERM ends xwayd and\n"
	"leaves everything in XenStore as it is.\n"
	"Exit status: 0 well, 1 failure, 2 usage, error in the configuration file, or\n"
	"not domain 0 of a release of Xen that xwayd knows, 3 another xwayd runs.\n";

enum {
	OPT_CHECK = 256,
	OPT_CLEAR,
	OPT_LOCK,
};

static const struct option options[] = {
	{ "config", required_argument, NULL, 'c' },
	{ "check-config", required_argument, NULL, OPT_CHECK },
	{ "clear", no_argument, NULL, OPT_CLEAR },
	{ "lock", required_argument, NULL, OPT_LOCK },
	{ "debug", no_argument, NULL, 'd' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

static void notify(const char *state)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	size_t len = path ? strlen(path) : 0;
	int fd;

	if (!len || len >= sizeof(addr.sun_path))
		return;
	memcpy(addr.sun_path, path, len);
	if (path[0] == '@')
		addr.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (sendto(fd, state, strlen(state), 0, (struct sockaddr *)&addr,
		   offsetof(struct sockaddr_un, sun_path) + len) < 0)
		log_warn("cannot notify %s: %s", path, strerror(errno));
	close(fd);
}

static int check_config(const char *path)
{
	char error[POLICY_ERROR];
	struct policy *policy = policy_load(path, true, error);

	if (!policy) {
		fprintf(stderr, "%s\n", error);
		return EXIT_USAGE;
	}
	policy_free(policy);
	return EXIT_SUCCESS;
}

/* Held until the process ends. */
static int take_lock(const char *path)
{
	char pid[16];
	ssize_t n;
	int fd;

	if (!strcmp(path, LOCK) && mkdir(RUN, 0700) && errno != EEXIST) {
		log_err("cannot make %s: %s", RUN, strerror(errno));
		return EXIT_FAILURE;
	}
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, LOCK_MODE);
	if (fd < 0) {
		log_err("cannot open %s: %s", path, strerror(errno));
		return EXIT_FAILURE;
	}
	/* It may be there from before, with another mode. */
	if (fchmod(fd, LOCK_MODE)) {
		log_err("cannot set the mode of %s: %s", path, strerror(errno));
		return EXIT_FAILURE;
	}
	if (!flock(fd, LOCK_EX | LOCK_NB)) {
		n = snprintf(pid, sizeof(pid), "%d\n", getpid());
		if (ftruncate(fd, 0) || write(fd, pid, n) != n)
			log_warn("cannot write %s: %s", path, strerror(errno));
		return EXIT_SUCCESS;
	}
	if (errno != EWOULDBLOCK) {
		log_err("cannot lock %s: %s", path, strerror(errno));
		return EXIT_FAILURE;
	}
	n = read(fd, pid, sizeof(pid) - 1);
	pid[n > 0 ? n : 0] = '\0';
	log_err("another xwayd runs already (%s, process %.*s)", path, (int)strcspn(pid, "\n"),
		pid);
	return EXIT_RUNNING;
}

static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void reload(struct xwayd *x, const char *config)
{
	char error[POLICY_ERROR];
	struct policy *policy = policy_load(config, false, error);

	if (!policy) {
		log_err("%s", error);
		log_err("the configuration stays as it was");
		return;
	}
	xwayd_reload(x, policy);
	log_info("read %s again", config);
}

/* True when it is time to end. */
static bool take_signals(struct xwayd *x, int fd, const char *config)
{
	struct signalfd_siginfo info;

	while (read(fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo != SIGHUP)
			return true;
		reload(x, config);
	}
	return false;
}

/* False when there was none. */
static bool take_events(struct xwayd *x, struct store *store)
{
	char *path, *token;
	void *block;
	int i;

	for (i = 0; i < EVENTS && store_event(store, &path, &token, &block); i++) {
		xwayd_event(x, path, token);
		free(block);
	}
	return i;
}

/* Whether it still can answer, after @asking it something or not. */
static bool store_alive(struct store *store, bool asking)
{
	unsigned int n;
	int err;

	/* An error that is an answer shows that it is there. */
	if (asking)
		free(store->ops->list(store->ctx, "/local/domain", &n));
	err = store_broken(store);
	if (err)
		log_err("XenStore answers no more: %s", strerror(err));
	return !err;
}

static int loop(struct xwayd *x, struct store *store, int signals, const char *config)
{
	struct pollfd fds[] = {
		{ .fd = store_fd(store), .events = POLLIN },
		{ .fd = signals, .events = POLLIN },
	};

	for (;;) {
		int64_t now = now_ms(), next;
		int ret;

		xwayd_run(x, now);
		if (!store_alive(store, false))
			return EXIT_FAILURE;
		/* One that came while we asked for something is taken at once. */
		next = store_has_event(store) ? now : xwayd_next(x);
		next = next > now + ALIVE_MS ? ALIVE_MS : next > now ? next - now : 0;
		ret = poll(fds, 2, next);
		if (ret < 0 && errno != EINTR) {
			log_err("poll: %s", strerror(errno));
			return EXIT_FAILURE;
		}
		if (take_signals(x, signals, config))
			return EXIT_SUCCESS;
		if (!take_events(x, store) && (fds[0].revents || (!ret && next == ALIVE_MS))) {
			if (!store_alive(store, true))
				return EXIT_FAILURE;
		}
	}
}

static int serve(const char *config)
{
	char error[POLICY_ERROR];
	struct policy *policy;
	struct store *store;
	struct xwayd x;
	bool hopeless;
	int signals;
	int ret;

	policy = policy_load(config, false, error);
	if (!policy) {
		log_err("%s", error);
		return EXIT_USAGE;
	}
	signals = open_signals();
	store = store_open(&hopeless);
	if (!store || signals < 0) {
		policy_free(policy);
		return hopeless ? EXIT_HOPELESS : EXIT_FAILURE;
	}
	ret = xwayd_start(&x, store, policy) ? EXIT_FAILURE : EXIT_SUCCESS;
	if (!ret) {
		/* What there is is written before anybody hears "ready". */
		xwayd_run(&x, now_ms());
		ret = store_alive(store, false) ? EXIT_SUCCESS : EXIT_FAILURE;
	}
	if (!ret) {
		notify("READY=1");
		log_info("ready");
		ret = loop(&x, store, signals, config);
		notify("STOPPING=1");
	}
	xwayd_stop(&x);
	store_close(store);
	close(signals);
	return ret;
}

static int clear(void)
{
	bool hopeless;
	struct store *store = store_open(&hopeless);
	int ret;

	if (!store)
		return hopeless ? EXIT_HOPELESS : EXIT_FAILURE;
	ret = xwayd_clear(store);
	store_close(store);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	const char *config = CONFIG, *lock = LOCK, *check = NULL;
	bool clearing = false, debug = false;
	int c, ret;

	while ((c = getopt_long(argc, argv, "c:dhV", options, NULL)) != -1) {
		switch (c) {
		case 'c':
			config = optarg;
			break;
		case OPT_CHECK:
			check = optarg;
			break;
		case OPT_CLEAR:
			clearing = true;
			break;
		case OPT_LOCK:
			lock = optarg;
			break;
		case 'd':
			debug = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		case 'V':
			puts("xwayd " XWAY_VERSION);
			return EXIT_SUCCESS;
		default:
			fputs("Try 'xwayd --help'.\n", stderr);
			return EXIT_USAGE;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "xwayd: '%s' is too much\nTry 'xwayd --help'.\n", argv[optind]);
		return EXIT_USAGE;
	}
	log_open(debug);
	if (check)
		return check_config(check);
	ret = take_lock(lock);
	if (ret)
		return ret;
	return clearing ? clear() : serve(config);
}
