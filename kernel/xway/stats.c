// SPDX-License-Identifier: GPL-2.0
#include "stats.h"

const char *const xway_counter_names[XWAY_COUNTERS_MAX] = {
#define X(id, name)		\
	[XWAY_N_##id] = name,
	XWAY_COUNTERS(X)
#undef X
};

const char *const xway_reason_names[XWAY_REASONS_MAX] = {
#define X(id, name)		\
	[XWAY_R_##id] = name,
	XWAY_REASONS(X)
#undef X
};

atomic64_t xway_counters[XWAY_COUNTERS_MAX];
atomic64_t xway_reasons[XWAY_REASONS_MAX];
