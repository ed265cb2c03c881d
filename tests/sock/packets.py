#!/usr/bin/python3
"""Datagrams and streams between two ends of a network, with their content compared.

packets.py serve ADDRESS PORT           sends back what comes, until it is ended
packets.py check ADDRESS PORT [MIB]     sends, and compares what comes back; prints what it did
"""

import errno
import random
import socket
import sys
import threading
import time

SIZES = [1, 63, 64, 1000, 1472, 1473, 4000, 8192, 20000, 65000]
PATIENCE = 120  # seconds without an answer
TRIES = 5  # a datagram may be lost


def made(kind: int, address: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)


def echo_stream(end: socket.socket) -> None:
    with end:
        while content := end.recv(1 << 18):
            end.sendall(content)


def echo_streams(listener: socket.socket) -> None:
    while True:
        end, _ = listener.accept()
        threading.Thread(target=echo_stream, args=[end], daemon=True).start()


def bind(end: socket.socket, address: str, port: int) -> None:
    """Bind an end; an address of IPv6 may take a moment until it can be used."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return end.bind((address, port))
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL or time.monotonic() > until:
                raise
            time.sleep(0.1)


def serve(address: str, port: int) -> None:
    listener, datagrams = made(socket.SOCK_STREAM, address), made(socket.SOCK_DGRAM, address)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for end in (listener, datagrams):
        bind(end, address, port)
    listener.listen()
    threading.Thread(target=echo_streams, args=[listener], daemon=True).start()
    print("ready", flush=True)
    while True:
        content, sender = datagrams.recvfrom(65536)
        datagrams.sendto(content[::-1], sender)


def check_datagrams(address: str, port: int) -> int:
    again = 0
    with made(socket.SOCK_DGRAM, address) as end:
        end.connect((address, port))
        for size in SIZES * 2:
            content = random.randbytes(size)
            for last in [False] * (TRIES - 1) + [True]:
                end.settimeout(PATIENCE / TRIES)
                end.send(content)
                try:
                    assert end.recv(65536) == content[::-1], f"a datagram of {size} bytes came back wrong"
                    break
                except TimeoutError:
                    assert not last, f"a datagram of {size} bytes did not come back"
                    again += 1
    return again


def check_stream(address: str, port: int, mib: int) -> None:
    content = random.randbytes(mib << 20)
    with made(socket.SOCK_STREAM, address) as end:
        end.settimeout(PATIENCE)
        end.connect((address, port))
        writer = threading.Thread(target=end.sendall, args=[content], daemon=True)
        writer.start()
        found = bytearray()
        while len(found) < len(content):
            part = end.recv(1 << 18)
            assert part, f"the stream ended after {len(found)} bytes"
            assert part == content[len(found) : len(found) + len(part)], f"bytes differ after {len(found)}"
            found += part
        writer.join()


def main(words: list[str]) -> None:
    if words[0] == "serve":
        serve(words[1], int(words[2]))
    mib = int(words[3]) if len(words) > 3 else 4
    again = check_datagrams(words[1], int(words[2]))
    check_stream(words[1], int(words[2]), mib)
    print(f"{words[1]}: {2 * len(SIZES)} datagrams, of which {again} twice, and {mib} MiB both ways")


if __name__ == "__main__":
    main(sys.argv[1:])
