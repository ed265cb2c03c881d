"""Checked traffic between two ends, and the counters that say which way it went."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rig import compiler, pace
from rig.debian import Debian
from rig.guest import Guest

TOP = Path(__file__).resolve().parent.parent
STREAM = "/tmp/stream"
PORT = 5555

# Linux 7 says so of its own netfront, once, if that had a packet on the way when the guest was saved:
# xennet_release_tx_bufs() takes a reference on a page of kmalloc()'s.
LINUX_7 = pytest.mark.allow_log(r"WARNING: include/linux/mm\.h:\d+ at xennet_disconnect_backend\+")


def build(name: str, debian: Debian) -> Path:
    """Build a program from the sources in tests/sock whose names begin with its own, and return it.

    debian: what runs where it is put.
    """
    program = compiler.folder(debian) / "tests" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    folder = TOP / "tests/sock"
    newest = max(path.stat().st_mtime for path in folder.iterdir())
    if not program.exists() or program.stat().st_mtime < newest:
        files = sorted(folder.glob(f"{name}*.c"))
        flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]
        subprocess.run(
            [*compiler.command(debian), *flags, "-o", program, *files, "-l:liburing.a"], check=True
        )
    return program


def xway(guest: Guest, *words: str) -> Any:
    """Return what a command of xway says in JSON."""
    return json.loads(guest.run(["xway", "-j", *words]).stdout)


def counters(guest: Guest) -> dict[str, int]:
    """Return the module's counters since it was loaded, and the reasons as "reason:NAME"."""
    stats = xway(guest, "stats")
    return {**stats["stats"], **{f"reason:{name}": n for name, n in stats["fallbacks"].items()}}


def moved(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """Return by how much each counter moved."""
    return {name: after[name] - before[name] for name in after}


def reasons(moved: dict[str, int]) -> dict[str, int]:
    """Return for which reasons connections were left on TCP, and how many."""
    return {name.partition(":")[2]: n for name, n in moved.items() if name.startswith("reason:") and n}


def since(before: dict[str, int], guest: Guest) -> dict[str, int]:
    """Return for which reasons a guest left connections on TCP since then, and how many."""
    return reasons(moved(before, counters(guest)))


def load(guest: Guest, *addresses: str) -> None:
    """Load the module, these addresses being co-resident with themselves."""
    # Connections that are open already are adopted as it is turned on, by the addresses that are there then.
    guest.run(" && ".join(["modprobe xway", *(f"xway local add {one}" for one in addresses), "xway on"]))


def unload(guest: Guest) -> None:
    """See that the modules are not loaded, or no more."""
    done = guest.run("xway off --wait 20; modprobe -r xway", check=False)
    assert not guest.run("grep ^xway /proc/modules", check=False).stdout, (done.stdout, done.stderr)


def leave(name: str, rows: dict[str, dict[str, str]]) -> None:
    """Leave a table in a file of the folder build."""
    folder = TOP / "build"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(rows, indent=1) + "\n")


def linked(guest: Guest) -> bool:
    """Return whether a link to another domain is up."""
    return any(p["peer"].startswith("xen:") and p["state"] == "up" for p in xway(guest, "peer"))


def by_rings(*guests: Guest) -> bool:
    """Return whether each of them has a connection that goes by ring both ways."""
    return all(any(one["tx"] == one["rx"] == "ring" for one in xway(guest, "conn")) for guest in guests)


def until(condition: Callable[[], bool], what: str, seconds: float = 240) -> None:
    """Wait for a condition; fail if it is not met in time."""
    limit = pace.limit(seconds)
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, f"not in {limit:g} s: {what}"
        time.sleep(0.2)


def settled(guest: Guest, seconds: float = 360) -> None:
    """Wait until no connection and no channel is left, and no page carries a ring."""
    limit = pace.limit(seconds)
    end = time.monotonic() + limit
    while True:
        state = xway(guest, "show")
        if not (state["connections"] or state["channels"] or state["pages_used"]):
            return
        if time.monotonic() > end:
            seen = guest.run("xway; xway conn; ss -tanoi; xway stats", check=False).stdout
            raise AssertionError(f"{guest.name}: not settled after {limit:g} s:\n{seen}")
        time.sleep(0.2)


# For programs that run in a guest: how many of its connections have rings both ways.
RINGS = """
import json, subprocess
def rings():
    conns = json.loads(subprocess.run(["xway", "-j", "conn"], capture_output=True, check=True).stdout)
    return sum(conn["tx"] == conn["rx"] == "ring" for conn in conns)
"""

# The same: a connection within the guest to a thread that sends back what it receives.
ECHOED = """
import socket, threading
def echoed(port, protocol=0):
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    def serve():
        end, _ = listener.accept()
        while data := end.recv(65536):
            end.sendall(data)
    threading.Thread(target=serve, daemon=True).start()
    return socket.create_connection(("127.0.0.1", port))
"""


def saved(name: str) -> str:
    """Return domain 0's command that saves a guest and restores it at once."""
    return f"xl save {name} /tmp/image && xl restore /tmp/image && rm /tmp/image"


def migrated(name: str) -> str:
    """Return domain 0's command that migrates a guest live, to this host."""
    return f'xl migrate -s "" {name} "xl migrate-receive"'


# Has xwayd run in domain 0 again, as the rig started it.
START_XWAYD = "setsid xwayd >>/var/log/xwayd.log 2>&1 </dev/null &"

ECHO = """
import asyncio, sys
async def serve(reader, writer):
    while text := await reader.read(4096):
        writer.write(text)
async def main():
    server = await asyncio.start_server(serve, "", int(sys.argv[1]), backlog=4096)
    for path in sys.argv[2:]:  # of a FIFO
        with open(path, "w") as ready:
            print("ready", file=ready)
    await server.serve_forever()
asyncio.run(main())
"""


@contextmanager
def paused(dom0: Guest, name: str) -> Iterator[None]:
    """Have a guest paused inside."""
    dom0.run(["xl", "pause", name])
    try:
        yield
    finally:
        dom0.run(["xl", "unpause", name])


@contextmanager
def echoing(guest: Guest, port: int) -> Iterator[None]:
    """Have a guest send back what comes by connections to this port."""
    ready = f"/tmp/echoing.{port}"
    guest.run(f"rm -f {ready}; mkfifo {ready}")
    server = guest.start(f"ulimit -n 65536; exec python3 -c '{ECHO}' {port} {ready}")
    try:
        # Whoever looks again and again has a busy debug kernel start programs instead of this one.
        guest.run(f"read line <{ready}", timeout=300)
        yield
    finally:
        server.kill()


@dataclass
class Ends:
    """Where the passive end listens, at which address, and where the active end is."""

    passive: Guest
    active: Guest
    address: str

    def put(self) -> None:
        """Put the program into both ends."""
        program = build("stream", self.active.debian)
        for guest in {id(g): g for g in (self.passive, self.active)}.values():
            guest.put(program, STREAM, mode=0o755)

    def stream(
        self,
        *,
        passive: str = "block",
        active: str = "block",
        timeout: float = 900.0,
        **options: int,
    ) -> None:
        """Run tests/sock/stream.c at both ends and fail if either does."""
        words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        words.append(f"--timeout={int(pace.limit(min(300, timeout / 2)))}")
        server = self.passive.start(
            f"ulimit -n 65536; exec {STREAM} listen {self.address} {PORT} --mode={passive} {' '.join(words)}"
        )
        try:
            self.passive.run(
                f"for i in $(seq 2000); do ss -Hltn sport = :{PORT} | grep -q . && exit 0; sleep 0.05; done;"
                " exit 1"
            )
            self.active.run(
                f"ulimit -n 65536; exec {STREAM} connect {self.address} {PORT}"
                f" --mode={active} {' '.join(words)}",
                timeout=timeout,
            )
            done = server.wait(timeout)
            assert done.status == 0, done.stdout + done.stderr
        finally:
            server.kill()


@dataclass
class Moved:
    """By how much the counters of both ends moved; filled in when `measured` ends."""

    active: dict[str, int]
    passive: dict[str, int]

    def seen(self) -> dict[str, dict[str, int]]:
        """Return the counters that moved, for messages."""
        ends = {"active": self.active, "passive": self.passive}
        return {name: {what: n for what, n in end.items() if n} for name, end in ends.items()}

    def ring_share(self) -> float:
        """Return the share of the bytes that went by ring, the lower of both directions."""
        shares = []
        for end in (self.active, self.passive):
            ring, tcp = end["tx_ring_bytes"], end["tx_tcp_bytes"]
            shares.append(ring / max(1, ring + tcp))
        return min(shares)


@contextmanager
def measured(ends: Ends) -> Iterator[Moved]:
    """Measure what the counters of both ends move by; no violation is tolerated."""
    before = counters(ends.active), counters(ends.passive)
    result = Moved({}, {})
    yield result
    settled(ends.active)
    settled(ends.passive)
    for end, guest, was in zip(
        (result.active, result.passive), (ends.active, ends.passive), before, strict=True
    ):
        end.update(moved(was, counters(guest)))
        assert end["violations"] == 0, end
    # What one end put into its rings is what the other took out.
    assert result.active["tx_ring_bytes"] == result.passive["rx_ring_bytes"]
    assert result.passive["tx_ring_bytes"] == result.active["rx_ring_bytes"]


def toggling(ends: Ends, guest: Guest, rounds: int = 20, **stream: Any) -> dict[str, int]:
    """Stream again and again while `guest` turns acceleration off and on, until both were seen in mid-stream.

    Returns by how much the counters of `guest` moved.
    """
    command = """
        switched() { xway stats | grep switched_to_ring; }
        while :; do
            # A connection stays attached while a program is in a call that TCP does for us by now: a write
            # of a MiB by netfront, between two emulated guests that share a CPU, takes long.
            xway off --wait 240 || exit 1
            sleep "0.0$((RANDOM % 9))"
            was=$(switched)
            xway on || exit 1
            # On until a stream is, however slow this machine is, if there is any.
            for _ in $(seq 30); do sleep 0.1; [ "$(switched)" = "$was" ] || break; done
            sleep "0.0$((RANDOM % 9))"
        done"""
    before = counters(guest)
    toggle = guest.start(["bash", "-c", command])
    try:
        for _ in range(rounds):
            ends.stream(**stream)
            now = moved(before, counters(guest))
            if now["switched_to_ring"] > 3 and now["switched_to_tcp"] > 3:
                return now
        raise AssertionError(f"no switch in mid-stream in {rounds} rounds: {now}")
    finally:
        ended = toggle.poll() is not None
        toggle.kill()
        guest.run("xway on")
        assert not ended, toggle.stderr()
