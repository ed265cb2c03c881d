"""The emulator's plugin that counts: building it, speaking to it, and the names of what it counts."""

import bisect
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TypeVar

from bench.pair import Pair
from rig import pace, qemu
from rig.errors import RigError
from rig.host import need_packages
from rig.host import run as run_here
from rig.paths import BUILD

# asm/xen/page.h, Documentation/arch/x86/x86_64/mm.rst: where in the address space what lies
USER = range(0x0000_8000_0000_0000)
XEN = range(0xFFFF_8000_0000_0000, 0xFFFF_8800_0000_0000)
MODULES = range(0xFFFF_FFFF_C000_0000, 0xFFFF_FFFF_FF00_0000)
# Functions that copy with mov, too. The others copy, if at all, a few bytes that way.
COPIES = r"rep_movs_alternative|copy_user_\w+|(__)?mem(cpy|move)(_orig)?|copy_page|csum_partial_copy_\w+"
# The kernel's allocators, 6.12's and 6.1's. None of them calls another, but those for objects when they have
# to get a page.
OBJECTS = (
    r"kmem_cache_alloc(_lru|_node|_bulk)?(_noprof)?|__kmalloc(_cache)?(_node)?(_track_caller)?(_noprof)?"
)
OBJECTS += r"|kmalloc(_node)?_trace|pcpu_alloc(_noprof)?"
PAGES = r"__alloc_pages(_noprof)?|__alloc_pages_bulk|alloc_pages_bulk_noprof"
HYPERCALL = r"xen_hypercall_(pv|amd|intel|hvm)|__SCT__xen_hypercall"  # what is called to make one
IRET = "xen_iret"  # makes its hypercall, the return from a system call or interrupt, by itself
HYPERCALLS = {  # xen/interface/xen.h
    5: "fpu_taskswitch",
    13: "multicall",
    17: "xen_version",
    20: "grant_table_op",
    24: "vcpu_op",
    25: "set_segment_base",
    26: "mmuext_op",
    29: "sched_op",
    32: "event_channel_op",
}
OTHERS = "others"
# Where a module is put depends on whether what others needed only to start has been freed already.
RELOAD = """set -e
xway off --wait 20
/rig/busybox umount /proc/xen
modprobe -r mmnet xway xway_core xen_gntalloc xen_gntdev xen_evtchn xenfs xen_privcmd
sleep 0.2
for module in xen_privcmd xenfs xen_evtchn xen_gntdev xen_gntalloc xway_core xway; do
    modprobe $module
    sleep 0.2
done
/rig/busybox mount -t xenfs xenfs /proc/xen"""
LINKED = "until xway peer | grep -q '^xen:.*: up'; do sleep 0.1; done"
OWN = ("xway_core", "xway")
MADE = BUILD / "bench/profile.so"
SOURCE = Path(__file__).with_name("profile.c")
Found = TypeVar("Found")


def build(own: bool = False) -> Path:
    """Compile the emulator's plugin and return it. own: see qemu.command()."""
    MADE.parent.mkdir(parents=True, exist_ok=True)
    need_packages()
    interface = 3 if qemu.at_least(9, 1, own=own) else 1
    flags = ["-std=gnu11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", f"-DINTERFACE={interface}"]
    run_here(["gcc", *flags, "-o", MADE, SOURCE])
    return MADE


def _places(modules: str) -> dict[str, range]:
    """Return where each module of /proc/modules lies."""
    found = re.findall(r"^(\S+) (\d+) .* 0x([0-9a-f]+)", modules, re.MULTILINE)
    return {name: range(int(at, 16), int(at, 16) + int(size)) for name, size, at in found}


class Symbols:
    """Names of the client kernel's functions, from its /proc/kallsyms and both guests' /proc/modules."""

    def __init__(self, kallsyms: str, modules: str, server_modules: str) -> None:
        self._modules = _places(modules)
        server = _places(server_modules)
        self._server_own = [server[name] for name in OWN if server[name] != self._modules[name]]
        found = re.findall(r"^([0-9a-f]+) [tTwW] (\S+)(?:\s+\[(\S+)\])?$", kallsyms, re.MULTILINE)
        table = sorted((int(at, 16), f"{module}: {name}" if module else name) for at, name, module in found)
        self._at = [at for at, _ in table]
        self._names = [name for _, name in table]

    def starts(self, pattern: str) -> dict[int, str]:
        """Return the functions whose whole names match, by where they start."""
        return {
            at: name for at, name in zip(self._at, self._names, strict=True) if re.fullmatch(pattern, name)
        }

    def name(self, address: int) -> str:
        """Return the function that an address lies in, or whose it is."""
        if address in USER:
            return "(programs)"
        if address in XEN:
            return "(Xen)"
        if any(address in place for place in self._server_own) and not any(
            address in self._modules[name] for name in OWN
        ):
            return "xway: (server)"
        if address in MODULES and not any(address in module for module in self._modules.values()):
            return "(other domains' modules)"
        place = bisect.bisect_right(self._at, address) - 1
        return self._names[place] if place >= 0 else "(kernel)"


@dataclass
class Counts:
    """What was counted, by function.

    instructions: all. locked: operations that lock memory, or would where there are two CPUs, of kernels
    and Xen. copied: bytes that they copied, see COPIES. hypercalls: by name. allocations: entries to
    OBJECTS and PAGES.
    """

    instructions: Counter[str] = field(default_factory=Counter)
    locked: Counter[str] = field(default_factory=Counter)
    copied: Counter[str] = field(default_factory=Counter)
    hypercalls: Counter[str] = field(default_factory=Counter)
    allocations: Counter[str] = field(default_factory=Counter)

    def less(self, other: "Counts") -> "Counts":
        """Return what is here more than there."""
        both = ((getattr(self, one.name), getattr(other, one.name)) for one in fields(self))
        less = Counts(*(Counter(mine) for mine, _ in both))
        for one in fields(self):
            getattr(less, one.name).subtract(getattr(other, one.name))
        return less


def functions(counter: Counter[str], pattern: str) -> Counter[str]:
    """Return the part of functions whose whole names match."""
    return Counter({name: number for name, number in counter.items() if re.fullmatch(pattern, name)})


def _read(lines: Iterable[str], symbols: Symbols) -> Counts:
    """Return what the plugin has written; profile.c tells what it means."""
    counts = Counts()
    allocators = symbols.starts(f"{OBJECTS}|{PAGES}")
    entry = re.compile(HYPERCALL)
    for line in lines:
        kind, *numbers = line.split()
        address, number, extra = (int(text, 16) for text in numbers)
        if kind == "e":
            if address in allocators:
                counts.allocations[allocators[address]] += number
            continue
        name = symbols.name(address)
        if kind == "i":
            counts.instructions[name] += number
        elif kind == "l":
            counts.locked[name] += number
        elif kind == "c" or (kind == "m" and re.fullmatch(COPIES, name)):
            counts.copied[name] += number // 2
        elif kind == "h":
            counts.hypercalls["iret" if name == IRET else OTHERS] += number
        elif kind == "t" and entry.fullmatch(symbols.name(extra | 0xFF << 56)):
            what = extra >> 56
            counts.hypercalls[HYPERCALLS.get(what, f"number {what}")] += number
            counts.hypercalls[OTHERS] -= number
    return counts


def _symbols(pair: Pair) -> Symbols:
    """Return the symbols of both guests; try to have every module at the same place in both."""
    for last in (False, False, True):
        client, server = pair.both(lambda guest: guest.run("cat /proc/kallsyms").stdout)
        if last or client == server:
            break
        pair.both(lambda guest: guest.run(RELOAD, timeout=60))
        pair.both(lambda guest: guest.run(LINKED, timeout=60))
        if pair.joined:
            pair.join()
    if client != server:
        print("modules are at different places: the server's functions have wrong names", file=sys.stderr)
    return Symbols(client, *pair.both(lambda guest: guest.run("cat /proc/modules").stdout))


class Profiler:
    """Counts instructions by function while a test runs."""

    def __init__(self, pair: Pair, control: Path) -> None:
        self._control = control
        self._symbols = _symbols(pair)

    def _say(self, line: str) -> None:
        with open(self._control, "w") as fifo:
            fifo.write(line + "\n")

    def count(self, test: Callable[[], Found]) -> tuple[Found, Counts]:
        """Run a test; return what it returns, and what was counted."""
        result = self._control.with_name(f"{self._control.name}.counts")
        done = result.with_name(f"{result.name}.done")
        done.unlink(missing_ok=True)
        self._say("start")
        found = test()
        self._say(f"stop {result}")
        end = time.monotonic() + pace.limit(30)
        while not done.exists():
            if time.monotonic() > end:
                raise RigError("the emulator's plugin does not answer")
            time.sleep(0.1)
        counts = _read(result.read_text().splitlines(), self._symbols)
        result.unlink()
        done.unlink()
        return found, counts
