"""The command `bench/demo`: boots, measures, prints a table and draws the picture."""

import argparse
import dataclasses
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import apps, connections, disks, micro, packets, programs
from bench.pair import EVERYTHING, HOST, MMNET, NETFRONT, XWAY, Pair, each
from bench.results import Results
from rig import debian, host, machine, qemu
from rig.errors import RigError
from rig.paths import BUILD, TREE

PACKAGES = ("gcc", "libc6-dev", "libxen-dev", "python3-matplotlib", "fonts-dejavu-core")
SIZES = (1, 64, 1024, 2048, 16384, 65536)
FULL_SIZES = (1, 64, 512, 2048, 16384, 65536, 1 << 20)
QUICK_SIZES = (1, 64, 2048, 65536)
# Streams at once: ms that are measured, and before that. Emulated guests need a tenth of a second of their
# CPU to move a connection to the ring.
MANY = {
    "instructions": {1: (200, 200), 8: (200, 200), 64: (200, 400), 512: (300, 1500)},
    "wall": {1: (1000, 500), 8: (1000, 1500), 64: (2000, 8000), 512: (3000, 30000)},
}


def _plan(arguments: argparse.Namespace) -> micro.Plan:
    quick, clock = arguments.quick, arguments.clock
    sizes = QUICK_SIZES if quick else FULL_SIZES if arguments.full else SIZES
    if clock == "instructions":  # figures repeat: one short round does
        return micro.Plan(sizes, 1, 300, 60, 30)
    if arguments.type == "pvh":  # emulated, it takes a tenth of a second to move a connection to the ring
        return micro.Plan(sizes, 3, 1500, 400, 300)
    rounds = 5 if arguments.full else 3
    return micro.Plan(sizes, rounds, 300, 200, 100) if quick else micro.Plan(sizes, rounds, 500, 400, 200)


class Progress:
    """Lines on standard error with the time since the start."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def __call__(self, text: str) -> None:
        """Print a line."""
        print(f"demo {time.monotonic() - self._start:4.0f} s  {text}", file=sys.stderr, flush=True)


def _emulator(rig: machine.Machine) -> int:
    return int(json.loads((rig.folder / "state.json").read_text())["pid"])


class Others:
    """How much of the host's CPUs other programs take while we measure: more than a little spoils figures."""

    LIMIT = 0.1

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._start = self._read()

    def _read(self) -> tuple[int, int, int]:
        """Return ticks of all CPUs, those not idle, and those of the emulator."""
        ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        own = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return sum(ticks), sum(ticks) - ticks[3] - ticks[4], int(own[11]) + int(own[12])

    def share(self) -> float:
        """Return the part of the CPUs' time since the start that others took."""
        everything, busy, own = (now - then for now, then in zip(self._read(), self._start, strict=True))
        return max(0.0, (busy - own) / max(1, everything))


def _commit() -> str | None:
    """Return the commit that is measured, with a + if the tree differs from it; None without git."""
    words = ["git", "-C", str(TREE), "describe", "--always", "--abbrev=12", "--dirty=+"]
    done = subprocess.run(words, capture_output=True, text=True, check=False) if shutil.which("git") else None
    return done.stdout.strip() or None if done else None


def _about(rig: machine.Machine, plan: micro.Plan) -> dict[str, object]:
    config = rig.config
    xen = rig.dom0.run(["xl", "info", "xen_version"]).stdout.strip()
    return {
        "type": config.type,
        "kernel": rig.guest("g1").run(["uname", "-r"]).stdout.strip(),
        "xen": xen,
        "commit": _commit(),
        "ring_kib": int(rig.guest("g1").read("/sys/module/xway/parameters/ring_kib")),
        "clock": config.clock,
        "accelerator": rig.accel,
        "qemu": qemu.version(),
        "vcpus": config.vcpus,
        "rounds": plan.rounds,
        "host": {"cpus": os.cpu_count(), "machine": platform.machine()},
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _measure_sockets(
    pair: Pair, tests: micro.Micro, plan: micro.Plan, results: Results, arguments: argparse.Namespace
) -> None:
    """Measure streams, requests, and what connections cost."""
    say: Progress = arguments.say
    for number in range(plan.rounds):
        for path in micro.PATHS:
            for line in tests.round(path):
                say(f"round {number + 1}/{plan.rounds}  {line}")
    for line in tests.check():
        say(line)
    if arguments.full:
        lives = connections.Connections(pair, results)
        # A connect() by the wall clock falls into one of two rhythms, of which one takes twice as long: many
        # short turns, one after the other, and each way comes first as often as the other.
        turns, connects = (1, 200) if arguments.clock == "instructions" else (60, 15)
        for number in range(turns):
            for path in (NETFRONT, XWAY) if number % 2 == 0 else (XWAY, NETFRONT):
                for line in lives.calls(path, connects):
                    say(f"turn {number + 1}/{turns}  {line}")
        for count, times in MANY[arguments.clock].items():
            rounds = min(plan.rounds, 3 if count < 512 else 1)  # these take a minute
            for number in range(rounds):
                for path in (NETFRONT, XWAY):
                    for line in lives.many(path, count, *times):
                        say(f"round {number + 1}/{rounds}  {line}")
        lives.stop()


def _measure_apps(
    pair: Pair,
    plan: micro.Plan,
    kinds: Sequence[type[apps.App]],
    results: Results,
    arguments: argparse.Namespace,
) -> None:
    """Measure applications."""
    started = apps.start(pair, kinds, arguments.quick)
    most = max((app.rounds for app in started), default=0)
    rounds = 1 if arguments.quick else min(plan.rounds, most)
    for number in range(rounds):
        for app in [app for app in started if number < app.rounds]:
            for way in (NETFRONT, app.way):
                arguments.say(f"round {number + 1}/{rounds}  {apps.round(app, way, results)}")


def _chosen(kinds: Mapping[str, type[apps.App]], arguments: argparse.Namespace) -> list[type[apps.App]]:
    """Return those that --only names."""
    return [kind for name, kind in kinds.items() if name in arguments.only]


def measure(pair: Pair, plan: micro.Plan, results: Results, arguments: argparse.Namespace) -> None:
    """Measure everything on a rig that is up; what is done stays in `results` if it breaks off."""
    made = programs.build(pair.machine.config.debian)
    each(list(pair.machine.domains.values()), lambda domain: programs.install(domain, made))
    tests = micro.Micro(pair, plan, results)
    tests.warm_up()
    if arguments.only:
        tests.stop()
        _measure_apps(pair, plan, _chosen(apps.FULL_APPS, arguments), results, arguments)
        if chosen := _chosen(disks.DISKS, arguments):
            pair.join()
            _measure_apps(pair, plan, chosen, results, arguments)
        return
    _measure_sockets(pair, tests, plan, results, arguments)
    if not arguments.no_apps:
        kinds = list(apps.FULL_APPS.values()) if arguments.full else list(apps.APPS)
        _measure_apps(pair, plan, kinds, results, arguments)
    pair.join()  # not before: what was measured until now had no such devices
    for number in range(plan.rounds):
        for line in tests.round(MMNET):
            arguments.say(f"round {number + 1}/{plan.rounds}  {line}")
    tests.stop()
    kinds = [*packets.KINDS, *(disks.DISKS.values() if pair.machine.config.programs == "compat" else ())]
    _measure_apps(pair, plan, kinds, results, arguments)
    pair.part()
    if arguments.full and arguments.clock == "instructions":
        for line in connections.untouched(pair, results, tests, (1, 2048, 65536), pair.machine.dom0):
            arguments.say(line)


def _measure_all(arguments: argparse.Namespace) -> Results:
    """Boot, measure and end the rig."""
    plan = _plan(arguments)
    config = machine.Config(
        host=HOST,
        type=arguments.type,
        kernel=arguments.kernel,
        clock=arguments.clock,
        spare=False,
        policy=EVERYTHING,
    )
    if arguments.only or (arguments.full and not arguments.no_apps):
        config = dataclasses.replace(config, programs="compat", memory=1280)
    rig = machine.up(config, arguments.name, die_with_us=True)
    try:
        rig.pin()
        arguments.say(f"Xen is up with two {config.type} guests ({rig.accel}, {config.clock} clock)")
        pair = Pair(rig)
        others = Others(_emulator(rig))
        results = Results(_about(rig, plan), micro.ALL, problems=pair.problems)
        try:
            measure(pair, plan, results, arguments)
        except (RigError, KeyboardInterrupt) as error:
            pair.problem(f"broken off: {error or 'interrupted'}")
        if rig.alive:
            results.about["others_on_host"] = round(others.share(), 3)
            for line in rig.check_logs():
                pair.problem(line)
        if rig.emulator_failed:
            pair.problem("the emulator has failed, not what is measured: try again")
        if results.problems:
            (arguments.out / "console.log").write_text(rig.output())
        return results
    finally:
        rig.down()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="demo",
        description="Boot a real Xen with two guests and measure TCP between them without and with XWAY.",
    )
    parser.add_argument("--type", choices=("pv", "pvh"), default="pv", help="type of the guests")
    parser.add_argument("--kernel", choices=debian.KERNELS, default="6.12", help="the guests' kernel")
    parser.add_argument(
        "--clock",
        choices=("wall", "instructions"),
        default="wall",
        help="instructions: one guest instruction takes one nanosecond of guest time",
    )
    parser.add_argument("--quick", action="store_true", help="fewer sizes, shorter runs")
    parser.add_argument(
        "--full",
        action="store_true",
        help="connections too: what making one costs, many at once, and TCP that is none of XWAY's",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--no-apps", action="store_true", help="leave the applications out")
    which.add_argument(
        "--only",
        action="append",
        choices=[*apps.FULL_APPS, *disks.DISKS],
        help="measure this application and nothing else; may be repeated",
    )
    parser.add_argument("--out", type=Path, default=BUILD / "demo", help="folder for results and picture")
    parser.add_argument("--name", default="demo", help="name of the rig")
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Do it all; return the exit status."""
    host.need_packages(PACKAGES)
    from bench import plot  # here, as its package may just have been installed

    if arguments.only and arguments.full:
        raise RigError("--full measures everything, --only one application: give one of them")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in ("demo", "load", "connections"):
        for picture in arguments.out.glob(f"{name}.*"):  # of another run
            picture.unlink()
    arguments.say = Progress()
    results = _measure_all(arguments)
    text = json.dumps(results.to_json(), indent=1, ensure_ascii=False)
    (arguments.out / "results.json").write_text(text + "\n")
    print(f"\n{results.table()}\n")
    pictures = plot.draw(results, arguments.out) if results.micro else []
    pictures += [*plot.draw_loads(results, arguments.out), *plot.draw_connections(results, arguments.out)]
    for path in pictures:
        print(f"picture: {path}")
    print(f"numbers: {arguments.out / 'results.json'}", flush=True)
    others = float(str(results.about.get("others_on_host", 0)))
    if arguments.clock == "wall" and others > Others.LIMIT:
        text = f"other programs took {others:.0%} of this machine's CPUs: do not trust the figures"
        print(f"demo: {text}", file=sys.stderr)
    if results.problems:
        print(f"\nNot as it should be:\n\n{chr(10).join(results.problems)}", file=sys.stderr)
    arguments.say("done" if not results.problems else f"done, with {len(results.problems)} problems")
    return 1 if results.problems else 0


def main(words: Sequence[str] | None = None) -> int:
    """Run the command."""
    arguments = _parser().parse_args(words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run(arguments)
    except RigError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return 130
