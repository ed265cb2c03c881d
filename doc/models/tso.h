/*
 * Memory of x86: a store waits in its processor's buffer, and reaches memory later, in
 * order; a load looks at memory at once. (Total store order: Intel SDM 3A, section
 * 9.2.3.) Nobody loads here what its own processor has stored, but from a copy of its own.
 */
#define U(x) ((x) & 255)	/* indices are bytes, so that they wrap soon */

#ifndef DEPTH
#define DEPTH 3		/* stores that wait */
#endif

byte memory[WORDS];

#define BUFFER(name)						\
	chan name = [DEPTH] of { byte, byte };			\
	active proctype name##_drain()				\
	{							\
		byte at, value;					\
	end:	do						\
		:: d_step { name?[at, value] -> name?at, value; memory[at] = value } \
		od						\
	}

#define STORE(buffer, at, value) buffer!at, U(value)
#define LOAD(at) memory[at]
#define BARRIER(buffer) empty(buffer)

/* kernel/core/ring.h: xway_ring_crossed() */
#define CROSSED(want, new, old) (U((new) - (want)) < U((new) - (old)))
