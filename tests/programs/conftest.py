"""Programs as Debian ships them, between two guests: first without the module, then by ring."""

from collections.abc import Iterator
from typing import Any

import pytest

from rig import fixtures
from rig.machine import Machine
from tests import traffic
from tests.programs.way import LOAD, WAYS, Way, joined

KEY = pytest.StashKey[dict[str, dict[str, str]]]()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give tests their machine, and have each told both ways.

    Names of packages and versions in paths are Debian 12's.
    """
    if "way" in metafunc.fixturenames:
        metafunc.parametrize("way", WAYS, indirect=True)
    fixtures.choose(metafunc, host="12", programs="compat", memory=768)


def _name(item: Any) -> str:
    return f"{item.originalname.removeprefix('test_')}, {item.callspec.params['machine'].kernel}"


@pytest.fixture
def way(request: pytest.FixtureRequest, machine: Machine) -> Iterator[Way]:
    """Return the way that this test takes; what it started in the guests ends with it."""
    server, client = machine.guest("g1"), machine.guest("g2")
    for guest in (server, client):
        if request.param == "tcp":
            traffic.unload(guest)
        else:
            guest.run(LOAD)
    if request.param == "ring":
        joined(server, client)
    rows = request.config.stash.setdefault(KEY, {})
    row = rows.setdefault(_name(request.node), {})
    for guest in (server, client):
        guest.run("mkdir -p /tmp/t; ps -eo pid= >/tmp/t/before")
    try:
        yield Way(request.param, server, client, row)
    finally:
        for guest in (client, server):
            guest.run(
                "for pid in $(ps -eo pid= | grep -vwFf /tmp/t/before); do"
                " case $(readlink /proc/$pid/exe) in */agent|'') ;; *) [ $pid = $$ ] || kill -9 $pid;; esac;"
                " done 2>/dev/null; rm -rf /tmp/t",
                check=False,
            )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Note the outcome for the table."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    way = getattr(item, "callspec", None) and item.callspec.params.get("way")  # type: ignore[attr-defined]
    if not way or report.when != "call":
        return
    row = item.config.stash.setdefault(KEY, {}).setdefault(_name(item), {})
    row[way] = "right" if report.passed and row.get(way) != "WRONG" else "WRONG"  # some have several tests


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the table, and leave it in build/compat.json."""
    rows = config.stash.get(KEY, {})
    if not rows:
        return
    terminalreporter.section("programs")
    for name, row in rows.items():
        cells = [f"{way} {row.get(way, '-')}" for way in WAYS]
        terminalreporter.write_line(f"{name:30} {'  '.join(cells):28} {row.get('by', '')}")
    traffic.leave("compat.json", rows)
