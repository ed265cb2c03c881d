"""What was measured, as numbers, JSON and a table."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from bench.pair import MMNET, NETFRONT, XWAY

# What is measured beside streams and request/response: see connections.py.
CALL, MANY, UNEVEN = "call", "many", "uneven"
# The last is a whole connection: connect(), a byte each way, close().
CALLS = ("socket", "bind", "listen", "connect", "accept", "close", "whole")
LOADED, ABSENT = "loaded", "absent"
# What is measured of applications at several loads: see apps.py.
RATE, P99, CPU, DOM0_CPU = "rate", "p99", "CPU", "dom0 CPU"

# Tables: mode, title, what its rows are, and the paths that ours is compared with
TABLES = (
    ("stream", "Stream, Mbit/s at the receiver", "message", (NETFRONT, "unix")),
    ("rr", "Request/response, µs one way", "message", (NETFRONT, "unix")),
    (CALL, "Calls of a connection, and a whole one with a byte each way, µs", "call", (NETFRONT,)),
    (MANY, "Streams at once, Mbit/s together", "streams", (NETFRONT,)),
    (UNEVEN, "The fastest of them, in terms of the slowest", "streams", ()),
    ("loopback-stream", "TCP loopback with the module loaded and without, Mbit/s", "message", (ABSENT,)),
    ("loopback-rr", "TCP loopback with the module loaded and without, µs one way", "message", (ABSENT,)),
    ("elsewhere-stream", "TCP to domain 0 with the module loaded and without, Mbit/s", "message", (ABSENT,)),
    ("elsewhere-rr", "TCP to domain 0 with the module loaded and without, µs one way", "message", (ABSENT,)),
    ("elsewhere-call", "Calls of a connection to domain 0, µs", "call", (ABSENT,)),
)

# The same of applications, by the way that netfront is compared with
APP_TABLES = {
    XWAY: ("Applications from guest to guest", "application", "by ring"),
    MMNET: ("Packets from guest to guest", "what", "by device"),
}


UNITS = {MANY: "Mbit/s", UNEVEN: "ratio"}  # else by the last word of the mode


def size_text(size: int) -> str:
    """Return a size of messages as a person writes it."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


def number(value: float) -> str:
    """Return a number with as many digits as mean something."""
    if value == 0:
        return "0"
    if math.isinf(value):
        return "\N{INFINITY}"
    places = max(0, 2 - len(str(int(abs(value)))) + (1 if abs(value) < 1 else 0))
    if abs(value) < 0.1:
        places = 3
    return f"{value:.{places}f}" if abs(value) < 100 else f"{value:,.0f}"


def _unit(mode: str) -> str:
    """Return the unit of a mode's figures."""
    return UNITS.get(mode) or {"stream": "Mbit/s", "rr": "µs one way"}.get(mode.rpartition("-")[2], "µs")


def _label(what: str, size: int) -> str:
    """Return what a row of a table begins with."""
    if what == "call":
        return CALLS[size]
    return str(size) if what == "streams" else size_text(size)


def _json(value: float) -> float | None:
    """Return a number for JSON, which has no infinity."""
    return value if math.isfinite(value) else None


@dataclass
class Series:
    """The figures of the rounds."""

    values: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The middle one."""
        return median(self.values)

    @property
    def spread(self) -> float:
        """How far apart the outer ones are, as a part of the median."""
        if not self.median or math.isinf(max(self.values)):
            return 0.0
        return (max(self.values) - min(self.values)) / self.median

    def to_json(self) -> dict[str, object]:
        """Return it for JSON."""
        data: dict[str, object] = {"median": _json(self.median), "values": [_json(v) for v in self.values]}
        data |= {"low": _json(min(self.values)), "high": _json(max(self.values))}
        if self.shares:  # of the bytes, those that did go this way
            data["share"] = min(self.shares)
        return data


@dataclass(frozen=True)
class Load:
    """What a figure at a load is of: transactions of a kind, so many clients at once, and which figure."""

    kind: str
    clients: int
    figure: str


@dataclass(frozen=True)
class Metric:
    """A figure that an application gives. way: what netfront is compared with."""

    name: str
    unit: str
    more_is_better: bool
    how: str
    load: Load | None = None
    way: str = XWAY


@dataclass
class Results:
    """Everything that was measured in one boot."""

    about: dict[str, object]
    paths: tuple[str, ...]
    micro: dict[tuple[str, int], dict[str, Series]] = field(default_factory=dict)
    apps: dict[Metric, dict[str, Series]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add_micro(self, mode: str, size: int, path: str, value: float, share: float | None) -> None:
        """Add the figure of one round."""
        _add(self.micro.setdefault((mode, size), {}), path, value, share)

    def add_app(self, metric: Metric, path: str, value: float, share: float | None) -> None:
        """Add the figure of one round."""
        _add(self.apps.setdefault(metric, {}), path, value, share)

    def sizes(self, mode: str) -> list[int]:
        """Return the sizes that were measured."""
        return sorted(size for one, size in self.micro if one == mode)

    def curve(self, kind: str, figure: str, path: str) -> dict[int, Series]:
        """Return a figure of transactions of a kind by the number of clients."""
        return {
            metric.load.clients: series[path]
            for metric, series in self.apps.items()
            if metric.load and (metric.load.kind, metric.load.figure) == (kind, figure) and path in series
        }

    def gain(self, metric: Metric) -> float | None:
        """Return how many times better an application is than over netfront; None if that is no number."""
        series = self.apps[metric]
        if not all(path in series and series[path].median for path in (NETFRONT, metric.way)):
            return None
        ratio = series[metric.way].median / series[NETFRONT].median
        return ratio if metric.more_is_better else 1 / ratio

    def to_json(self) -> dict[str, object]:
        """Return it for JSON."""
        micro = []
        for (mode, size), series in sorted(self.micro.items()):
            row: dict[str, object] = {"mode": mode, "size": size, "unit": _unit(mode)}
            row["paths"] = {path: one.to_json() for path, one in series.items()}
            row["ratios"] = {
                f"{XWAY}/{other}": round(ratio, 4)
                for other in self.paths
                if other != XWAY and (ratio := _ratio(series, other)) is not None
            }
            micro.append(row)
        apps = []
        for metric, series in self.apps.items():
            row = {"name": metric.name, "unit": metric.unit, "how": metric.how}
            row["more_is_better"] = metric.more_is_better
            row["way"] = metric.way
            row["paths"] = {path: one.to_json() for path, one in series.items()}
            row["gain"] = self.gain(metric)
            apps.append(row)
        return {"about": self.about, "micro": micro, "applications": apps, "problems": self.problems}

    def table(self) -> str:
        """Return it as tables in plain text."""
        parts = []
        for mode, title, what, others in TABLES:
            found = [self.micro[mode, size] for size in self.sizes(mode)]
            paths = [
                path for path in (*self.paths, LOADED, ABSENT) if any(path in series for series in found)
            ]
            ours = LOADED if LOADED in paths else XWAY
            rows = [[what, *paths, *(f"{ours}/{other}" for other in others), "by ring"]]
            for size, series in zip(self.sizes(mode), found, strict=True):
                row = [_label(what, size)]
                row += [_cell(series.get(path)) for path in paths]
                for other in others:
                    ratio = _ratio(series, other, ours)
                    row.append("-" if ratio is None else f"{ratio:.3f}" if ours == LOADED else f"{ratio:.2f}")
                row.append(_share(series.get(XWAY)))
                rows.append(row)
            if len(rows) > 1:
                parts.append(f"{title}: median of the rounds, and their spread\n\n{_columns(rows)}")
        for way, (title, what, share) in APP_TABLES.items():
            rows = [[what, "unit", NETFRONT, way, "gain", share]]
            for metric, series in self.apps.items():
                if metric.way != way:
                    continue
                gain = self.gain(metric)
                row = [metric.name, metric.unit, _cell(series.get(NETFRONT)), _cell(series.get(way))]
                rows.append([*row, "-" if gain is None else f"{gain:.2f} x", _share(series.get(way))])
            if len(rows) > 1:
                parts.append(f"{title}\n\n{_columns(rows, left=2)}")
        return "\n\n".join(parts)


def _add(place: dict[str, Series], path: str, value: float, share: float | None) -> None:
    series = place.setdefault(path, Series())
    series.values.append(value)
    if share is not None:
        series.shares.append(share)


def _ratio(series: dict[str, Series], other: str, ours: str = XWAY) -> float | None:
    if ours not in series or other not in series or not series[other].median:
        return None
    return _json(series[ours].median / series[other].median)


def _cell(series: Series | None) -> str:
    if series is None:
        return "-"
    text = number(series.median)
    return f"{text} ±{series.spread / 2:3.0%}" if len(series.values) > 1 else text


def _share(series: Series | None) -> str:
    return f"{min(series.shares):.1%}" if series and series.shares else "-"


def _columns(rows: Iterable[list[str]], left: int = 1) -> str:
    """Return rows as columns, the first `left` of them flush left."""
    table = list(rows)
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = []
    for row in table:
        cells = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    lines.insert(1, "  " + "  ".join("-" * width for width in widths))
    return "\n".join(lines)
