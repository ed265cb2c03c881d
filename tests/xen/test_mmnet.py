"""MMNet between guests: what goes by its device, with the counters of both devices as proof."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rig import pace
from rig.guest import Guest
from rig.machine import Machine
from tests import traffic
from tests.traffic import Ends, linked, until

MIB = 1 << 20
PACKETS = "/tmp/packets.py"
PORT = 5000
LISTENING = f"for i in $(seq 600); do ss -Hltn sport = :{PORT} | grep -q . && exit 0; sleep 0.1; done; exit 1"
ADDRESSES = {"ipv4": ("10.9.0.1", "10.9.0.2"), "ipv6": ("fd09::1", "fd09::2")}

pytestmark = [
    pytest.mark.rig(type="pv", kernel="6.12"),
]


def statistics(guest: Guest, device: str) -> dict[str, int]:
    lines = guest.run(f"grep -H . /sys/class/net/{device}/statistics/*").stdout.splitlines()
    return {line.split(":")[0].rpartition("/")[2]: int(line.split(":")[1]) for line in lines}


def own(guest: Guest) -> dict[str, int]:
    """Return what the device itself counts."""
    lines = guest.run("ethtool -S mm0").stdout.splitlines()[1:]
    return {name.strip(): int(value) for name, value in (line.split(":") for line in lines)}


@contextmanager
def joined(ends: Ends, mtu: int = 65535) -> Iterator[None]:
    """Have mm0 in both guests, with addresses and a carrier; afterwards no more."""
    guests = (ends.active, ends.passive)
    for guest in guests:
        until(lambda guest=guest: linked(guest), f"link of {guest.name}")
        guest.put(traffic.TOP / "tests/sock/packets.py", PACKETS, mode=0o755)
    try:
        for number, guest in enumerate(guests):
            guest.run(
                f"modprobe mmnet && ip link set mm0 mtu {mtu} up"
                f" && ip addr add {ADDRESSES['ipv4'][number]}/24 dev mm0"
                f" && ip addr add {ADDRESSES['ipv6'][number]}/64 dev mm0 nodad"
            )
        for guest in guests:
            until(lambda guest=guest: "LOWER_UP" in guest.run("ip link show mm0").stdout, "a carrier", 60)
        yield
    finally:
        for guest in guests:
            guest.run("modprobe -r mmnet")


def exchange(ends: Ends, family: str, mib: int = 4) -> None:
    address = ADDRESSES[family][1]
    server = ends.passive.start(f"exec {PACKETS} serve {address} {PORT}")
    try:
        ends.passive.run(LISTENING)
        print(ends.active.run(f"{PACKETS} check {address} {PORT} {mib}", timeout=pace.limit(300)).stdout)
    finally:
        server.kill()


@pytest.mark.parametrize("mtu", [65535, 1500])
def test_packets(ends: Ends, mtu: int) -> None:
    """Datagrams and streams of both families, none by netfront; what TCP sends at once stays in one piece."""
    with joined(ends, mtu):
        guests = (ends.active, ends.passive)
        before = [(statistics(guest, "mm0"), statistics(guest, "eth0")) for guest in guests]
        for family in ADDRESSES:
            exchange(ends, family)
        for guest, (mm_before, eth_before) in zip(guests, before, strict=True):
            mm = traffic.moved(mm_before, statistics(guest, "mm0"))
            eth = traffic.moved(eth_before, statistics(guest, "eth0"))
            print(guest.name, {name: n for name, n in mm.items() if n}, own(guest))
            for way in ("tx", "rx"):
                assert mm[f"{way}_bytes"] > 2 * 4 * MIB, mm
                assert mm[f"{way}_packets"] < mm[f"{way}_bytes"] / 4000, mm
                assert not mm[f"{way}_errors"] + mm[f"{way}_dropped"], mm
                assert eth[f"{way}_bytes"] < MIB, eth
            assert not own(guest)["violations"]


def test_saved(machine: Machine, ends: Ends) -> None:
    """A stream by MMNet outlives save and restore of a guest, and goes on by the same devices."""
    with joined(ends):
        address = ADDRESSES["ipv4"][1]
        server = ends.passive.start(f"exec {PACKETS} serve {address} {PORT}")
        try:
            ends.passive.run(LISTENING)
            before = statistics(ends.active, "mm0")
            client = ends.active.start(f"exec {PACKETS} check {address} {PORT} 24")
            until(lambda: statistics(ends.active, "mm0")["tx_bytes"] > before["tx_bytes"] + 4 * MIB, "bytes")
            machine.dom0.run("xl save g1 /tmp/image && xl restore /tmp/image && rm /tmp/image", timeout=400)
            done = client.wait(300)
            assert done.status == 0, done.stdout + done.stderr
            assert own(ends.active)["opened"] == own(ends.passive)["opened"] == 2
            assert statistics(ends.active, "mm0")["tx_bytes"] - before["tx_bytes"] > 24 * MIB
        finally:
            server.kill()
