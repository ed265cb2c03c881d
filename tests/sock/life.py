#!/usr/bin/python3
"""Talk for ever between two guests, by connections and datagrams, and write down what was seen.

    life.py serve PORT                  send back what comes
    life.py talk HOST PORT FILE COUNT [ROUNDS]
                                        by so many connections, of at most so many rounds each (default 300);
                                        FILE is written again and again

FILE is JSON: rounds of each connection (the last number is that of the datagrams that came back), errors by
number, and what was wrong: bytes that are not those that were sent. A connection ends now and then, and at an
error, and the next one takes its place.
"""

import contextlib
import json
import os
import random
import socket
import sys
import threading
import time

MOST = 60_000  # bytes of a round
DATAGRAM = 1400


def echo(sock: socket.socket) -> None:
    """Send back what comes by a connection until its end."""
    with sock, contextlib.suppress(OSError):
        while data := sock.recv(65536):
            sock.sendall(data)


def serve(port: int) -> None:
    """Serve connections and datagrams."""
    listener = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=100)
    datagrams = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    datagrams.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    datagrams.bind(("", port))

    def back() -> None:
        while True:
            with contextlib.suppress(OSError):
                datagrams.sendto(*datagrams.recvfrom(2048))

    threading.Thread(target=back, daemon=True).start()
    while True:
        threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()


class Talk:
    """What talks."""

    def __init__(self, host: str, port: int, count: int, rounds: int) -> None:
        self._to, self._most = (host, port), rounds
        self.rounds = [0] * (count + 1)
        self.errors: dict[int, int] = {}
        self.wrong: list[str] = []
        threads = [threading.Thread(target=self._connections, args=(n,), daemon=True) for n in range(count)]
        for thread in [*threads, threading.Thread(target=self._datagrams, daemon=True)]:
            thread.start()

    def _connections(self, number: int) -> None:
        """Make one connection after another."""
        while True:
            try:
                with socket.create_connection(self._to) as sock:
                    for _ in range(random.randrange(self._most // 2, self._most)):
                        self._round(sock, number)
                        time.sleep(random.choice([0, 0, 0.001, 0.01, 0.1]))
            except OSError as error:
                # A peer that is not there yet refuses, or nothing answers.
                self.errors[error.errno or 0] = self.errors.get(error.errno or 0, 0) + 1
                time.sleep(0.2)

    def _round(self, sock: socket.socket, number: int) -> None:
        """Send bytes while others come back."""
        sent = os.urandom(random.choice([1, 64, 3000, random.randrange(1, MOST)]))
        sender = threading.Thread(target=self._send, args=(sock, sent))
        sender.start()
        got = bytearray()
        while len(got) < len(sent):
            part = sock.recv(len(sent) - len(got))
            if not part:
                break
            got += part
        sender.join()
        if got != sent[: len(got)]:
            self.wrong.append(f"connection {number}: {len(sent)} bytes, other ones came back")
        if len(got) < len(sent):
            raise ConnectionResetError(0, "the connection ended")
        self.rounds[number] += 1

    @staticmethod
    def _send(sock: socket.socket, data: bytes) -> None:
        with contextlib.suppress(OSError):  # who receives meets it, too
            sock.sendall(data)

    def _datagrams(self) -> None:
        """Send one after another, of which some may be lost."""
        sock = socket.socket(socket.AF_INET6 if ":" in self._to[0] else socket.AF_INET, socket.SOCK_DGRAM)
        sock.settimeout(1)
        number, known = 0, set()
        while True:
            number += 1
            sent = number.to_bytes(8, "big") + os.urandom(random.randrange(DATAGRAM))
            known.add(sent)
            with contextlib.suppress(OSError):
                sock.sendto(sent, self._to)
                got = sock.recv(2048)
                if got not in known:
                    self.wrong.append(f"a datagram of {len(got)} bytes was never sent")
                self.rounds[-1] += 1
                if got == sent:
                    known.clear()
            time.sleep(0.01)


def talk(host: str, port: int, path: str, count: int, rounds: int = 300) -> None:
    """Talk, and write down what is seen."""
    both = Talk(host, port, count, rounds)
    while True:
        seen = {"rounds": both.rounds, "errors": both.errors, "wrong": both.wrong}
        with open(f"{path}.new", "w") as file:
            json.dump(seen, file)
        os.rename(f"{path}.new", path)
        time.sleep(0.3)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        talk(sys.argv[2], int(sys.argv[3]), sys.argv[4], *map(int, sys.argv[5:]))
