/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM xway_core

#if !defined(_XWAY_CORE_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _XWAY_CORE_TRACE_H

#include <linux/tracepoint.h>

TRACE_EVENT(xway_link,
	TP_PROTO(const char *name, const char *what),
	TP_ARGS(name, what),
	TP_STRUCT__entry(
		__dynamic_array(char, name, strlen(name) + 1)
		__dynamic_array(char, what, strlen(what) + 1)
	),
	TP_fast_assign(
		memcpy(__get_str(name), name, __get_dynamic_array_len(name));
		memcpy(__get_str(what), what, __get_dynamic_array_len(what));
	),
	TP_printk("link=%s %s", __get_str(name), __get_str(what))
);

#endif /* _XWAY_CORE_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH core
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
