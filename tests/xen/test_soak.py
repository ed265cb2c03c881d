"""Long runs between two guests: lives and deaths at random, a liar, and modules that go and come.

`make soak`, an hour each of the first two, between guests whose kernels check memory and locks, and a
thousand loads, some two seconds each. XWAY_TEST_SOAK_SECONDS says how long, XWAY_TEST_SOAK_SEED which
lives, XWAY_TEST_SOAK_LOADS how many loads.
"""

import contextlib
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from bench.pair import EVERYTHING
from rig import pace
from rig.guest import Background, Guest
from rig.machine import Machine
from tests import traffic
from tests.mmnet import allow, allowed, net
from tests.traffic import linked, until
from tests.xen.test_liar import CHURN, KEEP_PAGES, KEEPS, LIES, PARAMETERS, TALK, make_liar, told, unrevoked
from tests.xen.test_life import CRASH

SECONDS = int(os.environ.get("XWAY_TEST_SOAK_SECONDS", "3600"))
SEED = int(os.environ.get("XWAY_TEST_SOAK_SEED", str(int(time.time()))))
LOADS = int(os.environ.get("XWAY_TEST_SOAK_LOADS", "1000"))
LIFE, CHECKS, SEEN = "/tmp/life.py", "/tmp/checks.py", "/tmp/life.json"
PORT, ECHO = 7400, 7401
CONNECTIONS = 6
MEMORY = 768  # MiB of a guest

# In the course of an hour KASAN's store of stack traces gets full, of which it complains once.
STORE = "stack_depot_save_flags"

pytestmark = [pytest.mark.soak, pytest.mark.allow_log(STORE)]


@dataclass
class Honest:
    """Two guests that talk: g1 serves, g2 asks."""

    machine: Machine
    client: Background | None = None

    @property
    def checked(self) -> bool:
        """Whether the guests' kernels check themselves."""
        return self.machine.config.kernel == "debug"

    @property
    def guests(self) -> tuple[Guest, Guest]:
        """Both, the one that serves first."""
        return self.machine.guest("g1"), self.machine.guest("g2")

    def prepare(self, guest: Guest) -> None:
        """Make a guest that has just started ready."""
        for name, path in (("sock/life.py", LIFE), ("checks.py", CHECKS)):
            guest.put(traffic.TOP / "tests" / name, path, mode=0o755)
        if self.checked:
            guest.run(f"for what in locks begin; do python3 {CHECKS} $what || exit 1; done", timeout=300)
        guest.run("modprobe mmnet")
        if guest.name == "g1":
            guest.start(f"exec python3 {LIFE} serve {PORT}")
        else:
            words = f"talk {self.guests[0].ip4} {PORT} {SEEN} {CONNECTIONS}"
            self.client = guest.start(f"exec python3 {LIFE} {words}")
            until(lambda: guest.run(f"test -e {SEEN}", check=False).status == 0, "what is seen")

    def seen(self) -> dict[str, Any]:
        """Return what the client has written down, none of which may be wrong."""
        assert self.client and self.client.poll() is None, self.client and self.client.stderr()
        found: dict[str, Any] = json.loads(self.guests[1].read(SEEN))
        assert not found["wrong"], found["wrong"]
        return found

    def goes_on(self, what: str) -> None:
        """See that every connection carries more, and is on its ring; and datagrams, and the devices."""
        was, before, rings = self.seen()["rounds"], self._ways(), set()

        def all_have_rings() -> bool:
            conns = [conn for conn in traffic.xway(self.guests[1], "conn") if conn["remote_port"] == PORT]
            rings.update(conn["local_port"] for conn in conns if conn["tx"] == conn["rx"] == "ring")
            return len(conns) >= CONNECTIONS and rings >= {conn["local_port"] for conn in conns}

        until(all_have_rings, f"after {what} the ring of each connection")
        until(
            lambda: all(now > then for now, then in zip(self.seen()["rounds"], was, strict=True)),
            f"after {what} rounds of each connection, of {was}",
        )
        until(
            lambda: all(now > then for now, then in zip(self._ways(), before, strict=True)),
            f"after {what} bytes by ring and by device, of {before}",
        )

    def _ways(self) -> tuple[int, int]:
        """Return the bytes that the client has sent by ring, and by its device to the server."""
        guest = self.guests[1]
        ring = traffic.counters(guest)["tx_ring_bytes"]
        return ring, sum(one["stats"]["tx_bytes"] for one in net(guest))


@pytest.fixture
def honest(machine: Machine) -> Iterator[Honest]:
    """Have g1 and g2 talk; in the end see that nothing is left of it."""
    both = Honest(machine)
    for guest in both.guests:
        both.prepare(guest)
    yield both
    for guest in both.guests:
        guest.run("pkill -f life.py", check=False)
    for guest in both.guests:
        guest.run("modprobe -r mmnet; xway on")  # MMNet has a channel
    for guest in both.guests:
        traffic.settled(guest)
        traffic.unload(guest)
    for guest in both.guests if both.checked else ():
        guest.run(f"python3 {CHECKS} leaks && python3 {CHECKS} locks", timeout=300)


class Lives:
    """What happens to one of two guests, or to domain 0's word on them."""

    def __init__(self, honest: Honest, dice: random.Random) -> None:
        self._honest, self._dice = honest, dice
        self._dom0 = honest.machine.dom0

    def _one(self) -> Guest:
        return self._dice.choice(self._honest.guests)

    def _nap(self, most: float) -> str:
        return f"sleep {self._dice.uniform(0, most):.2f}"

    def _again(self, guest: Guest) -> None:
        self._honest.machine.start_guest(guest.name)
        self._honest.prepare(guest)

    def paused(self) -> None:
        """A guest does not run for a while."""
        name = self._one().name
        self._dom0.run(f"xl pause {name}; {self._nap(8)}; xl unpause {name}", timeout=60)

    def saved(self) -> None:
        """A guest is saved and restored. Its image is compressed: domain 0 keeps it in memory."""
        name = self._one().name
        self._dom0.run(
            ["bash", "-c", f"set -eo pipefail; xl save {name} >(exec gzip -1 >/tmp/image.gz);"
             f" {self._nap(5)}; while pgrep -x gzip; do sleep 0.1; done;"
             " gzip -dc /tmp/image.gz | xl restore /dev/stdin; rm /tmp/image.gz"],
            timeout=1200,
        )  # fmt: skip

    def copied(self) -> None:
        """A guest is saved, and goes on."""
        self._dom0.run(["xl", "save", "-c", self._one().name, "/dev/null"], timeout=1200)

    def ballooned(self) -> None:
        """A guest has less memory for a while."""
        name = self._one().name
        less = MEMORY - self._dice.randrange(50, 150)
        self._dom0.run(f"xl mem-set {name} {less}; {self._nap(5)}; xl mem-set {name} {MEMORY}", timeout=120)

    def turned_off(self) -> None:
        """Sockets are turned off and on, at one end."""
        wait = self._dice.choice(["", " --wait 60"])
        self._one().run(f"xway off{wait}; {self._nap(2)}; xway on", timeout=120)

    def unloaded(self) -> None:
        """Modules go and come, at one end."""
        again = "modprobe xway && modprobe mmnet && xway on"
        what = self._dice.choice(["mmnet", "mmnet xway"])
        # What is open falls back first, so that nobody uses it.
        off = "xway off --wait 200; " if "xway" in what else ""
        self._one().run(f"{off}modprobe -r {what} && {self._nap(3)}; {again}", timeout=300)

    def daemon_restarted(self) -> None:
        """The daemon in domain 0 ends and runs again."""
        signal = self._dice.choice(["TERM", "KILL"])
        self._dom0.run(f"pkill -{signal} -x xwayd; {self._nap(5)}; {traffic.START_XWAYD}")

    def forbidden(self) -> None:
        """Domain 0 allows nothing, or less, for a while."""
        allow(self._dom0, self._dice.choice(["", "allow all", "allow all services=net"]))
        self._dom0.run(self._nap(5))
        allow(self._dom0, EVERYTHING)

    def destroyed(self) -> None:
        """A guest ends at once, and comes again."""
        guest = self._one()
        self._honest.machine.destroy_guest(guest.name)
        self._again(guest)

    def rebooted(self) -> None:
        """A guest's kernel ends, without a word to its programs, and the guest comes again."""
        guest = self._one()
        guest.start("sleep 0.3; exec /rig/busybox reboot -f")
        until(lambda: not self._honest.machine.has_guest(guest.name), f"{guest.name} gone")
        self._again(guest)

    def crashed(self) -> None:
        """A guest's kernel fails. What is left of it stays for a while; then the guest comes again."""
        guest = self._one()
        guest.start(CRASH)
        self._dom0.run(self._nap(8))
        self._honest.machine.destroy_guest(guest.name)
        self._again(guest)


# Only these may end a connection.
DEATHS = ("destroyed", "rebooted", "crashed")
# What takes long comes seldom.
LIVES = {
    "paused": 4,
    "turned_off": 4,
    "unloaded": 3,
    "daemon_restarted": 3,
    "forbidden": 3,
    "saved": 2,
    "copied": 2,
    "ballooned": 2,
    "destroyed": 1,
    "rebooted": 1,
    "crashed": 1,
}


# One processor: of a PV guest's second one Linux's lockdep complains as it starts, and turns itself off.
@pytest.mark.rig(type="pv", kernel="debug", memory=MEMORY, spare=False, policy=EVERYTHING)
def test_lives_and_deaths(machine: Machine, honest: Honest) -> None:
    """Whatever happens, every byte is right, no connection ends but by a death, and all go on by ring."""
    dice = random.Random(SEED)
    lives = Lives(honest, dice)
    begin, counted = time.monotonic(), dict.fromkeys(LIVES, 0)
    honest.goes_on("the start")
    while time.monotonic() < begin + SECONDS:
        name = dice.choices(list(LIVES), list(LIVES.values()))[0]
        print(f"{time.monotonic() - begin:.0f} s, seed {SEED}: {name}", flush=True)
        was = honest.seen()["errors"]
        life: Callable[[], None] = getattr(lives, name)
        life()
        honest.goes_on(name)
        if name not in DEATHS:
            assert honest.seen()["errors"] == was, (name, was)
        counted[name] += 1
    print(counted, honest.seen())


# Modules of a guest go and come so many times; what is open falls back first, so that nobody uses them.
RELOAD = """
for i in $(seq {times}); do
    xway off --wait 200 && modprobe -r {modules} && modprobe -a xway mmnet && xway on || exit 1
    sleep 0.$((RANDOM % 4))
done
"""


@pytest.mark.rig(type="pv", kernel="6.12", policy=EVERYTHING)
def test_modules_go_and_come(honest: Honest) -> None:
    """At one end at a time, under traffic: no connection ends, and all go on by ring."""
    dice = random.Random(SEED)
    begin, done = time.monotonic(), 0
    honest.goes_on("the start")
    while done < LOADS:
        times = min(LOADS - done, dice.randrange(10, 50))
        guest, modules = dice.choice(honest.guests), dice.choice(["xway", "mmnet xway"])
        what = RELOAD.format(times=times, modules=modules)
        guest.run(["bash", "-c", what], timeout=60 + 20 * times)
        done += times
        honest.goes_on(f"{times} loads of {modules} in {guest.name}")
        print(f"{time.monotonic() - begin:.0f} s, seed {SEED}: {done} of {LOADS} loads", flush=True)
        assert not honest.seen()["errors"], honest.seen()


def talk(guest: Guest, *others: Guest) -> None:
    """Have a guest talk to others, by connections that last and by some that do not, for ever."""
    guest.write("/tmp/talk.py", TALK)
    guest.write("/tmp/churn.py", CHURN)
    for other in others:
        guest.start(f"exec python3 /tmp/talk.py {other.ip4} {ECHO}")
        guest.start(f"exec python3 /tmp/churn.py {other.ip4} {ECHO} 2")


@pytest.mark.rig(type="pv", kernel="debug", memory=MEMORY, guests=3, spare=False, policy=EVERYTHING)
def test_liar(machine: Machine, honest: Honest) -> None:
    """A third guest lies to both, by sockets and by MMNet, all at once or some, and owes them something."""
    dice = random.Random(SEED)
    liar, every = machine.guest("g3"), (1 << len(LIES)) - 1
    before = [traffic.counters(guest) for guest in honest.guests]
    lies = [0] * len(LIES)
    make_liar(machine, liar, "mmnet")
    servers = contextlib.ExitStack()
    for guest in honest.guests:
        servers.enter_context(traffic.echoing(guest, ECHO))
    talk(liar, *honest.guests)
    until(lambda: linked(liar), "the liar's link")
    was = honest.seen()["errors"]

    def goes_on(what: str) -> None:
        honest.goes_on(what)
        assert honest.seen()["errors"] == was, was

    begin = time.monotonic()  # the liar has been built
    while time.monotonic() < begin + SECONDS:
        # All kinds at first, so that a short run has told each
        some = [every, 1 << dice.randrange(len(LIES)), dice.randrange(1, every + 1)]
        mask = dice.choice(some) if all(lies) else every
        pause = dice.choice([1000, 10_000, 100_000])
        keeps = dice.choice([0, *KEEPS.values()])
        liar.run(f"cd {PARAMETERS} && echo {pause} >pause_us && echo {keeps} >keeps && echo {mask} >lies")
        time.sleep(pace.limit(dice.uniform(1, 20)))
        goes_on(f"lies {mask:#x}")
        liar.run(f"cd {PARAMETERS} && echo 0 >lies && echo 0 >keeps")
        lies = told(liar)
        print(
            f"{time.monotonic() - begin:.0f} s, seed {SEED}: {mask:#x} every {pause} us, {lies},"
            f" without {keeps:#x}",
            flush=True,
        )
    until(lambda: linked(liar), "the liar's link again")
    liar.run(f"echo {KEEP_PAGES} >{PARAMETERS}/keeps")
    with allowed(machine.dom0, "group honest services=sockets,net g1 g2"):
        until(lambda: any(map(unrevoked, honest.guests)), "pages that the liar keeps")
        print([unrevoked(guest) for guest in honest.guests], "pages kept")
        goes_on("pages that are kept")
        trouble = [line for line in machine.check_logs() if STORE not in line]
        assert not trouble, trouble
        machine.destroy_guest(liar.name)
        for guest in honest.guests:
            until(lambda guest=guest: not unrevoked(guest), f"pages of {guest.name}")
        goes_on("the liar's end")
        machine.start_guest(liar.name)  # so that its log can be read afterwards
    servers.close()
    now = [
        traffic.moved(then, traffic.counters(one)) for then, one in zip(before, honest.guests, strict=True)
    ]
    print(
        dict(zip(LIES, lies, strict=True)),
        honest.seen(),
        [{k: n for k, n in one.items() if n} for one in now],
    )
    assert all(lies) and any(one["violations"] for one in now), (lies, now)
