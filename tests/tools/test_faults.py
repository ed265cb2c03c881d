"""Faults that must be found can be put into the modules, and the tests that a document names are there."""

import re
import shutil
from pathlib import Path

import pytest

from rig.paths import TREE
from tests.uml import faults


@pytest.mark.parametrize("fault", faults.FUZZED + faults.TESTED, ids=lambda fault: fault.name)
def test_fault(fault: faults.Fault, tmp_path: Path) -> None:
    """The code that it replaces is there, once: put() raises an error otherwise."""
    path = tmp_path / fault.file
    path.parent.mkdir()
    shutil.copy(TREE / "kernel" / fault.file, path)
    faults.put(fault, tmp_path)


def named() -> list[tuple[str, str]]:
    """Return the tests that doc/security.md names in its tables, each with its file."""
    rows = [line for line in (TREE / "doc/security.md").read_text().splitlines() if line.startswith("|")]
    return [
        (file, name)
        for row in rows
        for file, names in re.findall(r"`([\w/.]+\.\w+|tests/uml/inside)` \(([^)]*)\)", row)
        for name in re.findall(r"`(\w+)", names)
    ]


@pytest.mark.parametrize(("file", "name"), named())
def test_named(file: str, name: str) -> None:
    """What a document names is there."""
    folders = ("kernel", "tests", "doc")
    there = [path for folder in folders for path in (TREE / folder).rglob(Path(file).name)]
    assert any(re.search(rf"\b{name}\b", path.read_text()) for path in there if str(path).endswith(file))
