/* SPDX-License-Identifier: GPL-2.0 */
/* Why the module may not be loaded: what is installed for the kernel that runs. */
#ifndef XWAY_ABSENT_H
#define XWAY_ABSENT_H

#include <jansson.h>

/*
 * An object: loaded (false), kernel (its release), module (the path of xway.ko for it, or null),
 * kernels (the others that have one), headers (are this kernel's there?), dkms (the version that
 * dkms has, or null), log (the path of what a build that failed said, or null), signed_only (does
 * the kernel refuse what is not signed?), signed (is the module? null if that cannot be seen).
 */
json_t *absent_find(void);

/* Tells it, and what to do, on standard error. */
void absent_print(const json_t *absent);

#endif
