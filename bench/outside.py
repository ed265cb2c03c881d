"""What domain 0 and guests exchange: by netback, and by MMNet in domain 0, by turns in one boot."""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence

from bench import programs
from bench.micro import FIGURE, PORT, RR, STREAM
from bench.pair import HOST, MMNET, ByDevice, each
from rig import build, machine, pace
from rig.errors import RigError
from rig.guest import Guest

NETBACK = "netback"
WAYS = (NETBACK, MMNET)
SINK = "7800"
SIZES = (64, 256, 1472)  # bytes of a datagram; the last fills a frame of 1514
STREAMS = ((STREAM, 65536), (STREAM, 2048), (RR, 1))
WARM = 20  # ms
UNIT = {STREAM: "Mbit/s", RR: "µs"}


class Outside:
    """Domain 0 and its guests, with a device of MMNet for each."""

    def __init__(self, rig: machine.Machine, ms: int) -> None:
        self.dom0, self.guests, self._ms = rig.dom0, rig.guests, ms
        assert rig.products
        build.load(self.dom0, rig.products)
        made = programs.build(rig.config.debian)
        domains = [self.dom0, *self.guests]
        each(domains, lambda domain: programs.install(domain, made))
        for domain in domains:
            domain.run("modprobe mmnet")
            domain.start(["xbench", "serve", PORT])
            domain.start(["packets", "drain", SINK])

    def go(self, way: str) -> None:
        """Have packets go this way from now on."""
        state = "up" if way == MMNET else "down"
        devices = "cd /sys/class/net && for d in mm*; do"
        self.dom0.run(f"{devices} ip link set $d {state}; done")
        if way == MMNET:
            end = time.monotonic() + pace.limit(120)
            while self._down():
                if time.monotonic() > end:
                    raise RigError("domain 0 has no devices to all guests")
                time.sleep(0.5)

    def _down(self) -> int:
        """Return how many guests have no device to domain 0 that carries packets."""
        here = [one["state"] for one in json.loads(self.dom0.run("xway -j net").stdout)]
        return len(self.guests) - here.count("up")

    def stream(self, way: str, client: Guest, server: Guest, mode: str, size: int) -> float:
        """Run xbench; return Mbit/s or µs by the guests' clock."""
        before = self.bytes()
        words = [mode, str(size), str(self._ms), str(WARM)]
        line = json.loads(client.run(["xbench", "tcp", server.ip4, PORT, *words], timeout=300).stdout)
        self.check(f"{mode} of {size}", way, self.bytes().since(before))
        return float(line[FIGURE[mode]])

    def bytes(self, count: int = 1) -> ByDevice:
        """Return the bytes of so many guests until now."""
        return ByDevice.of(self.guests[:count])

    @staticmethod
    def check(what: str, way: str, went: ByDevice) -> None:
        """Fail if bytes did not go the way that was measured."""
        if wrong := went.wrong(way):
            raise RigError(f"{way}, {what}: {wrong}")

    def send(self, way: str, size: int, count: int) -> float:
        """Send datagrams to so many guests at once; return thousands a second that they received."""
        hosts = [guest.ip4 for guest in self.guests[:count]]
        before = self.bytes(count)
        words = ["packets", "send", str(size), str(self._ms), SINK, *hosts]
        line = json.loads(self.dom0.run(words, timeout=300).stdout)
        if line["stalls"]:
            raise RigError(f"{way}, datagrams of {size} to {count} guests: some were lost: {line}")
        self.check(f"datagrams of {size}", way, self.bytes(count).since(before))
        return float(line["answered"]) * 1e6 / float(line["ns"])


def config(kind: str, guests: int) -> machine.Config:
    """Return what a rig has whose guests, of one type, may each exchange packets with domain 0."""
    policy = "\n".join(f"group g{n} services=net Domain-0 g{n}" for n in range(1, guests + 1))
    return machine.Config(
        host=HOST,
        type=kind,
        guests=guests,
        memory=256,
        clock="instructions",
        spare=False,
        policy=policy,
    )


def run(arguments: argparse.Namespace) -> int:
    """Do it all; return the exit status."""
    rig = machine.up(config(arguments.type, arguments.guests), "outside", die_with_us=True)
    found: dict[str, dict[str, list[float]]] = {}
    try:
        outside = Outside(rig, arguments.ms)
        counts = [n for n in (1, 2, 4, 8, 12) if n <= arguments.guests]
        dom0, g1 = outside.dom0, outside.guests[0]
        for number in range(arguments.rounds):
            for way in WAYS:
                outside.go(way)
                for mode, size in STREAMS:
                    for client, server in ((dom0, g1), (g1, dom0)):
                        name = f"{mode} {size} B, {client.name} to {server.name}, {UNIT[mode]}"
                        figure = outside.stream(way, client, server, mode, size)
                        found.setdefault(name, {}).setdefault(way, []).append(figure)
                for size in SIZES:
                    for count in counts:
                        name = f"datagrams of {size} B, {count} guests, thousands/s"
                        found.setdefault(name, {}).setdefault(way, []).append(outside.send(way, size, count))
                print(f"round {number + 1}/{arguments.rounds}: {way} done", file=sys.stderr, flush=True)
        wrong = rig.check_logs()
    finally:
        rig.down()
    if arguments.json:
        print(json.dumps(found, indent=1))
    else:
        print(f"| | {' | '.join(WAYS)} | ratio |\n| --- | --- | --- | --- |")
        for name, ways in found.items():
            netback, mmnet = (statistics.median(ways[way]) for way in WAYS)
            ratio = netback / mmnet if name.startswith("rr") else mmnet / netback
            print(f"| {name} | {netback:.4g} | {mmnet:.4g} | {ratio:.2f} |")
    if wrong:
        print("\nNot as it should be:\n\n" + "\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


def main(words: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="outside",
        description="Boot Xen with guests and measure what domain 0 and they exchange, by the instruction"
        " clock: by netback, and by MMNet in domain 0. A ratio above 1 means that MMNet is better.",
    )
    parser.add_argument("--guests", type=int, default=4, metavar="N", help="1 to 12, default 4")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="default 3")
    parser.add_argument("--ms", type=int, default=100, metavar="MS", help="of each test, default 100")
    parser.add_argument("--type", choices=("pv", "pvh"), default="pv", help="type of the guests")
    parser.add_argument("-j", "--json", action="store_true", help="show all figures as JSON")
    arguments = parser.parse_args(words)
    if not 1 <= arguments.guests <= 12:
        parser.error(f"--guests {arguments.guests} is not 1 to 12")
    try:
        return run(arguments)
    except RigError as error:
        print(f"outside: {error}", file=sys.stderr)
        return 1
