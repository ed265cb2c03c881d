#!/usr/bin/python3
"""Datagrams and streams between two ends of a network, with their content compared.

packets.py serve ADDRESS PORT           sends back what comes, until it is ended
packets.py check ADDRESS PORT [MANY]    sends, and compares what comes back; prints what it did
                                        MANY: MiB of the stream (4), or a file: until that exists
"""

import errno
import os
import queue
import random
import socket
import sys
import threading
import time

SIZES = [1, 63, 64, 1000, 1472, 1473, 4000, 8192, 20000, 65000]
BLOCK = (1 << 20) - 7  # of a stream, repeated; no ring or page has a length of which it is a multiple
BLOCKS = 16  # that are on their way, or in the memory of who sends them back
PATIENCE = 120  # seconds without an answer
TRIES = 5  # a datagram may be lost


def made(kind: int, address: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)


def send_all(end: socket.socket, contents: "queue.SimpleQueue[bytes]") -> None:
    with end:
        while content := contents.get():
            end.sendall(content)


def echo_stream(end: socket.socket) -> None:
    """Send back what comes, and read all the while.

    Linux 6.12 and later can let two ends wait for ever if one does not read before it has written: of data
    that it has no memory for it takes the window, which is 0; the later window comes with an older number.
    A way that changes between two devices brings it about: packets of one take more memory than the other's.
    """
    contents: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=send_all, args=[end, contents], daemon=True).start()
    try:
        while content := end.recv(1 << 18):
            contents.put(content)
    finally:
        contents.put(b"")


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


def send_blocks(
    end: socket.socket, block: bytes, many: str, sent: list[int], free: threading.Semaphore
) -> None:
    while not os.path.exists(many) if many.startswith("/") else len(sent) * BLOCK < int(many) << 20:
        if not free.acquire(timeout=PATIENCE):
            break
        end.sendall(block)
        sent.append(BLOCK)
    end.shutdown(socket.SHUT_WR)


def check_stream(address: str, port: int, many: str) -> int:
    """Return how many bytes went both ways."""
    content = random.randbytes(BLOCK) * 2
    sent: list[int] = []
    with made(socket.SOCK_STREAM, address) as end:
        end.settimeout(PATIENCE)
        end.connect((address, port))
        free = threading.Semaphore(BLOCKS)
        words = [end, content[:BLOCK], many, sent, free]
        writer = threading.Thread(target=send_blocks, args=words, daemon=True)
        writer.start()
        done = back = 0
        while part := end.recv(1 << 18):
            assert part == content[done % BLOCK :][: len(part)], f"bytes differ after {done}"
            done += len(part)
            if done // BLOCK > back:
                free.release()  # a part is shorter than a block
                back += 1
        writer.join()
    assert done == sum(sent), f"the stream ended after {done} bytes of {sum(sent)}"
    return done


def main(words: list[str]) -> None:
    if words[0] == "serve":
        serve(words[1], int(words[2]))
    again = check_datagrams(words[1], int(words[2]))
    done = check_stream(words[1], int(words[2]), words[3] if len(words) > 3 else "4")
    print(f"{words[1]}: {2 * len(SIZES)} datagrams, of which {again} twice, and {done} bytes both ways")


if __name__ == "__main__":
    main(sys.argv[1:])
