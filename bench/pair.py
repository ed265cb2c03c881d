"""Two guests between which is measured, and proof of the way the bytes went."""

import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from rig.errors import RigError
from rig.guest import Guest
from rig.machine import Machine

SHARE = 0.95  # the least part of the bytes that must go the way that a figure is about, for it to count
INTERFACES = "cat /sys/class/net/{mm0,eth0}/statistics/[rt]x_bytes"
LOOK = """ps ax -o pid,stat,wchan:24,args | grep -v '\\]$' | tail -8
ss -tnoimH | grep -A1 -v 'ESTAB.*:7700' | head -20; xway -j conn; xway stats; dmesg | tail -5"""
NETFRONT, XWAY, MMNET = "netfront", "xway", "mmnet"
BETWEEN = (NETFRONT, XWAY, MMNET)
EVERYTHING = "allow all services=sockets,net"  # the policy
MM_CARRIER = "for i in $(seq 300); do ip link show mm0 | grep -q LOWER_UP && exit 0; sleep 0.1; done; exit 1"
HOST = "12"  # the Debian that all figures in RESULTS.md are from, so that new ones compare with them

T = TypeVar("T")


def each(guests: Sequence[Guest], work: Callable[[Guest], T]) -> list[T]:
    """Do something in all guests at once."""
    with ThreadPoolExecutor(len(guests)) as pool:
        return list(pool.map(work, guests))


def go(guests: Sequence[Guest], way: str) -> None:
    """Have connections between them that are made from now on go this way."""
    each(guests, lambda guest: guest.run(["xway", "on" if way == XWAY else "off"], timeout=60))


@dataclass(frozen=True)
class ByDevice:
    """Bytes of guests' interfaces: by mm0, and by eth0, which counts what goes by mm0 in its shade, too."""

    mmnet: int
    eth0: int

    @classmethod
    def of(cls, guests: Sequence[Guest]) -> "ByDevice":
        """Return what they have sent and received until now."""
        texts = each(guests, lambda guest: guest.run(["bash", "-c", INTERFACES]).stdout)
        numbers = [[int(number) for number in text.split()] for text in texts]
        return cls(sum(sum(four[:2]) for four in numbers), sum(sum(four[2:]) for four in numbers))

    def since(self, before: "ByDevice") -> "ByDevice":
        """Return the difference."""
        return ByDevice(self.mmnet - before.mmnet, self.eth0 - before.eth0)

    @property
    def share(self) -> float:
        """The part that went by MMNet."""
        return self.mmnet / max(self.eth0, 1)

    def wrong(self, way: str) -> str:
        """Return what is wrong if they did not go this way, else nothing."""
        if self.share >= SHARE if way == MMNET else self.share <= 1 - SHARE:
            return ""
        return f"{self.share:.1%} of {self.eth0} bytes went by MMNet"


@dataclass(frozen=True)
class Bytes:
    """What the module of one guest counted: bytes of the connections that it holds."""

    tx_ring: int
    tx_tcp: int
    rx_ring: int
    rx_tcp: int

    def since(self, before: "Bytes") -> "Bytes":
        """Return the difference."""
        return Bytes(
            self.tx_ring - before.tx_ring,
            self.tx_tcp - before.tx_tcp,
            self.rx_ring - before.rx_ring,
            self.rx_tcp - before.rx_tcp,
        )

    def __str__(self) -> str:
        """Return it for messages."""
        return (
            f"sent {self.tx_ring} bytes by ring and {self.tx_tcp} by TCP,"
            f" received {self.rx_ring} and {self.rx_tcp}"
        )

    @property
    def ring(self) -> int:
        """Bytes by ring, in and out."""
        return self.tx_ring + self.rx_ring


@dataclass
class Pair:
    """The guests g1, where clients run, and g2, where servers do."""

    machine: Machine
    problems: list[str] = field(default_factory=list)
    joined: bool = False  # by devices, see join()

    def __post_init__(self) -> None:
        self.client = self.machine.guest("g1")
        self.server = self.machine.guest("g2")
        self.instructions = self.machine.config.clock == "instructions"

    def both(self, work: Callable[[Guest], T]) -> tuple[T, T]:
        """Do something in both guests at once."""
        client, server = each((self.client, self.server), work)
        return client, server

    def go(self, way: str) -> None:
        """Have connections made from now on go this way, and packets."""
        go((self.client, self.server), way)
        if self.joined:
            self.both(lambda guest: guest.run(f"ip link set mm0 {'up' if way == MMNET else 'down'}"))
        if way == MMNET:
            self.both(lambda guest: guest.run(MM_CARRIER, timeout=60))

    def join(self) -> None:
        """Have a network device in each guest that leads to the other; domain 0's policy allows it."""
        self.joined = True
        self.both(lambda guest: guest.run("modprobe mmnet"))
        self.both(lambda guest: guest.run(MM_CARRIER, timeout=60))

    def part(self) -> None:
        """Have no such devices any more."""
        self.joined = False
        self.both(lambda guest: guest.run("modprobe -r mmnet", timeout=60))

    def device_bytes(self) -> int:
        """Return the bytes that have left the client by its network device to the server."""
        return int(self.client.read("/sys/class/net/mm0/statistics/tx_bytes"))

    def bytes(self) -> tuple[Bytes, Bytes]:
        """Return what was counted in both guests until now."""
        return self.both(_bytes)

    def attached(self) -> int:
        """Return how many of the client's connections were attached until now."""
        return _stats(self.client)["stats"]["attached"]

    def fallbacks(self) -> dict[str, int]:
        """Return how many connections of both guests were left on TCP until now, by reason."""
        client, server = self.both(lambda guest: _stats(guest)["fallbacks"])
        return {reason: client.get(reason, 0) + server.get(reason, 0) for reason in {**client, **server}}

    def problem(self, text: str) -> None:
        """Note what is not as it should be; the demo goes on and fails at its end."""
        self.problems.append(text)
        print(f"demo: not as it should be: {text}", file=sys.stderr, flush=True)

    def state(self) -> str:
        """Return what both guests can tell about connections that hang."""
        found = []
        for guest in (self.client, self.server):
            try:
                found.append(f"{guest.name}: {guest.run(LOOK, check=False, timeout=20).stdout}")
            except RigError as error:
                found.append(str(error))
        return "\n".join(found)


def _stats(guest: Guest) -> dict[str, dict[str, int]]:
    stats: dict[str, dict[str, int]] = json.loads(guest.run(["xway", "-j", "stats"]).stdout)
    return stats


def _bytes(guest: Guest) -> Bytes:
    counters = _stats(guest)["stats"]
    names = ("tx_ring_bytes", "tx_tcp_bytes", "rx_ring_bytes", "rx_tcp_bytes")
    try:
        return Bytes(*(counters[name] for name in names))
    except KeyError as error:
        raise RigError(f"{guest.name}: xway stats has no counter {error}") from error
