"""What a connection costs: the calls that make and end it, and many of them at once."""

import json
from collections.abc import Iterator

from bench.micro import ELSEWHERE, FIGURE, LOOPBACK, MODES, STREAM, Micro
from bench.pair import XWAY, Pair
from bench.plugin import Counts, Profiler
from bench.results import ABSENT, CALL, CALLS, LOADED, MANY, UNEVEN, Results
from rig.errors import RigError
from rig.guest import Guest

ECHO_PORT, SINK_PORT = "7101", "7102"


def _run(pair: Pair, *words: str) -> dict[str, float]:
    """Run xbench in g1 and return what it says."""
    done = pair.client.run(["xbench", *words], timeout=120)
    line: dict[str, float] = json.loads(done.stdout)
    return line


def _calls(pair: Pair, host: str, connects: int, results: Results, mode: str, path: str) -> str:
    """Time the calls of so many connections; return a line about it."""
    line = _run(pair, "connect", host, ECHO_PORT, str(connects))
    for place, call in enumerate(CALLS):
        results.add_micro(mode, place, path, line[f"{call}_us"], None)
    return ",  ".join(f"{call} {line[f'{call}_us']:.1f}" for call in CALLS)


class Connections:
    """The measurements of one boot, between the two guests."""

    def __init__(self, pair: Pair, results: Results) -> None:
        self._pair = pair
        self._results = results
        self._servers = [
            pair.server.start(["xbench", what, port])
            for what, port in (("echo", ECHO_PORT), ("sink", SINK_PORT))
        ]

    def calls(self, path: str, connects: int) -> Iterator[str]:
        """Time the calls that make and end connections, one way; yield a line."""
        self._pair.go(path)
        try:
            host = self._pair.server.ip4
            yield f"{path:8} µs  {_calls(self._pair, host, connects, self._results, CALL, path)}"
        except RigError as error:
            self._pair.problem(f"{path}, calls of a connection: {error}")

    def timed(self, connects: int) -> dict[str, float]:
        """Return the time of each of CALLS, in µs, as connections go now."""
        line = _run(self._pair, "connect", self._pair.server.ip4, ECHO_PORT, str(connects))
        return {call: line[f"{call}_us"] for call in CALLS}

    def count(self, profiler: Profiler, few: int) -> Counts:
        """Return the counts of twice so many whole connections, as they go now, without a program's start."""
        host = self._pair.server.ip4
        short, long = (
            profiler.count(lambda n=n: _run(self._pair, "connect", host, ECHO_PORT, str(n)))[1]
            for n in (few, 3 * few)
        )
        return long.less(short)

    def many(self, path: str, count: int, ms: int, warm_ms: int) -> Iterator[str]:
        """Measure so many streams at once, one way; yield a line."""
        self._pair.go(path)
        before = self._pair.bytes()
        try:
            words = ("many", self._pair.server.ip4, SINK_PORT, str(count), str(ms), str(warm_ms))
            line = _run(self._pair, *words)
        except RigError as error:
            self._pair.problem(f"{path}, {count} streams: {error}")
            return
        client = self._pair.bytes()[0].since(before[0])
        share = client.tx_ring / max(1, client.tx_ring + client.tx_tcp) if path == XWAY else None
        uneven = line["high"] / line["low"] if line["low"] else float("inf")
        self._results.add_micro(MANY, count, path, line["mbit"], share)
        self._results.add_micro(UNEVEN, count, path, uneven, None)
        yield f"{path:8} {count} streams {line['mbit']:.3g} Mbit/s, fastest/slowest {uneven:.2f}"

    def stop(self) -> None:
        """End the servers."""
        for server in self._servers:
            server.kill()


def untouched(
    pair: Pair, results: Results, tests: Micro, sizes: tuple[int, ...], dom0: Guest
) -> Iterator[str]:
    """Measure TCP that is none of XWAY's, inside g1 and from it to domain 0.

    With the module loaded and without, by turns, at the end of everything. Streams to domain 0 vary from
    connection to connection, so there are more of them.
    """
    echo = dom0.start(["xbench", "echo", ECHO_PORT])
    serve = tests.serve_elsewhere(dom0)
    for number in range(6):
        path = LOADED if number % 4 in (0, 3) else ABSENT
        command = "xway off; modprobe -r xway" if path == ABSENT else "modprobe xway && xway on"
        pair.client.run(command, timeout=60)
        for what in (LOOPBACK, ELSEWHERE):
            for mode in MODES:
                words = []
                times = 4 if (what, mode) == (ELSEWHERE, STREAM) else 1
                for size in [size for size in sizes for _ in range(times)]:
                    figure = float(tests.run(what, mode, size)[FIGURE[mode]])
                    results.add_micro(f"{what}-{mode}", size, path, figure, None)
                    words.append(f"{figure:.4g}")
                yield f"{path:8} {what} {mode}: {',  '.join(words)}"
        text = _calls(pair, dom0.ip4, 100, results, f"{ELSEWHERE}-{CALL}", path)
        yield f"{path:8} {ELSEWHERE} µs  {text}"
    echo.kill()
    serve.kill()
