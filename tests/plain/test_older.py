"""Connections that are older than the module, or than the peer's, get rings."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from rig.guest import Guest
from tests import traffic
from tests.traffic import until

LIFE, SEEN = "/tmp/life.py", "/tmp/life.json"
PORT = 6010
COUNT = 6
FOREVER = 10**9
HOSTS = {"ipv4": "127.0.0.1", "ipv6": "::1"}


@pytest.fixture
def seen(guest: Guest, server: str, family: str) -> Iterator[Callable[[], Any]]:
    """Have connections talk that began without the module; give what returns what was seen of them.

    The threads of the server wait in TCP's own calls, those of asyncio in epoll.
    """
    traffic.unload(guest)
    guest.put(traffic.TOP / "tests/sock/life.py", LIFE, mode=0o755)
    guest.run(f"rm -f {SEEN}")
    with ExitStack() as stack:
        if server == "threads":
            running = guest.start(f"exec python3 {LIFE} serve {PORT}")
            stack.callback(running.kill)
            guest.run(f"until ss -Hltn sport = :{PORT} | grep -q .; do sleep 0.1; done")
        else:
            stack.enter_context(traffic.echoing(guest, PORT))
        client = guest.start(f"exec python3 {LIFE} talk {HOSTS[family]} {PORT} {SEEN} {COUNT} {FOREVER}")
        stack.callback(client.kill)
        until(lambda: guest.run(f"test -e {SEEN}", check=False).status == 0, "what is seen")

        def look() -> Any:
            assert client.poll() is None, client.stderr()
            found = json.loads(guest.read(SEEN))
            assert not found["wrong"] and not found["errors"], found
            return found["rounds"][:COUNT]

        yield look
    guest.run("xway off; modprobe -r xway", check=False)


def goes_on(seen: Callable[[], Any]) -> None:
    was = seen()
    until(lambda: all(now > then for now, then in zip(seen(), was, strict=True)), f"more rounds, of {was}")


def on_rings(guest: Guest) -> bool:
    conns = traffic.xway(guest, "conn")
    return len(conns) == 2 * COUNT and all(conn["tx"] == conn["rx"] == "ring" for conn in conns)


@pytest.mark.parametrize(("server", "family"), [("threads", "ipv4"), ("asyncio", "ipv6")])
def test_older_than_the_module(guest: Guest, seen: Callable[[], Any]) -> None:
    """Then the module goes, and comes again: their bytes by ring do not hinder the next ring."""
    goes_on(seen)
    for _ in range(2):
        traffic.load(guest, "127.0.0.0/8", "::1/128")
        until(lambda: on_rings(guest), "rings")
        goes_on(seen)
        now = traffic.counters(guest)
        print(now)
        assert now["adopted"] == now["attached"] == 2 * COUNT, now
        assert not now["violations"] and not traffic.reasons(now), now
        until(lambda: traffic.counters(guest)["tx_ring_bytes"] > 1 << 20, "bytes by ring")
        guest.run("xway off --wait 60")
        goes_on(seen)
        guest.run("xway on")
        until(lambda: on_rings(guest), "rings again")
        goes_on(seen)
        assert traffic.counters(guest)["adopted"] == 4 * COUNT
        guest.run("xway off --wait 60; modprobe -r xway")
        assert not guest.run("grep -w ^xway /proc/modules", check=False).stdout
        goes_on(seen)
