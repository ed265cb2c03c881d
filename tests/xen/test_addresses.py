"""Which connections an address makes a peer's: it may move."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rig.guest import Guest
from rig.machine import Machine
from tests import traffic
from tests.traffic import Ends, until
from tests.xen.test_life import same, talk

pytestmark = pytest.mark.rig(type="pv", kernel="6.12")

FLOATING = "10.77.0.99"
NOBODY = 99  # a domain that does not exist
UUID = "99999999-0000-4000-8000-000000000099"


def domid(dom0: Guest, guest: Guest) -> int:
    return int(dom0.run(["xl", "domid", guest.name]).stdout)


def device(guest: Guest) -> str:
    """Return the device that has the guest's address."""
    return guest.run(f"ip -o -4 addr show to {guest.ip4} | awk '{{print $2}}'").stdout.strip()


@contextmanager
def paused_xwayd(dom0: Guest) -> Iterator[None]:
    """Write in its stead meanwhile."""
    dom0.run("pkill -STOP -x xwayd")
    try:
        yield
    finally:
        dom0.run("pkill -CONT -x xwayd")


def test_an_address_moves_to_another_domain(machine: Machine, ends: Ends) -> None:
    """Its connections leave the ring, and it is not lost though it is in both domains' nodes for a moment."""
    dom0, g1, g2 = machine.dom0, ends.passive, ends.active
    theirs = f"/local/domain/{domid(dom0, g2)}/xway/peer"
    node = f"{theirs}/{domid(dom0, g1)}"
    was = {path: dom0.run(["xenstore-read", path]).stdout.strip() for path in (node,)}

    def has(peer: int) -> bool:
        told = {one["peer"]: one["addresses"] for one in traffic.xway(g2, "peer")}
        return any(FLOATING in str(address) for address in told.get(f"xen:{peer}", []))

    g1.run(f"ip addr add {FLOATING}/24 dev {device(g1)}")
    with paused_xwayd(dom0):
        try:
            for path, value in was.items():
                dom0.run(["xenstore-write", path, f"{value} {FLOATING}"])
            until(lambda: has(domid(dom0, g1)), "the address in g2's table")
            before = traffic.counters(g2)
            a, b = talk(Ends(g1, g2, FLOATING), 60)
            dom0.run(["xenstore-write", f"{theirs}/{NOBODY}", f"{UUID} {FLOATING}"])
            until(lambda: f"xen:{NOBODY}" in str(traffic.xway(g2, "peer")), "the other peer")
            assert not has(NOBODY) and has(domid(dom0, g1))
            dom0.run(["xenstore-write", node, was[node]])
            until(lambda: has(NOBODY), "the address, as the other peer's")
            same(a, b)
            assert traffic.since(before, g2).get("address-moved") == 1, traffic.since(before, g2)
        finally:
            dom0.run(["xenstore-rm", f"{theirs}/{NOBODY}"], check=False)
            for path, value in was.items():
                dom0.run(["xenstore-write", path, value])
            g1.run(f"ip addr del {FLOATING}/24 dev {device(g1)}")
    until(lambda: f"xen:{NOBODY}" not in str(traffic.xway(g2, "peer")), "the other peer gone")
