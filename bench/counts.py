"""What one message costs, in counts that are the same on every machine."""

from collections import Counter

from bench import micro
from bench.pair import BETWEEN, MMNET, XWAY, Pair
from bench.plugin import OBJECTS, Counts, Profiler, functions
from rig.errors import RigError

OWN = r"(xway|xway_core|mmnet): .*"
ALIKE = 0.005  # how much of what the longer run sends more may have gone another way
IN_XEN = r"\(Xen\)"
FIGURES = {
    "instructions": "instructions",
    "instructions_xen": "... of Xen",
    "instructions_xway": "... of XWAY's own code",
    "copies": "bytes copied for one, by the kernels",
    "copies_xen": "bytes copied for one, by Xen",
    "locked": "locked operations of the kernels",
    "locked_xway": "... of XWAY's own code",
    "locked_xen": "locked operations of Xen",
    "objects": "calls of the allocators of objects",
    "pages": "calls of the allocators of pages",
    "hypercalls": "hypercalls, but iret",
}


def figures(counts: Counts, number: float, payload: float) -> dict[str, float]:
    """Return the figures of one of so many messages, each of so many bytes; also hypercalls by name."""

    def each(counter: Counter[str], pattern: str = ".*") -> float:
        return sum(functions(counter, pattern).values()) / number

    found = {
        "instructions": each(counts.instructions),
        "instructions_xen": each(counts.instructions, IN_XEN),
        "instructions_xway": each(counts.instructions, OWN),
        "copies": (each(counts.copied) - each(counts.copied, IN_XEN)) / payload,
        "copies_xen": each(counts.copied, IN_XEN) / payload,
        "locked": each(counts.locked) - each(counts.locked, IN_XEN),
        "locked_xway": each(counts.locked, OWN),
        "locked_xen": each(counts.locked, IN_XEN),
        "objects": each(counts.allocations, OBJECTS),
        "pages": each(counts.allocations) - each(counts.allocations, OBJECTS),
        "hypercalls": each(counts.hypercalls) - each(counts.hypercalls, "iret"),
    }
    return found | {f"hypercall {name}": count / number for name, count in counts.hypercalls.items()}


def of_message(
    pair: Pair, tests: micro.Micro, profiler: Profiler, path: str, mode: str, size: int
) -> tuple[Counts, int]:
    """Run a test for once and for three times as long.

    Return by how much the counts of the two differ, and the messages. So the start of programs and of the
    connection does not count. Bytes that went another way, since the ring was there too late, would count:
    then it is done again.
    """
    for _ in range(4):
        found, device = [], pair.device_bytes() if path == MMNET else 0
        for times in (1, 3):
            before = pair.bytes()
            line, counts = profiler.count(lambda times=times: tests.run(path, mode, size, times))
            found.append((counts, int(line["sent"]), pair.bytes()[0].since(before[0]).tx_ring))
        (short, few, first), (long, many, ring) = found
        if path == MMNET and pair.device_bytes() - device < few + many:
            raise RigError(f"{path}, {mode} of {size}: bytes went another way")
        sent, ring = many - few, ring - first
        if abs((sent if path == XWAY else 0) - ring) <= ALIKE * sent or path not in BETWEEN:
            return long.less(short), sent // size * (2 if mode == micro.RR else 1)
    raise RigError(f"{path}, {mode} of {size}: {ring} of {sent} bytes went by ring")


def table(columns: dict[str, dict[str, float]]) -> list[str]:
    """Return the lines of a table with a column for each path."""
    hypercalls = sorted({name for found in columns.values() for name in found if name not in FIGURES})
    rows = FIGURES | {name: f"... {name.partition(' ')[2]}" for name in hypercalls}
    lines = [" " * 40 + "".join(f"{path:>12}" for path in columns)]
    for name, text in rows.items():
        values = [found.get(name, 0.0) for found in columns.values()]
        if name in FIGURES or max(values) >= 0.005:
            lines.append(f"{text:40}" + "".join(f"{abs(round(value, 3)):12.3f}" for value in values))
    return lines
