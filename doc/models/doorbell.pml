/*
 * The doorbell of kernel/core/doorbell.c, one direction: who changes a channel's words and
 * posts it is noticed, however few slots there are and however rarely the peer looks.
 *
 * A channel has one word here, which counts its changes. When nothing more happens, the
 * taker must have seen the last change of each. FAULT_... leaves something out.
 */
#define CHANNELS 2
#define CHANGES 4
#ifndef SLOTS
#define SLOTS 1		/* 1024 in the code */
#endif
#define BATCH 1		/* posts copied at a time; 64 in the code */
#define START 254

#define BELL_PROD 0	/* the poster's words */
#define BELL_OVERFLOW 1
#define SLOT 2
#define WORD 4		/* its channels' */
#define BELL_CONS 6	/* the taker's */
#define BELL_EVENT 7
#define WORDS 8

#include "tso.h"

BUFFER(poster_buffer)
BUFFER(taker_buffer)

bool event = true;	/* a session begins with a look */
bool later, scanned, started;
byte word[CHANNELS], seen[CHANNELS];

init
{
	d_step {
		memory[BELL_PROD] = START; memory[BELL_CONS] = START;
		memory[BELL_EVENT] = START;
		started = true
	}
}

active proctype poster()
{
	byte last[CHANNELS], prod = START, cons, changes, overflow, ch;

	d_step { last[0] = START; last[1] = START };
	started;
	do
	:: changes == CHANGES -> break
	:: changes < CHANGES ->
		changes++;
		if
		:: ch = 0
		:: ch = 1
		fi;
		/* The client stores what the peer is to find, and makes a barrier. */
		word[ch]++;
		STORE(poster_buffer, WORD + ch, word[ch]);
#ifndef FAULT_POST_WITHOUT_BARRIER
		BARRIER(poster_buffer);
#endif
		/* xway_doorbell_post() */
		cons = LOAD(BELL_CONS);
		if
#ifdef FAULT_SAVED_BY_ONE
		:: U(last[ch] - cons) <= U(prod - cons) && last[ch] != START
#else
		:: U(last[ch] - cons - 1) < U(prod - cons)	/* the last post is not taken yet */
#endif
		:: else ->
			if
			:: U(prod - cons) >= SLOTS ->
				overflow++;
				STORE(poster_buffer, BELL_OVERFLOW, overflow);
#ifndef FAULT_OVERFLOW_WITHOUT_EVENT
				/* The hypercall is a barrier. */
				BARRIER(poster_buffer);
				event = true
#endif
			:: else ->
				STORE(poster_buffer, SLOT + prod % SLOTS, ch);
				last[ch] = U(prod + 1);
				STORE(poster_buffer, BELL_PROD, prod + 1);
#ifndef FAULT_PUBLISH_WITHOUT_BARRIER
				BARRIER(poster_buffer);
#endif
				if
				:: CROSSED(LOAD(BELL_EVENT), prod + 1, prod) -> event = true
				:: else
				fi;
				prod = U(prod + 1)
			fi
		fi
	od
}

/* doorbell_run(): the tasklet, which an event or doorbell_later() schedules */
active proctype taker()
{
	byte cons = START, prod, ch, overflow, overflow_seen;

	started;
end:	do
	:: atomic { event -> event = false };
		/* doorbell_take() */
		do
		:: prod = LOAD(BELL_PROD);
			assert(U(prod - cons) <= SLOTS);
			if
			:: prod != cons ->
#ifdef FAULT_FREE_BEFORE_COPY
				STORE(taker_buffer, BELL_CONS, cons + 1);
				BARRIER(taker_buffer);
				ch = LOAD(SLOT + cons % SLOTS);
#else
				ch = LOAD(SLOT + cons % SLOTS);
#endif
#ifdef FAULT_LOOK_BEFORE_CONS
				seen[ch] = LOAD(WORD + ch);
#endif
				cons = U(cons + 1);
				STORE(taker_buffer, BELL_CONS, cons);
#ifndef FAULT_TAKE_WITHOUT_BARRIER
				BARRIER(taker_buffer);
#endif
#ifndef FAULT_LOOK_BEFORE_CONS
				seen[ch] = LOAD(WORD + ch);
#endif
			:: else ->
				/* doorbell_scan(): once a jiffy */
				overflow = LOAD(BELL_OVERFLOW);
				if
				:: overflow != overflow_seen && scanned ->
#ifndef FAULT_SCAN_NOT_LATER
					later = true
#endif
				:: overflow != overflow_seen && !scanned ->
#ifdef FAULT_SEEN_AFTER_SCAN
					seen[0] = LOAD(WORD);
					seen[1] = LOAD(WORD + 1);
					overflow_seen = LOAD(BELL_OVERFLOW);
#else
					overflow_seen = overflow;
					seen[0] = LOAD(WORD);
					seen[1] = LOAD(WORD + 1);
#endif
					scanned = true
				:: else
				fi;
				STORE(taker_buffer, BELL_EVENT, cons + 1);
#ifndef FAULT_ARM_WITHOUT_BARRIER
				BARRIER(taker_buffer);
#endif
				if
				:: LOAD(BELL_PROD) != cons
				:: else -> break
				fi
			fi
		od
	od
}

/* A jiffy is over, at any time; doorbell_later() runs. */
active proctype clock()
{
end:	do
	:: scanned -> scanned = false
	:: atomic { later -> later = false; event = true }
	od
}

/* When nothing more can happen */
active proctype judge()
{
end:	timeout -> assert(seen[0] == word[0] && seen[1] == word[1])
}
