"""The fuzzer of what a peer may write: its build, its corpus, and what it covers.

The fuzzer is fuzz.c with libFuzzer. The modules are built with XWAY_FUZZ=1: see kernel/core/selftest/fuzz.c.
"""

import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from rig.host import run
from tests import libfuzzer

HERE = Path(__file__).resolve().parent
CORPUS = HERE / "corpus.hex"  # an input a line
GRAIN = 4  # FUZZ_GRAIN


# The files that read what a peer writes, or programs by netlink, and how many blocks of each a run must
# reach: half of what a minute does. One that does not get so far has shown little. Where time alone leads
# (heartbeat, timeout), a short run may not come.
READERS = {
    "core/chan.c": 40,
    "core/client.c": 30,
    "core/ctl.c": 30,
    "core/doorbell.c": 40,
    "core/import.c": 45,
    "core/link.c": 35,
    "core/netlink.c": 40,
    "core/reclaim.c": 10,
    "core/value.c": 10,
    "net/pairs.c": 20,
    "net/port.c": 55,
    "net/rx.c": 50,
    "net/shade.c": 5,
    "net/tx.c": 45,
    "tcp/conn.c": 120,
    "tcp/handshake.c": 80,
    "tcp/helper.c": 55,
    "tcp/leave.c": 25,
    "tcp/netlink.c": 80,
    "tcp/others.c": 15,
    "tcp/proto.c": 35,
    "tcp/recv.c": 70,
    "tcp/requeue.c": 30,
    "tcp/rx.c": 80,
    "tcp/tx.c": 75,
}


def build(out: Path) -> None:
    """Build the fuzzer and unpack its corpus, into a folder that has the modules' copy `fuzz`."""
    clang, binary = libfuzzer.compiler(), out / "fuzzer"
    # What this program itself does is nothing that libFuzzer has to learn, so it is not instrumented.
    words = [clang, "-g", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{out / 'fuzz/kernel'}"]
    run([*words, "-c", "-o", f"{binary}.o", HERE / "fuzz.c"])
    run([clang, "-fsanitize=fuzzer", "-o", binary, f"{binary}.o"])
    folder = out / "corpus"
    folder.mkdir()
    for number, line in enumerate(CORPUS.read_text().split()):
        (folder / f"{number:05}").write_bytes(bytes.fromhex(line))


def keep(folder: Path) -> None:
    """Make the inputs of a folder the corpus."""
    inputs = {path.read_bytes() for path in folder.iterdir()}
    CORPUS.write_text(
        "".join(f"{one.hex()}\n" for one in sorted(inputs, key=lambda one: (len(one), one)) if one)
    )


def _functions(module: Path) -> Iterator[tuple[str, int, int]]:
    """Give the functions in the text of a module: name, address, size."""
    done = subprocess.run(["nm", "-S", module], capture_output=True, text=True, check=True)
    for words in map(str.split, done.stdout.splitlines()):
        if len(words) == 4 and words[2] in "tT":
            yield words[3], int(words[0], 16), int(words[1], 16)


def _text(module: Path) -> int:
    """Return the size of a module's text."""
    done = subprocess.run(["size", "-A", module], capture_output=True, text=True, check=True)
    return next(int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith(".text "))


def coverage(modules: list[Path], sizes: Mapping[str, int], reached: bytes) -> tuple[str, list[str]]:
    """Return a table, and which of READERS were not reached enough.

    The table has of each file how many functions were reached, and how many blocks of code.
    """
    total: Counter[str] = Counter()
    entered: Counter[str] = Counter()
    blocks: Counter[str] = Counter()
    at = 0
    for module in modules:
        text = _text(module)
        functions = [one for one in _functions(module) if one[1] < text]
        addresses = "\n".join(hex(address) for _, address, _ in functions)
        found = subprocess.run(
            ["addr2line", "-j", ".text", "-e", module],
            input=addresses,
            capture_output=True,
            text=True,
            check=True,
        )
        for (_, address, size), line in zip(functions, found.stdout.splitlines(), strict=True):
            path = Path(line.rpartition(":")[0])
            file = f"{path.parent.name}/{path.name}"
            hit = reached[at + address // GRAIN : at + (address + size) // GRAIN]
            if (
                path.parent.parent.name == "kernel"
            ):  # inline functions of the kernel's are counted where they are used
                total[file] += 1
                entered[file] += any(hit)
                blocks[file] += sum(hit)
        at += -(-sizes[module.stem] // GRAIN)
    lines = [f"{'file':24} functions entered  blocks"]
    for file in sorted(total):
        lines.append(f"{file:24} {entered[file]:>9} of {total[file]:<5} {blocks[file]:>6}")
    lines.append(f"{'all of these':24} {sum(entered.values()):>9} {sum(blocks.values()):>15}")
    return "\n".join(lines), [file for file, least in READERS.items() if blocks[file] < least]
