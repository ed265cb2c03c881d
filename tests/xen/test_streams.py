"""Byte streams between two domains of a real Xen, by ring, checked byte for byte."""

import os
from collections.abc import Callable

import pytest

from rig.machine import Machine
from tests import traffic
from tests.traffic import Ends, linked, until

MIB = 1 << 20
SIZE = int(os.environ.get("XWAY_TEST_MIB", "1024")) * MIB
SETTLE = 250000  # milliseconds that many connections on a slow machine may have until each has its channel

# The kinds of guests. Two vCPUs of a PVH guest would wait for each other: it is emulated on one CPU.
KINDS = [
    {"type": "pv", "kernel": "6.12"},
    {"type": "pv", "kernel": "6.1", "vcpus": 2},
    {"type": "pvh", "kernel": "6.12"},
    {"type": "pvh", "kernel": "6.1"},  # the slowest
    {"type": "pvh", "kernel": "newest"},
]


def on(always: int, deep: int = len(KINDS)) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test on the first so many kinds of guests, and on more where deep tests are asked for."""

    def marked(test: Callable[..., None]) -> Callable[..., None]:
        for number, kind in enumerate(KINDS[:deep]):
            test = pytest.mark.rig(**kind, deep=number >= always)(test)
        return test

    return marked


def choose(ends: Ends, family: str) -> None:
    ends.address = ends.passive.ip4 if family == "ipv4" else ends.passive.ip6


@on(3)
@pytest.mark.parametrize(
    ("family", "size"),
    [
        ("ipv4", SIZE // 4),
        ("ipv6", SIZE // 8),
        pytest.param("ipv4", SIZE, marks=pytest.mark.deep),
    ],
)
def test_both_directions_at_once(ends: Ends, machine: Machine, family: str, size: int) -> None:
    """One connection, sizes from 1 byte to 1 MiB; the switch falls where it falls."""
    choose(ends, family)
    size //= 1 if machine.config.type == "pv" else 4
    with traffic.measured(ends) as moved:
        ends.stream(size=size, seed=os.getpid(), timeout=900 + size / MIB)
    for end in (moved.active, moved.passive):
        assert end["tx_ring_bytes"] + end["tx_tcp_bytes"] >= size
    assert moved.ring_share() > 0.9, moved.seen()
    # Where other programs hold up a reader for more than a second it counts as stalled, and comes back.
    stalled = sum(end["reason:stalled"] for end in (moved.active, moved.passive))
    for end in (moved.active, moved.passive):
        assert 1 <= end["switched_to_ring"] <= 1 + stalled, moved.seen()


@on(1)
@pytest.mark.parametrize(
    ("passive", "active", "family"),
    [("poll", "epoll", "ipv4"), ("epoll", "block", "ipv6"), ("block", "poll", "ipv4")],
)
def test_event_loops(ends: Ends, passive: str, active: str, family: str) -> None:
    choose(ends, family)
    with traffic.measured(ends) as moved:
        ends.stream(passive=passive, active=active, size=2 * MIB, conns=8, at_once=4, pause=2, settle=60000)
    assert moved.ring_share() > 0.9, moved.seen()


@pytest.mark.rig(type="pv", kernel="newest")
def test_newest_kernel(ends: Ends) -> None:
    with traffic.measured(ends) as moved:
        ends.stream(passive="poll", active="epoll", size=2 * MIB, conns=8, at_once=4, pause=2, settle=60000)
    assert moved.ring_share() > 0.9, moved.seen()
    ends.active.run("xway off --wait 10; modprobe -r xway; modprobe xway")


@on(1, 3)
def test_one_after_another_and_at_once(ends: Ends, machine: Machine) -> None:
    # On one emulated CPU two PVH guests need a fifth of a second for a connection and its channel.
    after, at_once = (300, 200) if machine.config.type == "pv" else (100, 100)
    with traffic.measured(ends) as moved:
        ends.stream(size=30000, conns=after, at_once=1, max=4000, settle=SETTLE)
        ends.stream(
            passive="poll",
            active="epoll",
            size=30000,
            conns=at_once,
            at_once=at_once,
            max=4000,
            settle=SETTLE,
        )
    assert moved.active["channels"] == moved.passive["channels"] == after + at_once, moved.seen()


@on(2, 3)
def test_off_and_on_in_mid_stream(ends: Ends, machine: Machine) -> None:
    # Most of it goes by TCP, which takes two emulated PVH guests minutes on a slow machine.
    size = (16 if machine.config.type == "pv" else 8) * MIB
    with traffic.measured(ends):
        traffic.toggling(
            ends,
            ends.active,
            passive="epoll",
            active="block",
            size=size,
            conns=8,
            at_once=4,
            pause=5,
        )


def unloads_and_comes_back(ends: Ends) -> None:
    """After connections close nothing is left; the link ends and begins again."""
    with traffic.measured(ends):
        ends.stream(size=MIB, conns=4, at_once=4)
    ends.active.run("xway off --wait 10; modprobe -r xway")
    assert not ends.active.run("grep ^xway /proc/modules", check=False).stdout
    until(lambda: not linked(ends.passive), "the link gone")
    ends.stream(size=MIB, conns=2)  # by TCP
    ends.active.run("modprobe xway")
    until(lambda: linked(ends.active) and linked(ends.passive), "the link again")
    with traffic.measured(ends) as moved:
        ends.stream(size=4 * MIB, settle=60000)
    assert moved.ring_share() > 0.9, moved.seen()


@on(3)
def test_module_unloads_and_comes_back(ends: Ends) -> None:
    unloads_and_comes_back(ends)


# Believes FIONREAD, as libnfs, Qt and Tcl do: what poll() says is there it counts, and takes by one call.
BELIEVER = """
import fcntl, os, random, select, socket, struct, sys, termios, time
role, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
stream = random.Random(4711).randbytes(65521) * 4
if role == "write":
    sock, at = socket.create_connection((host, port)), 0
    while not os.path.exists("/tmp/believed.enough"):
        size = random.choice((1, 100, 3000, 100000))
        sock.sendall(stream[at % 65521 : at % 65521 + size])
        at += size
        time.sleep(random.choice((0, 0, 0.01)))
    sock.shutdown(socket.SHUT_WR)
    assert sock.recv(1) == b""
    print(at)
    sys.exit()
listener = socket.create_server((host, port))
print("ready", flush=True)
sock, at = listener.accept()[0], 0
poll = select.poll()
poll.register(sock, select.POLLIN)
while True:
    assert poll.poll(60000), at
    count = struct.unpack("i", fcntl.ioctl(sock, termios.FIONREAD, bytes(4)))[0]
    part = sock.recv(count or 1)
    assert len(part) == count, (at, count, len(part))
    if not count:
        break
    assert part == (stream * (1 + count // 196563))[at % 65521 :][:count], at
    at += count
print(at)
"""


@on(1)
def test_what_is_counted_comes_by_one_call(ends: Ends) -> None:
    """From the first byte on, and at each switch between TCP and ring."""
    guests = (ends.active, ends.passive)
    for guest in guests:
        guest.write("/tmp/believer.py", BELIEVER)
        guest.run("rm -f /tmp/believed.enough")
    command = f"{ends.address} 7500"
    with traffic.measured(ends) as moved:
        reader = ends.passive.start(f"exec python3 /tmp/believer.py read {command}")
        until(lambda: "ready" in reader.stdout(), "a reader")
        writer = ends.active.start(f"exec python3 /tmp/believer.py write {command}")
        for guest in (*guests, None):
            was = traffic.counters(ends.active)
            until(
                lambda was=was: (
                    reader.poll() is not None
                    or traffic.moved(was, traffic.counters(ends.active))["tx_ring_bytes"] > MIB
                ),
                "bytes by ring",
            )
            assert reader.poll() is None, reader.stderr()
            if guest:
                guest.run("xway off --wait 60; xway on")
        ends.active.run("touch /tmp/believed.enough")
        done = [program.wait(60) for program in (writer, reader)]
    assert all(one.status == 0 for one in done), done
    assert done[0].stdout.split()[-1] == done[1].stdout.split()[-1], done
    assert moved.active["switched_to_ring"] >= 3 <= moved.active["switched_to_tcp"] + 1, moved.seen()
