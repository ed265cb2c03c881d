/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counters, and the reasons why a connection is not, or not any more, on a ring.
 */
#ifndef _XWAY_STATS_H
#define _XWAY_STATS_H

#include <linux/atomic.h>
#include <linux/percpu.h>

#define XWAY_COUNTERS(x)						\
	x(ATTACHED, "attached")		/* sockets */			\
	x(ADOPTED, "adopted")		/* of these, older than the session */ \
	x(DETACHED, "detached")		/* of these, back on TCP */	\
	x(CLOSED, "closed")		/* of these, closed */		\
	x(CHANNELS, "channels")		/* channels opened */		\
	x(TO_RING, "switched_to_ring")	/* directions */		\
	x(TO_TCP, "switched_to_tcp")	/* directions */		\
	x(SPILLS, "spills")		/* rings with unread bytes */	\
	x(SPILL_BYTES, "spill_bytes")					\
	x(CUTS, "cuts")			/* directions ended alone */	\
	x(RESENT_BYTES, "resent_bytes")	/* by TCP, after a cut */	\
	x(TIMEOUTS, "timeouts")		/* the peer's kernel was silent */ \
	x(KEEPALIVE_ACKS, "keepalive_acks") /* sent beside a ring */ \
	x(TX_RING, "tx_ring_bytes")					\
	x(TX_TCP, "tx_tcp_bytes")					\
	x(RX_RING, "rx_ring_bytes")					\
	x(RX_TCP, "rx_tcp_bytes")

enum xway_counter {
#define X(id, name) XWAY_N_##id,
	XWAY_COUNTERS(X)
#undef X
	XWAY_COUNTERS_MAX
};

/* Counters of bytes, the last ones. Each link counts these, too. */
#define XWAY_LINK_COUNTERS 4

#define XWAY_REASONS(x)							\
	x(NONE, "")							\
	x(OFF, "off")			/* xway off */			\
	x(PEER, "peer-fell-back")	/* the peer fell back */	\
	x(LINK, "link-down")		/* no link, or it ended */	\
	x(GONE, "peer-gone")		/* the peer domain ended */	\
	x(ADDRESS, "address-moved")	/* the peer has it no more */	\
	x(FOREIGN, "not-own-address")	/* which domain 0 knows */	\
	x(PORT, "excluded-port")	/* exclude_ports has it */	\
	x(UNKNOWN, "peer-declined")	/* not attached there */	\
	x(SERVICE, "no-service")	/* the peer has no sockets */	\
	x(PROOF, "not-same-connection")	/* NAT or proxy on the path */	\
	x(MEMORY, "no-memory")		/* here or at the peer */	\
	x(LIMIT, "page-limit")		/* arenas are full */		\
	x(BUSY, "socket-in-use")	/* ULP or user data set */	\
	x(FASTOPEN, "fast-open")					\
	x(REPAIR, "repair")						\
	x(KERNEL, "kernel-socket")					\
	x(SIMULTANEOUS, "simultaneous-open")				\
	x(OOB, "urgent-data")						\
	x(ZEROCOPY, "zero-copy")					\
	x(TIMESTAMP, "timestamping")					\
	x(FILTER, "socket-filter")					\
	x(ULP, "upper-layer-protocol")					\
	x(OPTION, "socket-option")					\
	x(IPSEC, "ipsec")		/* a policy counts for it */	\
	x(STALLED, "stalled")		/* full, and nobody reads */	\
	x(IDLE, "idle")			/* evicted, or the peer parks */ \
	x(GROW, "larger-ring")		/* which it gets next */	\
	x(VIOLATION, "protocol-violation")

enum xway_reason {
#define X(id, name) XWAY_R_##id,
	XWAY_REASONS(X)
#undef X
	XWAY_REASONS_MAX
};

extern const char *const xway_counter_names[XWAY_COUNTERS_MAX];
extern const char *const xway_reason_names[XWAY_REASONS_MAX];
extern atomic64_t xway_reasons[XWAY_REASONS_MAX];

/* One for each CPU, because some are counted for each message */
DECLARE_PER_CPU(u64, xway_counters[XWAY_COUNTERS_MAX]);

#define xway_count_add(id, n)	this_cpu_add(xway_counters[XWAY_N_##id], n)
#define xway_count(id)		xway_count_add(id, 1)

u64 xway_counted(enum xway_counter nr);

#endif /* _XWAY_STATS_H */
