"""Suites that other people wrote, run by a client in one guest against a server in the other."""

import re
import subprocess

import pytest

from rig import compiler
from rig.paths import BUILD
from tests import sources
from tests.programs.way import MIB, POSTGRESQL, Way, postgresql

pytestmark = [pytest.mark.rig(kernel="6.12"), pytest.mark.rig(kernel="6.1")]

MPTCP_CONNECT = [
    "-m poll", "-m mmap", "-m sendfile", "-P saveWithPeek", "-P saveAfterPeek", "-S 4096 -R 4096",
    "-r 100000 -m poll", "-f 100000", "-6", "-j", "-M 7", "-o TRANSPARENT", "-w 1",
]  # fmt: skip


def test_mptcp_connect(way: Way) -> None:
    """The kernel's own test of both directions at once in its plain-TCP mode, all but its look at TCP_ULP.

    And but for -c and -I, with which it does not always end well by TCP either.
    """
    program = sources.kernel_selftest("net/mptcp/mptcp_connect", way.server.debian)
    way.put(program, "/tmp/t/mptcp_connect")
    ours = way.file(2 * MIB, "/tmp/t/server")
    theirs = way.file(2 * MIB, "/tmp/t/client", at_client=True)
    with way.carries(8 * MIB):
        for options in MPTCP_CONNECT:
            cut, family6 = "-f" in options, "-6" in options
            anywhere, there = ("::", way.server.ip6) if family6 else ("0.0.0.0", way.host)
            words = f"/tmp/t/mptcp_connect -s TCP -p 7001 -t 60000 {options}"
            other = words.replace("-f 100000", "-f -1")
            server = way.serve(f"{other} -i /tmp/t/server -l {anywhere} >/tmp/t/got", 7001)
            way.get(f"{words} -i /tmp/t/client {there} >/tmp/t/got")
            assert server.wait().status == 0, server.stderr()
            if not cut:
                assert way.get("sha256sum </tmp/t/got").split()[0] == ours, options
                assert way.server.run("sha256sum </tmp/t/got").stdout.split()[0] == theirs, options


# Of those that do not need the server's machine, the ones that end within a minute on an emulated one.
REDIS = "type/string type/incr keyspace multi quit pubsub bitops tracking functions scripting".split()


def test_redis_runtest(way: Way) -> None:
    """Redis's own, in its mode for a server elsewhere."""
    way.put_tree(
        sources.upstream(way.server.debian, "redis-server", ["runtest", "tests", "utils/lru"]), "/tmp/t/redis"
    )
    way.serve(
        "redis-server --bind 0.0.0.0 --protected-mode no --port 7001 --save '' --dir /tmp/t"
        " --enable-debug-command yes",
        7001,
    )
    chosen = " ".join(f"--single unit/{name}" for name in REDIS)
    with way.carries(MIB):
        said = way.get(
            "cd /tmp/t/redis; mkdir -p src; ln -sf /usr/bin/redis-* src;"
            f" TERM=dumb ./runtest --host {way.host} --port 7001"
            f" --tags '-slow -needs:save -needs:reset' {chosen}"
            " || true",
            timeout=1500,
        )
    passed = len(re.findall(r"\[ok\]", said))
    way.agrees(f"{passed} passed, not {re.findall('.err.: (.*)', said)}")
    assert passed > 150 and "The End" in said, said[-5000:]


def test_postgresql_regress(way: Way) -> None:
    """PostgreSQL's regression suite, whose files lie in both guests."""
    source = sources.upstream(way.server.debian, "postgresql-15", ["src/test/regress"]) / "src/test/regress"
    made = BUILD / "tests/regress"
    if not (made / "regress.so").exists():
        way.server.debian.archive.unpack("postgresql-server-dev-15", made)
        include = made / "usr/include/postgresql/15/server"
        words = [
            *compiler.command(way.server.debian),
            "-O2",
            "-w",
            "-shared",
            "-fPIC",
            f"-I{include}",
            source / "regress.c",
        ]
        subprocess.run([*words, "-o", made / "regress.so"], check=True)
    way.put_tree(source, "/tmp/t/regress")
    way.put(made / "regress.so", "/tmp/t/regress/regress.so")
    way.server.run("mkdir -p /tmp/t/regress/results; chown -R postgres /tmp/t/regress")
    postgresql(way, "--no-locale")
    with way.carries(MIB):
        said = way.get(
            f"cd /tmp/t/regress; {POSTGRESQL}/lib/pgxs/src/test/regress/pg_regress --host={way.host}"
            f" --port=7001 --user=postgres --bindir={POSTGRESQL}/bin --inputdir=. --outputdir=."
            " --dlpath=/tmp/t/regress --schedule=parallel_schedule --max-concurrent-tests=20 || true",
            timeout=3000,
        )
    passed = len(re.findall(r"\.\.\. ok", said))
    # Some want the server's files on the client's machine.
    failed = re.findall(r"(\w+) +\.\.\. FAILED", said)
    way.agrees(f"{passed} passed, not {failed}")
    assert passed > 190, said[-5000:]
