"""Speaks with the agent inside a domain: one TCP connection runs one command.

guestfs/agent.c describes the frames.
"""

import contextlib
import os
import selectors
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rig.errors import RigError

CHUNK = 65536
GRACE_SECONDS = 10.0  # how much longer than the agent's own time limit we wait for its word
DEAD_SECONDS = 5.0


@dataclass(frozen=True)
class Result:
    """How a command ended.

    `status` is its exit status, or 128 plus the number of the signal that ended it.
    """

    stdout: str
    stderr: str
    status: int


class CommandFailed(RigError):
    """A command ended with a status other than 0; `result` has its output."""

    def __init__(self, text: str, result: Result) -> None:
        super().__init__(text)
        self.result = result


class CommandTimeout(RigError):
    """A command was not over within its time; it was killed. `result` has the output so far."""

    def __init__(self, text: str, result: Result) -> None:
        super().__init__(text)
        self.result = result


class AgentGone(RigError):
    """The agent cannot be reached, or the connection to it broke: the domain may be dead."""


def _frame(kind: bytes, data: bytes) -> bytes:
    return kind + struct.pack(">I", len(data)) + data


class _Reader:
    """Takes frames out of what a socket delivers."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> tuple[str, bytes] | None:
        if len(self._buffer) < 5:
            return None
        (length,) = struct.unpack_from(">I", self._buffer, 1)
        if len(self._buffer) < 5 + length:
            return None
        kind, data = chr(self._buffer[0]), bytes(self._buffer[5 : 5 + length])
        del self._buffer[: 5 + length]
        return kind, data


def _connect(port: int, wait: float, dead: Callable[[], bool]) -> tuple[socket.socket, _Reader]:
    """Connect to the agent behind the host's `port`, trying again for `wait` seconds unless it is dead."""
    end = time.monotonic() + wait
    patience = 1.0
    while True:
        sock = None
        try:
            sock = socket.create_connection(("127.0.0.1", port), timeout=patience)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            reader = _Reader()
            while True:  # QEMU takes the connection before the domain does: the greeting counts
                data = sock.recv(CHUNK)
                if not data:
                    raise ConnectionError("closed before the greeting")
                reader.feed(data)
                if (frame := reader.next()) is not None:
                    if frame[0] != "h":
                        raise AgentGone(f"no agent answers at port {port}")
                    return sock, reader
        except OSError as error:
            if sock:
                sock.close()
            left = end - time.monotonic()
            if left <= 0 or dead():
                raise AgentGone(f"the agent does not answer ({error})") from error
            time.sleep(min(0.1, left))
            patience = min(10.0, patience * 1.5)


def execute(
    port: int,
    argv: Sequence[str],
    *,
    stdin: bytes | Path | int = b"",
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    timeout: float | None = 120.0,
    guest_limit: bool = True,
    connect_wait: float = 30.0,
    dead: Callable[[], bool] = lambda: False,
    on_stdout: Callable[[bytes], object],
    on_stderr: Callable[[bytes], object],
) -> int | None:
    """Run `argv` and pass its output on as it comes; return its status, None if its time was up.

    stdin: bytes, a file's path, or an open descriptor to read until its end.
    timeout: seconds; the agent kills the command then, and so does our going away a little later.
    guest_limit: False where the domain's clock does not follow ours; then only we watch the time.
    dead: asked in every silence whether there is still somebody to answer.

    AgentGone if the agent cannot be reached, is dead, or the connection breaks.
    """
    sock, reader = _connect(port, connect_wait, dead)
    request = b"".join(_frame(b"a", os.fsencode(word)) for word in argv)
    for name, value in (env or {}).items():
        request += _frame(b"e", os.fsencode(f"{name}={value}"))
    if cwd:
        request += _frame(b"d", os.fsencode(cwd))
    if timeout is not None and guest_limit:
        request += _frame(b"t", str(max(1, int(timeout * 1000))).encode())
    request += _frame(b"x", b"")
    limit = timeout if timeout is None or not guest_limit else timeout + GRACE_SECONDS
    end = None if limit is None else time.monotonic() + limit

    with contextlib.ExitStack() as stack:
        stack.callback(sock.close)
        source = -1
        if isinstance(stdin, Path):
            source = os.open(stdin, os.O_RDONLY)
            stack.callback(os.close, source)
        elif isinstance(stdin, int):
            source = stdin
        else:
            for at in range(0, len(stdin), CHUNK):
                request += _frame(b"i", stdin[at : at + CHUNK])
            request += _frame(b"i", b"")
        sock.setblocking(False)
        outgoing = bytearray(request)
        regular = source >= 0 and isinstance(stdin, Path)
        select = stack.enter_context(selectors.DefaultSelector())
        select.register(sock, selectors.EVENT_READ)
        polled = False
        if source >= 0 and not regular:
            try:
                select.register(source, selectors.EVENT_READ)
                polled = True
            except (PermissionError, ValueError):
                regular = True  # a regular file is always ready
        while True:
            if regular and len(outgoing) < CHUNK:
                data = os.read(source, CHUNK)
                outgoing += _frame(b"i", data)
                regular = bool(data)
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if outgoing else 0)
            select.modify(sock, wanted)
            wait = DEAD_SECONDS if end is None else max(0.0, min(DEAD_SECONDS, end - time.monotonic()))
            events = select.select(wait)
            if not events and dead():
                raise AgentGone("the domain has died")
            if not events and end is not None and time.monotonic() >= end:
                return None
            for key, mask in events:
                if key.fileobj is not sock:
                    if len(outgoing) > 4 * CHUNK:
                        continue
                    data = os.read(source, CHUNK)
                    outgoing += _frame(b"i", data)
                    if not data and polled:
                        select.unregister(source)
                        polled = False
                    continue
                try:
                    if mask & selectors.EVENT_WRITE:
                        del outgoing[: sock.send(outgoing[: 4 * CHUNK])]
                    if mask & selectors.EVENT_READ:
                        data = sock.recv(CHUNK)
                        if not data:
                            raise AgentGone("the connection to the agent closed")
                        reader.feed(data)
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise AgentGone(f"the connection to the agent broke: {error}") from error
            while (frame := reader.next()) is not None:
                kind, data = frame
                if kind == "o":
                    on_stdout(data)
                elif kind == "r":
                    on_stderr(data)
                elif kind == "s":
                    return _status(data.decode())


def _status(text: str) -> int | None:
    """Return the exit status in the agent's last word; None for a timeout."""
    word, _, rest = text.partition(" ")
    if word == "exit":
        return int(rest)
    if word == "signal":
        return 128 + int(rest)
    if word == "timeout":
        return None
    raise RigError(f"the agent could not start the command: {rest}")
