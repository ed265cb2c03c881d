"""A guest with the module of the version before, and one with this, carry each other's connections."""

from collections.abc import Iterator

import pytest

from rig import build, revision
from rig.machine import Machine
from tests import traffic
from tests.traffic import Ends, linked, until
from tests.xen.test_life import TALK_MOST, enough, talk

MIB = 1 << 20
# The last commit with one module, version 0.1.0: what was in use before there were services.
BEFORE = "4389af3974f2ddff23b567f5aafed30781d93b68"

pytestmark = [pytest.mark.rig(host="12", type="pv", kernel="6.12")]  # that version builds there


@pytest.fixture
def mixed(machine: Machine, ends: Ends) -> Iterator[Ends]:
    """Have the version before in g1, which listens."""
    old, kept = ends.passive, "/tmp/this-version"
    config = machine.config
    revision.put(old, build.products(config.debian, config.kernel), kept)
    revision.put(old, revision.products(BEFORE, config.debian, config.kernel), "/tmp/before")
    revision.use(old, "/tmp/before")
    try:
        for guest in (ends.passive, ends.active):
            until(lambda guest=guest: linked(guest), f"link of {guest.name}")
        yield ends
    finally:
        revision.use(old, kept)


def test_version_before_carries(mixed: Ends) -> None:
    """Either end may be the older one; both take the ring."""
    assert mixed.passive.run("cat /sys/module/xway/version").stdout.strip() == "0.1.0"
    assert mixed.active.run("cat /sys/module/xway_core/version").stdout.strip() != "0.1.0"
    for passive, active in ((mixed.passive, mixed.active), (mixed.active, mixed.passive)):
        ends = Ends(passive, active, passive.ip4)
        with traffic.measured(ends) as moved:
            ends.stream(size=8 * MIB, conns=4, at_once=2, settle=60000)
        assert moved.ring_share() > 0.9, moved.seen()


def test_upgrade_under_traffic(mixed: Ends) -> None:
    """The newer end is unloaded and loaded in mid-stream; no connection ends, and new ones are carried."""
    server = mixed.active.start(
        "set -e; for i in $(seq 6); do sleep 1; xway off --wait 240; modprobe -r xway; modprobe xway; done"
    )
    before = traffic.counters(mixed.passive)
    try:
        for _ in range(6):
            mixed.stream(size=4 * MIB, conns=4, at_once=2, pause=2)
        assert server.wait(timeout=240).status == 0, server.stderr()
    finally:
        server.kill()
    moved = traffic.moved(before, traffic.counters(mixed.passive))
    print({name: n for name, n in moved.items() if n})
    assert moved["switched_to_ring"] and moved["switched_to_tcp"], moved
    for guest in (mixed.passive, mixed.active):
        until(lambda guest=guest: linked(guest), f"link of {guest.name}")
    with traffic.measured(mixed) as now:
        mixed.stream(size=4 * MIB, settle=60000)
    assert now.ring_share() > 0.9, now.seen()


def test_older_end_is_upgraded(mixed: Ends) -> None:
    """An open connection gets rings again when the end that had the version before has this one.

    That version counts an odd number of a ring's bytes as it is, and this one does not: xway_conn_counted().
    Then the ends do not agree on the connection's numbers.
    """
    a, b = talk(mixed, TALK_MOST, unit=2)
    revision.use(mixed.passive, "/tmp/this-version")
    until(lambda: traffic.by_rings(mixed.passive, mixed.active), "the connection on the ring")
    enough(mixed, a, b)
