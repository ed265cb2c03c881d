# SPDX-License-Identifier: GPL-2.0
"""The rpm packages hold what they must, and all that dkms needs."""

import re
import subprocess
from pathlib import Path

import pytest

from rig.host import need_packages

TOP = Path(__file__).resolve().parent.parent.parent
COMPLETIONS = "/usr/share/bash-completion/completions"
# Besides documents and licenses
FILES = {
    "xway": [
        "/usr/lib/NetworkManager/conf.d/xway-mmnet.conf",
        "/usr/lib/systemd/network/05-mmnet.network",
        "/usr/sbin/xway",
        f"{COMPLETIONS}/xway",
        "/usr/share/man/man8/xway.8",
    ],
    "xwayd": [
        "/etc/xway/xwayd.conf",
        "/usr/lib/systemd/system/xwayd.service",
        "/usr/sbin/xwayd",
        f"{COMPLETIONS}/xwayd",
        "/usr/share/man/man5/xwayd.conf.5",
        "/usr/share/man/man8/xwayd.8",
    ],
}


def output(*argv, cwd=None):
    """What a program prints. One that fails fails the test, with all that it said."""
    done = subprocess.run(argv, capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, f"{argv}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The packages by name, and the one of the source as "source"."""
    need_packages(["cpio", "rpm"])
    folder = tmp_path_factory.mktemp("rpm")
    output(TOP / "rpm/build", folder)
    found = {}
    for path in folder.glob("*.rpm"):
        name = output("rpm", "-qp", "--qf", "%{name}", path)
        found["source" if path.name.endswith(".src.rpm") else name] = path
    return found


def unpack(package, folder):
    output("sh", "-ec", 'rpm2cpio "$1" | cpio -idm --quiet', "sh", package, cwd=folder)
    return folder


def version():
    return re.match(r"xway \(([^)]*)\)", (TOP / "debian/changelog").read_text())[1]


def held(package):
    """The files of a package, without what every package has."""
    usual = re.compile(r"/usr/share/(doc|licenses)/|/usr/lib/(debug|\.build-id)(/|$)")
    lines = output("rpm", "-qp", "--qf", "[%{FILEMODES:perms} %{FILENAMES}\n]", package).splitlines()
    return [name for mode, name in map(str.split, lines) if mode[0] == "-" and not usual.match(name)]


def test_packages(made):
    assert set(made) == {"xway", "xwayd", "xway-dkms", "source"}
    for name, files in FILES.items():
        # Fedora and SUSE compress manual pages, Debian's rpm does not.
        assert sorted(file.removesuffix(".gz") for file in held(made[name])) == sorted(files)
        assert "/operating.md" in output("rpm", "-qpd", made[name])
    for name, arch in {"xway": "x86_64", "xwayd": "x86_64", "xway-dkms": "noarch"}.items():
        words = output("rpm", "-qp", "--qf", "%{version} %{arch}", made[name])
        assert words == f"{version()} {arch}"
    assert "/etc/xway/xwayd.conf" in output("rpm", "-qpc", made["xwayd"])
    assert "dkms" in output("rpm", "-qp", "--requires", made["xway-dkms"]).splitlines()
    scripts = output("rpm", "-qp", "--scripts", made["xway-dkms"])
    assert f"dkms install -m xway -v {version()} " in scripts
    assert f"dkms remove -m xway -v {version()} --all" in scripts


def test_program(made, tmp_path):
    program = unpack(made["xway"], tmp_path) / "usr/sbin/xway"
    assert output(program, "-V").startswith(f"xway {version()}, module ")


def test_modules_sources(made, tmp_path):
    """They are what test_dkms.py builds."""
    sources = unpack(made["xway-dkms"], tmp_path) / f"usr/src/xway-{version()}"
    same = tmp_path / "same"
    output(TOP / "dkms/install", version(), same)
    output("diff", "-r", same / f"usr/src/xway-{version()}", sources)
    assert held(made["xway-dkms"])[0] == "/usr/lib/modules-load.d/xway.conf"
    assert (tmp_path / "usr/lib/modules-load.d/xway.conf").read_text().splitlines()[-1] == "xway"


def test_source_builds(made, tmp_path):
    """As a guest's own distribution builds it; Debian lacks what makes packages of debugging information."""
    words = ["--nodeps", "--define", f"_topdir {tmp_path}", "--define", "debug_package %{nil}"]
    output("rpmbuild", "--rebuild", *words, made["source"])
    names = sorted(path.name.split(f"-{version()}")[0] for path in tmp_path.glob("RPMS/*/*.rpm"))
    assert names == ["xway", "xway-dkms", "xwayd"]
