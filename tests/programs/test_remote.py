"""Remote work: shells, repositories, measuring, plain streams."""

from tests.programs.way import MIB, Way, repository, sshd


def test_git_http(way: Way) -> None:
    """Over python's web server, as a dumb transport."""
    commit = repository(way)
    way.server.run("cd /tmp/t/repo.git && git update-server-info")
    way.serve("python3 -m http.server -d /tmp/t 8080", 8080)
    with way.carries(2 * MIB):
        way.get(f"git clone -q http://{way.host}:8080/repo.git /tmp/t/clone")
    assert way.get("git -C /tmp/t/clone rev-parse HEAD; git -C /tmp/t/clone fsck").startswith(commit)


def test_git_daemon(way: Way) -> None:
    commit = repository(way)
    way.serve("git daemon --export-all --base-path=/tmp/t --port=9418", 9418)
    with way.carries(2 * MIB):
        way.get(f"git clone -q git://{way.host}/repo.git /tmp/t/clone")
    assert way.get("git -C /tmp/t/clone rev-parse HEAD") == commit


def test_git_ssh(way: Way) -> None:
    commit, options = repository(way), sshd(way)
    with way.carries(2 * MIB):
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
    assert [line for line in said.splitlines() if line.strip().isdigit()][-1].strip() == "9999"


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
        way.get(f"iperf3 -c {way.host} -p 7001 -n 24M -P 2 --bidir")


def test_nuttcp(way: Way) -> None:
    way.serve("nuttcp -S -1 --nofork -P 7001 -p 7002", 7001)
    with way.carries(16 * MIB):
        assert "MB" in way.get(f"nuttcp -n 16M -P 7001 -p 7002 {way.host}")


def test_openmpi(way: Way) -> None:
    """Two ranks that find each other over ssh; each then connects to the other."""
    options = sshd(way)
    way.get(
        f"mpirun --allow-run-as-root --mca plm_rsh_args '{options}' --mca btl tcp,self"
        f" --mca btl_tcp_if_include {way.host}/24 --mca oob_tcp_if_include {way.host}/24"
        f" --host g2:1,g1:1 -n 2 true",
    )
    with way.carries(8 * MIB):
        said = way.get(
            f"mpirun --allow-run-as-root --mca plm_rsh_args '{options}' --mca btl tcp,self"
            f" --mca btl_tcp_if_include {way.host}/24 --mca oob_tcp_if_include {way.host}/24"
            " --host g2:1,g1:1 -n 2 python3 -m mpi4py.bench ringtest -n 1048576 -l 8"
        )
    assert "seconds" in said, said
