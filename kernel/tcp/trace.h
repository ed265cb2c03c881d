/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM xway

#if !defined(_XWAY_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _XWAY_TRACE_H

#include <linux/tracepoint.h>

#include "conn.h"

DECLARE_EVENT_CLASS(xway_conn_why,
	TP_PROTO(const struct xway_conn *conn, const char *why),
	TP_ARGS(conn, why),
	TP_STRUCT__entry(
		__field(const void *, conn)
		__field(u16, sport)
		__field(u16, dport)
		__dynamic_array(char, why, strlen(why) + 1)
	),
	TP_fast_assign(
		__entry->conn = conn;
		__entry->sport = ntohs(conn->tuple.sport);
		__entry->dport = ntohs(conn->tuple.dport);
		memcpy(__get_str(why), why, __get_dynamic_array_len(why));
	),
	TP_printk("conn=%p sport=%u dport=%u reason=%s", __entry->conn,
		  __entry->sport, __entry->dport, __get_str(why))
);

DEFINE_EVENT(xway_conn_why, xway_detach,
	TP_PROTO(const struct xway_conn *conn, const char *why),
	TP_ARGS(conn, why));

DEFINE_EVENT(xway_conn_why, xway_fallback,
	TP_PROTO(const struct xway_conn *conn, const char *why),
	TP_ARGS(conn, why));

TRACE_EVENT(xway_attach,
	TP_PROTO(const struct xway_conn *conn, bool active),
	TP_ARGS(conn, active),
	TP_STRUCT__entry(
		__field(const void *, conn)
		__field(bool, active)
	),
	TP_fast_assign(
		__entry->conn = conn;
		__entry->active = active;
	),
	TP_printk("conn=%p active=%d", __entry->conn, __entry->active)
);

TRACE_EVENT(xway_switch,
	TP_PROTO(const struct xway_conn *conn, u32 seq),
	TP_ARGS(conn, seq),
	TP_STRUCT__entry(
		__field(const void *, conn)
		__field(u32, gen)
		__field(u32, seq)
		__field(u32, idx)
	),
	TP_fast_assign(
		__entry->conn = conn;
		__entry->gen = conn->tx.gen;
		__entry->seq = seq;
		__entry->idx = conn->tx.prod;
	),
	TP_printk("conn=%p to=%s seq=%u idx=%u", __entry->conn,
		  __entry->gen & 1 ? "ring" : "tcp", __entry->seq,
		  __entry->idx)
);

#endif /* _XWAY_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH tcp
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
