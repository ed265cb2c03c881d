/*
 * An end that closes its socket, or shuts it, while its channel opens and the peer sends by
 * ring. What is put into the ring is read, or the connection is reset; and who has seen the FIN
 * puts nothing there. FAULT_... leaves something out.
 *
 * TCP resets the connection if bytes come for a socket that is closed.
 */
#define ITEMS 2

#define OPEN 1		/* XWAY_WORDS_* */
#define NO_READER 2

#define PEER 0		/* the reader's: chan.peer */
#define CLOSED 1	/* XWAY_F_CLOSED, or SHUT */
#define LOCK 2		/* conn->lock */
#define FLAGS 3		/* its words */
#define PROD 4		/* the sender's words */
#define WORDS 5

#include "tso.h"

BUFFER(opener_buffer)
BUFFER(closer_buffer)
BUFFER(sender_buffer)

byte put, arrived;	/* items that the sender has left to the ring; at the program */
bool reset, by_tcp;
bool fin;		/* is on its way */

/* xway_words_flag(). Who takes a spinlock makes a barrier; it is given back by a store. */
inline words_flag(buffer, flag)
{
	atomic { empty(buffer) && !LOAD(LOCK) -> memory[LOCK] = true };
	STORE(buffer, FLAGS, LOAD(FLAGS) | flag);
	STORE(buffer, LOCK, false);
#ifndef FAULT_FLAG_WITHOUT_BARRIER
	BARRIER(buffer)
#endif
}

/* half_map(), flag_open() */
active proctype opener()
{
	STORE(opener_buffer, PEER, true);
#ifndef FAULT_OPEN_WITHOUT_BARRIER
	BARRIER(opener_buffer);
#endif
	if
	:: LOAD(CLOSED) -> words_flag(opener_buffer, OPEN | NO_READER)
	:: else -> words_flag(opener_buffer, OPEN)
	fi
}

/* xway_close(); or xway_shutdown(), which leaves out rx_leave() */
active proctype closer()
{
	do
	:: LOAD(PEER) && arrived != LOAD(PROD) -> arrived++
	:: break		/* reads no more */
	od;
	/* rx_refuse() */
	STORE(closer_buffer, CLOSED, true);
#ifndef FAULT_REFUSE_WITHOUT_BARRIER
	BARRIER(closer_buffer);
#endif
	if
	:: LOAD(PEER) -> words_flag(closer_buffer, NO_READER)
	:: else
	fi;
	/* rx_leave() */
	if
	:: LOAD(PEER) -> reset = (LOAD(PROD) != arrived)
	:: else
	fi;
	/* TCP takes locks. */
	BARRIER(closer_buffer);
	fin = true
}

active proctype sender()
{
	bool seen;

	LOAD(FLAGS) & OPEN;
	do
	:: put == ITEMS -> break
	:: put < ITEMS ->
		seen = fin;
		/* xway_tx_publish() */
		if
		:: LOAD(FLAGS) & NO_READER -> by_tcp = true; break
		:: else
		fi;
		STORE(sender_buffer, PROD, put + 1);
#ifndef FAULT_PUBLISH_WITHOUT_BARRIER
		BARRIER(sender_buffer);
#endif
		if
		:: LOAD(FLAGS) & NO_READER -> by_tcp = true; break
		:: else -> put++; assert(!seen)
		fi
	od
}

/* When nothing more can happen */
active proctype judge()
{
end:	timeout -> assert(fin && (arrived == put || reset || by_tcp))
}
