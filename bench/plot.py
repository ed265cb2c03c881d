"""The pictures: bandwidth and latency against message size, and what applications gain, also under load."""

import itertools
from pathlib import Path
from typing import Any

import matplotlib  # type: ignore[import-not-found,unused-ignore]

matplotlib.use("Agg")

from matplotlib import pyplot as plt  # type: ignore[import-not-found,unused-ignore]
from matplotlib.patheffects import withStroke  # type: ignore[import-not-found,unused-ignore]
from matplotlib.ticker import (  # type: ignore[import-not-found,unused-ignore]
    FuncFormatter,
    LogLocator,
    NullFormatter,
    NullLocator,
)

from bench.pair import MMNET, NETFRONT, SHARE, XWAY
from bench.results import CALL, CALLS, CPU, DOM0_CPU, MANY, P99, RATE, Results, number, size_text

INK, FAINT, GRID = "#1f2933", "#5f6c7b", "#e4e8ee"
STYLES: dict[str, dict[str, Any]] = {
    XWAY: {"color": "#d7263d", "marker": "o", "lw": 2.8, "ms": 7, "zorder": 6},
    NETFRONT: {"color": "#1b65a6", "marker": "s", "lw": 2.0, "ms": 6, "zorder": 5},
    "unix": {"color": "#2a9d6f", "marker": "^", "lw": 1.5, "ms": 6, "zorder": 4},
    "loopback": {"color": "#8a63b8", "marker": "D", "lw": 1.5, "ms": 5, "zorder": 3},
    MMNET: {"color": "#8c5a2b", "marker": "P", "lw": 1.5, "ms": 6, "zorder": 4},
    "libvchan": {"color": "#e0962b", "marker": "v", "lw": 1.5, "ms": 6, "zorder": 2},
    "memcpy": {"color": "#8a94a0", "marker": ".", "lw": 1.2, "ls": (0, (3, 2)), "ms": 6, "zorder": 1},
}
# What is drawn as bars, by what netfront is compared with
BARS = {
    XWAY: ("Applications over XWAY's sockets", STYLES[XWAY]["color"]),
    MMNET: ("What sockets do not carry, by MMNet", STYLES[MMNET]["color"]),
}
TIMES = "\N{MULTIPLICATION SIGN}"
WIDTH = 12.0  # inches
TITLE = "Between two guests of one Xen host"
NAMES = {
    XWAY: "XWAY, guest to guest",
    NETFRONT: "TCP over netfront, guest to guest",
    "unix": "UNIX socket, one guest",
    "loopback": "TCP loopback, one guest",
    MMNET: "TCP over MMNet, guest to guest",
    "libvchan": "libvchan, guest to guest (not sockets)",
    "memcpy": "a copy in memory, one guest",
}
# Kinds of transactions, and what their number of clients is called.
LOADS = {
    "shop": ("A web shop: nginx and PHP in one guest, PostgreSQL in the other", "users at once"),
    "pgbench -N": ("pgbench -N in one guest, PostgreSQL in the other", "clients"),
}
FIGURES = {
    RATE: ("Throughput", "transactions/s"),
    P99: ("Latency, 99th percentile", "ms"),
    CPU: ("CPU per transaction", "ms, dashed: domain 0's"),
}
RC = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.edgecolor": "#a9b4c0",
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "text.color": INK,
    "svg.hashsalt": "xway",
}


def draw(results: Results, folder: Path) -> list[Path]:
    """Draw it into demo.png and demo.svg of a folder and return their paths."""
    groups = []
    for way in BARS:
        bars = [
            one for one in results.apps if one.way == way and not one.load and results.gain(one) is not None
        ]
        if bars:
            groups.append((way, bars))
    highs = [1.25 + 0.4 * len(bars) for _, bars in groups]  # inches
    below = sum(highs)
    height = 6.5 + below
    with plt.rc_context(RC):
        figure = plt.figure(figsize=(WIDTH, height))

        def axes(left: float, bottom: float, width: float, high: float) -> Any:
            return figure.add_axes((left / WIDTH, bottom / height, width / WIDTH, high / height))

        left = axes(0.85, below + 1.5, 4.95, 3.7)
        _curves(left, results, "stream", "Bandwidth", "Mbit/s")
        _curves(axes(6.8, below + 1.5, 4.95, 3.7), results, "rr", "Latency", "µs one way")
        _legend(figure, left, (below + 0.55) / height, 3)
        bottom = below
        for (way, bars), high in zip(groups, highs, strict=True):
            bottom -= high
            _bars(axes(2.0, bottom + 0.45, WIDTH - 2.25, high - 0.95), results, way, bars)
        return _save(figure, results, folder / "demo")


def draw_loads(results: Results, folder: Path) -> list[Path]:
    """Draw what was measured at several loads into load.png and load.svg; return their paths."""
    kinds = [kind for kind in LOADS if len(results.curve(kind, RATE, XWAY)) > 1]
    if not kinds:
        return []
    high = 3.75  # inches, of one kind
    height = 1.45 + high * len(kinds)
    with plt.rc_context(RC):
        figure = plt.figure(figsize=(WIDTH, height))
        for place, kind in enumerate(kinds):
            bottom = 0.6 + high * (len(kinds) - 1 - place)
            title, who = LOADS[kind]
            figure.text(0.3 / WIDTH, (bottom + 3.35) / height, title, fontsize=12, weight="bold", va="center")
            for column, name in enumerate(FIGURES):
                box = (0.85 + 3.85 * column, bottom + 0.55, 3.1, 2.2)
                axes = figure.add_axes(
                    (box[0] / WIDTH, box[1] / height, box[2] / WIDTH, box[3] / height),
                    xlabel=who,
                )
                _loads(axes, results, kind, name)
        _legend(figure, axes, 0.35 / height, 2)
        return _save(figure, results, folder / "load")


def draw_connections(results: Results, folder: Path) -> list[Path]:
    """Draw what connections cost, and many at once, into connections.png and connections.svg."""
    if not results.sizes(CALL) or not results.sizes(MANY):
        return []
    height = 5.4
    with plt.rc_context(RC):
        figure = plt.figure(figsize=(WIDTH, height))
        left = figure.add_axes((0.85 / WIDTH, 1.2 / height, 6.2 / WIDTH, 2.9 / height))
        _calls(left, results)
        _many(figure.add_axes((8.3 / WIDTH, 1.2 / height, 3.4 / WIDTH, 2.9 / height)), results)
        _legend(figure, left, 0.3 / height, 2)
        return _save(figure, results, folder / "connections")


def _calls(axes: Any, results: Results) -> None:
    """Draw what each call takes, side by side, as the paper's Figure 16 does."""
    places = results.sizes(CALL)
    for offset, path in ((-0.2, NETFRONT), (0.2, XWAY)):
        found = [results.micro[CALL, place][path] for place in places]
        bars = axes.bar(
            [place + offset for place in places],
            [one.median for one in found],
            width=0.38,
            color=STYLES[path]["color"],
            label=NAMES[path],
            zorder=2,
        )
        axes.bar_label(bars, [number(one.median) for one in found], fontsize=8, color=FAINT, padding=2)
    axes.set_yscale("log")
    axes.set_ylim(top=axes.get_ylim()[1] * 1.6)
    axes.set_xticks(
        places, [f"{CALLS[place]}()" for place in places[:-1]] + ["a whole\nconnection"], color=INK
    )
    axes.tick_params(axis="x", length=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(True, axis="y", which="major", color=GRID, lw=0.9)
    axes.set_title("Calls that make and end a connection")
    axes.set_ylabel("µs, log scale")


def _many(axes: Any, results: Results) -> None:
    """Draw what many streams carry together."""
    counts = results.sizes(MANY)
    for path in (XWAY, NETFRONT):
        found = [results.micro[MANY, count][path] for count in counts]
        style = {**STYLES[path], "markeredgecolor": "white", "mew": 0.9}
        axes.plot(counts, [one.median for one in found], **style)
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(0, axes.get_ylim()[1] * 1.08)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.grid(True, which="major", color=GRID, lw=0.9)
    axes.set_title("Many streams of 16 KiB at once")
    axes.set_ylabel("Mbit/s together")
    axes.set_xlabel("streams, log scale")


def _legend(figure: Any, axes: Any, at: float, columns: int) -> None:
    """Name what some axes show, in the middle of the figure and so far up, as a part of its height."""
    figure.legend(
        *axes.get_legend_handles_labels(),
        loc="center",
        bbox_to_anchor=(0.5, at),
        ncol=columns,
        frameon=False,
    )


def _save(figure: Any, results: Results, path: Path) -> list[Path]:
    """Write the title and save the picture."""
    height = figure.get_size_inches()[1]
    head = height - 0.35
    figure.text(0.3 / WIDTH, head / height, TITLE, fontsize=15, weight="bold", va="center")
    figure.text(0.3 / WIDTH, (head - 0.3) / height, _conditions(results), color=FAINT, va="center")
    paths = [path.with_suffix(kind) for kind in (".png", ".svg")]
    for one in paths:
        figure.savefig(one, dpi=160, facecolor="white")
    plt.close(figure)
    return paths


def _conditions(results: Results) -> str:
    about = results.about
    if about["clock"] == "instructions":
        clock = "one instruction is one nanosecond"
    elif about["accelerator"] == "kvm":
        clock = "wall clock"
    else:
        clock = "wall clock of an emulated machine: read the ratios"
    return (
        f"Xen {about['xen']}, two {str(about['type']).upper()} guests with {about['vcpus']} vCPU each, "
        f"Linux {about['kernel']}; {clock}"
    )


def _curves(axes: Any, results: Results, mode: str, title: str, unit: str) -> None:
    sizes = results.sizes(mode)
    for path in STYLES:
        points = [(size, results.micro[mode, size].get(path)) for size in sizes]
        xs = [size for size, series in points if series]
        found = [series for _, series in points if series]
        if not found:
            continue
        style = STYLES[path]
        axes.plot(
            xs, [one.median for one in found], label=NAMES[path], markeredgecolor="white", mew=0.9, **style
        )
        axes.fill_between(
            xs,
            [min(one.values) for one in found],
            [max(one.values) for one in found],
            color=style["color"],
            alpha=0.13,
            linewidth=0,
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [size_text(size) for size in sizes])
    axes.tick_params(axis="x", labelsize=9)
    crowded = [later / size < 4 for size, later in itertools.pairwise(sizes)]
    for place, (label, close) in enumerate(zip(axes.get_xticklabels()[1:], crowded, strict=False)):
        if close:  # 1 KiB and 2 KiB lie beside each other
            axes.get_xticklabels()[place].set_ha("right")
            label.set_ha("left")
    axes.xaxis.set_minor_locator(NullLocator())
    low, high = axes.get_ylim()
    if high / low < 300:  # few powers of ten: mark what lies between them too
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(True, which="major", color=GRID, lw=0.9)
    axes.set_title(title)
    axes.set_ylabel(f"{unit}, log scale")
    axes.set_xlabel("size of a message, log scale")


def _loads(axes: Any, results: Results, kind: str, figure: str) -> None:
    """Draw a figure of transactions against the number of clients."""
    for path in (XWAY, NETFRONT):
        style = {**STYLES[path], "markeredgecolor": "white", "mew": 0.9}
        curve = results.curve(kind, figure, path)
        axes.plot(list(curve), [one.median for one in curve.values()], label=NAMES[path], **style)
        if figure == CPU:
            dom0 = results.curve(kind, DOM0_CPU, path)
            style |= {"lw": 1.5, "ls": (0, (3, 2)), "ms": style["ms"] - 1.5, "clip_on": False}
            axes.plot(list(dom0), [one.median for one in dom0.values()], **style)
    ours, theirs = (results.curve(kind, figure, path) for path in (XWAY, NETFRONT))
    for clients, one in ours.items():
        if clients in theirs and theirs[clients].median:
            axes.annotate(
                f"{one.median / theirs[clients].median:.2f}{TIMES}",
                (clients, max(one.median, theirs[clients].median)),
                (0, 8),
                textcoords="offset points",
                ha="center",
                fontsize=9,
                color=STYLES[XWAY]["color"],
                weight="bold",
                path_effects=[withStroke(linewidth=3, foreground="white")],
                zorder=7,
            )
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(ours), [str(clients) for clients in ours])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.margins(x=0.1)
    axes.set_ylim(0, axes.get_ylim()[1] * 1.12)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.grid(True, which="major", color=GRID, lw=0.9)
    axes.set_title(FIGURES[figure][0], fontsize=10.5)
    axes.set_ylabel(FIGURES[figure][1])


def _bars(axes: Any, results: Results, way: str, metrics: list[Any]) -> None:
    """Draw what is gained over netfront; way: by what."""
    title, color = BARS[way]
    gains = [results.gain(metric) or 0.0 for metric in metrics]
    places = range(len(metrics))
    this_way = [min(results.apps[metric][way].shares, default=1.0) >= SHARE for metric in metrics]
    colors = [color if true else "#a9b4c0" for true in this_way]
    axes.barh(places, gains, height=0.62, color=colors, zorder=2)
    axes.axvline(1, color=STYLES[NETFRONT]["color"], lw=2, zorder=2.5)
    axes.set_yticks(places, [metric.name for metric in metrics], color=INK)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    widest = max([*gains, 1.0])
    axes.set_xlim(0, widest * 1.34)
    for place, metric, gain, true in zip(places, metrics, gains, this_way, strict=True):
        series = results.apps[metric]
        beside = {"xycoords": "data", "textcoords": "offset points", "va": "center"}
        axes.annotate(f"{gain:.2f}{TIMES}", (gain, place), (6, 0), weight="bold", **beside)
        change = f"{number(series[NETFRONT].median)} → {number(series[way].median)} {metric.unit}"
        if not true:
            change += f" (not by {way})"
        axes.annotate(change, (gain, place), (52, 0), color=FAINT, fontsize=9, **beside)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}{TIMES}"))
    axes.grid(True, axis="x", color=GRID, lw=0.9)
    axes.spines["left"].set_visible(False)
    axes.set_title(f"{title}, as multiples of netfront (the blue line)")
