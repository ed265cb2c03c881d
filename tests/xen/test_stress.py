"""Random calls on random connections between two guests, while acceleration goes off and on."""

import json
import os
import random
import time

import pytest

from rig.machine import Machine
from tests import traffic
from tests.mmnet import allowed
from tests.traffic import Ends, linked, until

SECONDS = int(os.environ.get("XWAY_TEST_STRESS_SECONDS", "60"))
PROGRAM = "/tmp/stress"
CHECKS = "/tmp/checks.py"


def random_calls(
    ends: Ends, seed: int, seconds: int, *, pause: int = 4, scarce: bool = False
) -> list[dict[str, int]]:
    """Make them for so long, and see that no byte is lost, repeated or misplaced, and nothing hangs.

    pause: acceleration goes off after up to so many seconds. scarce: much of the time, requests of the module
    for memory fail. Even seeds take IPv6. Return how each end's counters moved, the passive one's first.
    """
    program = traffic.build("stress", ends.active.debian)
    for guest in (ends.passive, ends.active):
        guest.put(program, PROGRAM, mode=0o755)
    address = ends.passive.ip4 if seed % 2 else ends.passive.ip6
    common = f"{address} 5556 --seed {seed} --max 1000000 --hang 100 --on-hang 'xway conn; ss -tanoi'"
    nap = f'sleep "$((RANDOM % {pause})).$((RANDOM % 9))"'
    toggle = f'while :; do {nap}; xway off; sleep "0.$((RANDOM % 9))"; xway on; done'
    guests = (ends.passive, ends.active)
    before = [traffic.counters(guest) for guest in guests]
    passive = ends.passive.start(f"exec {PROGRAM} listen {common} --workers 12")
    toggles = [guest.start(["bash", "-c", toggle]) for guest in guests]
    active = ends.active.start(f"exec {PROGRAM} connect {common} --workers 6 --seconds {seconds}")
    try:
        while scarce and active.poll() is None and passive.poll() is None:
            time.sleep(random.expovariate(0.5))
            # Before all that the calls keep busy, else it would come too seldom
            command = f"nice -n -20 python3 {CHECKS} failing {random.choice([0, 0, 5, 30])}"
            random.choice(guests).run(command, timeout=600)
        done = active.wait(seconds + 300)
    finally:
        for guest, running in zip(guests, toggles, strict=True):
            if scarce:
                guest.run(f"python3 {CHECKS} failing 0", timeout=600)
            running.kill()
            guest.run("xway on")
        ends.passive.run("pkill -TERM -o -x stress", check=False)
    said = passive.wait()
    assert done.status == said.status == 0, done.stderr + said.stderr + said.stdout
    told = json.loads(done.stdout)
    assert told["failures"] == 0 and told["connections"] > seconds / 4, told
    ended = []
    for guest, was in zip(guests, before, strict=True):
        traffic.settled(guest)
        now = traffic.moved(was, traffic.counters(guest))
        print(guest.name, {name: n for name, n in now.items() if n})
        assert now["violations"] == 0, now
        # Many times as much by ring where the machine is not slow
        assert now["tx_ring_bytes"] > (400 if scarce else 4_000) * seconds, now
        ended.append(now)
    return ended


# Emulated PVH guests are so slow that hardly a connection lives to see its ring.
@pytest.mark.rig(type="pv", kernel="6.12", deep=True)
@pytest.mark.rig(type="pv", kernel="6.1", vcpus=2)
def test_random_calls(ends: Ends, machine: Machine) -> None:
    """See tests/sock/stress.c."""
    seed = 1 if machine.config.kernel == "6.12" else 2
    for end in random_calls(ends, seed, SECONDS):
        assert end["switched_to_tcp"] > SECONDS / 20, end


# In the course of an hour KASAN's store of stack traces gets full, of which it complains once.
@pytest.mark.allow_log("stack_depot_save_flags")
@pytest.mark.deep
@pytest.mark.rig(type="pv", kernel="debug", memory=768)
def test_random_calls_checked(machine: Machine, ends: Ends) -> None:
    """The same in kernels that check memory and locks; links end and begin; then nothing is left."""
    guests = (ends.passive, ends.active)
    for guest in guests:
        guest.put(traffic.TOP / "tests/checks.py", CHECKS)
        guest.run(f"for what in locks begin arm; do python3 {CHECKS} $what || exit 1; done", timeout=300)
    refused = 0
    for seed in range(1, 1 + max(1, SECONDS // 300)):
        both = random_calls(ends, seed, min(300, SECONDS), pause=40, scarce=True)
        # Such guests open a connection a second, and few of them are on the ring when it goes off.
        assert sum(end["switched_to_tcp"] for end in both) > 1, both
        refused += sum(end["reason:no-memory"] for end in both)
    assert refused > 1
    with allowed(machine.dom0, ""):
        for guest in guests:
            until(lambda guest=guest: not linked(guest), f"the end of the link of {guest.name}")
    for guest in guests:
        until(lambda guest=guest: linked(guest), f"link of {guest.name}")
        traffic.unload(guest)
    for guest in guests:
        guest.run(f"python3 {CHECKS} leaks && python3 {CHECKS} locks", timeout=300)
