"""Remote work: shells, repositories, measuring, plain streams."""

import json

import pytest

from tests.programs.way import MIB, Way, repository, sshd

pytestmark = [pytest.mark.rig(kernel="6.12"), pytest.mark.rig(kernel="6.1")]


def test_git_http(way: Way) -> None:
    """Over python's web server, as a dumb transport."""
    commit = repository(way)
    way.server.run("cd /tmp/t/repo.git && git update-server-info")
    way.serve("python3 -m http.server -d /tmp/t 8080", 8080)
    with way.carries(8 * MIB):
        way.get(f"git clone -q http://{way.host}:8080/repo.git /tmp/t/clone")
    assert way.get("git -C /tmp/t/clone rev-parse HEAD; git -C /tmp/t/clone fsck").startswith(commit)


def test_git_daemon(way: Way) -> None:
    commit = repository(way)
    way.serve("git daemon --export-all --base-path=/tmp/t --port=9418", 9418)
    with way.carries(8 * MIB):
        way.get(f"git clone -q git://{way.host}/repo.git /tmp/t/clone")
    assert way.get("git -C /tmp/t/clone rev-parse HEAD") == commit


def test_git_ssh(way: Way) -> None:
    commit, options = repository(way), sshd(way)
    with way.carries(8 * MIB):
        way.get(f"GIT_SSH_COMMAND='ssh {options}' git clone -q {way.host}:/tmp/t/repo.git /tmp/t/clone")
    assert way.get("git -C /tmp/t/clone rev-parse HEAD") == commit


def test_telnet(way: Way) -> None:
    way.server.write(
        "/tmp/t/inetd.conf", "2323 stream tcp nowait root /usr/sbin/telnetd telnetd -E /tmp/t/sh\n"
    )
    way.server.write("/tmp/t/sh", "#!/bin/sh\nexec /bin/sh\n", mode=0o755)
    way.serve("inetutils-inetd -d /tmp/t/inetd.conf", 2323)
    with way.carries(40_000):
        said = way.get(
            f"(sleep 3; echo 'seq -w 1 9999'; sleep 20; echo exit; sleep 2) | telnet {way.host} 2323 || true"
        )
    lines = [line.strip() for line in said.splitlines()]
    assert [line for line in lines if line.isdigit()] == [f"{n:04}" for n in range(1, 10000)]


def test_netcat(way: Way) -> None:
    want = way.file(32 * MIB, at_client=True)
    server = way.serve("nc -l -p 7001 >/tmp/t/copy", 7001)
    with way.carries(32 * MIB):
        way.get(f"nc -N {way.host} 7001 </tmp/t/file")
        server.wait()
    assert way.server.run("sha256sum </tmp/t/copy").stdout.split()[0] == want


def test_socat(way: Way) -> None:
    want = way.file(32 * MIB)
    way.serve("socat -u FILE:/tmp/t/file TCP-LISTEN:7001,reuseaddr", 7001)
    with way.carries(32 * MIB):
        assert way.checksum(f"socat -u TCP:{way.host}:7001 -") == want


def test_iperf3(way: Way) -> None:
    way.serve("iperf3 -s -1 -p 7001", 7001)
    with way.carries(20 * MIB):
        report = json.loads(way.get(f"iperf3 -c {way.host} -p 7001 -n 24M -P 2 --bidir -J"))
    assert "error" not in report, report["error"]
    # It ends when both directions together have carried so much.
    sums = [report["end"][f"sum_sent{suffix}"]["bytes"] for suffix in ("", "_bidir_reverse")]
    assert sum(sums) >= 24 * MIB, report["end"]
    assert all(stream["sender"]["bytes"] for stream in report["end"]["streams"]), report["end"]


def test_iperf2(way: Way) -> None:
    """The server peeks before it reads, and asks for time stamps."""
    way.serve("iperf -s -p 7001", 7001)
    for words, least in (
        ("-n 16M -P 2", 16 * MIB),
        ("-e -t 3 -P 2 --full-duplex --tcp-write-prefetch 128K", MIB),
    ):
        with way.carries(least, "timestamping"):
            lines = way.get(f"iperf -c {way.host} -p 7001 -y C {words}").splitlines()
        counts = [int(line.split(",")[7]) for line in lines if line.count(",") >= 8]
        assert len(counts) >= 2 and min(counts) >= least, lines


def test_nuttcp(way: Way) -> None:
    way.serve("nuttcp -S -1 --nofork -P 7001 -p 7002", 7001)
    with way.carries(16 * MIB):
        assert "megabytes=16.0000 " in way.get(f"nuttcp -fparse -n 16M -P 7001 -p 7002 {way.host}")


RANKS = """
from random import Random
from mpi4py import MPI
world = MPI.COMM_WORLD
def text(rank, size):
    return Random(rank * 10 + size).randbytes(size)
other = 1 - world.rank
for size in (0, 1, 1000, 65536, 1 << 20, 4 << 20):
    assert world.sendrecv(text(world.rank, size), dest=other, source=other) == text(other, size), size
    assert world.bcast(text(0, size) if world.rank == 0 else None) == text(0, size), size
assert world.allreduce(world.rank + 1) == 3
world.Barrier()
if world.rank == 0:
    print("right")
"""


def test_openmpi(way: Way) -> None:
    """Two ranks that find each other over ssh; each then connects to the other."""
    way.write("/tmp/t/ranks.py", RANKS)
    mpirun = (
        f"mpirun --allow-run-as-root --mca plm_rsh_args '{sshd(way)}' --mca btl tcp,self"
        f" --mca btl_tcp_if_include {way.host}/24 --mca oob_tcp_if_include {way.host}/24"
        " --host g2:1,g1:1 -n 2"
    )
    way.get(f"{mpirun} true")
    with way.carries(8 * MIB):
        assert way.get(f"{mpirun} python3 /tmp/t/ranks.py") == "right"
