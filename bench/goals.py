"""The command `bench/goals`: what was measured, beside what was wanted."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.pair import MMNET, NETFRONT, XWAY
from bench.results import ABSENT, CALL, CALLS, LOADED, MANY, UNEVEN, size_text

INSTRUCTIONS, WALL = "instructions", "wall"
SHORT = 16384  # messages up to it are requests, of which latency counts
COPYING = ("wget", "ftp", "rsync")


@dataclass
class Row:
    """A goal, and the figure that is farthest from it."""

    goal: str
    bound: float
    more: bool  # is better
    found: dict[str, float] = field(default_factory=dict)

    @property
    def worst(self) -> tuple[str, float]:
        """Return where it is worst, and how much it is there."""
        return (min if self.more else max)(self.found.items(), key=lambda item: item[1])

    @property
    def met(self) -> bool:
        """Whether the goal is reached everywhere."""
        return self.worst[1] >= self.bound if self.more else self.worst[1] <= self.bound

    def __str__(self) -> str:
        """Return it as a row of a table."""
        where, value = self.worst
        bound = f"at {'least' if self.more else 'most'} {self.bound:g}"
        return f"| {self.goal} | {bound} | {value:.3g} | {where} | {'yes' if self.met else 'no'} |"


class Figures:
    """The medians of one results.json."""

    def __init__(self, data: dict[str, list[dict[str, object]]]) -> None:
        self._micro: dict[str, dict[int, dict[str, float]]] = {}
        for row in data["micro"]:
            mode, size, paths = str(row["mode"]), int(str(row["size"])), row["paths"]
            assert isinstance(paths, dict)
            medians = {path: one["median"] for path, one in paths.items() if one["median"] is not None}
            self._micro.setdefault(mode, {})[size] = medians
        self._apps = {str(app["name"]): app for app in data["applications"]}

    def ratios(
        self, mode: str, ours: str, other: str, sizes: tuple[int, ...] = (), most: int = 1 << 30
    ) -> dict[str, float]:
        """Return one path in terms of another, by size of messages or by call."""
        return {
            CALLS[size] + "()" if mode.endswith(CALL) else size_text(size): paths[ours] / paths[other]
            for size, paths in self._micro.get(mode, {}).items()
            if size <= most and (not sizes or size in sizes) and ours in paths and paths.get(other)
        }

    def values(self, mode: str, path: str) -> dict[str, float]:
        """Return the figures of a path, by number of streams."""
        found = self._micro.get(mode, {})
        return {f"{count} streams": paths[path] for count, paths in found.items() if path in paths}

    def gains(self, *words: str) -> dict[str, float]:
        """Return how many times better applications are, whose names begin with one of the words."""
        return {
            name: float(str(app["gain"]))
            for name, app in self._apps.items()
            if name.startswith(words) and app["gain"] is not None
        }

    def times(self, *words: str) -> dict[str, float]:
        """Return what applications take, in terms of netfront's, whose names begin with one of the words."""
        return {name: 1 / gain if gain else 0.0 for name, gain in self.gains(*words).items()}

    def dom0(self) -> dict[str, float]:
        """Return domain 0's CPU for a transaction of pgbench by ring, in terms of netfront's."""
        return {name: time for name, time in self.times("pgbench").items() if "dom0 CPU" in name}


def _both(figures: Figures) -> Iterator[Row]:
    """Yield the goals of either clock."""
    yield Row("stream, in terms of a UNIX socket", 1.5, True, figures.ratios("stream", XWAY, "unix"))


def _packets(figures: Figures, request: float) -> Iterator[Row]:
    """Yield the goals of MMNet. request: the most time that one may take, in terms of netfront's."""
    for other, bound in ((NETFRONT, 2.7), ("loopback", 0.85)):
        found = figures.ratios("stream", MMNET, other, (65536,))
        yield Row(f"stream of 64 KiB by MMNet, of {other}", bound, True, found)
    found = figures.ratios("rr", MMNET, NETFRONT, most=SHORT)
    yield Row("request/response up to 16 KiB by MMNet, time, of netfront", request, False, found)
    found = figures.times("sockperf ping-pong, UDP")
    yield Row("datagrams by MMNet, of netfront", 3, True, figures.gains("UDP, "))
    yield Row("request/response of UDP by MMNet, time, of netfront", request, False, found)
    found = figures.times("connect()", "a whole connection")
    yield Row("connect(), and a whole connection, with MMNet, time, of netfront", 0.6, False, found)
    found = figures.gains("NFS, ", "SMB, ", "iSCSI, ", "NVMe/TCP, ")
    yield Row("files and disks by MMNet, of netfront", 2, True, found)


def _instructions(figures: Figures) -> Iterator[Row]:
    calls = tuple(CALLS.index(call) for call in ("connect", "whole"))
    yield Row("stream, of netfront", 1.5, True, figures.ratios("stream", XWAY, NETFRONT))
    for other in (NETFRONT, "unix"):
        yield Row(f"stream of 2 KiB, of {other}", 3, True, figures.ratios("stream", XWAY, other, (2048,)))
    for other, bound in ((NETFRONT, 4), ("unix", 1.5), ("libvchan", 1)):
        found = figures.ratios("stream", XWAY, other, (65536,))
        yield Row(f"stream of 64 KiB, of {other}", bound, True, found)
    for other, bound in ((NETFRONT, 0.4), ("libvchan", 1)):
        found = figures.ratios("rr", XWAY, other, most=SHORT)
        yield Row(f"request/response up to 16 KiB, time, of {other}", bound, False, found)
    found = figures.ratios(CALL, XWAY, NETFRONT, calls)
    yield Row("connect(), and a whole connection, time, of netfront", 1.03, False, found)
    # Not streams over loopback, which fall into one of two rhythms that differ by half, module or not. The
    # tests count how many of their instructions are XWAY's.
    for mode, ours, other in (
        ("loopback-rr", LOADED, ABSENT),
        ("elsewhere-rr", LOADED, ABSENT),
        ("elsewhere-stream", ABSENT, LOADED),
    ):
        found = figures.ratios(mode, ours, other)
        yield Row(f"{mode.replace('-', ', ')}, time with the module, of without", 1.005, False, found)
    found = figures.ratios(f"elsewhere-{CALL}", LOADED, ABSENT, calls)
    yield Row("elsewhere, connect(), and a whole connection, with, of without", 1.005, False, found)
    yield from _packets(figures, 0.4)


def _wall(figures: Figures) -> Iterator[Row]:
    calls = tuple(CALLS.index(call) for call in ("connect", "whole"))
    found = figures.ratios("stream", XWAY, NETFRONT, (2048, 65536))
    yield Row("stream of 2 KiB and 64 KiB, of netfront", 4, True, found)
    found = figures.ratios("stream", XWAY, "libvchan", (65536,))
    yield Row("stream of 64 KiB, of libvchan", 0.8, True, found)
    for other, bound in (("libvchan", 1.15), ("unix", 1.1), (NETFRONT, 0.25)):
        found = figures.ratios("rr", XWAY, other, most=SHORT)
        yield Row(f"request/response up to 16 KiB, time, of {other}", bound, False, found)
    found = figures.ratios(CALL, XWAY, NETFRONT, calls)
    yield Row("connect(), and a whole connection, time, of netfront", 1.05, False, found)
    yield Row("files, of netfront", 3, True, figures.gains(*COPYING))
    for words, what in ((("pgbench",), "pgbench"), (("shop",), "a web shop")):
        found = {name: gain for name, gain in figures.gains(*words).items() if "CPU" not in name}
        yield Row(f"{what}: throughput and p99, of netfront", 1, True, found)
    yield Row("domain 0's CPU for a transaction, of netfront's", 0.15, False, figures.dom0())
    together = figures.values(MANY, XWAY)
    best = max(together.values(), default=0)
    found = {count: value / best for count, value in together.items()}
    yield Row("many streams together, of the best number of them", 0.8, True, found)
    yield Row("the fastest of many, of the slowest", 1.5, False, figures.values(UNEVEN, XWAY))
    yield from _packets(figures, 0.25)


def rows(data: dict[str, list[dict[str, object]]], clock: str) -> list[Row]:
    """Return the goals that something was measured for."""
    figures = Figures(data)
    own = _instructions if clock == INSTRUCTIONS else _wall
    return [row for goals in (_both, own) for row in goals(figures) if row.found]


def native(lines: str) -> list[Row]:
    """Return the goal of the ring's own code, from what bench/native printed."""
    found = {}
    for line in map(json.loads, lines.splitlines()):
        if line["size"] == 65536:
            found[size_text(line["size"])] = line["ring_of_relay"]
    return [Row("the ring between two threads, of two copies that take turns", 0.9, True, found)]


def main(words: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="goals",
        description="Print what was measured beside what was wanted, and the worst place of each.",
    )
    parser.add_argument("results", nargs="+", type=Path, help="results.json of bench/demo, or native.json")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a goal is missed")
    arguments = parser.parse_args(words)
    missed = 0
    for path in arguments.results:
        try:
            text = path.read_text()
            if path.name.startswith("native"):
                title, found = "native", native(text)
            else:
                data = json.loads(text)
                about = data["about"]
                title = f"{about['type'].upper()}, {about['clock']} clock"
                found = rows(data, about["clock"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"goals: {path} has no results of bench/demo or bench/native: {error!r}", file=sys.stderr)
            return 2
        print(f"\n| {title} | goal | worst | at | met |\n| --- | --- | --- | --- | --- |")
        for row in found:
            print(row)
            missed += not row.met
    return 1 if missed and arguments.strict else 0
