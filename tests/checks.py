#!/usr/bin/python3
"""What a kernel that checks itself (rig/debugkernel.py) is asked, inside: checks.py FUNCTION [NUMBER]."""

import sys
import time
from pathlib import Path

MODULES = [Path("/sys/module") / name for name in ("xway_core", "xway", "mmnet")]
DEBUG = Path("/sys/kernel/debug")
LEAKS = DEBUG / "kmemleak"
FAILING = ["failslab", "fail_page_alloc"]
TIMES = 1_000_000_000  # never reached: the kernel counts down from it


def locks() -> None:
    """See that lockdep is alive: it turns itself off at the first trouble, of whatever kind."""
    assert " debug_locks: 1" in " ".join(Path("/proc/lockdep_stats").read_text().split())


def begin() -> None:
    """Forget what the kernel itself has lost, and look for leaks only when asked."""
    LEAKS.write_text("scan=off")
    LEAKS.write_text("clear")


def leaks() -> None:
    """Find all memory given back; the modules are not loaded any more."""
    assert not any(module.exists() for module in MODULES)
    lost()


def lost() -> None:
    """Find no memory that nothing refers to."""
    for _ in range(2):
        # An object counts after five seconds without a reference.
        time.sleep(5.5)
        LEAKS.write_text("scan")
    found = LEAKS.read_text()
    assert not found, found


def address_of(symbol: str) -> tuple[int, int]:
    """Return where a function of the kernel begins and where the next one does."""
    lines = sorted(line.split()[:3:2] for line in Path("/proc/kallsyms").read_text().splitlines())
    at = next(i for i, line in enumerate(lines) if line[1] == symbol)
    begin = int(lines[at][0], 16)
    return begin, next(int(line[0], 16) for line in lines[at:] if int(line[0], 16) > begin)


def arm() -> None:
    """Choose what failing() is about: the loaded modules' own requests for memory, and TCP's on their behalf.

    There is room for one range of addresses only: from the first module to the end of the last. Here no
    other module lies between.

    But not for FIN and reset: without memory TCP sends none, and the other end waits for ever, module or not.
    """
    loaded = [module for module in MODULES if module.exists()]
    starts = {int((module / "sections/.text").read_text(), 16): module for module in loaded}
    end = max(starts)
    end += int((starts[end] / "coresize").read_text())
    between = {line.split()[0] for line in Path("/proc/modules").read_text().splitlines()}
    assert between == {module.name for module in loaded}, between
    # One behind the other in tcp_output.c
    fin, reset = address_of("tcp_send_fin"), address_of("tcp_send_active_reset")
    assert fin[1] == reset[0]
    for kind in FAILING:
        for name, value in {
            "require-start": min(starts), "require-end": end,
            "reject-start": fin[0], "reject-end": reset[1], "stacktrace-depth": 32, "times": TIMES,
            "verbose": 0, "probability": 0, "ignore-gfp-wait": "N",
        }.items():  # fmt: skip
            (DEBUG / kind / name).write_text(str(value))


def failed() -> int:
    """Return how many have failed since arm()."""
    return sum(TIMES - int((DEBUG / kind / "times").read_text()) for kind in FAILING)


def failing(percent: int) -> None:
    """Let so many of them fail."""
    for kind in FAILING:
        (DEBUG / kind / "probability").write_text(str(percent))


if __name__ == "__main__":
    globals()[sys.argv[1]](*map(int, sys.argv[2:]))
