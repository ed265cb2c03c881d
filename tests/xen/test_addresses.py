"""Which connections an address makes a peer's: it may move, and other networks may have it, too."""

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
    own = f"/local/domain/{domid(dom0, g1)}/xway/self"
    theirs = f"/local/domain/{domid(dom0, g2)}/xway/peer"
    node = f"{theirs}/{domid(dom0, g1)}"
    was = {path: dom0.run(["xenstore-read", path]).stdout.strip() for path in (own, node)}

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


ECHOES = """
import socket, sys
end = socket.create_connection((sys.argv[1], int(sys.argv[2])))
for _ in range(50):
    end.sendall(b"x" * 1000)
    assert len(end.recv(1000, socket.MSG_WAITALL)) == 1000
"""
PORT = 6200


@pytest.fixture
def box(ends: Ends) -> Iterator[str]:
    """A container in g1, behind g1's address; how to run a command there."""
    g1 = ends.passive
    rules = "chain out { type nat hook postrouting priority 100; ip saddr 172.31.0.2 masquerade; };"
    rules += "chain in { type nat hook prerouting priority -100;"
    rules += f" ip daddr {g1.ip4} tcp dport {PORT} dnat to 172.31.0.2; }};"
    commands = [
        "sysctl -qw net.ipv4.ip_forward=1",
        "ip netns add box",
        "ip link add box type veth peer name v netns box",
        "ip addr add 172.31.0.1/24 dev box",
        "ip link set box up",
        "ip -n box addr add 172.31.0.2/24 dev v",
        "ip -n box link set lo up",
        "ip -n box link set v up",
        "ip -n box route add default via 172.31.0.1",
        "nft -f -",
    ]
    g1.run(" && ".join(commands), stdin=f"table ip box {{ {rules} }}\n".encode())
    yield "ip netns exec box "
    g1.run("ip link del box; ip netns del box; nft delete table ip box", check=False)


def test_containers_behind_a_translation_are_left_alone(ends: Ends, box: str) -> None:
    """The peer would learn of addresses that domain 0 has not told it, and no ring would come of it."""
    g1, g2 = ends.passive, ends.active
    inner = f"{box}python3 -c '{ECHOES}'"
    before, there = traffic.counters(g1), traffic.counters(g2)
    with traffic.echoing(g2, PORT):
        g1.run(f"{inner} {g2.ip4} {PORT}")
    server = g1.start(f"exec {box}python3 -c '{traffic.ECHO}' {PORT}")
    try:
        g1.run(f"until {box}ss -Hltn sport = :{PORT} | grep -q .; do sleep 0.1; done")
        g2.run(f"python3 -c '{ECHOES}' {g1.ip4} {PORT}")
    finally:
        server.kill()
    now, far = traffic.moved(before, traffic.counters(g1)), traffic.moved(there, traffic.counters(g2))
    assert now["attached"] == 0 and now["reason:not-own-address"] == 2, now
    assert far["channels"] == 0 and far["violations"] == 0, far


def test_a_network_with_the_same_addresses_is_left_alone(ends: Ends, box: str) -> None:
    """Both ends of a connection in a container have the guests' addresses, and are neither."""
    g1, g2 = ends.passive, ends.active
    g1.run(f"ip -n box addr add {g1.ip4}/32 dev lo; ip -n box addr add {g2.ip4}/32 dev lo")
    before = traffic.counters(g1)
    server = g1.start(f"exec {box}python3 -c '{traffic.ECHO}' {PORT}")
    try:
        g1.run(f"until {box}ss -Hltn sport = :{PORT} | grep -q .; do sleep 0.1; done")
        bound = ECHOES.replace("int(sys.argv[2]))", f'int(sys.argv[2])), source_address=("{g1.ip4}", 0)')
        g1.run(["ip", "netns", "exec", "box", "python3", "-c", bound, g2.ip4, str(PORT)])
    finally:
        server.kill()
    now = traffic.moved(before, traffic.counters(g1))
    assert now["attached"] == 0 and now["reason:not-own-address"] == 1, now


THIEF = """
ip netns add thief && ip link add thief type veth peer name v netns thief
ip link set thief master xenbr0 up
ip -n thief addr add {address}/24 dev v && ip -n thief link set v up
ip netns exec thief cat /sys/class/net/v/address
"""


def test_who_takes_a_peers_address_gets_no_ring(machine: Machine, ends: Ends) -> None:
    """Something on the bridge has g1's address, and g2 believes it: it can connect, and does no harm."""
    dom0, g1, g2 = machine.dom0, ends.passive, ends.active
    before = [traffic.counters(guest) for guest in (g1, g2)]
    entry = f"{g1.ip4} dev {device(g2)}"
    with traffic.echoing(g2, PORT):
        address = dom0.run(THIEF.format(address=g1.ip4)).stdout.strip()
        try:
            g2.run(f"ip neigh replace {entry} lladdr {address} nud permanent")
            dom0.run(f"ip netns exec thief python3 -c '{ECHOES}' {g2.ip4} {PORT}")
        finally:
            g2.run(f"ip neigh del {entry}", check=False)
            dom0.run("ip netns del thief")
    near, far = [
        traffic.moved(was, traffic.counters(guest)) for was, guest in zip(before, (g1, g2), strict=True)
    ]
    assert far["attached"] == 1, far
    assert not any(one["channels"] or one["violations"] or one["links_down"] for one in (near, far)), (
        near,
        far,
    )
    with traffic.measured(ends) as now:
        ends.stream(size=4 << 20, settle=60000)
    assert now.ring_share() > 0.9, now.seen()
