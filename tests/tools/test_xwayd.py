# SPDX-License-Identifier: GPL-2.0
"""xwayd against a XenStore in memory, and its client of XenStore against a daemon that lies.

With the address and undefined behaviour sanitizers.
"""

import pathlib
import re

import pytest

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ["engine_test", "xapi_test", "xs_test"]


def scenarios(program):
    return re.findall(r"^static void test_(\w+)", (HERE / f"{program}.c").read_text(), re.M)


@pytest.mark.parametrize("program", PROGRAMS)
def test_all_are_listed(programs, run, program):
    assert sorted(run(programs / program).stdout.split()) == sorted(scenarios(program))


@pytest.mark.parametrize("program,scenario", [(p, s) for p in PROGRAMS for s in scenarios(p)])
def test_scenario(programs, run, program, scenario):
    done = run(programs / program, scenario)
    assert done.returncode == 0, done.stderr[-4000:]


def test_hostile_offers_are_logged_rarely(programs, run):
    log = run(programs / "engine_test", "bad_offers").stderr
    bad = [line for line in log.splitlines() if "bad offer" in line]
    # Ten at once, and one more every six seconds of the scenario.
    assert 10 <= len(bad) <= 14
    assert "domain 1 (app1): bad offer to domain 2, not relayed: ''" in log
    # Bytes of a guest reach the log only escaped.
    assert "\x1b" not in log


def test_conflict_is_logged(programs, run):
    log = run(programs / "engine_test", "conflict").stderr
    assert "address 10.0.0.9 is claimed by domain 2 (b) and domain 3 (c): given to neither" in log


def test_conflict_of_interfaces_is_logged(programs, run):
    log = run(programs / "engine_test", "net_conflict").stderr
    assert "00:16:3e:77:00:01 on one bridge is of domain 1 (a) and domain 3 (c): neither exchanges" in log


def test_names_are_escaped_in_the_log(programs, run):
    log = run(programs / "engine_test", "names_in_log").stderr
    name = r"domain 1 (a\x0a<0>b: \x1b[2J)"
    assert f"address 10.0.0.1 is claimed by {name} and domain 2 (c): given to neither" in log
    assert rf"{name}: '\x1b[1m' of its vif is not an IP address, left out" in log
    assert f"{name}, aaaaaaaa" in log
    assert "\x1b" not in log and "\n<0>" not in log


def test_missing_address_is_logged_once(programs, run):
    log = run(programs / "engine_test", "allow_all_late").stderr
    assert log.count("domain 6 (db1) has no address that xwayd knows") == 1
    assert "domain 5 (app1) has no address" not in log


@pytest.mark.parametrize("seed", range(1, 6))
def test_random_bytes(programs, run, seed):
    done = run(programs / "fuzz_test", "bytes", 50000, seed)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize("seed", range(1, 21))
def test_random_steps(programs, run, seed):
    done = run(programs / "fuzz_test", "steps", 200, seed)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize("seed", range(1, 6))
def test_random_values(programs, run, seed):
    done = run(programs / "fuzz_test", "values", 20000, seed)
    assert done.returncode == 0, done.stderr[-4000:]
