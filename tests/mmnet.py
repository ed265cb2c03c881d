"""What the tests of MMNet share: its devices' counters, domain 0's policy, compared traffic."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rig import pace
from rig.guest import Guest

MIB = 1 << 20
PACKETS = "/tmp/packets.py"
PORT = 5000
LISTENING = f"for i in $(seq 600); do ss -Hltn sport = :{PORT} | grep -q . && exit 0; sleep 0.1; done; exit 1"
NET_ALONE = "allow all services=net"


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


def exchange(active: Guest, passive: Guest, address: str, mib: int = 4) -> None:
    """Have two domains exchange datagrams and so many MiB each way, which are compared."""
    server = passive.start(f"exec {PACKETS} serve {address} {PORT}")
    try:
        passive.run(LISTENING)
        print(active.run(f"{PACKETS} check {address} {PORT} {mib}", timeout=pace.limit(300)).stdout)
    finally:
        server.kill()


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
