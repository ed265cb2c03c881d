"""Connections that change between TCP and ring while somebody waits or bytes are unread."""

import ctypes
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from life import Aio
from options import attach_filter
from uring import POLL_ADD, RECV, SEND, Uring, receive_many, tell, text
from waiting import no_more_signals, say_signal, signalled

from tools import (
    NEVER,
    SO_PEEK_OFF,
    SOON,
    arrived,
    asleep,
    back_and_forth,
    behaviour,
    connect,
    exactly,
    fill,
    fresh,
    keep,
    listen,
    names,
    now,
    off_ring,
    outcome,
    pair,
    passes,
    pattern,
    place,
    polled,
    queued,
    say,
    silent,
    states,
    unheard,
)


def go_back(sock: socket.socket, passive: socket.socket) -> None:
    """Set what makes a connection fall back, and nothing else, and wait until both ends send by TCP."""
    attach_filter(sock, 0xFFFFFFFF)
    off_ring(passive)


def pairs() -> Iterator[tuple[socket.socket, socket.socket, Callable[[], None]]]:
    """Return two connections, and what makes each fall back: by the active end, then by the other."""
    for active in (True, False):
        a, b = pair()
        yield a, b, partial(go_back, a if active else b, b)


def waits_and_falls_back(call: Callable[[socket.socket], Any]) -> None:
    """Tell what a call returns that waits at the passive end while either end falls back."""
    for a, b, back in pairs():
        thread, got = asleep(call, b)
        back()
        say("still waiting", thread.is_alive())
        a.sendall(b"came")
        thread.join(SOON)
        say(got)
        a.sendall(b"and on")
        say(exactly(b, 6))


@behaviour
def a_reader_sleeps_and_it_falls_back() -> None:
    waits_and_falls_back(lambda sock: sock.recv(100))


@behaviour
def a_reader_sleeps_for_all_and_it_falls_back() -> None:
    """Part by ring, part by TCP."""
    for a, b, back in pairs():
        a.sendall(b"by ring, ")
        arrived(b, 9)
        thread, got = asleep(b.recv, 15, socket.MSG_WAITALL)
        back()
        a.sendall(b"by TCP")
        thread.join(SOON)
        say(got)


@behaviour
def a_poller_sleeps_and_it_falls_back() -> None:
    def by_poll(sock: socket.socket) -> tuple[str, bytes]:
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        ready = poll.poll(SOON * 1000)
        return names(ready[0][1]) if ready else "nothing", sock.recv(100)

    waits_and_falls_back(by_poll)


@behaviour
def a_selector_sleeps_and_it_falls_back() -> None:
    waits_and_falls_back(lambda sock: (len(select.select([sock], [], [], SOON)[0]), sock.recv(100)))


@behaviour
def epoll_sleeps_and_it_falls_back() -> None:
    """Level and edge, each entry made while the connection is on the ring."""
    for mode in (0, select.EPOLLET, select.EPOLLONESHOT):

        def by_epoll(sock: socket.socket, mode: int = mode) -> tuple[list[str], bytes]:
            with select.epoll() as epoll:
                epoll.register(sock, select.EPOLLIN | mode)
                ready = [names(bits) for _, bits in epoll.poll(SOON)]
                return ready, sock.recv(100)

        waits_and_falls_back(by_epoll)


@behaviour
def splice_sleeps_and_it_falls_back() -> None:
    def by_splice(sock: socket.socket) -> tuple[int, bytes]:
        out, into = os.pipe()
        got = os.splice(sock.fileno(), into, 100), os.read(out, 100)
        os.close(out)
        os.close(into)
        return got

    waits_and_falls_back(by_splice)


@behaviour
def signal_driven_and_it_falls_back() -> None:
    for a, b, back in pairs():
        with signalled(b):
            back()
            no_more_signals(NEVER)
            a.sendall(b"signal")
            say_signal()
            say(exactly(b, 6))


@behaviour
def a_writer_sleeps_and_it_falls_back() -> None:
    """What did not fit goes behind what did."""
    data = pattern(6 << 20)
    for a, b, back in pairs():
        writer, got = asleep(a.sendall, data)
        back()
        say(exactly(b, len(data)) == data)
        writer.join(SOON)
        say(got)


@behaviour
def a_poller_for_room_sleeps_and_it_falls_back() -> None:
    for a, b, back in pairs():
        sent = fill(a)
        poll = select.poll()
        poll.register(a, select.POLLOUT)
        thread, got = asleep(poll.poll, SOON * 1000)
        back()
        exactly(b, sent)
        thread.join(SOON)
        say([names(bits) for _, bits in got[0]], a.send(b"room"), exactly(b, 4))


@behaviour
def sendfile_sleeps_and_it_falls_back() -> None:
    data = pattern(6 << 20)
    a, b = pair()
    file = os.memfd_create("sent")
    os.write(file, data)

    def send() -> int:
        done = 0
        while done < len(data):
            done += os.sendfile(a.fileno(), file, done, len(data) - done)
        return done

    sender, got = asleep(send)
    go_back(a, b)
    say(exactly(b, len(data)) == data)
    sender.join(SOON)
    say(got)
    os.close(file)


@behaviour
def uring_waits_and_it_falls_back() -> None:
    """A request that was made on the ring is answered by TCP."""
    for a, b, back in pairs():
        with Uring() as ring:
            memory = ctypes.create_string_buffer(100)
            ring.ask(1, RECV, b.fileno(), memory)
            tell(ring.answers(1, NEVER))
            back()
            tell(ring.answers(1, NEVER))
            a.sendall(b"came")
            tell(ring.answers(1))
            say(memory.raw[:4])


@behaviour
def uring_polls_and_it_falls_back() -> None:
    for a, b, back in pairs():
        with Uring() as ring:
            ring.ask(1, POLL_ADD, b.fileno(), op_flags=select.POLLIN)
            tell(ring.answers(1, NEVER))
            back()
            tell(ring.answers(1, NEVER))
            a.sendall(b"came")
            tell(ring.answers(1))
            say(exactly(b, 4))


@behaviour
def uring_multishot_and_it_falls_back() -> None:
    """One request brings bytes by ring and by TCP."""
    a, b = pair()
    with Uring() as ring:
        ring.provide(7, 8, 64)
        receive_many(ring, b)
        a.sendall(b"by ring")
        tell(ring.answers(1))
        go_back(b, b)
        a.sendall(b"and by TCP")
        tell(ring.answers(1))
        a.shutdown(socket.SHUT_WR)
        tell(ring.answers(1))


@behaviour
def uring_sends_and_it_falls_back() -> None:
    data = pattern(6 << 20)
    a, b = pair()
    with Uring() as ring:
        ring.ask(1, SEND, a.fileno(), text(data), op_flags=socket.MSG_WAITALL)
        go_back(b, b)
        say(exactly(b, len(data)) == data)
        tell(ring.answers(1))


@behaviour
def asynchronous_poll_and_it_falls_back() -> None:
    for a, b, back in pairs():
        with Aio() as aio:
            aio.submit(b, Aio.POLL, select.POLLIN)
            say(aio.answer(NEVER))
            back()
            say(aio.answer(NEVER))
            a.sendall(b"came")
            say((aio.answer() or 0) & select.POLLIN, exactly(b, 4))


@behaviour
def asynchronous_read_sleeps_and_it_falls_back() -> None:
    """What sleeps is io_submit(), which cannot be restarted."""

    def by_aio(sock: socket.socket) -> tuple[int | None, bytes]:
        room = ctypes.create_string_buffer(100)
        with Aio() as aio:
            aio.submit(sock, Aio.READ, ctypes.addressof(room), 100)
            return aio.answer(), room.raw[:4]

    waits_and_falls_back(by_aio)


@behaviour
def unread_bytes_and_it_falls_back() -> None:
    """What is unread stays in front, for every way to look at it."""
    a, b = pair()
    a.sendall(b"unread, ")
    arrived(b, 8)
    go_back(b, b)
    a.sendall(b"more")
    arrived(b, 12)
    say(b.recv(3, socket.MSG_PEEK), polled(b, "IN"), b.recv(100, socket.MSG_PEEK), b.recv(100))


@behaviour
def closed_after_it_fell_back() -> None:
    a, b = pair()
    a.sendall(b"the last")
    arrived(b, 8)
    go_back(a, b)
    a.close()
    say(b.recv(100), b.recv(100), outcome(b.recv, 1))


@behaviour
def peek_offset_over_unread_bytes() -> None:
    """The option returns a connection whose bytes are still in the ring."""
    a, b = pair()
    a.sendall(b"0123456789")
    arrived(b, 10)
    say(outcome(b.setsockopt, socket.SOL_SOCKET, SO_PEEK_OFF, 4))
    a.sendall(b"abc")
    arrived(b, 13)
    say(b.recv(3, socket.MSG_PEEK), b.recv(100, socket.MSG_PEEK), b.recv(2), b.recv(100))


@behaviour
def a_reader_waits_for_its_low_water_mark() -> None:
    a, b = pair()
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 10)
    off_ring(b)
    thread, got = asleep(b.recv, 100)
    a.sendall(b"12345")
    time.sleep(NEVER)
    say(thread.is_alive())
    a.sendall(b"67890")
    thread.join(SOON)
    say(got)


@behaviour
def options_set_before_there_is_a_connection() -> None:
    """Those for which a connection leaves the ring, set on a socket that is not connected."""
    for option, value in ((socket.SO_RCVLOWAT, 10), (SO_PEEK_OFF, 2)):
        listener = listen()
        b = fresh()
        can = outcome(b.setsockopt, socket.SOL_SOCKET, option, value)
        say(can)
        if can is not None:  # Linux 6.1 has no SO_PEEK_OFF for TCP
            continue
        b.connect(place(listener))
        a = keep(listener.accept()[0])
        back_and_forth(b, a)
        a.sendall(b"12345")
        if option == socket.SO_RCVLOWAT:
            say(silent(b))
        a.sendall(b"67890")
        arrived(b, 10)
        say(b.recv(3, socket.MSG_PEEK), polled(b, "IN"), b.recv(100))


@behaviour
def filter_set_before_there_is_a_connection() -> None:
    listener = listen()
    attach_filter(listener, 0xFFFFFFFF)
    a = connect(listener)
    b = keep(listener.accept()[0])
    back_and_forth(a, b)
    a.sendall(b"passes")
    say(exactly(b, 6))


def both_open(passive: socket.socket, counted: int) -> None:
    """Have a fresh connection be worth a ring, by calls that leave its `counted` bytes, and wait for it."""
    end = time.monotonic() + SOON
    while True:
        for _ in range(8):
            assert len(passive.recv(counted, socket.MSG_PEEK)) == counted
        if now.way != "ring" or states(passive) == ["open"] * 2:
            return
        assert time.monotonic() < end, "the connection does not get a ring"
        time.sleep(0.01)


def over_a_switch() -> tuple[socket.socket, socket.socket]:
    """Return a connection with 8000 unread bytes at its passive end: 3000 by TCP, and then by ring."""
    listener = listen()
    a = connect(listener)
    b = keep(listener.accept()[0])
    a.sendall(pattern(8000)[:3000])
    arrived(b, 3000)
    both_open(b, 3000)
    a.sendall(pattern(8000)[3000:])
    arrived(b, 8000)
    return a, b


def one_call_each(b: socket.socket, count: int) -> None:
    """Tell how much each kind of call finds that takes nothing, and then one that takes all."""
    buffers = [bytearray(100), bytearray(count)]
    skip = socket.MSG_TRUNC | socket.MSG_PEEK | socket.MSG_DONTWAIT
    say(queued(b), len(b.recv(count, socket.MSG_PEEK)), len(b.recv(count + 100, socket.MSG_PEEK)))
    say(b.recv_into(buffers[1], 0, skip), len(b.recv(count - 1, socket.MSG_PEEK | socket.MSG_WAITALL)))
    say(b.recvmsg_into(buffers, 0, socket.MSG_PEEK)[0], len(b.recvmsg(count, 0, socket.MSG_PEEK)[0]))
    say(buffers[0] + buffers[1][: count - 100] == pattern(8000)[:count])


@behaviour
def one_call_reads_over_a_switch() -> None:
    """What FIONREAD counts comes by one call that does not wait, whichever it is."""

    def readv(b: socket.socket) -> int:
        return os.readv(b.fileno(), [bytearray(10), bytearray(20000)])

    def splice(b: socket.socket) -> tuple[int, bool]:
        out, into = os.pipe()
        got = os.splice(b.fileno(), into, 8000)
        same = os.read(out, 20000) == pattern(8000)
        os.close(out)
        os.close(into)
        return got, same

    def uring(b: socket.socket) -> tuple[str, bool]:
        room = ctypes.create_string_buffer(20000)
        with Uring() as ring:
            ring.ask(1, RECV, b.fileno(), room)
            return str(ring.answers(1)[0]), room.raw[:8000] == pattern(8000)

    def aio(b: socket.socket) -> tuple[int | None, bool]:
        room = ctypes.create_string_buffer(20000)
        with Aio() as asked:
            asked.submit(b, Aio.READ, ctypes.addressof(room), 20000)
            return asked.answer(), room.raw[:8000] == pattern(8000)

    takes: list[Callable[[socket.socket], Any]] = [
        lambda b: b.recv(8000, socket.MSG_DONTWAIT) == pattern(8000),
        lambda b: os.read(b.fileno(), 20000) == pattern(8000),
        readv,
        lambda b: b.recv_into(bytearray(9000), 0, socket.MSG_TRUNC | socket.MSG_DONTWAIT),
        lambda b: (len(b.recv(4000)), len(b.recv(4000))),
        splice,
        uring,
        aio,
    ]
    for take in takes:
        _, b = over_a_switch()
        one_call_each(b, 8000)
        say(take(b), queued(b), outcome(b.recv, 1, socket.MSG_DONTWAIT))


@behaviour
def one_call_reads_and_it_falls_back() -> None:
    """By TCP, by ring, and by TCP again."""
    for active in (True, False):
        a, b = over_a_switch()
        go_back(a if active else b, b)
        a.sendall(b"by TCP")
        arrived(b, 8006)
        one_call_each(b, 8000)
        say(b.recv(8006, socket.MSG_DONTWAIT) == pattern(8000) + b"by TCP", queued(b))


@behaviour
def a_gap_before_what_is_there() -> None:
    """Bytes behind others that were lost are not unread yet, as FIONREAD, poll() and each call say."""
    listener = listen()
    a = connect(listener)
    b = keep(listener.accept()[0])
    a.sendall(b"there" * 20)
    arrived(b, 100)
    with unheard(a):
        a.sendall(b"lost" * 10)
        both_open(b, 100)
        a.sendall(b"behind")
        time.sleep(NEVER)
        count = queued(b)
        say(count, len(b.recv(1000, socket.MSG_PEEK)), len(b.recv(count, socket.MSG_DONTWAIT)), queued(b))
        say(silent(b), outcome(b.recv, 1, socket.MSG_DONTWAIT))
    arrived(b, 46)
    say(b.recv(46, socket.MSG_DONTWAIT) == b"lost" * 10 + b"behind")


@behaviour
def a_reader_believes_fionread() -> None:
    """From the first byte on, half of the messages there before accept(): poll(), FIONREAD, one recv()."""
    sizes = [1, 1, 30, 1500, 5000, 17000, 40000]
    data = pattern(250_000)

    def send(sock: socket.socket, turn: int) -> None:
        at = 0
        while at < len(data):
            turn += 1
            at += sock.send(data[at : at + sizes[turn * 5 % 7]])
            if turn % 4 == 0:
                time.sleep(0.002)
        sock.shutdown(socket.SHUT_WR)

    def reads(sock: socket.socket) -> object:
        at = 0
        while True:
            polled(sock, "IN")
            count = queued(sock)
            part = sock.recv(count or 1, socket.MSG_DONTWAIT)
            if len(part) != count or part != data[at : at + count]:
                return f"FIONREAD {count}, read {len(part)} at {at}"
            if not count:
                return at
            at += count

    listener = listen()
    for turn in range(4):
        a = connect(listener)
        sender = asleep(send, a, turn)[0]
        if turn % 2:
            time.sleep(0.1)
        b = keep(listener.accept()[0])
        other = asleep(send, b, turn)[0]
        say(reads(b), reads(a))
        sender.join()
        other.join()


@behaviour
def sendfile_and_splice_into_a_full_socket() -> None:
    a, b = pair()
    a.setblocking(False)
    sent = fill(a)
    file = os.memfd_create("sent")
    os.write(file, b"x" * 100000)
    out, into = os.pipe()
    os.write(into, b"y" * 100)
    say(outcome(os.sendfile, a.fileno(), file, 0, 100000), outcome(os.splice, out, a.fileno(), 100))
    say(exactly(b, sent) == b"f" * sent)
    polled(a, "OUT")
    done = os.sendfile(a.fileno(), file, 0, 100000)
    say(0 < done <= 100000, exactly(b, done) == b"x" * done)
    polled(a, "OUT")
    say(os.splice(out, a.fileno(), 100), exactly(b, 100) == b"y" * 100)
    for fd in (file, out, into):
        os.close(fd)


@behaviour
def two_threads_in_two_calls_and_it_falls_back() -> None:
    """One end sends and receives at once while its connection falls back, and so does the other."""
    a, b = pair()
    data = pattern(4 << 20)
    right: list[bool] = []
    other = threading.Thread(target=lambda: right.append(passes(a, b, data)))
    other.start()
    back, gone = asleep(go_back, a, b)
    right.append(passes(b, a, data))
    other.join()
    back.join()
    say(right, gone, a.send(b"on"), exactly(b, 2))
