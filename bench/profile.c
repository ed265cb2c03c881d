// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin of QEMU's emulator that counts instructions by address.
 *
 *   -plugin profile.so,control=FIFO
 *
 * Lines that it reads from the FIFO: "start" forgets what was counted, "stop PATH" writes it to PATH, a
 * line "ADDRESS INSTRUCTIONS" in hexadecimal for each block of code, and then creates PATH.done.
 * Blocks are counted as they are entered, so one that an exception leaves counts as whole.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What we use of QEMU's qemu-plugin.h, version 1 of its interface, which Debian does not package. */
typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_info_t;
typedef void (*qemu_plugin_vcpu_tb_trans_cb_t)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_tb_trans_cb_t cb);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, enum qemu_plugin_op op,
					      void *ptr, uint64_t imm);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);

#define EXPORT __attribute__((visibility("default")))
#define BUCKETS (1u << 16)

struct block {
	struct block *next;
	uint64_t address;
	uint64_t instructions; /* of all times that it was entered */
};

EXPORT int qemu_plugin_version = 1;

static struct block *buckets[BUCKETS];
static pthread_mutex_t lock =
	PTHREAD_MUTEX_INITIALIZER; /* the lists; counts are added to without it */

static struct block *block_of(uint64_t address)
{
	struct block **head = &buckets[(address ^ address >> 16) % BUCKETS], *b;

	for (b = *head; b; b = b->next)
		if (b->address == address)
			return b;
	b = calloc(1, sizeof(*b));
	if (!b)
		abort();
	*b = (struct block){ .next = *head, .address = address };
	*head = b;
	return b;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	struct block *b;

	(void)id;
	pthread_mutex_lock(&lock);
	b = block_of(qemu_plugin_tb_vaddr(tb));
	pthread_mutex_unlock(&lock);
	qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &b->instructions,
						 qemu_plugin_tb_n_insns(tb));
}

/* Write what was counted, if there is a path, and forget it. */
static void turn(const char *path)
{
	FILE *out = path ? fopen(path, "w") : NULL;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < BUCKETS; i++)
		for (struct block *b = buckets[i]; b; b = b->next) {
			if (out && b->instructions)
				fprintf(out, "%" PRIx64 " %" PRIx64 "\n", b->address,
					b->instructions);
			b->instructions = 0;
		}
	pthread_mutex_unlock(&lock);
	if (out)
		fclose(out);
}

static void *listen_to(void *path)
{
	char line[4096], done[4200];
	FILE *control, *mark;

	for (;;) {
		control = fopen(path, "r");
		if (!control)
			return NULL;
		while (fgets(line, sizeof(line), control)) {
			line[strcspn(line, "\n")] = 0;
			if (strncmp(line, "stop ", 5)) {
				turn(NULL);
				continue;
			}
			turn(line + 5);
			snprintf(done, sizeof(done), "%s.done", line + 5);
			mark = fopen(done, "w");
			if (mark)
				fclose(mark);
		}
		fclose(control);
	}
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info, int argc,
			       char **argv)
{
	pthread_t thread;

	(void)info;
	if (argc != 1 || strncmp(argv[0], "control=", 8)) {
		fputs("profile: usage: -plugin profile.so,control=FIFO\n", stderr);
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return pthread_create(&thread, NULL, listen_to, strdup(argv[0] + 8));
}
