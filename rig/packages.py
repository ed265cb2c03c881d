"""Debian packages: versions that the host's package sources offer, downloading and unpacking them."""

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from rig.errors import RigError
from rig.host import run, update_packages
from rig.paths import BUILD
from rig.paths import cache as cache_dir
from rig.progress import Step

# In every domain and the plain VM, one image for all.
GUEST_PACKAGES = (
    "bridge-utils conntrack curl ethtool gdb iperf3 iproute2 iptables iputils-ping kmod libasan8 "
    "libjansson4 libmnl0 libpython3.11-testsuite libtsan2 libubsan1 libxencall1 libxenevtchn1 "
    "libxengnttab1 libxenmisc4.17 libxenstore4 lsof netbase netcat-openbsd nftables nginx-light "
    "openssh-client openssh-server postgresql-15 procps psmisc python3 redis-server redis-tools socat "
    "sockperf strace tcpdump time wget xen-utils-4.17 xenstore-utils zstd"
).split()

# Besides those, in an image of its own: what the table of programs needs.
COMPAT_PACKAGES = (
    "apache2 busybox-static caddy cifs-utils etcd-client etcd-server file fio git haproxy inetutils-inetd "
    "inetutils-telnet inetutils-telnetd lftp libglib2.0-0 libmemcached-tools libnl-genl-3-200 libwrap0 lynx "
    "mariadb-client-core mariadb-server-core memcached mount nbd-client nbd-server nfs-common "
    "nfs-kernel-server nodejs nuttcp open-iscsi openjdk-17-jdk-headless openmpi-bin openssl "
    "php8.2-fpm php8.2-pgsql python3-grpcio python3-mpi4py rsync samba smbclient tcl tgt wrk"
).split()

# Sets of programs as named on the command line.
PROGRAMS = {"base": GUEST_PACKAGES, "compat": [*GUEST_PACKAGES, *COMPAT_PACKAGES]}

# Kernel as named on the command line -> package that depends on its newest release.
KERNEL_PACKAGES = {"6.12": "linux-image-6.12-amd64", "6.1": "linux-image-amd64"}
HEADER_PACKAGES = {"6.12": "linux-headers-6.12-amd64", "6.1": "linux-headers-amd64"}
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
XEN_PACKAGE = "xen-hypervisor-4.17-amd64"
KERNEL_SOURCE = "linux-source-6.12"


_known: dict[str, dict[str, str]] = {}


def look_up(names: Iterable[str]) -> None:
    """Read the records of the packages `names`, of the versions that apt would install, in one go."""
    wanted = [name for name in names if name not in _known]
    for update in (False, True):
        if update and wanted and os.geteuid() == 0:
            update_packages()
        if not wanted:
            return
        done = subprocess.run(
            ["apt-cache", "show", "--no-all-versions", *wanted],
            capture_output=True,
            text=True,
            check=False,
        )
        for text in done.stdout.split("\n\n"):
            fields = dict(re.findall(r"^([A-Za-z0-9-]+): (.*)$", text, re.MULTILINE))
            if "Package" in fields:
                _known.setdefault(fields["Package"], fields)
        wanted = [name for name in wanted if name not in _known]
    if wanted:
        raise RigError(f"not in this host's package lists (apt-get update?): {' '.join(wanted)}")


def refresh(older_than: float = 3600.0) -> None:
    """Read the package lists anew, as root, if the last time was more than `older_than` seconds ago.

    What is in an old list may be gone from where it is downloaded.
    """
    if os.geteuid() == 0 and update_packages(older_than):
        _known.clear()


def sources() -> str:
    """Return those of the host's package sources that are Debian's, in the form of sources.list."""
    form = "$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)"
    lines = []
    for entry in run(["apt-get", "indextargets", "--format", form, "Created-By: Packages"]).splitlines():
        origin, uri, release, component = entry.split("|")
        if origin == "Debian":
            lines.append(f"deb [signed-by={KEYRING}] {uri} {release} {component}\n")
    if not lines:
        raise RigError("this host has no package source of Debian (/etc/apt/sources.list; apt-get update)")
    return "".join(dict.fromkeys(lines))


def _record(package: str) -> dict[str, str]:
    look_up([package])
    return _known[package]


def version(package: str) -> str:
    """Return the version of `package` that the host's sources offer."""
    return _record(package)["Version"]


def depends(package: str) -> list[str]:
    """Return the names of the packages that `package` depends on, first alternatives only."""
    field = _record(package).get("Depends", "")
    return [re.split(r"[ |(:]", part.strip(), maxsplit=1)[0] for part in field.split(",") if part]


def kernel_image_package(kernel: str) -> str:
    """Return the package with the newest release of kernel "6.12" or "6.1"."""
    for name in depends(KERNEL_PACKAGES[kernel]):
        if name.startswith("linux-image-"):
            return name
    raise RigError(f"{KERNEL_PACKAGES[kernel]} names no kernel image")


def kernel_release(kernel: str) -> str:
    """Return the release, as `uname -r` prints it, of kernel "6.12" or "6.1"."""
    return kernel_image_package(kernel).removeprefix("linux-image-")


def download(package: str) -> Path:
    """Return the .deb of `package` in the cache, downloading it if it is not there."""
    folder = cache_dir() / "debs"
    folder.mkdir(exist_ok=True)
    name = f"{package}_{version(package).replace(':', '%3a')}_*.deb"
    found = list(folder.glob(name))
    if not found:
        options = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
        run(["apt-get", "download", "-q", *options, f"{package}={version(package)}"], cwd=folder)
        found = list(folder.glob(name))
    if not found:
        raise RigError(f"apt-get download {package} left no file {name}")
    return found[0]


def download_source(package: str) -> Path:
    """Return the upstream archive of the source of `package`, in the cache, downloading it if need be.

    It is of the newest version that can be had: mirrors do not always keep the sources of security updates.
    """
    source = _record(package).get("Source", package).split()[0]
    folder = cache_dir() / "sources"
    folder.mkdir(exist_ok=True)
    name = f"{source}_*.orig.tar.*[!c]"
    found = sorted(folder.glob(name))
    if found:
        return found[-1]
    with tempfile.TemporaryDirectory() as work, Step(f"downloading the source of {source}"):
        (Path(work) / "lists/partial").mkdir(parents=True)
        (Path(work) / "list").write_text(sources().replace("deb [", "deb-src ["))
        options = ["-o", f"Dir::Etc::SourceList={work}/list", "-o", "Dir::Etc::SourceParts=/dev/null"]
        options += ["-o", f"Dir::State::Lists={work}/lists", "-o", "APT::Sandbox::User=root"]
        run(["apt-get", "update", "-q", *options])
        records = run(["apt-cache", *options, "showsrc", "--only-source", source])
        for offered in re.findall(r"^Version: (.*)$", records, re.MULTILINE):
            words = ["source", "-q", "--download-only", "--tar-only", f"{source}={offered}"]
            with contextlib.suppress(RigError):
                run(["apt-get", *options, *words], cwd=folder)
                return next(folder.glob(name))
    raise RigError(f"apt-get source {source}: no archive can be had")


def unpack(package: str, folder: Path) -> None:
    """Unpack `package`, without running its scripts, into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    run(["dpkg-deb", "-x", download(package), folder])


def unpacked(package: str, *needed: str) -> Path:
    """Return a folder with a package that cannot be installed beside others, and with what it needs."""
    folder = BUILD / "packages" / package
    for name in (package, *needed):
        unpack(name, folder)
    return folder


def unpack_kernel_source(folder: Path, *words: str, strip: int = 1) -> None:
    """Unpack the kernel's source into `folder`.

    words: for tar, such as members or what to exclude; a member is KERNEL_SOURCE/PATH. strip: how many
    leading folders of each path are left out.
    """
    script = 'dpkg-deb --fsys-tarfile "$1" | tar xO "$2" | xz -dc -T0 | { shift 2; tar x "$@"; }'
    archive = f"./usr/src/{KERNEL_SOURCE}.tar.xz"
    where = ["-C", folder, f"--strip-components={strip}"]
    run(["sh", "-ec", script, "sh", download(KERNEL_SOURCE), archive, *where, *words])
