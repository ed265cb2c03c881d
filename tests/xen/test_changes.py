"""A guest whose processors, memory and clock change while its connections carry."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from rig.machine import Machine
from tests import traffic
from tests.traffic import Ends, until

pytestmark = pytest.mark.rig(type="pv", kernel="6.12", vcpus=2, deep=True)

SIZE = 64 << 20  # of a stream: it must take longer than a change
ROUNDS = 3

# By domain 0, or by the guest itself, which puts a processor that it gets into use as udev does
HOST, GUEST = "host", "guest"
CHANGES = (
    (HOST, "xl vcpu-set g1 1"),
    (HOST, "xl mem-set g1 220"),
    (GUEST, "date -s '+1 day'"),
    (HOST, "xl vcpu-set g1 2"),
    (GUEST, "until echo 1 >/sys/devices/system/cpu/cpu1/online; do sleep 0.1; done"),
    (HOST, "xl mem-set g1 256"),
    (GUEST, "date -s '-2 days'"),
)


def test_processors_memory_and_clock(machine: Machine, ends: Ends) -> None:
    """Streams both ways go on by ring; each change is made while they run, and has happened."""
    guest = ends.passive
    processors, memory = set(), set()
    with traffic.measured(ends) as moved, ThreadPoolExecutor(1) as pool:
        for where, change in CHANGES * ROUNDS:
            streams = pool.submit(ends.stream, size=SIZE, conns=2, at_once=2, settle=60000)
            until(lambda streams=streams: streams.done() or traffic.by_rings(guest), "rings")
            (guest if where == GUEST else machine.dom0).run(change)
            assert not streams.done(), f"the streams ended before: {change}"
            streams.result()
            processors.add(guest.run("nproc").stdout.strip())
            memory.add(int(guest.run("awk '/MemTotal/ { print $2 }' /proc/meminfo").stdout) >> 14)
    guest.run(f"date -s @{machine.dom0.run('date +%s').stdout}")
    assert processors == {"1", "2"}
    assert len(memory) > 1, memory
    assert moved.ring_share() > 0.9, moved.seen()
    assert not moved.passive["timeouts"] and not moved.active["timeouts"], moved.seen()
