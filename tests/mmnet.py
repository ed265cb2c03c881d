"""What the tests of MMNet share: its devices' counters, domain 0's policy, compared traffic."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rig import pace
from rig.guest import Guest
from rig.machine import Machine
from tests import traffic
from tests.traffic import until

MIB = 1 << 20
PACKETS = "/tmp/packets.py"
PORT = 5000
LISTENING = f"for i in $(seq 600); do ss -Hltn sport = :{PORT} | grep -q . && exit 0; sleep 0.1; done; exit 1"
NET_ALONE = "allow all services=net"
ENOUGH = "/tmp/enough"  # once it is there, an endless stream ends

FORGE = """import socket, sys
end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
end.bind(("mm0", 0))
to, by = (bytes.fromhex(word.replace(":", "")) for word in sys.argv[1:3])
end.send(to + by + bytes.fromhex(sys.argv[3]) + b"\\x88\\xb5" + bytes(100))
"""
HEARD = """import socket, sys
end = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x88b5))
end.bind((sys.argv[1], 0x88b5))
print("ready", flush=True)
while True:
    print(end.recvfrom(2048)[1][4].hex(":"), flush=True)
"""


def statistics(guest: Guest, device: str) -> dict[str, int]:
    """Return what the kernel counts of a device."""
    lines = guest.run(f"grep -H . /sys/class/net/{device}/statistics/*").stdout.splitlines()
    return {line.split(":")[0].rpartition("/")[2]: int(line.split(":")[1]) for line in lines}


def net(guest: Guest) -> list[dict[str, Any]]:
    """Return the devices to peers, as the command xway shows them."""
    found: list[dict[str, Any]] = json.loads(guest.run("xway -j net").stdout)
    return found


def own(guest: Guest, device: str = "mm0") -> dict[str, int]:
    """Return what the device itself counts."""
    lines = guest.run(f"ethtool -S {device}").stdout.splitlines()[1:]
    return {name.strip(): int(value) for name, value in (line.split(":") for line in lines)}


def allow(dom0: Guest, text: str) -> None:
    """Change domain 0's policy."""
    dom0.write("/etc/xway/xwayd.conf", text + "\n")
    dom0.run("pkill -HUP -x xwayd")


@contextmanager
def allowed(dom0: Guest, text: str) -> Iterator[None]:
    """Have a policy; afterwards the one that was."""
    was = dom0.read("/etc/xway/xwayd.conf")
    allow(dom0, text)
    try:
        yield
    finally:
        allow(dom0, was.strip())


@contextmanager
def loaded(*domains: Guest) -> Iterator[None]:
    """Have the module, and the program that exchanges packets, in domains; afterwards the module no more."""
    for domain in domains:
        domain.put(traffic.TOP / "tests/sock/packets.py", PACKETS, mode=0o755)
    try:
        for domain in domains:
            domain.run("modprobe mmnet")
        yield
    finally:
        for domain in domains:
            domain.run("modprobe -r mmnet")


def takes(guest: Guest) -> bool:
    """Return whether the packets of the guest's vif go by mm0."""
    return any(one["vifs"] == "eth0" and one["state"] == "up" for one in net(guest))


@contextmanager
def shaded(machine: Machine, ends: traffic.Ends) -> Iterator[None]:
    """Have the packets of both vifs go by shared memory, with no address or route of mm0."""
    guests = (ends.active, ends.passive)
    with allowed(machine.dom0, NET_ALONE), loaded(*guests):
        for guest in guests:
            until(lambda guest=guest: takes(guest), f"mm0 in the shade of eth0 in {guest.name}")
        yield


@contextmanager
def serving(guest: Guest, address: str) -> Iterator[None]:
    """Have a domain send back what comes to an address of its own."""
    server = guest.start(f"exec {PACKETS} serve {address} {PORT}")
    try:
        guest.run(LISTENING)
        yield
    finally:
        server.kill()


def exchange(active: Guest, passive: Guest, address: str, mib: int = 4) -> None:
    """Have two domains exchange datagrams and so many MiB each way, which are compared."""
    with serving(passive, address):
        print(active.run(f"{PACKETS} check {address} {PORT} {mib}", timeout=pace.limit(300)).stdout)


@contextmanager
def endless(active: Guest, passive: Guest, address: str) -> Iterator[Callable[[Callable[[], int]], None]]:
    """Have a stream, which is compared, until the end; give what waits for a MiB more of a count of bytes."""
    with serving(passive, address):
        active.run(f"rm -f {ENOUGH}")
        client = active.start(f"exec {PACKETS} check {address} {PORT} {ENOUGH}")

        def goes_on(way: Callable[[], int]) -> None:
            assert client.poll() is None, client.wait().stderr
            start = way()
            try:
                until(lambda: way() > start + MIB, f"bytes {way.__name__}", 60)
            except AssertionError as error:
                # What tells why: in which of the two, and which of the ways
                look = "xway; xway net; ss -tino; ip -s link; dmesg | tail -n 20"
                seen = "".join(
                    f"{one.name}:\n{one.run(look, check=False).stdout}" for one in (active, passive)
                )
                raise AssertionError(f"{error}\n{seen}") from error

        yield goes_on
        active.run(f"touch {ENOUGH}")
        done = client.wait(300)
        assert done.status == 0, done.stdout + done.stderr


def forge(guest: Guest, frames: Iterable[tuple[str, str, str]]) -> None:
    """Send frames by a guest's mm0: hardware addresses of destination and source, a tag in hexadecimal."""
    guest.write("/tmp/forge.py", FORGE)
    for frame in frames:
        guest.run(["python3", "/tmp/forge.py", *frame])


@contextmanager
def hearing(guest: Guest, device: str) -> Iterator[Callable[[], list[str]]]:
    """Listen for such frames at a device; give what tells the sources of those that have come."""
    guest.write("/tmp/heard.py", HEARD)
    guest.run(f"python3 /tmp/heard.py {device} >/tmp/heard 2>&1 & echo $! >/tmp/heard.pid")
    try:
        until(lambda: "ready" in guest.read("/tmp/heard"), "a listener")
        yield lambda: guest.read("/tmp/heard").split()[1:]
    finally:
        guest.run("kill $(cat /tmp/heard.pid)")
