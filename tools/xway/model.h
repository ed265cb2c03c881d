/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the module says, as JSON values: the text and the JSON that are printed
 * come from the same ones. All return NULL after a complaint.
 */
#ifndef XWAY_MODEL_H
#define XWAY_MODEL_H

#include <jansson.h>

#include "ipc.h"

json_t *model_state(struct ipc *ipc);
json_t *model_peers(struct ipc *ipc);
json_t *model_peers_alone(void); /* for who asks for nothing else */
json_t *model_conns(struct ipc *ipc, bool all);
json_t *model_stats(struct ipc *ipc);

#endif
