/*
 * The end of a session, for a suspend, an unload, a change of policy, or because the peer
 * has died (xway_link_down()), while a connection takes the link, opens a channel, is read
 * by a program, and parks, and a peer answers or does not. Nobody reads a page of the peer's
 * that is not mapped; when the end is over there is no channel, and a connection that has
 * the link was told to leave; and everything comes to its end. FAULT_... leaves something
 * out.
 *
 * Memory is in order here: the locks and RCU see to that. What they do not guard is in the
 * other models: the look at the flags as a channel begins is in begin.pml.
 */
#define UP 0		/* of the link */
#define CLOSING 1
#define DEAD 2

#define TCP 0		/* of the connection */
#define OPENING 1
#define OPEN 2
#define ENDING 3	/* XWAY_CONN_CLOSING */

#define FRESH 0		/* those in RCU read-side sections */
#define CALLER 1
#define READERS 2

byte link = UP;
bool mapped = true;	/* the peer's arena */
byte chans;
byte conn = TCP;
bool listed, linked;	/* the connection is in the list; has the link */
bool park;		/* its flag */
bool parked;		/* another one has taken its place */
bool want;		/* XWAY_F_WANT_OPEN */
bool leaving, passed;	/* XWAY_F_LEAVING, XWAY_F_LEFT: CLOSE waits for a grace period; it has passed */
bool ending;		/* it is in the list of those that wait for one */
bool gone;		/* its socket is closed */
bool half;		/* it has its own half of a channel */
bool peer;		/* chan.peer: calls may read the peer's half */
bool used;		/* the peer's pages that the channel uses are mapped */
bool rx_closed;
bool asked, accepted, closed, got_close;	/* messages on the way */
bool over;		/* the session's end */

bool link_lock, rx_lock;
bool inside[READERS];
byte sections[READERS];	/* that have begun */

#ifdef FAULT_CLOSE_BEFORE_LEFT
#define LEFT true
#else
#define LEFT passed
#endif

#define LOCK(lock) atomic { !lock -> lock = true }
#define UNLOCK(lock) lock = false
#define RCU_LOCK(who) atomic { inside[who] = true; sections[who]++ }
#define RCU_UNLOCK(who) inside[who] = false

/* Whoever is inside now has left; others may have come. */
inline synchronize_rcu(fresh, caller)
{
	fresh = sections[FRESH];
	caller = sections[CALLER];
	(!inside[FRESH] || sections[FRESH] != fresh);
	(!inside[CALLER] || sections[CALLER] != caller)
}

inline free_half()
{
	half = false;
	chans--
}

/* xway_conn_create(), conn_linked(): a connection takes the link and enters the list. */
active proctype fresh()
{
	RCU_LOCK(FRESH);
	if
	:: link == UP -> linked = true
	:: else
	fi;
#ifdef FAULT_LISTED_AFTER_THE_SECTION
	RCU_UNLOCK(FRESH);
#endif
	listed = true;
#ifndef FAULT_LISTED_AFTER_THE_SECTION
	RCU_UNLOCK(FRESH);
#endif
	want = linked
}

/* A call of the program: xway_rx_ring() */
active proctype caller()
{
	bool found;
	byte calls;

	do
	:: calls < 2 ->
		RCU_LOCK(CALLER);
		found = peer;
		if
		:: found -> assert(used && mapped)
		:: else
		fi;
		RCU_UNLOCK(CALLER);
		calls++
	:: calls == 2 -> break
	od
}

/* xway_handshake_open(), begin() */
inline open_channel()
{
	want = false;
	LOCK(link_lock);
	if
#ifndef FAULT_OPEN_ON_ANY_LINK
	:: link != UP
#endif
	:: conn != TCP
#ifdef FAULT_OPEN_ON_ANY_LINK
	:: conn == TCP ->
#else
	:: link == UP && conn == TCP ->
#endif
#ifdef FAULT_LOOK_BEFORE_OPENING
		parks = park;
		conn = OPENING;
#else
		conn = OPENING;
		parks = park;
#endif
		if
		:: parks -> conn = TCP
		:: else ->
			assert(!parked);
			half = true;
			chans++;
			asked = true
		fi
	fi;
	UNLOCK(link_lock)
}

/* conn_do_fallback(), xway_handshake_close(), send_close(), free_later() */
inline leave()
{
	LOCK(rx_lock);
	if
	:: conn == OPEN -> rx_closed = true	/* the peer has left its ring, or is cut */
	:: true		/* not yet */
	fi;
	LOCK(link_lock);
	if
	:: conn == OPENING -> conn = TCP; free_half()
	:: else
	fi;
	if
	:: conn == OPEN && (rx_closed || gone) && !leaving ->
		leaving = true;
		peer = false;
		ending = true
	:: conn == OPEN && leaving && LEFT ->
		leaving = false;
		conn = ENDING;
		used = false;
		closed = true
	:: else
	fi;
	if
	:: conn == ENDING && (got_close || gone) ->
		ending = true;
		conn = TCP
	:: else
	fi;
	UNLOCK(link_lock);
	UNLOCK(rx_lock)
}

/* grace_passed(), closed_free(); or the work that RCU runs */
active proctype grace()
{
	byte a, b;

end:	do
	:: atomic { ending -> ending = false };
#ifndef FAULT_UNMAP_WITHOUT_GRACE
		synchronize_rcu(a, b);
#endif
		if
		:: leaving -> passed = true
		:: else ->
			LOCK(link_lock);
#ifdef FAULT_FREE_WHAT_IS_FREED
			free_half();
#else
			if
			:: half -> free_half()
			:: else
			fi;
#endif
			UNLOCK(link_lock)
		fi
	od
}

/* The program closes its socket, at any time, or never. */
active proctype closer()
{
	if
	:: gone = true
	:: true
	fi
}

/* xway_detach_or_park(), for the last user of the socket or for the helper */
active proctype socket()
{
end:	park;
	conn == TCP;
	parked = true
}

/* It parks for another reason, at any time, or never. */
active proctype evict()
{
	if
	:: listed -> park = true
	:: true
	fi
}

/* xway_conn_work() */
active proctype helper()
{
	byte a, b;
	bool parks;

end:	do
	:: want -> open_channel()
	:: (park || gone) && conn != TCP -> leave()
	od
}

/* It may stop answering at any time. */
active proctype other_end()
{
	do
	:: asked && !accepted -> accepted = true
	:: closed && !got_close -> got_close = true
	:: true -> break
	od
}

/* link_work(): ACCEPT. For a channel that was given up the core has a tombstone. */
active proctype messages()
{
end:	accepted;
	LOCK(link_lock);
	if
	:: link == DEAD || conn != OPENING
	:: link != DEAD && conn == OPENING ->
#ifndef FAULT_ACCEPT_WHAT_PARKS
		if
		:: park -> rx_closed = true
		:: else ->
#endif
			assert(mapped);
			used = true;
			peer = true;
#ifndef FAULT_ACCEPT_WHAT_PARKS
		fi;
#endif
		conn = OPEN
	fi;
	UNLOCK(link_lock)
}

/* conn_abort_link(), xway_handshake_abort(), xway_handshake_aborted() */
inline abort_channel()
{
	park = true;
	LOCK(rx_lock);
	LOCK(link_lock);
	had = half;
	UNLOCK(link_lock);
	if
	:: had ->
		rx_closed = true;
		peer = false;
		LOCK(link_lock);
		conn = TCP;
		UNLOCK(link_lock)
	:: else
	fi;
	UNLOCK(rx_lock);
#ifndef FAULT_ABORT_WITHOUT_GRACE
	synchronize_rcu(a, b);
#endif
	LOCK(link_lock);
	if
	:: half ->
		used = false;
		free_half()
	:: else
	fi;
	UNLOCK(link_lock)
}

/* xway_link_down() */
active proctype ender()
{
	byte a, b;
	bool had;

	LOCK(link_lock);
	link = CLOSING;
	UNLOCK(link_lock);
#ifndef FAULT_DRAIN_WITHOUT_GRACE
	synchronize_rcu(a, b);
#endif
	if
	:: listed && linked -> park = true	/* xway_conn_drain() */
	:: else
	fi;
	if
	:: chans == 0			/* link_drained() */
	:: true ->			/* its time is over, or the peer is dead */
#ifndef FAULT_NO_ABORT
		if
		:: listed && linked -> abort_channel()
		:: else
		fi
#endif
	fi;
	LOCK(link_lock);
	link = DEAD;
	UNLOCK(link_lock);
	synchronize_rcu(a, b);		/* and no work or tasklet runs */
	LOCK(link_lock);
	assert(!used && chans == 0);
	mapped = false;
	UNLOCK(link_lock);
	over = true
}

/* A connection with a link that has ended parks, so that it waits for the next one. */
active proctype told()
{
	over && listed;
	assert(!linked || park)
}
