/*
 * A sender of kernel/tcp that goes to and fro between TCP and its ring, and a reader that
 * may end that alone (it cuts). Every item arrives once, in order, whatever the sender and
 * the reader do, and nobody waits for ever. FAULT_... leaves something out.
 *
 * TCP carries items in order, and takes any time for it.
 */
#define SIZE 2
#ifndef ITEMS
#define ITEMS 4
#endif
#define SWITCHES 4

#define FALLBACK 1	/* flags */
#define CUTTING 2
#define CUT_KNOWN 4	/* XWAY_WORDS_CUT */

#define PROD 0		/* the sender's words */
#define GEN 1
#define MARK_SEQ 2
#define MARK_IDX 4
#define SENT 6		/* what TCP may carry: its write_seq */
#define CONS 7		/* the reader's words */
#define GEN_DONE 8
#define FLAGS 9
#define CUT 10
#define RING 11
#define WORDS 13

#define DEPTH 4		/* an index and a switch */

#include "tso.h"

BUFFER(sender_buffer)
BUFFER(reader_buffer)

byte segment[ITEMS];	/* what TCP carries, by sequence number */
byte rcv_nxt;		/* the reader's: so many have arrived */
byte arrived;		/* items at the program */

active proctype wire()
{
end:	do
	:: rcv_nxt != memory[SENT] -> rcv_nxt++
	od
}

inline send_tcp(item)
{
	segment[seq] = item;
	seq++;
	STORE(sender_buffer, SENT, seq)
}

/* tx_mark() */
inline mark()
{
#ifdef FAULT_NUMBER_BEFORE_MARK
	STORE(sender_buffer, GEN, gen + 1);
#endif
	STORE(sender_buffer, MARK_SEQ + (gen + 1) % 2, seq);
	STORE(sender_buffer, MARK_IDX + (gen + 1) % 2, prod);
#ifndef FAULT_NUMBER_BEFORE_MARK
	STORE(sender_buffer, GEN, gen + 1);
#endif
	gen++
}

/* xway_tx_to_tcp() */
inline to_tcp()
{
	mark();
#ifndef FAULT_LOOK_AT_CUTTING_WITHOUT_BARRIER
	BARRIER(sender_buffer);
#endif
	resend = (LOAD(FLAGS) & CUTTING) != 0
}

active proctype sender()
{
	byte prod, gen, seq, item, own[SIZE];
	bool resend, fin;

end:	do
	:: gen % 2 == 0 && !resend && item < ITEMS ->
		send_tcp(item);
		item++
#ifdef FAULT_SWITCH_TOO_EARLY
	:: gen % 2 == 0 && !resend && !fin && gen < SWITCHES && !LOAD(FLAGS) ->
#else
	:: gen % 2 == 0 && !resend && !fin && gen < SWITCHES && !LOAD(FLAGS) && LOAD(GEN_DONE) == gen ->
#endif
		/* xway_tx_to_ring() */
		mark();
#ifndef FAULT_TO_RING_WITHOUT_BARRIER
		BARRIER(sender_buffer);
#endif
		if
		:: LOAD(FLAGS) -> to_tcp()
		:: else
		fi
	:: gen % 2 == 1 && item < ITEMS && U(prod - LOAD(CONS)) < SIZE ->
		own[prod % SIZE] = item;
		STORE(sender_buffer, RING + prod % SIZE, item);
		STORE(sender_buffer, PROD, prod + 1);
		prod++;
		item++
	:: gen % 2 == 1 && (gen < SWITCHES || LOAD(FLAGS)) -> to_tcp()
	/* xway_tx_resend() */
	:: resend && (LOAD(FLAGS) & CUT_KNOWN) ->
#ifndef FAULT_NO_RESEND
		/* TCP takes nothing after its FIN. */
		byte resent = LOAD(CUT);

		do
		:: !fin && resent != prod -> send_tcp(own[resent % SIZE]); resent++
		:: else -> break
		od;
#endif
		resend = false
	/* xway_tx_may_fin(). A FIN from TCP's own stretch follows all bytes anyway. */
	:: gen % 2 == 1 && item == ITEMS && !fin ->
#ifndef FAULT_FIN_WITHOUT_BARRIER
		BARRIER(sender_buffer);
#endif
		if
		:: LOAD(FLAGS) & CUTTING -> to_tcp()
		:: else -> fin = true
		fi
	od
}

/* xway_rx_update() */
inline update()
{
	if
	:: !spilled ->
		new = LOAD(GEN);
#ifndef FAULT_SWITCH_TOO_EARLY
		assert(U(new - gen) <= 2);
#endif
		do
		:: seen != new ->
			seen++;
			seq[seen % 2] = LOAD(MARK_SEQ + seen % 2);
			idx[seen % 2] = LOAD(MARK_IDX + seen % 2)
		:: else -> break
		od
	:: else
	fi
}

inline copy_out()
{
	prod = LOAD(PROD);
	own[0] = LOAD(RING);
	own[1] = LOAD(RING + 1);
	spilled = true
}

inline take(item)
{
	assert(item == arrived);
	arrived++
}

#define NEXT ((gen + 1) % 2)

active proctype reader()
{
	byte cons, prod, gen, seen, new, copied, noted, seq[2], idx[2], own[SIZE];
	bool spilled, fell_back;

end:	do
	/* The program reads: xway_rx_update(), then TCP or ring, xway_rx_advance() */
	:: (gen != seen) || (!spilled && memory[GEN] != seen) ||
	   (gen % 2 == 0 && copied != rcv_nxt) ||
	   (gen % 2 == 1 && !spilled && memory[PROD] != cons) || (gen % 2 == 1 && spilled && prod != cons) ->
#ifdef FAULT_NOTE_AFTER_NUMBER
		update();
		noted = rcv_nxt;
#else
		noted = rcv_nxt;
		update();
#endif
		if
		:: gen % 2 == 0 && gen == seen && copied != noted ->
			do
			:: copied != noted -> take(segment[copied]); copied++
			:: break
			od
		:: gen % 2 == 0 && gen != seen && copied != seq[NEXT] && copied != rcv_nxt ->
			take(segment[copied]); copied++
		:: gen % 2 == 0 && gen != seen && copied == seq[NEXT] ->
			assert(cons == idx[NEXT]);
			gen++;
			STORE(reader_buffer, GEN_DONE, gen)
		/* The mark's bytes are on their way. */
		:: gen % 2 == 0 && gen != seen && copied != seq[NEXT] && copied == rcv_nxt ->
			copied != rcv_nxt
		:: gen % 2 == 1 && gen != seen && cons == idx[NEXT] ->
			gen++;
			STORE(reader_buffer, GEN_DONE, gen)
		:: gen % 2 == 1 && (gen == seen || cons != idx[NEXT]) ->
			if
			:: !spilled && LOAD(PROD) != cons ->
				take(LOAD(RING + cons % SIZE));
				cons++;
				STORE(reader_buffer, CONS, cons)
			:: spilled && prod != cons -> take(own[cons % SIZE]); cons++
			/* With neither nothing comes any more, and the judge is called. */
			fi
		:: else
		fi
	/* The connection falls back: conn_do_fallback(), xway_rx_cut() */
	:: !fell_back ->
		fell_back = true;
		STORE(reader_buffer, FLAGS, FALLBACK);
#ifndef FAULT_FALL_BACK_WITHOUT_BARRIER
		BARRIER(reader_buffer);
#endif
		update();
		if
		:: seen % 2 == 0 -> copy_out()
		:: else ->
#ifdef FAULT_INDEX_BEFORE_CUTTING
			prod = LOAD(PROD);
#endif
			STORE(reader_buffer, FLAGS, FALLBACK | CUTTING);
#ifndef FAULT_CUT_WITHOUT_BARRIER
			BARRIER(reader_buffer);
#endif
			update();
#ifndef FAULT_INDEX_BEFORE_CUTTING
			prod = LOAD(PROD);
#endif
#ifdef FAULT_FLAG_BEFORE_CUT
			STORE(reader_buffer, FLAGS, FALLBACK | CUTTING | CUT_KNOWN);
			STORE(reader_buffer, CUT, prod);
#else
			STORE(reader_buffer, CUT, prod);
			STORE(reader_buffer, FLAGS, FALLBACK | CUTTING | CUT_KNOWN);
#endif
			own[0] = LOAD(RING);
			own[1] = LOAD(RING + 1);
			spilled = true;
			/* rx_end_stretch() */
			if
			:: seen % 2 == 1 -> seen++; idx[seen % 2] = prod
			:: else
			fi
		fi
	od
}

/* When nothing more can happen */
active proctype judge()
{
end:	timeout -> assert(arrived == ITEMS)
}
