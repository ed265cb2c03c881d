"""Suites that other people wrote run twice in one ordinary VM: module absent, and by ring on 127.0.0.0/8."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from rig import fixtures
from rig.guest import Guest
from tests import traffic

Outcomes = dict[str, str]
GOOD = ("ok", "PASS")
KEY = pytest.StashKey[dict[str, dict[str, str]]]()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give tests their machine."""
    fixtures.choose(metafunc, host="12", plain=True, memory=1536)


@dataclass
class Suite:
    """One suite told twice; `row` is its line in the table."""

    guest: Guest
    row: dict[str, str] = field(default_factory=dict)

    def compare(self, tell: Callable[[list[str]], Outcomes], least: int, reason: str = "") -> None:
        """Tell the suite without the module, then by ring, and compare outcomes test by test.

        tell: given the names of tests, none for all, runs them and returns what became of each.
        least: so many bytes must go by ring. reason: connections must be left on TCP for it.
        What differs is told once more both ways: some tests fail now and then on a slow machine.
        """
        traffic.unload(self.guest)
        plain = tell([])
        assert plain
        traffic.load(self.guest, "127.0.0.0/8", "::1/128")
        before = traffic.counters(self.guest)
        ours = tell([])
        moved = traffic.moved(before, traffic.counters(self.guest))
        differs = [name for name in plain if ours.get(name) != plain[name]]
        if differs:
            ours.update(tell(differs))
            traffic.unload(self.guest)
            plain.update(tell(differs))
        count, without = (sum(outcome in GOOD for outcome in told.values()) for told in (ours, plain))
        self.row["passed"] = f"{count} of {len(ours)}, {without} without the module"
        self.row["by"] = f"ring {moved['tx_ring_bytes']:,} bytes, TCP {moved['tx_tcp_bytes']:,}"
        reasons = traffic.reasons(moved)
        self.row["left for"] = ", ".join(f"{name} {n}" for name, n in sorted(reasons.items()))
        assert count > len(ours) / 2, ours
        # One that only fails without the module, now and then or always, says nothing against the module.
        worse = [name for name in plain if ours.get(name) not in (plain[name], *GOOD)]
        left = {name: (plain[name], ours.get(name)) for name in worse}
        assert not left, json.dumps(left, indent=1)
        assert not reason or reason in reasons, moved
        assert moved["violations"] == 0, moved
        # What a test closes without reading it is not received.
        assert moved["tx_ring_bytes"] >= max(least, moved["rx_ring_bytes"]), moved


@pytest.fixture
def suite(request: pytest.FixtureRequest, guest: Guest) -> Iterator[Suite]:
    """Return the suite of this test; afterwards nothing of it is left and the module unloads."""
    guest.run("ip link set lo up")
    rows = request.config.stash.setdefault(KEY, {})
    yield Suite(guest, rows.setdefault(request.node.name.removeprefix("test_"), {}))
    traffic.unload(guest)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the table, and leave it in build/suites.json."""
    rows = config.stash.get(KEY, {})
    if not rows:
        return
    terminalreporter.section("suites")
    for name, row in rows.items():
        terminalreporter.write_line(f"{name:40} {row.get('passed', 'WRONG'):40} {row.get('by', '')}")
        if row.get("left for"):
            terminalreporter.write_line(f"{'':40} left the ring for: {row['left for']}")
    traffic.leave("suites.json", rows)
