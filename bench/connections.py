"""What a connection costs: connect(), its whole life, and many of them at once."""

import json
from collections.abc import Iterator

from bench.micro import FIGURE, LOOPBACK, MODES, PORT, Micro
from bench.pair import XWAY, Pair
from bench.results import ABSENT, CONNECT, LIFE, LOADED, MANY, UNEVEN, Results
from rig.errors import RigError

ECHO_PORT = "7101"


class Connections:
    """The measurements of one boot, between the two guests."""

    def __init__(
        self, pair: Pair, results: Results, *, connects: int, counts: dict[int, tuple[int, int]]
    ) -> None:
        """connects: how many connections are timed. counts: of streams at once: ms measured, and before."""
        self._pair = pair
        self._results = results
        self._connects = connects
        self._counts = counts
        self._server = pair.server.start(["xbench", "echo", ECHO_PORT])

    def _run(self, *words: str) -> dict[str, float]:
        done = self._pair.client.run(["xbench", *words], timeout=60 * self._pair.slow)
        line: dict[str, float] = json.loads(done.stdout)
        return line

    def round(self, path: str, most: int) -> Iterator[str]:
        """Measure one way, at most so many streams at once; yield a line for each kind."""
        self._pair.go(path)
        host = self._pair.server.ip4
        try:
            line = self._run("connect", host, ECHO_PORT, str(self._connects))
            self._results.add_micro(CONNECT, 1, path, line["connect_us"], None)
            self._results.add_micro(LIFE, 1, path, line["whole_us"], None)
            yield f"{path:8} connect() {line['connect_us']:.1f} µs, its whole life {line['whole_us']:.1f} µs"
            for count, times in self._counts.items():
                if count > most:
                    continue
                before = self._pair.bytes()
                line = self._run("many", host, PORT, str(count), *map(str, times))
                client = self._pair.bytes()[0].since(before[0])
                share = client.tx_ring / max(1, client.tx_ring + client.tx_tcp) if path == XWAY else None
                self._results.add_micro(MANY, count, path, line["mbit"], share)
                uneven = line["high"] / line["low"] if line["low"] else float("inf")
                self._results.add_micro(UNEVEN, count, path, uneven, None)
                yield f"{path:8} {count} streams {line['mbit']:.3g} Mbit/s, fastest/slowest {uneven:.2f}"
        except RigError as error:
            self._pair.problem(f"{path}, connections: {error}")

    def stop(self) -> None:
        """End the server."""
        self._server.kill()


def loopback(pair: Pair, results: Results, tests: Micro, sizes: tuple[int, ...]) -> Iterator[str]:
    """Measure TCP inside g1 with the module loaded and without, by turns, at the end of everything."""
    for number in range(6):
        path = (LOADED, ABSENT)[number % 2]
        command = "xway off; modprobe -r xway" if path == ABSENT else "modprobe xway && xway on"
        pair.client.run(command, timeout=60 * pair.slow)
        for mode in MODES:
            for size in sizes:
                figure = float(tests.run(LOOPBACK, mode, size)[FIGURE[mode]])
                results.add_micro(f"loopback-{mode}", size, path, figure, None)
                yield f"{path:8} loopback {mode} of {size}: {figure:.4g}"
