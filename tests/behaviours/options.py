"""Options and requests (ioctl)."""

import ctypes
import os
import signal
import socket
import struct
import threading
import time
from typing import Any

from uring import RECV, Uring, tell

from tools import (
    EVENTS,
    NEVER,
    SIOCATMARK,
    SIOCOUTQ,
    SIOCOUTQNSD,
    SO_ATTACH_FILTER,
    SO_ATTACH_REUSEPORT_CBPF,
    SO_BUSY_POLL,
    SO_COOKIE,
    SO_DETACH_FILTER,
    SO_INCOMING_CPU,
    SO_MAX_PACING_RATE,
    SO_RCVBUFFORCE,
    SO_TIMESTAMP,
    SO_TIMESTAMPING,
    SO_TIMESTAMPNS,
    SOL_TLS,
    SOON,
    TCP_FASTOPEN_CONNECT,
    TCP_INQ,
    TCP_MD5SIG,
    TCP_QUEUE_SEQ,
    TCP_REPAIR,
    TCP_REPAIR_OPTIONS,
    TCP_REPAIR_QUEUE,
    TCP_REPAIR_WINDOW,
    TCP_SAVE_SYN,
    TCP_SAVED_SYN,
    TCP_TIMESTAMP,
    TCP_ULP,
    TLS_RX,
    TLS_TX,
    acknowledged,
    arrived,
    asleep,
    back_and_forth,
    behaviour,
    connect,
    exactly,
    fill,
    fresh,
    keep,
    later,
    listen,
    mask,
    names,
    off_ring,
    opened,
    outcome,
    pair,
    passes,
    pattern,
    place,
    polled,
    queued,
    say,
    silent,
    to_end,
    unheard,
    warm,
    with_ipv4,
)


@behaviour
def options_read_back() -> None:
    a, b = pair()
    for level, option, value in (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.SOL_SOCKET, socket.SO_OOBINLINE, 1),
        (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1),
        (socket.SOL_SOCKET, socket.SO_REUSEPORT, 1),
        (socket.SOL_SOCKET, socket.SO_PRIORITY, 3),
        (socket.SOL_SOCKET, socket.SO_MARK, 7),
        (socket.SOL_SOCKET, socket.SO_SNDBUF, 50000),
        (socket.SOL_SOCKET, socket.SO_RCVBUF, 50000),
        (socket.SOL_SOCKET, SO_BUSY_POLL, 10),
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 100),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30000),
        (socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 5000),
        (socket.IPPROTO_TCP, socket.TCP_LINGER2, 20),
        (socket.IPPROTO_TCP, socket.TCP_SYNCNT, 3),
        (socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, 60000),
        (socket.IPPROTO_IP, socket.IP_TOS, 0x10),
        (socket.IPPROTO_IP, socket.IP_TTL, 60),
    ):
        for end in (a, b):
            say(level, option, outcome(end.setsockopt, level, option, value), end.getsockopt(level, option))
    a.sendall(b"still")
    say(exactly(b, 5))


@behaviour
def what_it_is() -> None:
    a, b = pair()
    for option in (
        socket.SO_TYPE,
        socket.SO_DOMAIN,
        socket.SO_PROTOCOL,
        socket.SO_ACCEPTCONN,
        socket.SO_ERROR,
    ):
        say(option, a.getsockopt(socket.SOL_SOCKET, option), b.getsockopt(socket.SOL_SOCKET, option))
    say(b.getsockname()[0], b.getpeername() == a.getsockname(), a.getpeername() == place(opened[0]))
    say(len(a.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8)), os.fstat(a.fileno()).st_mode & 0o170000)
    say(os.readlink(f"/proc/self/fd/{a.fileno()}").startswith("socket:["))


@behaviour
def bad_options() -> None:
    a, _ = pair()
    say(outcome(a.setsockopt, socket.IPPROTO_TCP, 9999, 1), outcome(a.getsockopt, socket.IPPROTO_TCP, 9999))
    say(outcome(a.setsockopt, socket.IPPROTO_TCP, socket.TCP_NODELAY, b""))
    say(outcome(a.setsockopt, socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 0))
    say(outcome(a.setsockopt, socket.IPPROTO_TCP, socket.TCP_MAXSEG, 100000))


@behaviour
def congestion_control() -> None:
    a, b = pair()
    say(outcome(a.setsockopt, socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno"))
    say(a.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0"))
    say(outcome(a.setsockopt, socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"no-such"))
    a.sendall(b"x")
    say(exactly(b, 1))


@behaviour
def info() -> None:
    """State, and bytes since the connection was made."""

    def counts(sock: socket.socket) -> tuple[int, int, int]:
        data = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
        return struct.unpack_from("QQ", data, 120) + struct.unpack_from("Q", data, 200)

    a, b = pair()
    time.sleep(NEVER)  # for acknowledgements
    before = counts(a), counts(b)
    a.sendall(b"i" * 1000)
    exactly(b, 1000)
    b.sendall(b"j" * 300)
    exactly(a, 300)
    time.sleep(NEVER)
    say(a.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0])
    for end, old in zip((a, b), before, strict=True):
        say("acked, received, sent:", *(x - y for x, y in zip(counts(end), old, strict=True)))


@behaviour
def info_when_full() -> None:
    a, b = pair()
    count = fill(a)
    data = a.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
    (not_sent,) = struct.unpack_from("I", data, 144)
    say(not_sent == queued(a, SIOCOUTQNSD), not_sent > 0, len(exactly(b, count)) == count)


@behaviour
def inq() -> None:
    a, b = pair()
    b.setsockopt(socket.IPPROTO_TCP, TCP_INQ, 1)
    a.sendall(b"0123456789")
    arrived(b, 10)
    for _ in range(2):
        data, control, _, _ = b.recvmsg(6, 100)
        say(data, [(level, kind, struct.unpack("i", value)[0]) for level, kind, value in control])
    a.shutdown(socket.SHUT_WR)
    polled(b, "RDHUP")
    data, control, _, _ = b.recvmsg(6, 100)
    say(data, [(level, kind, struct.unpack("i", value)[0]) for level, kind, value in control])


@behaviour
def queue_sizes() -> None:
    a, b = pair()
    time.sleep(NEVER)  # for acknowledgements
    say(queued(a), queued(b), queued(a, SIOCOUTQ), queued(a, SIOCOUTQNSD), queued(b, SIOCATMARK))
    a.sendall(b"12345")
    arrived(b, 5)
    time.sleep(NEVER)
    say(queued(a), queued(b), queued(a, SIOCOUTQ), queued(a, SIOCOUTQNSD))
    a.shutdown(socket.SHUT_WR)
    polled(b, "RDHUP")
    say(queued(b), b.recv(10), queued(b), b.recv(10), queued(b))


@behaviour
def queue_sizes_when_full() -> None:
    a, b = pair()
    count = fill(a)
    say(queued(a, SIOCOUTQ) > 0, queued(a, SIOCOUTQNSD) > 0, 0 < queued(b) <= count)
    say(exactly(b, count) == b"f" * count)
    acknowledged(a)
    say(queued(a, SIOCOUTQ), queued(a, SIOCOUTQNSD))


@behaviour
def segments_and_processors() -> None:
    """Options that shape TCP's packets, or tell of the processor that handles them."""
    listener = listen()
    a = fresh()
    say(outcome(a.setsockopt, socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1000))
    a.connect(place(listener))
    b = keep(listener.accept()[0])
    warm(a, b)
    say(500 < a.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) <= 1000)
    for end in (a, b):
        say(outcome(end.setsockopt, socket.IPPROTO_TCP, socket.TCP_MAXSEG, 900))
        for value in (0, 1):
            say(outcome(end.setsockopt, socket.IPPROTO_TCP, socket.TCP_QUICKACK, value))
            say(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))
        say(0 <= end.getsockopt(socket.SOL_SOCKET, SO_INCOMING_CPU) < (os.cpu_count() or 1))
        say(outcome(end.setsockopt, socket.SOL_SOCKET, SO_INCOMING_CPU, 0))
    a.sendall(b"s" * 50000)
    say(exactly(b, 50000) == b"s" * 50000)


@behaviour
def listener_queue_size() -> None:
    say(outcome(queued, listen()), outcome(queued, fresh()))


@behaviour
def low_water_mark() -> None:
    a, b = pair()
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 10)
    off_ring(b)  # see doc/compatibility.md
    a.sendall(b"12345")
    say(silent(b))
    a.sendall(b"67890")
    say(polled(b, "IN"), b.recv(100))


@behaviour
def unsent_low_water_mark() -> None:
    a, b = pair()
    a.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 4096)
    sent = fill(a)
    say(queued(a, SIOCOUTQNSD) < 80000)  # and one packet
    say(sent > 0, names(mask(a) & EVENTS["OUT"]), len(exactly(b, sent)) == sent, polled(a, "OUT"))


@behaviour
def timeouts() -> None:
    a, b = pair()
    a.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("qq", 0, 100000))
    a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("qq", 0, 100000))
    start = time.monotonic()
    say(outcome(a.recv, 1), 0.05 < time.monotonic() - start < 2)
    count = fill(a)
    start = time.monotonic()
    say(outcome(a.send, b"x" * 100), 0.05 < time.monotonic() - start < 2, len(exactly(b, count)) == count)


@behaviour
def send_times_out_in_the_middle() -> None:
    a, b = pair()
    a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("qq", 0, 300_000))
    data = pattern(1 << 20) * 32
    start = time.monotonic()
    sent = a.send(data)
    say(0 < sent < len(data), 0.25 < time.monotonic() - start < 3, exactly(b, sent) == data[:sent])


@behaviour
def paced() -> None:
    """Half a megabyte a second."""
    a, b = pair()
    a.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("Q", 500_000))
    start = time.monotonic()
    say(passes(a, b, pattern(1 << 20)), time.monotonic() - start > 1)


@behaviour
def what_a_listener_hands_on() -> None:
    listener = listen((socket.SOL_SOCKET, socket.SO_RCVLOWAT, 10))
    a, b = connect(listener), keep(listener.accept()[0])
    back_and_forth(a, b)
    a.sendall(b"12345")
    say(silent(b))
    a.sendall(b"67890")
    say(polled(b, "IN"), b.recv(20))


@behaviour
def linger() -> None:
    a, b = pair()
    a.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 2))
    a.sendall(b"last words")
    a.close()
    say(to_end(b))


@behaviour
def linger_not_at_all() -> None:
    a, b = pair()
    a.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    a.close()
    say(polled(b, "ERR"), outcome(b.recv, 10), outcome(b.recv, 10), outcome(b.send, b"x"), names(mask(b)))


@behaviour
def linger_not_at_all_with_data() -> None:
    a, b = pair()
    a.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    a.sendall(b"read before the reset?")
    arrived(b, 22)
    a.close()
    polled(b, "ERR")
    say(b.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), outcome(b.recv, 100), outcome(b.recv, 100))


@behaviour
def buffer_sizes() -> None:
    """What is under way is bounded by both ends' buffers."""
    listener = listen((socket.SOL_SOCKET, socket.SO_RCVBUF, 4096))
    a = fresh()
    a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    a.connect(place(listener))
    b = keep(listener.accept()[0])
    warm(a, b)
    count = fill(a)
    say(4096 <= count <= 32768 or count)
    say(exactly(b, count) == b"f" * count, polled(a, "OUT"))


@behaviour
def smaller_while_full() -> None:
    a, b = pair()
    fill(a)
    a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    writer, got = asleep(a.sendall, b"g" * 100000)
    seen = b""
    while not seen.endswith(b"g" * 100000):
        seen += b.recv(65536)
    writer.join(SOON)
    say(got, seen.count(b"g"))


def patience(a: socket.socket) -> None:
    a.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 500)


def send_while_room(sock: socket.socket, size: int) -> None:
    """Send whenever poll() says that there is room, until it says that there is an error."""
    end = time.monotonic() + 2 * SOON
    while not (events := mask(sock)) & EVENTS["ERR"] and time.monotonic() < end:
        if events & EVENTS["OUT"]:
            sock.send(bytes(size))
        else:
            time.sleep(0.01)


@behaviour
def user_timeout() -> None:
    """The peer lives, but nobody reads."""
    a, _ = pair()
    patience(a)
    start = time.monotonic()
    say(outcome(a.sendall, bytes(32 << 20)), 0.4 < time.monotonic() - start < SOON, outcome(a.send, b"x"))
    say(outcome(a.recv, 1))


@behaviour
def user_timeout_without_blocking() -> None:
    a, _ = pair()
    patience(a)
    a.setblocking(False)
    send_while_room(a, 65536)
    say(polled(a, "ERR"), outcome(a.send, b"x"))


@behaviour
def user_timeout_of_who_polls() -> None:
    """Who sends only while there is room meets no error of its own."""
    a, _ = pair()
    patience(a)
    a.setblocking(False)
    send_while_room(a, 1000)
    say(polled(a, "ERR"), outcome(a.send, b"x"))


@behaviour
def keepalive_without_an_answer() -> None:
    """The peer is silent, and then cannot be heard."""
    a, b = pair()
    for option, value in ((socket.TCP_KEEPIDLE, 1), (socket.TCP_KEEPINTVL, 1), (socket.TCP_KEEPCNT, 2)):
        a.setsockopt(socket.IPPROTO_TCP, option, value)
    a.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    time.sleep(1.5)
    reader, got = asleep(a.recv, 1)
    with unheard(b):
        reader.join(2 * SOON)
    say(got, outcome(a.send, b"x"), polled(b, "ERR"), outcome(b.recv, 1))


@behaviour
def user_timeout_and_room_for_all() -> None:
    """The peer takes more bytes than a ring holds, and reads them when the time is over."""
    a, b = pair()
    patience(a)
    b.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
    writer, got = asleep(a.sendall, b"r" * (2 << 20))
    time.sleep(1.5)
    say(exactly(b, 2 << 20).count(b"r"))
    writer.join(SOON)
    say(got)


@behaviour
def user_timeout_set_late() -> None:
    a, _ = pair()
    writer, got = asleep(a.sendall, bytes(32 << 20))
    patience(a)
    writer.join(SOON)
    say(got)


@behaviour
def user_timeout_without_a_wait() -> None:
    """Bytes that nobody reads, and nobody who waits for room."""
    a, b = pair()
    patience(a)
    a.sendall(bytes(30000))
    time.sleep(1)
    say(a.send(b"x"), len(exactly(b, 30001)))


@behaviour
def user_timeout_and_a_slow_reader() -> None:
    a, b = pair()
    patience(a)
    writer, got = asleep(a.sendall, bytes(3 << 20))
    count = 0
    while count < 3 << 20:
        count += len(exactly(b, min(256 << 10, (3 << 20) - count)))
        time.sleep(0.1)
    writer.join(SOON)
    say(got, count)


def stamped(option: int, value: int) -> None:
    """See time stamps come with the bytes once an option asks for them."""
    a, b = pair()
    b.setsockopt(socket.SOL_SOCKET, option, value)
    end = time.monotonic() + SOON
    control: list[Any] = []
    while not control and time.monotonic() < end:  # the kernel begins to take the time a little later
        a.sendall(b"when?")
        arrived(b, 5)
        data, control, flags, _ = b.recvmsg(10, 100)
        time.sleep(0.01)
    say(data, [(level, kind) for level, kind, _ in control], flags)


@behaviour
def time_stamps() -> None:
    stamped(SO_TIMESTAMP, 1)


@behaviour
def time_stamps_in_nanoseconds() -> None:
    stamped(SO_TIMESTAMPNS, 1)


@behaviour
def time_stamps_of_what_came() -> None:
    stamped(SO_TIMESTAMPING, 1 << 3 | 1 << 4)  # on arrival, by the software


@behaviour
def time_stamps_from_the_first_byte() -> None:
    """Also of bytes that are on their way already when the peer learns of it."""
    for option, value in ((SO_TIMESTAMP, 1), (SO_TIMESTAMPNS, 1), (SO_TIMESTAMPING, 1 << 3 | 1 << 4)):
        first = fresh()
        first.setsockopt(socket.SOL_SOCKET, option, value)
        time.sleep(0.5)  # the kernel takes the time of what arrives from now on
        a, b = pair()
        b.setsockopt(socket.SOL_SOCKET, option, value)
        a.sendall(b"now")
        arrived(b, 3)
        for _ in range(3):
            data, control, flags, _ = b.recvmsg(1, 100)
            seconds = struct.unpack_from("q", control[0][2])[0] if control else 0
            say(data, [kind for _, kind, _ in control], abs(time.time() - seconds) < SOON, flags)
            time.sleep(0.1)


@behaviour
def time_stamps_of_what_was_sent() -> None:
    a, b = pair()
    acknowledged(a)  # where TCP begins to count
    # By the software and on acknowledgement, numbered by byte, without the bytes.
    flags = 1 << 1 | 1 << 9 | 1 << 4 | 1 << 7 | 1 << 11
    say(outcome(a.setsockopt, socket.SOL_SOCKET, SO_TIMESTAMPING, flags))
    for count in (100, 50):
        a.sendall(b"t" * count)
        say(exactly(b, count) == b"t" * count)
        told: list[tuple[int, int]] = []
        while len(told) < 2:
            say(polled(a, "ERR"))
            _, control, _, _ = a.recvmsg(10, 300, socket.MSG_ERRQUEUE)
            error = next(data for level, _, data in control if level != socket.SOL_SOCKET)
            _, origin, _, _, _, kind, number = struct.unpack_from("IBBBBII", error)
            told.append((kind, number))
        say(origin, sorted(told))


def attach_filter(sock: socket.socket, answer: int, option: int = SO_ATTACH_FILTER) -> None:
    """Have a filter give the same answer for every packet: how many of its bytes pass."""
    code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, answer), 8)
    sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("HxxxxxxQ", 1, ctypes.addressof(code)))


@behaviour
def filter_that_passes() -> None:
    a, b = pair()
    attach_filter(b, 0xFFFFFFFF)
    a.sendall(b"passes")
    say(exactly(b, 6))


@behaviour
def filter_that_drops() -> None:
    a, b = pair()
    attach_filter(b, 0)
    off_ring(b)
    a.sendall(b"not yet")
    say(silent(b))
    b.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)
    say(exactly(b, 7))


@behaviour
def bound_to_a_device() -> None:
    a, b = pair()
    say(outcome(a.setsockopt, socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0"))
    a.sendall(b"bound")
    say(exactly(b, 5))


@behaviour
def repair() -> None:
    a, b = pair()
    say(
        outcome(a.setsockopt, socket.IPPROTO_TCP, TCP_REPAIR, 1), a.getsockopt(socket.IPPROTO_TCP, TCP_REPAIR)
    )
    say(outcome(a.setsockopt, socket.IPPROTO_TCP, TCP_REPAIR, 0))
    a.sendall(b"repaired")
    say(exactly(b, 8))


@behaviour
def upper_layer() -> None:
    a, b = pair()
    say(a.getsockopt(socket.IPPROTO_TCP, TCP_ULP, 16).rstrip(b"\0"))
    say(outcome(a.setsockopt, socket.IPPROTO_TCP, TCP_ULP, b"no-such"))
    say(outcome(a.setsockopt, socket.IPPROTO_TCP, TCP_ULP, b"tls"))
    a.sendall(b"plain")
    say(exactly(b, 5))


@behaviour
def upper_layer_while_a_request_waits() -> None:
    """To wake it is work that the kernel leaves to its thread, as a signal is."""
    a, b = pair()
    with Uring() as ring:
        memory = ctypes.create_string_buffer(8)
        ring.ask(1, RECV, a.fileno(), memory)
        say(outcome(a.setsockopt, socket.IPPROTO_TCP, TCP_ULP, b"tls"))
        b.sendall(b"plain")
        tell(ring.answers(1))
        say(memory.raw[:5])


@behaviour
def upper_layer_under_signals() -> None:
    a, b = pair()
    signal.signal(signal.SIGUSR1, lambda *_: None)
    me = threading.get_ident()
    timers = [later(0.001 * n, signal.pthread_kill, me, signal.SIGUSR1) for n in range(1, 20)]
    got = outcome(a.setsockopt, socket.IPPROTO_TCP, TCP_ULP, b"tls")
    for timer in timers:
        timer.join()
    a.sendall(b"plain")
    say(got, exactly(b, 5))


@behaviour
def tls_of_the_kernel() -> None:
    """Keys are given in mid-stream, as by a web server after its handshake."""
    a, b = pair()
    # struct tls12_crypto_info_aes_gcm_128: TLS 1.2, cipher; iv, key, salt, number of the first record
    keys = struct.pack("HH", 0x303, 51) + b"i" * 8 + b"k" * 16 + b"salt" + bytes(8)
    for end in (a, b):
        say(outcome(end.setsockopt, socket.IPPROTO_TCP, TCP_ULP, b"tls"))
        say([outcome(end.setsockopt, SOL_TLS, way, keys) for way in (TLS_TX, TLS_RX)])
    for one, other in ((a, b), (b, a)):
        say(passes(one, other, pattern(100000)))
    say(a.getsockopt(socket.IPPROTO_TCP, TCP_ULP, 16).rstrip(b"\0"))


@behaviour
@with_ipv4
def key_for_another_peer() -> None:
    """TCP_MD5SIG, as a router sets it; for this peer no packet would pass where addresses are translated."""
    a, b = pair()
    other = struct.pack("=H2x4s120x", socket.AF_INET, socket.inet_aton("192.0.2.1"))
    key = struct.pack("=BBHI80s", 0, 0, 4, 0, b"key!")
    say(outcome(a.setsockopt, socket.IPPROTO_TCP, TCP_MD5SIG, other + key))
    a.sendall(b"unsigned")
    say(exactly(b, 8))


@behaviour
def upper_layer_over_unread_bytes() -> None:
    a, b = pair()
    a.sendall(b"unread")
    arrived(b, 6)
    say(outcome(b.setsockopt, socket.IPPROTO_TCP, TCP_ULP, b"tls"))
    a.sendall(b", plain")
    say(exactly(b, 13), outcome(b.recv, 1, socket.MSG_DONTWAIT))


@behaviour
def repair_over_unread_bytes() -> None:
    """What a check-pointing program sees of the queue that it would save."""
    a, b = pair()
    a.sendall(b"unread")
    arrived(b, 6)
    say(outcome(b.setsockopt, socket.IPPROTO_TCP, TCP_REPAIR, 1))
    say(outcome(b.setsockopt, socket.IPPROTO_TCP, TCP_REPAIR_QUEUE, 1))
    say(outcome(b.recv, 10, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    say(outcome(b.setsockopt, socket.IPPROTO_TCP, TCP_REPAIR, 0), outcome(b.recv, 10))
    a.sendall(b"on")
    say(exactly(b, 2))


@behaviour
def repaired_in_another_socket() -> None:
    """As CRIU moves a connection: its state is read, and given to a socket that was never connected."""
    a, b = pair()
    ends = a.getsockname(), a.getpeername()
    for end in (a, b):
        acknowledged(end)  # nothing may come while there is no socket

    def queue(sock: socket.socket, which: int, number: int | None = None) -> int:
        sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_QUEUE, which)
        if number is not None:
            sock.setsockopt(socket.IPPROTO_TCP, TCP_QUEUE_SEQ, struct.pack("I", number))
        return struct.unpack("I", sock.getsockopt(socket.IPPROTO_TCP, TCP_QUEUE_SEQ, 4))[0]

    a.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    received, sent = queue(a, 1), queue(a, 2)
    info = a.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)
    segment = a.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
    clock = a.getsockopt(socket.IPPROTO_TCP, TCP_TIMESTAMP)
    window = a.getsockopt(socket.IPPROTO_TCP, TCP_REPAIR_WINDOW, 20)
    a.close()

    other = fresh()
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    other.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    other.bind(ends[0])
    queue(other, 1, received)
    queue(other, 2, sent)
    other.connect(ends[1])
    scales = (info[6] & 15) | (info[6] >> 4) << 16
    for kind, value in (
        (2, segment),
        (3, scales),
        (4, 0),
        (8, 0),
    ):  # what was negotiated, by the option's kind
        other.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_OPTIONS, struct.pack("II", kind, value))
    other.setsockopt(socket.IPPROTO_TCP, TCP_TIMESTAMP, clock)
    other.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_WINDOW, window)
    other.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 0)
    for one, peer in ((other, b), (b, other)):
        say(passes(one, peer, pattern(100000)))
    other.close()
    say(b.recv(1))


@behaviour
def one_port_for_many() -> None:
    """SO_REUSEPORT: each connection comes to one of the listeners."""
    reuse = (socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listeners = [listen(reuse)]
    listeners.append(listen(reuse, port=place(listeners[0])[1]))
    for _ in range(8):
        a = connect(listeners[0])
        ready = [listener for listener in listeners if not silent(listener)]
        b = keep(ready[0].accept()[0])
        warm(a, b)
        a.sendall(b"mine")
        assert exactly(b, 4) == b"mine"
    say("all served")


@behaviour
def one_port_for_many_by_a_filter() -> None:
    """It tells which listener a connection comes to."""
    reuse = (socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listeners = [listen(reuse)]
    listeners.append(listen(reuse, port=place(listeners[0])[1]))
    for number in (1, 0):
        attach_filter(listeners[0], number, SO_ATTACH_REUSEPORT_CBPF)
        a = connect(listeners[0])
        say(silent(listeners[1 - number]))
        b = keep(listeners[number].accept()[0])
        warm(a, b)
        a.sendall(b"chosen")
        say(exactly(b, 6))


@behaviour
def saved_syn() -> None:
    listener = listen((socket.IPPROTO_TCP, TCP_SAVE_SYN, 1))
    _, b = pair(listener=listener)
    say(len(b.getsockopt(socket.IPPROTO_TCP, TCP_SAVED_SYN, 200)) > 20)


@behaviour
def deferred_accept() -> None:
    listener = listen((socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 5))
    a = connect(listener)
    say(silent(listener))
    a.sendall(b"now")
    b = keep(listener.accept()[0])
    say(b.recv(10, socket.MSG_DONTWAIT))
    warm(a, b)


@behaviour
def fast_open() -> None:
    listener = listen((socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 5))
    for _ in range(2):
        a = fresh()
        say(outcome(a.sendto, b"in SYN", socket.MSG_FASTOPEN, place(listener)))
        b = keep(listener.accept()[0])
        say(exactly(b, 6))
        b.sendall(b"answer")
        say(exactly(a, 6))
    back_and_forth(a, b)


@behaviour
def fast_open_connect() -> None:
    listener = listen((socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 5))
    a = fresh()
    a.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)
    say(outcome(a.connect, place(listener)), outcome(a.send, b"data"))
    b = keep(listener.accept()[0])
    say(exactly(b, 4))
    b.sendall(b"answer")
    say(exactly(a, 6))
    warm(a, b)
