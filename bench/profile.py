"""The command `bench/profile`: where the instructions of a message, or of a program that copies, go."""

import argparse
import dataclasses
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Sequence

from bench import apps, counts, micro, plugin, programs
from bench.pair import BETWEEN, EVERYTHING, HOST, MMNET, NETFRONT, XWAY, Pair
from bench.results import Results
from rig import debian, machine
from rig.errors import RigError
from rig.paths import BUILD

# Groups of functions, by their names; the first that fits
GROUPS = (
    ("the programs themselves", r"\(programs\)"),
    ("Xen", r"\(Xen\)"),
    ("XWAY", r"xway(_core)?: "),
    (
        "copying",
        r"rep_movs|rep_stos|memcpy|__memcpy|copy_page|_copy_(to|from)_iter|copy_user",
    ),
    (
        "sockets, TCP/IP, drivers, bridge",
        r".*(tcp|skb|ip_|inet|net|napi|br_|nf_|nft|sock|eth|gnttab|qdisc|sch_direct|dev_|other domains|neigh"
        r"|dst_|fib|ipv4|csum|gro|xenvif|xmit|evtchn|virtio)",
    ),
    (
        "memory and tmpfs",
        r".*(shmem|xas_|folio|page|memcg|lru|rmqueue|buddy|filemap|zone|vmstat|mod_node|memset|clear_|percpu"
        r"|swap|mapping|workingset|rstat|pfn|balance_dirty|free_one|iov_iter|generic_perform|radix|compaction"
        r"|kmem_cache|slab|pcp|vma|fault|pte|pmd|mm_|mas_|mt|tlb|noop_dirty|inode|policy_nodemask)",
    ),
    ("system calls, files, processes", ""),
)
COPIES = {name: app for name, app in apps.FULL_APPS.items() if app.mib}


def _grouped(counts: Counter[str]) -> Counter[str]:
    """Return instructions by group."""
    groups: Counter[str] = Counter()
    for name, number in counts.items():
        groups[next(group for group, pattern in GROUPS if re.match(pattern, name))] += number
    return groups


def _messages(
    tests: micro.Micro, word: str, path: str, profiler: plugin.Profiler
) -> tuple[plugin.Counts, int]:
    """Run MODE:SIZE; return what was counted, and the number of messages."""
    mode, _, size = word.partition(":")
    line, found = profiler.count(lambda: tests.run(path, mode, int(size)))
    return found, int(line["sent"]) // int(size)


def _copied(pair: Pair, app: apps.App, path: str, profiler: plugin.Profiler) -> tuple[plugin.Counts, int]:
    """Run a program; return what was counted, and how many KiB it copied."""
    found = plugin.Counts()

    def run() -> dict[str, float]:
        nonlocal found
        figures, found = profiler.count(lambda: app.run(pair.client))
        return figures

    print(apps.round(app, path, Results({}, (path,)), run), file=sys.stderr)
    if pair.problems:
        raise RigError(pair.problems[0])
    return found, app.mib << 10


def _show(found: plugin.Counts, number: int, path: str, word: str, arguments: argparse.Namespace) -> None:
    """Show what was counted in so many messages or KiB, by function."""
    counted: Counter[str] = getattr(found, arguments.of)
    total = sum(counted.values())
    what = f"{arguments.of} a {'KiB' if word in COPIES else 'message'}"
    print(f"\n{path}, {word}: {total / number:.{0 if arguments.of == 'instructions' else 2}f} {what}")
    shown = _grouped(counted) if arguments.groups else counted
    for name, part in shown.most_common(arguments.top):
        print(f"{part / number:10.{1 if arguments.of == 'instructions' else 2}f} {part / total:6.1%}  {name}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="profile",
        description="Count, by the instruction clock, where the instructions of one message go,"
        " or those of a program that copies a file.",
    )
    parser.add_argument(
        "test",
        nargs="+",
        metavar="TEST",
        help=f"MODE:SIZE, such as stream:1 or rr:2048, or a program: {', '.join(COPIES)}",
    )
    parser.add_argument(
        "--path",
        action="append",
        choices=(*micro.SOCKETS, MMNET),
        help="default: netfront and xway; programs have only these",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--groups", action="store_true", help="show groups of functions instead")
    what.add_argument(
        "--counts",
        action="store_true",
        help="show instead what a message copies, locks, allocates and asks of Xen, one way",
    )
    parser.add_argument(
        "--of",
        choices=[one.name for one in dataclasses.fields(plugin.Counts)],
        default="instructions",
        help="what is shown by function, default instructions",
    )
    parser.add_argument("-j", "--json", action="store_true", help="with --counts: show them as JSON")
    parser.add_argument("--type", choices=("pv", "pvh"), default="pv", help="type of the guests")
    parser.add_argument("--kernel", choices=debian.KERNELS, default="6.12", help="the guests' kernel")
    parser.add_argument("--top", type=int, default=40, metavar="N", help="functions shown, default 40")
    return parser


def _check(tests: Sequence[str], paths: Sequence[str]) -> None:
    """Fail if one of the tests is none, or has not all of the paths."""
    for word in tests:
        if word in COPIES:
            if not set(paths) <= {NETFRONT, XWAY}:
                raise RigError(f"{word}: a program runs from guest to guest, over netfront or xway")
        elif not micro.is_test(word):
            raise RigError(f"{word} is not MODE:SIZE, MODE being {' or '.join(micro.MODES)}, nor a program")


def run(arguments: argparse.Namespace) -> int:
    """Do it all; return the exit status."""
    paths = arguments.path or [NETFRONT, XWAY]
    _check(arguments.test, paths)
    control = BUILD / f"bench/profile.{os.getpid()}"
    config = machine.Config(host=HOST, type=arguments.type, kernel=arguments.kernel, clock="instructions")
    words = f"{plugin.build(config.own_emulator)},control={control}"
    os.mkfifo(control)
    config = dataclasses.replace(config, plugin=words)
    if not COPIES.keys().isdisjoint(arguments.test):
        config = dataclasses.replace(config, programs="compat", memory=1280)
    if MMNET in paths:
        config = dataclasses.replace(config, policy=EVERYTHING)
    rig = machine.up(config, "profile", die_with_us=True)
    try:
        pair = Pair(rig)
        made = programs.build(config.debian)
        pair.both(lambda guest: programs.install(guest, made))
        tests = micro.Micro(pair, micro.Plan((), 1, 100, 100, 20), Results({}, tuple(paths)))
        tests.warm_up()
        if MMNET in paths:
            pair.join()
        copies = [word for word in COPIES if word in arguments.test]
        running = apps.start(pair, [COPIES[word] for word in copies])
        if pair.problems:
            raise RigError(pair.problems[0])
        started = dict(zip(copies, running, strict=True))
        profiler = plugin.Profiler(pair, control)
        costs: dict[str, dict[str, dict[str, float]]] = {word: {} for word in arguments.test}
        for path in paths:
            if path in BETWEEN:
                pair.go(path)
            for word in arguments.test:
                mode, _, size = word.partition(":")
                payload = float(size or 1024)
                if word in COPIES:
                    found, number = _copied(pair, started[word], path, profiler)
                elif arguments.counts:
                    found, number = counts.of_message(pair, tests, profiler, path, mode, int(size))
                else:
                    found, number = _messages(tests, word, path, profiler)
                if arguments.counts:
                    costs[word][path] = counts.figures(found, number, payload)
                else:
                    _show(found, number, path, word, arguments)
        if arguments.json:
            print(json.dumps(costs, indent=1))
        elif arguments.counts:
            for word, columns in costs.items():
                print(f"\n{word}, of a {'KiB' if word in COPIES else 'message'}:")
                print("\n".join(counts.table(columns)))
        tests.stop()
    finally:
        rig.down()
        control.unlink()
    return 0


def main(words: Sequence[str] | None = None) -> int:
    """Run the command."""
    arguments = _parser().parse_args(words)
    try:
        return run(arguments)
    except RigError as error:
        print(f"profile: {error}", file=sys.stderr)
        return 1
