"""The command `rig`."""

import argparse
import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rig import build, client, debian, host, image, machine
from rig.errors import RigError
from rig.guest import shown


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rig", description="A real Xen, driven like any other tool.")
    parser.add_argument("--name", default=machine.DEFAULT_NAME, help="which rig, where there are several")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument("--name", default=argparse.SUPPRESS, help="which rig, where there are several")
        return sub

    up = add("up", "bring up Xen with guests, or one plain VM")
    up.add_argument(
        "--host",
        choices=tuple(debian.DEBIANS),
        default=debian.DEFAULT,
        help="which Debian is in all domains: 12 with Xen 4.17, 13 with Xen 4.20",
    )
    up.add_argument("--guests", type=int, default=2, help="number of guests: g1, g2, ...")
    up.add_argument("--type", choices=machine.TYPES, default="pv", help="type of the guests")
    up.add_argument(
        "--kernel", choices=(*debian.KERNELS, image.DEBUG), default="6.12", help="the guests' kernel"
    )
    up.add_argument("--vcpus", type=int, default=0, help="of each guest (1; plain: 2)")
    up.add_argument("--memory", type=int, default=512, help="of each guest, MiB")
    up.add_argument("--plain", action="store_true", help="one ordinary VM named g1, without Xen")
    up.add_argument(
        "--clock",
        choices=("wall", "instructions"),
        default="wall",
        help="instructions: one guest instruction takes one nanosecond of guest time",
    )
    up.add_argument("--xenstored", choices=("c", "o"), default="c", help="which XenStore daemon")
    up.add_argument("--policy", default="allow all", help="content of xwayd.conf")
    up.add_argument(
        "--programs", choices=debian.PROGRAMS, default="base", help="what the image has installed"
    )
    up.add_argument("--arguments", default="", help="more for the command line of the guests' kernel")
    up.add_argument("--no-xway", action="store_true", help="leave the tree's module and daemon out")
    run = add("exec", "run a command in a domain; output and exit status pass through")
    run.add_argument("--timeout", type=float, default=None, help="seconds; then it is killed (status 124)")
    run.add_argument("--no-stdin", action="store_true", help="do not pass standard input on")
    run.add_argument("guest")
    run.add_argument("words", nargs="*", metavar="-- CMD...")
    put = add("put", "copy a file into a domain")
    put.add_argument("local", type=Path)
    put.add_argument("place", metavar="GUEST:PATH")
    get = add("get", "copy a file out of a domain")
    get.add_argument("place", metavar="GUEST:PATH")
    get.add_argument("local", type=Path)
    log = add("log", "print a domain's kernel log; a dead one's console")
    log.add_argument("--console", action="store_true", help="the console, also of a living one")
    log.add_argument("guest")
    add("status", "say what is up")
    add("check-logs", "look for trouble in every domain's kernel log")
    down = add("down", "end the rig")
    down.add_argument("--all", action="store_true", help="all rigs of this tree")
    add("build", "build images, the modules for all kernels, and the tools")
    return parser


def _split(place: str) -> tuple[str, str]:
    guest, colon, path = place.partition(":")
    if not (guest and colon and path):
        raise RigError(f"not GUEST:PATH: {place}")
    return guest, path


def _up(options: argparse.Namespace) -> int:
    config = machine.Config(
        host=options.host,
        guests=options.guests,
        type=options.type,
        kernel=options.kernel,
        vcpus=options.vcpus,
        memory=options.memory,
        plain=options.plain,
        clock=options.clock,
        xenstored=options.xenstored,
        xway=not options.no_xway,
        policy=options.policy,
        programs=options.programs,
        arguments=options.arguments,
    )
    begin = time.monotonic()
    rig = machine.up(config, options.name)
    print(f"{' '.join(rig.domains)} up in {time.monotonic() - begin:.1f} s ({rig.accel})")
    return 0


def _exec(options: argparse.Namespace) -> int:
    words = options.words
    if not words:
        raise RigError("no command to run (rig exec GUEST -- CMD...)")
    rig = machine.find(options.name)
    guest = rig.guest(options.guest)

    def stdout(data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def stderr(data: bytes) -> None:
        sys.stderr.buffer.write(data)
        sys.stderr.buffer.flush()

    stdin: int | bytes = b""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # it may be closed
        if not options.no_stdin and not os.isatty(sys.stdin.fileno()):
            stdin = sys.stdin.fileno()
    status = client.execute(
        guest.port,
        words,
        stdin=stdin,
        timeout=options.timeout,
        guest_limit=rig.config.clock == "wall",
        on_stdout=stdout,
        on_stderr=stderr,
    )
    if status is None:
        print(f"rig: killed after {options.timeout:g} s: {shown(words)}", file=sys.stderr)
        return 124
    return status


def _status() -> int:
    for name in machine.names():
        try:
            rig = machine.find(name)
        except RigError as error:
            print(f"{name}: {error}")
            continue
        config = rig.config
        kind = "plain" if config.plain else config.type
        what = f"up, Debian {config.host}, {kind}, Linux {config.kernel}, clock {config.clock}, {rig.accel}"
        print(f"{name}: {what}, limits x {rig.slow:.1f}")
        for domain in rig.domains.values():
            try:
                domain.run(["true"], connect_wait=2.0, timeout=5.0)
                state = "answers"
            except RigError:
                state = "does not answer"
            print(f"  {domain.name}  {domain.ip4}  {domain.ip6}  {state}")
    return 0


def _build() -> int:
    host.need_packages()
    for one in debian.DEBIANS.values():
        image.start(image.base(one), machine.hosts())
        for kernel in debian.KERNELS:
            for path in build.module(one, kernel):
                print(path)
        for path in build.programs(one).values():
            print(path)
    return 0


def _run(options: argparse.Namespace) -> int:
    match options.command:
        case "up":
            return _up(options)
        case "exec":
            return _exec(options)
        case "put":
            guest, path = _split(options.place)
            machine.find(options.name).guest(guest).put(options.local, path)
        case "get":
            guest, path = _split(options.place)
            machine.find(options.name).guest(guest).get(path, options.local)
        case "log":
            rig = machine.find(options.name)
            print((rig.console if options.console else rig.log)(options.guest), end="")
        case "status":
            return _status()
        case "check-logs":
            trouble = machine.find(options.name).check_logs()
            print("".join(line + "\n" for line in trouble), end="")
            return 1 if trouble else 0
        case "down":
            for name in machine.names() if options.all else [options.name]:
                machine.remove(name)
        case "build":
            return _build()
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the rig's own errors are one text on standard error and status 125."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    split = given.index("--") if "--" in given else len(given)
    options = _parser().parse_args(given[:split])
    if given[split + 1 :]:
        if options.command != "exec":
            _parser().error(f"nothing can follow -- for {options.command}")
        options.words += given[split + 1 :]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that up() clears away what it started
    try:
        return _run(options)
    except RigError as error:
        print(f"rig: {error}", file=sys.stderr)
        return 125
    except KeyboardInterrupt:
        return 130
