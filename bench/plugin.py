"""The emulator's plugin that counts: building it, speaking to it, and the names of what it counts."""

import bisect
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from bench.pair import Pair
from rig.errors import RigError
from rig.host import run as run_here
from rig.paths import BUILD

# asm/xen/page.h, Documentation/arch/x86/x86_64/mm.rst: where in the address space what lies
USER = range(0x0000_8000_0000_0000)
XEN = range(0xFFFF_8000_0000_0000, 0xFFFF_8800_0000_0000)
MODULES = range(0xFFFF_FFFF_C000_0000, 0xFFFF_FFFF_FF00_0000)
SOURCE = Path(__file__).with_name("profile.c")
Found = TypeVar("Found")


def build() -> Path:
    """Compile the emulator's plugin and return it."""
    made = BUILD / "bench/profile.so"
    made.parent.mkdir(parents=True, exist_ok=True)
    run_here(["gcc", "-std=gnu11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-o", made, SOURCE])
    return made


class Symbols:
    """Names of a guest kernel's functions, from its /proc/kallsyms and /proc/modules."""

    def __init__(self, kallsyms: str, modules: str) -> None:
        sizes = re.findall(r"^\S+ (\d+) .* 0x([0-9a-f]+)", modules, re.MULTILINE)
        self._modules = [range(int(at, 16), int(at, 16) + int(size)) for size, at in sizes]
        found = re.findall(r"^([0-9a-f]+) [tTwW] (\S+)(?:\s+\[(\S+)\])?$", kallsyms, re.MULTILINE)
        table = sorted((int(at, 16), f"{module}: {name}" if module else name) for at, name, module in found)
        self._at = [at for at, _ in table]
        self._names = [name for _, name in table]

    def name(self, address: int) -> str:
        """Return the function that an address lies in, or whose it is."""
        if address in USER:
            return "(programs)"
        if address in XEN:
            return "(Xen)"
        if address in MODULES and not any(address in module for module in self._modules):
            return "(other domains' modules)"
        place = bisect.bisect_right(self._at, address) - 1
        return self._names[place] if place >= 0 else "(kernel)"


class Profiler:
    """Counts instructions by function while a test runs."""

    def __init__(self, pair: Pair, control: Path) -> None:
        self._control = control
        self._symbols = Symbols(
            pair.client.run("cat /proc/kallsyms").stdout, pair.client.run("cat /proc/modules").stdout
        )

    def _say(self, line: str) -> None:
        with open(self._control, "w") as fifo:
            fifo.write(line + "\n")

    def count(self, test: Callable[[], Found]) -> tuple[Found, Counter[str]]:
        """Run a test; return what it returns, and instructions by function."""
        result = self._control.with_name("counts")
        done = result.with_name("counts.done")
        done.unlink(missing_ok=True)
        self._say("start")
        found = test()
        self._say(f"stop {result}")
        end = time.monotonic() + 30
        while not done.exists():
            if time.monotonic() > end:
                raise RigError("the emulator's plugin does not answer")
            time.sleep(0.1)
        counts: Counter[str] = Counter()
        for text in result.read_text().splitlines():
            address, number = text.split()
            counts[self._symbols.name(int(address, 16))] += int(number, 16)
        return found, counts
