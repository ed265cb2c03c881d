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
