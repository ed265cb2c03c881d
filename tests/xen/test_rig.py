"""The rig itself: commands, files, time limits, and the watch over the kernels' logs."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rig import kernellog, pace
from rig.client import CommandFailed, CommandTimeout
from rig.errors import RigError
from rig.guest import Guest
from rig.machine import Config, Machine, addresses

RIG = Path(__file__).resolve().parents[2] / "rig" / "rig"


def test_output_and_status(guest: Guest) -> None:
    done = guest.run("echo out; echo err >&2; exit 3", check=False)
    assert (done.stdout, done.stderr, done.status) == ("out\n", "err\n", 3)


def test_check_raises_with_output(guest: Guest) -> None:
    with pytest.raises(CommandFailed, match=r"status 4.*\nbroken") as caught:
        guest.run("echo broken >&2; exit 4")
    assert caught.value.result.status == 4


def test_words_are_not_split(guest: Guest) -> None:
    words = ["a b", "", "*", "$HOME", "it's", "\n"]
    assert guest.run(["printf", "%s|", *words]).stdout == "".join(word + "|" for word in words)


def test_signal_and_unknown_program(guest: Guest) -> None:
    assert guest.run("kill -SEGV $$", check=False).status == 139
    missing = guest.run(["no-such-program"], check=False)
    assert missing.status == 127 and "no-such-program" in missing.stderr


def test_environment_and_folder(guest: Guest) -> None:
    done = guest.run('echo "$HOME $COLOUR $PWD"; command -v ip', env={"COLOUR": "blue"}, cwd="/tmp")
    assert done.stdout.splitlines()[0] == "/root blue /tmp"


def test_input(guest: Guest) -> None:
    text = "".join(f"line {number}\n" for number in range(50000))
    assert guest.run(["cat"], stdin=text).stdout == text
    assert guest.run(["head", "-n", "1"], stdin=text).stdout == "line 0\n"


def test_output_of_both_kinds_in_bulk(guest: Guest) -> None:
    done = guest.run("head -c 1000000 /dev/zero | tr '\\0' x; head -c 1000000 /dev/zero | tr '\\0' y >&2")
    assert done.stdout == "x" * 1000000 and done.stderr == "y" * 1000000


def test_put_and_get(guest: Guest, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(3_000_001))
    source.chmod(0o750)
    guest.put(source, "/tmp/some/folder/file")
    assert guest.run(["stat", "-c", "%a %s", "/tmp/some/folder/file"]).stdout == "750 3000001\n"
    guest.get("/tmp/some/folder/file", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == source.read_bytes()


def test_get_of_nothing(guest: Guest, tmp_path: Path) -> None:
    with pytest.raises(RigError, match="/no/such/file"):
        guest.get("/no/such/file", tmp_path / "back")
    assert list(tmp_path.iterdir()) == []


def test_timeout_kills(guest: Guest) -> None:
    begin = time.monotonic()
    with pytest.raises(CommandTimeout) as caught:
        guest.run("echo before; sleep 1234 & sleep 1234", timeout=2)
    assert caught.value.result.stdout == "before\n"
    assert time.monotonic() - begin < pace.limit(20)
    assert guest.run("pgrep -f '^sleep 1234'", check=False).status == 1


@pytest.mark.parametrize(
    ("seconds", "instructions", "slow"), [(0.1, False, 1), (2, False, 4), (99, False, 20), (0.1, True, 20)]
)
def test_limits_are_never_shorter_nor_endless(seconds: float, instructions: bool, slow: float) -> None:
    assert pace.slowness(pace.USUAL * seconds, instructions) == slow


def test_limits_are_longer_where_all_is_slow(machine: Machine, guest: Guest) -> None:
    try:
        pace.use(20)
        guest.run("sleep 2", timeout=1)
    finally:
        pace.use(machine.slow)


def test_what_is_left_in_the_background_goes_on(guest: Guest) -> None:
    late = "until [ -e /tmp/go ]; do sleep 0.1; done; echo late; echo over >/tmp/late"
    assert guest.run(f"rm -f /tmp/go; ({late}) & echo started", timeout=60).stdout == "started\n"
    guest.run("touch /tmp/go; until [ -s /tmp/late ]; do sleep 0.1; done; rm /tmp/go /tmp/late", timeout=60)


def test_start_and_wait(guest: Guest) -> None:
    program = guest.start("echo one; sleep 2; echo two >&2; exit 5")
    assert program.poll() is None
    done = program.wait(timeout=30)
    assert (done.stdout, done.stderr, done.status) == ("one\n", "two\n", 5)


def test_start_and_kill(guest: Guest) -> None:
    program = guest.start(["sleep", "4321"])
    with pytest.raises(CommandTimeout):
        program.wait(timeout=1)
    program.kill()
    assert guest.run("pgrep -f '^sleep 4321'", check=False).status == 1


@pytest.mark.parametrize("line", ["WARNING: CPU: 0 PID: 1 at net/core/sock.c:1", "BUG: bad thing"])
def test_trouble_in_a_kernel_log_is_seen(machine: Machine, line: str) -> None:
    machine.guest("g2").run(["sh", "-c", 'echo "$1" >/dev/kmsg', "sh", line])
    assert machine.check_logs() == [f"g2: {line}"]
    assert machine.check_logs() == []


@pytest.mark.parametrize(
    ("flags", "impossible"),
    [("00010246", False), ("00000e82", False), ("00004646", True), ("0fcc8693", True), ("00240fc2", True)],
)
def test_flags_that_no_kernel_has_are_told_from_others(flags: str, impossible: bool) -> None:
    line = f"RSP: e02b:ffffc900406737c8 EFLAGS: {flags}"
    assert kernellog.impossible(["Workqueue: xway_core link_work [xway_core]", line]) == impossible
    assert not kernellog.impossible(["RIP: e030:xway_tx_put+0x9/0x140 [xway]", line])


@pytest.mark.allow_log("WARNING: expected")
def test_expected_trouble_is_allowed(machine: Machine) -> None:
    machine.guest("g1").run("echo 'WARNING: expected' >/dev/kmsg")


def test_names_and_addresses(machine: Machine) -> None:
    names = list(machine.domains)
    for domain in machine.domains.values():
        for number, name in enumerate(names):
            ip4, ip6 = addresses(number)
            hits = domain.run(f"ping -4 -n -c 1 -W 10 {name}; ping -6 -n -c 1 -W 10 {name}").stdout
            assert f"({ip4})" in hits and f"({ip6})" in hits
            assert hits.count(" 0% packet loss") == 2


def test_xenstore_has_the_addresses(machine: Machine) -> None:
    for guest in machine.guests:
        domid = machine.dom0.run(["xl", "domid", guest.name]).stdout.strip()
        entry = machine.dom0.run(["xenstore-read", f"/local/domain/0/backend/vif/{domid}/0/ip"]).stdout
        assert entry.split() == [guest.ip4, guest.ip6]


def test_ssh_between_guests(machine: Machine) -> None:
    machine.guest("g2").run("pgrep -x sshd || /usr/sbin/sshd")
    assert machine.guest("g1").run(["ssh", "g2", "hostname"]).stdout == "g2\n"


def test_programs_are_there(machine: Machine) -> None:
    programs = "iperf3 sockperf scp wget nginx redis-server redis-benchmark psql pgbench python3 socat"
    for guest in machine.guests:
        guest.run(f"for p in {programs}; do command -v $p || exit 1; done")


@pytest.mark.deep
def test_a_guest_ends_and_starts_again(machine: Machine) -> None:
    machine.destroy_guest("g2")
    machine.start_guest("g2")
    assert machine.guest("g1").run("ping -c 1 -W 10 g2").status == 0


def test_command_line(machine: Machine, tmp_path: Path) -> None:
    def rig(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(RIG), "--name", machine.name, *words]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=pace.limit(60))

    done = rig("exec", "g1", "--timeout", "20", "--", "sh", "-c", "cat; echo err >&2; exit 9", stdin="in\n")
    assert (done.stdout, done.stderr, done.returncode) == ("in\n", "err\n", 9)
    assert rig("exec", "g1", "--timeout", "1", "--", "sleep", "30").returncode == 124
    (tmp_path / "a").write_text("content")
    assert rig("put", str(tmp_path / "a"), "g2:/tmp/a").returncode == 0
    assert rig("get", "g2:/tmp/a", str(tmp_path / "b")).returncode == 0
    assert (tmp_path / "b").read_text() == "content"
    assert "Linux version" in rig("log", "g1").stdout
    assert re.search(
        rf"{machine.name}: .* limits x {machine.slow:.1f}\n(.*\n)*  g2 .* answers", rig("status").stdout
    )
    wrong = rig("exec", "g9", "--", "true")
    assert wrong.returncode == 125 and "no domain g9" in wrong.stderr
    again = rig("up")
    assert again.returncode == 125 and "is up already" in again.stderr


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({"type": "qemu"}, "type"),
        ({"host": "11"}, "host"),
        ({"guests": 99}, "guests"),
        ({"memory": 1}, "memory"),
        ({"vcpus": 64}, "vcpus"),
    ],
)
def test_wrong_configuration_is_named(config: dict[str, object], word: str) -> None:
    with pytest.raises(RigError, match=word):
        Config(**config).checked()  # type: ignore[arg-type]
