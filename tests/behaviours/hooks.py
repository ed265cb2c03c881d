"""Who else has a say in a socket: BPF programs of a cgroup, Landlock, translation of addresses."""

import ctypes
import errno
import os
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools import (
    SO_ATTACH_BPF,
    back_and_forth,
    behaviour,
    connect,
    exactly,
    fresh,
    in_a_child,
    keep,
    libc,
    listen,
    now,
    outcome,
    pair,
    passes,
    pattern,
    place,
    say,
    to_end,
    warm,
    with_ipv4,
)

# linux/bpf.h
BPF = 321
MAP_CREATE, MAP_LOOKUP_ELEM, MAP_UPDATE_ELEM, PROG_LOAD, PROG_ATTACH, PROG_DETACH = 0, 1, 2, 5, 8, 9
ARRAY, SOCKMAP = 2, 15
SOCKET_FILTER, CGROUP_SKB, SOCK_OPS, SOCK_ADDR, SOCKOPT = 1, 8, 13, 18, 25  # types of programs
EGRESS, ON_SOCK_OPS, CONNECT4, GETSOCKOPT, SETSOCKOPT = 1, 3, 10, 21, 22  # where they are attached
STATE_CHANGES = 4  # flag: call for changes of the state, too
OPERATIONS = 16

# linux/landlock.h, linux/netfilter_ipv4.h
LANDLOCK_CREATE, LANDLOCK_RESTRICT, LANDLOCK_CONNECT = 444, 446, 2
SO_ORIGINAL_DST = 80


def instruction(code: int, registers: int = 0, offset: int = 0, value: int = 0) -> bytes:
    """Return one of BPF's; registers: destination, and source times 16."""
    return struct.pack("BBhi", code, registers, offset, value)


def result(value: int) -> bytes:
    """Return the end of a program: exit with this value."""
    return instruction(0xB7, 0, 0, value) + instruction(0x95)


def bpf(command: int, attributes: bytes) -> int:
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    done = int(libc.syscall(BPF, command, buffer, 128))
    if done < 0:
        raise OSError(ctypes.get_errno(), "bpf")
    return done


def load(kind: int, program: bytes, where: int = 0) -> int:
    """Load a program to be attached there; return its descriptor."""
    code = ctypes.create_string_buffer(program, len(program))
    license = ctypes.create_string_buffer(b"GPL")
    attributes = struct.pack(
        "IIQQ", kind, len(program) // 8, ctypes.addressof(code), ctypes.addressof(license)
    )
    return bpf(PROG_LOAD, attributes + struct.pack("44xI", where))  # the latter: expected_attach_type


@contextmanager
def attached(kind: int, where: int, program: bytes) -> Iterator[None]:
    """Have a program see the sockets that this process makes, in a cgroup of its own."""
    loaded = load(kind, program, where)
    ours = Path("/sys/fs/cgroup" + Path("/proc/self/cgroup").read_text().strip().rpartition("::")[2])
    cgroup = Path("/sys/fs/cgroup/behaviours")
    cgroup.mkdir(exist_ok=True)
    (cgroup / "cgroup.procs").write_text(str(os.getpid()))
    folder = os.open(cgroup, os.O_RDONLY)
    bpf(PROG_ATTACH, struct.pack("III", folder, loaded, where))
    try:
        yield
    finally:
        bpf(PROG_DETACH, struct.pack("III", folder, loaded, where))
        (ours / "cgroup.procs").write_text(str(os.getpid()))
        os.close(folder)
        os.close(loaded)


@behaviour
@with_ipv4
def cgroup_forbids_connect() -> None:
    listener = listen()
    with attached(SOCK_ADDR, CONNECT4, result(0)):
        a = fresh()
        say(outcome(a.connect, place(listener)))
    a.connect(place(listener))
    warm(a, keep(listener.accept()[0]))


@behaviour
@with_ipv4
def cgroup_turns_connect_elsewhere() -> None:
    """As a proxy of services does: another port than the program asked for."""
    listener = listen()
    host, port = place(listener)
    elsewhere = instruction(0xB7, 2, 0, socket.htons(port)) + instruction(0x63, 0x21, 24)  # user_port
    with attached(SOCK_ADDR, CONNECT4, elsewhere + result(1)):
        a = fresh()
        say(outcome(a.connect, (host, 7)))
    say(a.getpeername() == (host, port))
    warm(a, keep(listener.accept()[0]))


@behaviour
def cgroup_lets_packets_pass() -> None:
    with attached(CGROUP_SKB, EGRESS, result(1)):
        a, b = pair()
        a.sendall(b"passed")
        say(exactly(b, 6))


@behaviour
def filter_of_bpf() -> None:
    """A filter as bpf() loads it, which lets everything pass."""
    a, b = pair()
    loaded = load(SOCKET_FILTER, result(-1))
    say(outcome(b.setsockopt, socket.SOL_SOCKET, SO_ATTACH_BPF, loaded))
    a.sendall(b"passes")
    say(exactly(b, 6))
    os.close(loaded)


@behaviour
def cgroup_forbids_options() -> None:
    with attached(SOCKOPT, SETSOCKOPT, result(0)):
        a, _ = pair()
        say(outcome(a.setsockopt, socket.IPPROTO_TCP, socket.TCP_NODELAY, 1))
        say(a.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
    with attached(SOCKOPT, GETSOCKOPT, result(0)):
        say(outcome(a.getsockopt, socket.IPPROTO_TCP, socket.TCP_NODELAY))


@behaviour
def sock_ops() -> None:
    """A program told of a connection's establishing and of its states, as tuning daemons have."""
    calls = bpf(MAP_CREATE, struct.pack("IIII", ARRAY, 4, 8, OPERATIONS))
    count = (
        instruction(0xBF, 0x16)  # r6 = context
        + instruction(0x61, 0x12)  # r2 = op
        + instruction(0x63, 0x2A, -4)
        + instruction(0x18, 0x11, 0, calls)  # r1 = map
        + instruction(0)
        + instruction(0xBF, 0xA2)
        + instruction(0x07, 2, 0, -4)  # r2 = address of op
        + instruction(0x85, 0, 0, 1)  # bpf_map_lookup_elem
        + instruction(0x15, 0, 2, 0)
        + instruction(0xB7, 1, 0, 1)
        + instruction(0xDB, 0x10)  # add 1 there, atomically
        + instruction(0xBF, 0x61)
        + instruction(0xB7, 2, 0, STATE_CHANGES)
        + instruction(0x85, 0, 0, 59)  # bpf_sock_ops_cb_flags_set
        + result(1)
    )
    with attached(SOCK_OPS, ON_SOCK_OPS, count):
        a, b = pair()
        a.shutdown(socket.SHUT_WR)
        say(to_end(b))
        b.close()
        say(to_end(a))
        a.close()
    seen = []
    value = ctypes.create_string_buffer(8)
    for number in range(OPERATIONS):
        key = ctypes.create_string_buffer(struct.pack("I", number), 4)
        bpf(MAP_LOOKUP_ELEM, struct.pack("IxxxxQQ", calls, ctypes.addressof(key), ctypes.addressof(value)))
        seen.append(int.from_bytes(value.raw, "little"))
    # Established at either end, and the states. Others are asked for the time-outs of packets.
    say(seen[4], seen[5], seen[10])
    os.close(calls)


@behaviour
def sock_ops_puts_it_into_a_sockmap() -> None:
    """As proxies in the kernel do when a connection is established, at either end, taken or not."""
    sockets = bpf(MAP_CREATE, struct.pack("IIII", SOCKMAP, 4, 4, OPERATIONS))
    put = (
        instruction(0x61, 0x12)  # r2 = op
        + instruction(0x25, 2, 8, 5)
        + instruction(0xA5, 2, 7, 4)  # 4 or 5: established, the active or the passive end
        + instruction(0x63, 0x2A, -4)
        + instruction(0x18, 0x12, 0, sockets)  # r2 = map
        + instruction(0)
        + instruction(0xBF, 0xA3)
        + instruction(0x07, 3, 0, -4)  # r3 = address of op
        + instruction(0xB7, 4)
        + instruction(0x85, 0, 0, 53)  # bpf_sock_map_update
        + result(1)
    )
    with attached(SOCK_OPS, ON_SOCK_OPS, put):
        listener = listen()
        a = connect(listener)
        b = keep(listener.accept()[0])
        back_and_forth(a, b)
        say(passes(a, b, pattern(1_000_000)), passes(b, a, pattern(1_000_000)))
        a.shutdown(socket.SHUT_WR)
        say(to_end(b))
        b.close()
        say(to_end(a))
    os.close(sockets)


@behaviour
def put_into_a_sockmap_in_use() -> None:
    """Whether it is taken or not: see what differs."""
    sockets = bpf(MAP_CREATE, struct.pack("IIII", SOCKMAP, 4, 4, OPERATIONS))
    a, b = pair()
    for number, sock in enumerate((a, b)):
        key = ctypes.create_string_buffer(struct.pack("I", number), 4)
        value = ctypes.create_string_buffer(struct.pack("I", sock.fileno()), 4)
        addresses = ctypes.addressof(key), ctypes.addressof(value)
        taken = outcome(bpf, MAP_UPDATE_ELEM, struct.pack("IxxxxQQQ", sockets, *addresses, 0))
        assert taken == {"tcp": 0, "ring": "ENOTSUP"}.get(now.way, taken), taken
        back_and_forth(a, b)
    say(passes(a, b, pattern(1_000_000)), passes(b, a, pattern(1_000_000)))
    a.close()
    say(to_end(b))
    os.close(sockets)


@behaviour
def landlocked() -> None:
    """A process that has forbidden itself to connect, where the kernel can."""
    a, b = pair()
    listener = listen()

    def restrict() -> None:
        attributes = ctypes.create_string_buffer(struct.pack("QQ", 0, LANDLOCK_CONNECT), 16)
        rules = libc.syscall(LANDLOCK_CREATE, attributes, 16, 0)
        say(rules >= 0 or errno.errorcode[ctypes.get_errno()])
        if rules >= 0:
            libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
            say(libc.syscall(LANDLOCK_RESTRICT, rules, 0))
            say(outcome(fresh().connect, place(listener)))
        a.sendall(b"before")

    in_a_child(restrict)
    say(exactly(b, 6))


@behaviour
@with_ipv4
def original_destination() -> None:
    """Asked by a proxy to which connections are turned, and of one that was not."""
    listener = keep(socket.create_server(("", 0)))
    port = listener.getsockname()[1]
    host = place(listen())[0]
    turn = f"chain out {{ type nat hook output priority -101; tcp dport 7 redirect to :{port}; }};"
    subprocess.run(["nft", "-f", "-"], input=f"table ip behaviours {{ {turn} }}", text=True, check=True)

    def asked(b: socket.socket) -> tuple[str, int]:
        answer = b.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16)
        return socket.inet_ntoa(answer[4:8]), int.from_bytes(answer[2:4], "big")

    try:
        a = keep(socket.create_connection((host, 7)))
        b = keep(listener.accept()[0])
        back_and_forth(a, b)
        say(asked(b) == (host, 7))
        a, b = pair()
        say(asked(b) == a.getpeername())
    finally:
        subprocess.run(["nft", "delete", "table", "ip", "behaviours"], check=True)
