/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What tests/uml/fuzz.c and the device of fuzz.c tell each other.
 *
 * Two links are each other's peer. One, the victim, does not map the other's pages but
 * copies of them. An input is a list of steps, each of which changes the copies, brings
 * them up to date, or lets an end look. So the other end stays honest, and only the
 * victim meets what a hostile peer may write.
 */
#ifndef _XWAY_FUZZ_H
#define _XWAY_FUZZ_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* What a step does. Those up to FUZZ_PUT, and FUZZ_MESSAGE, change a word. */
enum {
	FUZZ_HEADER,	/* of the header page */
	FUZZ_BELL,	/* of the doorbell page, from the next post on */
	FUZZ_CTL,	/* of the next control message */
	FUZZ_DIR,	/* of the first directory page */
	FUZZ_WORDS,	/* of a channel's words */
	FUZZ_RING,	/* of a ring, from what the victim reads next on */
	FUZZ_PUT,	/* of a ring's next four, and the ring is said to be full */
	FUZZ_POST,	/* post @value */
	FUZZ_MESSAGE,	/* send the last message once more, with a word changed, or its type */
	FUZZ_LOOK,	/* the victim looks */
	FUZZ_PUMP,	/* the copies become up to date and both ends look, twice */
	FUZZ_STEPS
};

/**
 * struct fuzz_step - one step
 * @what: FUZZ_*
 * @how: bits FUZZ_HOW_*; those of FUZZ_HOW_CHAN say which channel
 * @at: the word, taken modulo what there is; with FUZZ_RING, from -128 on to 127
 * @value: the value
 */
struct fuzz_step {
	__u8 what;
	__u8 how;
	__u16 at;
	__u32 value;
};

#define FUZZ_HOW_ADD	0x01	/* add the value to the word, which was 64 with FUZZ_PUT */
#define FUZZ_HOW_LIMIT	0x02	/* the value is near a limit: lowest byte: which; next: how near;
				 * if the third is odd, it is that of the upper half
				 */
#define FUZZ_HOW_FRESH	0x04	/* before that, all copies become up to date */
#define FUZZ_HOW_LOOK	0x08	/* after that the channel is posted, and the victim looks */
#define FUZZ_HOW_CHAN	0x30
#define FUZZ_HOW_FLICKER 0x80	/* the word has both values by turns, until the next step, each
				 * for one to four blocks of code: highest bits of @value
				 */

/**
 * struct fuzz_text - a module whose coverage is counted
 * @base: address of its section .text
 * @size: bytes
 *
 * mmap() gives a counter of 8 bits for each FUZZ_GRAIN bytes of the first one's text, then
 * of the next one's.
 */
struct fuzz_text {
	__u64 base;
	__u64 size;
};

#define FUZZ_GRAIN 4		/* less than a call instruction has */
#define FUZZ_TEXTS 3
#define FUZZ_COUNTERS 196608u	/* whole pages */

/**
 * struct fuzz_input - the input that the next steps are made of, for the kernel's last words
 * @bytes: its address
 * @len: its length; what is beyond FUZZ_INPUT_MAX is not kept
 */
struct fuzz_input {
	__u64 bytes;
	__u64 len;
};

#define FUZZ_INPUT_MAX 4096u

/* Add a module. Error: ENOSPC */
#define FUZZ_IOC_TEXT _IOW('x', 1, struct fuzz_text)

#define FUZZ_IOC_INPUT _IOW('x', 2, struct fuzz_input)

/**
 * struct fuzz_value - the value of a node of XenStore, which is read as all that there is
 * @bytes: its address
 * @len: its length; less than FUZZ_VALUE_MAX
 */
struct fuzz_value {
	__u64 bytes;
	__u64 len;
};

#define FUZZ_VALUE_MAX 256u

#define FUZZ_IOC_VALUE _IOW('x', 3, struct fuzz_value)

/**
 * struct fuzz_call - a system call
 * @nr: its number
 * @args: its arguments
 * @fd: if not 0, the first argument is the result of the call so many before this one
 * @result: what it returned, or a negative error
 */
struct fuzz_call {
	__u32 nr;
	__u32 fd;
	__u64 args[6];
	__s64 result;
};

/**
 * struct fuzz_calls - system calls, which are made one after another
 * @calls: address of struct fuzz_call
 * @n: how many; up to FUZZ_CALLS_MAX
 *
 * What a call leaves to be done when it returns to the program, as close() does, is done
 * after the last of them.
 */
struct fuzz_calls {
	__u64 calls;
	__u64 n;
};

#define FUZZ_CALLS_MAX 32u

/* Error: EINVAL for too many, or for a result of no call. Numbers are not checked. */
#define FUZZ_IOC_CALLS _IOW('x', 4, struct fuzz_calls)

#ifdef __KERNEL__
#include <asm/syscall.h>

void __sanitizer_cov_trace_pc(void);
extern const sys_call_ptr_t sys_call_table[];
#endif

#endif /* _XWAY_FUZZ_H */
