/* SPDX-License-Identifier: GPL-2.0 */
#ifndef XWAY_PROC_H
#define XWAY_PROC_H

#include <jansson.h>

/*
 * Gives each of the connections an array "processes" of { pid, command, fd }:
 * those that have its socket open.
 */
void proc_find_holders(json_t *conns);

/* References to the module that the kernel counts, or -1. */
long long proc_module_references(void);

#endif
