"""A domain whose own module is not loaded does what it can to a peer's."""

import pytest

from rig.machine import Machine
from tests import traffic
from tests.traffic import Ends, linked, until

MIB = 1 << 20
LIVES = 20

pytestmark = [
    pytest.mark.rig(type="pv", kernel="6.12", deep=True),
    pytest.mark.rig(type="pv", kernel="6.1", vcpus=2),  # where what ends a link meets what an event began
]

# Joins whatever event channel the other domain offers, and signals without end.
RING = """
import fcntl, os, struct, sys
BIND, NOTIFY = ((size << 16) | (ord("E") << 8) | number for size, number in ((8, 1), (4, 4)))
peer, joined = int(sys.argv[1]), []
device = os.open("/dev/xen/evtchn", os.O_RDWR)
while True:
    for port in range(1, 64):
        try:
            joined.append(fcntl.ioctl(device, BIND, bytearray(struct.pack("II", peer, port))))
            print("joined", port, flush=True)
        except OSError:
            pass
        for own in joined[-4:]:
            fcntl.ioctl(device, NOTIFY, struct.pack("I", own))
"""


def test_rings_before_it_offers(machine: Machine, ends: Ends) -> None:
    """Links begin and end while the peer rings and shows nothing: events then find nothing to look at."""
    ids = {guest: int(machine.dom0.run(["xl", "domid", guest.name]).stdout) for guest in machine.guests}
    victim, peer = sorted(ids, key=lambda guest: ids[guest])[:2]  # who has the lower makes the event channel
    traffic.unload(peer)
    peer.run("modprobe xen_evtchn")
    peer.write("/tmp/ring.py", RING)
    ringer = peer.start(f"exec python3 /tmp/ring.py {ids[victim]}")
    try:
        for number in range(LIVES):
            # Signals that find nothing are let through less and less often.
            victim.run(f"xway off; modprobe -r xway; modprobe xway; sleep 0.{number % 10}")
    finally:
        ringer.kill()
    assert ringer.stdout().count("joined") > LIVES / 2, ringer.stdout() + ringer.stderr()
    for guest in (victim, peer):
        guest.run("modprobe xway; xway on")
    until(lambda: linked(victim) and linked(peer), "the link")
    with traffic.measured(ends) as now:
        ends.stream(size=4 * MIB, settle=60000)
    assert now.ring_share() > 0.9, now.seen()
