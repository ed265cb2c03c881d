// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin of QEMU's emulator that counts instructions by address, and what some of them do.
 *
 *   -plugin profile.so,control=FIFO
 *
 * Lines that it reads from the FIFO: "start" forgets what was counted, "stop PATH" writes it to PATH, a
 * line "KIND ADDRESS NUMBER EXTRA" for each place where something was counted, the last three in
 * hexadecimal, and then creates PATH.done. Kinds, of which all but the first are only counted in kernels
 * and in Xen:
 *
 *   i  instructions of the block of code there
 *   e  times that this block was entered
 *   l  locked operations of the instruction there
 *   c  twice the bytes that it copied, if it is a movs
 *   m  twice the bytes that it stored, if it is a mov from a register
 *   h  hypercalls, if it makes them
 *   t  calls of a function by it with a number known to be in eax: EXTRA is the function's address, the
 *      highest byte of which is that number instead
 *
 * Blocks are counted as they are entered, so one that an exception leaves counts as whole.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * What we use of QEMU's qemu-plugin.h, which Debian does not package: version 1 of its interface, which QEMU
 * has up to 8, or version 3, from 9.1 on.
 */
#ifndef INTERFACE
#define INTERFACE 1
#endif
typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info_t;
typedef void (*qemu_plugin_vcpu_tb_trans_cb_t)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_MEM_RW };
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_tb_trans_cb_t cb);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t idx);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);

#if INTERFACE == 1
typedef uint64_t *number_t;
#define PER_CPU(name) name
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
#else
struct qemu_plugin_scoreboard;
typedef struct {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
} number_t; /* their qemu_plugin_u64: each CPU has one */
#define PER_CPU(name) name##_per_vcpu
struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t element_size);
uint64_t qemu_plugin_u64_sum(number_t number);
void qemu_plugin_u64_set(number_t number, unsigned int cpu, uint64_t value);
int qemu_plugin_num_vcpus(void);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t size);
#endif
#define on_block PER_CPU(qemu_plugin_register_vcpu_tb_exec_inline)
#define on_instruction PER_CPU(qemu_plugin_register_vcpu_insn_exec_inline)
#define on_memory PER_CPU(qemu_plugin_register_vcpu_mem_inline)
void on_block(struct qemu_plugin_tb *tb, enum qemu_plugin_op op, number_t number, uint64_t add);
void on_instruction(struct qemu_plugin_insn *insn, enum qemu_plugin_op op, number_t number,
		    uint64_t add);
void on_memory(struct qemu_plugin_insn *insn, enum qemu_plugin_mem_rw rw, enum qemu_plugin_op op,
	       number_t number, uint64_t add);

#define EXPORT __attribute__((visibility("default")))
#define BUCKETS (1u << 18)
#define NOT_USERS (1ull << 63) /* addresses of kernels and Xen */
#define EXTRA_BITS 56
#define EAX_MAX 0xff /* that is told with a call */
#define CODE_MAX 15  /* bytes of an instruction */
#define BLOCK 32768  /* bytes of numbers that are got at once */

struct counter {
	struct counter *next;
	uint64_t address;
	uint64_t extra;
	number_t number;
	char kind;
};

/* What an instruction is made of, as far as it matters here. */
struct code {
	bool lock;
	bool ds;	   /* prefix: a kernel on one CPU puts it in the place of lock */
	bool two;	   /* opcode behind 0f */
	bool memory;	   /* if it has a ModRM byte: is that about memory? */
	unsigned int size; /* of the operand, if it is not a byte */
	unsigned char op;
	unsigned char reg; /* of the ModRM byte */
};

EXPORT int qemu_plugin_version = INTERFACE;

static struct counter *buckets[BUCKETS];
static pthread_mutex_t lock =
	PTHREAD_MUTEX_INITIALIZER; /* the lists; counts are added to without it */

#if INTERFACE == 1
static number_t new_number(void)
{
	number_t number = calloc(1, sizeof(*number));

	if (!number)
		abort();
	return number;
}

static uint64_t take(number_t number)
{
	uint64_t was = *number;

	*number = 0;
	return was;
}

static const unsigned char *code_of(const struct qemu_plugin_insn *insn, unsigned char *buffer)
{
	(void)buffer;
	return qemu_plugin_insn_data(insn);
}
#else
static number_t new_number(void)
{
	static number_t next;

	next.offset += sizeof(uint64_t);
	if (!next.score || next.offset == BLOCK)
		next = (number_t){ qemu_plugin_scoreboard_new(BLOCK), 0 };
	return next;
}

static uint64_t take(number_t number)
{
	uint64_t was = qemu_plugin_u64_sum(number);

	for (int cpu = 0; cpu < qemu_plugin_num_vcpus(); cpu++)
		qemu_plugin_u64_set(number, cpu, 0);
	return was;
}

static const unsigned char *code_of(const struct qemu_plugin_insn *insn, unsigned char *buffer)
{
	qemu_plugin_insn_data(insn, buffer, CODE_MAX);
	return buffer;
}
#endif

static number_t counter_of(char kind, uint64_t address, uint64_t extra)
{
	uint64_t hash = address ^ address >> 18 ^ (uint64_t)kind << 10;
	struct counter **head = &buckets[hash % BUCKETS], *c;

	for (c = *head; c; c = c->next)
		if (c->address == address && c->kind == kind && c->extra == extra)
			return c->number;
	c = calloc(1, sizeof(*c));
	if (!c)
		abort();
	*c = (struct counter){ *head, address, extra, new_number(), kind };
	*head = c;
	return c->number;
}

static struct code decode(const unsigned char *at, size_t size)
{
	const unsigned char *end = at + size;
	struct code code = { .size = 4 };

	for (; at < end && memchr("\x66\x67\xf0\xf2\xf3\x2e\x36\x3e\x26\x64\x65", *at, 11); at++) {
		code.lock |= *at == 0xf0;
		code.ds |= *at == 0x3e;
		if (*at == 0x66)
			code.size = 2;
	}
	if (at < end && (*at & 0xf0) == 0x40) {
		if (*at & 8)
			code.size = 8;
		at++;
	}
	if (at < end && *at == 0x0f) {
		code.two = true;
		at++;
	}
	if (at < end)
		code.op = *at++;
	if (at < end) {
		code.reg = *at >> 3 & 7;
		code.memory = *at < 0xc0;
	}
	return code;
}

/* May it have a lock prefix? */
static bool lockable(const struct code *code)
{
	unsigned char op = code->op, reg = code->reg;

	if (!code->memory)
		return false;
	if (code->two)
		return op == 0xab || op == 0xb3 || op == 0xbb || op == 0xb0 || op == 0xb1 ||
		       op == 0xc0 || op == 0xc1 || (op == 0xba && reg >= 5) ||
		       (op == 0xc7 && reg == 1);
	return (op < 0x38 && (op & 7) < 2) ||
	       ((op == 0x80 || op == 0x81 || op == 0x83) && reg != 7) ||
	       ((op == 0xf6 || op == 0xf7) && (reg == 2 || reg == 3)) ||
	       ((op == 0xfe || op == 0xff) && reg < 2);
}

/* On one CPU, too: what is locked there only by its name would be where there are two. */
static bool locked(const struct code *code)
{
	bool xchg = !code->two && (code->op == 0x86 || code->op == 0x87);

	return code->lock || (code->ds && lockable(code)) || (xchg && code->memory);
}

static bool is_hypercall(const struct code *code, const unsigned char *bytes, size_t size)
{
	return code->two &&
	       (code->op == 0x05 || /* syscall; vmcall and vmmcall: */
		(size == 3 && code->op == 0x01 && (bytes[2] == 0xc1 || bytes[2] == 0xd9)));
}

static void count_instructions(struct qemu_plugin_tb *tb)
{
	const enum qemu_plugin_op add = QEMU_PLUGIN_INLINE_ADD_U64;
	uint32_t eax = UINT32_MAX;

	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		unsigned char buffer[CODE_MAX];
		const unsigned char *bytes = code_of(insn, buffer);
		size_t size = qemu_plugin_insn_size(insn);
		uint64_t at = qemu_plugin_insn_vaddr(insn), to;
		struct code code = decode(bytes, size);
		int32_t distance;

		if (locked(&code))
			on_instruction(insn, add, counter_of('l', at, 0), 1);
		/* It loads and stores. QEMU 7.2 takes one for the other, if one is asked for. */
		if (!code.two && (code.op == 0xa4 || code.op == 0xa5))
			on_memory(insn, QEMU_PLUGIN_MEM_RW, add, counter_of('c', at, 0),
				  code.op & 1 ? code.size : 1);
		if (!code.two && (code.op == 0x88 || code.op == 0x89) && code.memory)
			on_instruction(insn, add, counter_of('m', at, 0),
				       2 * (code.op & 1 ? code.size : 1));
		if (is_hypercall(&code, bytes, size))
			on_instruction(insn, add, counter_of('h', at, 0), 1);
		if (size == 5 && bytes[0] == 0xb8)
			memcpy(&eax, bytes + 1, sizeof(eax));
		if (size == 5 && bytes[0] == 0xe8 && eax <= EAX_MAX) {
			memcpy(&distance, bytes + 1, sizeof(distance));
			to = (at + size + distance) & ((1ull << EXTRA_BITS) - 1);
			to |= (uint64_t)eax << EXTRA_BITS;
			on_instruction(insn, add, counter_of('t', at, to), 1);
		}
	}
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	const enum qemu_plugin_op add = QEMU_PLUGIN_INLINE_ADD_U64;
	uint64_t at = qemu_plugin_tb_vaddr(tb);

	(void)id;
	pthread_mutex_lock(&lock);
	on_block(tb, add, counter_of('i', at, 0), qemu_plugin_tb_n_insns(tb));
	if (at & NOT_USERS) {
		on_block(tb, add, counter_of('e', at, 0), 1);
		count_instructions(tb);
	}
	pthread_mutex_unlock(&lock);
}

/* Write what was counted, if there is a path, and forget it. */
static void turn(const char *path)
{
	FILE *out = path ? fopen(path, "w") : NULL;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < BUCKETS; i++)
		for (struct counter *c = buckets[i]; c; c = c->next) {
			uint64_t number = take(c->number);

			if (out && number)
				fprintf(out, "%c %" PRIx64 " %" PRIx64 " %" PRIx64 "\n", c->kind,
					c->address, number, c->extra);
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
