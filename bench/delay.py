"""What datagrams to a guest cost and how long they take, by how long it waits for more of them to come.

Aggregation is the receiver's: `ethtool -C mm0 rx-usecs N adaptive-rx on|off`. See kernel/net/coalesce.c.
"""

import argparse
import itertools
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from bench.outside import NETBACK, Outside, config
from bench.pair import MMNET
from rig import host, machine
from rig.errors import RigError
from rig.paths import BUILD

PORT = "7810"
ADAPTIVE = "adaptive"
USECS = (0, 20, 50, 100, 200, 500, 1000)
LOADS = (2_000, 10_000, 30_000, 45_000)  # datagrams a second; MMNet can carry some 70,000, netback 45,000
SIZE = 64
COLORS = ("#888888", "#1f77b4", "#2ca02c", "#d62728")


@dataclass(frozen=True)
class Figure:
    """Of one load.

    received: thousands a second. p50, p99: µs from send() to recv(). work: µs that both domains were
    running, for each. events: that were sent for each.
    """

    received: float
    p50: float
    p99: float
    work: float
    events: float


def events(outside: Outside) -> int:
    """Return the events that domain 0's devices have sent."""
    found = json.loads(outside.dom0.run("xway -j net").stdout)
    return sum(int(one["stats"]["tx_events"]) for one in found)


class Delay:
    """The measurement, on a rig that is up."""

    def __init__(self, outside: Outside, ms: int) -> None:
        self._outside, self._ms = outside, ms
        self._guest = outside.guests[0]

    def choose(self, setting: str) -> None:
        """Have packets go by netback, or wait as long as this says."""
        self._outside.go(NETBACK if setting == NETBACK else MMNET)
        if setting == ADAPTIVE:
            self._guest.run("ethtool -C mm0 adaptive-rx on")
        elif setting != NETBACK:
            self._guest.run(f"ethtool -C mm0 adaptive-rx off rx-usecs {setting}")

    def load(self, setting: str, rate: int) -> Figure:
        """Send so many a second."""
        way = NETBACK if setting == NETBACK else MMNET
        before, sent = self._outside.bytes(), events(self._outside)
        hears = self._guest.start(["packets", "hear", PORT])
        self._guest.run(f"until ss -Hlun sport = :{PORT} | grep -q .; do sleep 0.02; done")
        load = f"packets load {SIZE} {self._ms} {PORT} {rate} {self._guest.ip4}"
        said = self._outside.dom0.run(f"domcpu; {load}; domcpu", timeout=300).stdout.splitlines()
        at = next(number for number, line in enumerate(said) if line.startswith("{"))
        count = json.loads(said[at])["sent"]
        work = sum(map(int, said[at + 1 :])) - sum(map(int, said[:at]))
        done = hears.wait(300)
        if done.status:
            raise RigError(f"{setting}, {rate} a second: {done.stderr}")
        heard = json.loads(done.stdout)
        self._outside.check(f"{rate} datagrams a second", way, self._outside.bytes().since(before))
        return Figure(
            heard["received"] * 1e6 / heard["ns"],
            heard["p50_us"],
            heard["p99_us"],
            work / 1e3 / count,
            (events(self._outside) - sent) / count,
        )


Found = dict[int, dict[str, Figure]]


def measure(arguments: argparse.Namespace) -> tuple[Found, list[str]]:
    """Boot, measure by turns; return the medians, and what is not as it should be."""
    settings = [NETBACK, *map(str, USECS), ADAPTIVE]
    rig = machine.up(config(arguments.type, 1), "delay", die_with_us=True)
    found: dict[int, dict[str, list[Figure]]] = {}
    try:
        delay = Delay(Outside(rig, arguments.ms), arguments.ms)
        for number in range(arguments.rounds):
            for setting in settings:
                delay.choose(setting)
                for rate in arguments.load or LOADS:
                    found.setdefault(rate, {}).setdefault(setting, []).append(delay.load(setting, rate))
                print(f"round {number + 1}/{arguments.rounds}: {setting} done", file=sys.stderr, flush=True)
        wrong = rig.check_logs()
    finally:
        rig.down()
    return {
        rate: {setting: _median(all_) for setting, all_ in of.items()} for rate, of in found.items()
    }, wrong


def _median(figures: list[Figure]) -> Figure:
    return Figure(
        *(statistics.median(getattr(figure, one.name) for figure in figures) for one in fields(Figure))
    )


def table(found: Found) -> str:
    """Return the figures as a table."""
    lines = [
        "| load, a second | rx-usecs | received, thousands/s | delay p50, µs | p99, µs"
        " | work of both, µs | events for each |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for rate, of in found.items():
        for setting, one in of.items():
            lines.append(
                f"| {rate:,} | {setting} | {one.received:.1f} | {one.p50:.1f} | {one.p99:.1f}"
                f" | {one.work:.1f} | {one.events:.3f} |"
            )
    return "\n".join(lines)


def draw(found: Found, path: Path) -> None:
    """Draw delay against throughput: a line for each load, a point for each time that is waited."""
    host.need_packages(["python3-matplotlib"])
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True)
    for axis, name in zip(axes, ("p50", "p99"), strict=True):
        for color, (rate, of) in zip(itertools.cycle(COLORS), found.items(), strict=False):
            fixed = [of[str(usecs)] for usecs in USECS]
            label = f"{rate:,} datagrams a second"
            axis.plot(
                [one.work for one in fixed],
                [getattr(one, name) for one in fixed],
                "o-",
                color=color,
                label=label,
                markersize=3,
            )
            for setting, marker in ((ADAPTIVE, "*"), (NETBACK, "x")):
                axis.plot(of[setting].work, getattr(of[setting], name), marker, color=color, markersize=10)
        axis.set_yscale("log")
        axis.set_title(f"delay, {name}")
        axis.set_xlabel("work of both domains for a datagram, µs")
    axes[0].set_ylabel("µs")
    axes[0].legend(fontsize=8)
    figure.suptitle("lines: rx-usecs from 0 (right) to 1000; stars: adaptive; crosses: netback", fontsize=10)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="delay",
        description="Boot Xen with a guest and have domain 0 send it datagrams at several rates, by the"
        " instruction clock: by netback, and by MMNet with the guest waiting for more of them, for times from"
        " 0 to 1 ms, or as long as the load asks for. Prints a table and draws a picture.",
    )
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="default 1")
    parser.add_argument(
        "--load",
        type=int,
        action="append",
        metavar="N",
        help=f"datagrams a second, for {', '.join(f'{n:,}' for n in LOADS)}; may be given several times",
    )
    parser.add_argument("--ms", type=int, default=400, metavar="MS", help="of each load, default 400")
    parser.add_argument("--type", choices=("pv", "pvh"), default="pv", help="type of the guest")
    parser.add_argument("--out", type=Path, default=BUILD / "delay", help="folder for the picture")
    parser.add_argument("-j", "--json", action="store_true", help="show all figures as JSON")
    arguments = parser.parse_args(words)
    try:
        found, wrong = measure(arguments)
        draw(found, arguments.out / "delay.png")
    except RigError as error:
        print(f"delay: {error}", file=sys.stderr)
        return 1
    if arguments.json:
        shown = {rate: {setting: asdict(one) for setting, one in of.items()} for rate, of in found.items()}
        print(json.dumps(shown, indent=1))
    else:
        print(table(found))
        print(f"picture: {arguments.out / 'delay.png'}")
    if wrong:
        print("\nNot as it should be:\n\n" + "\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0
