"""Builds the C programs of the benchmark and puts them into the guests."""

from pathlib import Path

from rig import compiler
from rig.debian import Debian
from rig.guest import Guest
from rig.host import run
from rig.paths import TREE

SOURCES = TREE / "bench"
LIBRARIES = {"xbench": [], "packets": [], "vchan": ["-lxenvchan"], "domcpu": ["-lxenctrl"]}
FLAGS = ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra"]


def build(debian: Debian) -> list[Path]:
    """Compile the programs that are older than their sources, and return all."""
    folder = compiler.folder(debian) / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    shared = (SOURCES / "measure.h").stat().st_mtime
    made = []
    for name, libraries in LIBRARIES.items():
        source, program = SOURCES / f"{name}.c", folder / name
        if not program.exists() or program.stat().st_mtime <= max(shared, source.stat().st_mtime):
            run([*compiler.command(debian), *FLAGS, "-o", program, source, *libraries])
        made.append(program)
    return made


def install(guest: Guest, made: list[Path]) -> None:
    """Put the programs where a guest's shell finds them."""
    for program in made:
        guest.put(program, f"/usr/local/bin/{program.name}", mode=0o755)
