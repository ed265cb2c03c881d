"""Streams and request/response against the size of messages."""

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from bench.pair import BETWEEN, MMNET, NETFRONT, SHARE, XWAY, Bytes, Pair
from bench.results import Results, size_text
from rig import pace
from rig.errors import RigError
from rig.guest import Background, Guest

UNIX, LOOPBACK, VCHAN, MEMCPY = "unix", "loopback", "libvchan", "memcpy"
ELSEWHERE = "elsewhere"  # from g1 to domain 0
SOCKETS = (NETFRONT, XWAY, UNIX, LOOPBACK)
PATHS = (*SOCKETS, VCHAN, MEMCPY)
ALL = (*PATHS, MMNET)  # it is the last, so that the others are measured without its devices
STREAM, RR = "stream", "rr"
MODES = (STREAM, RR)
FIGURE = {STREAM: "mbit", RR: "us"}
PORT = "7100"
CHECKED = {1: 20_000, 2048: 2_000_000, 65536: 8_000_000}  # size of messages: bytes


def is_test(word: str) -> bool:
    """Tell whether a word of the command line is MODE:SIZE."""
    mode, _, size = word.partition(":")
    return mode in MODES and size.isdigit() and int(size) > 0


class Hangs(RigError):
    """A measurement does not end; the text has what the guests could tell about it."""


@dataclass(frozen=True)
class Plan:
    """How long is measured, in ms of guest time."""

    sizes: tuple[int, ...]
    rounds: int
    stream_ms: int
    rr_ms: int
    warm_ms: int

    def test(self, mode: str, size: int, times: int = 1) -> list[str]:
        """Return the words that tell the programs what to do, for so many times as long."""
        ms = self.stream_ms if mode == STREAM else self.rr_ms
        return [mode, str(size), str(ms * times), str(self.warm_ms)]


class Micro:
    """The measurements of one boot."""

    def __init__(self, pair: Pair, plan: Plan, results: Results) -> None:
        self._pair = pair
        self._plan = plan
        self._results = results
        self._vchans = 0
        self._server = pair.server.start(["xbench", "serve", PORT])
        self._ids = {
            guest.name: pair.machine.dom0.run(["xl", "domid", guest.name]).stdout.strip()
            for guest in (pair.client, pair.server)
        }

    def warm_up(self) -> None:
        """Use every path between the guests once, unmeasured: the first packets of a boot are slow."""
        for path in (NETFRONT, XWAY):
            self._pair.go(path)
            for mode in MODES:
                self._xbench(path, [mode, "2048", str(self._plan.stream_ms), str(self._plan.warm_ms)])

    def round(self, path: str) -> Iterator[str]:
        """Measure every size one way; yield a line for each mode."""
        if path in BETWEEN:
            self._pair.go(path)
        tests = [(mode, size) for mode in MODES for size in self._plan.sizes]
        if path == VCHAN:
            try:
                lines = self._vchan([self._plan.test(mode, size) for mode, size in tests])
                found = {(line["mode"], int(line["size"])): line for line in lines}
            except RigError as error:
                self._pair.problem(f"libvchan: {error}")
                return
        for mode in (STREAM,) if path == MEMCPY else MODES:
            words = []
            for size in self._plan.sizes:
                try:
                    if path == VCHAN:
                        value, share = float(found[mode, size][FIGURE[mode]]), None
                    else:
                        value, share = self.measure(path, mode, size)
                except Hangs as error:
                    self._pair.problem(f"{path}, {mode} of {size_text(size)}: {error}")
                    return
                except RigError as error:
                    self._pair.problem(f"{path}, {mode} of {size_text(size)}: {error}")
                    continue
                self._results.add_micro(mode, size, path, value, share)
                words.append(f"{size_text(size)} {value:.3g}")
            yield f"{path:8} {mode:6} {'Mbit/s' if mode == STREAM else 'µs    '}  {',  '.join(words)}"

    def measure(self, path: str, mode: str, size: int) -> tuple[float, float | None]:
        """Measure once; return the figure and, between guests, the part that went by ring."""
        before = self._pair.bytes() if path in BETWEEN else None
        by_device = self._pair.device_bytes() if path == MMNET else 0
        line = self.run(path, mode, size)
        if path == MMNET and self._pair.device_bytes() - by_device < int(line["sent"]):
            self._pair.problem(f"{path}, {mode} of {size_text(size)}: bytes went another way")
        share = None
        if before:
            client, server = (now.since(then) for now, then in zip(self._pair.bytes(), before, strict=True))
            share = self._share(path, mode, size, int(line["sent"]), client, server)
        return float(line[FIGURE[mode]]), share

    def _share(self, path: str, mode: str, size: int, sent: int, client: Bytes, server: Bytes) -> float:
        """Return the part of the payload that went by ring, and note if it is not what it should be."""
        counts = [client.tx_ring, server.rx_ring]
        if mode == RR:
            counts += [server.tx_ring, client.rx_ring]
        share = min(1.0, min(counts) / sent)
        what = f"{path}, {mode} of {size_text(size)}"
        if path == XWAY and share < SHARE:
            self._pair.problem(
                f"{what}: only {share:.1%} of {sent} bytes went by ring (g1 {client}, g2 {server})"
            )
        if path != XWAY and client.ring + server.ring:
            self._pair.problem(f"{what}: rings carried bytes (g1 {client}, g2 {server})")
        return share

    def run(self, path: str, mode: str, size: int, times: int = 1) -> dict[str, str]:
        """Run one test, for so many times as long, and return what xbench says of it."""
        return self._xbench(path, self._plan.test(mode, size, times), times)

    def _xbench(self, path: str, words: list[str], times: int = 1) -> dict[str, str]:
        place = [path]
        if path in (*BETWEEN, ELSEWHERE):
            to = (self._pair.machine.dom0 if path == ELSEWHERE else self._pair.server).ip4
            place = ["tcp", to, PORT]
        client = self._pair.client
        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(client.run, ["xbench", *place, *words], timeout=300 * times)
            try:
                done = job.result(timeout=pace.limit(150 * times))
            except TimeoutError:  # look at it while it hangs
                state = self._pair.state()
                client.run("pkill -x xbench", check=False)
                raise Hangs(f"xbench {' '.join([*place, *words])} hangs\n{state}") from None
        line: dict[str, str] = json.loads(done.stdout)
        return line

    def _vchan(self, tests: Iterable[list[str]]) -> list[dict[str, str]]:
        """Run tests over one new libvchan."""
        self._vchans += 1
        place = f"data/bench-{self._vchans}"
        serve = ["vchan", "serve", self._ids["g1"], place]
        server = self._pair.server.start(serve)
        words = [word for test in tests for word in test]
        try:
            done = self._pair.client.run(["vchan", "test", self._ids["g2"], place, *words], timeout=120)
        except RigError as error:
            raise RigError(f"{error}\nserver: {server.stderr().strip()}") from error
        finally:
            server.kill()
        return [json.loads(line) for line in done.stdout.splitlines()]

    def check(self) -> Iterator[str]:
        """Send streams whose every byte is checked, over every path."""
        for path in (UNIX, LOOPBACK, NETFRONT, XWAY):
            if path in (NETFRONT, XWAY):
                self._pair.go(path)
            for size, count in CHECKED.items():
                try:
                    self._xbench(path, ["check", str(size), str(count)])
                except RigError as error:
                    self._pair.problem(f"{path}: payload was not right: {error}")
        try:
            self._vchan(["check", str(size), str(count)] for size, count in CHECKED.items())
        except RigError as error:
            self._pair.problem(f"libvchan: payload was not right: {error}")
        yield f"payload compared byte for byte over {', '.join(PATHS)}"

    def serve_elsewhere(self, dom0: Guest) -> Background:
        """Start a server in domain 0 and return it."""
        return dom0.start(["xbench", "serve", PORT])

    def stop(self) -> None:
        """End the server."""
        self._server.kill()
