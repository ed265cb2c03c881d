# SPDX-License-Identifier: GPL-2.0
"""The documents say truly what is tested where: hosts, kernels, types of guests."""

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent.parent
HOSTS = {"13": "Debian 13, Xen 4.20", "12": "Debian 12, Xen 4.17"}
KERNELS = ("6.12", "6.1", "newest")
TYPES = ("pv", "pvh", "hvm")
MACHINE = re.compile(r"[\[-](pv|pvh|hvm)-(6\.12|6\.1|newest|debug)(-debian12)?(?=[\]-])")


def collected(marks):
    """The files of tests/xen whose tests run with these marks, by host, kernel and type of the guests."""
    words = ["-m", "pytest", "tests/xen", "--collect-only", "-q", "-p", "no:cacheprovider", "-m", marks]
    clean = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=TOP, env=clean)
    assert done.returncode == 0, done.stdout + done.stderr
    found = defaultdict(set)
    for line in done.stdout.splitlines():
        file = re.match(r"tests/xen/test_(\w+)\.py::", line)
        machine = MACHINE.search(line)
        if file and machine and file[1] != "rig":
            kernel = machine[2].replace("debug", "6.12")
            found["12" if machine[3] else "13", kernel, machine[1]].add(file[1])
    return found


@pytest.fixture(scope="module")
def ran():
    """What `make check` runs, and what `make check-deep` runs besides."""
    check = collected("not deep and not soak")
    deep = collected("deep")
    return check, defaultdict(set, {cell: names - check[cell] for cell, names in deep.items()})


def section(file, head):
    text = (TOP / file).read_text()
    return text[text.index(f"\n## {head}\n") :].split("\n## ")[1]


def test_what_runs_where(ran):
    """The table in doc/design/limits.md: files of tests/xen."""
    rows = []
    for host, name in HOSTS.items():
        for kernel in KERNELS:
            for kind in TYPES:
                cells = [", ".join(sorted(one[host, kernel, kind])) for one in ran]
                if any(cells):
                    rows.append(
                        f"| {name} | {kernel} | {kind.upper()} | {' | '.join(cells)} |".replace("|  |", "| |")
                    )
    table = "\n".join(rows)
    assert f"\n{table}\n\n" in section("doc/design/limits.md", "Where it runs"), f"it must be:\n{table}"


def test_readme(ran):
    """The table in the README: `make check`, `make check-deep`, or the plain VM alone."""
    rows = []
    for host, name in HOSTS.items():
        for kernel in KERNELS:
            cells = [
                "check" if ran[0][host, kernel, kind] else "deep" if ran[1][host, kernel, kind] else "plain"
                for kind in TYPES
            ]
            rows.append(f"| {name} | {kernel} | {' | '.join(cells)} |")
    table = "\n".join(rows)
    assert f"\n{table}\n\n" in (TOP / "README.md").read_text(), f"it must be:\n{table}"
