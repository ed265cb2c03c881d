/* SPDX-License-Identifier: GPL-2.0 */
/* Everything that goes to standard output. */
#ifndef XWAY_OUT_H
#define XWAY_OUT_H

#include <jansson.h>
#include <stddef.h>

#define OUT_BYTES 24

void out_json(const json_t *value);

long long out_int(const json_t *object, const char *key);
/* The string, or "-" where there is none. */
const char *out_str(const json_t *object, const char *key);
/* "1 connection", "2 connections". */
const char *out_count(long long n, const char *one, char *text, size_t len);
/* "512 B", "1.5 GiB". */
const char *out_bytes(long long n, char text[OUT_BYTES]);
/* "10.0.0.1:80", "[fd00::1]:80": of KEY and KEY_port. */
const char *out_endpoint(const json_t *object, const char *key, char *text, size_t len);
/* The strings of an array with spaces between, or "-". */
void out_words(const json_t *array);
/* A line for each member that is not 0, or for every one. */
void out_counters(const json_t *counters, const char *indent, int zeros);

/* Standard output could be full: 0 or 1, for the exit status. */
int out_end(void);

#endif
