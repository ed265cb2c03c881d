"""Says on standard error what takes longer than a moment, with the time it took."""

import os
import sys
import threading
import time
from types import TracebackType

QUIET_SECONDS = 2.0


class Step:
    """A step of work, used as `with Step("building the image"):`.

    Nothing is printed for a step shorter than QUIET_SECONDS. On a terminal the line counts seconds;
    elsewhere a line is printed when the step turns out long, another every 15 s and one at its end.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._done = threading.Event()
        self._shown = False
        self._live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> "Step":
        self._start = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()
        if self._shown:
            self._print("failed" if error else "done", last=True)

    def _tick(self) -> None:
        wait = QUIET_SECONDS
        while not self._done.wait(wait):
            self._shown = True
            self._print("...")
            wait = 1.0 if self._live else 15.0

    def _print(self, state: str, last: bool = False) -> None:
        seconds = time.monotonic() - self._start
        line = f"rig: {self.what} {state} ({seconds:.0f} s)"
        if self._live:
            sys.stderr.write("\r\033[K" + line + ("\n" if last else ""))
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()
