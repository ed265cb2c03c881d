"""io_uring: its system calls, and sockets used through it."""

import ctypes
import errno
import mmap
import os
import select
import socket
import struct
import time
from dataclasses import dataclass

from tools import (
    SOON,
    arrived,
    behaviour,
    connect,
    exactly,
    fresh,
    keep,
    libc,
    listen,
    outcome,
    pair,
    pattern,
    place,
    say,
    to_end,
    warm,
    with_ipv4,
)

# linux/io_uring.h
SETUP, ENTER, REGISTER = 425, 426, 427
REGISTER_PBUF_RING = 22
OFF_SQ_RING, OFF_CQ_RING, OFF_SQES = 0, 0x8000000, 0x10000000
ENTER_GETEVENTS, ENTER_SQ_WAKEUP, SETUP_SQPOLL = 1, 2, 2
POLL_ADD, SENDMSG, RECVMSG, ACCEPT, ASYNC_CANCEL = 6, 9, 10, 13, 14
LINK_TIMEOUT, CONNECT, SHUTDOWN = 15, 16, 34
POLL_FIRST = 1 << 0  # of send and receive
READ, WRITE, SEND, RECV, SPLICE, PROVIDE_BUFFERS, SEND_ZC, SENDMSG_ZC = 22, 23, 26, 27, 30, 31, 47, 48
LINK, ASYNC, BUFFER_SELECT = 1 << 2, 1 << 4, 1 << 5
MULTISHOT = {POLL_ADD: 0, RECV: 1 << 1, RECVMSG: 1 << 1, ACCEPT: 1 << 0}
CQE_BUFFER, CQE_MORE, CQE_SOCK_NONEMPTY, CQE_NOTIF = 1, 2, 4, 8
ENTRIES = 16


@dataclass
class Done:
    """A completion."""

    data: int
    result: int
    flags: int

    def __str__(self) -> str:
        """Return it for the transcript: whose it is, the result, and whether more will come."""
        result = errno.errorcode[-self.result] if self.result < 0 else self.result
        words = [f"{self.data}:", str(result)]
        words += [name for name, bit in (("more", CQE_MORE), ("notified", CQE_NOTIF)) if self.flags & bit]
        return " ".join(words)


class Uring:
    """A ring of requests and one of completions; flags: io_uring_params.flags."""

    def __init__(self, flags: int = 0) -> None:
        params = ctypes.create_string_buffer(120)
        struct.pack_into("I", params, 8, flags)
        self._wake = ENTER_SQ_WAKEUP if flags & SETUP_SQPOLL else 0
        self._fd = libc.syscall(SETUP, ENTRIES, params)
        assert self._fd >= 0, errno.errorcode[ctypes.get_errno()]
        fields = struct.unpack_from("10I", params, 40)  # sq_off
        self._sq_tail, self._sq_mask, self._array = fields[1], fields[2], fields[6]
        fields = struct.unpack_from("10I", params, 80)  # cq_off
        self._cq_head, self._cq_tail, self._cq_mask, self._cqes = fields[0], fields[1], fields[2], fields[5]
        self._sq = mmap.mmap(self._fd, self._array + 4 * ENTRIES, offset=OFF_SQ_RING)
        self._cq = mmap.mmap(self._fd, self._cqes + 16 * 2 * ENTRIES, offset=OFF_CQ_RING)
        self._sqes = mmap.mmap(self._fd, 64 * ENTRIES, offset=OFF_SQES)
        self._held: list[object] = []  # memory that the kernel may use
        self._asked = 0

    def __enter__(self) -> "Uring":
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it, and what it has not done."""
        for part in (self._sq, self._cq, self._sqes):  # each holds it
            part.close()
        os.close(self._fd)

    def ask(
        self,
        data: int,
        opcode: int,
        fd: int,
        memory: ctypes.Array | int = 0,
        length: int | None = None,
        *,
        flags: int = 0,
        priority: int = 0,
        offset: int = 0,
        op_flags: int = 0,
        group: int = 0,
        splice_from: int = 0,
    ) -> None:
        """Hand in a request; one that the next is linked to goes with that."""
        self._held.append(memory)
        address = memory if isinstance(memory, int) else ctypes.addressof(memory)
        if length is None:
            length = 0 if isinstance(memory, int) else ctypes.sizeof(memory)
        (tail,) = struct.unpack_from("I", self._sq, self._sq_tail)
        (mask,) = struct.unpack_from("I", self._sq, self._sq_mask)
        words = (opcode, flags, priority, fd, offset, address, length, op_flags, data, group, 0, splice_from)
        struct.pack_into("=BBHiQQIIQHHi16x", self._sqes, 64 * (tail & mask), *words)
        struct.pack_into("I", self._sq, self._array + 4 * (tail & mask), tail & mask)
        struct.pack_into("I", self._sq, self._sq_tail, tail + 1)
        self._asked += 1
        if flags & LINK:
            return
        done = libc.syscall(ENTER, self._fd, self._asked, 0, self._wake, None, 0)
        assert done == self._asked, errno.errorcode[ctypes.get_errno()]
        self._asked = 0

    def answers(self, count: int, seconds: float = SOON) -> list[Done]:
        """Return the next `count` completions, sorted by whose they are, or fewer if they do not come."""
        got: list[Done] = []
        end = time.monotonic() + seconds
        while len(got) < count:
            (head,) = struct.unpack_from("I", self._cq, self._cq_head)
            (tail,) = struct.unpack_from("I", self._cq, self._cq_tail)
            if head == tail:
                left = end - time.monotonic()
                if left <= 0:
                    break
                poll = select.poll()
                poll.register(self._fd, select.POLLIN)
                poll.poll(left * 1000)
                libc.syscall(ENTER, self._fd, 0, 0, ENTER_GETEVENTS, None, 0)
                continue
            (mask,) = struct.unpack_from("I", self._cq, self._cq_mask)
            got.append(Done(*struct.unpack_from("QiI", self._cq, self._cqes + 16 * (head & mask))))
            struct.pack_into("I", self._cq, self._cq_head, head + 1)
        return sorted(got, key=lambda done: done.data)

    def provide(self, group: int, count: int, size: int) -> ctypes.Array:
        """Give the kernel `count` buffers to choose from."""
        memory = ctypes.create_string_buffer(count * size)
        self.ask(0, PROVIDE_BUFFERS, count, memory, size, group=group)
        assert self.answers(1)[0].result >= 0
        return memory

    def share(self, group: int, count: int, size: int) -> ctypes.Array:
        """Give the kernel `count` buffers, a power of 2, in a ring of their own."""
        memory = ctypes.create_string_buffer(count * size)
        shared = mmap.mmap(-1, mmap.PAGESIZE)
        for number in range(count):
            address = ctypes.addressof(memory) + number * size
            struct.pack_into("QIH", shared, 16 * number, address, size, number)
        struct.pack_into("H", shared, 14, count)  # the ring's tail
        at = ctypes.addressof(ctypes.c_char.from_buffer(shared))
        asked = ctypes.create_string_buffer(struct.pack("QIHH24x", at, count, group, 0))
        assert libc.syscall(REGISTER, self._fd, REGISTER_PBUF_RING, asked, 1) == 0
        self._held += [memory, shared]
        return memory


def text(data: bytes) -> ctypes.Array:
    return ctypes.create_string_buffer(data, len(data))


def header(vector: ctypes.Array, count: int) -> ctypes.Array:
    """Return a struct msghdr."""
    return text(struct.pack("QIxxxxQQQQi4x", 0, 0, ctypes.addressof(vector), count, 0, 0, 0))


def tell(got: list[Done]) -> None:
    say(", ".join(map(str, got)))


def receive_what_is_sent(ring: Uring, a: socket.socket, b: socket.socket) -> ctypes.Array:
    """Ask for bytes before there are any, then send them; return where they came to."""
    memory = ctypes.create_string_buffer(100)
    ring.ask(1, RECV, b.fileno(), memory)
    tell(ring.answers(1, 0.1))
    ring.ask(2, SEND, a.fileno(), text(b"hello"))
    tell(ring.answers(2))
    say(memory.raw[:5])
    return memory


def receive_many(ring: Uring, sock: socket.socket) -> None:
    """Ask once for all that comes, into the buffers of group 7."""
    ring.ask(1, RECV, sock.fileno(), 0, 0, flags=BUFFER_SELECT, priority=MULTISHOT[RECV], group=7)


@behaviour
def uring_send_and_receive() -> None:
    a, b = pair()
    with Uring() as ring:
        memory = receive_what_is_sent(ring, a, b)
        ring.ask(3, WRITE, a.fileno(), text(b"written"))
        ring.ask(4, READ, b.fileno(), memory)
        tell(ring.answers(2))
        say(memory.raw[:7])


@behaviour
def uring_by_its_thread() -> None:
    """A thread of the kernel's takes the requests."""
    a, b = pair()
    with Uring(SETUP_SQPOLL) as ring:
        memory = receive_what_is_sent(ring, a, b)
        ring.ask(3, RECV, b.fileno(), memory)
        a.close()
        tell(ring.answers(1))


@behaviour
def uring_message() -> None:
    a, b = pair()
    with Uring() as ring:
        parts = [text(b"one "), text(b"and two")]
        vector = text(b"".join(struct.pack("QQ", ctypes.addressof(p), ctypes.sizeof(p)) for p in parts))
        ring.ask(1, SENDMSG, a.fileno(), header(vector, 2), 1)
        memory = ctypes.create_string_buffer(100)
        into = text(struct.pack("QQ", ctypes.addressof(memory), 100))
        tell(ring.answers(1))
        ring.ask(2, RECVMSG, b.fileno(), header(into, 1), 1)
        tell(ring.answers(1))
        say(memory.raw[:11])


@behaviour
def uring_much() -> None:
    """More than fits: what is left is sent as room comes, by the kernel."""
    a, b = pair()
    data = pattern(3 << 20)
    with Uring() as ring:
        ring.ask(1, SEND, a.fileno(), text(data), op_flags=socket.MSG_WAITALL)
        got = bytearray()
        while len(got) < len(data):
            got += b.recv(65536)
        tell(ring.answers(1))
        say(bytes(got) == data)


@behaviour
def uring_much_received() -> None:
    a, b = pair()
    data = pattern(2 << 20)
    with Uring() as ring:
        memory = ctypes.create_string_buffer(len(data))
        ring.ask(1, RECV, b.fileno(), memory, op_flags=socket.MSG_WAITALL)
        a.sendall(data)
        tell(ring.answers(1))
        say(memory.raw == data)


@behaviour
def uring_by_its_threads() -> None:
    a, b = pair()
    with Uring() as ring:
        memory = ctypes.create_string_buffer(100)
        ring.ask(1, RECV, b.fileno(), memory, flags=ASYNC)
        tell(ring.answers(1, 0.1))
        ring.ask(2, SEND, a.fileno(), text(b"threads"), flags=ASYNC)
        tell(ring.answers(2))
        say(memory.raw[:7])
        ring.ask(3, RECV, b.fileno(), memory, flags=ASYNC)
        time.sleep(0.05)
        a.shutdown(socket.SHUT_WR)
        tell(ring.answers(1))


@behaviour
def uring_provided_buffers() -> None:
    a, b = pair()
    with Uring() as ring:
        memory = ring.provide(7, 4, 16)
        for number in range(1, 6):
            ring.ask(number, RECV, b.fileno(), 0, 16, flags=BUFFER_SELECT, group=7)
            a.sendall(b"%d" % number * 10)
            tell(ring.answers(1))
        say(sorted(memory.raw[at : at + 10] for at in range(0, 64, 16)), b.recv(100))


@behaviour
def uring_shared_buffers() -> None:
    a, b = pair()
    with Uring() as ring:
        memory = ring.share(7, 4, 16)
        receive_many(ring, b)
        for number in range(1, 6):
            a.sendall(b"%d" % number * 10)
            tell(ring.answers(1))
        say(sorted(memory.raw[at : at + 10] for at in range(0, 64, 16)), b.recv(100))


@behaviour
def uring_multishot_message() -> None:
    a, b = pair()
    with Uring() as ring:
        memory = ring.provide(7, 4, 128)
        into = header(text(b""), 0)
        ring.ask(1, RECVMSG, b.fileno(), into, 1, flags=BUFFER_SELECT, priority=MULTISHOT[RECVMSG], group=7)
        for number in range(1, 4):
            a.sendall(b"%d" % number * 10)
            tell(ring.answers(1))
        # struct io_uring_recvmsg_out, then the bytes
        told = [memory.raw[at : at + 26] for at in range(0, 512, 128)]
        say(sorted((struct.unpack_from("4I", one), one[16:]) for one in told if any(one)))
        a.shutdown(socket.SHUT_WR)
        tell(ring.answers(1))


@behaviour
def uring_multishot_receive() -> None:
    a, b = pair()
    with Uring() as ring:
        ring.provide(7, 8, 64)
        receive_many(ring, b)
        for number in range(4):
            a.sendall(b"m" * (number + 1))
            tell(ring.answers(1))
        a.shutdown(socket.SHUT_WR)
        tell(ring.answers(1))


@behaviour
def uring_multishot_receive_without_buffers_left() -> None:
    a, b = pair()
    with Uring() as ring:
        ring.provide(7, 2, 64)
        receive_many(ring, b)
        for _ in range(2):
            a.sendall(b"m" * 64)
            tell(ring.answers(1))
        a.sendall(b"left")
        tell(ring.answers(1))
        say(b.recv(100))


@behaviour
def uring_multishot_and_it_moves_to_the_ring() -> None:
    """One request brings bytes by TCP and by ring."""
    listener = listen()
    a, b = connect(listener), keep(listener.accept()[0])
    with Uring() as ring:
        memory = ring.provide(7, 64, 64)
        receive_many(ring, b)
        for number in range(40):
            a.sendall(b"%02d" % number)
            (done,) = ring.answers(1)
            say(done, memory.raw[64 * (done.flags >> 16) :][: done.result])
    warm(a, b)


@behaviour
def uring_tells_that_more_waits() -> None:
    a, b = pair()
    a.sendall(b"12345678")
    arrived(b, 8)
    with Uring() as ring:
        for _ in range(2):
            ring.ask(1, RECV, b.fileno(), ctypes.create_string_buffer(4))
            (done,) = ring.answers(1)
            say(done.result, bool(done.flags & CQE_SOCK_NONEMPTY))


@behaviour
def uring_zero_copy_send() -> None:
    a, b = pair()
    with Uring() as ring:
        data = pattern(20000)
        ring.ask(1, SEND_ZC, a.fileno(), text(data))
        got = b.recv(len(data), socket.MSG_WAITALL)
        tell(sorted(ring.answers(2), key=lambda done: done.flags))
        say(got == data)


@behaviour
def uring_zero_copy_message() -> None:
    a, b = pair()
    with Uring() as ring:
        parts = [text(b"p" * 9000), text(b"q" * 9000)]
        vector = text(b"".join(struct.pack("QQ", ctypes.addressof(p), ctypes.sizeof(p)) for p in parts))
        ring.ask(1, SENDMSG_ZC, a.fileno(), header(vector, 2), 1)
        got = b.recv(18000, socket.MSG_WAITALL)
        tell(sorted(ring.answers(2), key=lambda done: done.flags))
        say(got == b"p" * 9000 + b"q" * 9000)


@behaviour
def uring_poll() -> None:
    a, b = pair()
    with Uring() as ring:
        ring.ask(1, POLL_ADD, b.fileno(), op_flags=select.POLLIN)
        tell(ring.answers(1, 0.1))
        a.sendall(b"x")
        tell(ring.answers(1))
        b.recv(1)
        ring.ask(2, POLL_ADD, b.fileno(), 0, 1, op_flags=select.POLLIN)  # multishot
        for _ in range(3):
            a.sendall(b"x")
            tell(ring.answers(1))
            b.recv(1)
        a.shutdown(socket.SHUT_WR)
        tell(ring.answers(1))


@behaviour
def uring_linked() -> None:
    a, b = pair()
    with Uring() as ring:
        memory = ctypes.create_string_buffer(8)
        ring.ask(1, RECV, b.fileno(), memory, 5, flags=LINK, op_flags=socket.MSG_WAITALL)
        ring.ask(2, SEND, b.fileno(), memory, 5)
        a.sendall(b"12")
        time.sleep(0.02)
        a.sendall(b"345")
        tell(ring.answers(2))
        say(a.recv(100))


@behaviour
def uring_cancelled() -> None:
    a, b = pair()
    with Uring() as ring:
        memory = ctypes.create_string_buffer(8)
        ring.ask(1, RECV, b.fileno(), memory)
        ring.ask(2, ASYNC_CANCEL, -1, 1)
        tell(ring.answers(2))
        a.sendall(b"kept")
        arrived(b, 4)
        say(b.recv(10))


@behaviour
def uring_only_for_a_time() -> None:
    a, b = pair()
    memory = ctypes.create_string_buffer(5)
    with Uring() as ring:
        for first, nanoseconds, sent in ((1, 50_000_000, b""), (3, 900_000_000, b"there")):
            a.sendall(sent)
            ring.ask(first, RECV, b.fileno(), memory, flags=LINK)
            ring.ask(first + 1, LINK_TIMEOUT, -1, text(struct.pack("qq", 0, nanoseconds)), 1)
            tell(ring.answers(2))
    say(memory.raw)


@behaviour
def uring_waits_before_it_tries() -> None:
    a, b = pair()
    memory = ctypes.create_string_buffer(5)
    with Uring() as ring:
        for sent_before in (True, False):
            if sent_before:
                a.sendall(b"there")
                arrived(b, 5)
            ring.ask(1, RECV, b.fileno(), memory, priority=POLL_FIRST)
            if not sent_before:
                tell(ring.answers(1, 0.1))
                ring.ask(2, SEND, a.fileno(), text(b"again"), priority=POLL_FIRST)
            tell(ring.answers(1 if sent_before else 2))
            say(memory.raw)


@behaviour
@with_ipv4
def uring_connect_and_shutdown() -> None:
    listener, a = listen(), fresh()
    host, port = place(listener)
    address = struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", port, socket.inet_aton(host))
    with Uring() as ring:
        ring.ask(1, CONNECT, a.fileno(), text(address), 0, offset=len(address))
        tell(ring.answers(1))
        b = keep(listener.accept()[0])
        warm(a, b)
        ring.ask(2, SHUTDOWN, a.fileno(), 0, socket.SHUT_WR)
        tell(ring.answers(1))
        say(b.recv(1), b.send(b"and on"), exactly(a, 6))


@behaviour
def uring_accept() -> None:
    listener = listen()
    with Uring() as ring:
        ring.ask(1, ACCEPT, listener.fileno(), priority=MULTISHOT[ACCEPT])
        for _ in range(2):
            active = connect(listener)
            (done,) = ring.answers(1)
            say(done.result >= 0, bool(done.flags & CQE_MORE))
            passive = keep(socket.socket(fileno=done.result))
            warm(active, passive)
            active.sendall(b"accepted")
            say(passive.recv(100))


@behaviour
def uring_splice() -> None:
    a, b = pair()
    out, into = os.pipe()
    with Uring() as ring:
        a.sendall(b"spliced")
        arrived(b, 7)
        ring.ask(1, SPLICE, into, (1 << 64) - 1, 100, offset=(1 << 64) - 1, splice_from=b.fileno())
        tell(ring.answers(1))
        say(os.read(out, 100))
    os.close(out)
    os.close(into)


@behaviour
def uring_closed_in_the_middle() -> None:
    a, b = pair()
    with Uring() as ring:
        ring.ask(1, RECV, b.fileno(), ctypes.create_string_buffer(8))
    time.sleep(0.05)  # its requests end in the background
    a.sendall(b"still here")
    say(outcome(b.recv, 100))
    a.close()
    say(to_end(b))
