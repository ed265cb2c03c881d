"""How connections begin and end, and who holds them."""

import ctypes
import errno
import os
import select
import signal
import socket
import struct
import subprocess
import threading
import time

from tools import (
    CLONE_NEWNET,
    HOSTS,
    NEVER,
    SOON,
    arrived,
    asleep,
    behaviour,
    c,
    connect,
    echoes,
    exactly,
    fill,
    fresh,
    in_a_child,
    keep,
    later,
    libc,
    listen,
    mask,
    names,
    now,
    outcome,
    pair,
    passes,
    pattern,
    place,
    polled,
    say,
    silent,
    state,
    to_end,
    warm,
    with_ipv4,
)

# linux/prctl.h, linux/seccomp.h
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
SENDTO = 44  # number of the call


@behaviour
def connect_without_blocking() -> None:
    listener = listen()
    a = fresh()
    a.setblocking(False)
    say(a.connect_ex(place(listener)) in (0, errno.EINPROGRESS), polled(a, "OUT"))
    say(a.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    b = keep(listener.accept()[0])
    a.setblocking(True)
    warm(a, b)
    say(outcome(a.connect, place(listener)), outcome(a.bind, ("127.0.0.1", 0)), outcome(a.listen))


@behaviour
def connect_refused() -> None:
    listener = listen()
    where = place(listener)
    listener.close()
    a = fresh()
    say(outcome(a.connect, where), names(mask(a)), outcome(a.send, b"x"), outcome(a.recv, 1))
    a.setblocking(False)
    say(a.connect_ex(where) in (errno.EINPROGRESS, errno.ECONNREFUSED))


@behaviour
def connected_to_itself() -> None:
    s = fresh()
    s.bind((HOSTS[now.family], 0))
    s.connect(s.getsockname())
    echoes(s, None)
    s.shutdown(socket.SHUT_WR)
    say(s.recv(1))


@behaviour
def not_connected() -> None:
    s = fresh()
    say(outcome(s.send, b"x"), outcome(s.recv, 1), outcome(s.shutdown, 1), outcome(s.getpeername))


@behaviour
def listener_closes_over_a_connection() -> None:
    listener = listen()
    a = connect(listener)
    a.sendall(b"nobody accepts")
    listener.close()
    say(polled(a, "ERR"), outcome(a.recv, 1), outcome(a.send, b"x"))


@behaviour
def data_before_accept() -> None:
    listener = listen()
    a = connect(listener)
    a.sendall(b"early" * 1000)
    b = keep(listener.accept()[0])
    say(exactly(b, 5000) == b"early" * 1000)
    warm(a, b)


@behaviour
def much_data_before_accept() -> None:
    listener = listen()
    a = connect(listener)
    count = fill(a)
    b = keep(listener.accept()[0])
    say(exactly(b, count) == b"f" * count)
    warm(a, b)


@behaviour
def end_before_accept() -> None:
    listener = listen()
    a = connect(listener)
    a.sendall(b"early")
    a.close()
    b = keep(listener.accept()[0])
    say(to_end(b))


@behaviour
def reset_before_accept() -> None:
    listener = listen()
    a = connect(listener)
    a.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    a.close()
    time.sleep(NEVER)
    b = keep(listener.accept()[0])
    say(outcome(b.recv, 1), outcome(b.recv, 1))


@behaviour
def shutdown_reading() -> None:
    a, b = pair()
    a.sendall(b"before")
    arrived(b, 6)
    b.shutdown(socket.SHUT_RD)
    say(names(mask(b)), b.recv(100), b.recv(100))
    a.sendall(b"after")
    time.sleep(NEVER)
    say(b.recv(100), outcome(b.send, b"back"), exactly(a, 4))


@behaviour
def shutdown_writing() -> None:
    a, b = pair()
    a.sendall(b"all")
    a.shutdown(socket.SHUT_WR)
    say(outcome(a.send, b"x"), to_end(b), b.recv(1))
    reply = pattern(100000)
    sender = threading.Thread(target=lambda: (b.sendall(reply), b.close()))
    sender.start()
    say(to_end(a) == reply)
    sender.join()


@behaviour
def shutdown_both() -> None:
    a, b = pair()
    a.sendall(b"all")
    a.shutdown(socket.SHUT_RDWR)
    say(outcome(a.recv, 1), outcome(a.send, b"x"), to_end(b), outcome(a.shutdown, socket.SHUT_RDWR))
    say(names(mask(a)))


@behaviour
def shutdown_both_and_the_peer_sends() -> None:
    """What comes after both halves are shut is answered by a reset; what came before can be read."""
    a, b = pair()
    a.sendall(b"before")
    arrived(b, 6)
    b.shutdown(socket.SHUT_RDWR)
    say(polled(a, "RDHUP"), a.recv(1), a.send(b"after"))
    say(polled(a, "ERR"), outcome(a.send, b"more"), outcome(a.send, b"more"))
    say(outcome(b.recv, 10), outcome(b.recv, 10), outcome(b.recv, 10))


@behaviour
def shutdown_of_one_half_after_the_other() -> None:
    a, b = pair()
    b.shutdown(socket.SHUT_WR)
    a.sendall(b"taken")
    say(exactly(b, 5))
    b.shutdown(socket.SHUT_RD)
    say(a.send(b"refused"), polled(a, "ERR"), outcome(a.send, b"more"))


@behaviour
def both_send_before_either_reads() -> None:
    """More than a ring holds, but not more than TCP takes."""
    a, b = pair()
    data = pattern(1 << 21)
    threads = [asleep(end.sendall, data)[0] for end in (a, b)]
    for thread in threads:
        thread.join(SOON)
    say([thread.is_alive() for thread in threads])
    say(exactly(a, len(data)) == data, exactly(b, len(data)) == data)
    warm(a, b)


@behaviour
def close_with_unread_bytes() -> None:
    a, b = pair()
    a.sendall(b"unread")
    arrived(b, 6)
    b.sendall(b"sent before")
    arrived(a, 11)
    b.close()
    polled(a, "ERR")
    say(outcome(a.recv, 100), outcome(a.recv, 100), outcome(a.send, b"x"), outcome(a.recv, 100))


@behaviour
def send_to_a_closed_peer() -> None:
    a, b = pair()
    b.close()
    polled(a, "RDHUP")
    say(a.recv(10), outcome(a.send, b"first"))
    polled(a, "ERR")
    say(outcome(a.send, b"second"), outcome(a.recv, 10))


@behaviour
def close_with_bytes_in_flight() -> None:
    a, b = pair()
    data = pattern(150000)
    a.sendall(data)
    a.close()
    time.sleep(0.05)
    say(to_end(b) == data)


@behaviour
def both_close_at_once() -> None:
    for _ in range(5):
        a, b = pair()
        ends = (a.getsockname()[1], b.getsockname()[1])
        a.sendall(b"1")
        exactly(b, 1)
        threads = [threading.Thread(target=end.close) for end in (a, b)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        say(*(state(*way, "gone", "TIME-WAIT") in ("gone", "TIME-WAIT") for way in (ends, ends[::-1])))


@behaviour
def peer_that_does_not_close() -> None:
    """Who closed waits as long as TCP_LINGER2 says; then it knows nothing of the connection."""
    a, b = pair()
    ends = (a.getsockname()[1], b.getsockname()[1])
    a.setsockopt(socket.IPPROTO_TCP, socket.TCP_LINGER2, 2)
    a.close()
    say(state(*ends, "FIN-WAIT-2"), b.recv(1), state(*ends, "gone"))
    say(b.send(b"x"), polled(b, "ERR"), outcome(b.recv, 1), outcome(b.send, b"x"))


@behaviour
def killed_by_ss() -> None:
    a, b = pair()
    port = a.getsockname()[1]
    command = ["ss", "-K", "-t", "-n", f"sport = :{port}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    say(polled(a, "ERR"), outcome(a.recv, 1), outcome(a.send, b"x"), outcome(b.recv, 1))


@behaviour
def disconnect_and_reconnect() -> None:
    listener = listen()
    a, b = pair(listener=listener)
    say(c("connect", a.fileno(), bytes(16), 16), outcome(b.recv, 1), outcome(a.send, b"x"))
    a.connect(place(listener))
    b = keep(listener.accept()[0])
    warm(a, b)
    a.sendall(b"again")
    say(exactly(b, 5))


@behaviour
def disconnect_under_a_reader() -> None:
    a, b = pair()
    reader, got = asleep(a.recv, 10)
    say(c("connect", a.fileno(), bytes(16), 16))
    reader.join(SOON)
    say(got, outcome(a.recv, 10), outcome(b.recv, 10))


@behaviour
def disconnect_under_a_writer() -> None:
    a, _ = pair()
    fill(a)
    writer, got = asleep(a.send, b"x" * 10)
    say(c("connect", a.fileno(), bytes(16), 16))
    writer.join(SOON)
    say(got, outcome(a.send, b"x"), a.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


@behaviour
def disconnect_and_listen() -> None:
    a, b = pair()
    say(c("connect", a.fileno(), bytes(16), 16), outcome(b.recv, 1))
    a.bind((HOSTS[now.family], 0))
    a.listen()
    active = connect(a)
    passive = keep(a.accept()[0])
    warm(active, passive)
    active.sendall(b"the other way round")
    say(exactly(passive, 19))


@behaviour
def killed_while_sending() -> None:
    """What was sent before arrives."""
    a, b = pair()
    part = pattern(1 << 16)
    child = os.fork()
    while not child:
        a.sendall(part)
    a.close()
    got = exactly(b, 2 * len(part))
    time.sleep(NEVER)
    os.kill(child, signal.SIGKILL)
    got += to_end(b)
    say(os.waitpid(child, 0)[1], got == (part * (len(got) // len(part) + 1))[: len(got)])


@behaviour
def file_descriptors() -> None:
    a, b = pair()
    copy = a.dup()
    a.close()
    copy.sendall(b"by the copy")
    say(exactly(b, 11))
    left, right = socket.socketpair()
    socket.send_fds(left, [b"x"], [copy.fileno()])
    copy.close()
    left.close()
    say(silent(b))
    _, fds, _, _ = socket.recv_fds(right, 1, 1)
    right.close()
    passed = keep(socket.socket(fileno=fds[0]))
    passed.sendall(b"passed on")
    say(exactly(b, 9))
    passed.close()
    say(b.recv(1))


@behaviour
def forked() -> None:
    a, b = pair()
    in_a_child(lambda: a.sendall(b"child"))
    a.sendall(b" and parent")
    say(exactly(b, 16))
    a.close()
    say(b.recv(1))


@behaviour
def away_from_its_network() -> None:
    """A process that has left the network namespace of its sockets."""
    a, b = pair()
    in_a_child(lambda: a.sendall(b"left %d" % libc.unshare(CLONE_NEWNET)))
    say(exactly(b, 6))


@behaviour
@with_ipv4
def network_of_its_own() -> None:
    """Both ends in another network namespace, whose addresses are none of the host's."""

    def echo() -> None:
        libc.unshare(CLONE_NEWNET)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        listener = listen()
        active = keep(socket.create_connection(listener.getsockname()))
        passive = keep(listener.accept()[0])
        echoes(active, passive)
        say("echoed")

    in_a_child(echo)


@behaviour
def listener_that_knows_mptcp() -> None:
    """As a server in Go has it, met by a client that knows only TCP."""
    listener = keep(socket.socket(now.family, socket.SOCK_STREAM, socket.IPPROTO_MPTCP))
    listener.bind((HOSTS[now.family], 0))
    listener.listen()
    active = connect(listener)
    active.sendall(b"before accept")
    passive = keep(listener.accept()[0])
    say(passive.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL) == socket.IPPROTO_TCP)
    say(exactly(passive, 13))
    echoes(active, passive)
    say(passes(active, passive, pattern(1 << 20)), passes(passive, active, pattern(1 << 20)))
    active.shutdown(socket.SHUT_WR)
    say(passive.recv(1))


@behaviour
def filtered_calls() -> None:
    """A process under seccomp, as in a container: one that may write, but not send."""
    a, b = pair()

    def send() -> None:
        # The call's number; is it that one? An error; allow.
        steps = (0x20, 0, 0, 0), (0x15, 0, 1, SENDTO), (6, 0, 0, 0x50000 | errno.EPERM), (6, 0, 0, 0x7FFF0000)
        code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps), 32)
        program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(code)), 16)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        say(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program))
        say(outcome(a.send, b"not allowed"))
        os.write(a.fileno(), b"filtered")

    in_a_child(send)
    say(exactly(b, 8))


@behaviour
def inherited() -> None:
    a, b = pair()
    program = subprocess.Popen(["cat"], stdin=b, stdout=b)
    b.close()
    data = pattern(200000)
    sender = threading.Thread(target=lambda: (a.sendall(data), a.shutdown(socket.SHUT_WR)))
    sender.start()
    say(to_end(a) == data, program.wait())
    sender.join()


@behaviour
def many_threads() -> None:
    a, b = pair()
    counts = [0] * 8
    record = 64

    def write(number: int) -> None:
        for _ in range(300):
            a.sendall(bytes([number]) * record)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    whole = True
    for _ in range(8 * 300):
        data = exactly(b, record)
        whole &= len(set(data)) == 1
        counts[data[0]] += 1
    for thread in threads:
        thread.join()
    say(whole, counts)


@behaviour
def many_readers() -> None:
    a, b = pair()
    total = [0] * 4

    def read(number: int) -> None:
        while part := b.recv(1000):
            total[number] += len(part)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        a.sendall(b"r" * 999)
    a.shutdown(socket.SHUT_WR)
    for thread in threads:
        thread.join()
    say(sum(total))


@behaviour
def ipv6() -> None:
    a, b = pair(socket.AF_INET6)
    a.sendall(b"six")
    say(exactly(b, 3), a.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == socket.AF_INET6)
    say(b.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY))


@behaviour
@with_ipv4
def mapped_address() -> None:
    listener = listen()
    host, port = place(listener)
    a = keep(socket.socket(socket.AF_INET6))
    a.connect((f"::ffff:{host}", port))
    b = keep(listener.accept()[0])
    warm(a, b)
    say(a.getpeername()[0] == f"::ffff:{host}", b.getpeername()[0])
    a.sendall(b"mapped")
    say(exactly(b, 6))
    say(outcome(a.setsockopt, socket.IPPROTO_IPV6, 1, socket.AF_INET))
    say(a.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == socket.AF_INET)
    a.sendall(b"and turned")
    say(exactly(b, 10))


class Aio:
    """Linux's own asynchronous input and output."""

    READ, WRITE, POLL = 0, 1, 5

    def __init__(self) -> None:
        self._context = ctypes.c_ulong(0)
        libc.syscall.restype = ctypes.c_long
        assert libc.syscall(206, 4, ctypes.byref(self._context)) == 0

    def __enter__(self) -> "Aio":
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        libc.syscall(207, self._context)

    def submit(self, sock: socket.socket, opcode: int, buffer: int, size: int = 0) -> None:
        """Hand in a request; it may wait for the socket."""
        block = ctypes.create_string_buffer(
            struct.pack("QIIHhIQQqQII", 7, 0, 0, opcode, 0, sock.fileno(), buffer, size, 0, 0, 0, 0)
        )
        table = (ctypes.c_void_p * 1)(ctypes.addressof(block))
        assert libc.syscall(209, self._context, ctypes.c_long(1), table) == 1

    def answer(self, seconds: float = SOON) -> int | None:
        """Return the next result; what io_uring has left to do may interrupt."""
        event = ctypes.create_string_buffer(32)
        limit = ctypes.create_string_buffer(struct.pack("qq", int(seconds), int(seconds % 1 * 1e9)))
        one = ctypes.c_long(1)
        while (got := libc.syscall(208, self._context, one, one, event, limit)) < 0:
            assert ctypes.get_errno() == errno.EINTR
        return int(struct.unpack("QQqq", event.raw)[2]) if got else None


@behaviour
def asynchronous_io() -> None:
    a, b = pair()
    text = ctypes.create_string_buffer(b"asynchronous", 12)
    room = ctypes.create_string_buffer(20)
    with Aio() as aio:
        aio.submit(a, Aio.WRITE, ctypes.addressof(text), 12)
        say(aio.answer())
        arrived(b, 12)
        aio.submit(b, Aio.READ, ctypes.addressof(room), 20)
        say(aio.answer(), room.raw[:12])
        later(0.1, a.sendall, b"awaited")
        aio.submit(b, Aio.READ, ctypes.addressof(room), 20)
        say(aio.answer(), room.raw[:7])


@behaviour
def asynchronous_poll() -> None:
    """What it tells beside what was asked for depends on who asks the socket in the end."""
    a, b = pair()
    asked = select.POLLIN | select.POLLRDHUP
    with Aio() as aio:
        aio.submit(b, Aio.POLL, asked)
        say(aio.answer(NEVER))
        a.sendall(b"x")
        say(names((aio.answer() or 0) & asked), b.recv(1))
        aio.submit(b, Aio.POLL, asked)
        later(0.05, a.shutdown, socket.SHUT_WR)
        say(names((aio.answer() or 0) & asked), b.recv(1))
