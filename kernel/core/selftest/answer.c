// SPDX-License-Identifier: GPL-2.0
/* Tests of the time that a peer has for an answer */
#include "core/answer.h"
#include "ends.h"

/* Let so many seconds pass. Return: whether the peer owes an answer. */
static bool pass(unsigned int seconds)
{
	bool ret = false;

	while (seconds--)
		ret = xway_answer_look(end(P));
	return ret;
}

/* A peer that has answered owes nothing, whatever it does later. */
static bool answer_in_time(void)
{
	EXPECT(!pass(1));
	say(P, XWAY_CTL_OPEN);
	EXPECT(pass(119) && given(P, XWAY_CTL_ACCEPT) && !pass(300));
	EXPECT(given(P, XWAY_CTL_CLOSE));
	say(P, XWAY_CTL_OPEN);
	EXPECT(pass(119) && given(P, XWAY_CTL_DECLINE) && !pass(300));
	/* What was owed before does not count for another one. */
	say(P, XWAY_CTL_OPEN);
	EXPECT(pass(119) && !end(P)->late);
	EXPECT(given(P, XWAY_CTL_DECLINE) && !xway_fake.lost);
	return true;
}

/* The session ends, but not as that of a liar; it is said once. */
static bool answer_late(void)
{
	say(P, XWAY_CTL_OPEN);
	EXPECT(pass(119) && !end(P)->late);
	/* A peer that does not run has time. */
	end(P)->heart.silent = 1;
	EXPECT(pass(300) && !end(P)->late);
	end(P)->heart.silent = 0;
	EXPECT(pass(1) && end(P)->late && !pass(300));
	flush_workqueue(xway_core_wq);
	EXPECT(xway_fake.lost == 1 && !end(P)->broken);
	return true;
}

/* It owes it also where nobody waits for it any more. */
static bool answer_to_tombstone(void)
{
	say(P, XWAY_CTL_OPEN);
	destroy(P);
	EXPECT(end(P)->pub.n_chans == 1);
	EXPECT(pass(119) && !end(P)->late && pass(1) && end(P)->late);
	return true;
}

/* What the peer has said counts when it has, not when it is heard. */
static bool answer_unheard(void)
{
	say(P, XWAY_CTL_OPEN);
	EXPECT(pass(119));
	mutex_lock(&end(A)->pub.lock);
	xway_ctl_put(end(A), &(struct xway_ctl){
		.type = XWAY_CTL_DECLINE,
		.chan = fake_client.chan[P].id,
		.service = XWAY_SERVICE_TEST,
	});
	mutex_unlock(&end(A)->pub.lock);
	EXPECT(pass(1) && !end(P)->late);
	flush_workqueue(xway_core_wq);
	EXPECT(!pass(1) && !end(P)->late && fake_client.told == 1);
	return true;
}

const struct xway_test answer_tests[] = {
	{ "answer_in_time", answer_in_time, CHANNEL },
	{ "answer_late", answer_late, CHANNEL },
	{ "answer_to_tombstone", answer_to_tombstone, CHANNEL },
	{ "answer_unheard", answer_unheard, CHANNEL },
	{}
};
