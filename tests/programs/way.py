"""The two ways between a server and a client, and the servers that several tests need."""

import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import disks
from rig.guest import Background, Guest
from tests import traffic

MIB = 1 << 20
WAYS = ("tcp", "ring")
LOAD = "modprobe xway; xway on"


def joined(*guests: Guest) -> None:
    """Wait until guests have a link."""
    for guest in guests:
        traffic.until(lambda guest=guest: traffic.linked(guest), f"link of {guest.name}")


@dataclass
class Way:
    """One of the two ways between a server in g1 and a client in g2, and what was seen of it."""

    name: str
    server: Guest
    client: Guest
    row: dict[str, str]

    @property
    def host(self) -> str:
        """Where the server listens."""
        return self.server.ip4

    def serve(self, command: str, port: int, seconds: float = 60) -> Background:
        """Start a server and wait until it listens."""
        running = self.server.start(command)
        traffic.until(lambda: self._listens(port, running), f"a listener on port {port}: {command}", seconds)
        return running

    def _listens(self, port: int, running: Background) -> bool:
        if self.server.run(f"ss -Hltn sport = :{port}").stdout.strip():
            return True
        if running.poll():
            raise AssertionError(f"{running.command}: status {running.poll()}\n{running.stderr()[-2000:]}")
        return False

    def get(self, command: str, timeout: float = 120) -> str:
        """Run a client and return its output."""
        return self.client.run(command, timeout=timeout, env={"LC_ALL": "C", "HOME": "/root"}).stdout.strip()

    @contextmanager
    def carries(self, least: int, reason: str = "") -> Iterator[None]:
        """See that at least so many bytes are carried meanwhile, nearly all of them by ring.

        Connections begin on TCP, so some bytes always go that way. With `reason`, fewer than `least` go by
        ring: the connections are left on TCP for this reason. In the way "tcp" the module is absent.
        """
        if self.name == "tcp":
            yield
            return
        before = [traffic.counters(guest) for guest in (self.server, self.client)]
        yield
        moved = [
            traffic.moved(was, traffic.counters(guest))
            for was, guest in zip(before, (self.server, self.client), strict=True)
        ]
        ring = sum(end["tx_ring_bytes"] for end in moved)
        tcp = sum(end["tx_tcp_bytes"] for end in moved)
        reasons = {reason for end in moved for reason in traffic.reasons(end)}
        assert not any(end["violations"] for end in moved), moved
        seen = f"ring {ring:,} bytes, TCP {tcp:,}, reasons {sorted(reasons)}"
        if reason:
            assert reason in reasons and ring < least, seen
            self.row["by"] = f"TCP ({reason})"
        else:
            assert ring and ring + tcp >= least and tcp < ring / 4 + 100_000, seen
            self.row["by"] = f"ring, {ring / (ring + tcp):.1%} of {ring + tcp:,} bytes"

    def _by_ring(self, guest: Guest) -> int:
        """Return the bytes of both directions that a guest had by ring: what it reads may be in its cache."""
        counters = traffic.counters(guest)
        return counters["tx_ring_bytes"] + counters["rx_ring_bytes"]

    def outlives_module(self, command: str) -> None:
        """Run a client again and again, while the module goes at both ends, and comes again with rings."""
        if self.name == "tcp":
            self.get(command)
            return
        running = self.client.start(f"until [ -e /tmp/t/enough ]; do {command} || exit 1; done")
        for guest in (self.client, self.server):
            traffic.unload(guest)
            guest.run(LOAD)
        joined(self.client, self.server)
        for guest in (self.client, self.server):
            traffic.until(lambda guest=guest: self._by_ring(guest) > MIB, f"rings of {guest.name}")
        self.client.write("/tmp/t/enough", "")
        assert running.wait(120).status == 0, running.stderr()

    def file(self, size: int, path: str = "/tmp/t/file", *, at_client: bool = False) -> str:
        """Make a file of random bytes, in the server's guest unless told, and return its checksum."""
        command = f"mkdir -p $(dirname {path}); head -c {size} /dev/urandom >{path}; sha256sum <{path}"
        return (self.client if at_client else self.server).run(command).stdout.split()[0]

    def talk(self, server: str, client: str, least: int, seconds: float = 60, timeout: float = 120) -> None:
        """Start a server on port 7001, seconds to listen, and see its client say "right"; see carries()."""
        self.serve(server, 7001, seconds)
        with self.carries(least):
            assert self.get(client, timeout) == "right"

    def agrees(self, outcome: str) -> None:
        """See that a suite ends alike both ways."""
        assert outcome == self.row.setdefault("outcome", outcome)

    def write(self, path: str, text: str) -> None:
        """Write a file in both guests."""
        for guest in (self.server, self.client):
            guest.write(path, text)

    def put(self, program: Path, path: str) -> None:
        """Put a program of this host into both guests."""
        for guest in (self.server, self.client):
            guest.put(program, path, mode=0o755)

    def put_tree(self, folder: Path, path: str) -> None:
        """Put what a folder of this host has into one of both guests."""
        archive = traffic.TOP / "build/tests/tree.tar"
        archive.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["tar", "cf", archive, "-C", folder, "."], check=True)
        for guest in (self.server, self.client):
            guest.put(archive, "/tmp/t/tree.tar")
            guest.run(f"mkdir -p {path}; tar xf /tmp/t/tree.tar -C {path}; rm /tmp/t/tree.tar")

    def checksum(self, command: str, timeout: float = 120) -> str:
        """Return the checksum of what a client prints."""
        return self.get(f"bash -o pipefail -c {shlex.quote(command + ' | sha256sum')}", timeout).split()[0]


def sshd(way: Way) -> str:
    way.serve("/usr/sbin/sshd -D -e -p 2222 -o PidFile=none -o UsePAM=no -o UseDNS=no", 2222)
    return "-o Port=2222"


def smbd(way: Way) -> None:
    way.serve(disks.export_smb(way.server, "/tmp/t/l", "/tmp/t/s"), 4450)


POSTGRESQL = "/usr/lib/postgresql/15"


def postgresql(way: Way, options: str = "") -> str:
    """Start a PostgreSQL server and return the words that tell its clients where it is."""
    programs, data = f"{POSTGRESQL}/bin", "/tmp/t/pg"
    way.server.run(
        f"install -d -o postgres -m 700 {data}; chmod a+rx /tmp/t;"
        f" runuser -u postgres -- {programs}/initdb -D {data} -N -A trust {options} >/dev/null;"
        f" echo 'host all all 0.0.0.0/0 trust' >>{data}/pg_hba.conf",
        timeout=300,
    )
    way.serve(
        f"runuser -u postgres -- {programs}/postgres -D {data} -c listen_addresses='*' -c port=7001"
        " -c shared_buffers=32MB -c fsync=off -c unix_socket_directories=/tmp",
        7001,
    )
    return f"-h {way.host} -p 7001 -U postgres"


def repository(way: Way) -> str:
    """Make a repository and return its commit."""
    return way.server.run(
        "cd /tmp/t; git init -q w; cd w; head -c 8M /dev/urandom >f; git add f;"
        " git -c user.name=t -c user.email=t@t commit -qm t; git clone -q --bare . ../repo.git;"
        " git rev-parse HEAD",
        env={"HOME": "/tmp/t"},
    ).stdout.strip()
