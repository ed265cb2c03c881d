"""How much all pairs of many guests carry at once, in terms of one pair."""

import argparse
import itertools
import json
import statistics
import sys
import time
from collections.abc import Sequence

from bench import programs
from bench.micro import PORT
from bench.pair import HOST, NETFRONT, SHARE, XWAY, each, go
from rig import machine, pace
from rig.errors import RigError
from rig.guest import Guest

SAMPLE = "date +%s%N; cat /sys/class/net/eth0/statistics/rx_bytes; xway -j stats"
FOREVER = "600000"  # ms: longer than is measured
SETTLE = 10.0  # seconds, and one more for each pair


def _sample(guest: Guest) -> tuple[int, int, int, int]:
    """Return the guest's time in ns, bytes received till then by netfront and by ring, and events sent."""
    now, netfront, stats = guest.run(SAMPLE).stdout.split("\n", 2)
    counters = json.loads(stats)["stats"]
    return int(now), int(netfront), counters["rx_ring_bytes"], counters["events_sent"]


def _streams(guest: Guest, targets: Sequence[Guest]) -> None:
    for target in targets:
        guest.start(["xbench", "tcp", target.ip4, PORT, "stream", "65536", FOREVER, "1"])


def measure(
    guests: Sequence[Guest], pairs: Sequence[tuple[Guest, Guest]], seconds: float
) -> tuple[float, float, float]:
    """Return what these pairs carry at once, in Mbit/s: by netfront, by ring; and XWAY's events a second."""
    each(guests, lambda guest: _streams(guest, [to for source, to in pairs if source is guest]))
    time.sleep(SETTLE + len(pairs))
    before = each(guests, _sample)
    time.sleep(seconds)
    after = each(guests, _sample)
    each(guests, lambda guest: guest.run(["pkill", "-f", "[x]bench tcp"], check=False))
    netfront = ring = events = 0.0
    for then, now in zip(before, after, strict=True):
        passed = (now[0] - then[0]) / 1000  # µs: bits by it are Mbit/s
        netfront += (now[1] - then[1]) * 8 / passed
        ring += (now[2] - then[2]) * 8 / passed
        events += (now[3] - then[3]) * 1e6 / passed
    return netfront, ring, events


def _linked(guests: Sequence[Guest]) -> None:
    """Wait until every guest has a link to every other."""
    end = time.monotonic() + pace.limit(60)

    def up(guest: Guest) -> int:
        peers = json.loads(guest.run(["xway", "-j", "peer"]).stdout)
        return sum(peer["state"] == "up" for peer in peers if peer["peer"].startswith("xen:"))

    while any(count < len(guests) - 1 for count in each(guests, up)):
        if time.monotonic() > end:
            raise RigError("the guests have no links to each other")
        time.sleep(0.5)


def run(arguments: argparse.Namespace) -> int:
    """Do it all; return the exit status."""
    if arguments.guests < 2:
        raise RigError(f"{arguments.guests} guests make no pair")
    config = machine.Config(
        host=HOST, guests=arguments.guests, memory=256, clock=arguments.clock, spare=False
    )
    rig = machine.up(config, "pairs", die_with_us=True)
    wrong = []
    try:
        rig.pin()
        guests = rig.guests
        made = programs.build(config.debian)
        each(guests, lambda guest: programs.install(guest, made))
        each(guests, lambda guest: guest.start(["xbench", "serve", PORT]))
        _linked(guests)
        every = list(itertools.combinations(guests, 2))
        found: dict[tuple[str, int], list[float]] = {}
        for number in range(arguments.rounds):
            for way in (NETFRONT, XWAY):
                go(guests, way)
                for pairs in ([every[0]], every):
                    netfront, ring, events = measure(guests, pairs, arguments.seconds)
                    figure = ring if way == XWAY else netfront
                    if figure < SHARE * (ring + netfront):
                        wrong.append(f"{way}: {netfront:.0f} Mbit/s by netfront, {ring:.0f} by ring")
                    found.setdefault((way, len(pairs)), []).append(figure)
                    what = f"{way}, {len(pairs)} pairs: {figure:.4g} Mbit/s"
                    if way == XWAY:
                        what += f", an event for {ring / 8 / max(events, 1) * 1000:.4g} kB"
                    print(f"round {number + 1}/{arguments.rounds}  {what}", flush=True)
        print(f"\n| {arguments.guests} guests | one pair, Mbit/s | {len(every)} pairs, Mbit/s | ratio |")
        print("| --- | --- | --- | --- |")
        for way in (NETFRONT, XWAY):
            one, all_pairs = (statistics.median(found[way, count]) for count in (1, len(every)))
            print(f"| {way} | {one:.4g} | {all_pairs:.4g} | {all_pairs / one:.2f} |")
        wrong += rig.check_logs()
    finally:
        rig.down()
    if wrong:
        print("\nNot as it should be:\n\n" + "\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


def main(words: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="all-pairs",
        description="Boot Xen with several guests and measure streams between all pairs of them at once,"
        " in terms of one pair, by netfront and by XWAY.",
    )
    parser.add_argument(
        "--guests", type=int, default=3, metavar="N", help="default 3; 8 take 5 minutes to boot"
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="default 3")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S", help="of each round, default 10")
    parser.add_argument(
        "--clock",
        choices=("wall", "instructions"),
        default="wall",
        help="instructions: one guest instruction takes one nanosecond of guest time",
    )
    arguments = parser.parse_args(words)
    try:
        return run(arguments)
    except RigError as error:
        print(f"all-pairs: {error}", file=sys.stderr)
        return 1
