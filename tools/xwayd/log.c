// SPDX-License-Identifier: GPL-2.0
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static bool debugging;
static bool prefixed;

void log_open(bool debug)
{
	debugging = debug;
	/* systemd sets it when standard error goes to the journal, which
	 * reads the level from a "<N>" in front of the line.
	 */
	prefixed = getenv("JOURNAL_STREAM") != NULL;
}

void log_msg(int level, const char *format, ...)
{
	char line[4096];
	va_list args;

	if (level == LOG_DEBUG && !debugging)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (prefixed)
		fprintf(stderr, "<%d>%s\n", level, line);
	else
		fprintf(stderr, "xwayd: %s\n", line);
}

const char *log_escape(const void *bytes, size_t len, char *out, size_t outlen)
{
	const unsigned char *b = bytes;
	size_t n = 0;

	/* Room for the longest escape, the dots and the final NUL. */
	for (size_t i = 0; i < len; i++) {
		if (n + 4 + 3 + 1 > outlen) {
			n += snprintf(out + n, outlen - n, "...");
			break;
		}
		if (b[i] >= 0x20 && b[i] < 0x7f && b[i] != '\\')
			out[n++] = b[i];
		else
			n += snprintf(out + n, outlen - n, "\\x%02x", b[i]);
	}
	out[n] = '\0';
	return out;
}
