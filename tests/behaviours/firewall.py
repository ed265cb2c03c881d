"""What filters and translates packets on the way: nftables and conntrack; and ways between networks."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fallback import go_back

from tools import (
    CLONE_NEWNET,
    HOSTS,
    SOON,
    arrived,
    back_and_forth,
    behaviour,
    connect,
    echoes,
    exactly,
    fresh,
    keep,
    libc,
    listen,
    now,
    outcome,
    pair,
    passes,
    pattern,
    place,
    polled,
    say,
    with_ipv4,
)


@contextmanager
def rules(chain: str) -> Iterator[None]:
    """Have a chain of rules meanwhile."""
    text = f"table inet behaviours {{ chain one {{ {chain} }}; }}"
    subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)
    try:
        yield
    finally:
        subprocess.run(["nft", "delete", "table", "inet", "behaviours"], check=True)


@behaviour
def refused_by_a_firewall() -> None:
    for answer in ("tcp reset", "icmpx admin-prohibited", "icmpx host-unreachable"):
        listener = listen()
        port = listener.getsockname()[1]
        sock = fresh()
        with rules(f"type filter hook output priority 0; tcp dport {port} reject with {answer};"):
            say(outcome(sock.connect, place(listener)))
        sock.close()
        again = connect(listener)
        again.sendall(b"allowed")
        say(exactly(keep(listener.accept()[0]), 7))


@behaviour
def reset_by_a_firewall() -> None:
    """Bytes that TCP sends are answered by a reset."""
    listener = listen()
    a, b = connect(listener), keep(listener.accept()[0])
    a.sendall(b"through")
    say(exactly(b, 7))
    rule = f"type filter hook input priority 0; tcp sport {a.getsockname()[1]} reject with tcp reset;"
    with rules(rule):
        a.sendall(b"stopped")
        polled(a, "HUP")
    say(outcome(a.recv, 1), outcome(a.send, b"x"))


@behaviour
def both_connect() -> None:
    """The first packets are lost: each end asks the other before it is asked."""
    a, b = fresh(), fresh()
    for sock in (a, b):
        sock.bind((HOSTS[now.family], 0))
        sock.setblocking(False)
    ports = f"{a.getsockname()[1]}, {b.getsockname()[1]}"
    with rules(f"type filter hook input priority 0; tcp dport {{ {ports} }} drop;"):
        say(outcome(a.connect, b.getsockname()), outcome(b.connect, a.getsockname()))
    for sock in (a, b):
        polled(sock, "OUT")
        sock.setblocking(True)
    back_and_forth(a, b)
    a.close()
    say(b.recv(1))


@behaviour
def invalid_packets_are_dropped() -> None:
    """As most firewalls do; the connection's own packets stay valid, on the ring and back from it."""
    with rules("type filter hook input priority 0; ct state invalid drop; ct state established accept;"):
        a, b = pair()
        say(passes(a, b, pattern(1 << 20)), passes(b, a, pattern(1 << 20)))
        go_back(a, b)
        say(passes(a, b, pattern(1 << 20)), passes(b, a, pattern(1 << 20)))
        a.close()
        say(polled(b, "RDHUP"), b.recv(1))


@behaviour
def invalid_packets_are_dropped_over_unread_bytes() -> None:
    """What is unread is put behind what TCP has: its numbers are none of the firewall's."""
    with rules("type filter hook input priority 0; ct state invalid drop; ct state established accept;"):
        a, b = pair()
        a.sendall(pattern(10000))
        arrived(b, 10000)
        go_back(b, b)
        a.sendall(b"and on")
        say(exactly(b, 10000) == pattern(10000), exactly(b, 6), b.send(b"back"), exactly(a, 4))


@behaviour
@with_ipv4
def translated_source() -> None:
    """The listener sees another address than its client has."""
    listener = listen()
    port = listener.getsockname()[1]
    with rules(f"type nat hook postrouting priority 100; tcp dport {port} snat ip to 127.7.0.9;"):
        a = connect(listener)
        b = keep(listener.accept()[0])
        back_and_forth(a, b)
        say(b.getpeername()[0], a.getsockname() != b.getpeername())
        say(passes(a, b, pattern(1 << 20)))


def enter(address: str, ready: int, go: int) -> None:
    """Go into a network of our own, and send back there what comes."""
    libc.unshare(CLONE_NEWNET)
    os.write(ready, b"x")
    os.read(go, 1)
    passive = socket.create_server((address, 7), family=socket.AF_INET6).accept()[0]
    while data := passive.recv(65536):
        passive.sendall(data)
    passive.close()
    os.read(go, 1)  # a network's devices go with its last process


@behaviour
def two_networks() -> None:
    """The ends are in two network namespaces, as two containers are."""
    near, far = "fd77::7:11", "fd77::7:12"
    (ready, to_ready), (go, to_go) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.close(to_go)  # so that our end ends what waits for it
        try:
            enter(far, to_ready, go)
        finally:
            os._exit(0)
    try:
        meet(far, near, child, ready, to_go)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        for fd in (ready, to_ready, go, to_go):
            os.close(fd)
        say(os.waitpid(child, 0)[1])


def meet(far: str, near: str, child: int, ready: int, to_go: int) -> None:
    """Connect our network to the child's, and ourselves to the child."""
    os.read(ready, 1)
    device = "dev behaviours nodad"
    inside = f"ip link set lo up; ip addr add {far}/120 {device}; ip link set behaviours up"
    commands = [
        f"ip link add behaviours type veth peer name behaviours netns {child}",
        f"ip addr add {near}/120 {device}; ip link set behaviours up",
        f"nsenter -n -t {child} sh -c '{inside}'",
    ]
    subprocess.run(["sh", "-e", "-c", "\n".join(commands)], check=True)
    os.write(to_go, b"x")
    end = time.monotonic() + SOON
    while True:
        active = keep(socket.socket(socket.AF_INET6))
        if active.connect_ex((far, 7)) == 0:
            break
        assert time.monotonic() < end, "no connection"
        time.sleep(0.02)
    echoes(active, None)
    active.shutdown(socket.SHUT_WR)
    say("echoed", active.recv(1))
    subprocess.run(["ip", "link", "del", "behaviours"], check=True)
