/* SPDX-License-Identifier: GPL-2.0 */
#pragma once

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

/* The TCP address of a host and port; ends the program if there is none. */
static inline struct addrinfo *resolve(const char *program, const char *host, const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *ai;
	int err = getaddrinfo(host, port, &hints, &ai);

	if (err) {
		fprintf(stderr, "%s: %s: %s\n", program, host, gai_strerror(err));
		exit(2);
	}
	return ai;
}
