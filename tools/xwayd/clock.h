/* SPDX-License-Identifier: GPL-2.0 */
#ifndef XWAYD_CLOCK_H
#define XWAYD_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Milliseconds that only grow */
static inline int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

#endif
