# SPDX-License-Identifier: GPL-2.0
"""xway over a kernel that is a fake below libmnl (fake_kernel.c)."""

import json
import os
import pty
import re
import socket
import subprocess
import time
from pathlib import Path

import pytest


@pytest.fixture
def xway(programs, run):
    return lambda *args, **env: run(programs / "xway_test", *args, **env)


ABSENT = "xway: the module is not loaded, and connections stay on TCP\n"


def test_not_loaded(xway):
    for args in [[], ["conn"], ["off"], ["local", "add", "127.0.0.0/8"]]:
        done = xway(*args, FAKE_ABSENT=1)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(ABSENT)


class Host:
    """What is installed, by files in a folder that is the root for the command under test."""

    def __init__(self, xway, folder):
        self.xway, self.folder = xway, folder
        self.kernel = os.uname().release
        self.modules = f"root/lib/modules/{self.kernel}"
        self.put("root/lib/modules/6.1.0-9-amd64/modules.dep")

    def put(self, name, content=b""):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def dkms(self, *versions):
        for version in versions:
            (self.folder / f"root/var/lib/dkms/xway/{version}/source").mkdir(parents=True)

    def told(self):
        """What the command says of it: the lines after the first, and the JSON."""
        done = self.xway(FAKE_ABSENT=1, cwd=self.folder)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(ABSENT)
        again = self.xway("-j", FAKE_ABSENT=1, cwd=self.folder)
        assert (again.returncode, again.stderr) == (1, done.stderr)
        return done.stderr.removeprefix(ABSENT).splitlines(), json.loads(again.stdout)


@pytest.fixture
def host(xway, tmp_path):
    return Host(xway, tmp_path)


def test_not_installed(host):
    lines, absent = host.told()
    assert lines == [
        f"  There is none for this kernel, {host.kernel}.",
        "  dkms does not know of it. Install the package xway-dkms.",
    ]
    assert absent == {
        "loaded": False,
        "kernel": host.kernel,
        "module": None,
        "signed": None,
        "signed_only": False,
        "kernels": [],
        "headers": False,
        "dkms": None,
        "log": None,
    }


def test_not_built_for_a_new_kernel(host):
    """As after an upgrade of the kernel without its headers, and then with them, but the build fails."""
    host.put("root/lib/modules/6.1.0-9-amd64/updates/dkms/xway.ko.xz")
    host.put("root/lib/modules/6.1.0-9-amd64/updates/dkms/xway_core.ko.xz")
    host.put(f"{host.modules}/kernel/net/xway_other.ko")
    host.dkms("0.1.0", "0.10.0", "0.9.0")
    missing = f"  There is none for this kernel, {host.kernel}, but for 6.1.0-9-amd64."
    build = f"  To build it: dkms install xway/0.10.0 -k {host.kernel}"
    lines, absent = host.told()
    assert lines[0] == missing and lines[-1] == build and len(lines) == 4
    assert f"linux-headers-{host.kernel} on Debian" in lines[1] and f"kernel-devel-{host.kernel}" in lines[2]
    assert absent["kernels"] == ["6.1.0-9-amd64"] and absent["dkms"] == "0.10.0" and not absent["headers"]

    host.put(f"{host.modules}/build/Makefile")
    lines, absent = host.told()
    assert lines == [missing, build]
    assert absent["headers"] and absent["log"] is None

    log = "root/var/lib/dkms/xway/0.10.0/build/make.log"
    host.put(log)
    lines, absent = host.told()
    assert lines == [missing, f"  The last build failed: {log}", build]
    assert absent["log"] == log


@pytest.mark.parametrize(
    "place",
    ["updates/dkms/xway.ko", "extra/xway.ko.xz", "extra/xway/xway.ko.gz", "updates/xway.ko.zst"],
)
def test_installed(host, place):
    host.put(f"{host.modules}/{place}")
    lines, absent = host.told()
    assert lines == [f"  It is installed: {host.modules}/{place}", "  To load it: modprobe xway"]
    assert absent["module"] == f"{host.modules}/{place}" and absent["kernels"] == []


def test_installed_by_a_link(host):
    """SUSE and EL link a module of another kernel in, which may be gone."""
    host.put("root/lib/modules/6.1.0-9-amd64/extra/xway.ko")
    link = host.folder / host.modules / "weak-updates/xway.ko"
    link.parent.mkdir(parents=True)
    link.symlink_to("../../6.1.0-9-amd64/extra/xway.ko")
    assert host.told()[1]["module"] == f"{host.modules}/weak-updates/xway.ko"
    link.unlink()
    link.symlink_to("../../6.1.0-8-amd64/extra/xway.ko")
    assert host.told()[1]["module"] is None


@pytest.mark.parametrize(
    "setting",
    [
        {"sys/module/module/parameters/sig_enforce": b"Y\n"},
        {"sys/kernel/security/lockdown": b"none [integrity] confidentiality\n"},
        {"sys/kernel/security/lockdown": b"none integrity [confidentiality]\n"},
    ],
)
def test_only_signed_modules(host, setting):
    path = f"{host.modules}/updates/dkms/xway.ko"
    host.put("root/sys/module/module/parameters/sig_enforce", b"N\n")
    host.put("root/sys/kernel/security/lockdown", b"[none] integrity confidentiality\n")
    host.put(path, b"code")
    lines, absent = host.told()
    assert lines[-1] == "  To load it: modprobe xway"
    assert not absent["signed_only"] and absent["signed"] is False
    for name, content in setting.items():
        host.put(f"root/{name}", content)
    lines, absent = host.told()
    only = "  This kernel loads only modules that are signed with a key that it trusts,"
    assert lines[1:] == [only, "  and this one is not signed: see Secure Boot in operating.md."]
    assert absent["signed_only"] and absent["signed"] is False
    host.put(path, b"code~Module signature appended~\n")
    lines, absent = host.told()
    assert lines[1:] == [only, "  see Secure Boot in operating.md.", "  To load it: modprobe xway"]
    assert absent["signed_only"] and absent["signed"] is True
    (host.folder / path).unlink()
    host.put(f"{path}.xz", b"code")
    assert host.told()[1]["signed"] is None


def test_parts_loaded(xway):
    """The core shows its peers without sockets; a module of the time before is named as such."""
    assert "sockets are not accelerated (modprobe xway)\n" in xway(FAKE_NO_SOCKETS=1).stdout
    state = json.loads(xway("-j", FAKE_NO_SOCKETS=1).stdout)
    assert state["sockets"] is False and "on" not in state and len(state["peers"]) == 1
    assert xway("peer", FAKE_NO_SOCKETS=1).returncode == 0
    for args in [["conn"], ["on"], ["holders"]]:
        done = xway(*args, FAKE_NO_SOCKETS=1)
        assert (done.returncode, done.stdout) == (1, "") and done.stderr.startswith(ABSENT)
    for args in [[], ["conn"], ["peer"]]:
        done = xway(*args, FAKE_OLD=1)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("xway: the module is older than this command")


def test_not_loaded_really(tools, run):
    """The program as it is built, over this kernel."""
    if os.path.exists("/sys/module/xway_core"):
        pytest.skip("the module is loaded here")
    done = run(tools / "xway")
    assert done.returncode == 1 and done.stderr.startswith(ABSENT)
    assert os.uname().release in done.stderr


def test_show(xway):
    done = xway(FAKE_CONNS=1)
    assert done.returncode == 0
    assert done.stdout == (
        "xway 0.7: on\n"
        "  1 connection, 1 channel\n"
        "  memory: 2.0 MiB of at most 32.0 MiB, 384.0 KiB in rings\n"
        "  peers:\n"
        "    xen:7      up         1 connection     10.0.0.2 fd00::2/64\n"
    )
    assert xway("show", FAKE_CONNS=1).stdout == done.stdout


def test_silent_peer(xway):
    """Its state is what a person must know; a script finds the seconds."""
    assert "    xen:7      silent     " in xway(FAKE_SILENT=12).stdout
    assert "    has not answered for 12 seconds\n" in xway("peer", FAKE_SILENT=12).stdout
    (peer,) = json.loads(xway("peer", "-j", FAKE_SILENT=12).stdout)
    assert (peer["state"], peer["silent_s"]) == ("up", 12)
    # One second may be nothing but a busy host.
    assert "silent" not in xway(FAKE_SILENT=1).stdout
    assert "answered" not in xway("peer", FAKE_SILENT=1).stdout


def test_show_json(xway):
    state = json.loads(xway("-j", FAKE_CONNS=3).stdout)
    assert state["on"] is True
    assert state["version"] == "0.7"
    assert state["connections"] == 3
    assert state["pages_max"] == 8192
    (peer,) = state["peers"]
    assert peer["peer"] == "xen:7"
    assert peer["state"] == "up"
    assert peer["addresses"] == ["10.0.0.2", "fd00::2/64"]
    assert peer["stats"]["bytes_ring"] == 5000000000
    assert peer["connections"] == peer["services"]["other"]["connections"] == 3


def test_conn(xway):
    done = xway("conn", FAKE_CONNS=2)
    assert done.stdout.splitlines()[:3] == [
        "10.0.0.1:40000 10.0.0.1:80: peer xen:7, open, rings of 64.0 KiB",
        "    sends by ring (6.0 GiB by ring, 14.0 KiB by TCP)",
        "    receives by TCP (0 B by ring, 512 B by TCP) because: peer-full",
    ]
    assert done.stdout.splitlines()[3].startswith("[fd00::1]:40001 [fd00::1]:80:")
    conns = json.loads(xway("conn", "-j", FAKE_CONNS=2).stdout)
    assert len(conns) == 2
    assert conns[0]["tx_ring"] == 6442450944
    assert (conns[0]["tx"], conns[0]["rx"], conns[0]["reason"]) == ("ring", "tcp", "peer-full")
    assert json.loads(xway("conn", "-j").stdout) == []


def test_peer_and_stats(xway):
    assert "addresses: 10.0.0.2 fd00::2/64\n" in xway("peer").stdout
    stats = json.loads(xway("stats", "-j").stdout)
    assert stats == {
        "stats": {
            "attached": 7,
            "bytes_ring": 5000000000,
            "never": 0,
            "doorbell_posts": 11,
            "doorbell_posts_saved": 12,
            "keepalive_acks": 13,
            # Their old names
            "bells_sent": 11,
            "bells_saved": 12,
            "companion_acks": 13,
        },
        "fallbacks": {"no-memory": 3, "peer-fell-back": 4},
    }
    assert re.search(r"^  no-memory +3$", xway("stats").stdout, re.M)


def test_net(xway):
    assert (
        xway("net").stdout == "no devices (they need modprobe mmnet, and services=net in domain 0's policy)\n"
    )
    assert json.loads(xway("net", "-j").stdout) == []
    assert xway("net", FAKE_NET=1).stdout.startswith(
        "mm0: to xen:7, waiting\n    carries packets of: eth0 eth1\n"
        "    addresses of the peer: 10.0.0.2 fd00::2/64\n"
        "    rings: 512 KiB to the peer, 128 KiB from it, in each of 2 queues;"
        " waits 50 us for more packets (adaptive)\n"
    )
    assert json.loads(xway("net", "-j", FAKE_NET=1).stdout) == [
        {
            "device": "mm0",
            "vifs": "eth0 eth1",
            "ring_kib": 512,
            "peer_ring_kib": 128,
            "rx_usecs": 50,
            "adaptive_rx": True,
            "queues": 2,
            "peer": "xen:7",
            "addresses": ["10.0.0.2", "fd00::2/64"],
            "state": "waiting",
            "stats": {"attached": 7, "bytes_ring": 5000000000, "never": 0},
        }
    ]


def test_interrupted_dump(xway):
    """A dump that changed meanwhile is taken again, and never twice over."""
    done = xway("conn", "-j", FAKE_CONNS=2, FAKE_INTR=3)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(json.loads(done.stdout)) == 2
    done = xway("conn", "-j", FAKE_CONNS=2, FAKE_INTR=100)
    assert "it changes all the time" in done.stderr
    assert len(json.loads(done.stdout)) == 2


def test_extended_ack(xway):
    done = xway("local", "add", "127.0.0.0/8", FAKE_DENY="prefix overlaps another one")
    assert (done.returncode, done.stderr) == (
        1,
        "xway: local add 127.0.0.0/8: prefix overlaps another one (Invalid argument)\n",
    )
    done = xway("on", FAKE_DENY="")
    assert (done.returncode, done.stderr) == (1, "xway: cannot turn it on: only root may (CAP_NET_ADMIN)\n")
    assert xway("off", FAKE_DENY="busy").stderr == ("xway: cannot turn it off: busy (Invalid argument)\n")


def test_local(xway):
    """The fake checks lengths and widths of what arrives."""
    for prefix in ["127.0.0.0/8", "fd00::1", "fd00::1/128"]:
        for verb in ["add", "del"]:
            done = xway("local", verb, prefix)
            assert (done.returncode, done.stderr) == (0, ""), prefix
    assert xway("local", "add", "10.0.0.1").returncode == 1


@pytest.mark.parametrize(
    "args",
    [
        ["nonsense"],
        ["o"],
        ["conn", "extra"],
        ["on", "--wait", "3"],
        ["off", "--wait", "x"],
        ["off", "--wait", "-1"],
        ["off", "--wait", "99999999999999999999"],
        ["off", "--wait"],
        ["--nonsense"],
        ["local"],
        ["local", "add"],
        ["local", "put", "10.0.0.1"],
        ["local", "add", "10.0.0.1/33"],
        ["local", "add", "10.0.0.1/"],
        ["local", "add", "10.0.0"],
        ["local", "add", "fd00::/129"],
        ["local", "add", "fd00::/-1"],
        ["local", "add", "x" * 500],
        ["help", "me"],
        [""],
    ],
)
def test_usage(xway, args):
    done = xway(*args)
    assert done.returncode == 2
    assert "xway help" in done.stderr
    assert done.stdout == ""


def test_help_tells_every_command(xway):
    text = xway("help").stdout
    for command in "show peer conn stats on off holders local version help".split():
        assert re.search(rf"^  {command}\b", text, re.M)
    assert xway("--help").stdout == text


def test_version(xway):
    assert json.loads(xway("version", "-j").stdout) == {"version": "test", "module": "0.7"}
    done = xway("version", FAKE_ABSENT=1)
    assert (done.returncode, done.stdout) == (0, "xway test, module not loaded\n")


def test_on(xway):
    assert (xway("on").returncode, xway("on").stdout) == (0, "")
    assert json.loads(xway("on", "-j").stdout) == {"on": True}


def test_off_waits(xway):
    begin = time.monotonic()
    done = xway("off", FAKE_CONNS=10)
    assert done.returncode == 0
    assert "modprobe -r xway" in done.stdout
    assert 0.3 < time.monotonic() - begin < 5
    assert json.loads(xway("off", "-j", FAKE_CONNS=1).stdout) == {
        "on": False,
        "attached": 0,
        "held": 0,  # its old name
        "holders": [],
    }


def test_off_tells_who_holds(xway):
    with socket.socket() as held:
        inode = os.fstat(held.fileno()).st_ino
        begin = time.monotonic()
        done = xway("off", "--wait", "1", FAKE_CONNS=3, FAKE_STUCK=2, FAKE_INODE=inode)
        assert 0.9 < time.monotonic() - begin < 5
        assert done.returncode == 3
        assert done.stderr == "xway: off, but 2 connections still attached:\n"
        assert f"socket {inode}, 10.0.0.1:40000 10.0.0.1:80, peer xen:7, open\n" in done.stdout
        assert re.search(rf"process {os.getpid()} \(.+\), descriptor {held.fileno()}\n", done.stdout)
        assert "no process: it is closed" in done.stdout

        done = xway("off", "--wait", "0", "-j", FAKE_CONNS=1, FAKE_STUCK=1, FAKE_INODE=inode)
        assert done.returncode == 3
        off = json.loads(done.stdout)
        assert off["attached"] == 1
        assert {"pid": os.getpid(), "fd": held.fileno()}.items() <= (
            off["holders"][0]["processes"][0].items()
        )


def test_off_shows_progress(programs):
    terminal, its = pty.openpty()
    off = subprocess.Popen(
        [programs / "xway_test", "off", "--wait", "2"],
        stderr=its,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "FAKE_CONNS": "1", "FAKE_STUCK": "1"},
    )
    os.close(its)
    shown = b""
    while True:
        try:
            more = os.read(terminal, 4096)
        except OSError:
            break
        if not more:
            break
        shown += more
    os.close(terminal)
    assert off.wait() == 3
    assert b"waiting for 1 connection to fall back to TCP" in shown


def test_holders(xway):
    with socket.socket() as held:
        inode = os.fstat(held.fileno()).st_ino
        conns = json.loads(xway("holders", "-j", FAKE_CONNS=1, FAKE_INODE=inode).stdout)
        (process,) = conns["connections"][0]["processes"]
        assert process["pid"] == os.getpid()
        assert process["command"] == Path("/proc/self/comm").read_text().strip()
    assert xway("holders").stdout == "no connection is attached\n"


def test_full_output(programs):
    with open("/dev/full", "w") as full:
        done = subprocess.run([programs / "xway_test"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert b"xway: cannot write: No space left on device" in done.stderr


@pytest.mark.parametrize("command", ["show", "peer", "conn", "net", "stats", "holders", "off"])
def test_random_attributes(programs, run, command):
    """Whatever the kernel sends: an answer, and no access out of bounds."""
    for seed in range(1, 40):
        for json_ in [[], ["-j"]]:
            args = [command, *json_] + (["--wait", "0"] if command == "off" else [])
            done = run(programs / "xway_test", *args, FAKE_RANDOM=seed)
            assert done.returncode in (0, 1, 3), done.stderr
            assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr
            if json_ and done.returncode != 1:
                json.loads(done.stdout)
