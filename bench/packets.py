"""What sockets do not carry: packets, by the guests' own interfaces, over netfront and by MMNet."""

import json
from typing import Any

from bench.apps import App, Sockperf
from bench.pair import MMNET, ByDevice
from bench.results import Metric
from rig.guest import Guest

SINK, ECHO_PORT, SOCKPERF_PORT = "7800", "7801", "11112"
SIZES = (64, 1400)


def metric(name: str, unit: str, more_is_better: bool, how: str) -> Metric:
    """Return one that compares netfront with MMNet."""
    return Metric(name, unit, more_is_better, how, way=MMNET)


class Packets(App):
    """Something between the guests whose bytes are counted at their interfaces."""

    way = MMNET
    rounds = 2

    def counted(self) -> ByDevice:
        """Return the bytes of both guests until now."""
        return ByDevice.of([self.pair.client, self.pair.server])

    def proof(self, way: str, before: Any) -> tuple[float | None, int]:
        """Return which part of how many bytes went by mm0, and note a problem."""
        went = self.counted().since(before)
        if wrong := went.wrong(way):
            self.pair.problem(f"{self.name} over {way}: {wrong}")
        return went.share if way == MMNET else None, went.eth0


class Datagrams(Packets):
    """Datagrams of UDP, never more than the receiver has room for."""

    name = "UDP"
    metrics = tuple(
        metric(f"UDP, {size} B", "thousands/s", True, f"datagrams of {size} bytes that were answered")
        for size in SIZES
    )

    def start(self, server: Guest, client: Guest) -> None:
        """Start the receiver."""
        server.start(["packets", "drain", SINK])

    def run(self, client: Guest) -> dict[str, float]:
        """Send for a while."""
        found = {}
        for size, one in zip(SIZES, self.metrics, strict=True):
            ms = str(200 * self.seconds)
            line = json.loads(self.client(["packets", "send", str(size), ms, SINK, self.host]))
            found[one.name] = line["answered"] * 1e6 / line["ns"]
        return found


class Ping(Packets, Sockperf):
    """sockperf: ping-pong over UDP."""

    name = "sockperf, UDP"
    options = ("-p", SOCKPERF_PORT)
    metrics = (metric("sockperf ping-pong, UDP", "µs one way", False, "sockperf ping-pong, 64 bytes"),)


class Connects(Packets):
    """Connections, with sockets' acceleration on in both cases."""

    name = "connections"
    metrics = (
        metric("connect()", "µs", False, "connect() to a program that accepts at once"),
        metric("a whole connection", "µs", False, "connect(), a byte there and back, close()"),
    )

    def start(self, server: Guest, client: Guest) -> None:
        """Start the server."""
        server.start(["xbench", "echo", ECHO_PORT])

    def run(self, client: Guest) -> dict[str, float]:
        """Make some."""
        self.pair.both(lambda guest: guest.run(["xway", "on"]))
        line = json.loads(self.client(["xbench", "connect", self.host, ECHO_PORT, "100"]))
        return {self.metrics[0].name: line["connect_us"], self.metrics[1].name: line["whole_us"]}


KINDS: tuple[type[App], ...] = (Datagrams, Ping, Connects)
