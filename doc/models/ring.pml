/*
 * The ring of kernel/core/ring.h: one writer, one reader, who sleep when they find
 * nothing to do. Every item arrives once, in order, and nobody sleeps for ever.
 *
 * An item stands for bytes. The writer publishes one or several at a time, and the reader
 * takes one or several. FAULT_... leaves something out that is needed.
 */
#define SIZE 2
#define ITEMS 5
#define START 254

#define PROD 0		/* the writer's words */
#define WANT_ROOM 1
#define CONS 2		/* the reader's */
#define WANT_DATA 3
#define DATA 4		/* the ring */
#define WORDS 6

#include "tso.h"

BUFFER(writer_buffer)
BUFFER(reader_buffer)

bool writer_event, reader_event, started;
byte arrived;

init
{
	d_step {
		memory[PROD] = START; memory[CONS] = START;
		/* Nobody waits. */
		memory[WANT_ROOM] = START; memory[WANT_DATA] = START;
		started = true
	}
}

active proctype writer()
{
	byte prod = START, new = START, sent;

	started;
	do
	:: sent == ITEMS -> break
	:: sent < ITEMS ->
		if
		:: U(new - LOAD(CONS)) < SIZE ->
#ifdef FAULT_PUBLISH_BEFORE_DATA
			STORE(writer_buffer, PROD, new + 1);
			STORE(writer_buffer, DATA + new % SIZE, sent);
#else
			STORE(writer_buffer, DATA + new % SIZE, sent);
#endif
			new = U(new + 1);
			sent++;
			if
			:: sent < ITEMS && U(new - LOAD(CONS)) < SIZE	/* one more first */
			:: goto publish
			fi
		:: else ->
			/* xway_ring_arm(), tx.c */
			STORE(writer_buffer, WANT_ROOM, new + 1 - SIZE);
#ifndef FAULT_ARM_WITHOUT_BARRIER
			BARRIER(writer_buffer);
#endif
			if
			:: U(new - LOAD(CONS)) < SIZE
			:: else -> writer_event; writer_event = false
			fi
		fi;
		goto next;
publish:	/* xway_ring_publish() */
		STORE(writer_buffer, PROD, new);
#ifndef FAULT_PUBLISH_WITHOUT_BARRIER
		BARRIER(writer_buffer);
#endif
		if
		:: CROSSED(LOAD(WANT_DATA), new, prod) -> reader_event = true
		:: else
		fi;
		prod = new;
next:		skip
	od;
	/* What was written is published before the end: see the choice above. */
	assert(prod == new)
}

active proctype reader()
{
	byte cons = START, new, n;

	started;
	do
	:: arrived == ITEMS -> break
	:: arrived < ITEMS ->
		n = U(LOAD(PROD) - cons);
		assert(n <= SIZE);
		if
		:: n ->
			new = cons;
#ifdef FAULT_RELEASE_BEFORE_READ
			STORE(reader_buffer, CONS, new + 1);
#endif
			do
			:: n ->
				assert(LOAD(DATA + new % SIZE) == arrived);
				arrived++;
				new = U(new + 1);
				n--
			:: new != cons -> break		/* leaves some, or none are left */
			od;
			STORE(reader_buffer, CONS, new);
#ifndef FAULT_PUBLISH_WITHOUT_BARRIER
			BARRIER(reader_buffer);
#endif
			if
			:: CROSSED(LOAD(WANT_ROOM), new, cons) -> writer_event = true
			:: else
			fi;
			cons = new
		:: else ->
#ifdef FAULT_ARM_TOO_LATE
			STORE(reader_buffer, WANT_DATA, cons + 2);
#else
			STORE(reader_buffer, WANT_DATA, cons + 1);
#endif
#ifndef FAULT_ARM_WITHOUT_BARRIER
			BARRIER(reader_buffer);
#endif
#ifdef FAULT_SLEEP_WITHOUT_LOOK
			reader_event; reader_event = false
#else
			if
			:: LOAD(PROD) != cons
			:: else -> reader_event; reader_event = false
			fi
#endif
		fi
	od
}
