/* SPDX-License-Identifier: GPL-2.0 */
/* Messages to the operator, on standard error. */
#ifndef XWAYD_LOG_H
#define XWAYD_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <syslog.h>

void log_open(bool debug);
void log_msg(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Makes bytes that a guest wrote safe to print; returns @out. */
const char *log_escape(const void *bytes, size_t len, char *out, size_t outlen);

#define log_err(...) log_msg(LOG_ERR, __VA_ARGS__)
#define log_warn(...) log_msg(LOG_WARNING, __VA_ARGS__)
#define log_notice(...) log_msg(LOG_NOTICE, __VA_ARGS__)
#define log_info(...) log_msg(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_msg(LOG_DEBUG, __VA_ARGS__)

#endif
