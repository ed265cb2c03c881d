"""Waiting, and what ends it: poll, epoll, sleeping callers, signals."""

import array
import ctypes
import fcntl
import os
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tools import (
    F_SETSIG,
    FIOASYNC,
    NEVER,
    SO_BUSY_POLL,
    SOON,
    arrived,
    asleep,
    behaviour,
    c,
    connect,
    exactly,
    fill,
    fresh,
    in_a_child,
    keep,
    later,
    listen,
    mask,
    moving,
    names,
    outcome,
    pair,
    pattern,
    place,
    polled,
    say,
    silent,
    warm,
    with_ipv4,
)


@behaviour
def poll_states() -> None:
    a, b = pair()
    say("idle", names(mask(a)), names(mask(b)))
    a.sendall(b"data")
    say("data", polled(b, "IN"))
    b.recv(10)
    say("read", names(mask(b)))
    a.shutdown(socket.SHUT_WR)
    say("peer's end", polled(b, "RDHUP"), "own end", names(mask(a)))
    say("read", b.recv(10), names(mask(b)))
    b.shutdown(socket.SHUT_WR)
    say("both ends", polled(a, "HUP"), polled(b, "HUP"))
    say("fresh", names(mask(fresh())), "listener", names(mask(listen())))


def read_soon(sock: socket.socket, note: int) -> None:
    """Read again and again until a byte has come, and note it."""
    while not isinstance(got := outcome(sock.recv, 1), bytes):
        pass
    os.write(note, got)


@behaviour
def reading_as_connect_begins() -> None:
    """Who is in TCP's call already as connect() attaches the socket is woken by what a ring brings."""
    listener = listen()
    woken = 0
    for _ in range(20):
        a = fresh()
        notes, note = os.pipe()
        readers = []
        for _ in range(8):
            readers.append(os.fork())
            if not readers[-1]:
                read_soon(a, note)
                os._exit(0)
        os.close(note)
        time.sleep(0.01)
        a.connect(place(listener))
        b = keep(listener.accept()[0])
        for _ in range(8):
            a.sendall(b"w")
            b.recv(1)
        time.sleep(0.02)  # for a ring
        b.sendall(b"x" * len(readers))
        end = time.monotonic() + SOON
        got = b""
        while select.select([notes], [], [], max(end - time.monotonic(), 0))[0] and (
            noted := os.read(notes, 100)
        ):
            got += noted
        woken += len(got)
        os.close(notes)
        for reader in readers:
            os.kill(reader, signal.SIGKILL)
            os.waitpid(reader, 0)
        a.close()
        b.close()
    say(woken)


@behaviour
def busy_polling() -> None:
    """Readers that look for a while before they fall asleep."""
    a, b = pair()
    for sock in (a, b):
        sock.setsockopt(socket.SOL_SOCKET, SO_BUSY_POLL, 500)
    for size in range(1, 50):
        a.sendall(pattern(size))
        b.sendall(exactly(b, size))
        say(exactly(a, size) == pattern(size))
    thread, got = asleep(b.recv, 100)
    a.sendall(b"woken")
    thread.join()
    say(got)
    # One thread sleeps; another, still looking, reads the first of two messages: the sleeper gets the second.
    b.setsockopt(socket.SOL_SOCKET, SO_BUSY_POLL, 2_000_000)
    sleeper, slept = asleep(lambda: select.select([b], [], [], SOON) and b.recv(3))
    looker, first = asleep(b.recv, 3)
    a.sendall(b"onetwo")
    for thread in (sleeper, looker):
        thread.join()
    say(sorted(first + slept))
    b.setsockopt(socket.SOL_SOCKET, SO_BUSY_POLL, 500)
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 100_000))
    say(outcome(b.recv, 1))
    thread, got = asleep(a.recv, 1)
    b.close()
    thread.join()
    say(got)


@behaviour
def poll_full() -> None:
    a, b = pair()
    count = fill(a)
    say(names(mask(a)), silent(a, select.POLLOUT))
    say(len(exactly(b, count)) == count, polled(a, "OUT"))


@behaviour
def poll_reset() -> None:
    a, b = pair()
    a.sendall(b"unread")
    arrived(b, 6)
    b.close()
    say(polled(a, "ERR"), a.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), names(mask(a)))
    say(outcome(a.recv, 10), outcome(a.send, b"x"))


@behaviour
def select_wakes() -> None:
    a, b = pair()
    later(0.05, a.sendall, b"x")
    say([len(ready) for ready in select.select([a, b], [], [a, b], SOON)], b.recv(1))
    later(0.05, a.close)
    say([len(ready) for ready in select.select([b], [], [b], SOON)], b.recv(1))


@behaviour
def epoll_level() -> None:
    a, b = pair()
    epoll = select.epoll()
    epoll.register(b, select.EPOLLIN | select.EPOLLRDHUP)
    say(len(epoll.poll(0)))
    later(0.05, a.sendall, b"12")
    say([names(bits) for _, bits in epoll.poll(SOON)], len(epoll.poll(0)), b.recv(1), len(epoll.poll(0)))
    say(b.recv(1), len(epoll.poll(0)))
    a.shutdown(socket.SHUT_WR)
    polled(b, "RDHUP")
    say([names(bits) for _, bits in epoll.poll(SOON)])


@behaviour
def epoll_edge() -> None:
    a, b = pair()
    time.sleep(NEVER)  # for acknowledgements
    epoll = select.epoll()
    epoll.register(b, select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET)

    def events() -> list[str]:
        return [names(bits) for _, bits in epoll.poll(NEVER)]

    say("at first", events(), events())
    a.sendall(b"1")
    say("a byte", events(), events())
    a.sendall(b"2")
    events()  # TCP tells of every arrival; epoll(7) lets one event stand for several
    say(b.recv(1), "not all read", events())
    a.sendall(b"3")
    say("a third", events(), events())
    say(b.recv(10), "all read", events())
    a.sendall(b"4")
    say("a fourth", events(), b.recv(1), events())
    a.shutdown(socket.SHUT_WR)
    say("the end", events(), events())


@behaviour
def epoll_edge_and_it_moves_to_the_ring() -> None:
    """No arrival goes untold meanwhile."""
    edges: dict[int, select.epoll] = {}

    def step(one: socket.socket, other: socket.socket) -> str:
        epoll = edges.get(other.fileno())
        if not epoll:
            epoll = edges[other.fileno()] = select.epoll()
            epoll.register(other, select.EPOLLIN | select.EPOLLET)
        one.sendall(b"there")
        told = [names(bits) for _, bits in epoll.poll(SOON)]
        return f"{told} {exactly(other, 5)!r} {len(epoll.poll(0))}"

    say(moving(step))


@behaviour
def epoll_edge_writing() -> None:
    a, b = pair()
    time.sleep(NEVER)  # for acknowledgements
    epoll = select.epoll()
    epoll.register(a, select.EPOLLOUT | select.EPOLLET)
    say([names(bits) for _, bits in epoll.poll(NEVER)])
    count = fill(a)
    say([names(bits) for _, bits in epoll.poll(NEVER)])
    exactly(b, count)
    say([names(bits) for _, bits in epoll.poll(SOON)])


@behaviour
def epoll_once() -> None:
    a, b = pair()
    epoll = select.epoll()
    epoll.register(b, select.EPOLLIN | select.EPOLLONESHOT)
    a.sendall(b"1")
    say(len(epoll.poll(SOON)), len(epoll.poll(0)))
    a.sendall(b"2")
    say(len(epoll.poll(NEVER)))
    epoll.modify(b, select.EPOLLIN | select.EPOLLONESHOT)
    say(len(epoll.poll(SOON)), exactly(b, 2))


@behaviour
def epoll_in_epoll() -> None:
    a, b = pair()
    inner, outer = select.epoll(), select.epoll()
    inner.register(b, select.EPOLLIN)
    outer.register(inner.fileno(), select.EPOLLIN | select.EPOLLET)
    say(len(outer.poll(0)))
    later(0.05, a.sendall, b"x")
    say(len(outer.poll(SOON)), len(inner.poll(0)), b.recv(1), len(inner.poll(0)), len(outer.poll(0)))


@behaviour
def epoll_exclusive() -> None:
    """One of those who wait is woken, not all."""
    a, b = pair()
    epolls = [select.epoll() for _ in range(3)]
    for epoll in epolls:
        epoll.register(b, select.EPOLLIN | select.EPOLLEXCLUSIVE)
    for _ in range(2):
        waiting = [asleep(epoll.poll, 1.5) for epoll in epolls]
        time.sleep(0.2)  # until all of them do
        a.sendall(b"x")
        for thread, _ in waiting:
            thread.join(SOON)
        say(sum(len(got[0]) for _, got in waiting), b.recv(1))


@behaviour
def epoll_urgent() -> None:
    a, b = pair()
    epoll = select.epoll()
    epoll.register(b, select.EPOLLPRI)
    a.sendall(b"not urgent")
    say(len(epoll.poll(NEVER)))
    later(0.05, a.send, b"U", socket.MSG_OOB)
    say([names(bits) for _, bits in epoll.poll(SOON)])
    say(b.recv(1, socket.MSG_OOB), len(epoll.poll(0)))


@behaviour
def epoll_reset() -> None:
    """Nobody asked for it; it is told anyway."""
    a, b = pair()
    epoll = select.epoll()
    epoll.register(b, 0)
    a.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    later(0.05, a.close)
    say(len(epoll.poll(SOON)), names(sum(bits for _, bits in epoll.poll(NEVER))))
    say(outcome(b.recv, 1), [names(bits) for _, bits in epoll.poll(NEVER)])


IO_SIGNAL = signal.SIGRTMIN + 3


def no_more_signals(seconds: float = 0.02) -> None:
    """Take those that are there, until none comes for so long."""
    while signal.sigtimedwait([IO_SIGNAL], seconds):
        pass


@contextmanager
def signalled(sock: socket.socket) -> Iterator[None]:
    """Have IO_SIGNAL, which waits to be taken, for what happens to a socket meanwhile."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [IO_SIGNAL])
    fcntl.fcntl(sock, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(sock, F_SETSIG, IO_SIGNAL)
    fcntl.ioctl(sock, FIOASYNC, array.array("i", [1]))
    no_more_signals()
    yield
    fcntl.ioctl(sock, FIOASYNC, array.array("i", [0]))
    no_more_signals()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [IO_SIGNAL])


def say_signal() -> None:
    """Tell what the next signal is for."""
    got = signal.sigtimedwait([IO_SIGNAL], SOON)
    say(got is not None and (got.si_signo == IO_SIGNAL, got.si_code, names(got.si_band)))


@behaviour
def signal_driven() -> None:
    a, b = pair()
    time.sleep(NEVER)  # for acknowledgements
    with signalled(b):
        for _ in range(3):  # each arrival is told, whether the one before has been read or not
            a.sendall(b"x")
            say_signal()
        say(b.recv(3))
        a.close()
        say_signal()


@behaviour
def signal_driven_and_it_moves_to_the_ring() -> None:
    """No arrival goes untold meanwhile."""

    def step(one: socket.socket, other: socket.socket) -> bool:
        with signalled(other):
            one.sendall(b"there")
            told = signal.sigtimedwait([IO_SIGNAL], SOON) is not None
            return told and exactly(other, 5) == b"there"

    say(moving(step))


@behaviour
def signal_driven_by_default() -> None:
    """SIGIO, to a group of processes."""

    def group() -> None:
        os.setpgid(0, 0)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
        fcntl.fcntl(b, fcntl.F_SETOWN, -os.getpid())
        fcntl.ioctl(b, FIOASYNC, array.array("i", [1]))
        say(signal.sigtimedwait([signal.SIGIO], NEVER))
        a.sendall(b"x")
        got = signal.sigtimedwait([signal.SIGIO], SOON)
        say(got is not None and got.si_signo == signal.SIGIO, b.recv(1))

    a, b = pair()
    time.sleep(NEVER)  # for acknowledgements
    in_a_child(group)


@behaviour
def signal_driven_writing() -> None:
    a, b = pair()
    with signalled(a):
        count = fill(a)
        no_more_signals(0.1)
        say(len(exactly(b, count)) == count)
        say_signal()


@behaviour
@with_ipv4
def connect_interrupted() -> None:
    """The listener's queue is full; the call ends, the connection is made later."""
    listener = listen()
    listener.listen(0)
    first = connect(listener)
    a = fresh()
    host, port = place(listener)
    address = struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", port, socket.inet_aton(host))
    say(interrupted(False, lambda: c("connect", a.fileno(), address, 16)))
    say(names(mask(a)))
    warm(first, keep(listener.accept()[0]))
    say(polled(a, "OUT"), a.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    b = keep(listener.accept()[0])
    warm(a, b)
    say(c("connect", a.fileno(), address, 16))


@behaviour
def non_blocking() -> None:
    a, b = pair()
    b.setblocking(False)
    say(outcome(b.recv, 1))
    a.sendall(b"x")
    arrived(b, 1)
    say(outcome(b.recv, 1), outcome(b.recv, 1))
    a.setblocking(False)
    count = fill(a)
    say(outcome(a.send, b"x"), len(exactly(b, count)) == count)
    polled(a, "OUT")  # TCP's room comes by an acknowledgement
    say(outcome(a.send, b"x"))


@behaviour
def a_reader_sleeps() -> None:
    a, b = pair()
    for step in (lambda: a.sendall(b"wake"), lambda: a.shutdown(socket.SHUT_WR)):
        reader, got = asleep(b.recv, 10)
        step()
        reader.join(SOON)
        say(got)


@behaviour
def a_reader_sleeps_and_is_shut() -> None:
    _, b = pair()
    reader, got = asleep(b.recv, 10)
    b.shutdown(socket.SHUT_RD)
    reader.join(SOON)
    say(got)


@behaviour
def a_writer_sleeps() -> None:
    a, b = pair()
    fill(a)
    _, got = asleep(a.send, b"x" * 10)
    while not got:
        b.recv(65536, socket.MSG_DONTWAIT)
        time.sleep(0.01)
    say(got)


@behaviour
def a_writer_sleeps_and_the_peer_closes() -> None:
    a, b = pair()
    fill(a)
    writer, got = asleep(a.send, b"x" * 10)
    b.close()
    writer.join(SOON)
    # The last bytes may be taken, and are lost: then the error comes next.
    say(got[0] in ("ECONNRESET", 10), outcome(a.send, b"x") in ("EPIPE", "ECONNRESET"))


@behaviour
def a_writer_sleeps_and_is_shut() -> None:
    a, _ = pair()
    fill(a)
    writer, got = asleep(a.send, b"x" * 10)
    a.shutdown(socket.SHUT_WR)
    writer.join(SOON)
    say(got)


def interrupted(restart: bool, call: Callable[[], Any], after: float = 0.1) -> Any:
    """Return what a call returns during which a signal comes; a handler of it does nothing."""
    signal.signal(signal.SIGUSR1, lambda *_: None)
    signal.siginterrupt(signal.SIGUSR1, not restart)
    me = threading.get_ident()
    timer = later(after, signal.pthread_kill, me, signal.SIGUSR1)
    try:
        return call()
    finally:
        timer.join()


@behaviour
def signal_while_reading() -> None:
    a, b = pair()
    data = ctypes.create_string_buffer(10)
    say(interrupted(False, lambda: c("recv", b.fileno(), data, 10, 0)))
    later(0.3, a.sendall, b"late")
    say(interrupted(True, lambda: c("recv", b.fileno(), data, 10, 0)), data.raw[:4])
    a.sendall(b"part")
    arrived(b, 4)
    say(interrupted(True, lambda: c("recv", b.fileno(), data, 10, socket.MSG_WAITALL)), data.raw[:4])


@behaviour
def splice_limited_and_interrupted() -> None:
    _, b = pair()
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("qq", 0, 200_000))
    out, into = os.pipe()

    def splice() -> Any:
        return c("splice", b.fileno(), None, into, None, ctypes.c_size_t(9), 0)

    start = time.monotonic()
    say(splice(), 0.15 < time.monotonic() - start < 1)
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("qq", 0, 0))
    say(interrupted(False, splice))
    for fd in (out, into):
        os.close(fd)


@behaviour
def signal_and_time_out_while_reading() -> None:
    _, b = pair()
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("qq", 2, 0))
    data = ctypes.create_string_buffer(10)
    say(interrupted(True, lambda: c("recv", b.fileno(), data, 10, 0)))


@behaviour
def signal_while_writing() -> None:
    a, _ = pair()
    size = 64 << 20
    data = ctypes.create_string_buffer(size)
    sent = interrupted(False, lambda: c("send", a.fileno(), data, size, 0), 0.5)
    say(isinstance(sent, int) and 0 < sent < size)
    fill(a)
    say(interrupted(False, lambda: c("send", a.fileno(), data, size, 0)))


@behaviour
def broken_pipe_signal() -> None:
    a, _ = pair()
    got: list[int] = []
    signal.signal(signal.SIGPIPE, lambda number, _: got.append(number))
    a.shutdown(socket.SHUT_WR)
    say(outcome(a.send, b"x", socket.MSG_NOSIGNAL), len(got))
    say(outcome(a.send, b"x"), len(got), outcome(os.write, a.fileno(), b"x"), len(got))
    out, into = os.pipe()
    os.write(into, b"x")
    say(outcome(os.splice, out, a.fileno(), 1), len(got))
    for fd in (out, into):
        os.close(fd)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
