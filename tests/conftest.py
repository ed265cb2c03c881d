"""What all tests have: the rig's fixtures."""

import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.terminal import TerminalReporter

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rig import fixtures
from rig.fixtures import check_kernel_logs, guest, machine, rig_pool

__all__ = ["check_kernel_logs", "guest", "machine", "rig_pool"]

START = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the rig's options."""
    fixtures.add_options(parser)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests share a boot."""
    fixtures.group(items)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Let tests that the emulator spoilt run once more."""
    return fixtures.run(item, nextitem)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Have the report of a failure show the domains' logs."""
    outcome = yield
    fixtures.tell(item, outcome.get_result())


class AtOnce:
    """Shows each failure when it happens: a part of `make check` may go on for half an hour after it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._terminal: TerminalReporter = config.pluginmanager.getplugin("terminalreporter")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Show the failure, and the domains' logs."""
        if not report.failed:
            return
        self._terminal.ensure_newline()
        self._terminal.write_sep("_", f"{report.nodeid}, {report.when}", red=True)
        report.toterminal(self._terminal._tw)
        for name, text in report.sections:
            self._terminal.write_sep("-", name)
            self._terminal.write_line(text)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Do not show them again."""
        self._config.option.tbstyle = "no"


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Have failures shown at once, and not again at the end, unless --tb says otherwise."""
    if config.option.tbstyle == "auto" and config.pluginmanager.hasplugin("terminalreporter"):
        config.pluginmanager.register(AtOnce(config))


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Say what the emulator spoilt."""
    fixtures.summary(terminalreporter.write_line)


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Where every test is named, say when it had passed: boots take time, too."""
    if report.when == "call" and report.passed:
        return "passed", ".", f"PASSED ({time.monotonic() - START:.0f} s)"
    return None
