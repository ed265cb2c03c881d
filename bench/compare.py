"""The command `bench/compare`: what a message costs with the modules of two commits, in one boot."""

import argparse
import json
import sys
from collections.abc import Sequence
from statistics import median

from bench import connections, micro, plugin, programs
from bench.pair import HOST, NETFRONT, XWAY, Pair
from bench.results import CALLS, Results, Series, number, size_text
from rig import build, machine, revision
from rig.errors import RigError
from rig.guest import Guest

TREE = "tree"
TESTS = (
    *("stream:1", "stream:64", "stream:2048", "stream:65536", "rr:1", "rr:2048", "rr:16384"),
    *("connect", "whole"),
)
CONNECTS = 200


def _use(pair: Pair, way: str) -> None:
    """Have both guests run the modules of one of the two, and wait for their link."""
    pair.both(lambda guest: revision.use(guest, f"/tmp/{way}"))
    pair.both(lambda guest: guest.run(plugin.LINKED, timeout=240))


def _measure(pair: Pair, arguments: argparse.Namespace) -> dict[str, dict[str, Series]]:
    """Return the time of a message or a call in ns: for each test, of both commits and of netfront."""
    lives = connections.Connections(pair, Results({}, (XWAY,)))
    tests = micro.Micro(pair, micro.Plan((), 1, 300, 60, 30), Results({}, (XWAY,)))
    found = {word: {way: Series() for way in ("before", "after", NETFRONT)} for word in arguments.test}
    calls = [word for word in arguments.test if word in CALLS]
    for turn in range(arguments.rounds):
        # Either is first in every other round.
        for way in ("before", "after") if turn % 2 else ("after", "before"):
            _use(pair, way)
            tests.warm_up()
            for path in (XWAY, NETFRONT):
                pair.go(path)
                series = {word: one[way if path == XWAY else NETFRONT] for word, one in found.items()}
                before, took = pair.attached(), lives.timed(CONNECTS) if calls else {}
                if calls and (pair.attached() - before >= CONNECTS) != (path == XWAY):
                    pair.problem(f"{way}: attached connections by {path}")
                for word in calls:
                    series[word].values.append(took[word] * 1000)
                for word in arguments.test:
                    if word in CALLS:
                        continue
                    mode, _, size = word.partition(":")
                    value, share = tests.measure(path, mode, int(size))
                    cost = int(size) * 8000 / value if mode == micro.STREAM else value * 1000
                    series[word].values.append(cost)
                    series[word].shares.append(share)
            print(f"compare: round {turn + 1}, {way}", file=sys.stderr, flush=True)
    tests.stop()
    lives.stop()
    return found


def _ratio(series: dict[str, Series]) -> float:
    """Return the median of the rounds' ratios."""
    pairs = zip(series["before"].values, series["after"].values, strict=True)
    return median(after / before for before, after in pairs)


def _show(found: dict[str, dict[str, Series]]) -> None:
    print(f"| ns a message or call | before | spread | after | spread | after/before | {NETFRONT} | spread |")
    print("|" + " --- |" * 8)
    for word, series in found.items():
        mode, _, size = word.partition(":")
        cells = [f"{mode}, {size_text(int(size))}" if size else word]
        for way in ("before", "after"):
            cells += [number(series[way].median), f"{series[way].spread:.1%}"]
        cells += [f"{_ratio(series):.3f}", number(series[NETFRONT].median), f"{series[NETFRONT].spread:.1%}"]
        print("| " + " | ".join(cells) + " |")


def _check(arguments: argparse.Namespace) -> None:
    for word in arguments.test:
        if word not in CALLS and not micro.is_test(word):
            raise RigError(f"{word} is neither MODE:SIZE, MODE being {' or '.join(micro.MODES)}, nor a call")
    if arguments.rounds < 1:
        raise RigError(f"--rounds {arguments.rounds}: at least 1")


def run(arguments: argparse.Namespace) -> int:
    """Do it all; return the exit status: 1 if a message takes more than the limit allows."""
    _check(arguments)
    commits = {"before": arguments.before, "after": arguments.after}
    config = machine.Config(host=HOST, type=arguments.type, kernel=arguments.kernel, clock="instructions")
    rig = machine.up(config, "compare", die_with_us=True)
    try:
        pair = Pair(rig)
        made = programs.build(config.debian)
        pair.both(lambda guest: programs.install(guest, made))
        for way, commit in commits.items():
            products = (
                build.products(config.debian, arguments.kernel)
                if commit == TREE
                else revision.products(commit, config.debian, arguments.kernel)
            )

            def put(guest: Guest, way: str = way, products: build.Products = products) -> None:
                revision.put(guest, products, f"/tmp/{way}")

            pair.both(put)
        found = _measure(pair, arguments)
        for line in rig.check_logs():
            pair.problem(line)
    finally:
        rig.down()
    if arguments.json:
        rows = {
            word: {way: one.to_json() for way, one in series.items()} | {"ratio": _ratio(series)}
            for word, series in found.items()
        }
        print(json.dumps(rows, indent=1))
    else:
        _show(found)
    dearer = [word for word, series in found.items() if _ratio(series) > 1 + arguments.limit / 100]
    for word in dearer:
        print(f"compare: {word} takes {_ratio(found[word]):.3f} of before", file=sys.stderr)
    return 1 if dearer or pair.problems else 0


def main(words: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="compare",
        description="Compare what a message and connect() cost with the modules of two commits: in one boot,"
        " by turns, by the instruction clock. Exit status 1 if it is more than --limit allows, or bytes went"
        " another way.",
    )
    parser.add_argument("before", metavar="BEFORE", help="a commit")
    parser.add_argument("test", nargs="*", default=list(TESTS), metavar="TEST", help="MODE:SIZE, or a call")
    parser.add_argument("--after", default=TREE, metavar="COMMIT", help="default: the tree as it is")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="default 5")
    parser.add_argument("--limit", type=float, default=1.0, metavar="PERCENT", help="default 1")
    parser.add_argument("--type", choices=("pv", "pvh"), default="pv", help="type of the guests")
    parser.add_argument("--kernel", choices=("6.12", "6.1"), default="6.12", help="the guests' kernel")
    parser.add_argument("-j", "--json", action="store_true", help="JSON instead of a table")
    arguments = parser.parse_args(words)
    try:
        return run(arguments)
    except RigError as error:
        print(f"compare: {error}", file=sys.stderr)
        return 1
