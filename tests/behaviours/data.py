"""Sending and receiving: calls and flags."""

import array
import ctypes
import fcntl
import mmap
import os
import signal
import socket
import struct
import tempfile
import threading
import time
from typing import Any

from tools import (
    MSG_WAITFORONE,
    MSG_ZEROCOPY,
    SIOCATMARK,
    SO_PEEK_OFF,
    SO_ZEROCOPY,
    SOON,
    TCP_ZEROCOPY_RECEIVE,
    arrived,
    asleep,
    behaviour,
    c,
    connect,
    exactly,
    fill,
    keep,
    later,
    libc,
    listen,
    now,
    off_ring,
    outcome,
    pair,
    passes,
    pattern,
    polled,
    queued,
    say,
    to_end,
    ways,
    with_ipv4,
)


@behaviour
def plain_calls() -> None:
    a, b = pair()
    say(a.send(b"hello"), b.recv(100))
    say(os.write(a.fileno(), b"write"), os.read(b.fileno(), 100))
    say(os.writev(a.fileno(), [b"one", b"", b"two"]), exactly(b, 6))
    buffers = [bytearray(2), bytearray(3)]
    a.sendall(b"12345")
    arrived(b, 5)
    say(os.readv(b.fileno(), buffers), buffers)
    say(a.sendmsg([b"x" * 3, b"y" * 4]), exactly(b, 7))
    b.sendall(b"abc")
    arrived(a, 3)
    say(a.recvfrom(10), a.recvmsg(10, 100, socket.MSG_DONTWAIT) if queued(a) else "")


@behaviour
@with_ipv4
def sendto_with_an_address() -> None:
    a, b = pair()
    say(outcome(a.sendto, b"ignored?", ("127.0.0.9", 1)), exactly(b, 8))


class Message(ctypes.Structure):
    """struct mmsghdr, with room for what its pointer points to."""

    _fields_ = [
        ("name", ctypes.c_void_p), ("namelen", ctypes.c_uint), ("iov", ctypes.c_void_p),
        ("iovlen", ctypes.c_size_t), ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t),
        ("flags", ctypes.c_int), ("pad", ctypes.c_uint), ("length", ctypes.c_uint),
    ]  # fmt: skip


def messages_of(*contents: bytes) -> tuple[Any, list[Any]]:
    """Return messages for the calls that take many, and the buffers they lie in."""
    assert ctypes.sizeof(Message) == 64
    texts = [ctypes.create_string_buffer(text, len(text)) for text in contents]
    vectors = [struct.pack("QQ", ctypes.addressof(text), len(text)) for text in texts]
    held = [ctypes.create_string_buffer(vector, 16) for vector in vectors]
    messages = (Message * len(texts))()
    for message, vector in zip(messages, held, strict=True):
        message.iov, message.iovlen = ctypes.addressof(vector), 1
    return messages, [*texts, *held]


@behaviour
def many_messages() -> None:
    a, b = pair()
    messages, texts = messages_of(b"first", b"2nd", b"third!")
    say(c("sendmmsg", a.fileno(), messages, 3, 0), [message.length for message in messages])
    say(exactly(b, 14))
    a.sendall(b"abcde")
    arrived(b, 5)
    say(c("recvmmsg", b.fileno(), messages, 3, socket.MSG_DONTWAIT, None), messages[0].length, texts[0].raw)


@behaviour
def many_messages_on_the_way_back() -> None:
    """The call sleeps for its second message while the connection falls back."""
    a, b = pair()
    messages, texts = messages_of(b".....", b"......")
    a.sendall(b"first")
    arrived(b, 5)
    reader, got = asleep(c, "recvmmsg", b.fileno(), messages, 2, 0, None)
    a.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 2)
    off_ring(b)
    a.sendall(b"second")
    reader.join(SOON)
    say(got, [message.length for message in messages], texts[0].raw, texts[1].raw)
    say(outcome(b.send, b"and on"), exactly(a, 6), outcome(b.recv, 1, socket.MSG_DONTWAIT))


@behaviour
def many_messages_for_one_or_a_time() -> None:
    """MSG_WAITFORONE ends with what is there; a limit of time is looked at after each message."""
    a, b = pair()
    messages, texts = messages_of(b".....", b"......")
    limit = ctypes.create_string_buffer(struct.pack("ll", 0, 10_000_000), 16)
    for flags, time_limit in ((MSG_WAITFORONE, None), (0, limit)):
        reader, got = asleep(c, "recvmmsg", b.fileno(), messages, 2, flags, time_limit)
        a.sendall(b"first")
        reader.join(SOON)
        say(got, messages[0].length, texts[0].raw)


@behaviour
def many_messages_into_a_full_socket() -> None:
    a, b = pair()
    a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    messages, _ = messages_of(b"first", bytes(4 << 20), b"third")
    say(c("sendmmsg", a.fileno(), messages, 3, socket.MSG_DONTWAIT))
    sent = [message.length for message in messages]
    say(sent[0], 0 < sent[1] < 4 << 20, sent[2])
    count = fill(a)
    say(c("sendmmsg", a.fileno(), messages, 3, socket.MSG_DONTWAIT))
    say(exactly(b, 5 + sent[1] + count) == b"first" + bytes(sent[1]) + b"f" * count)


@behaviour
def sizes() -> None:
    a, b = pair()
    data = pattern(1 << 20)
    for size in (1, 2, 3, 1000, 4095, 4096, 4097, 65535, 65536, 65537, 1 << 20):
        say(size, passes(a, b, data[:size]))


@behaviour
def nothing() -> None:
    a, b = pair()
    say(a.send(b""), b.recv(0), outcome(b.recv, 0, socket.MSG_DONTWAIT))
    say(outcome(b.recv, 1, socket.MSG_DONTWAIT), outcome(os.write, a.fileno(), b""))
    a.sendall(b"x")
    arrived(b, 1)
    say(b.recv(0), b.recv(5))


@behaviour
def nothing_is_asked_for() -> None:
    """recv() of no bytes, which Python's own leaves out: it waits for some, and leaves them."""
    a, b = pair()
    buffer = ctypes.create_string_buffer(8)
    say(c("recv", b.fileno(), buffer, 0, socket.MSG_DONTWAIT), c("read", b.fileno(), buffer, 0))
    a.sendall(b"xyz")
    arrived(b, 3)
    say(c("recv", b.fileno(), buffer, 0, 0), c("recv", b.fileno(), buffer, 0, socket.MSG_DONTWAIT))
    say(c("recv", b.fileno(), buffer, 0, socket.MSG_PEEK | socket.MSG_WAITALL), b.recv(3))
    later = threading.Timer(0.2, a.sendall, [b"late"])
    later.start()
    say(c("recv", b.fileno(), buffer, 0, 0), b.recv(4))
    later.join()
    a.shutdown(socket.SHUT_WR)
    say(c("recv", b.fileno(), buffer, 0, 0), b.recv(1))


@behaviour
def fast_open_when_connected() -> None:
    a, b = pair()
    say(outcome(a.send, b"more", socket.MSG_FASTOPEN), outcome(b.recv, 4, socket.MSG_DONTWAIT))
    a.sendall(b"goes on")
    say(b.recv(7))


@behaviour
def bad_memory() -> None:
    a, b = pair()
    a.sendall(b"good")
    arrived(b, 4)
    say(c("send", a.fileno(), 16, 10, 0), c("recv", b.fileno(), 16, 10, 0), queued(b), b.recv(10))


@behaviour
def partly_bad_memory() -> None:
    a, b = pair()
    good = ctypes.create_string_buffer(b"0123456789", 10)
    vectors = ctypes.create_string_buffer(struct.pack("QQQQ", ctypes.addressof(good), 10, 16, 10), 32)
    # TCP takes the good bytes or not, depending on how they fall into its buffers.
    taken = c("writev", a.fileno(), vectors, 2)
    a.sendall(b"|")
    a.shutdown(socket.SHUT_WR)
    say(taken in ("EFAULT", 10), to_end(b) == b"0123456789"[: taken if taken == 10 else 0] + b"|")


@behaviour
def one_long_send() -> None:
    """By either end of a connection that has carried nothing: it gets its ring within the call."""
    data = pattern(1 << 20) * 40  # TCP keeps up to ten of them, on their way and unread
    for active in (True, False):
        listener = listen()
        a, b = connect(listener), keep(listener.accept()[0])
        sender, reader = (a, b) if active else (b, a)
        thread, got = asleep(sender.send, data)
        say(exactly(reader, len(data)) == data)
        thread.join()
        say(got)
        assert now.way != "ring" or "ring" in ways(b)[::2], ways(b)


@behaviour
def one_long_recv() -> None:
    """By either end, as above."""
    data = pattern(1 << 20) * 40
    for active in (True, False):
        listener = listen()
        a, b = connect(listener), keep(listener.accept()[0])
        reader, sender = (a, b) if active else (b, a)
        thread, got = asleep(reader.recv, len(data), socket.MSG_WAITALL)
        sender.sendall(data)
        thread.join()
        say(got == [data])
        assert now.way != "ring" or "ring" in ways(b)[::2], ways(b)


@behaviour
def sendfile() -> None:
    a, b = pair()
    data = pattern(300000)
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        reader: list[bytes] = []
        thread = threading.Thread(target=lambda: reader.append(exactly(b, 299000)))
        thread.start()
        done = 0
        while done < 299000:
            done += os.sendfile(a.fileno(), file.fileno(), 1000 + done, 299000 - done)
        thread.join()
        say(done, reader[0] == data[1000:])


@behaviour
def splice_from_socket() -> None:
    a, b = pair()
    out, into = os.pipe()
    a.sendall(b"spliced bytes")
    arrived(b, 13)
    say(os.splice(b.fileno(), into, 7), os.read(out, 100), b.recv(100))
    b.setblocking(False)
    say(outcome(os.splice, b.fileno(), into, 7))
    b.setblocking(True)
    a.shutdown(socket.SHUT_WR)
    say(os.splice(b.fileno(), into, 7))
    os.close(out)
    os.close(into)


@behaviour
def splice_to_socket() -> None:
    a, b = pair()
    out, into = os.pipe()
    os.write(into, b"through a pipe")
    say(os.splice(out, a.fileno(), 100), exactly(b, 14))
    data = ctypes.create_string_buffer(b"user's page", 11)
    vector = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(data), 11), 16)
    say(c("vmsplice", into, vector, ctypes.c_ulong(1), 0), os.splice(out, a.fileno(), 100), exactly(b, 11))
    out2, into2 = os.pipe()
    os.write(into, b"teed")
    say(c("tee", out, into2, ctypes.c_size_t(100), 0), os.splice(out, a.fileno(), 100))
    say(os.splice(out2, a.fileno(), 100), exactly(b, 8))
    for fd in (out, into, out2, into2):
        os.close(fd)


@behaviour
def splice_much() -> None:
    a, b = pair()
    out, into = os.pipe()
    data = pattern(1 << 20)
    sender = threading.Thread(target=lambda: (a.sendall(data), a.shutdown(socket.SHUT_WR)))
    sender.start()
    got = b""
    while count := os.splice(b.fileno(), into, 65536):
        got += os.read(out, count)
    sender.join()
    say(got == data)
    os.close(out)
    os.close(into)


@behaviour
def peek() -> None:
    a, b = pair()
    a.sendall(b"0123456789")
    arrived(b, 10)
    say(b.recv(4, socket.MSG_PEEK), b.recv(100, socket.MSG_PEEK), b.recv(3), b.recv(100, socket.MSG_PEEK))
    say(b.recv(7), outcome(b.recv, 1, socket.MSG_PEEK | socket.MSG_DONTWAIT))


@behaviour
def peek_all() -> None:
    a, b = pair()
    later(0.05, a.sendall, b"56789")
    a.sendall(b"01234")
    say(b.recv(10, socket.MSG_PEEK | socket.MSG_WAITALL), b.recv(10))


@behaviour
def peek_all_and_another_reads() -> None:
    a, b = pair()
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("qq", 0, 300000))
    a.sendall(b"012")
    arrived(b, 3)
    reader, got = asleep(b.recv, 10, socket.MSG_PEEK | socket.MSG_WAITALL)
    say(b.recv(10))
    reader.join(SOON)
    say(got)


@behaviour
def peek_at_an_urgent_byte() -> None:
    """Who peeks does not get past it, and waits for what comes behind it."""
    listener = listen()
    a = connect(listener)
    b = keep(listener.accept()[0])
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("qq", 0, 200000))
    say(a.send(b"U", socket.MSG_OOB), polled(b, "PRI"))
    say(outcome(b.recv, 10, socket.MSG_PEEK))
    later(0.1, a.sendall, b"behind")
    say(outcome(b.recv, 10, socket.MSG_PEEK), outcome(b.recv, 10))


@behaviour
def peek_offset() -> None:
    a, b = pair()
    say(outcome(b.setsockopt, socket.SOL_SOCKET, SO_PEEK_OFF, 2))
    a.sendall(b"0123456789")
    arrived(b, 10)
    say(b.recv(3, socket.MSG_PEEK), b.recv(3, socket.MSG_PEEK), b.recv(4), b.recv(100, socket.MSG_PEEK))
    say(b.recv(100))


@behaviour
def waitall() -> None:
    a, b = pair()
    a.sendall(b"01234")
    later(0.05, a.sendall, b"56789")
    say(b.recv(10, socket.MSG_WAITALL))
    say(outcome(b.recv, 10, socket.MSG_WAITALL | socket.MSG_DONTWAIT))
    a.sendall(b"012")
    arrived(b, 3)
    say(b.recv(10, socket.MSG_WAITALL | socket.MSG_DONTWAIT))
    a.sendall(b"abc")
    later(0.05, a.shutdown, socket.SHUT_WR)
    say(b.recv(10, socket.MSG_WAITALL), b.recv(10, socket.MSG_WAITALL))


@behaviour
def waitall_and_time_out() -> None:
    a, b = pair()
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("qq", 0, 100000))
    a.sendall(b"012")
    say(b.recv(10, socket.MSG_WAITALL), outcome(b.recv, 10, socket.MSG_WAITALL))


@behaviour
def truncate() -> None:
    a, b = pair()
    a.sendall(b"0123456789")
    arrived(b, 10)
    data = ctypes.create_string_buffer(b"....", 4)
    say(c("recv", b.fileno(), data, 4, socket.MSG_TRUNC), data.raw, b.recv(2), b.recvmsg(2)[2])
    say(c("recv", b.fileno(), None, 1, socket.MSG_TRUNC | socket.MSG_PEEK), b.recv(5))


@behaviour
def more() -> None:
    a, b = pair()
    say(a.send(b"more", socket.MSG_MORE), a.send(b" data"), exactly(b, 9))


@behaviour
def cork() -> None:
    a, b = pair()
    a.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    say(a.send(b"corked"), a.send(b" bytes"), a.getsockopt(socket.IPPROTO_TCP, socket.TCP_CORK))
    a.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
    say(exactly(b, 12))


@behaviour
def urgent() -> None:
    a, b = pair()
    say(outcome(b.recv, 1, socket.MSG_OOB))
    a.sendall(b"ab")
    say(a.send(b"U", socket.MSG_OOB), a.send(b"cd"), polled(b, "PRI"))
    arrived(b, 2)
    say(b.recv(1, socket.MSG_OOB), outcome(b.recv, 1, socket.MSG_OOB))
    say(b.recv(10), queued(b, SIOCATMARK), b.recv(10))


@behaviour
def urgent_behind_unread_bytes() -> None:
    a, b = pair()
    before, after = pattern(9000), b"after it"
    a.sendall(before)
    arrived(b, 9000)
    say(a.send(b"U", socket.MSG_OOB), polled(b, "PRI"))
    a.sendall(after)
    say(queued(b, SIOCATMARK), exactly(b, 4000) == before[:4000], queued(b, SIOCATMARK))
    say(b.recv(9000, socket.MSG_PEEK) == before[4000:], b.recv(9000) == before[4000:])
    say(queued(b, SIOCATMARK), b.recv(1, socket.MSG_OOB), exactly(b, len(after)), queued(b, SIOCATMARK))


@behaviour
def urgent_inline() -> None:
    a, b = pair()
    b.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    a.sendall(b"ab")
    a.send(b"U", socket.MSG_OOB)
    a.send(b"cd")
    say(polled(b, "PRI"), outcome(b.recv, 1, socket.MSG_OOB))
    arrived(b, 5)
    say(queued(b, SIOCATMARK), b.recv(10), queued(b, SIOCATMARK), b.recv(10))


@behaviour
def urgent_signal() -> None:
    a, b = pair()
    got: list[int] = []
    signal.signal(signal.SIGURG, lambda number, _: got.append(number))
    fcntl.fcntl(b, fcntl.F_SETOWN, os.getpid())
    a.send(b"U", socket.MSG_OOB)
    end = time.monotonic() + SOON
    while not got and time.monotonic() < end:
        time.sleep(0.005)
    say(got == [signal.SIGURG], b.recv(1, socket.MSG_OOB))


@behaviour
def error_queue() -> None:
    a, b = pair()
    say(outcome(a.recvmsg, 10, 100, socket.MSG_ERRQUEUE), outcome(b.recvmsg, 10, 100, socket.MSG_ERRQUEUE))


@behaviour
def zero_copy() -> None:
    a, b = pair()
    say(outcome(a.setsockopt, socket.SOL_SOCKET, SO_ZEROCOPY, 1))
    for _ in range(2):
        say(a.send(b"z" * 10000, MSG_ZEROCOPY), exactly(b, 10000) == b"z" * 10000)
    ends = []
    while len(ends) < 2:
        polled(a, "ERR")
        _, control, flags, _ = a.recvmsg(10, 200, socket.MSG_ERRQUEUE)
        number, origin, _, code, _, first, last = struct.unpack_from("IBBBBII", control[0][2])
        say(number, origin, code, bool(flags & socket.MSG_ERRQUEUE))
        ends += range(first, last + 1)
    say(ends)


@behaviour
def zero_copy_unasked() -> None:
    a, b = pair()
    say(a.send(b"z" * 10000, MSG_ZEROCOPY), exactly(b, 10000) == b"z" * 10000)
    say(outcome(a.recvmsg, 10, 100, socket.MSG_ERRQUEUE))


@behaviour
def zero_copy_receive() -> None:
    """Pages that cannot be mapped are left to recv(), module or not: the sum counts."""
    a, b = pair()
    say(outcome(mmap.mmap, b.fileno(), 65536, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE))
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    area = libc.mmap(None, 65536, mmap.PROT_READ, mmap.MAP_SHARED, b.fileno(), 0)
    say(area != ctypes.c_void_p(-1).value)
    a.sendall(b"m" * 100000)
    got = 0
    while got < 100000:
        polled(b, "IN")
        asked = ctypes.create_string_buffer(struct.pack("=QIIIi", area, 65536, 0, 0, 0), 24)
        length = ctypes.c_int(24)
        assert not libc.getsockopt(
            b.fileno(), socket.IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, asked, ctypes.byref(length)
        )
        _, mapped, rest, _, _ = struct.unpack("=QIIIi", asked.raw)
        assert ctypes.string_at(area, mapped) == b"m" * mapped
        got += mapped + (len(b.recv(rest)) if rest else 0)
    say(got)
    libc.munmap(ctypes.c_void_p(area), 65536)


@behaviour
def strange_flags() -> None:
    a, b = pair()
    flags = socket.MSG_CMSG_CLOEXEC | socket.MSG_NOSIGNAL | socket.MSG_CONFIRM | socket.MSG_EOR
    say(a.send(b"flags", flags | socket.MSG_DONTROUTE), b.recvmsg(10, 100, socket.MSG_CMSG_CLOEXEC))
    say(outcome(a.sendmsg, [b"rights"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))]))


@behaviour
def unknown_control_message() -> None:
    a, b = pair()
    say(outcome(a.sendmsg, [b"x"], [(socket.SOL_SOCKET, 9999, b"1234")]))
    say(outcome(a.sendmsg, [b"y"], [(socket.SOL_IP, 9999, b"1234")]), exactly(b, 1))
