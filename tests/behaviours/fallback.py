"""Connections that fall back while somebody waits: each kind of waiting goes on."""

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
    off_ring,
    outcome,
    pair,
    passes,
    pattern,
    place,
    polled,
    say,
    silent,
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


def waits_and_goes_back(call: Callable[[socket.socket], Any]) -> None:
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
def a_reader_sleeps_and_it_goes_back() -> None:
    waits_and_goes_back(lambda sock: sock.recv(100))


@behaviour
def a_reader_sleeps_for_all_and_it_goes_back() -> None:
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
def a_poller_sleeps_and_it_goes_back() -> None:
    def by_poll(sock: socket.socket) -> tuple[str, bytes]:
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        ready = poll.poll(SOON * 1000)
        return names(ready[0][1]) if ready else "nothing", sock.recv(100)

    waits_and_goes_back(by_poll)


@behaviour
def a_selector_sleeps_and_it_goes_back() -> None:
    waits_and_goes_back(lambda sock: (len(select.select([sock], [], [], SOON)[0]), sock.recv(100)))


@behaviour
def epoll_sleeps_and_it_goes_back() -> None:
    """Level and edge, each entry made while the connection is on the ring."""
    for mode in (0, select.EPOLLET, select.EPOLLONESHOT):

        def by_epoll(sock: socket.socket, mode: int = mode) -> tuple[list[str], bytes]:
            with select.epoll() as epoll:
                epoll.register(sock, select.EPOLLIN | mode)
                ready = [names(bits) for _, bits in epoll.poll(SOON)]
                return ready, sock.recv(100)

        waits_and_goes_back(by_epoll)


@behaviour
def splice_sleeps_and_it_goes_back() -> None:
    def by_splice(sock: socket.socket) -> tuple[int, bytes]:
        out, into = os.pipe()
        got = os.splice(sock.fileno(), into, 100), os.read(out, 100)
        os.close(out)
        os.close(into)
        return got

    waits_and_goes_back(by_splice)


@behaviour
def signal_driven_and_it_goes_back() -> None:
    for a, b, back in pairs():
        with signalled(b):
            back()
            no_more_signals(NEVER)
            a.sendall(b"signal")
            say_signal()
            say(exactly(b, 6))


@behaviour
def a_writer_sleeps_and_it_goes_back() -> None:
    """What did not fit goes behind what did."""
    data = pattern(6 << 20)
    for a, b, back in pairs():
        writer, got = asleep(a.sendall, data)
        back()
        say(exactly(b, len(data)) == data)
        writer.join(SOON)
        say(got)


@behaviour
def a_poller_for_room_sleeps_and_it_goes_back() -> None:
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
def sendfile_sleeps_and_it_goes_back() -> None:
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
def uring_waits_and_it_goes_back() -> None:
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
def uring_polls_and_it_goes_back() -> None:
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
def uring_multishot_and_it_goes_back() -> None:
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
def uring_sends_and_it_goes_back() -> None:
    data = pattern(6 << 20)
    a, b = pair()
    with Uring() as ring:
        ring.ask(1, SEND, a.fileno(), text(data), op_flags=socket.MSG_WAITALL)
        go_back(b, b)
        say(exactly(b, len(data)) == data)
        tell(ring.answers(1))


@behaviour
def asynchronous_poll_and_it_goes_back() -> None:
    for a, b, back in pairs():
        with Aio() as aio:
            aio.submit(b, Aio.POLL, select.POLLIN)
            say(aio.answer(NEVER))
            back()
            say(aio.answer(NEVER))
            a.sendall(b"came")
            say((aio.answer() or 0) & select.POLLIN, exactly(b, 4))


@behaviour
def asynchronous_read_sleeps_and_it_goes_back() -> None:
    """What sleeps is io_submit(), which cannot be restarted."""

    def by_aio(sock: socket.socket) -> tuple[int | None, bytes]:
        room = ctypes.create_string_buffer(100)
        with Aio() as aio:
            aio.submit(sock, Aio.READ, ctypes.addressof(room), 100)
            return aio.answer(), room.raw[:4]

    waits_and_goes_back(by_aio)


@behaviour
def unread_bytes_and_it_goes_back() -> None:
    """What is unread stays in front, for every way to look at it."""
    a, b = pair()
    a.sendall(b"unread, ")
    arrived(b, 8)
    go_back(b, b)
    a.sendall(b"more")
    arrived(b, 12)
    say(b.recv(3, socket.MSG_PEEK), polled(b, "IN"), b.recv(100, socket.MSG_PEEK), b.recv(100))


@behaviour
def closed_after_it_went_back() -> None:
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
def two_threads_in_two_calls_and_it_goes_back() -> None:
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
