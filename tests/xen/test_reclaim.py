"""Reclaim: pages that connections need no more go back to the kernel, at both ends of a link."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rig.guest import Guest
from tests import traffic
from tests.traffic import Ends
from tests.xen.test_life import TALK_MOST, enough, talk

TALKERS = 20
BURST = 700  # pages of their rings, at least
LEFT = 3 + 257 + 32  # pages beyond those in use that an arena may keep, see kernel/core/reclaim.c

# Opens connections that each get a ring, waits for a file, and uses each once more until it has one again.
TALKER = (
    traffic.RINGS
    + """
import os, socket, sys, time
def echo(sock):
    text = os.urandom(3000)
    sock.sendall(text)
    assert sock.recv(len(text), socket.MSG_WAITALL) == text
def use(socks):
    end = time.monotonic() + 60
    while rings() < len(socks):
        assert time.monotonic() < end, rings()
        for sock in socks:
            echo(sock)
        time.sleep(0.1)
socks = [socket.create_connection((sys.argv[1], 7001)) for _ in range(int(sys.argv[2]))]
use(socks)
open("/tmp/ready", "w")
while not os.path.exists("/tmp/again"):
    time.sleep(0.1)
use(socks)
"""
)

pytestmark = pytest.mark.rig(type="pv", kernel="6.12")


def link(guest: Guest) -> dict[str, int]:
    """Return what a guest says of its link."""
    found = [peer for peer in traffic.xway(guest, "peer") if peer["peer"].startswith("xen:")]
    assert len(found) == 1
    return {name: found[0][name] for name in ("pages", "pages_used", "pages_mapped", "channels")}


def reclaimed(guest: Guest) -> bool:
    """Return whether its arena has no more than what is in use, and a little."""
    seen = link(guest)
    return seen["pages"] <= seen["pages_used"] + LEFT


@contextmanager
def talkers(ends: Ends) -> Iterator[None]:
    """Keep connections that each got a ring; at the end each is used until it has one again."""
    guest = ends.active
    guest.run("rm -f /tmp/ready /tmp/again")
    guest.write("/tmp/talker.py", TALKER)
    with traffic.echoing(ends.passive, 7001):
        client = guest.start(f"exec python3 /tmp/talker.py {ends.address} {TALKERS}")
        try:
            guest.run("until [ -e /tmp/ready ]; do sleep 0.1; done", timeout=120)
            yield
            guest.run("touch /tmp/again")
            done = client.wait(120)
            assert done.status == 0, done.stderr
        finally:
            client.kill()


def test_pages_of_a_burst_go_back_while_a_connection_lives(ends: Ends) -> None:
    guests = (ends.passive, ends.active)
    with traffic.measured(ends) as moved:
        a, b = talk(ends, TALK_MOST)
        with talkers(ends):
            full = [link(guest) for guest in guests]
        assert all(seen["pages"] > BURST and seen["pages_mapped"] > BURST for seen in full), full
        for guest in guests:
            traffic.until(lambda guest=guest: reclaimed(guest), f"{guest.name} reclaims", 60)
        small = [link(guest) for guest in guests]
        assert all(seen["channels"] for seen in small), "the connection that lives has a ring"
        # Header, directories and what its peer kept are all that stays mapped.
        for seen, other in zip(small, reversed(small), strict=True):
            assert seen["pages_mapped"] <= other["pages"] + 16, small
        # The numbers of those pages are given to others.
        with talkers(ends):
            again = [link(guest) for guest in guests]
        assert all(seen["pages"] > BURST for seen in again), again
        enough(ends, a, b)
    assert moved.ring_share() > 0.9, moved.seen()


def test_idle_rings_go_back_when_memory_is_short(ends: Ends) -> None:
    """What reclaim asks for is given, by connections that are idle; they live on, and get rings again."""
    guest = ends.active
    with traffic.measured(ends) as moved, talkers(ends):
        full = link(guest)
        assert full["channels"] == TALKERS and full["pages_used"] > BURST, full

        def given() -> bool:
            guest.run("echo 2 >/proc/sys/vm/drop_caches")  # asks every shrinker for all it has
            seen = link(guest)
            return not seen["channels"] and seen["pages"] <= LEFT - 257

        traffic.until(given, "the pages of idle connections go back", 120)
        small = link(guest)
    print(full, small)
    assert moved.active["reason:idle"] == TALKERS, moved.seen()
    assert moved.active["channels"] == 2 * TALKERS, moved.seen()
