# SPDX-License-Identifier: GPL-2.0
"""xwayd, as it is installed, on a real xenstored and a real oxenstored.

Both are Debian's own, and run as ordinary processes: fake_xen.c, preloaded,
is the hypervisor below them, and on_xen.c the one below xwayd. Where xen-utils
is not installed its package is unpacked below build/. The xwayd that needs no
library runs where there is nothing but itself.
"""

import glob
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

UUID = "00000000-0000-0000-0000-0000000000%02x"
OFFER_1, OFFER_2 = "1 0123456789abcdef 17 9", "1 0123456789abcdee 18 0"
CRASHED = "30004"  # XEN_DOMINF_shutdown, reason 3


@pytest.fixture(scope="session")
def daemons(programs):
    def found(where):
        return {os.path.basename(p): p for p in glob.glob(f"{where}/usr/lib/xen-*/bin/*xenstored")}

    unpacked = programs / "xen-utils"
    have = found("") or found(unpacked)
    if not have:
        unpacked.mkdir(exist_ok=True)
        subprocess.run(
            # of the release of the libraries that it is to run with
            "p=$(apt-cache depends libxen-dev | sed -n 's/.*Depends: libxenmisc/xen-utils-/p'); "
            "apt-get -q download $p && dpkg -x *.deb .",
            shell=True,
            cwd=unpacked,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        have = found(unpacked)
    return have


class Host:
    """A host's XenStore, the domains on it, and its xwayd."""

    def __init__(self, daemon, programs, xwayd, dir_):
        self.dir = dir_
        # Both ours and Xen's own client look for the socket there.
        self.env = {
            **os.environ,
            "FAKE_XEN": str(dir_),
            "XENSTORED_PATH": str(dir_ / "socket"),
            "XENSTORED_RUNDIR": str(dir_),
            "XENSTORED_ROOTDIR": str(dir_),
        }
        self.env.pop("JOURNAL_STREAM", None)
        self.preload = {**self.env, "LD_PRELOAD": str(programs / "fake_xen.so")}
        self.domains = {0: ("0", 0)}
        self.write_domains()
        (dir_ / "xsd_port").write_text("7")
        (dir_ / "xsd_kva").write_bytes(bytes(4096))
        for plugin in pathlib.Path(daemon).parents[1].glob("ocaml/xsd_glue/xenctrl_plugin/*"):
            (dir_ / plugin.name).symlink_to(plugin)
        (dir_ / "ox.conf").write_text(
            "".join(
                f"{k} = {dir_}/{v}\n"
                for k, v in {
                    "xenstored-log-file": "log",
                    "access-log-file": "access",
                    "xenstored-kva": "xsd_kva",
                    "xenstored-port": "xsd_port",
                }.items()
            )
        )
        args = (
            ["--no-fork", "--config-file", dir_ / "ox.conf"]
            if "oxen" in daemon
            else ["-N", "-F", dir_ / "pid"]
        )
        self.store = subprocess.Popen(
            [daemon, *args], env=self.preload, stdout=(dir_ / "out").open("w"), stderr=subprocess.STDOUT
        )
        self.wait(lambda: (dir_ / "socket").exists(), "a socket")
        time.sleep(0.2)
        self.on_xen = [programs / "on_xen", xwayd]
        self.root, self.seen = dir_, dir_
        if xwayd.name == "xwayd-static":
            self.root, self.seen = dir_ / "root", pathlib.Path("/")
            self.root.mkdir()
            shutil.copy(xwayd, self.root)
            (self.root / "socket").hardlink_to(dir_ / "socket")
            self.on_xen = [programs / "on_xen", self.root, "/" + xwayd.name]
        self.client = subprocess.Popen(
            [programs / "xs_client"], env=self.env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.xwayd = None
        self("put /local/domain/0/name Domain-0")
        self.conf("allow all")

    def __call__(self, line):
        self.client.stdin.write(line + "\n")
        self.client.stdin.flush()

    def wait(self, what, name, seconds=10):
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end, f"no {name}: {self.log()}"
            time.sleep(0.02)

    def log(self):
        return "".join((self.dir / f).read_text() for f in ["out", "xwayd.log"] if (self.dir / f).exists())

    def write_domains(self):
        # At once, as both read it at any time.
        (self.dir / "new").write_text(
            "".join(f"{i} {flags} {uuid}\n" for i, (flags, uuid) in self.domains.items())
        )
        (self.dir / "new").rename(self.dir / "domains")

    def conf(self, text):
        (self.root / "conf").write_text(text + "\n")

    def run(self, *args, **how):
        """Start xwayd with these arguments."""
        return subprocess.Popen(
            [*self.on_xen, "-c", self.seen / "conf", "--lock", self.seen / "lock", *args],
            env={**self.env, "XENSTORED_PATH": str(self.seen / "socket")},
            **how,
        )

    def start(self):
        self.xwayd = self.run("-d", stderr=(self.dir / "xwayd.log").open("w"))
        self.wait(lambda: "xwayd: ready\n" in self.log(), "xwayd")

    def stop(self):
        self.xwayd.send_signal(signal.SIGTERM)
        assert self.xwayd.wait(10) == 0
        self.xwayd = None

    def create(self, id_, ip, uuid=None):
        self.domains[id_] = ("0", uuid or id_)
        self.write_domains()
        self(f"put /local/domain/{id_}")
        self(f"perms /local/domain/{id_} 0 {id_}")
        self(f"put /local/domain/{id_}/name g{id_}")
        self(f"put /local/domain/{id_}/data")
        self(f"perms /local/domain/{id_}/data {id_}")
        self(f"introduce {id_}")
        self(f"put /local/domain/0/backend/vif/{id_}/0/ip {ip}")

    def end(self, id_, flags):
        self.domains[id_] = (flags, self.domains[id_][1])
        self.write_domains()
        # Real ones release what has ended when the hypervisor tells them.
        self(f"release {id_}")

    def ls(self, path):
        """{path below: (permissions, value)}"""
        self(f"ls {path}")
        nodes = {}
        while (line := self.client.stdout.readline()) not in (".\n", ""):
            node, perms, value = line.rstrip("\n").split(" ", 2)
            nodes[node[len(path) :]] = (perms, value)
        return nodes

    def values(self, id_):
        """What xwayd tells the domain, without the empty directories."""
        return {k: v for k, (_, v) in self.ls(f"/local/domain/{id_}/xway").items() if v}

    def expect(self, id_, values):
        """Leave out the domain's own addresses: it is told them as long as it has a peer."""
        values = {k: v for k, v in values.items() if k != "/self"}
        peers = [v for k, v in values.items() if k.startswith("/peer/") and not v.startswith("gone ")]
        end = time.monotonic() + 5
        while True:
            have = self.values(id_)
            own = have.pop("/self", None)
            if (have == values and bool(own) == bool(peers)) or time.monotonic() > end:
                break
            time.sleep(0.05)
        assert have == values and bool(own) == bool(peers), self.log()

    def down(self):
        for process in [self.xwayd, self.client, self.store]:
            if process:
                process.kill()
                process.wait()


@pytest.fixture(params=["xwayd", "xwayd-static"])
def xwayd(request, tools):
    return tools / request.param


@pytest.fixture(params=["xenstored", "oxenstored"])
def host(request, daemons, programs, xwayd, tmp_path):
    if request.param not in daemons:
        pytest.skip(f"no {request.param}: apt-get install xen-utils")
    host_ = Host(daemons[request.param], programs, xwayd, tmp_path)
    yield host_
    host_.down()


@pytest.fixture
def two(host):
    host.start()
    host.create(1, "10.0.0.1")
    host.create(2, "10.0.0.2 fd00::2")
    host.expect(1, {"/peer/2": UUID % 2 + " 10.0.0.2 fd00::2"})
    host(f"put /local/domain/1/data/xway/2 {OFFER_1}")
    host(f"put /local/domain/2/data/xway/1 {OFFER_2}")
    host.expect(1, {"/peer/2": UUID % 2 + " 10.0.0.2 fd00::2", "/link/2": OFFER_2})
    host.expect(2, {"/peer/1": UUID % 1 + " 10.0.0.1", "/link/1": OFFER_1})
    assert host.values(1)["/self"] == UUID % 1 + " 10.0.0.1"
    assert host.values(2)["/self"] == UUID % 2 + " 10.0.0.2 fd00::2"
    return host


def test_permissions(two):
    for id_ in 1, 2:
        nodes = two.ls(f"/local/domain/{id_}/xway")
        assert len(nodes) == 6
        assert {perms for perms, _ in nodes.values()} == {f"n0,r{id_}"}
        # And outside, nothing was touched.
        assert two.ls(f"/local/domain/{id_}/data")[""][0] == f"n{id_}"


def test_restart_writes_nothing(two):
    two.stop()
    two("watch /local/domain")
    two("changed")
    two.client.stdout.readline()
    two.start()
    time.sleep(0.5)
    two("changed")
    assert two.client.stdout.readline() == "0\n"
    # To be sure that it would have been seen.
    two("rm /local/domain/1/data/xway/2")
    two.expect(2, {"/peer/1": UUID % 1 + " 10.0.0.1"})
    two("changed")
    assert two.client.stdout.readline() != "0\n"


def test_bad_offer(two):
    two(f"put /local/domain/1/data/xway/2 {OFFER_1} ")
    two.expect(2, {"/peer/1": UUID % 1 + " 10.0.0.1"})
    assert f"bad offer to domain 2, not relayed: '{OFFER_1} '" in two.log()


def test_crash_and_reuse(two):
    two.end(1, CRASHED)
    two.expect(2, {"/peer/1": "gone crash"})
    del two.domains[1]
    two.write_domains()
    two("rm /local/domain/1")
    two("rm /local/domain/0/backend/vif/1")
    time.sleep(0.3)
    assert not two.ls("/local/domain/1")
    two.create(1, "10.0.0.9", uuid=9)
    two.expect(2, {"/peer/1": UUID % 9 + " 10.0.0.9"})
    # The offer of domain 2 is for the domain that had this id before.
    two.expect(1, {"/peer/2": UUID % 2 + " 10.0.0.2 fd00::2"})
    two(f"put /local/domain/2/data/xway/1 1 {7:016x} 18 0")
    two.expect(1, {"/peer/2": UUID % 2 + " 10.0.0.2 fd00::2", "/link/2": f"1 {7:016x} 18 0"})


def test_reload(two):
    two.conf("nonsense")
    two.xwayd.send_signal(signal.SIGHUP)
    two.wait(lambda: "the configuration stays as it was" in two.log(), "complaint")
    assert f"{two.seen / 'conf'}:1: 'nonsense' is unknown" in two.log()
    assert len(two.values(1)) == 3
    two.conf("group shop g1")
    two.xwayd.send_signal(signal.SIGHUP)
    two.expect(1, {})
    two.expect(2, {})
    two.conf("group shop g1 " + UUID % 2)
    two.xwayd.send_signal(signal.SIGHUP)
    two.expect(2, {"/peer/1": UUID % 1 + " 10.0.0.1", "/link/1": OFFER_1})


def test_clear(two):
    assert two.run("--clear", stderr=subprocess.DEVNULL).wait(10) == 3
    assert len(two.values(1)) == 3
    two.stop()
    assert len(two.values(1)) == 3
    assert two.run("--clear", stderr=subprocess.DEVNULL).wait(10) == 0
    assert not two.ls("/local/domain/1/xway")
    assert two.ls("/local/domain/1/data/xway")


def test_flood(two):
    """A guest that writes as fast as it can gets ten changes a second."""
    two("watch /local/domain/2/xway")
    two("changed")
    two.client.stdout.readline()
    begin = time.monotonic()
    for i in range(3000):
        two(f"put /local/domain/1/data/xway/2 1 {i:016x} 17 9")
    two.expect(2, {"/peer/1": UUID % 1 + " 10.0.0.1", "/link/1": f"1 {2999:016x} 17 9"})
    took = time.monotonic() - begin
    two("changed")
    assert 1 <= int(two.client.stdout.readline()) <= 10 * took + 2


def test_flood_of_all(two):
    """It gets no more by writing to several peers, which all have the last of it in the end."""
    peers = range(2, 7)
    for id_ in peers[1:]:
        two.create(id_, f"10.0.0.{id_}")
        two.wait(lambda id_=id_: "/peer/1" in two.values(id_), "introduction")
    time.sleep(2)
    two("watch /local/domain")
    two("changed")
    two.client.stdout.readline()
    begin = time.monotonic()
    for i in range(1000):
        for id_ in peers:
            two(f"put /local/domain/1/data/xway/{id_} 1 {i:016x} 17 9")
    for id_ in peers:
        two.wait(lambda id_=id_: two.values(id_).get("/link/1") == f"1 {999:016x} 17 9", f"offer to {id_}")
    took = time.monotonic() - begin
    two("changed")
    assert 1 <= int(two.client.stdout.readline()) <= 10 * took + 2 * len(peers) + 10 + 2


def test_daemon_goes(two):
    """systemd starts it again, until there is a XenStore."""
    two.store.kill()
    assert two.xwayd.wait(10) == 1
    assert "XenStore answers no more: " in two.log()
    done = two.run(stderr=subprocess.PIPE, text=True)
    assert "XenStore does not answer: Connection refused" in done.communicate(timeout=10)[1]
    assert done.returncode == 1


def lying_store(listener, lie):
    """Be a XenStore without a node, that answers with what nobody asked once it is to lie."""
    conn = listener.accept()[0]
    stream = conn.makefile("rb")
    while len(head := stream.read(16)) == 16:
        type_, id_, transaction, length = struct.unpack("<4I", head)
        path = stream.read(length).split(b"\0")[0]
        answer = {1: b"0\0", 6: b"5\0"}.get(type_, b"OK\0")
        if type_ in (1, 2, 3) and path != b"/local/domain":
            type_, answer = 16, b"ENOENT\0"
        if lie.is_set():
            id_ += 1
        conn.sendall(struct.pack("<4I", type_, id_, transaction, len(answer)) + answer)
        if not lie.is_set() and type_ == 4:
            # It has xwayd look at its domains.
            event = b"@introduceDomain\0introduce\0"
            conn.sendall(struct.pack("<4I", 15, 0, 0, len(event)) + event)


def test_broken_store(tools, programs, tmp_path):
    """What no answer can be believed from any more is as good as gone: systemd is to start xwayd again."""
    (tmp_path / "domains").write_text("0 0 0\n")
    lie = threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        threading.Thread(target=lying_store, args=(listener, lie), daemon=True).start()
        xwayd = subprocess.Popen(
            [programs / "on_xen", tools / "xwayd", "-c", tmp_path / "none", "--lock", tmp_path / "lock"],
            env={**os.environ, "FAKE_XEN": str(tmp_path), "XENSTORED_PATH": str(tmp_path / "socket")},
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            while "ready" not in (line := xwayd.stderr.readline()):
                assert line
            lie.set()
            xwayd.send_signal(signal.SIGHUP)
            error = xwayd.communicate(timeout=5)[1]
        finally:
            xwayd.kill()
            xwayd.wait()
    assert xwayd.returncode == 1 and "XenStore answers no more: Protocol error" in error, error


def test_many_domains(two):
    """A list that one message of XenStore does not hold."""
    two.stop()
    for i in range(1000, 1900):
        two(f"put /local/domain/{i}")
    two.start()
    two.create(3, "10.0.0.3")
    two.expect(1, {**two.values(1), "/peer/3": UUID % 3 + " 10.0.0.3"})
    assert "cannot list" not in two.log()


@pytest.mark.parametrize("version", [0xF, *range(0x10, 0x18), 0x18])
def test_releases_of_xen(host, version):
    """Each release of the hypervisor has its version of the interface, and refuses others."""
    assert host.ls("/local/domain")
    host.env["FAKE_XEN_DOMCTL"] = f"{version:x}"
    done = host.run("--clear", stderr=subprocess.PIPE, text=True)
    error = done.communicate(timeout=10)[1]
    if 0x10 <= version <= 0x17:
        assert done.returncode == 0, error
    else:
        assert done.returncode == 2
        assert "the hypervisor does not answer: Permission denied" in error
        assert "on Xen 4.11 to 4.21" in error


@pytest.mark.parametrize("has,status", [("control_d\n", 0), ("", 2), ("something\n", 2)])
def test_other_domain(host, has, status):
    """Where it is not domain 0, systemd is not to start it again and again."""
    assert host.ls("/local/domain")
    host.env["FAKE_XEN_CAPABILITIES"] = has
    done = host.run("--clear", stderr=subprocess.PIPE, text=True)
    error = done.communicate(timeout=10)[1]
    assert done.returncode == status, error
    assert ("this is not domain 0" in error) == bool(status)


def test_denied_domain(host):
    """A domain that a security policy of Xen's hides from domain 0 is not there, and the others are."""
    host.env["FAKE_XEN_DENIED"] = "2"
    host.create(2, "10.0.0.2")
    host.start()
    host.create(1, "10.0.0.1")
    host.create(3, "10.0.0.3")
    host.expect(1, {"/peer/3": UUID % 3 + " 10.0.0.3"})
    host.expect(3, {"/peer/1": UUID % 1 + " 10.0.0.1"})


def test_xapi(host):
    """A VM moves in, is renamed, gets another address and goes, beside xapi."""
    host.conf(f"group shop {UUID % 1} {UUID % 7}")
    host.start()

    def create(id_, uuid, ip, final=None):
        host.domains[id_] = ("0", uuid)
        host.write_domains()
        host(f"put /local/domain/{id_}")
        host(f"perms /local/domain/{id_} 0 {id_}")
        host(f"put /vm/{UUID % uuid}")
        host(f"perms /vm/{UUID % uuid} 0 {id_}")
        if final:
            host(f"put /vm/{UUID % uuid}/final-uuid {UUID % final}")
        host(f"put /local/domain/{id_}/vm /vm/{UUID % uuid}")
        host(f"put /local/domain/{id_}/name g{id_}")
        host(f"put /local/domain/{id_}/data")
        host(f"perms /local/domain/{id_}/data {id_}")
        host(f"put /local/domain/0/backend/vif/{id_}/0")
        host(f"perms /local/domain/0/backend/vif/{id_}/0 0 {id_}")
        back = {"frontend-id": id_, "online": 1, "state": 1, "script": "/usr/libexec/xenopsd/vif"}
        for node, value in {**back, "mac": f"00:16:3e:00:00:{id_:02x}", "handle": 0}.items():
            host(f"put /local/domain/0/backend/vif/{id_}/0/{node} {value}")
        host(f"put /xapi/{UUID % uuid}/private/vif/0/bridge xenbr0")
        lock(uuid, ip)
        host(f"introduce {id_}")

    def lock(uuid, ip):
        host(f"put /xapi/{UUID % uuid}/private/vif/0/locking-mode locked")
        host(f"put /xapi/{UUID % uuid}/private/vif/0/ipv4-allowed {ip}")
        host(f"put /xapi/{UUID % uuid}/private/vif/0/ipv6-allowed fd00::{uuid},fd00:1::{uuid}")

    create(1, 1, "10.0.0.1")
    create(5, 0xF1, "10.0.0.7", final=7)
    peer = {"/peer/5": UUID % 7 + f" 10.0.0.7 fd00::{0xF1} fd00:1::{0xF1}"}
    host.expect(1, peer)
    host.expect(5, {"/peer/1": UUID % 1 + " 10.0.0.1 fd00::1 fd00:1::1"})
    host(f"put /local/domain/5/data/xway/1 {OFFER_2}")
    host.expect(1, {**peer, "/link/5": OFFER_2})
    host.domains[5] = ("0", 7)
    host.write_domains()
    host(f"rm /vm/{UUID % 0xF1}")
    host(f"put /local/domain/5/vm /vm/{UUID % 7}")
    host(f"rm /xapi/{UUID % 0xF1}")
    lock(7, "10.0.0.7,10.0.0.8")
    host.expect(1, {"/peer/5": UUID % 7 + " 10.0.0.7 10.0.0.8 fd00::7 fd00:1::7", "/link/5": OFFER_2})
    host.end(5, CRASHED)
    host.expect(1, {"/peer/5": "gone crash"})


def test_static_needs_nothing(tools, run):
    """The file has no place for a loader, and runs on the Linux of domain 0 of XCP-ng."""
    headers = run("readelf", "-lnW", tools / "xwayd-static").stdout
    assert "INTERP" not in headers
    abi = re.search(r"OS: Linux, ABI: (\d+)\.(\d+)\.", headers)
    assert abi and tuple(map(int, abi.groups())) <= (4, 19), headers
    assert "INTERP" in run("readelf", "-lnW", tools / "xwayd").stdout
