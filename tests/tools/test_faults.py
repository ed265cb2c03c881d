"""The faults that the fuzzer must find can be put into the modules as they are."""

import shutil
from pathlib import Path

import pytest

from rig.paths import TREE
from tests.uml import fuzz


@pytest.mark.parametrize("fault", fuzz.FAULTS, ids=lambda fault: fault.name)
def test_fault(fault: fuzz.Fault, tmp_path: Path) -> None:
    """The code that it replaces is there, once: put() raises an error otherwise."""
    path = tmp_path / fault.file
    path.parent.mkdir()
    shutil.copy(TREE / "kernel" / fault.file, path)
    fuzz.put(fault, tmp_path)
