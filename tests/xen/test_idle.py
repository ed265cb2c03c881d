"""More connections than rings fit: those in use have them."""

import json
import os
from collections.abc import Iterator

import pytest

from tests import traffic
from tests.traffic import Ends

COUNT = int(os.environ.get("XWAY_TEST_IDLE", "120"))
# Of 2000 connections some 1450 have rings in 6144 pages. The end that connects may
# have more: the other refuses what it may not keep, for the time being.
PAGES = min(6144, 3 * COUNT)
MORE = PAGES * 3 // 2
USED = 20

pytestmark = pytest.mark.rig(type="pv", kernel="6.12")

# Opens them, uses each as it is opened, and then some that have no ring for a while once more.
CLIENT = """
import json, os, random, socket, subprocess, sys, time
count, used, host = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
def echo(sock, times):
    for _ in range(times):
        text = os.urandom(random.randrange(1, 300))
        sock.sendall(text)
        assert sock.recv(len(text), socket.MSG_WAITALL) == text
def xway(what):
    return json.loads(subprocess.run(["xway", "-j", what], capture_output=True, check=True).stdout)
def ring():
    return xway("stats")["stats"]["tx_ring_bytes"]
socks = []
for _ in range(count):
    socks.append(socket.create_connection((host, 7000)))
    echo(socks[-1], 6)
time.sleep(2)
rings = {conn["local_port"] for conn in xway("conn") if conn["tx"] == "ring"}
without = [sock for sock in socks if sock.getsockname()[1] not in rings]
late = 0
for sock in random.sample(without, min(used, len(without))):
    end, start = time.monotonic() + 120, ring()
    while ring() == start:
        if time.monotonic() > end:
            late += 1
            break
        echo(sock, 4)
        time.sleep(0.05)
told = {"without": len(without), "late": late}
memory = {line.split(":")[0]: line.split()[1] for line in open("/proc/meminfo")}
slabs = [line.split() for line in open("/proc/slabinfo") if line.startswith("xway_conn ")]
print(json.dumps({**told, "available_kib": int(memory["MemAvailable"]), "slabs": slabs}))
for sock in socks:
    echo(sock, 1)
"""


@pytest.fixture
def scarce(ends: Ends) -> Iterator[Ends]:
    """Both ends with room for fewer rings than there are connections."""
    guests = (ends.passive, ends.active)

    def again(*options: str) -> None:
        for guest, option in zip(guests, options, strict=True):
            traffic.unload(guest)
            guest.run(f"modprobe xway_core {option} && modprobe xway")
        for guest in guests:
            traffic.until(lambda guest=guest: traffic.linked(guest), f"link of {guest.name}")

    again(f"peer_pages_max={PAGES}", f"peer_pages_max={MORE}")
    yield ends
    again("", "")


def test_idle_connections_give_their_rings_to_those_in_use(scarce: Ends) -> None:
    ends = scarce
    with traffic.measured(ends) as moved, traffic.echoing(ends.passive, 7000):
        ends.active.write("/tmp/idle.py", CLIENT)
        done = ends.active.run(
            f"sysctl -qw net.ipv4.ip_local_port_range='10000 65000'; ulimit -n 65536;"
            f" python3 /tmp/idle.py {COUNT} {USED} {ends.address}",
            timeout=240 + COUNT / 5,
        )
        seen = json.loads(done.stdout)
    print(seen)
    assert seen["without"] >= USED, seen
    assert seen["late"] == 0
    for end in (moved.active, moved.passive):
        # What was free for those used again had been given up before.
        assert end["reason:idle"] >= USED // 2, moved.seen()
        assert end["attached"] == COUNT
    assert moved.active["reason:page-limit"] + moved.passive["reason:page-limit"], moved.seen()
