"""Transport "local": both ends of a connection in one kernel, without Xen."""

import json
import socket
from collections.abc import Iterator

import pytest

from rig.guest import Guest
from tests import traffic
from tests.traffic import Ends

MODES = ["block", "poll", "epoll"]
FAMILIES = {"ipv4": "127.0.0.1", "ipv6": "::1"}
# tests/uml has streams by both in every mode, and switches them.
EACH_FAMILY = pytest.mark.parametrize("family", ["ipv4", pytest.param("ipv6", marks=pytest.mark.deep)])


@pytest.fixture
def local(guest: Guest) -> Iterator[Ends]:
    guest.run("modprobe xway; xway on; xway local add 127.0.0.0/8; xway local add ::1/128")
    ends = Ends(guest, guest, "127.0.0.1")
    ends.put()
    yield ends
    guest.run("xway off; modprobe -r xway", check=False)


@EACH_FAMILY
@pytest.mark.parametrize("passive", MODES)
@pytest.mark.parametrize("active", MODES)
def test_streams(local: Ends, family: str, passive: str, active: str) -> None:
    local.address = FAMILIES[family]
    before = traffic.counters(local.passive)
    local.stream(passive=passive, active=active, size=4 << 20, conns=4, at_once=2, pause=2, settle=60000)
    traffic.settled(local.passive)
    now = traffic.moved(before, traffic.counters(local.passive))
    assert now["violations"] == 0
    assert now["tx_ring_bytes"] == now["rx_ring_bytes"]
    assert now["channels"] == 8, now
    assert now["tx_ring_bytes"] > 0.9 * (8 * (4 << 20)), now


def test_one_after_another(local: Ends) -> None:
    before = traffic.counters(local.passive)
    local.stream(size=30000, conns=1000, at_once=1, max=4000, settle=60000)
    traffic.settled(local.passive)
    now = traffic.moved(before, traffic.counters(local.passive))
    assert now["channels"] == 2000, now


def test_at_once(local: Ends) -> None:
    before = traffic.counters(local.passive)
    local.stream(passive="poll", active="epoll", size=30000, conns=500, at_once=500, max=4000, settle=60000)
    traffic.settled(local.passive)
    now = traffic.moved(before, traffic.counters(local.passive))
    assert now["channels"] == 1000, now


@EACH_FAMILY
@pytest.mark.parametrize("mode", MODES)
def test_off_and_on_in_mid_stream(local: Ends, family: str, mode: str) -> None:
    local.address = FAMILIES[family]
    now = traffic.toggling(
        local, local.passive, passive=mode, active="block", size=16 << 20, conns=4, at_once=4
    )
    assert now["violations"] == 0


def test_nothing_is_left_and_the_module_unloads(local: Ends) -> None:
    local.stream(size=1 << 20, conns=8, at_once=8)
    local.passive.run("xway off --wait 10")
    state = traffic.xway(local.passive, "show")
    assert state["connections"] == 0 and state["channels"] == 0, state
    local.passive.run("modprobe -r xway")
    assert not local.passive.run("grep -w ^xway /proc/modules", check=False).stdout


CORKED = r"""
import socket, threading
listener = socket.create_server(("127.0.0.1", 6001))
def serve():
    s, _ = listener.accept()
    s.recv(1)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    for i in range(256):
        s.sendall(bytes([i]) * 32767)
    s.close()
threading.Thread(target=serve).start()
s = socket.create_connection(("127.0.0.1", 6001))
s.sendall(b"x")
assert b"".join(iter(lambda: s.recv(65536), b"")) == b"".join(bytes([i]) * 32767 for i in range(256))
"""


def test_corked_stream_goes_by_ring(local: Ends) -> None:
    """As nginx sends with tcp_nopush: a tail is always held back."""
    before = traffic.counters(local.passive)
    local.passive.run(["python3", "-c", CORKED])
    traffic.settled(local.passive)
    now = traffic.moved(before, traffic.counters(local.passive))
    assert now["tx_ring_bytes"] > 0.5 * 256 * 32767, now


STALLING = (
    traffic.RINGS
    + traffic.ECHOED
    + r"""
import sys, time
SIZE = 3 << 20  # more than the rings of both directions hold, less than TCP takes
s = echoed(6002)
def echo(data):
    s.sendall(data)
    got = 0
    while got < len(data):
        part = s.recv(65536)
        assert part == data[got:got + len(part)], got
        got += len(part)
data = bytes(range(256)) * (SIZE >> 8)
took = []
for turn in range(int(sys.argv[1])):
    end = time.monotonic() + 60
    while sys.argv[2] == "ring" and rings() < 2:  # both ends
        assert time.monotonic() < end, "no ring"
        for _ in range(20):
            echo(b"small")
        time.sleep(0.1)
    began = time.monotonic()
    echo(data)
    took.append(time.monotonic() - began)
print(json.dumps(took))
"""
)


def test_a_stall_is_paid_once(local: Ends) -> None:
    """Each end waits for the other to read, again and again. Only the first time takes a second."""
    guest = local.passive
    before = traffic.counters(guest)
    first, *later = json.loads(guest.run(["python3", "-c", STALLING, "4", "ring"], timeout=300).stdout)
    traffic.settled(guest)
    now = traffic.moved(before, traffic.counters(guest))
    guest.run("xway off --wait 10")
    by_tcp = max(json.loads(guest.run(["python3", "-c", STALLING, "4", "tcp"], timeout=300).stdout))
    assert now["reason:stalled"] >= 4, now  # at one end or at both
    assert first >= 1, (first, later, by_tcp)
    assert max(later) < by_tcp + 0.7, (first, later, by_tcp)


SLEEPER = (
    traffic.ECHOED
    + r"""
import sys, time
s = echoed(6000, int(sys.argv[2]))
def echo(data):
    s.sendall(data)
    assert s.recv(len(data), socket.MSG_WAITALL) == data
for i in range(50):
    echo(b"x" * 1000)
time.sleep(float(sys.argv[1]))
echo(b"y" * 100)
print("done", flush=True)
"""
)


@pytest.mark.parametrize("protocol", ["tcp", "mptcp"])
def test_module_unloads_while_connections_stay_open(local: Ends, protocol: str) -> None:
    """A reader asleep in recv() does not keep the module: its connection goes on over TCP."""
    guest = local.passive
    guest.write("/tmp/sleeper.py", SLEEPER)
    number = socket.IPPROTO_TCP if protocol == "tcp" else socket.IPPROTO_MPTCP
    program = guest.start(f"exec python3 /tmp/sleeper.py 20 {number}")
    guest.run("for i in $(seq 1000); do xway -j conn | grep -q ring && exit 0; sleep 0.05; done; exit 1")
    guest.run("xway off --wait 5")
    guest.run("modprobe -r xway")
    assert not guest.run("grep -w ^xway /proc/modules", check=False).stdout
    done = program.wait(300)
    assert "done" in done.stdout, done.stderr


# The kernel listens by a socket of its own, and carries the bytes by TCP as the client knows no SMC.
SMC = r"""
import socket
AF_SMC = 43
listener = socket.socket(AF_SMC, socket.SOCK_STREAM, 0)
active = socket.socket()
sockaddr = socket.socket(fileno=socket.dup(listener.fileno()), family=socket.AF_INET, type=socket.SOCK_STREAM)
sockaddr.bind(("127.0.0.1", 6011))
sockaddr.listen()
active.connect(("127.0.0.1", 6011))
passive = sockaddr.accept()[0]
for _ in range(200):
    for one, other in (active, passive), (passive, active):
        one.sendall(b"x" * 1000)
        assert len(other.recv(1000, socket.MSG_WAITALL)) == 1000
"""


def test_a_child_with_a_callback_that_is_not_known_is_left_alone(local: Ends) -> None:
    """It has its listener's callback, and nobody knows what that reads."""
    guest = local.passive
    guest.run("modprobe smc")
    before = traffic.counters(guest)
    guest.run(["timeout", "60", "python3", "-c", SMC])
    traffic.settled(guest)
    now = traffic.moved(before, traffic.counters(guest))
    guest.run("modprobe -r smc", check=False)
    # The end of the client is attached from its connect() on.
    assert now["reason:kernel-socket"] == 1 and now["channels"] == 0, now
    assert now["attached"] == 1 and now["detached"] == 0, now
    assert now["tx_ring_bytes"] == 0 and now["tx_tcp_bytes"] >= 200 * 1000, now


# Connections that a listener which knows MPTCP has not accepted belong to the kernel, and have no file.
UNACCEPTED = """
import json, socket, subprocess, time
subprocess.run(["xway", "off"], check=True)
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)  # IPPROTO_MPTCP
listener.bind(("127.0.0.1", 6003))
listener.listen()
ends = [socket.create_connection(("127.0.0.1", 6003)) for _ in range(4)]
subprocess.run(["xway", "on"], check=True)
shown = 0
for _ in range(30):
    told = subprocess.run(["xway", "-j", "conn", "--all"], capture_output=True, check=True).stdout
    shown = max(shown, sum(one["state"] == "not-attached" for one in json.loads(told)))
    time.sleep(0.1)
for end in ends:
    child = listener.accept()[0]
    end.sendall(b"x")
    assert child.recv(1) == b"x"
print(shown)
"""


def test_unaccepted_are_shown(local: Ends) -> None:
    """Who lists the connections that are not attached may find some that nobody has accepted."""
    done = local.passive.run(["python3", "-c", UNACCEPTED], timeout=120)
    assert int(done.stdout.split()[-1]) > 0, done
    traffic.settled(local.passive)


CROWD = r"""
import hashlib, json, socket, subprocess, sys, threading, time
slow = sys.argv[1:] == ["slow"]
def xway(what):
    return json.loads(subprocess.run(["xway", "-j", what], capture_output=True, check=True).stdout)
def used():
    return xway("show")["pages_used"]
def grown():
    return xway("stats")["fallbacks"]["larger-ring"]
def ring():
    return xway("stats")["stats"]["tx_ring_bytes"]
listener = socket.create_server(("127.0.0.1", 6002), backlog=128)
pairs = []
for _ in range(80):
    a = socket.create_connection(("127.0.0.1", 6002))
    pairs.append((a, listener.accept()[0]))
    for _ in range(6):
        for one, other in (pairs[-1], pairs[-1][::-1]):
            one.sendall(b"x")
            assert other.recv(1) == b"x"
end = time.monotonic() + 30
while xway("show")["channels"] < 160 and time.monotonic() < end:
    time.sleep(0.1)
a, b = pairs.pop()
for pair in pairs:
    for one in pair:
        one.close()
while xway("show")["channels"] > 2 and time.monotonic() < end:
    time.sleep(0.1)
told = {"before": used()}
grown_before, ring_before = grown(), ring()
got = hashlib.sha256()
def read():
    while block := b.recv(65536):
        got.update(block)
        if slow:
            time.sleep(0.01)
reader = threading.Thread(target=read)
reader.start()
sent, n, end = hashlib.sha256(), 0, time.monotonic() + (25 if slow else 60)
after = 0
while time.monotonic() < end and after < 256:
    for _ in range(8 if slow else 64):
        block = n.to_bytes(8, "big") * 16384
        a.sendall(block)
        sent.update(block)
        n += 1
    # To look takes a while, in which the ring is read empty.
    if not slow and grown() > grown_before:
        after = used()
told |= {"after": after, "grown": grown() - grown_before, "blocks": n}
a.close()
reader.join()
b.close()
while xway("show")["connections"]:
    time.sleep(0.1)
told["ring"] = (ring() - ring_before) / (n * 131072)
print(json.dumps({**told, "same": sent.digest() == got.digest()}))
"""


def test_a_ring_grows_when_others_are_gone(local: Ends) -> None:
    """One of many has a small ring; alone and full again and again, it gets a large one in mid-stream."""
    done = local.passive.run(["python3", "-c", CROWD], timeout=300)
    seen = json.loads(done.stdout)
    assert seen["same"] and seen["grown"] == 1, seen
    # Both ends had 64 KiB; who sends now has 1 MiB.
    assert 2 * 16 < seen["before"] <= 2 * 17 and seen["after"] > 256, seen
    assert seen["ring"] > 0.5, seen
    traffic.settled(local.passive)
    assert traffic.counters(local.passive)["violations"] == 0


def test_a_ring_that_only_its_reader_holds_up_does_not_grow(local: Ends) -> None:
    """A larger one would be as full, and the way to it is by TCP."""
    done = local.passive.run(["python3", "-c", CROWD, "slow"], timeout=300)
    seen = json.loads(done.stdout)
    assert seen["same"] and seen["blocks"] > 200 and not seen["grown"], seen
    assert 2 * 16 < seen["before"] <= 2 * 17 and seen["ring"] > 0.99, seen
    traffic.settled(local.passive)


TALKER = (
    traffic.ECHOED
    + r"""
import subprocess, time
s = echoed(6000)
def echo():
    s.sendall(b"x" * 100)
    assert len(s.recv(100, socket.MSG_WAITALL)) == 100
end = time.monotonic() + 8
while time.monotonic() < end:
    echo()
    time.sleep(0.02)
subprocess.run(["xway", "off", "--wait", "5"], check=True)
echo()
"""
)


@pytest.fixture
def forgetful_firewall(guest: Guest) -> Iterator[None]:
    """A firewall that forgets a silent connection after three seconds, and takes up none in its middle."""
    keys = ("tcp_timeout_established=3", "tcp_loose=0")
    guest.run(
        "modprobe nf_conntrack; nft -f - && sysctl -qw"
        + " ".join(f" net.netfilter.nf_conntrack_{k}" for k in keys),
        stdin=b"table ip xway { chain in { type filter hook input priority 0;"
        b" tcp sport 6000 ct state invalid drop; tcp dport 6000 ct state invalid drop; }; }\n",
    )
    yield
    guest.run("nft flush ruleset; sysctl -qw net.netfilter.nf_conntrack_tcp_loose=1")


def test_a_firewall_knows_a_connection_that_uses_the_ring(guest: Guest, forgetful_firewall: None) -> None:
    """TCP is silent meanwhile, and is needed again in the end."""
    guest.write("/tmp/talker.py", TALKER)
    guest.run("xway off; modprobe -r xway; modprobe xway keepalive_ack_s=1; xway local add 127.0.0.0/8")
    before = traffic.counters(guest)
    guest.run("timeout 40 python3 /tmp/talker.py")
    now = traffic.moved(before, traffic.counters(guest))
    assert now["keepalive_acks"] > 3 and now["tx_ring_bytes"] > 10000, now
    guest.run("xway off; modprobe -r xway")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("local add 10.0.0.1/8", "bits"),
        ("local add 10.0.0.0/33", "33"),
        ("local add nonsense", "nonsense"),
        ("local del 192.0.2.0/24", "prefix"),
        ("local add 127.0.0.0/8", "already"),
    ],
)
def test_bad_input_changes_nothing(local: Ends, words: str, complaint: str) -> None:
    before = traffic.xway(local.passive, "peer")
    done = local.passive.run(f"xway {words}", check=False)
    assert done.status in (1, 2) and complaint in done.stderr, done
    assert json.dumps(traffic.xway(local.passive, "peer")) == json.dumps(before)
