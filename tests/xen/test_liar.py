"""A guest whose module lies to its peers, at random, beside honest traffic: kernel/core/selftest/liar.c."""

import statistics
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench import programs
from bench.micro import PORT as BENCH
from rig import build
from rig.guest import Guest
from rig.host import run
from rig.machine import Machine
from tests import traffic
from tests.traffic import Ends, linked, until

pytestmark = pytest.mark.rig(type="pv", kernel="6.12", guests=3, clock="instructions", spare=False)

LIES = ("posts", "index", "events", "header", "messages", "directory", "words", "rings")
PORT = 7300
KEPT = 0.8  # of the bytes that the honest ones carry with so much work of their CPUs
FLOODED = 0.2  # of a CPU, at most, that lies without a pause take of each of them
SECONDS = 0.5  # of the flood
PARAMETERS = "/sys/module/xway_core/parameters"

# Talks to an echo server for ever, a little, by new connections when the old ones fail.
TALK = """
import os, socket, sys, time
def talk(sock):
    for _ in range(2000):
        text = os.urandom(3000)
        sock.sendall(text)
        sock.recv(len(text), socket.MSG_WAITALL)
        time.sleep(0.01)
while True:
    try:
        with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5) as sock:
            sock.settimeout(5)
            talk(sock)
    except OSError:
        pass
"""


@contextmanager
def lying(machine: Machine, guest: Guest, client: str = "xway") -> Iterator[None]:
    """Have a guest's module be the liar, and this and xway on it, and then the usual one again."""
    made = build.module(machine.config.debian, machine.config.kernel, "liar")
    core = next(path for path in made if path.stem == "xway_core")
    run(["strip", "--strip-debug", core])
    traffic.unload(guest)
    guest.put(core, "/tmp/liar.ko")
    guest.run(f"insmod /tmp/liar.ko && modprobe xway && modprobe {client} && xway on")
    try:
        yield
    finally:
        guest.run(f"echo 0 >{PARAMETERS}/lies")
        guest.run("modprobe -r mmnet")
        traffic.unload(guest)
        guest.run("modprobe xway; xway on")


def told(guest: Guest) -> list[int]:
    return [int(number) for number in guest.read(f"{PARAMETERS}/told").split(",")]


def worked(machine: Machine) -> dict[str, int]:
    """Return the ns that each domain has had a CPU."""
    times = [int(line) for line in machine.dom0.run(["domcpu"]).stdout.split()]
    return dict(zip([machine.dom0.name, *(guest.name for guest in machine.guests)], times, strict=True))


def carried(machine: Machine, ends: Ends) -> float:
    """Return the MiB by ring between the honest ones for a second of their CPUs' work."""
    before, was = traffic.counters(ends.active), worked(machine)
    words = ["xbench", "tcp", ends.address, BENCH, "stream", "65536", "60", "30"]
    ends.active.run(words, timeout=600)
    work = sum(worked(machine)[guest.name] - was[guest.name] for guest in (ends.active, ends.passive))
    now = traffic.moved(before, traffic.counters(ends.active))
    assert now["tx_ring_bytes"] > 0.9 * (now["tx_ring_bytes"] + now["tx_tcp_bytes"]), now
    return now["tx_ring_bytes"] / (1 << 20) / (work / 1e9)


def flooded(machine: Machine, liar: Guest, lie: int) -> tuple[float, ...]:
    """Return the part of a CPU that each honest one takes while lies of a kind come without a pause."""
    liar.run(f"echo 0 >{PARAMETERS}/pause_us; echo {1 << lie} >{PARAMETERS}/lies")
    was, begin = worked(machine), float(machine.dom0.read("/proc/uptime").split()[0])
    machine.dom0.run(f"sleep {SECONDS}")
    now, end = worked(machine), float(machine.dom0.read("/proc/uptime").split()[0])
    liar.run(f"echo 0 >{PARAMETERS}/lies; echo 1000 >{PARAMETERS}/pause_us")
    return tuple((now[name] - was[name]) / 1e9 / (end - begin) for name in ("g1", "g2", "g3"))


def test_liar(machine: Machine, ends: Ends) -> None:
    """What the honest ones say to each other stays right and fast, and nothing is left of the liar's."""
    honest, liar = (ends.passive, ends.active), machine.guest("g3")
    made = programs.build(machine.config.debian)
    for domain in (machine.dom0, *honest):
        programs.install(domain, made)
    ends.passive.start(["xbench", "serve", BENCH])
    before = [traffic.counters(guest) for guest in honest]
    rates: dict[str, float] = {}
    floods: dict[str, tuple[float, ...]] = {}
    with traffic.echoing(ends.passive, PORT), lying(machine, liar):
        until(lambda: linked(liar), "the liar's link")
        liar.write("/tmp/talk.py", TALK)
        talk = liar.start(f"exec python3 /tmp/talk.py {ends.address} {PORT}")
        until(lambda: traffic.counters(liar)["tx_ring_bytes"] > 0, "the liar's ring")
        rates["none"] = statistics.median(carried(machine, ends) for _ in range(3))
        for number, lie in enumerate(LIES):
            was = told(liar)[number]
            liar.run(f"echo {1 << number} >{PARAMETERS}/lies")
            # A lie may end the session, and then the next one is told in a new one.
            until(lambda number=number, was=was: told(liar)[number] > was, lie)
            rates[lie] = carried(machine, ends)
            liar.run(f"echo 0 >{PARAMETERS}/lies")
        for number, lie in enumerate(LIES):
            until(lambda: linked(liar), "the liar's link")
            floods[lie] = flooded(machine, liar, number)
        print({lie: f"{mib / rates['none']:.2f}" for lie, mib in rates.items()}, told(liar))
        print({lie: " ".join(f"{part:.2f}" for part in parts) for lie, parts in floods.items()})
        liar.run(f"echo 255 >{PARAMETERS}/lies")
        ends.stream(size=4 << 20, conns=4, at_once=4, settle=60000)
        liar.run(f"echo 0 >{PARAMETERS}/lies")
        talk.kill()
    now = [traffic.moved(was, traffic.counters(guest)) for was, guest in zip(before, honest, strict=True)]
    print([{name: n for name, n in one.items() if n} for one in now])
    assert any(one["violations"] for one in now), now
    assert all(mib >= KEPT * rates["none"] for mib in rates.values()), rates
    assert all(part <= FLOODED for parts in floods.values() for part in parts[:2]), floods
    for guest in (*honest, liar):
        until(lambda guest=guest: linked(guest), f"link of {guest.name}")
        traffic.settled(guest)
        assert not traffic.xway(guest, "show")["unrevoked"]
    for guest in honest:
        traffic.unload(guest)
        guest.run("modprobe xway; xway on")
