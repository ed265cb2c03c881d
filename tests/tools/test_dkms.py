# SPDX-License-Identifier: GPL-2.0
"""For which kernels dkms builds the modules by itself, as dkms reads dkms.conf."""

import pathlib
import re

import pytest

CONF = pathlib.Path(__file__).resolve().parent.parent.parent / "dkms/dkms.conf"
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
