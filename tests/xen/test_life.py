"""Domains come and go; xwayd restarts."""

import errno
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rig import pace
from rig.guest import Guest
from rig.machine import Machine
from tests import traffic
from tests.mmnet import allow
from tests.traffic import Ends, linked, until

MIB = 1 << 20

pytestmark = pytest.mark.rig(type="pv", kernel="6.12")


TALK = r"""
import hashlib, os, socket, sys, threading, time
role, host, seconds, unit = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
if role == "listen":
    c, _ = socket.create_server((host, 6100), reuse_port=True).accept()
else:
    c = socket.create_connection((host, 6100))
sent, got = hashlib.sha256(), hashlib.sha256()
def send():
    block, end, n = bytes(range(256)) * 64, time.monotonic() + seconds, 0
    while time.monotonic() < end and not os.path.exists("/tmp/talk.enough"):
        part = block[n % 256 : n % 256 + unit * (1 + n % (16000 // unit))]
        c.sendall(part)
        sent.update(part)
        n += 1
        if n % 8 == 0: time.sleep(0.02)
    c.shutdown(socket.SHUT_WR)
t = threading.Thread(target=send)
t.start()
total = 0
try:
    while True:
        b = c.recv(65536)
        if not b: break
        got.update(b)
        total += len(b)
    t.join()
    print(total, sent.hexdigest(), got.hexdigest())
except OSError as e:
    print("error", e.errno, flush=True)
"""


def begin_talk(ends: Ends, seconds: float, unit: int = 1) -> tuple:
    """Both ends send for some time, or until there has been enough; returns the programs, connected.

    unit: of which each call sends a multiple, in bytes
    """
    for guest in (ends.passive, ends.active):
        guest.write("/tmp/talk.py", TALK)
        guest.run("rm -f /tmp/talk.enough")
    a = ends.passive.start(f"exec python3 /tmp/talk.py listen {ends.address} {seconds} {unit}")
    ends.passive.run(
        "for i in $(seq 1000); do ss -Hltn sport = :6100 | grep -q . && exit 0; sleep 0.1; done; exit 1"
    )
    b = ends.active.start(f"exec python3 /tmp/talk.py connect {ends.address} {seconds} {unit}")
    ends.active.run("until ss -Htn state established dport = :6100 | grep -q .; do sleep 0.1; done")
    return a, b


def talk(ends: Ends, seconds: float, unit: int = 1) -> tuple:
    """Begin to talk, and wait until it goes by ring."""
    a, b = begin_talk(ends, seconds, unit)
    until(lambda: traffic.by_rings(ends.active), "the connection on the ring")
    return a, b


def same(a, b) -> None:
    one, two = a.wait(300), b.wait(300)
    _, sent1, got1 = one.stdout.split()
    _, sent2, got2 = two.stdout.split()
    assert sent1 == got2 and sent2 == got1, (one, two)


def test_xwayd_restarts_unnoticed(machine: Machine, ends: Ends) -> None:
    a, b = talk(ends, TALK_MOST)
    down = traffic.counters(ends.active)["links_down"]
    machine.dom0.run(f"pkill -x xwayd; sleep 0.5; {traffic.START_XWAYD}")
    until(lambda: not machine.dom0.run("pgrep -x xwayd", check=False).status, "xwayd")
    time.sleep(pace.limit(5))  # in which it says all that it says
    enough(ends, a, b)
    assert linked(ends.active) and linked(ends.passive)
    assert traffic.counters(ends.active)["links_down"] == down


TALK_MOST = 1200  # seconds that a talk may last


def moved_since(before: list[dict[str, int]], ends: Ends) -> list[dict[str, int]]:
    guests = (ends.active, ends.passive)
    return [traffic.moved(was, traffic.counters(guest)) for was, guest in zip(before, guests, strict=True)]


def by_ring(ends: Ends, before: list[dict[str, int]], times: int) -> None:
    """Wait until each end has switched to the ring so many times since then, and sees it used."""
    until(
        lambda: all(now["switched_to_ring"] >= times for now in moved_since(before, ends)),
        "the connection on the ring again",
    )
    here = [traffic.counters(guest) for guest in (ends.active, ends.passive)]
    until(
        lambda: all(now["tx_ring_bytes"] and now["rx_ring_bytes"] for now in moved_since(here, ends)),
        "bytes by ring",
    )


def enough(ends: Ends, a, b) -> None:
    """End a talk, and see that all bytes came."""
    for guest in (ends.active, ends.passive):
        guest.run("touch /tmp/talk.enough")
    same(a, b)


def goes_on(ends: Ends, change: Callable[[], object]) -> None:
    """An open connection outlives a change: it parks, goes on by TCP, and gets a ring again."""
    before = [traffic.counters(guest) for guest in (ends.active, ends.passive)]
    a, b = talk(ends, TALK_MOST)
    by_ring(ends, before, 1)
    change()
    by_ring(ends, before, 2)
    enough(ends, a, b)
    now = moved_since(before, ends)
    assert any(one["reason:link-down"] for one in now), now
    assert all(one["detached"] == 0 for one in now), now
    until(lambda: linked(ends.active) and linked(ends.passive), "the links again")
    with traffic.measured(ends) as now:
        ends.stream(size=4 * MIB, settle=60000)
    assert now.ring_share() > 0.9, now.seen()


# Ends a guest's kernel by its own fault. The domain stays, as its configuration has it.
CRASH = "sleep 0.3; echo c >/proc/sysrq-trigger"


@pytest.mark.parametrize("way", ["destroyed", "crashed"])
def test_peer_ends(machine: Machine, ends: Ends, way: str) -> None:
    """Its connections end with a reset, nothing of it stays mapped, a new one links up."""
    guest, dead = ends.active, ends.passive
    before = traffic.counters(guest)
    if way == "destroyed":
        _, program = talk(ends, 300)
        machine.destroy_guest(dead.name)
    else:
        # Here it is the end that has called connect().
        program, _ = talk(Ends(guest, dead, guest.ip4), 300)
        dead.start(CRASH)
    done = program.wait(300)
    # One of its two threads gets the reset, the other the end.
    assert f"error {errno.ECONNRESET}" in done.stdout or "ConnectionResetError" in done.stderr, done
    until(lambda: not linked(guest), "the link gone")
    traffic.settled(guest)
    if way == "crashed":
        # What remains of the domain still maps the pages that it had.
        machine.destroy_guest(dead.name)
    until(lambda: not traffic.xway(guest, "show")["unrevoked"], "all pages back")
    # Which of the two depends on what is heard of first: the domain's end, or that it is no peer any more.
    assert {"peer-gone", "link-down"} & set(traffic.since(before, guest))
    machine.start_guest(dead.name)
    again = Ends(machine.guest(dead.name), guest, ends.address)
    until(lambda: linked(again.active) and linked(again.passive), "the new link")
    again.put()
    with traffic.measured(again) as moved:
        again.stream(size=4 * MIB, settle=60000)
    assert moved.ring_share() > 0.9, moved.seen()


# Has a guest's kernel start another in its place, at its call or when it fails.
KEXEC = """
import ctypes, os, sys, time
LOAD, ON_CRASH, REBOOT, BY_KEXEC = 320, 2, 169, 0x45584543
call, crash = ctypes.CDLL(None, use_errno=True).syscall, sys.argv[1] == "kdump"
files = [os.open("/tmp/" + name, os.O_RDONLY) for name in ("vmlinuz", "initrd")]
dropped = ("BOOT_", "crashkernel") if crash else ("BOOT_",)
words = [word for word in open("/proc/cmdline").read().split() if not word.startswith(dropped)]
line = " ".join([*words, "again"]).encode() + bytes(1)
if call(LOAD, *files, len(line), line, ON_CRASH if crash else 0):
    sys.exit(os.strerror(ctypes.get_errno()))
time.sleep(0.3)
if crash:
    open("/proc/sysrq-trigger", "w").write("c")
call(REBOOT, 0xfee1dead, 672274793, BY_KEXEC, 0)
"""


# Of the others Xen has no such restart that leaves the domain what it is.
@pytest.mark.parametrize("way", ["kexec", "kdump"])
@pytest.mark.rig(host="13", type="hvm", arguments="crashkernel=160M", deep=True)
@pytest.mark.rig(host="12", type="hvm", arguments="crashkernel=160M", deep=True)
def test_another_kernel_in_the_same_domain(machine: Machine, ends: Ends, way: str, tmp_path: Path) -> None:
    """Connections end with a reset, and the new kernel links up; that of a dump does not."""
    dom0, dead, guest = machine.dom0, ends.passive, ends.active
    for name in ("vmlinuz", "initrd"):
        dom0.get(f"/rig/boot/{name}-6.12", tmp_path / name)
        dead.put(tmp_path / name, f"/tmp/{name}")
    dead.write("/tmp/kexec.py", KEXEC)
    was, before = dom0.run(["xl", "domid", dead.name]).stdout, traffic.counters(guest)
    _, program = talk(ends, 300)
    dead.start(f"exec python3 /tmp/kexec.py {way}")
    done = program.wait(300)
    assert f"error {errno.ECONNRESET}" in done.stdout or "ConnectionResetError" in done.stderr, done
    until(lambda: not linked(guest), "the link gone")
    traffic.settled(guest)
    assert {"peer-gone", "link-down"} & set(traffic.since(before, guest))
    machine.load_guest(dead.name)
    assert dead.read("/proc/cmdline").split()[-1] == "again"
    assert dom0.run(["xl", "domid", dead.name]).stdout == was
    if way == "kdump":  # the kernel that has crashed could not let go of the pages, and nobody else can
        assert traffic.xway(guest, "show")["unrevoked"]
        machine.destroy_guest(dead.name)
        until(lambda: not traffic.xway(guest, "show")["unrevoked"], "all pages back")
        machine.start_guest(dead.name)
    assert not traffic.xway(guest, "show")["unrevoked"]
    until(lambda: linked(guest) and linked(dead), "the new link")
    ends.put()
    with traffic.measured(ends) as moved:
        ends.stream(size=4 * MIB, settle=60000)
    assert moved.ring_share() > 0.9, moved.seen()


CHURN = """
import collections, errno, json, os, random, socket, sys, threading, time
host, port, number, limit = sys.argv[1], *map(int, sys.argv[2:])
fared = collections.Counter()
def one():
    with socket.socket() as sock:
        if limit:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * limit)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, limit // 4)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, limit // 4)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            sock.connect((host, port))
        except OSError as error:
            # So says ARP after three seconds, however TCP would go on
            if error.errno != errno.EHOSTUNREACH:
                raise
            time.sleep(0.2)
            return "away"
        for _ in range(random.choice((0, 1, 2, 40))):
            text = os.urandom(random.choice((1, 100, 5000, 50000)))
            sock.sendall(text)
            got = sock.recv(len(text), socket.MSG_WAITALL)
            if got != text[: len(got)]:
                return "bytes"
            if len(got) < len(text):
                return "end"
        if random.random() < 0.3:
            sock.shutdown(socket.SHUT_WR)
            if sock.recv(1):
                return "bytes"
    return "well"
def churn():
    while not os.path.exists("/tmp/churn.enough"):
        try:
            fared[one()] += 1
        except OSError as error:
            fared[errno.errorcode.get(error.errno, repr(error))] += 1
            # So as not to try thousands of times while nobody is there
            threading.Event().wait(0.2)
threads = [threading.Thread(target=churn) for _ in range(number)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps(fared))
"""
# What TCP may say when the other end is gone
GONE = {"away", "end", "ECONNRESET", "EPIPE", "ETIMEDOUT", "EHOSTUNREACH", "ECONNREFUSED"}


@pytest.mark.parametrize("way", ["save", "destroy", pytest.param("reboot", marks=pytest.mark.deep)])
def test_amid_connections_that_come_and_go(machine: Machine, ends: Ends, way: str) -> None:
    """At any moment of their lives: some are set up, some send, some close."""
    guest = ends.active
    guest.write("/tmp/churn.py", CHURN)
    guest.run("rm -f /tmp/churn.enough")
    before = traffic.counters(guest)
    limit = 0 if way == "save" else 20  # seconds: nobody else ends a connection to one that is gone
    with traffic.echoing(ends.passive, 6200):
        program = guest.start(f"exec python3 /tmp/churn.py {ends.address} 6200 20 {limit}")
        until(lambda: traffic.moved(before, traffic.counters(guest))["channels"] > 20, "rings")
        if way == "save":
            machine.dom0.run(traffic.saved("g1"), timeout=400)
            now = traffic.counters(guest)
            until(lambda: traffic.moved(now, traffic.counters(guest))["channels"] > 10, "rings again")
        elif way == "destroy":
            machine.destroy_guest("g1")
        else:
            ends.passive.start("sleep 0.3; exec /rig/busybox reboot -f")
            until(lambda: not machine.has_guest("g1"), "g1 gone")
        until(lambda: way == "save" or not linked(guest), "the link gone")
        guest.run("touch /tmp/churn.enough")
        done = program.wait(300)
        if way != "save":
            machine.start_guest("g1")
    assert done.status == 0, done.stderr
    fared = json.loads(done.stdout)
    print(fared)
    assert fared.pop("well") > 10, fared
    if way == "save":
        fared.pop("away", 0)
    assert not fared if way == "save" else fared and fared.keys() <= GONE, fared
    moved = traffic.moved(before, traffic.counters(guest))
    assert moved["tx_ring_bytes"] > 100_000 and not moved["violations"], moved
    traffic.settled(guest)
    assert not traffic.xway(guest, "show")["unrevoked"]
    again = Ends(machine.guest("g1"), guest, ends.address)
    until(lambda: linked(again.active) and linked(again.passive), "the link")
    again.put()
    with traffic.measured(again) as seen:
        again.stream(size=MIB, settle=60000)
    assert seen.ring_share() > 0.9, seen.seen()


def test_save_and_restore(machine: Machine, ends: Ends) -> None:
    goes_on(ends, lambda: machine.dom0.run(traffic.saved("g1"), timeout=400))


@pytest.mark.deep
def test_checkpoint(machine: Machine, ends: Ends) -> None:
    """The guest is saved, and runs on as the domain that it is."""
    goes_on(ends, lambda: machine.dom0.run("xl save -c g1 /dev/null", timeout=400))


def deny(dom0: Guest, guest: Guest) -> None:
    """Change the policy: nobody may talk to anybody."""
    dom0.run("cp /etc/xway/xwayd.conf /tmp/allowed && echo >/etc/xway/xwayd.conf && pkill -HUP -x xwayd")
    until(lambda: not linked(guest), "the link gone", 60)


def clear(dom0: Guest, guest: Guest) -> None:
    """Stop xwayd and take all back that it has said."""
    dom0.run("pkill -x xwayd; ! pgrep -x xwayd || sleep 1; xwayd --clear")
    until(lambda: not linked(guest), "the link gone", 60)


AGAIN = {
    "policy": "cp /tmp/allowed /etc/xway/xwayd.conf && pkill -HUP -x xwayd",
    "clear": traffic.START_XWAYD,
}


@pytest.mark.parametrize("way", ["policy", pytest.param("clear", marks=pytest.mark.deep)])
def test_policy_off_and_on(machine: Machine, ends: Ends, way: str) -> None:
    """Nobody may talk for a while: so says the policy, or nobody says that anybody may."""

    def off_and_on() -> None:
        (deny if way == "policy" else clear)(machine.dom0, ends.active)
        machine.dom0.run(AGAIN[way])

    goes_on(ends, off_and_on)


@pytest.mark.parametrize("which", ["passive", "active"])
def test_off_and_on(ends: Ends, which: str) -> None:
    """An open connection goes on by TCP while one guest has sockets turned off, and gets a ring again."""
    guest = getattr(ends, which)
    before = [traffic.counters(one) for one in (ends.active, ends.passive)]
    a, b = talk(ends, TALK_MOST)
    by_ring(ends, before, 1)
    guest.run("xway off --wait 60")
    was = [traffic.counters(one) for one in (ends.active, ends.passive)]
    time.sleep(3)  # the other end asks meanwhile
    now = moved_since(was, ends)
    assert not any(one["tx_ring_bytes"] or one["detached"] for one in now), now
    guest.run("xway on")
    by_ring(ends, was, 1)
    enough(ends, a, b)


def test_link_comes_up_after_connect(machine: Machine, ends: Ends) -> None:
    """A connection that begins while the peer is listed and has no link yet waits, and gets a ring."""
    dom0, guests = machine.dom0, (ends.active, ends.passive)
    ids = [dom0.run(["xl", "domid", guest.name]).stdout.strip() for guest in guests]
    dom0.run("pkill -STOP -x xwayd")
    try:
        for one, other in (ids, ids[::-1]):
            dom0.run(["xenstore-rm", f"/local/domain/{one}/xway/link/{other}"])
        ends.passive.run("xway off --wait 20 && modprobe -r xway && modprobe xway && xway on")
        until(lambda: not linked(ends.active) and not linked(ends.passive), "the links gone")
        before = [traffic.counters(guest) for guest in guests]
        a, b = begin_talk(ends, TALK_MOST)
        for guest in guests:
            until(
                lambda guest=guest: any(
                    (c["state"], c.get("reason")) == ("waiting", "link-down")
                    for c in traffic.xway(guest, "conn")
                ),
                "the connection, which waits",
            )
        assert not any(now["switched_to_ring"] for now in moved_since(before, ends))
    finally:
        dom0.run("pkill -CONT -x xwayd")
    by_ring(ends, before, 1)
    enough(ends, a, b)
    assert all(one["detached"] == 0 for one in moved_since(before, ends))


@pytest.mark.parametrize("which", ["passive", "active"])
def test_older_than_the_module(ends: Ends, which: str) -> None:
    """A connection that began before the module was loaded in one guest; then this one's is exchanged."""
    guests = (ends.active, ends.passive)
    guest: Guest = getattr(ends, which)
    traffic.unload(guest)
    a, b = begin_talk(ends, TALK_MOST)
    for _ in range(2):
        guest.run("modprobe xway && xway on")
        until(lambda: traffic.by_rings(*guests), "the connection on the ring")
        was = [traffic.counters(one) for one in guests]
        assert was[guests.index(guest)]["adopted"], was
        until(
            lambda was=was: all(
                traffic.moved(then, traffic.counters(one))["rx_ring_bytes"] > 10_000
                for then, one in zip(was, guests, strict=True)
            ),
            "bytes by ring",
        )
        guest.run("xway off --wait 60 && modprobe -r xway")
    guest.run("modprobe xway && xway on")
    enough(ends, a, b)


@pytest.mark.parametrize("which", ["passive", "active"])
def test_sockets_come_later_than_the_link(ends: Ends, which: str) -> None:
    """A guest has the core alone, as for MMNet, when a connection begins. That for sockets comes later."""
    guests = (ends.active, ends.passive)
    guest: Guest = getattr(ends, which)
    traffic.unload(guest)
    guest.run("modprobe xway_core")
    until(lambda: all(traffic.linked(one) for one in guests), "the link")
    a, b = begin_talk(ends, TALK_MOST)
    until(lambda: all(traffic.xway(one, "conn") for one in guests if one is not guest), "its other end")
    time.sleep(2)  # in which the accepting end asks, if it is that one
    guest.run("modprobe xway && xway on")
    until(lambda: traffic.by_rings(*guests), "the connection on the ring")
    enough(ends, a, b)


# Debian's Xen cannot migrate PV guests live: it has no shadow paging.
@pytest.mark.rig(type="pvh", kernel="6.12")
def test_live_migration(machine: Machine, ends: Ends) -> None:
    goes_on(ends, lambda: machine.dom0.run(traffic.migrated("g1"), timeout=400))


# Sends from memory that nobody ever fills in, or receives into such memory. Or has IP read an option
# from it: such a call keeps its socket's lock for ever.
STUCK = """
import ctypes, fcntl, mmap, os, socket, struct, sys, time
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
for _ in range(100):
    sock.sendall(b"0123456789")
    assert sock.recv(10, socket.MSG_WAITALL)
    time.sleep(0.01)
size = 1 << 20
memory = mmap.mmap(-1, size)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
faults = ctypes.CDLL(None).syscall(323, os.O_CLOEXEC)  # userfaultfd
fcntl.ioctl(faults, 0xC018AA3F, struct.pack("QQQ", 0xAA, 0, 0))  # UFFDIO_API
fcntl.ioctl(faults, 0xC020AA00, bytearray(struct.pack("QQQQ", address, size, 1, 0)))  # UFFDIO_REGISTER
print("stuck", flush=True)
if sys.argv[3] == "option":
    where = ctypes.c_void_p(address)
    ctypes.CDLL(None).setsockopt(sock.fileno(), socket.IPPROTO_IP, socket.IP_OPTIONS, where, 40)
if sys.argv[3] == "send":
    sock.send(memoryview(memory))
sock.sendall(b"0123456789")
sock.recv_into(memoryview(memory))
"""


@pytest.mark.parametrize("call", ["send", "receive"])
def test_a_call_that_hangs_holds_up_nobody(ends: Ends, call: str) -> None:
    """A call whose memory is never there keeps no ring, not even its own."""
    guest = ends.active
    guest.write("/tmp/stuck.py", STUCK)
    with traffic.echoing(ends.passive, 7400):
        before = traffic.counters(guest)
        stuck = guest.start(f"exec python3 /tmp/stuck.py {ends.passive.ip4} 7400 {call}")
        try:
            until(lambda: "stuck" in stuck.stdout(), "a call that waits for its memory")
            # The last ten bytes are there, and nobody takes them.
            until(
                lambda: traffic.moved(before, traffic.counters(guest))["tx_ring_bytes"] > 100,
                "bytes by ring",
            )
            time.sleep(1)
            guest.run("xway off", check=False)  # status 3: a call is in there
            until(lambda: not traffic.xway(guest, "show")["channels"], "the end of its channel", 20)
            assert stuck.poll() is None, stuck.stderr()
        finally:
            stuck.kill()
            guest.run("xway on")
    until(lambda: linked(guest), "the link")
    with traffic.measured(ends) as moved:
        ends.stream(size=4 << 20, settle=60000)
    assert moved.ring_share() > 0.5, moved.seen()


def states(guest: Guest) -> dict[str, str]:
    return {peer["peer"]: peer["state"] for peer in traffic.xway(guest, "peer")}


@pytest.mark.rig(type="pv", kernel="6.12", guests=3, deep=True)
def test_an_end_that_hangs_holds_up_nobody(machine: Machine, ends: Ends) -> None:
    """A link cannot end, as a program keeps a socket's lock. Others end, and come back, all the same."""
    guest, third, dom0 = ends.active, machine.guest("g3"), machine.dom0
    other, hung = (f"xen:{dom0.run(f'xl domid {name}').stdout.strip()}" for name in ("g1", "g3"))
    policy = dom0.read("/etc/xway/xwayd.conf").strip()
    until(lambda: states(guest).get(hung) == "up", "the third guest's link")
    guest.write("/tmp/stuck.py", STUCK)
    with traffic.echoing(third, 7400):
        before = traffic.counters(guest)
        stuck = guest.start(f"exec python3 /tmp/stuck.py {third.ip4} 7400 option")
        try:
            until(lambda: "stuck" in stuck.stdout(), "a call that keeps its socket")
            assert traffic.moved(before, traffic.counters(guest))["tx_ring_bytes"] > 100
            allow(dom0, f"group a {guest.name} {ends.passive.name}")
            until(lambda: states(guest).get(hung) == "closing", "the end of a link")
            time.sleep(10)  # longer than a peer is waited for
            assert states(guest).get(hung) == "closing", states(guest)
            # Nor does another module wait, as it would with the lock of all links.
            guest.run("modprobe mmnet && modprobe -r mmnet", timeout=pace.limit(20))
            allow(dom0, "")
            until(lambda: other not in states(guest), "the end of the other link", 5)
            allow(dom0, policy)
            until(lambda: states(guest).get(other) == "up", "the other link", 30)
            before = traffic.counters(guest)
            ends.stream(size=4 << 20, settle=60000)
            assert traffic.moved(before, traffic.counters(guest))["tx_ring_bytes"] > 3 << 20
            assert "closing" in {peer["state"] for peer in traffic.xway(guest, "peer")}
        finally:
            stuck.kill()
    until(lambda: states(guest).get(hung) == "up", "the third guest's link")
    ends.stream(size=4 << 20, settle=60000)
