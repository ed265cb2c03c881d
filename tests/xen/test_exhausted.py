"""A guest whose grants, event channels, map-track entries, nodes or watches run out, and are free again.

What has no room stays on TCP, says why, and gets its ring or its link later by itself.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest

from rig.guest import Background, Guest
from rig.machine import Machine
from tests import traffic
from tests.traffic import Ends, linked, until

pytestmark = pytest.mark.rig(type="pv", kernel="6.12", deep=True)

PORT = 7000
# More than XWAY and the devices need, and soon used up; frames of 512 grants and of 256 map-track entries
LIMITS = "max_grant_frames = 4\nmax_maptrack_frames = 1\n"

# Takes all that there is of something, says so, and keeps it until it is killed.
HOG = """
import fcntl, os, signal, struct, sys
def call(kind, number, size):
    return (size << 16) | (ord(kind) << 8) | number
def grants():
    device = os.open("/dev/xen/gntalloc", os.O_RDWR)
    while True:
        fcntl.ioctl(device, call("G", 5, 24), bytearray(struct.pack("HHIQII", 0, 0, 1, 0, 0, 0)))
        yield
def events():
    device = os.open("/dev/xen/evtchn", os.O_RDWR)
    while True:
        fcntl.ioctl(device, call("E", 2, 4), bytearray(4))
        yield
def nodes():
    store = os.open("/dev/xen/xenbus", os.O_RDWR)
    def ask(kind, payload):
        os.write(store, struct.pack("IIII", kind, 0, 0, len(payload)) + payload)
        kind, _, _, length = struct.unpack("IIII", os.read(store, 16))
        text = os.read(store, length)
        if kind == 16:
            raise OSError(text)
    at = 0
    while True:
        ask(11, b"data/hog/%d/%d\\0full" % divmod(at, 100))  # a node's list of children has a limit, too
        at += 1
        yield
def watches():
    store = os.open("/dev/xen/xenbus", os.O_RDWR)
    for at in range(100_000):
        payload = b"data\\0%d\\0" % at
        os.write(store, struct.pack("IIII", 4, 0, 0, len(payload)) + payload)
        kind = 15  # an event of one of them
        while kind == 15:
            kind, _, _, length = struct.unpack("IIII", os.read(store, 16))
            text = os.read(store, length)
        if kind == 16:
            raise OSError(text)
        yield
taken = 0
try:
    for _ in globals()[sys.argv[1]]():
        taken += 1
except OSError as error:
    print("full", taken, error, flush=True)
signal.pause()
"""

# Uses so many connections, says how many have no ring, and keeps as many as it is told until all have one.
CLIENT = (
    traffic.RINGS
    + """
import os, random, socket, sys, time
host, port, count = sys.argv[1], *map(int, sys.argv[2:])
def echo(sock, times):
    for _ in range(times):
        text = os.urandom(random.randrange(1, 3000))
        sock.sendall(text)
        assert sock.recv(len(text), socket.MSG_WAITALL) == text
socks = [socket.create_connection((host, port)) for _ in range(count)]
for _ in range(5):
    for sock in socks:
        echo(sock, 4)
    time.sleep(0.2)
print("without", count - rings(), flush=True)
keep = int(sys.stdin.readline())
for sock in socks[keep:]:
    sock.close()
end = time.monotonic() + 240
while rings() < keep:
    assert time.monotonic() < end, rings()
    for sock in socks[:keep]:
        echo(sock, 1)
    time.sleep(0.1)
"""
)


@contextmanager
def full(guest: Guest, what: str) -> Iterator[None]:
    """Have nothing left of something in a guest."""
    guest.run("modprobe -a xen_gntalloc xen_evtchn; echo 100000 >/sys/module/xen_gntalloc/parameters/limit")
    guest.write("/tmp/hog.py", HOG)
    hog = guest.start(f"exec python3 /tmp/hog.py {what}")
    try:

        def said() -> bool:
            assert hog.poll() is None, hog.stderr()
            return "full" in hog.stdout()

        until(said, f"no {what} left")
        print(hog.stdout())
        yield
    finally:
        hog.kill()
        guest.run("xenstore-rm data/hog", check=False)


@pytest.fixture
def tight(machine: Machine) -> Iterator[Guest]:
    """g1 with LIMITS."""
    machine.destroy_guest("g1")
    machine.start_guest("g1", LIMITS)
    yield machine.guest("g1")
    machine.destroy_guest("g1")
    machine.start_guest("g1")


def test_links_come_when_there_is_room(tight: Guest, ends: Ends) -> None:
    """Without room for a link connections go by TCP, and the kernel log names the error; then it comes up."""
    for what in ("grants", "events", "nodes", "watches"):
        said = "cannot watch XenStore" if what == "watches" else "no link: -ENOSPC"
        traffic.unload(tight)
        with full(tight, what):
            tight.run("dmesg -C; modprobe xway")
            until(lambda said=said: said in tight.run("dmesg").stdout, "what is the matter")
            assert not linked(tight)
            before = traffic.counters(tight)
            ends.stream(size=1 << 20, conns=2)
            now = traffic.moved(before, traffic.counters(tight))
            assert now["tx_ring_bytes"] == now["rx_ring_bytes"] == 0, now
        until(lambda: linked(tight) and linked(ends.active), "the link")
        with traffic.measured(ends) as moved:
            ends.stream(size=4 << 20, settle=60000)
        assert moved.ring_share() > 0.9, moved.seen()


def test_rings_come_when_there_is_room(tight: Guest, ends: Ends) -> None:
    """Connections without room for a ring go on by TCP, say why, and have rings once there is room."""
    ends.active.write("/tmp/scarce.py", CLIENT)
    ends.active.run("rm -f /tmp/go; mkfifo /tmp/go")
    guests = (tight, ends.active)
    # The map-track entries, 256, are few from the beginning; the other connections have them. 120 rings of
    # four pages have grant entries enough.
    for what, count, keep in (("grants", 40, 40), ("maps", 120, 1)):
        before = [traffic.counters(guest) for guest in guests]

        def why(before: list[dict[str, int]] = before) -> list[dict[str, int]]:
            return [traffic.since(was, guest) for was, guest in zip(before, guests, strict=True)]

        with traffic.echoing(tight, PORT):
            with full(tight, what) if what == "grants" else nullcontext():
                client = ends.active.start(
                    f"exec python3 /tmp/scarce.py {tight.ip4} {PORT} {count} <>/tmp/go"
                )

                def told(client: Background = client) -> bool:
                    assert client.poll() is None, client.stderr()
                    return "without" in client.stdout()

                until(told, "connections")
                print(what, client.stdout(), why())
                assert int(client.stdout().split()[1]) > 0
                assert any(one.get("page-limit") for one in why()), why()
            ends.active.run(f"echo {keep} >/tmp/go")
            done = client.wait(600)
            assert done.status == 0, done.stderr
        for guest, was in zip(guests, before, strict=True):
            traffic.settled(guest)
            now = traffic.moved(was, traffic.counters(guest))
            assert not now["violations"] and now["attached"] == count, now
