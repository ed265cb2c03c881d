/* SPDX-License-Identifier: GPL-2.0 */
#ifndef XWAY_HOLDERS_H
#define XWAY_HOLDERS_H

#include <jansson.h>
#include <stdio.h>

#include "ipc.h"

/* { references, connections: [ { ..., processes } ] }; NULL after a complaint. */
json_t *holders_get(struct ipc *ipc);
void holders_print(const json_t *holders);

#endif
