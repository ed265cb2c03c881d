"""Pages that connections need no more go back to the kernel, at both ends of a link."""

import pytest

from rig.guest import Guest
from tests import traffic
from tests.traffic import Ends
from tests.xen.test_life import same, talk

MIB = 1 << 20
CONNECTIONS = 60
BURST = 700  # pages of their rings, at least, however many of them meet
LEFT = 3 + 257 + 32  # pages beyond those in use that an arena may keep, see kernel/xway/trim.c

pytestmark = pytest.mark.rig(type="pv", kernel="6.12")


def link(guest: Guest) -> dict[str, int]:
    """Return what a guest says of its link."""
    found = [peer for peer in traffic.xway(guest, "peer") if peer["peer"].startswith("xen:")]
    assert len(found) == 1
    return {name: found[0][name] for name in ("pages", "pages_used", "pages_mapped", "channels")}


def trimmed(guest: Guest) -> bool:
    """Return whether its arena has no more than what is in use, and a little."""
    seen = link(guest)
    return seen["pages"] <= seen["pages_used"] + LEFT


def test_pages_of_a_burst_go_back_while_a_connection_lives(ends: Ends) -> None:
    guests = (ends.passive, ends.active)
    with traffic.measured(ends) as moved:
        a, b = talk(ends, 75)
        ends.stream(size=MIB, conns=CONNECTIONS, at_once=CONNECTIONS, settle=60000)
        full = [link(guest) for guest in guests]
        assert all(seen["pages"] > BURST and seen["pages_mapped"] > BURST for seen in full), full
        for guest in guests:
            traffic.until(lambda guest=guest: trimmed(guest), f"{guest.name} trims", 60)
        small = [link(guest) for guest in guests]
        assert all(seen["channels"] for seen in small), "the connection that lives has a ring"
        # Header, directories and what its peer kept are all that stays mapped.
        for seen, other in zip(small, reversed(small), strict=True):
            assert seen["pages_mapped"] <= other["pages"] + 16, small
        # The numbers of those pages are given to others.
        ends.stream(size=MIB, conns=CONNECTIONS, at_once=CONNECTIONS, settle=60000)
        again = [link(guest) for guest in guests]
        assert all(seen["pages"] > BURST for seen in again), again
        same(a, b)
    assert moved.ring_share() > 0.9, moved.seen()
