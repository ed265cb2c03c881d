/*
 * A connection begins a channel, as its active or its passive end, while it falls back or parks,
 * and while its socket is closed. The helper gives no socket back to TCP while a channel is made
 * or open, and no channel is left in the end of a connection that has no use for it.
 * FAULT_... leaves something out.
 */
#define TCP 0		/* XWAY_CONN_* */
#define OPENING 1
#define OPEN 2

#define STATE 0
#define FALLBACK 1	/* XWAY_F_* */
#define DETACHED 2
#define WORDS 3

#include "tso.h"

BUFFER(link_buffer)
BUFFER(closer_buffer)
BUFFER(helper_buffer)

bool half;		/* it has its own half of a channel */
bool attached = true;	/* it has a socket */
bool left;		/* the helper has given the socket back to TCP, or to a fresh connection */
bool queued;		/* the helper is to run */
bool want;		/* XWAY_F_WANT_OPEN, of a passive end */
bool asked;		/* OPEN is on its way */
bool rx_closed;
bool link_lock, sock_lock;

/* A lock is taken and given back with a barrier. */
#define LOCK(lock, buffer) atomic { empty(buffer) && !lock -> lock = true }
#define UNLOCK(lock, buffer) atomic { empty(buffer) -> lock = false }

#define ENDING (LOAD(FALLBACK) || LOAD(DETACHED))

inline begin(buffer)
{
	STORE(buffer, STATE, OPENING);
#ifndef FAULT_BEGIN_WITHOUT_BARRIER
	BARRIER(buffer);
#endif
	if
	:: ENDING ->
		STORE(buffer, STATE, TCP);
		BARRIER(buffer);
		queued = true
	:: else ->
		half = true;
		assert(!left)
	fi
}

/* The end of ctl_open(), and of ctl_accept() */
inline opened()
{
	STORE(link_buffer, STATE, OPEN);
	/* That of schedule_delayed_work(), in xway_timeout_begin() */
#ifndef FAULT_OPEN_WITHOUT_BARRIER
	BARRIER(link_buffer);
#endif
	if
	:: ENDING -> queued = true
	:: else
	fi
}

/* link_work(): OPEN for an active end, or ACCEPT for a passive one; or the peer is silent. */
active proctype messages()
{
	if
	:: LOCK(link_lock, link_buffer);
		begin(link_buffer);
		if
		:: half -> opened()
		:: else
		fi
	:: want = true; queued = true;
		if
		:: asked
		:: goto silent
		fi;
		LOCK(link_lock, link_buffer);
		if
		:: LOAD(STATE) != OPENING
		:: LOAD(STATE) == OPENING && ENDING ->
			rx_closed = true;
			STORE(link_buffer, STATE, OPEN);
			BARRIER(link_buffer);
			queued = true
		:: LOAD(STATE) == OPENING && !ENDING -> opened()
		fi
	fi;
	UNLOCK(link_lock, link_buffer);
silent:	skip
}

/* xway_conn_fallback(), xway_conn_park(), at any time, or never */
active proctype faller()
{
	if
	:: memory[FALLBACK] = true; queued = true
	:: true
	fi
}

/* xway_detach(), xway_conn_detached() */
inline detach(buffer)
{
	attached = false;
	STORE(buffer, DETACHED, true);
	/* That of set_bit() on x86 */
#ifndef FAULT_DETACH_WITHOUT_BARRIER
	BARRIER(buffer);
#endif
	if
	:: LOAD(STATE) != TCP -> queued = true
	:: else
	fi
}

/* The program closes its socket, at any time, or never. */
active proctype closer()
{
	if
	:: LOCK(sock_lock, closer_buffer);
		if
		:: attached -> detach(closer_buffer)
		:: else
		fi;
		UNLOCK(sock_lock, closer_buffer)
	:: true
	fi
}

/* conn_do_fallback() */
inline fall_back()
{
	LOCK(sock_lock, helper_buffer);
	if
	:: attached ->
		if
		:: LOAD(STATE) == OPEN -> rx_closed = true
		:: else
		fi;
		if
		:: LOAD(STATE) == TCP ->
			assert(!half);
			left = true;
			detach(helper_buffer)
		:: else
		fi
	:: else
	fi;
	UNLOCK(sock_lock, helper_buffer)
}

/* xway_conn_work() */
active proctype helper()
{
	bool gone;

end:	do
	:: atomic { queued -> queued = false };
		if
		:: want ->
			want = false;
			LOCK(link_lock, helper_buffer);
			begin(helper_buffer);
			asked = half;
			UNLOCK(link_lock, helper_buffer)
		:: else
		fi;
		if
		:: LOAD(FALLBACK) -> fall_back()
		:: else
		fi;
		/* xway_handshake_close(). The peer answers, so the end is one step. */
		gone = LOAD(DETACHED);
		LOCK(link_lock, helper_buffer);
		if
		:: (LOAD(STATE) == OPENING && (gone || LOAD(FALLBACK))) ||
		   (LOAD(STATE) == OPEN && (gone || rx_closed)) ->
			half = false;
			STORE(helper_buffer, STATE, TCP)
		:: else
		fi;
		UNLOCK(link_lock, helper_buffer);
		if
		:: LOAD(FALLBACK) && LOAD(STATE) != OPEN -> fall_back()
		:: else
		fi
	od
}

/* When nothing more can happen */
active proctype judge()
{
end:	timeout -> assert(!ENDING || (!half && !attached))
}
