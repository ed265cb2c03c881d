/*
 * A sender that waits for room, gets some, and waits again, and the helper that looks now and
 * then whether one waits. The second time nobody reads: then the connection parks.
 * FAULT_... leaves something out.
 */
#define NOSPACE 0	/* SOCK_NOSPACE: somebody waits for room */
#define WAITING 1	/* XWAY_F_WAITING: the helper will look */
#define WORDS 2

#include "tso.h"

BUFFER(sender_buffer)
BUFFER(helper_buffer)

byte waits;
bool queued;		/* the helper is to look, in time */
bool parked;

/* tcp_poll() or tx_wait(), and xway_tx_writeable() */
active proctype sender()
{
	bool was;

	do
	:: waits == 2 -> break
	:: waits < 2 ->
		waits++;
		STORE(sender_buffer, NOSPACE, true);
		/* That of xway_ring_arm() */
#ifndef FAULT_WAIT_WITHOUT_BARRIER
		BARRIER(sender_buffer);
#endif
		if
		:: LOAD(WAITING)
		:: else ->
			atomic { BARRIER(sender_buffer) -> was = memory[WAITING]; memory[WAITING] = true };
			if
			:: was
			:: else -> queued = true	/* xway_conn_waits() */
			fi
		fi;
		/* The peer reads, and there is room: sk_write_space() */
		if
		:: waits == 1 -> BARRIER(sender_buffer); memory[NOSPACE] = false
		:: else
		fi
	od
}

/* conn_check_wait() */
active proctype helper()
{
end:	do
	:: atomic { queued -> queued = false };
		STORE(helper_buffer, WAITING, false);
#ifndef FAULT_LOOK_WITHOUT_BARRIER
		BARRIER(helper_buffer);
#endif
		if
		:: !LOAD(NOSPACE)
		/* It has waited for long, or not yet. */
		:: LOAD(NOSPACE) && waits == 2 -> parked = true
		:: LOAD(NOSPACE) && waits == 1 ->
			BARRIER(helper_buffer);
			memory[WAITING] = true;
			queued = true
		fi
	od
}

/* When nothing more can happen */
active proctype judge()
{
end:	timeout -> assert(parked)
}
