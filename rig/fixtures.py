"""The rig as pytest fixtures.

    def test_ping(machine):
        machine.guest("g1").run("ping -c 1 g2")

`machine` is a rig that is up, by default what the folder's conftest says. Tests that ask for the same
configuration share one boot; a mark asks for another, several marks run the test on each:

    @pytest.mark.rig(type="pvh", kernel="6.1")

A test that failed because the emulator failed (Machine.emulator_failed) is run again on a new rig, up to
three times in all, and named at the end.

After every test the kernel log of every domain is looked through; trouble fails the test, unless a mark
allows it: @pytest.mark.allow_log("regex"). A rig that had trouble is not used again. Of a test that failed
the report has the end of each domain's kernel log and console, and of xwayd's log, and what its network does.

`make check` leaves out what is marked deep: a whole test, or one kind of rig, by rig(..., deep=True). Tests
by the instruction clock have the mark `instructions`: they use one CPU, and no work beside them shows.

Options of pytest: `--rig KEY=VALUE[,KEY=VALUE...]` changes the default configuration, `--rig-use NAME` runs
on a rig that `rig up` has brought up, whatever its configuration.
"""

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NoReturn

import pytest
from _pytest.runner import runtestprotocol

from rig import kernellog, pace
from rig import machine as rig_machine
from rig.debian import DEFAULT
from rig.errors import NotHere, RigError
from rig.guest import Guest
from rig.machine import Config, Machine

TEST_PREFIX = "test-"
LINES = 60  # of each log, in the report of a failure
# What has come where: for a test that waited for bytes which did not come
NETWORK = """
ss -tinmo; cat /proc/net/sockstat; ip -s link; nstat -asz | awk '$2'; grep -E 'xen|virtio' /proc/interrupts
"""


def add_options(parser: pytest.Parser) -> None:
    """Add the options of pytest described above."""
    group = parser.getgroup("rig")
    group.addoption("--rig", default="", metavar="KEY=VALUE,...", help="default configuration of the rig")
    group.addoption("--rig-use", default="", metavar="NAME", help="run on this rig, which is up")


def parse_config(text: str) -> dict[str, Any]:
    """Return the configuration in KEY=VALUE,...; RigError names what is wrong."""
    config: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals or key not in Config.__dataclass_fields__:
            raise RigError(f"--rig: not KEY=VALUE with a key of the rig's: {part}")
        kind = type(Config.__dataclass_fields__[key].default)
        try:
            config[key] = value == "yes" if kind is bool else kind(value)
        except ValueError:
            raise RigError(f"--rig: not a number: {part}") from None
    return config


def choose(metafunc: pytest.Metafunc, **defaults: Any) -> None:
    """Give tests that use `machine` their configurations; to be called by pytest_generate_tests."""
    if "machine" not in metafunc.fixturenames:
        return
    nearest: Any = None
    configs: list[Mapping[str, Any]] = []
    for node, mark in metafunc.definition.iter_markers_with_node("rig"):
        if nearest is None:
            nearest = node
        if node is nearest:
            configs.insert(0, mark.kwargs)
    try:
        default = {**defaults, **parse_config(metafunc.config.getoption("--rig"))}
        made = [_parameter({**default, **config}) for config in configs or [{}]]
    except (RigError, TypeError) as error:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: {error}") from error
    metafunc.parametrize("machine", made, indirect=True)


def _parameter(words: dict[str, Any]) -> Any:
    """Return what stands for one kind of rig among a test's parameters."""
    marks = [pytest.mark.deep] if words.pop("deep", False) else []
    config = Config(**words).checked()
    if config.clock == "instructions":
        marks.append(pytest.mark.instructions)
    return pytest.param(config, id=_id(config), marks=marks)


def _id(config: Config) -> str:
    kind = "plain" if config.plain else config.type
    words = [kind, config.kernel]
    if config.host != DEFAULT:
        words.append(f"debian{config.host}")
    if config.clock != "wall":
        words.append(config.clock)
    if config.vcpus > 1 and not config.plain:
        words.append(f"{config.vcpus}cpu")
    if config.guests != 2 and not config.plain:
        words.append(f"{config.guests}guests")
    if config.xenstored != "c":
        words.append("oxenstored")
    if config.programs != "base":
        words.append(config.programs)
    words += config.arguments.split()
    return "-".join(words)


def group(items: list[pytest.Item]) -> None:
    """Put tests on the same configuration beside each other; to be called on collection."""
    order: dict[Config, int] = {}

    def place(item: pytest.Item) -> int:
        spec = getattr(item, "callspec", None)
        config = spec.params.get("machine") if spec else None
        return order.setdefault(config, len(order)) if config else -1

    items.sort(key=place)


def run(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a test, again if the emulator failed; to be returned by pytest_runtest_protocol."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for last in (False, False, True):
        Pool.last_words.clear()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if last or not (Pool.last_words and any(report.failed for report in reports)):
            break
        Pool.repeated.append(item.nodeid)
        text = "\n".join(Pool.last_words)
        print(f"\nrig: the emulator has failed, again: {item.nodeid}\n{text}", file=sys.stderr)
        item._initrequest()  # type: ignore[attr-defined]
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def tell(item: pytest.Item, report: pytest.TestReport) -> None:
    """Put the end of every log into the report of a failure; to be called by pytest_runtest_makereport."""
    rig = getattr(item, "funcargs", {}).get("machine")
    if report.failed and isinstance(rig, Machine) and rig.folder.exists():
        report.sections += ends(rig)


def ends(rig: Machine) -> list[tuple[str, str]]:
    """Return (name, last lines) of every domain's network, kernel log and console, and of xwayd's log.

    The networks come first: they change, and who prints a report in part prints its beginning.
    """
    texts: dict[str, str] = {}
    if rig.alive:
        for name in sorted(rig.domains, key=lambda name: name == "dom0"):
            with contextlib.suppress(RigError):
                look = rig.guest(name).run(NETWORK, check=False, connect_wait=2.0, timeout=20.0)
                texts[f"{name}: network"] = look.stdout
    for name in rig.domains:
        log = console = ""
        with contextlib.suppress(RigError):
            log = rig.log(name)
        with contextlib.suppress(RigError):
            console = rig.console(name)
        texts[f"{name}: kernel log"] = _end(log)
        texts[f"{name}: console"] = "" if console == log else _end(console)
    if "dom0" in rig.domains and rig.alive:
        with contextlib.suppress(RigError):
            look = rig.dom0.run("cat /var/log/xwayd.log", check=False, connect_wait=2.0, timeout=20.0)
            texts["xwayd"] = _end(look.stdout)
    return [(name, text) for name, text in texts.items() if text]


def _end(text: str) -> str:
    return "\n".join(text.splitlines()[-LINES:])


def summary(write: Callable[[str], None]) -> None:
    """Tell which tests were run again; to be called at the end."""
    for name in Pool.repeated:
        write(f"run again, as the emulator had failed: {name}")


class Pool:
    """Rigs of this test run: one plain VM and one Xen at a time, kept until another is asked for."""

    last_words: ClassVar[list[str]] = []  # of the emulator, if it has failed during the test that runs
    repeated: ClassVar[list[str]] = []  # the tests that were run again because of that

    def __init__(self, use: str = "") -> None:
        self._use = use
        self._rigs: dict[bool, Machine] = {}
        self._failed: dict[Config, str] = {}
        self._used: set[str] = set()  # names, of which each rig has its own
        self._count = 0
        for name in rig_machine.names():  # left by a run that was killed
            if name.startswith(TEST_PREFIX) and not rig_machine.is_up(name):
                rig_machine.remove(name)

    def get(self, config: Config) -> Machine:
        """Return a rig of this configuration, brought up if need be."""
        if self._use:
            rig = rig_machine.find(self._use)
            if rig.config.plain != config.plain:
                pytest.skip(f"rig {self._use} is {'plain' if rig.config.plain else 'not plain'}")
            return rig
        running = self._rigs.get(config.plain)
        if running and running.config == config and running.alive and not running.emulator_failed:
            pace.use(running.slow)
            return running
        if config in self._failed:
            pytest.fail(f"rig could not be brought up: {self._failed[config]}", pytrace=False)
        self.drop(config.plain)
        self._count += 1
        name = f"{TEST_PREFIX}{os.getpid()}-{self._count}"
        try:
            self._rigs[config.plain] = rig_machine.up(config, name, die_with_us=True)
        except NotHere as error:
            pytest.skip(str(error))
        except RigError as error:
            self._failed[config] = str(error)
            pytest.fail(f"rig cannot be brought up: {error}", pytrace=False)
        return self._rigs[config.plain]

    def is_new(self, rig: Machine) -> bool:
        """Tell whether no test has had this rig before; its next call says no."""
        new = rig.name not in self._used
        self._used.add(rig.name)
        return new

    def drop(self, plain: bool) -> None:
        """End the plain VM, or the Xen, if there is one."""
        rig = self._rigs.pop(plain, None)
        if rig:
            if rig.emulator_failed:
                Pool.last_words += kernellog.gist(rig.output())
            rig.down()


@pytest.fixture(scope="session")
def rig_pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    """Return the rigs of this test run; they end with it."""
    pool = Pool(request.config.getoption("--rig-use"))
    try:
        yield pool
    finally:
        pool.drop(True)
        pool.drop(False)


@pytest.fixture
def machine(request: pytest.FixtureRequest, rig_pool: Pool) -> Machine:
    """Return a rig that is up."""
    return rig_pool.get(request.param)


@pytest.fixture
def guest(machine: Machine) -> Guest:
    """Return the guest g1 of the rig, or the plain VM."""
    return machine.guest("g1")


def _around(rig: Machine, trouble: list[str]) -> list[str]:
    """Return what follows the first line of trouble in each domain's log: the call trace, most often."""
    first: dict[str, str] = {}
    for line in trouble:
        name, _, text = line.partition(": ")
        first.setdefault(name, text)
    told = []
    for name, text in first.items():
        if name in rig.domains:
            log = rig.log(name)
            told += [f"{name} log: {line}" for line in kernellog.gist(log[max(log.find(text), 0) :], most=60)]
    return told


def _spoilt(item: pytest.Item, when: str, rig: Machine, pool: Pool, lines: list[str]) -> NoReturn:
    """Fail because of what a kernel said, with the end of every log. The rig ends: it is not used again."""
    for name, text in ends(rig):
        item.add_report_section(when, name, text)
    pool.drop(rig.config.plain)
    pytest.fail("\n".join(lines), pytrace=False)


@pytest.fixture(autouse=True)
def check_kernel_logs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which a kernel complained."""
    if "machine" not in request.fixturenames:
        yield
        return
    rig: Machine = request.getfixturevalue("machine")
    pool: Pool = request.getfixturevalue("rig_pool")
    # What came since the last test's end is this test's.
    before = rig.check_logs() if pool.is_new(rig) else []
    if before:
        _spoilt(request.node, "setup", rig, pool, ["kernel logs had trouble before the test:", *before])
    yield
    allowed = [re.compile(str(mark.args[0])) for mark in request.node.iter_markers("allow_log")]
    trouble = [line for line in rig.check_logs() if not any(one.search(line) for one in allowed)]
    if trouble:
        lines = ["kernel logs have trouble:", *trouble, *_around(rig, trouble)]
        _spoilt(request.node, "teardown", rig, pool, lines)
