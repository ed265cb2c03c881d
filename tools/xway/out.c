// SPDX-License-Identifier: GPL-2.0
#include "out.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void out_json(const json_t *value)
{
	json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);
	putchar('\n');
}

long long out_int(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

const char *out_str(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "-";
}

const char *out_count(long long n, const char *one, char *text, size_t len)
{
	snprintf(text, len, "%lld %s%s", n, one, n == 1 ? "" : "s");
	return text;
}

const char *out_bytes(long long n, char text[OUT_BYTES])
{
	static const char units[] = "KMGTPE";
	double value = n;
	int unit = -1;

	for (; value >= 1024 && units[unit + 1]; unit++)
		value /= 1024;
	if (unit < 0)
		snprintf(text, OUT_BYTES, "%lld B", n);
	else
		snprintf(text, OUT_BYTES, "%.1f %ciB", value, units[unit]);
	return text;
}

const char *out_endpoint(const json_t *object, const char *key, char *text, size_t len)
{
	const char *addr = out_str(object, key);
	char port[32];

	snprintf(port, sizeof(port), "%s_port", key);
	snprintf(text, len, strchr(addr, ':') ? "[%s]:%lld" : "%s:%lld", addr,
		 out_int(object, port));
	return text;
}

void out_words(const json_t *array)
{
	const json_t *word;
	size_t i;

	if (!json_array_size(array))
		putchar('-');
	json_array_foreach(array, i, word)
		printf("%s%s", i ? " " : "", json_string_value(word));
}

void out_counters(const json_t *counters, const char *indent, int zeros)
{
	int width = 0;
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)counters, name, value)
		if ((int)strlen(name) > width)
			width = strlen(name);
	json_object_foreach((json_t *)counters, name, value)
		if (zeros || json_integer_value(value))
			printf("%s%-*s  %lld\n", indent, width, name,
			       (long long)json_integer_value(value));
}

int out_end(void)
{
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	fprintf(stderr, "xway: cannot write: %s\n", strerror(errno));
	return 1;
}
