"""Applications as the distribution ships them, between the two guests."""

import csv
import itertools
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.pair import NETFRONT, SHARE, XWAY, Pair
from bench.results import CPU, DOM0_CPU, P99, RATE, Load, Metric, Results
from rig.errors import RigError
from rig.guest import Guest

SHOP = Path(__file__).with_name("shop")
FOLDER = "/tmp/bench"  # in tmpfs
POSTGRES_CONF = """listen_addresses = '*'
shared_buffers = 48MB
fsync = off
full_page_writes = off
autovacuum = off
jit = off
"""
ENOUGH = 100_000  # bytes, from which on the part that went by ring is asserted


class App(ABC):
    """A server in one guest and a client in the other."""

    name: str
    metrics: tuple[Metric, ...]
    mib = 0  # that a run copies, if it does
    way = XWAY  # what netfront is compared with
    ring_share = SHARE
    rounds = 3  # at most

    def __init__(self, pair: Pair, quick: bool) -> None:
        self.pair = pair
        self.quick = quick
        self.host = pair.server.ip4
        self.seconds = 1 if quick or pair.instructions else 2

    @abstractmethod
    def start(self, server: Guest, client: Guest) -> None:
        """Start the server and prepare what the client needs."""

    @abstractmethod
    def run(self, client: Guest) -> dict[str, float]:
        """Run the client once; return the figures by the metrics' names."""

    def counted(self) -> Any:
        """Return what was counted until now of the bytes and the way they went, for proof()."""
        return self.pair.bytes(), self.pair.fallbacks()

    def proof(self, way: str, before: Any) -> tuple[float | None, int]:
        """Return which part of how many bytes went the way of the measurement, and note a problem."""
        then, reasons = before
        client, server = (new.since(old) for new, old in zip(self.pair.bytes(), then, strict=True))
        ring = client.tx_ring + server.tx_ring
        whole = ring + client.tx_tcp + server.tx_tcp
        share = ring / whole if way == XWAY and whole else None
        if way == NETFRONT and client.ring + server.ring:
            self.pair.problem(f"{self.name}: rings carried bytes over netfront (g1 {client}, g2 {server})")
        if way == XWAY and (share is None or (share < self.ring_share and whole >= ENOUGH)):
            part = "nothing" if share is None else f"only {share:.1%}"
            now = self.pair.fallbacks()
            why = ", ".join(reason for reason, count in now.items() if count > reasons[reason])
            self.pair.problem(
                f"{self.name}: {part} of {whole} bytes went by ring"
                f" (reasons given: {why or 'none'}; g1 {client}, g2 {server})"
            )
        return share, whole

    def serve_file(self, server: Guest) -> None:
        """Make the file that the client copies, unless another application has."""
        www = f"{FOLDER}/www"
        server.run(
            f"[ -e {www}/file ] || {{ mkdir -p {www} && head -c {self.mib}M /dev/urandom >{www}/file; }}"
            f" && chmod -R a+rX {www}"
        )

    def client(self, words: list[str]) -> str:
        """Run a command of the client and return its output."""
        env = {"LC_ALL": "C", "HOME": "/root"}
        return self.pair.client.run(words, timeout=60, env=env).stdout

    def copied(self, words: list[str]) -> float:
        """Run a command of the client that copies `mib`; return Mbit/s."""
        self.pair.client.run(["rm", "-f", f"{FOLDER}/copy"])
        output = self.client(["xbench", "time", *words])
        return self.mib * 8.388608 / float(json.loads(output.splitlines()[-1])["seconds"])


def _find(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if not found:
        raise RigError(f"no {pattern!r} in what it printed:\n{text[-1000:]}")
    return found.group(1)


class Iperf(App):
    """iperf3: a stream of large writes."""

    name = "iperf3"
    metrics = (Metric("iperf3", "Mbit/s", True, "iperf3 -t 2, at the receiver"),)

    def start(self, server: Guest, client: Guest) -> None:
        """Start it."""
        server.run(["iperf3", "-s", "-D"])

    def run(self, client: Guest) -> dict[str, float]:
        """Run it."""
        output = json.loads(self.client(["iperf3", "-c", self.host, "-t", str(self.seconds), "-J"]))
        return {"iperf3": output["end"]["sum_received"]["bits_per_second"] / 1e6}


class Sockperf(App):
    """sockperf: ping-pong over TCP."""

    name = "sockperf"
    options: tuple[str, ...] = ("-p", "11111", "--tcp")
    metrics = (Metric("sockperf ping-pong", "µs one way", False, "sockperf ping-pong --tcp, 64 bytes"),)

    def start(self, server: Guest, client: Guest) -> None:
        """Start it."""
        server.start(["sockperf", "server", "-i", self.host, *self.options])

    def run(self, client: Guest) -> dict[str, float]:
        """Run it."""
        words = ["sockperf", "ping-pong", "-i", self.host, *self.options, "-m", "64"]
        output = self.client([*words, "-t", "2"])  # of 1 s it finds nothing valid
        return {self.metrics[0].name: float(_find(r"Latency is ([\d.]+) usec", output))}


class Scp(App):
    """scp: encrypted copying of a file."""

    name = "scp"
    mib = 8
    metrics = (
        Metric(
            "scp",
            "Mbit/s",
            True,
            "scp -q of 8 MiB, tmpfs to tmpfs, its key exchange included, the default cipher",
        ),
    )

    def start(self, server: Guest, client: Guest) -> None:
        """Make keys and start sshd."""
        config = f"""Port 2222
HostKey {FOLDER}/host_key
AuthorizedKeysFile {FOLDER}/authorized_keys
PidFile none
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
UseDNS no
Subsystem sftp internal-sftp
"""
        client.run(f"ssh-keygen -q -t ed25519 -N '' -f {FOLDER}/key")
        server.run(f"ssh-keygen -q -t ed25519 -N '' -f {FOLDER}/host_key")
        server.write(f"{FOLDER}/authorized_keys", client.read(f"{FOLDER}/key.pub"), mode=0o600)
        server.write(f"{FOLDER}/sshd_config", config)
        server.run(f"/usr/sbin/sshd -f {FOLDER}/sshd_config")
        client.run(f"head -c {self.mib}M /dev/urandom >{FOLDER}/file")

    def run(self, client: Guest) -> dict[str, float]:
        """Copy the file."""
        options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"]
        options.append(f"IdentityFile={FOLDER}/key")
        words = ["scp", "-q", "-P", "2222"]
        for option in options:
            words += ["-o", option]
        return {"scp": self.copied([*words, f"{FOLDER}/file", f"{self.host}:{FOLDER}/copy"])}


class Wget(App):
    """wget from nginx."""

    name = "wget"
    mib = 32
    copy = "/dev/null"
    metrics = (
        Metric(
            "wget from nginx", "Mbit/s", True, "wget -q of 32 MiB in tmpfs to /dev/null, its start included"
        ),
    )

    def start(self, server: Guest, client: Guest) -> None:
        """Start nginx."""
        config = f"""worker_processes 1;
pid {FOLDER}/nginx.pid;
error_log {FOLDER}/nginx.log;
events {{ }}
http {{
    sendfile on;  # this and the next as in Debian's own configuration
    tcp_nopush on;
    access_log off;
    server {{ listen 8080; root {FOLDER}/www; }}
}}
"""
        server.write(f"{FOLDER}/nginx.conf", config)
        self.serve_file(server)
        server.run(f"nginx -c {FOLDER}/nginx.conf")

    def run(self, client: Guest) -> dict[str, float]:
        """Fetch the file."""
        words = ["wget", "-q", "-O", self.copy, f"http://{self.host}:8080/file"]
        return {self.metrics[0].name: self.copied(words)}


class LargeWget(Wget):
    """wget from nginx, so much that its start does not count."""

    name = "wget, large"
    mib = 256
    copy = f"{FOLDER}/copy"
    metrics = (Metric("wget, 256 MiB", "Mbit/s", True, "wget -q of 256 MiB from nginx, tmpfs to tmpfs"),)


class Ftp(App):
    """curl from vsftpd."""

    name = "ftp"
    mib = LargeWget.mib
    metrics = (Metric("ftp, 256 MiB", "Mbit/s", True, "curl -s of 256 MiB from vsftpd, tmpfs to tmpfs"),)

    def start(self, server: Guest, client: Guest) -> None:
        """Start vsftpd."""
        server.put(
            server.debian.archive.unpacked("vsftpd") / "usr/sbin/vsftpd", f"{FOLDER}/vsftpd", mode=0o755
        )
        config = f"""listen=YES
listen_port=2121
anonymous_enable=YES
no_anon_password=YES
anon_root={FOLDER}/www
secure_chroot_dir={FOLDER}/empty
seccomp_sandbox=NO
ftp_username=daemon
"""
        server.write(f"{FOLDER}/vsftpd.conf", config)
        self.serve_file(server)
        server.run(f"mkdir -p {FOLDER}/empty")
        server.start([f"{FOLDER}/vsftpd", f"{FOLDER}/vsftpd.conf"])

    def run(self, client: Guest) -> dict[str, float]:
        """Fetch the file."""
        words = ["curl", "-sSf", "-o", LargeWget.copy, f"ftp://{self.host}:2121/file"]
        return {self.metrics[0].name: self.copied(words)}


class Rsync(App):
    """rsync from its daemon."""

    name = "rsync"
    mib = LargeWget.mib
    metrics = (
        Metric("rsync, 256 MiB", "Mbit/s", True, "rsync -W of 256 MiB from its daemon, tmpfs to tmpfs"),
    )

    def start(self, server: Guest, client: Guest) -> None:
        """Start the daemon."""
        self.serve_file(server)
        server.write(f"{FOLDER}/rsyncd.conf", f"use chroot = no\n[www]\npath = {FOLDER}/www\n")
        server.run(f"rsync --daemon --port 8730 --config {FOLDER}/rsyncd.conf")

    def run(self, client: Guest) -> dict[str, float]:
        """Fetch the file."""
        words = ["rsync", "-W", f"rsync://{self.host}:8730/www/file", LargeWget.copy]
        return {self.metrics[0].name: self.copied(words)}


class Redis(App):
    """redis-benchmark."""

    name = "redis"
    metrics = (
        Metric("redis SET", "requests/s", True, "redis-benchmark -c 8 -d 64"),
        Metric("redis GET", "requests/s", True, "redis-benchmark -c 8 -d 64"),
        Metric("redis LRANGE 100", "requests/s", True, "redis-benchmark -c 8 -d 64"),
    )

    def start(self, server: Guest, client: Guest) -> None:
        """Start redis."""
        options = "--save '' --appendonly no --bind 0.0.0.0 --protected-mode no --daemonize yes"
        server.run(f"redis-server {options} --dir {FOLDER}")

    def run(self, client: Guest) -> dict[str, float]:
        """Run it."""
        words = ["redis-benchmark", "-h", self.host, "-t", "set,get,lrange_100", "-c", "8", "-d", "64"]
        output = self.client([*words, "-n", "600" if self.quick else "1200", "--csv"])
        rates = {row[0]: float(row[1]) for row in csv.reader(output.splitlines()[1:])}
        lrange = next(rate for name, rate in rates.items() if name.startswith("LRANGE_100"))
        return {"redis SET": rates["SET"], "redis GET": rates["GET"], "redis LRANGE 100": lrange}


class Postgres(App):
    """A program that asks PostgreSQL."""

    def start(self, server: Guest, client: Guest) -> None:
        """Start PostgreSQL on a cluster in tmpfs, unless another application has."""
        data, programs = f"{FOLDER}/pg", "/usr/lib/postgresql/15/bin"
        server.write(f"{FOLDER}/postgresql.conf", POSTGRES_CONF)
        server.run(
            f"""set -e
            [ ! -e {data}/postmaster.pid ] || exit 0
            if [ -e /var/lib/postgresql/15/main/PG_VERSION ]
            then cp -a /var/lib/postgresql/15/main {data}
            else install -d -o postgres -m 700 {data}
                 runuser -u postgres -- {programs}/initdb -D {data} -N >/dev/null
            fi
            cp {FOLDER}/postgresql.conf {data}/
            printf 'local all all trust\\nhost all all 10.77.0.0/24 trust\\n' >{data}/pg_hba.conf
            : >{data}/pg_ident.conf
            chown -R postgres:postgres {data}
            cd /
            runuser -u postgres -- {programs}/pg_ctl -D {data} -l {data}/log -w -t 120 start >/dev/null""",
            timeout=120,
        )

    def beside(self, words: list[str], stdin: str = "") -> str:
        """Run a command in the server's guest as its user and return its output."""
        words = ["runuser", "-u", "postgres", "--", *words]
        return self.pair.server.run(words, stdin=stdin, timeout=120, cwd="/").stdout


class Pgbench(Postgres):
    """pgbench against PostgreSQL."""

    name = "pgbench"
    metrics: tuple[Metric, ...] = (
        Metric("pgbench", "transactions/s", True, "pgbench -c 1, scale 1, fsync off"),
        Metric("pgbench -S", "transactions/s", True, "pgbench -S -c 1, scale 1"),
    )

    def start(self, server: Guest, client: Guest) -> None:
        """Start PostgreSQL and fill the tables."""
        super().start(server, client)
        self.beside(["pgbench", "-q", "-i", "-I", "dtGp", "-s", "1", "postgres"])

    def run(self, client: Guest) -> dict[str, float]:
        """Run both kinds of transactions."""
        rates = {}
        for name, options in (("pgbench", []), ("pgbench -S", ["-S"])):
            words = ["pgbench", "-h", self.host, "-U", "postgres", "-n", *options]
            output = self.client([*words, "-c", "1", "-T", str(self.seconds), "postgres"])
            rates[name] = float(_find(r"tps = ([\d.]+)", output))
        return rates


def _loads(
    kind: str, who: str, how: str, levels: Sequence[int] = (1, 4, 16)
) -> dict[int, tuple[Metric, ...]]:
    """Return what is measured of transactions with so many clients at once."""
    figures = (
        (RATE, "transactions/s", how),
        (P99, "ms", "of < 100 the slowest"),
        (CPU, "ms/transaction", "of all domains"),
        (DOM0_CPU, "ms/transaction", "of domain 0"),
    )
    return {
        n: tuple(
            Metric(
                f"{kind}{'' if figure == RATE else f' {figure}'}, {n} {who}",
                unit,
                figure == RATE,
                told,
                Load(kind, n, figure),
            )
            for figure, unit, told in figures
        )
        for n in levels
    }


class Loaded(Postgres):
    """An application at several loads: rate, latency, and what a transaction costs the host."""

    loads: dict[int, tuple[Metric, ...]]

    @abstractmethod
    def load(self, clients: int, seconds: int) -> str:
        """Have so many clients run transactions and return their output."""

    @abstractmethod
    def figures(self, output: str) -> tuple[int, float, float]:
        """Return how many transactions there were, how many in a second, and the latency's p99 in ms."""

    def _cpu(self) -> list[float]:
        """Return seconds of CPU that domain 0 has used, and all domains."""
        used = [int(line) / 1e9 for line in self.pair.machine.dom0.run(["domcpu"]).stdout.split()]
        return [used[0], sum(used)]

    def run(self, client: Guest) -> dict[str, float]:
        """Run each load."""
        found: dict[str, float] = {}
        for clients, metrics in self.loads.items():
            before = self._cpu()
            output = self.load(clients, 2 if self.quick else 4)
            dom0, every = (now - then for now, then in zip(self._cpu(), before, strict=True))
            count, rate, p99 = self.figures(output)
            values = (rate, p99, every * 1000 / count, dom0 * 1000 / count)
            found |= {metric.name: value for metric, value in zip(metrics, values, strict=True)}
        return found


class Oltp(Loaded, Pgbench):
    """pgbench at several loads."""

    name = "pgbench at several loads"
    loads = _loads("pgbench -N", "clients", "pgbench -N -c")
    metrics = (*Pgbench.metrics, *itertools.chain(*zip(*loads.values(), strict=True)))

    def load(self, clients: int, seconds: int) -> str:
        """Run pgbench."""
        self.pair.client.run(f"rm -f {FOLDER}/log.*")
        words = ["pgbench", "-h", self.host, "-U", "postgres", "-n", "-N", "-c", str(clients)]
        return self.client([*words, "-T", str(seconds), "-l", f"--log-prefix={FOLDER}/log", "postgres"])

    def figures(self, output: str) -> tuple[int, float, float]:
        """Return those of pgbench, and of its log."""
        log = self.pair.client.run(f"cat {FOLDER}/log.*").stdout
        took = sorted(int(line.split()[2]) for line in log.splitlines())
        count = int(_find(r"actually processed: (\d+)", output))
        return count, float(_find(r"tps = ([\d.]+)", output)), took[len(took) * 99 // 100] / 1000

    def run(self, client: Guest) -> dict[str, float]:
        """Run the transactions of Pgbench, then each load."""
        return Pgbench.run(self, client) | Loaded.run(self, client)


class Shop(Loaded):
    """A web shop: wrk in domain 0, nginx and PHP in one guest, PostgreSQL in the other."""

    name = "shop"
    loads = _loads("shop", "users", "wrk -c, nginx and php-fpm, PostgreSQL; connections are kept")
    metrics = tuple(itertools.chain(*zip(*loads.values(), strict=True)))
    persistent = True  # connections to PostgreSQL

    def start(self, server: Guest, client: Guest) -> None:
        """Start PostgreSQL and nginx."""
        super().start(server, client)
        nginx = f"""user www-data;
worker_processes 1;
pid {FOLDER}/nginx.pid;
error_log {FOLDER}/nginx.log;
events {{ }}
http {{
    access_log off;
    server {{
        listen 8080;
        location / {{
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME {FOLDER}/shop$uri;
            fastcgi_pass unix:{FOLDER}/php.sock;
        }}
    }}
}}
"""
        client.write(f"{FOLDER}/nginx.conf", nginx)
        for path in SHOP.iterdir():
            client.put(path, f"{FOLDER}/shop/{path.name}")
        self.pair.machine.dom0.put(SHOP / "users.lua", f"{FOLDER}/users.lua")
        client.run(f"[ -e {FOLDER}/nginx.pid ] || nginx -c {FOLDER}/nginx.conf")

    def _ask(self, query: str) -> str:
        return self.beside(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "postgres"], query)

    def load(self, clients: int, seconds: int) -> str:
        """Run wrk and see that no answer was wrong."""
        # By the wall clock of an emulated machine a page takes long.
        seconds *= 1 if self.pair.instructions else 3
        words = ["wrk", "-t", "1", "-c", str(clients), "-d", str(seconds), "--timeout", "20"]
        words += ["-s", f"{FOLDER}/users.lua", f"http://{self.pair.client.ip4}:8080"]
        output = self.pair.machine.dom0.run(words, timeout=60).stdout
        told = json.loads(output.splitlines()[-1])
        if told["wrong"] or not told["bought"]:
            raise RigError(f"{told['wrong']} answers were wrong:\n{output}")
        self.bought += told["bought"]
        self.unheard += 3 * clients
        return output

    def figures(self, output: str) -> tuple[int, float, float]:
        """Return those of wrk."""
        told = json.loads(output.splitlines()[-1])
        return told["requests"], told["requests"] / told["seconds"], told["p99"]

    def run(self, client: Guest) -> dict[str, float]:
        """Fill the tables, start PHP, run each load, and see that what was bought is sold."""
        self._ask((SHOP / "tables.sql").read_text())
        self.bought = self.unheard = 0
        php = f"""[global]
pid = {FOLDER}/php.pid
error_log = {FOLDER}/php.log
[shop]
user = www-data
listen = {FOLDER}/php.sock
listen.owner = www-data
pm = static
pm.max_children = {max(self.loads)}
env[DATABASE] = {self.host}
env[PERSISTENT] = {int(self.persistent)}
"""
        client.write(f"{FOLDER}/php.conf", php)
        client.run(f"php-fpm8.2 -y {FOLDER}/php.conf")
        try:
            self.load(max(self.loads), 1 if self.pair.instructions else 2)  # each of PHP's processes connects
            found = super().run(client)
        finally:
            client.run(f"kill $(cat {FOLDER}/php.pid); while [ -e {FOLDER}/php.pid ]; do sleep 0.1; done")
        query = "SELECT sum(1000000 - stock), (SELECT sum(number) FROM sale) FROM product"
        gone, sold = map(int, self._ask(query).split("|"))
        # wrk does not wait for the last answers.
        if sold != gone or not self.bought <= sold <= self.bought + self.unheard:
            raise RigError(f"bought {self.bought}, sold {sold}, gone from stock {gone}")
        return found


class Visits(Shop):
    """The same shop with a connection to PostgreSQL for each page, as PHP has it unless told otherwise."""

    name = "shop-visits"
    loads = _loads("shop, connecting", "users", "as shop; each page connects", (4,))
    metrics = loads[4]
    persistent = False
    ring_share = 0.8  # connections begin on TCP, and these are short
    rounds = 1  # it takes as long as all but the shop together


APPS: tuple[type[App], ...] = (Iperf, Sockperf, Scp, Wget, Redis, Pgbench)
# With large files, which need programs and memory that the rig's guests do not have unless asked for.
FULL_APPS: dict[str, type[App]] = {
    "iperf3": Iperf,
    "sockperf": Sockperf,
    "scp": Scp,
    "wget": LargeWget,
    "ftp": Ftp,
    "rsync": Rsync,
    "redis": Redis,
    "pgbench": Oltp,
    "shop": Shop,
    "shop-visits": Visits,
}


def start(pair: Pair, kinds: Sequence[type[App]], quick: bool = False) -> list[App]:
    """Start the servers; an application whose server does not start is left out."""
    pair.both(lambda guest: guest.run(f"mkdir -p {FOLDER}; chmod 755 {FOLDER}"))
    started = []
    for kind in kinds:
        app = kind(pair, quick)
        try:
            app.start(pair.server, pair.client)
            started.append(app)
        except RigError as error:
            pair.problem(f"{kind.name} cannot be started: {error}")
    return started


def round(app: App, way: str, results: Results, run: Callable[[], dict[str, float]] | None = None) -> str:
    """Run an application one way and return a line about it; `run` does it, if given, around app.run()."""
    pair = app.pair
    pair.go(way)
    before = app.counted()
    try:
        values = run() if run else app.run(pair.client)
    except RigError as error:
        pair.problem(f"{app.name} over {way}: {error}")
        return f"{way:8} {app.name}: failed"
    except (KeyError, ValueError, StopIteration) as error:
        pair.problem(f"{app.name} over {way}: its output is not as expected: {error!r}")
        return f"{way:8} {app.name}: failed"
    share, whole = app.proof(way, before)
    for metric in app.metrics:
        results.add_app(metric, way, values[metric.name], share)
    words = ",  ".join(f"{metric.name} {values[metric.name]:.4g} {metric.unit}" for metric in app.metrics)
    return f"{way:8} {words}" + ("" if share is None else f"  ({share:.1%} of {whole:,} bytes that way)")
