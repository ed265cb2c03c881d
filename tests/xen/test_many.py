"""One, a hundred and a thousand connections with bytes on the way, and the end or the sleep of a peer."""

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from rig.guest import Guest
from rig.machine import Machine
from tests import traffic
from tests.traffic import Ends, linked, until
from tests.xen.test_life import CRASH

pytestmark = [pytest.mark.rig(type="pv", kernel="6.12"), pytest.mark.deep]

PORT = 7000
UNREAD = 16 << 10  # bytes that each connection has when it happens

# Has UNREAD bytes come back on each connection, and reads them when it is told to; then tells how each fared,
# and, if it was told "again", does so once all have rings again.
CLIENT = (
    traffic.RINGS
    + """
import collections, errno, fcntl, os, resource, socket, struct, sys, termios, time
host, port, count, unread = sys.argv[1], *map(int, sys.argv[2:])
resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, count + 100))
def echo(sock, text):
    sock.sendall(text)
    assert sock.recv(len(text), socket.MSG_WAITALL) == text
def waiting(sock):
    return struct.unpack("i", fcntl.ioctl(sock, termios.FIONREAD, bytes(4)))[0]
texts = [os.urandom(unread) for _ in range(count)]
socks = [socket.create_connection((host, port)) for _ in range(count)]
end = time.monotonic() + 300
while rings() < count:
    assert time.monotonic() < end, rings()
    for sock in socks:
        echo(sock, b"0123456789")
for sock, text in zip(socks, texts):
    sock.sendall(text)
for sock in socks:
    while waiting(sock) < unread:
        assert time.monotonic() < end + 300
        time.sleep(0.01)
print("ready", flush=True)
again = sys.stdin.readline().strip() == "again"
fared = collections.Counter()
for sock, text in zip(socks, texts):
    sock.settimeout(120)
    try:
        assert sock.recv(unread, socket.MSG_WAITALL) == text, "bytes"
        echo(sock, b"more")
        fared["went on"] += 1
    except OSError as error:
        fared[errno.errorcode.get(error.errno, str(error))] += 1
    except AssertionError as error:
        fared["bytes" if str(error) else "end"] += 1
end = time.monotonic() + 300
while again and fared["went on"] == count and rings() < count:
    assert time.monotonic() < end, rings()
    for sock in socks:
        echo(sock, b"0123456789")
print(json.dumps(fared))
"""
)


@pytest.fixture(params=[1, 100, 1000])
def client(request: pytest.FixtureRequest, ends: Ends) -> Iterator[tuple[int, Any]]:
    """Have so many connections to g1, each with a ring and bytes that are not read."""
    count, guest = request.param, ends.active
    guest.write("/tmp/many.py", CLIENT)
    guest.run("rm -f /tmp/go; mkfifo /tmp/go; sysctl -qw net.ipv4.ip_local_port_range='10000 65000'")
    with traffic.echoing(ends.passive, PORT):
        words = f"{ends.address} {PORT} {count} {UNREAD}"
        program = guest.start(f"exec python3 /tmp/many.py {words} <>/tmp/go")

        def ready() -> bool:
            assert program.poll() is None, program.stderr()
            return "ready" in program.stdout()

        until(ready, "connections with rings and bytes", 600)
        yield count, program


def fared(ends: Ends, program: Any, word: str = "") -> dict[str, int]:
    """Let the client read what is there; return how many connections fared how."""
    ends.active.run(f"echo {word} >/tmp/go")
    done = program.wait(600)
    assert done.status == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.rig(type="pv", kernel="6.12")
@pytest.mark.rig(type="hvm", kernel="6.12")
def test_saved(machine: Machine, ends: Ends, client: tuple[int, Any]) -> None:
    """All go on, with all their bytes, and nothing of the rings is left."""
    moves(machine, ends, client, traffic.saved("g1"))


def test_active_end_saved(machine: Machine, ends: Ends, client: tuple[int, Any]) -> None:
    """The same for the end that has called connect()."""
    moves(machine, ends, client, traffic.saved("g2"))


# Debian's Xen cannot migrate PV guests live: it has no shadow paging.
@pytest.mark.rig(type="pvh", kernel="6.12")
def test_migrated(machine: Machine, ends: Ends, client: tuple[int, Any]) -> None:
    """The same where the guest runs on while its memory is copied."""
    moves(machine, ends, client, traffic.migrated("g1"))


def moves(machine: Machine, ends: Ends, client: tuple[int, Any], command: str) -> None:
    """Have one of the guests become another domain: all go on, and get rings again."""
    count, program = client
    guests = (ends.active, ends.passive)
    before = [traffic.counters(guest) for guest in guests]
    machine.dom0.run(command, timeout=400)
    assert fared(ends, program, "again") == {"went on": count}
    # Whichever end hears of it first tells the other.
    now = [traffic.moved(was, traffic.counters(guest)) for was, guest in zip(before, guests, strict=True)]
    print([{name: n for name, n in one.items() if n} for one in now])
    assert sum(one["reason:link-down"] for one in now) >= count, now
    assert not any(one["violations"] for one in now), now
    for guest in guests:
        traffic.settled(guest)
        until(lambda guest=guest: linked(guest), f"link of {guest.name}")
        assert not traffic.xway(guest, "show")["unrevoked"]


# What the module does while the guest's processes are stopped.
STEPS = ("xen_freeze", "xen_thaw")
# s, at most, by the instruction clock. Rings are larger in guests of 512 MiB.
PAUSE = 0.05
PAUSE_OF_LARGER = 0.1


@contextlib.contextmanager
def traced(guest: Guest) -> Iterator[None]:
    """Have the beginning and the end of STEPS in the guest's trace."""
    for step in STEPS:
        for kind, when in (("p", "begin"), ("r", "end")):
            guest.run(
                f"echo '{kind}:pause/{when}_{step} xway_core:{step}' >>/sys/kernel/tracing/kprobe_events"
            )
    guest.run("echo 1 >/sys/kernel/tracing/events/pause/enable")
    try:
        yield
    finally:
        guest.run("echo 0 >/sys/kernel/tracing/events/pause/enable", check=False)
        guest.run("echo >/sys/kernel/tracing/kprobe_events", check=False)


def paused(machine: Machine, ends: Ends, client: tuple[int, Any], save: str) -> float:
    """Return what the module adds to the time for which a guest that is saved does not run."""
    count, program = client
    pages = traffic.xway(ends.passive, "show")["pages_used"]
    with traced(ends.passive):
        machine.dom0.run(save, timeout=600)
        text = ends.passive.read("/sys/kernel/tracing/trace")
    took = {}
    for step in STEPS:
        begin, end = (re.search(rf"(\d+\.\d+): {when}_{step}:", text) for when in ("begin", "end"))
        assert begin and end, text
        took[step] = float(end[1]) - float(begin[1])
    times = ", ".join(f"{step} {1000 * s:.2f} ms" for step, s in took.items())
    print(f"{count} connections, {UNREAD} bytes unread of each, {pages} pages shown: {times}")
    assert fared(ends, program) == {"went on": count}
    return sum(took.values())


@pytest.mark.parametrize("client", [1, 100, 300], indirect=True)
@pytest.mark.rig(type="pv", kernel="6.12", clock="instructions")
def test_pause(machine: Machine, ends: Ends, client: tuple[int, Any]) -> None:
    """A guest of the usual size is saved, and goes on from its image."""
    assert paused(machine, ends, client, traffic.saved("g1")) <= PAUSE


@pytest.mark.parametrize("client", [1, 100, 300, 1000], indirect=True)
@pytest.mark.rig(type="pv", kernel="6.12", clock="instructions", memory=512)
def test_pause_of_larger(machine: Machine, ends: Ends, client: tuple[int, Any]) -> None:
    """A thousand rings at once need more memory, and domain 0 has no room for such an image."""
    assert paused(machine, ends, client, "xl save -c g1 /dev/null") <= PAUSE_OF_LARGER


def test_paused(machine: Machine, ends: Ends, client: tuple[int, Any]) -> None:
    """All wait for a peer that does not run for a while, and then go on by the rings that they have."""
    count, program = client
    before = traffic.counters(ends.active)
    with traffic.paused(machine.dom0, "g1"):
        ends.active.run("echo >/tmp/go")
        until(lambda: any(peer["silent_s"] > 2 for peer in traffic.xway(ends.active, "peer")), "silence", 60)
    assert fared(ends, program) == {"went on": count}
    moved = traffic.moved(before, traffic.counters(ends.active))
    assert moved["rx_ring_bytes"] == count * UNREAD + moved["tx_ring_bytes"], moved
    assert moved["tx_ring_bytes"] == count * len("more"), moved
    assert not moved["switched_to_tcp"] + moved["tx_tcp_bytes"] + moved["rx_tcp_bytes"], moved


def has_ended(dom0: Guest) -> bool:
    """Return whether g1 is gone, or has crashed and stays, as its configuration has it."""
    told = dom0.run(["xl", "list", "g1"], check=False)
    return bool(told.status) or "c" in told.stdout.splitlines()[-1].split()[4]


@pytest.mark.parametrize("way", ["destroyed", "crashed", "rebooted"])
def test_peer_ends(machine: Machine, ends: Ends, client: tuple[int, Any], way: str) -> None:
    """All end with an error, soon, and nothing of the rings is left."""
    count, program = client
    if way == "destroyed":
        machine.destroy_guest("g1")
    else:
        ends.passive.start(CRASH if way == "crashed" else "sleep 0.3; exec /rig/busybox reboot -f")
        until(lambda: has_ended(machine.dom0), "the end of g1's kernel")
    try:
        found = fared(ends, program)
        assert found.get("ECONNRESET", 0) + found.get("EPIPE", 0) == count, found
        until(lambda: not linked(ends.active), "the link gone")
        if way == "crashed":
            machine.destroy_guest("g1")  # what remains of it still maps the pages that it had
        traffic.settled(ends.active)
        assert not traffic.xway(ends.active, "show")["unrevoked"]
    finally:
        machine.start_guest("g1")
        for guest in (machine.guest("g1"), ends.active):
            until(lambda guest=guest: linked(guest), f"link of {guest.name}")
