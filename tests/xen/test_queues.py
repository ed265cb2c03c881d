"""A device of MMNet with several queues, in guests with two processors."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rig import pace
from rig.guest import Guest
from rig.machine import Machine
from tests import traffic
from tests.mmnet import PACKETS, PORT, endless, net, own, serving, shaded, statistics
from tests.traffic import Ends, until

FLOWS = 8

pytestmark = [
    pytest.mark.rig(type="pv", kernel="6.1", vcpus=2),
    pytest.mark.rig(type="pv", kernel="newest", vcpus=2, deep=True),
    pytest.mark.rig(type="pvh", kernel="6.12", vcpus=2, deep=True),
]


@contextmanager
def several(*guests: Guest) -> Iterator[None]:
    """Have devices with as many queues as there can be; afterwards one, as by default."""
    for guest in guests:
        guest.write("/etc/modprobe.d/queues.conf", "options mmnet queues=4\n")
    try:
        yield
    finally:
        for guest in guests:
            guest.run("rm /etc/modprobe.d/queues.conf")


def use(guest: Guest, number: int) -> None:
    guest.run(f"ethtool -L mm0 combined {number}", timeout=pace.limit(30))


def used(guest: Guest) -> int:
    number: int = net(guest)[0]["queues"]
    return number


def received(guest: Guest) -> dict[str, int]:
    """Return how often each processor has received packets."""
    names, *lines = guest.read("/proc/softirqs").splitlines()
    words = next(line.split()[1:] for line in lines if "NET_RX" in line)
    return dict(zip(names.split(), map(int, words), strict=False))


def test_flows(machine: Machine, ends: Ends) -> None:
    """Flows take both queues, each of which a processor of its own reads; nothing is lost as they change."""
    guests = (ends.active, ends.passive)
    with several(*guests), shaded(machine, ends):
        done = ends.active.run("ethtool -L mm0 combined 5", check=False)
        assert done.status and "Combined:\t4" in ends.active.run("ethtool -l mm0").stdout, done
        done = ends.active.run("ethtool -C mm0 adaptive-rx on", check=False)
        refuses = machine.config.kernel in ("6.1", "6.12")
        assert bool(done.status) == refuses and ("needs Linux 6.13" in done.stderr) == refuses, done
        ends.active.run("ethtool -C mm0 adaptive-rx off")
        until(lambda: used(ends.active) == 4, "four queues")
        for guest in guests:
            use(guest, 2)
        for guest in guests:
            until(lambda guest=guest: used(guest) == 2, f"two queues of {guest.name}")
        before = [(own(guest), received(guest)) for guest in guests]
        check = f"{PACKETS} check {ends.passive.ip4} {PORT} 4"
        with serving(ends.passive, ends.passive.ip4):
            flows = " ".join(f"{check} & p{number}=$!;" for number in range(FLOWS))
            waits = " ".join(f"wait $p{number} || exit 1;" for number in range(FLOWS))
            ends.active.run(f"{flows} {waits}", timeout=pace.limit(300))
        for guest, (counts, softirqs) in zip(guests, before, strict=True):
            moved = traffic.moved(counts, own(guest))
            for way in ("tx", "rx"):
                each = [moved[f"queue{number}_{way}_packets"] for number in range(4)]
                assert sum(each) == moved[f"{way}_packets"] and min(each[:2]) > 50, moved
                assert not sum(each[2:]), moved
            assert not moved["violations"] + moved["tx_dropped"] + moved["tx_lost"], moved
            taken = traffic.moved(softirqs, received(guest))
            print(guest.name, moved, taken)
            assert min(taken["CPU0"], taken["CPU1"]) > 50, taken
        with endless(ends.active, ends.passive, ends.passive.ip4) as goes_on:
            for guest, number in ((ends.active, 1), (ends.active, 4), (ends.passive, 1), (ends.passive, 2)):
                use(guest, number)
                goes_on(lambda: statistics(ends.passive, "mm0")["tx_bytes"])
                least = min(number, 2)
                until(lambda least=least: [used(one) for one in guests] == [least] * 2, f"{least} queues", 60)
        assert not any(own(guest)["violations"] + own(guest)["tx_lost"] for guest in guests)
