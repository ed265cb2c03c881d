/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _XWAY_ANSWER_H
#define _XWAY_ANSWER_H

#include <linux/types.h>

struct link;

void xway_answer_owed(void);
bool xway_answer_look(struct link *link);
void xway_answer_exit(void);

#endif /* _XWAY_ANSWER_H */
