/* SPDX-License-Identifier: GPL-2.0 */
/* Pseudo-random streams whose every byte follows from a key and its place. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

/* Made eight bytes at a time: a multiply and two shifts. */
static inline uint64_t word(uint64_t key, uint64_t i)
{
	uint64_t x = (key ^ i) * 0x9e3779b97f4a7c15ull;

	x ^= x >> 29;
	return x * 0xbf58476d1ce4e5b9ull;
}

/* Write the bytes [off, off + len) of the stream `key` to buf. */
static inline void fill(uint8_t *buf, size_t len, uint64_t key, uint64_t off)
{
	size_t i = 0;
	uint64_t w;

	while (i < len && (off + i) % 8) {
		w = word(key, (off + i) / 8);
		buf[i] = ((uint8_t *)&w)[(off + i) % 8];
		i++;
	}
	for (; i + 8 <= len; i += 8) {
		w = word(key, (off + i) / 8);
		memcpy(buf + i, &w, 8);
	}
	for (; i < len; i++) {
		w = word(key, (off + i) / 8);
		buf[i] = ((uint8_t *)&w)[(off + i) % 8];
	}
}

/* Where buf differs first from the bytes [off, off + len) of the stream; len if it does not. */
static inline size_t first_wrong(const uint8_t *buf, uint8_t *scratch, size_t len, uint64_t key,
				 uint64_t off)
{
	size_t i = 0;

	fill(scratch, len, key, off);
	if (!memcmp(buf, scratch, len))
		return len;
	while (buf[i] == scratch[i])
		i++;
	return i;
}

static inline uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ull + t.tv_nsec / 1000000;
}
