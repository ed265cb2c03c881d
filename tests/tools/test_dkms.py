# SPDX-License-Identifier: GPL-2.0
"""dkms builds the modules, and for which kernels it does so by itself."""

import os
import pathlib
import re
import subprocess

import pytest

from rig import build, compiler
from rig.debian import DEBIANS
from rig.host import need_packages
from rig.packages import BOOKWORM, TRIXIE, host_codename

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
CONF = TOP / "dkms/dkms.conf"
VERSION = "9.9"
MODULES = {"xway_core", "xway", "mmnet"}
# dkms 3.0 asks with a kernel that it has built for, while it is to build for another one.
DKMS = r"""
safe_source() {
	( . "$1" >/dev/null && echo "$AUTOINSTALL" )
}
read_conf() {
	local kernelver="$1"

	safe_source "$2"
}
kernelver=("$1")
autoinstall() {
	read_conf "$2" "$3"
}
autoinstall "$@"
"""


def newest():
    return re.search(r'^NEWEST_TESTED="(\d+)\.(\d+)"$', CONF.read_text(), re.M).groups()


def beyond():
    major, minor = map(int, newest())
    return [f"{major}.{minor + 1}.0-amd64", f"{major + 1}.0.1+deb14-amd64"]


BUILT = ["6.1.0-56-amd64", "6.12.117+deb12-amd64", "6.20.1", "7.0.0", ".".join(newest()) + ".4+deb13-amd64"]
LEFT = ["5.10.0-30-amd64", "6.0.12", "4.19.0+1", *beyond(), "10.1.0", "strange"]


@pytest.mark.parametrize("before", [None, "", "6.12.117+deb12-amd64", "99.1.0"])
@pytest.mark.parametrize("kernel", BUILT + LEFT)
def test_built_by_itself(run, kernel, before):
    """With a kernel that it does not fit, dkms would fail, and the kernel's own installation with it."""
    done = run("bash", "-c", DKMS, "dkms", kernel, kernel if before is None else before, CONF)
    assert (done.stdout.strip(), done.stderr) == ("yes" if kernel in BUILT else "", "")


def test_built_as_it_is_installed(run):
    """The installation of the package asks with no kernel, whether there is any such one."""
    assert run("bash", "-c", f"AUTOINSTALL=; . '{CONF}' >/dev/null 2>&1; echo $AUTOINSTALL").stdout == "yes\n"


def test_newest_is_in_the_documents():
    porting = (CONF.parent.parent / "doc/porting.md").read_text()
    operating = (CONF.parent.parent / "doc/operating.md").read_text()
    assert "NEWEST_TESTED" in porting
    assert f"newer than {'.'.join(newest())}" in operating


class Dkms:
    """Debian's dkms, with folders of its own: what it keeps, the sources, the modules of kernels."""

    def __init__(self, folder):
        self.folder = folder
        self.settings = folder / "framework.conf"
        (folder / "dkms").mkdir()
        subprocess.run([TOP / "dkms/install", VERSION, folder], check=True)
        self("add", f"xway/{VERSION}")

    def __call__(self, *words, debian="12", kernel="6.12"):
        """Run it where the kernel's modules are built; give its exit status and what it said."""
        # Its own settings, so that it makes its key here
        self.settings.write_text(
            f"dkms_tree={self.folder}/dkms\nsource_tree={self.folder}/usr/src\n"
            f"install_tree={self.folder}/modules\nmok_signing_key={self.folder}/mok.key\n"
            f"mok_certificate={self.folder}/mok.pub\n"
            f"sign_file={build.headers(DEBIANS[debian], kernel)}/scripts/sign-file\n"
        )
        make = build.make(DEBIANS[debian], kernel, self.folder)
        where = make[: make.index("make")]
        archive = TRIXIE if where or host_codename() == TRIXIE.codename else BOOKWORM
        script = self.folder / archive.codename / "usr/sbin/dkms"
        if not script.exists():
            archive.unpack("dkms", self.folder / archive.codename)
            text = script.read_text().replace("/etc/dkms/framework.conf ", f"{self.settings} ")
            script.write_text(text)
        if not where and os.geteuid():
            where = ["unshare", "--map-root-user"]
        done = subprocess.run([*where, "bash", script, *words], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def install(self, debian, kernel):
        """Build for a kernel, and install."""
        release = build.kernel_release(DEBIANS[debian], kernel)
        (self.folder / "modules" / release).mkdir(parents=True)
        words = ["-k", release, "--kernelsourcedir", build.headers(DEBIANS[debian], kernel), "--no-depmod"]
        return self("install", f"xway/{VERSION}", *words, debian=debian, kernel=kernel)

    def modules(self, debian, kernel):
        """The modules that are installed for a kernel, by name."""
        folder = self.folder / "modules" / build.kernel_release(DEBIANS[debian], kernel)
        return {path.name.partition(".")[0]: path for path in folder.rglob("*.ko*")}

    def log(self):
        """What the last build said."""
        return (self.folder / f"dkms/xway/{VERSION}/build/make.log").read_text().splitlines()


def test_builds(tmp_path):
    """For the oldest and the newest kernel. One that fails says so, and leaves what there is."""
    need_packages([compiler.GCC, "kmod", "libelf1", "make", "openssl", "pahole"])
    dkms = Dkms(tmp_path)
    for debian, kernel in (("12", "6.1"), ("13", "newest")):
        status, said = dkms.install(debian, kernel)
        assert status == 0, said
        assert dkms.modules(debian, kernel).keys() == MODULES
    for path in dkms.modules("12", "6.1").values():
        done = subprocess.run(["modinfo", "-F", "signer", path], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "DKMS module signing key"
    header = tmp_path / f"usr/src/xway-{VERSION}/kernel/compat.h"
    header.write_text(header.read_text() + "#error as of a kernel that is too new\n")
    status, said = dkms.install("12", "6.12")
    assert status != 0 and "make.log" in said, said
    release = build.kernel_release(DEBIANS["12"], "6.12")
    line = f"xway {VERSION} does not build for Linux {release}: the kernel may be too new for it"
    assert [one for one in dkms.log() if one.startswith("xway ")] == [line]
    assert dkms.modules("12", "6.12").keys() == set()
    assert dkms.modules("12", "6.1").keys() == dkms.modules("13", "newest").keys() == MODULES
