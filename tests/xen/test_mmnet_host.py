"""MMNet between guests and domain 0, in the shade of the back ends of their vifs."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rig import build
from rig.guest import Guest
from rig.machine import Machine
from tests import traffic
from tests.mmnet import (
    MIB,
    PACKETS,
    PORT,
    allow,
    allowed,
    endless,
    exchange,
    forge,
    hearing,
    loaded,
    net,
    own,
    statistics,
)
from tests.traffic import until

BRIDGE = "xenbr0"

pytestmark = [
    pytest.mark.rig(type="pv", kernel="6.12"),
    pytest.mark.rig(type="pvh", kernel="6.12", deep=True),
]


def device(dom0: Guest, guest: Guest) -> str:
    """Return domain 0's device to a guest, or "" if no packets of the guest's vif go by it."""
    vif = f"vif{dom0.run(['xl', 'domid', guest.name]).stdout.strip()}.0"
    found = [one["device"] for one in net(dom0) if one["vifs"] == vif and one["state"] == "up"]
    return str(found[0]) if found else ""


def takes(dom0: Guest, guest: Guest) -> bool:
    """Return whether packets between domain 0 and a guest go by shared memory."""
    here = [one["vifs"] for one in net(guest) if one["peer"] == "xen:0" and one["state"] == "up"]
    return here == ["eth0"] and bool(device(dom0, guest))


def outside(*guests: Guest) -> str:
    """Return the policy by which each of these may have domain 0 as a peer."""
    return "\n".join(f"group {guest.name} services=net Domain-0 {guest.name}" for guest in guests)


@contextmanager
def shaded(machine: Machine, *guests: Guest) -> Iterator[None]:
    """Have packets between domain 0 and guests go by shared memory, by default all of them."""
    dom0, guests = machine.dom0, guests or tuple(machine.guests)
    assert machine.products
    with allowed(dom0, outside(*guests)):
        build.load(dom0, machine.products)
        try:
            with loaded(dom0, *guests):
                for guest in guests:
                    until(lambda guest=guest: takes(dom0, guest), f"domain 0's device to {guest.name}")
                yield
        finally:
            dom0.run("modprobe -r xway xway_core")


def test_domain_0(machine: Machine) -> None:
    """What domain 0 and a guest exchange, and two guests by the bridge, goes by shared memory."""
    dom0, (g1, g2) = machine.dom0, machine.guests
    with shaded(machine):
        for active, passive, address in ((dom0, g1, g1.ip4), (g1, dom0, dom0.ip6), (g1, g2, g2.ip4)):
            used = [one for one in (active, passive) if one is not dom0]
            before = [(statistics(one, "mm0"), statistics(one, "eth0")) for one in used]
            exchange(active, passive, address)
            for guest, (mm_before, eth_before) in zip(used, before, strict=True):
                mm = traffic.moved(mm_before, statistics(guest, "mm0"))
                eth = traffic.moved(eth_before, statistics(guest, "eth0"))
                print(active.name, passive.name, guest.name, {name: n for name, n in mm.items() if n})
                for way in ("tx", "rx"):
                    assert mm[f"{way}_bytes"] > 4 * MIB, mm
                    assert not mm[f"{way}_errors"] + mm[f"{way}_dropped"], mm
                    # The vif counts all; what it counts beyond mm0 has gone by netfront. Either may
                    # have a packet that came between the readings.
                    assert abs(eth[f"{way}_bytes"] - mm[f"{way}_bytes"]) < MIB / 4, (eth, mm)
        for guest in (g1, g2):
            counted = own(dom0, device(dom0, guest))
            assert not counted["violations"] + counted["rx_bad_header"], counted


def test_forged(machine: Machine) -> None:
    """What has a source that is not the guest's own address, or a tag, does not come onto the bridge."""
    dom0, g1 = machine.dom0, machine.guest("g1")
    source = g1.read("/sys/class/net/eth0/address").strip()
    to = dom0.read(f"/sys/class/net/{BRIDGE}/address").strip()
    other = machine.guest("g2").read("/sys/class/net/eth0/address").strip()
    with shaded(machine), hearing(dom0, BRIDGE) as heard:
        forge(
            g1,
            (
                (to, "00:16:3e:12:34:56", ""),
                (to, other, ""),
                (to, source, "81000005"),
                ("ff:ff:ff:ff:ff:ff", source, ""),
                (to, source, ""),
            ),
        )
        until(lambda: source in heard(), "the frame of the true source")
        assert heard() == [source]


IDLE = 1536  # KiB that a peer may cost


def available(domain: Guest) -> int:
    """Return the KiB of memory that programs can have."""
    text = domain.run("sync; echo 3 >/proc/sys/vm/drop_caches; grep MemAvailable /proc/meminfo").stdout
    return int(text.split()[1])


def test_idle_peer_takes_little(machine: Machine) -> None:
    """What a guest has for its peer. Domain 0 has the same; its other programs use more or less meanwhile."""
    dom0, guests = machine.dom0, machine.guests
    assert machine.products
    with allowed(dom0, ""):
        build.load(dom0, machine.products)
        with loaded(dom0, *guests):
            for guest in guests:
                exchange(dom0, guest, guest.ip4, 1)  # what TCP itself keeps is kept already
            before = [available(one) for one in guests]
            allow(dom0, outside(*guests))
            for guest in guests:
                until(lambda guest=guest: takes(dom0, guest), f"domain 0's device to {guest.name}")
            taken = [[was - available(one) for was, one in zip(before, guests, strict=True)]]
            for guest in guests:
                exchange(dom0, guest, guest.ip4, 1)
                assert own(guest)["rx_bytes"] > MIB
            taken.append([was - available(one) for was, one in zip(before, guests, strict=True)])
        dom0.run("modprobe -r xway xway_core")
    print("KiB that guests have for their peer, before packets and after:", taken)
    # They have two rings of 512 KiB.
    assert all(400 < min(both) <= IDLE for both in zip(*taken, strict=True)), taken


FLOOD = """import socket, sys
end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end.settimeout(3)  # less than a peer's patience: nobody gives back netfront's slots for so long
for _ in range(int(sys.argv[2])):
    end.sendto(bytes(1200), (sys.argv[1], 9))
"""


def test_guest_that_stops(machine: Machine) -> None:
    """What is queued for a guest that is paused holds nothing of the guest that sent it by netfront."""
    dom0, (g1, g2) = machine.dom0, machine.guests
    with shaded(machine, g2):
        mm = device(dom0, g2)
        g1.write("/tmp/flood.py", FLOOD)
        g1.run(f"ping -c 1 {g2.ip4}")
        before = own(dom0, mm)
        with traffic.paused(dom0, "g2"):
            # More than the ring takes, and then more than netfront has slots and g1's socket has memory
            # for: at once, since after the end of patience all goes by netback, which holds it.
            g1.run(["python3", "/tmp/flood.py", g2.ip4, "950"])
            until(lambda: own(dom0, mm)["tx_stopped"] > before["tx_stopped"], "a full ring")
            # What is more than domain 0 keeps for a guest is in netback's hands.
            waiting = re.search(r"backlog \S+ (\d+)p", dom0.run(f"tc -s qdisc show dev {mm}").stdout)
            assert waiting and 200 < int(waiting[1]) <= 257, waiting
            assert "3 received" in g1.run(f"ping -c 3 -i 0.2 -W 5 {dom0.ip4}").stdout
            until(lambda: own(dom0, mm)["tx_stalled"] > before["tx_stalled"], "the end of patience", 60)
        exchange(dom0, g2, g2.ip4, 1)
        until(lambda: takes(dom0, g2), "domain 0's device")
        moved = own(dom0, mm)["tx_bytes"]
        exchange(dom0, g2, g2.ip4, 1)
        assert own(dom0, mm)["tx_bytes"] - moved > MIB


def test_domain_0_comes_and_goes(machine: Machine) -> None:
    """A stream of domain 0's outlives the end of its module, a change of policy, save and restore."""
    dom0, g1 = machine.dom0, machine.guest("g1")

    def shared() -> int:
        return statistics(g1, "mm0")["rx_bytes"]

    def all_of_it() -> int:
        return statistics(g1, "eth0")["rx_bytes"]

    with shaded(machine), endless(dom0, g1, g1.ip4) as goes_on:
        goes_on(shared)
        dom0.run("modprobe -r mmnet")
        goes_on(all_of_it)
        dom0.run("modprobe mmnet")
        until(lambda: takes(dom0, g1), "domain 0's device")
        goes_on(shared)
        allow(dom0, "")
        until(lambda: not net(dom0), "the end of the devices")
        goes_on(all_of_it)
        allow(dom0, outside(g1))
        until(lambda: takes(dom0, g1), "domain 0's device")
        goes_on(shared)
        dom0.run(traffic.saved("g1"), timeout=400)
        until(lambda: takes(dom0, g1), "domain 0's device")
        goes_on(shared)


# Somebody beyond a card of domain 0's that neither fills in checksums nor cuts what is long
WIRE = """ip netns add wire
ip link add wire0 type veth peer name wire1 netns wire
ip link set wire0 master {bridge} up
ethtool -K wire0 tx off tso off gso off >/dev/null
ip netns exec wire ip addr add {address}/24 dev wire1
ip netns exec wire ip link set wire1 up
"""


def test_wire(machine: Machine) -> None:
    """What a guest sends without checksums, and in one piece, is right on a wire behind domain 0's bridge."""
    dom0, g1 = machine.dom0, machine.guest("g1")
    address = g1.ip4.rpartition(".")[0] + ".99"
    with shaded(machine, g1):
        dom0.run(WIRE.format(bridge=BRIDGE, address=address))
        try:
            server = dom0.start(f"exec ip netns exec wire {PACKETS} serve {address} {PORT}")
            until(lambda: "ready" in server.stdout(), "a server")
            before = statistics(g1, "mm0")
            print(g1.run(f"{PACKETS} check {address} {PORT} 2", timeout=300).stdout)
            moved = traffic.moved(before, statistics(g1, "mm0"))
            assert moved["tx_bytes"] > 2 * MIB, moved
            # TCP gave it away in one piece.
            assert moved["tx_bytes"] / moved["tx_packets"] > 3000, moved
            failed = dom0.run("ip netns exec wire nstat -asz TcpInCsumErrors UdpInCsumErrors").stdout
            assert [line.split()[1] for line in failed.splitlines()[1:]] == ["0", "0"], failed
            server.kill()
        finally:
            dom0.run("ip link del wire0; ip netns del wire")
