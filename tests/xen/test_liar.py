"""A guest whose module lies to its peers, or owes them something, beside honest traffic.

The module is built with kernel/core/selftest/liar.c.
"""

import json
import os
import statistics
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from bench import programs
from bench.micro import PORT as BENCH
from bench.pair import EVERYTHING
from rig import build
from rig.guest import Guest
from rig.host import run
from rig.machine import Machine
from tests import traffic
from tests.mmnet import allowed, loaded, net
from tests.traffic import Ends, linked, until

THREE: dict[str, Any] = {
    "type": "pv",
    "kernel": "6.12",
    "guests": 3,
    "clock": "instructions",
    "spare": False,
    "policy": EVERYTHING,
    "arguments": "init_on_alloc=0",  # else the kernel zeroes what the module must zero: test_nothing_foreign
}
pytestmark = pytest.mark.rig(**THREE)

LIES = ("posts", "index", "events", "header", "messages", "directory", "words", "rings", "fields")
FLOODING = LIES[:-1]  # without a pause; the last is told in messages that programs' calls lead to
PORT = 7300
KEPT = 0.8  # of the bytes that the honest ones carry with so much work of their CPUs
KEPT_TIME = 0.5  # of those that they carry in so much time, though one CPU is the liar's as well
FLOODED = 0.2  # of a CPU, at most, that lies without a pause take of each of them
SECONDS = 0.5  # of the flood
FLOODS = 5  # of a kind, until it is told in one
RUDE = 30  # seconds of lies, each of which may end the session
SESSIONS = 9  # that begin meanwhile, at most: the next one later each time
PARAMETERS = "/sys/module/xway_core/parameters"


@dataclass(frozen=True)
class Extent:
    """How much of it is done. The whole takes a quarter of an hour."""

    baselines: int  # what is carried without lies, so often
    sessions: int  # with lies of each kind
    floods: tuple[str, ...]


SHORT = Extent(1, 1, ("posts", "events"))
WHOLE = Extent(3, 3, FLOODING)
EXTENTS = pytest.mark.parametrize(
    "extent", [pytest.param(SHORT, id="short"), pytest.param(WHOLE, marks=pytest.mark.deep, id="whole")]
)

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
        time.sleep(0.1)
"""


# What it does not do, by bits: messages by their type
KEEPS = {
    "accept": 1 << 2,
    "close": 1 << 4,
    "messages": 0x7E,
    "all": 1 << 31,
}
KEEP_PAGES = 1 << 30
MESSAGES = 6  # MiB at most, of those that a peer does not take

# Makes and ends connections to an echo server, some at once. Such a connection may well hang.
CHURN = """
import socket, sys, time
def opened():
    try:
        end = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=1)
    except OSError:
        return []
    end.setblocking(False)
    return [end]
def spoken(end):
    try:
        end.send(bytes(3000))
        end.recv(1 << 20)
    except OSError:
        pass
while True:
    ends = [end for _ in range(int(sys.argv[3])) for end in opened()]
    for _ in range(30):
        for end in ends:
            spoken(end)
        time.sleep(0.05)
    for end in ends:
        end.close()
"""

# Has an echo server fill rings that it never reads, and writes no more itself: it never makes a mark.
SILENT = """
import socket, sys, time
ends = [socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5) for _ in range(int(sys.argv[3]))]
for end in ends:
    end.setblocking(False)
for _ in range(20):
    for end in ends:
        try:
            end.send(bytes(65536))
        except OSError:
            pass
    time.sleep(0.05)
print("silent", flush=True)
time.sleep(100000)
"""

# Has something in its memory again and again, and sends it to another guest by connections.
SECRET = """
import socket, sys, time
secret = bytes.fromhex(sys.argv[3]) * 8192
while True:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=30) as end:
        for _ in range(4):
            end.sendall(secret)
            end.recv(len(secret), socket.MSG_WAITALL)
    filled = [secret * 16 for _ in range(16)]
    del filled
    time.sleep(0.1)
"""


def make_liar(machine: Machine, guest: Guest, client: str = "xway") -> None:
    """Have a guest's module be the liar, and this and xway on it."""
    made = build.module(machine.config.debian, machine.config.kernel, "liar")
    core = next(path for path in made if path.stem == "xway_core")
    run(["strip", "--strip-debug", core])
    traffic.unload(guest)
    guest.put(core, "/tmp/liar.ko")
    guest.run(f"insmod /tmp/liar.ko && modprobe xway && modprobe {client} && xway on")


@contextmanager
def lying(machine: Machine, guest: Guest, client: str = "xway") -> Iterator[None]:
    """Have a guest's module be the liar, and this and xway on it, and then the usual one again."""
    make_liar(machine, guest, client)
    try:
        yield
    finally:
        guest.run(f"for one in lies keeps seek writes; do echo 0 >{PARAMETERS}/$one; done")
        guest.run("modprobe -r mmnet")
        traffic.unload(guest)
        guest.run("modprobe xway; xway on")


def serve(machine: Machine, server: Guest, client: Guest) -> None:
    """Have the programs that measure where they are needed, and the server of streams."""
    made = programs.build(machine.config.debian)
    for domain in {id(one): one for one in (machine.dom0, server, client)}.values():
        programs.install(domain, made)
    server.start(["xbench", "serve", BENCH])


def told(guest: Guest) -> list[int]:
    return [int(number) for number in guest.read(f"{PARAMETERS}/told").split(",")]


def worked(machine: Machine) -> dict[str, int]:
    """Return the ns that each domain has had a CPU."""
    times = [int(line) for line in machine.dom0.run(["domcpu"]).stdout.split()]
    return dict(zip([machine.dom0.name, *(guest.name for guest in machine.guests)], times, strict=True))


@dataclass
class Rates:
    """What honest ones carry: MiB for a second of their CPUs' work, and Mbit for one of the clock."""

    work: dict[str, float] = field(default_factory=dict)
    time: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, found: Iterable[tuple[float, float]]) -> None:
        """Note the medians of what was found with such a lie."""
        work, time = zip(*found, strict=True)
        self.work[name], self.time[name] = statistics.median(work), statistics.median(time)

    def judge(self) -> None:
        """See that no lie takes much of it."""
        print("of work", {name: f"{rate / self.work['none']:.2f}" for name, rate in self.work.items()})
        print("of time", {name: f"{rate / self.time['none']:.2f}" for name, rate in self.time.items()})
        assert all(rate >= KEPT * self.work["none"] for rate in self.work.values()), self.work
        assert all(rate >= KEPT_TIME * self.time["none"] for rate in self.time.values()), self.time


def carried(machine: Machine, ends: Ends, lie: str = "true") -> tuple[float, float]:
    """Have the liar run a command, and the honest ones a stream by ring; return two rates, see Rates."""
    before, was = traffic.counters(ends.active), worked(machine)
    machine.guest("g3").run(lie)
    words = ["xbench", "tcp", ends.address, BENCH, "stream", "65536", "60", "30"]
    found = json.loads(ends.active.run(words, timeout=600).stdout)
    work = sum(worked(machine)[guest.name] - was[guest.name] for guest in (ends.active, ends.passive))
    now = traffic.moved(before, traffic.counters(ends.active))
    assert now["tx_ring_bytes"] > 0.9 * (now["tx_ring_bytes"] + now["tx_tcp_bytes"]), now
    return now["tx_ring_bytes"] / (1 << 20) / (work / 1e9), found["mbit"]


def lied(
    machine: Machine, ends: Ends, liar: Guest, number: int, sessions: int
) -> Iterator[tuple[float, float]]:
    """Give what is carried in each of some sessions in which lies of a kind are told, which may end it."""
    for _ in range(sessions):
        until(lambda: traffic.xway(liar, "show")["channels"] > 0, "the liar's ring")
        was = told(liar)[number]
        # Of some kinds only what programs' calls lead to are told.
        least = was + (1 if LIES[number] in FLOODING else 20)
        rates = carried(machine, ends, f"echo {1 << number} >{PARAMETERS}/lies")
        until(lambda least=least: told(liar)[number] >= least, LIES[number])
        liar.run(f"echo 0 >{PARAMETERS}/lies")
        yield rates


def flooded(machine: Machine, liar: Guest, lie: int, *honest: Guest) -> tuple[float, ...]:
    """Return the part of a CPU that honest ones take while lies of a kind come without a pause."""
    for _ in range(FLOODS):
        # Without a ring there is nothing to lie in. What was told before may still end the session.
        until(lambda: traffic.xway(liar, "show")["channels"] > 0, "the liar's ring")
        before = told(liar)[lie]
        liar.run(f"echo 0 >{PARAMETERS}/pause_us; echo {1 << lie} >{PARAMETERS}/lies")
        was, begin = worked(machine), float(machine.dom0.read("/proc/uptime").split()[0])
        machine.dom0.run(f"sleep {SECONDS}")
        now, end = worked(machine), float(machine.dom0.read("/proc/uptime").split()[0])
        liar.run(f"echo 0 >{PARAMETERS}/lies; echo 1000 >{PARAMETERS}/pause_us")
        if told(liar)[lie] > before:
            return tuple((now[one.name] - was[one.name]) / 1e9 / (end - begin) for one in honest)
    raise AssertionError(f"{LIES[lie]} were not told in {FLOODS} floods")


def begun(machine: Machine, liar: Guest, honest: Guest) -> int:
    """Return how many sessions begin with a peer that breaks the rules in each."""
    was = traffic.counters(honest)["links_up"]
    liar.run(f"echo {1 << LIES.index('header')} >{PARAMETERS}/lies")
    machine.dom0.run(f"sleep {RUDE}")
    liar.run(f"echo 0 >{PARAMETERS}/lies")
    return traffic.counters(honest)["links_up"] - was


@EXTENTS
def test_liar(machine: Machine, ends: Ends, extent: Extent) -> None:
    """What the honest ones say to each other stays right and fast, and nothing is left of the liar's."""
    honest, liar = (ends.passive, ends.active), machine.guest("g3")
    serve(machine, ends.passive, ends.active)
    before = [traffic.counters(guest) for guest in honest]
    rates = Rates()
    floods: dict[str, tuple[float, ...]] = {}
    with traffic.echoing(ends.passive, PORT), lying(machine, liar), traffic.echoing(liar, PORT):
        until(lambda: linked(liar), "the liar's link")
        liar.write("/tmp/talk.py", TALK)
        talk = liar.start(f"exec python3 /tmp/talk.py {ends.address} {PORT}")
        # Either end of a connection sends messages of its own.
        churns = []
        for guest, address in ((liar, ends.address), (ends.active, liar.ip4)):
            guest.write("/tmp/churn.py", CHURN)
            churns.append(guest.start(f"exec python3 /tmp/churn.py {address} {PORT} 2"))
        until(lambda: traffic.counters(liar)["tx_ring_bytes"] > 0, "the liar's ring")
        rates.add("none", [carried(machine, ends) for _ in range(extent.baselines)])
        for number, lie in enumerate(LIES):
            rates.add(lie, lied(machine, ends, liar, number, extent.sessions))
        for lie in extent.floods:
            floods[lie] = flooded(machine, liar, LIES.index(lie), *honest)
        print(told(liar))
        print({lie: " ".join(f"{part:.2f}" for part in parts) for lie, parts in floods.items()})
        sessions = begun(machine, liar, ends.passive)
        liar.run(f"echo {(1 << len(LIES)) - 1} >{PARAMETERS}/lies")
        ends.stream(size=4 << 20, conns=4, at_once=4, settle=60000)
        liar.run(f"echo 0 >{PARAMETERS}/lies")
        for program in (talk, *churns):
            program.kill()
    now = [traffic.moved(was, traffic.counters(guest)) for was, guest in zip(before, honest, strict=True)]
    print([{name: n for name, n in one.items() if n} for one in now], sessions)
    assert 1 <= sessions <= SESSIONS, sessions
    assert any(one["violations"] for one in now), now
    rates.judge()
    assert all(part <= FLOODED for parts in floods.values() for part in parts), floods
    for guest in (*honest, liar):
        until(lambda guest=guest: linked(guest), f"link of {guest.name}")
        traffic.settled(guest)
        assert not unrevoked(guest)
    for guest in honest:
        traffic.unload(guest)
        guest.run("modprobe xway; xway on")


def available(guest: Guest) -> int:
    """Return the MiB of memory that programs can have."""
    return int(guest.run("grep MemAvailable /proc/meminfo").stdout.split()[1]) >> 10


def most_kept(guest: Guest) -> float:
    """Return the MiB that a peer may have a guest keep: its arena, as much that is unread, and messages."""
    pages = int(guest.read(f"{PARAMETERS}/pages_max"))
    return 2 * 0.75 * pages * 4096 / (1 << 20) + MESSAGES


def test_nothing_is_done(machine: Machine, ends: Ends) -> None:
    """A peer that owes messages, marks, acknowledgements and pages takes little, and holds up nobody else."""
    honest, liar = (ends.passive, ends.active), machine.guest("g3")
    serve(machine, ends.passive, ends.active)
    rates = Rates()
    taken: dict[str, int] = {}
    with traffic.echoing(ends.passive, PORT), lying(machine, liar):
        until(lambda: linked(liar), "the liar's link")
        liar.write("/tmp/churn.py", CHURN)
        liar.write("/tmp/silent.py", SILENT)
        was = available(ends.passive)
        silent = liar.start(f"exec python3 /tmp/silent.py {ends.address} {PORT} 8")
        until(lambda: "silent" in silent.stdout(), "connections that nobody reads")
        # Rings, that is, until the other end goes on by TCP.
        until(lambda: traffic.counters(liar)["channels"] >= 8, "rings that nobody reads")
        churn = liar.start(f"exec python3 /tmp/churn.py {ends.address} {PORT} 8")
        until(lambda: traffic.xway(liar, "show")["channels"] > 0, "the liar's rings")
        # What these connections cost is not the point.
        rates.add("none", [carried(machine, ends) for _ in range(3)])
        for name, bits in KEEPS.items():
            until(lambda: traffic.xway(liar, "show")["channels"] > 0, "the liar's rings again")
            kept = int(liar.read(f"{PARAMETERS}/kept"))
            liar.run(f"echo {bits} >{PARAMETERS}/keeps")
            until(lambda kept=kept: int(liar.read(f"{PARAMETERS}/kept")) > kept, f"{name} kept")
            rates.add(name, [carried(machine, ends)])
            taken[name] = was - available(ends.passive)
            if name == "all":
                # Who owes nothing is not kept from going, either.
                begin = machine.dom0.read("/proc/uptime").split()[0]
                traffic.unload(ends.passive)
                print("unloaded in", float(machine.dom0.read("/proc/uptime").split()[0]) - float(begin), "s")
                ends.passive.run("modprobe xway; xway on")
            liar.run(f"echo 0 >{PARAMETERS}/keeps")
            for guest in (liar, *honest):
                until(lambda guest=guest: linked(guest), f"link of {guest.name} after {name}")
        for program in (churn, silent):
            program.kill()
    print(taken)
    rates.judge()
    assert all(mib <= most_kept(ends.passive) for mib in taken.values()), (taken, most_kept(ends.passive))
    for guest in (*honest, liar):
        traffic.settled(guest)
        assert not unrevoked(guest)


def unrevoked(guest: Guest) -> int:
    """Return how many pages that it has withdrawn its peers still map."""
    return int(traffic.xway(guest, "show")["unrevoked"])


@pytest.mark.deep
def test_pages_are_kept(machine: Machine, ends: Ends) -> None:
    """Pages that a peer does not unmap when its link ends are back as soon as it ends."""
    honest, liar = (ends.passive, ends.active), machine.guest("g3")

    with traffic.echoing(ends.passive, PORT):
        make_liar(machine, liar)
        until(lambda: linked(liar), "the liar's link")
        liar.write("/tmp/churn.py", CHURN)
        liar.start(f"exec python3 /tmp/churn.py {ends.address} {PORT} 20")
        until(lambda: traffic.xway(liar, "show")["channels"] == 20, "the liar's rings")
        liar.run(f"echo {KEEP_PAGES} >{PARAMETERS}/keeps")
        with allowed(machine.dom0, "group honest g1 g2"):
            for guest in honest:
                until(lambda guest=guest: unrevoked(guest) > 0, f"pages that {guest.name} has lost")
            print([unrevoked(guest) for guest in honest])
            ends.stream(size=1 << 20, conns=4, at_once=4)
            machine.destroy_guest(liar.name)
            for guest in honest:
                until(lambda guest=guest: not unrevoked(guest), f"pages of {guest.name}")
    machine.start_guest(liar.name)
    liar.run("xway on")
    until(lambda: linked(liar), "the liar's link")
    for guest in honest:
        traffic.settled(guest)
        traffic.unload(guest)
        guest.run("modprobe xway; xway on")


def test_nothing_foreign(machine: Machine, ends: Ends) -> None:
    """What a peer may read of a guest has nothing that the guest says to others or has in its memory."""
    liar = machine.guest("g3")
    secret = os.urandom(8)

    def sought() -> tuple[int, int]:
        pages, found = liar.read(f"{PARAMETERS}/sought").split(",")
        return int(pages), int(found)

    with traffic.echoing(ends.passive, PORT), lying(machine, liar):
        until(lambda: linked(liar), "the liar's link")
        for guest in (liar, ends.active):
            guest.write("/tmp/secret.py", SECRET)
        liar.write("/tmp/churn.py", CHURN)
        churn = liar.start(f"exec python3 /tmp/churn.py {ends.address} {PORT} 20")
        secrets = ends.active.start(f"exec python3 /tmp/secret.py {ends.address} {PORT} {secret.hex()}")
        before = traffic.counters(ends.passive)
        liar.run(f"echo {int.from_bytes(secret, 'little')} >{PARAMETERS}/seek")
        was, channels = sought()[0], before["channels"]
        # Rings of both come and go, in each other's pages.
        until(lambda: traffic.counters(ends.passive)["channels"] > channels + 200, "channels")
        assert secrets.poll() is None, secrets.stderr()
        pages, found = sought()
        print(pages - was, "pages,", found, "words")
        assert pages - was > 1000 and not found, (pages, found)
        # It would have been seen.
        secrets.kill()
        churn.kill()
        secrets = liar.start(f"exec python3 /tmp/secret.py {ends.address} {PORT} {secret.hex()}")
        until(lambda: sought()[1] > 0, "what was sent to the liar")
        secrets.kill()


def test_nothing_is_written(machine: Machine, ends: Ends) -> None:
    """A peer cannot map what it is shown for writing: Xen refuses it."""
    liar = machine.guest("g3")

    def tried() -> int:
        return int(liar.read(f"{PARAMETERS}/tried"))

    def begin_anew(writes: int) -> None:
        with allowed(machine.dom0, "group honest g1 g2"):
            until(lambda: not linked(liar), "the end of the liar's link")
            liar.run(f"echo {writes} >{PARAMETERS}/writes")

    with lying(machine, liar):
        until(lambda: linked(liar), "the liar's link")
        begin_anew(1)
        # The first page of each peer, and then there is no session.
        until(lambda: tried() >= 2, "pages that are to be written")
        machine.dom0.run("sleep 2")
        assert not linked(liar)
        begin_anew(0)
        until(lambda: linked(liar), "the liar's link again")
    until(lambda: linked(ends.active), "the honest ones' link")


def lies_by_mmnet(machine: Machine, extent: Extent, server: Guest, client: Guest, *others: Guest) -> None:
    """Have the third guest lie by MMNet to all of these, while a client has a stream to a server by it."""
    liar, honest = machine.guest("g3"), (server, client, *others)
    serve(machine, server, client)
    dom0 = machine.dom0
    peer = "xen:0" if server is dom0 else f"xen:{dom0.run(f'xl domid {server.name}').stdout.strip()}"

    def up(domain: Guest) -> bool:
        return sum(one["state"] == "up" for one in net(domain)) == len(honest)

    def sent() -> int:
        return sum(one["stats"]["tx_bytes"] for one in net(client) if one["peer"] == peer)

    def carried_by(lie: str = "true") -> tuple[float, float]:
        was, before = worked(machine), sent()
        liar.run(lie)
        words = ["xbench", "tcp", server.ip4, BENCH, "stream", "65536", "60", "30"]
        found = json.loads(client.run(words, timeout=600).stdout)
        work = sum(worked(machine)[one.name] - was[one.name] for one in (server, client))
        moved = sent() - before
        assert moved > 1 << 20, moved
        return moved / (1 << 20) / (work / 1e9), found["mbit"]

    def violations() -> list[int]:
        return [sum(one["stats"]["violations"] for one in net(domain)) for domain in honest]

    rates = Rates()
    floods: dict[str, tuple[float, ...]] = {}
    with loaded(*honest), lying(machine, liar, "mmnet"):
        for domain in (*honest, liar):
            domain.run("xway off", check=False)
            until(lambda domain=domain: up(domain), f"devices of {domain.name}")
        before = violations()
        pings = [liar.start(f"exec ping -q -i 0.01 {one.ip4}") for one in honest if one is not client]
        rates.add("none", [carried_by() for _ in range(extent.baselines)])
        for number, lie in enumerate(FLOODING):
            until(lambda: up(liar), "the liar's devices")
            was = told(liar)[number]
            rates.add(lie, [carried_by(f"echo {1 << number} >{PARAMETERS}/lies")])
            until(lambda number=number, was=was: told(liar)[number] > was, lie)
            liar.run(f"echo 0 >{PARAMETERS}/lies")
        # It takes nothing, and acknowledges nothing: packets for it wait, and then go another way.
        until(lambda: up(liar), "the liar's devices")
        rates.add("nothing", [carried_by(f"echo {KEEPS['all']} >{PARAMETERS}/keeps")])
        assert int(liar.read(f"{PARAMETERS}/kept")) > 0
        liar.run(f"echo 0 >{PARAMETERS}/keeps")
        for lie in extent.floods:
            until(lambda: up(liar), "the liar's devices")
            floods[lie] = flooded(machine, liar, LIES.index(lie), *honest)
        for ping in pings:
            ping.kill()
        now = violations()
        for guest in honest:
            guest.run("xway on", check=False)
    print(before, now)
    print({lie: " ".join(f"{part:.2f}" for part in parts) for lie, parts in floods.items()})
    rates.judge()
    assert all(part <= FLOODED for parts in floods.values() for part in parts), floods
    assert sum(now) > sum(before), (before, now)


@EXTENTS
def test_mmnet(machine: Machine, ends: Ends, extent: Extent) -> None:
    """A peer that lies by MMNet to guests does not slow what these say to each other by it."""
    lies_by_mmnet(machine, extent, ends.passive, ends.active)


@pytest.mark.deep
@pytest.mark.rig(**THREE | {"policy": "group all services=net Domain-0 g1 g2 g3"})
def test_mmnet_host(machine: Machine) -> None:
    """A peer that lies by MMNet to domain 0 and to guests does not slow what these say to each other."""
    dom0, (honest, other, _) = machine.dom0, machine.guests
    assert machine.products
    build.load(dom0, machine.products)
    lies_by_mmnet(machine, WHOLE, dom0, honest, other)
    dom0.run("modprobe -r xway xway_core")
