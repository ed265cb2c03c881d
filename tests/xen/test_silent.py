"""A peer whose kernel does not run: connections end by TCP's limits, and what waits within them goes on."""

import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rig.guest import Guest
from rig.machine import Machine
from tests import traffic
from tests.traffic import Ends, linked, until
from tests.xen.test_life import AGAIN, TALK_MOST, clear, deny, enough, talk

pytestmark = pytest.mark.rig(type="pv", kernel="6.12")

PORT = 7000
LIMIT = 5  # seconds, TCP_USER_TIMEOUT

# Each waits for an answer until one comes or the connection ends. Lines of input begin the two steps.
CLIENT = """
import json, os, select, socket, struct, sys, threading, time
host, limit = sys.argv[1], int(sys.argv[2])
def echo(sock, text):
    sock.sendall(text)
    assert sock.recv(len(text), socket.MSG_WAITALL) == text
def opened(*options):
    sock = socket.create_connection((host, 7000))
    for option in options:
        sock.setsockopt(*option)
    for _ in range(30):
        echo(sock, b"0123456789")
        time.sleep(0.02)
    return sock
user = (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * limit)
alive = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 2),
         (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1), (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)]
socks = {"read": opened(user), "poll": opened(user), "write": opened(user), "keepalive": opened(*alive),
         "patient": opened(), "alive": opened(*alive)}
found = {}
def wait(name, sock):
    start = time.monotonic()
    try:
        if name == "write":
            sock.sendall(bytes(64 << 20))
        elif name != "keepalive":
            sock.sendall(b"request")
        if name == "poll":
            sock.setblocking(False)
            select.select([sock], [], [])
        found[name] = [sock.recv(64).decode(), time.monotonic() - start]
    except OSError as error:
        found[name] = [error.errno, time.monotonic() - start]
print("open", flush=True)
sys.stdin.readline()
threads = [threading.Thread(target=wait, args=item) for item in socks.items()]
for thread in threads:
    thread.start()
for thread in threads[:-2]:
    thread.join()
print("ended", flush=True)
for thread in threads[-2:]:
    thread.join()
echo(socks["patient"], b"more")
echo(socks["alive"], b"more")
print(json.dumps(found))
"""


@pytest.fixture
def client(ends: Ends) -> Iterator[Any]:
    """Have connections to g1 open, and a way to begin requests."""
    ends.active.write("/tmp/client.py", CLIENT)
    ends.active.run("rm -f /tmp/go; mkfifo /tmp/go")
    with traffic.echoing(ends.passive, PORT):
        yield ends.active.start(f"exec python3 /tmp/client.py {ends.address} {LIMIT} <>/tmp/go")


def said(guest: Guest, client: Any, word: str) -> None:
    def told() -> bool:
        assert client.poll() is None or word in client.stdout(), client.stderr()
        return word in client.stdout()

    until(told, f"{guest.name}: {word}")


def silent(guest: Guest) -> int:
    return max(int(peer["silent_s"]) for peer in traffic.xway(guest, "peer"))


@contextmanager
def spinning(ends: Ends) -> Iterator[None]:
    """Have the kernel of g1 keep its CPU with interrupts off inside, for 30 s."""
    hung = ends.passive
    # It is not to complain of that.
    hung.run("sysctl -qw kernel.watchdog_thresh=60")
    hung.run("echo 120 >/sys/module/rcupdate/parameters/rcu_cpu_stall_timeout")
    module = hung.start("modprobe xway_spin_test seconds=30 && modprobe -r xway_spin_test")
    until(
        lambda: ends.active.run(f"ping -c 1 -W 1 {ends.address}", check=False).status != 0,
        "g1 answers nothing",
    )
    yield
    assert module.wait(60).status == 0


@pytest.mark.parametrize(
    "way", ["ring", *(pytest.param(way, marks=pytest.mark.deep) for way in ("tcp", "spins"))]
)
def test_hangs(machine: Machine, ends: Ends, client: Any, way: str) -> None:
    """A request, a poll, a write and a keepalive time out by either way; who has no limit loses nothing."""
    guest = ends.active
    said(guest, client, "open")
    if way == "tcp":
        guest.run("xway off --wait 30")
    else:
        conns = traffic.xway(guest, "conn")
        assert [(c["tx"], c["rx"]) for c in conns] == [("ring", "ring")] * 6, conns
    before = traffic.counters(guest)
    with spinning(ends) if way == "spins" else traffic.paused(machine.dom0, "g1"):
        guest.run("echo >/tmp/go")
        if way != "tcp":
            until(lambda: silent(guest) > 2, "the peer seen as silent")
            assert "silent" in guest.run("xway").stdout
        said(guest, client, "ended")
    done = client.wait(300)
    assert done.status == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    # A keepalive asks only who waits for nothing else.
    for name in ("patient", "alive"):
        assert found.pop(name)[0] == "request", name
    for name, (end, seconds) in found.items():
        assert end == errno.ETIMEDOUT, found
        # A peer that spins does so before the requests begin: keepalive has begun then.
        least = 0 if way == "spins" and name == "keepalive" else LIMIT / 2
        assert least < seconds < 4 * LIMIT, found
    moved = traffic.moved(before, traffic.counters(guest))
    if way != "tcp":
        # The writer's ring was full: it went on by TCP, and either of both may have ended it.
        assert 2 <= moved["timeouts"] <= 3 and moved["reason:stalled"] == 1, moved
        until(lambda: not silent(guest), "the peer seen to run")
        assert linked(guest) and not moved["links_down"]
    else:
        assert not moved["timeouts"] and not moved["tx_ring_bytes"], moved
    guest.run("xway on")


ALONE = """
import socket, sys, time
sock = socket.create_connection((sys.argv[1], 7000))
for _ in range(30):
    sock.sendall(b"0123456789")
    sock.recv(10, socket.MSG_WAITALL)
    time.sleep(0.02)
print("open", flush=True)
sys.stdin.readline()
begin = time.monotonic()
try:
    sock.sendall(b"request")
    print("got", sock.recv(64))
except OSError as error:
    print("ended", error.errno, time.monotonic() - begin)
"""


def test_limit_of_the_system(machine: Machine, ends: Ends) -> None:
    """A request without an option of its own ends as tcp_retries2 has it: here 31 times 200 ms."""
    guest = ends.active
    guest.write("/tmp/alone.py", ALONE)
    was = guest.read("/proc/sys/net/ipv4/tcp_retries2").strip()
    guest.run("sysctl -qw net.ipv4.tcp_retries2=4; rm -f /tmp/go; mkfifo /tmp/go")
    try:
        with traffic.echoing(ends.passive, PORT):
            client = guest.start(f"exec python3 /tmp/alone.py {ends.address} <>/tmp/go")
            said(guest, client, "open")
            assert [(c["tx"], c["rx"]) for c in traffic.xway(guest, "conn")] == [("ring", "ring")]
            with traffic.paused(machine.dom0, "g1"):
                guest.run("echo >/tmp/go")
                said(guest, client, "ended")
            _, code, seconds = client.wait(60).stdout.splitlines()[-1].split()
    finally:
        guest.run(f"sysctl -qw net.ipv4.tcp_retries2={was}")
    assert int(code) == errno.ETIMEDOUT and 5 < float(seconds) < 25, (code, seconds)


@contextmanager
def unnoticed(machine: Machine, guest: Guest) -> Iterator[None]:
    """Have g1 end while xwayd does not run, and see inside that it is found out; then bring both back."""
    machine.dom0.run("pkill -x xwayd; ! pgrep -x xwayd || sleep 1")
    machine.destroy_guest("g1")
    yield
    traffic.settled(guest)
    assert traffic.xway(guest, "show")["unrevoked"] == 0
    machine.dom0.run(traffic.START_XWAYD)
    machine.start_guest("g1")
    for one in (machine.guest("g1"), guest):
        until(lambda one=one: linked(one), f"link of {one.name}")


def test_ends_unnoticed(machine: Machine, ends: Ends, client: Any) -> None:
    """A peer that ends while xwayd does not run is found out by those that wait for it."""
    guest = ends.active
    said(guest, client, "open")
    with unnoticed(machine, guest):
        guest.run("echo >/tmp/go")
        until(lambda: not linked(guest), "the link gone", 60)
        done = client.wait(300)
        assert "ended" in done.stdout, done


@pytest.mark.deep
def test_ends_unused(machine: Machine, ends: Ends) -> None:
    """Nor does a link last because nobody waits for its peer."""
    with unnoticed(machine, ends.active):
        until(lambda: not linked(ends.active), "the link gone", 60)


def all_out(guest: Guest) -> None:
    """Wait until no connection of the guest is on a ring."""
    until(
        lambda: all(one["tx"] == one["rx"] == "tcp" for one in traffic.xway(guest, "conn")),
        "the connections left the rings",
        60,
    )


LEAVE = {
    # Not until nothing is attached: a sender sleeps in TCP's call as long as its peer is paused.
    "off": lambda dom0, guest: guest.run("xway off --wait 0", check=False),
    "policy": deny,
    "clear": clear,
    "save": lambda dom0, guest: dom0.run(traffic.saved(guest.name), timeout=400),
    "migrate": lambda dom0, guest: dom0.run(traffic.migrated(guest.name), timeout=400),
}


@contextmanager
def alone(machine: Machine, ends: Ends, way: str) -> Iterator[tuple[Any, Any]]:
    """Leave the rings of two streams while the peer is paused, as it is inside. Give the streams."""
    guest, dom0 = ends.active, machine.dom0
    before = traffic.counters(guest)
    streams = talk(ends, TALK_MOST)
    with traffic.paused(dom0, "g1"):
        LEAVE[way](dom0, guest)
        all_out(guest)
        moved = traffic.moved(before, traffic.counters(guest))
        assert moved["cuts"] >= 1 and not moved["violations"], moved
        yield streams


def left_alone(machine: Machine, ends: Ends, way: str) -> None:
    """Leave the rings while the peer is paused: the streams go on by TCP, then by rings, and lose no byte."""
    with alone(machine, ends, way) as streams:
        pass
    machine.dom0.run(AGAIN.get(way, "true"))
    ends.active.run("xway on")
    until(lambda: traffic.by_rings(ends.active, ends.passive), "the streams on rings again")
    enough(ends, *streams)
    rings_again(ends)


def rings_again(ends: Ends) -> None:
    """See that nothing is left of the old rings, and that new connections get new ones."""
    for one in (ends.passive, ends.active):
        traffic.settled(one)
        until(lambda one=one: linked(one), f"link of {one.name}")
    assert not traffic.xway(ends.active, "show")["unrevoked"]
    with traffic.measured(ends) as now:
        ends.stream(size=4 << 20, settle=60000)
    assert now.ring_share() > 0.9, now.seen()


@pytest.mark.parametrize(
    "way", ["save", *(pytest.param(way, marks=pytest.mark.deep) for way in ("off", "policy", "clear"))]
)
def test_left_alone(machine: Machine, ends: Ends, way: str) -> None:
    """A guest leaves the rings while its peer is paused."""
    left_alone(machine, ends, way)


# Debian's Xen cannot migrate PV guests live: it has no shadow paging.
@pytest.mark.rig(type="pvh", kernel="6.12", deep=True)
def test_migrates_alone(machine: Machine, ends: Ends) -> None:
    """A guest migrates while its peer is paused."""
    left_alone(machine, ends, "migrate")


@pytest.mark.deep
def test_unloaded(machine: Machine, ends: Ends) -> None:
    """While the peer is paused the module says that it is in use. Then it goes, in mid-stream."""
    guest = ends.active
    with alone(machine, ends, "off") as (a, b):
        refused = guest.run("modprobe -r xway", check=False)
        assert refused.status and "in use" in refused.stderr, refused
    guest.run("xway off && modprobe -r xway xway_core", timeout=60)
    assert a.poll() is None and b.poll() is None, "the streams ended before the module was gone"
    enough(ends, a, b)
    assert "xway_core" not in guest.run("lsmod").stdout
    until(lambda: not linked(ends.passive), "the link gone")
    guest.run("modprobe xway; xway on")
    rings_again(ends)
