"""MMNet in the User-mode kernel: the two devices of the transport local, in a network namespace each."""

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from shell import sh

PACKETS = Path(__file__).resolve().parent.parent / "sock/packets.py"
NEAR, FAR = ("10.9.0.1", "fd09::1"), ("10.9.0.2", "fd09::2")
PORT = 5000
MIB = 4


class Pair:
    """The device mm0 in this namespace and mm1 in another, both with addresses."""

    def __init__(self, mtu: int) -> None:
        self._holder = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec sleep 1000"], stdout=-1)
        assert self._holder.stdout
        self._holder.stdout.readline()
        self.inside = f"nsenter --net=/proc/{self._holder.pid}/ns/net "
        sh(f"ip link set mm1 netns {self._holder.pid}")
        for into, name, mine in (("", "mm0", NEAR), (self.inside, "mm1", FAR)):
            sh(f"{into} ip link set {name} mtu {mtu} up")
            self.address(into, name, mine)
        self.carrier()

    def address(self, into: str, name: str, mine: tuple[str, str]) -> None:
        sh(f"{into} ip addr replace {mine[0]}/24 dev {name}")
        sh(f"{into} ip addr replace {mine[1]}/64 dev {name} nodad")

    def carrier(self) -> None:
        until = time.monotonic() + 20
        for into, name in (("", "mm0"), (self.inside, "mm1")):
            while "LOWER_UP" not in (seen := sh(f"{into} ip -s link show {name}")):
                assert time.monotonic() < until, seen
                time.sleep(0.05)

    def check(self, mib: int = MIB) -> None:
        """Exchange packets by both families, asked for by this end."""
        for address in FAR:
            server = subprocess.Popen(
                [*self.inside.split(), PACKETS, "serve", address, str(PORT)], stdout=subprocess.PIPE
            )
            try:
                assert server.stdout and server.stdout.readline() == b"ready\n"
                sh(f"{PACKETS} check {address} {PORT} {mib}", timeout=120)
            finally:
                server.kill()
                server.wait()

    def end(self) -> None:
        # Without that mm1 would end with its namespace.
        sh(f"{self.inside} ip link set mm1 down; {self.inside} ip link set mm1 netns {os.getpid()}")
        sh("ip link set mm0 down; ip addr flush dev mm0; ip addr flush dev mm1")
        self._holder.kill()
        self._holder.wait()


@contextlib.contextmanager
def joined(mtu: int = 65535) -> Iterator[Pair]:
    pair = Pair(mtu)
    try:
        yield pair
    finally:
        pair.end()


def counts(name: str) -> dict[str, int]:
    folder = Path("/sys/class/net", name, "statistics")
    return {file.name: int(file.read_text()) for file in folder.iterdir()}


def carried() -> None:
    """UDP and TCP of both families, by large and by usual frames; segments are not cut."""
    for mtu in (65535, 1500):
        with joined(mtu) as pair:
            before = counts("mm0")
            pair.check()
            moved = {name: n - before[name] for name, n in counts("mm0").items()}
            for way in ("tx", "rx"):
                sent, frames = moved[f"{way}_bytes"], moved[f"{way}_packets"]
                assert sent > 2 * (MIB << 20), moved
                assert frames < sent / 4000, moved
                assert not moved[f"{way}_errors"] + moved[f"{way}_dropped"], moved


def again() -> None:
    """Take either device down and up; it carries as before."""
    with joined() as pair:
        for _ in range(3):
            for into, name, mine in (("", "mm0", NEAR), (pair.inside, "mm1", FAR)):
                sh(f"{into} ip link set {name} down")
                sh(f"{into} ip link set {name} up")
                pair.address(into, name, mine)  # it has lost that of IPv6
            pair.carrier()
        pair.check(1)


def flooded() -> None:
    """Send more datagrams than the ring and the reader have room for; then it carries as before."""
    with joined() as pair:
        before = counts("mm0")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
            end.connect((FAR[0], 9))
            for size in (64, 60000):
                for _ in range(3000):
                    with contextlib.suppress(ConnectionRefusedError):
                        end.send(bytes(size))
        assert counts("mm0")["tx_packets"] - before["tx_packets"] > 1000
        pair.check(1)


TESTS = {"carried": carried, "again": again, "flooded": flooded}
