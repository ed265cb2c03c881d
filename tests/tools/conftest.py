# SPDX-License-Identifier: GPL-2.0
"""Builds the tools and their test programs once, and runs them."""

import os
import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent


def make(*args):
    done = subprocess.run(["make", "-s", *args], capture_output=True, text=True)
    if done.returncode:
        pytest.exit(f"make {' '.join(args)} failed:\n{done.stdout}{done.stderr}", returncode=1)


@pytest.fixture(scope="session")
def tools():
    """The directory of xwayd, in both builds, and xway, as they are installed."""
    make("-C", str(TOP / "tools"), "all", "xwayd-static")
    return TOP / "build/tools"


@pytest.fixture(scope="session")
def programs():
    """The directory of the test programs."""
    make("-C", str(HERE))
    return TOP / "build/tests/tools"


@pytest.fixture
def run():
    """Runs a program to its end; what it leaves out of the environment stays out."""

    def run_(*args, timeout=60, cwd=None, **env):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("FAKE_")}
        clean.pop("JOURNAL_STREAM", None)
        return subprocess.run(
            [str(a) for a in args],
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=cwd,
            env={**clean, **{k: str(v) for k, v in env.items()}},
            errors="replace",
        )

    return run_
