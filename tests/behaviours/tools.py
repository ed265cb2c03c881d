"""What the behaviours are written with: connections made the way that is asked for, waiting, telling."""

import array
import ctypes
import errno
import fcntl
import json
import os
import select
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from typing import Any

HOSTS = {socket.AF_INET: "127.7.0.2", socket.AF_INET6: "fd77::7:2"}
TRANSLATED = {socket.AF_INET: "127.7.0.3", socket.AF_INET6: "fd77::7:3"}
SOON = 5.0  # seconds in which what must come has come
NEVER = 0.15  # seconds in which what must not come has not

SO_PEEK_OFF, SO_BUSY_POLL, SO_ZEROCOPY, SO_COOKIE, SO_TIMESTAMP, SO_TIMESTAMPING = 42, 46, 60, 57, 29, 37
SO_ATTACH_FILTER, SO_DETACH_FILTER, SO_TIMESTAMPNS, SO_INCOMING_CPU, SO_ATTACH_BPF = 26, 27, 35, 49, 50
SO_MAX_PACING_RATE, SO_ATTACH_REUSEPORT_CBPF, SO_RCVBUFFORCE = 47, 51, 33
TCP_ZEROCOPY_RECEIVE, TCP_REPAIR_QUEUE, TCP_MD5SIG = 35, 20, 14
TCP_QUEUE_SEQ, TCP_REPAIR_OPTIONS, TCP_TIMESTAMP, TCP_REPAIR_WINDOW = 21, 22, 24, 29
SOL_TLS, TLS_TX, TLS_RX = 282, 1, 2
TCP_REPAIR, TCP_ULP, TCP_SAVE_SYN, TCP_SAVED_SYN, TCP_INQ, TCP_FASTOPEN_CONNECT = 19, 31, 27, 28, 36, 30
MSG_ZEROCOPY, MSG_WAITFORONE = 0x4000000, 0x10000
SIOCOUTQ, SIOCOUTQNSD, SIOCATMARK, FIOASYNC = 0x5411, 0x894B, 0x8905, 0x5452
F_SETSIG = 10
CLONE_NEWNET = 0x40000000
EVENTS = {
    "IN": 1, "PRI": 2, "OUT": 4, "ERR": 8, "HUP": 16, "RDNORM": 64, "RDBAND": 128, "WRNORM": 256,
    "WRBAND": 512, "MSG": 1024, "RDHUP": 8192,
}  # fmt: skip


libc = ctypes.CDLL(None, use_errno=True)
Behaviour = Callable[[], None]
behaviours: list[Behaviour] = []
opened: list[socket.socket] = []


@dataclass
class Now:
    """Which behaviour runs, which way connections go, and of which family they are unless it says so."""

    way: str = "tcp"
    name: str = ""
    family: socket.AddressFamily = socket.AF_INET


now = Now()


def behaviour(function: Behaviour) -> Behaviour:
    behaviours.append(function)
    return function


def with_ipv4(function: Behaviour) -> Behaviour:
    """Mark one that is about IPv4 alone, though its connections do not say so."""

    @wraps(function)
    def wrapper() -> None:
        now.family = socket.AF_INET
        function()

    return wrapper


def say(*words: object) -> None:
    """Add a line to the transcript."""
    print(f"{now.name}:", *words, flush=True)


def outcome(call: Callable[..., Any], *args: Any) -> Any:
    """Return what a call returns, or the name of its error."""
    try:
        return call(*args)
    except TimeoutError as error:
        return errno.errorcode[error.errno] if error.errno else "time-out"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))


def c(function: str, *args: Any) -> Any:
    """Call a function of the C library, which no signal restarts; return its result or its error's name."""
    result = getattr(libc, function)(*args)
    return errno.errorcode[ctypes.get_errno()] if result < 0 else result


def keep(sock: socket.socket) -> socket.socket:
    """Have a socket closed when the behaviour ends."""
    opened.append(sock)
    return sock


def fresh() -> socket.socket:
    """Return a socket that is not connected."""
    return keep(socket.socket(now.family))


def listen(
    *options: tuple[int, int, int], family: socket.AddressFamily | None = None, port: int = 0
) -> socket.socket:
    family = family or now.family
    listener = keep(socket.socket(family))
    for option in options:
        listener.setsockopt(*option)
    listener.bind((HOSTS[family], port))
    listener.listen(16)
    return listener


def place(listener: socket.socket) -> tuple[str, int]:
    """Return where to connect to."""
    host = (TRANSLATED if now.way == "declined" else HOSTS)[listener.family]
    return host, listener.getsockname()[1]


def connect(listener: socket.socket) -> socket.socket:
    sock = keep(socket.socket(listener.family))
    sock.connect(place(listener))
    return sock


def attached(passive: socket.socket) -> list[dict[str, str]]:
    """Return what `xway conn` says of each end of a connection that it holds."""
    output = subprocess.run(["xway", "-j", "conn"], capture_output=True, check=True).stdout
    port = passive.getpeername()[1]
    return [one for one in json.loads(output) if port in (one["local_port"], one["remote_port"])]


def ways(passive: socket.socket) -> list[str]:
    """Return which way a connection's four halves go: each end's tx and rx; none if nobody holds it."""
    return [one[half] for one in attached(passive) for half in ("tx", "rx")]


def states(passive: socket.socket) -> list[str]:
    """Return the state of each end of a connection; none if nobody holds it."""
    return [one["state"] for one in attached(passive)]


def on_ring(passive: socket.socket) -> bool:
    """Tell whether both ends send by ring."""
    return ways(passive) == ["ring"] * 4


def off_ring(passive: socket.socket) -> None:
    """Wait until neither end sends by ring any more, where one did."""
    end = time.monotonic() + SOON
    while now.way == "ring" and "ring" in ways(passive)[::2]:
        assert time.monotonic() < end, "the connection does not leave the ring"
        time.sleep(0.01)


def warm(active: socket.socket, passive: socket.socket) -> None:
    """Exchange bytes until the connection is where it will stay."""
    end = time.monotonic() + SOON
    while True:
        for _ in range(8):
            for one, other in ((active, passive), (passive, active)):
                one.sendall(b"w" * 100)
                assert len(other.recv(100, socket.MSG_WAITALL)) == 100
        if now.way != "ring" or on_ring(passive):
            return
        assert time.monotonic() < end, "the connection does not move to the ring"
        time.sleep(0.01)


def pair(
    family: socket.AddressFamily | None = None, *, listener: socket.socket | None = None
) -> tuple[socket.socket, socket.socket]:
    """Return a connection that has been used, active end first."""
    listener = listener or listen(family=family)
    active = connect(listener)
    passive = keep(listener.accept()[0])
    warm(active, passive)
    return active, passive


def moving(step: Callable[[socket.socket, socket.socket], object]) -> set[object]:
    """Do a step, there and back, while a fresh connection moves to the ring; return what it returned."""
    listener = listen()
    a = connect(listener)
    b = keep(listener.accept()[0])
    end = time.monotonic() + 2 * SOON
    results = set()
    while True:
        for _ in range(20):
            results |= {step(a, b), step(b, a)}
        if now.way != "ring" or on_ring(b):
            return results
        assert time.monotonic() < end, "the connection does not move to the ring"


def queued(sock: socket.socket, request: int = termios.FIONREAD) -> int:
    """Return how many bytes wait to be read, or what another request tells."""
    value = array.array("i", [-1])
    fcntl.ioctl(sock, request, value)
    return value[0]


def arrived(sock: socket.socket, count: int) -> None:
    """Wait until `count` bytes can be read."""
    end = time.monotonic() + SOON
    while queued(sock) < count:
        assert time.monotonic() < end, f"{queued(sock)} of {count} bytes have come"
        time.sleep(0.002)


def acknowledged(sock: socket.socket) -> None:
    """Wait until all that was sent has been acknowledged."""
    end = time.monotonic() + SOON
    while queued(sock, SIOCOUTQ) and time.monotonic() < end:
        time.sleep(0.002)


def names(mask: int) -> str:
    """Return the names of poll's events in `mask`."""
    return "|".join(key for key, bit in EVENTS.items() if mask & bit) or "0"


def mask(sock: socket.socket) -> int:
    """Return what poll() says of a socket now."""
    poll = select.poll()
    poll.register(sock, sum(EVENTS.values()))
    return sum(bits for _, bits in poll.poll(0))


def polled(sock: socket.socket, wanted: str) -> str:
    """Return what poll() says once it says `wanted`, and does not change any more.

    TCP sets a socket's error and closes it in two steps: another processor may see the one without the other.
    """
    end = time.monotonic() + SOON
    before, now = 0, mask(sock)
    while (not now & EVENTS[wanted] or now != before) and time.monotonic() < end:
        time.sleep(0.02 if now & EVENTS[wanted] else 0.002)
        before, now = now, mask(sock)
    return names(now)


def state(port: int, to: int, *wanted: str) -> str:
    """Return a state of a connection's end as `ss` names it, or "gone": one that is wanted, or the last."""
    end = time.monotonic() + SOON
    while True:
        words = ["ss", "-Htan", f"sport = :{port} and dport = :{to}"]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
        now = said[0] if said else "gone"
        if now in wanted or time.monotonic() > end:
            return now
        time.sleep(0.02)


@contextmanager
def unheard(sock: socket.socket) -> Iterator[None]:
    """Drop what TCP sends for a socket meanwhile."""
    rules = (
        "table inet unheard { chain out { type filter hook output priority 0; "
        f"tcp sport {sock.getsockname()[1]} tcp dport {sock.getpeername()[1]} drop; }}; }}"
    )
    subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)
    try:
        yield
    finally:
        subprocess.run(["nft", "delete", "table", "inet", "unheard"], check=True)


def silent(sock: socket.socket, event: int = select.POLLIN) -> bool:
    """Tell whether an event does not come."""
    poll = select.poll()
    poll.register(sock, event)
    return not poll.poll(NEVER * 1000)


def exactly(sock: socket.socket, count: int) -> bytes:
    """Read `count` bytes, whether the socket blocks or not."""
    data = bytearray()
    while len(data) < count:
        if not sock.getblocking():
            polled(sock, "IN")
        part = sock.recv(count - len(data))
        assert part, f"end after {len(data)} of {count} bytes"
        data += part
    return bytes(data)


def passes(one: socket.socket, other: socket.socket, data: bytes) -> bool:
    """Send bytes, also more than fits, and tell whether they arrive."""
    sender = threading.Thread(target=one.sendall, args=(data,))
    sender.start()
    same = exactly(other, len(data)) == data
    sender.join()
    return same


def back_and_forth(one: socket.socket, other: socket.socket) -> None:
    """Send enough for a ring to be worth it."""
    for _ in range(20):
        one.sendall(b"there" * 500)
        other.sendall(exactly(other, 2500)[::-1])
        assert exactly(one, 2500) == b"ereht" * 500


def echoes(one: socket.socket, other: socket.socket | None) -> None:
    """Send bytes of many sizes there and back; without an `other`, somebody else sends them back."""
    for size in range(0, 20000, 97):
        one.sendall(pattern(size))
        if other:
            other.sendall(exactly(other, size))
        assert exactly(one, size) == pattern(size)


def to_end(sock: socket.socket) -> bytes:
    return b"".join(iter(lambda: sock.recv(65536), b""))


def fill(sock: socket.socket) -> int:
    """Send until nothing more goes in, for good; return how much that was."""
    count, still = 0, 0
    while still < 3:
        with suppress(BlockingIOError):
            while True:
                count += sock.send(b"f" * 65536, socket.MSG_DONTWAIT)
                still = 0
        still += 1
        time.sleep(0.05)
    return count


def pattern(count: int) -> bytes:
    """Return bytes that tell where they are from."""
    return b"".join(struct.pack(">I", i) for i in range((count + 3) // 4))[:count]


def later(seconds: float, call: Callable[..., Any], *args: Any) -> threading.Timer:
    timer = threading.Timer(seconds, call, args)
    timer.daemon = True
    timer.start()
    return timer


def asleep(call: Callable[..., Any], *args: Any) -> tuple[threading.Thread, list[Any]]:
    """Make a call in a thread, where it falls asleep; return that, and a list that will get the outcome."""
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.append(outcome(call, *args)))
    thread.start()
    time.sleep(0.05)
    return thread, got


def in_a_child(work: Callable[[], None]) -> None:
    """Do something in a process of its own."""
    child = os.fork()
    if not child:
        status = 1
        try:
            work()
            status = 0
        except Exception:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0, "the child failed"
