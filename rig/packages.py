"""Packages of Debian 12, whatever the host is: versions that are offered, downloading and unpacking them.

All that goes into the rig comes from them, but for the newest kernel, which is a backport for Debian 13. A
host that is Debian 12 itself has its own package lists; of Debian 13, and on other hosts, the rig has some in
the cache, from the mirror of the host's Debian.
"""

import contextlib
import functools
import os
import platform
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rig.errors import RigError
from rig.host import apt_alone, run
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


@dataclass(frozen=True)
class Release:
    """A release of Debian. backports: its backports are offered, too, and before its own packages."""

    name: str
    backports: bool = False


# What runs in the rig, and what has the newest kernel
OURS = Release("bookworm")
NEWER = Release("trixie", backports=True)


@dataclass(frozen=True)
class Kernel:
    """A kernel of Debian's: the packages that depend on its newest image and headers, and their release."""

    image: str
    headers: str
    of: Release = OURS


# As named on the command line
KERNELS = {
    "6.12": Kernel("linux-image-6.12-amd64", "linux-headers-6.12-amd64"),
    "6.1": Kernel("linux-image-amd64", "linux-headers-amd64"),
    "newest": Kernel("linux-image-amd64", "linux-headers-amd64", NEWER),
}
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Where Debian's security updates are, for a host that does not say.
SECURITY = "http://security.debian.org/debian-security"
HOST_LISTS = Path("/var/lib/apt/lists")
XEN_PACKAGE = "xen-hypervisor-4.17-amd64"
KERNEL_SOURCE = "linux-source-6.12"


_known: dict[tuple[Release, str], dict[str, str]] = {}


@functools.cache
def host_is_ours() -> bool:
    """Tell whether the host is of the release that the rig's packages are of."""
    with contextlib.suppress(OSError):
        return platform.freedesktop_os_release().get("VERSION_CODENAME") == OURS.name
    return False


def _host_targets() -> list[tuple[str, str, str]]:
    """Return (address, release, component) of the host's package sources that are Debian's."""
    form = "$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)"
    found = []
    for entry in run(["apt-get", "indextargets", "--format", form, "Created-By: Packages"]).splitlines():
        origin, *target = entry.split("|")
        if origin == "Debian":
            found.append((target[0], target[1], target[2]))
    return list(dict.fromkeys(found))


def sources(of: Release = OURS) -> str:
    """Return the sources of a release's packages, in the form of sources.list.

    On a host of the rig's release they are its own for that, else those of the release on the host's mirrors.
    """
    targets = _host_targets()
    if not targets and os.geteuid() == 0:
        with apt_alone():
            run(["apt-get", "update"])
        targets = _host_targets()
    if not targets:
        raise RigError("this host has no package source of Debian (/etc/apt/sources.list; apt-get update)")
    if of != OURS or not host_is_ours():
        kinds = {release.endswith("-security"): uri for uri, release, _ in reversed(targets)}
        if False not in kinds:
            raise RigError("this host has no package source of Debian but for security updates")
        parts = ["", "-updates", "-backports"] if of.backports else ["", "-updates"]
        targets = [(kinds[False], of.name + part, "main") for part in parts]
        targets.append((kinds.get(True, SECURITY), f"{of.name}-security", "main"))
    return "".join(f"deb [signed-by={KEYRING}] {' '.join(target)}\n" for target in targets)


def _apt_options(folder: Path, text: str, preferred: str = "") -> list[str]:
    """Return options of apt's that have it read the sources `text` alone and keep its lists in `folder`.

    What the host has installed, or prefers, does not matter then: packages of the source `preferred` do.
    """
    (folder / "lists/partial").mkdir(parents=True, exist_ok=True)
    files = {"sources.list": text, "status": ""}
    for name, content in files.items():
        place = folder / name
        if not place.exists() or place.read_text() != content:
            place.write_text(content)
    settings = {
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "Dir::State": folder,
        "Dir::State::Lists": folder / "lists",
        "Dir::State::Status": folder / "status",
        "Dir::Cache": folder,
        "Acquire::Languages": "none",
        "APT::Default-Release": preferred,
        "APT::Sandbox::User": "root",
    }
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def _lists(of: Release) -> Path:
    """Return the folder of a release's package lists: the host's own, or one in the cache."""
    if of != OURS:
        return cache_dir() / f"apt-{of.name}/lists"
    return HOST_LISTS if host_is_ours() else cache_dir() / "apt/lists"


@functools.cache
def _options(of: Release) -> list[str]:
    """Return the options with which apt knows a release's packages: none, if the host's lists have them."""
    lists = _lists(of)
    preferred = f"{of.name}-backports" if of.backports else ""
    return [] if lists == HOST_LISTS else _apt_options(lists.parent, sources(of), preferred)


def _update(of: Release, older_than: float = 0.0) -> bool:
    """Read the package lists anew if the last time was more than `older_than` seconds ago; return whether.

    The host's lists are root's; as another user nothing is done about them.
    """
    lists = _lists(of)
    if lists == HOST_LISTS and os.geteuid() != 0:
        return False
    options = _options(of)
    # apt-get update touches this, even where it finds no list changed.
    updated = lists / "partial"
    with apt_alone():
        # Looked at under the lock: who waited for it finds them new.
        known = updated.exists() and any(lists.glob("*_Packages*"))
        if known and time.time() - updated.stat().st_mtime < older_than:
            return False
        with Step(f"reading the package lists of {of.name} anew"):
            run(["apt-get", *options, "update"])
    return True


def look_up(names: Iterable[str], of: Release = OURS) -> None:
    """Read the records of the packages `names`, of the versions that apt would install, in one go."""
    wanted = [name for name in names if (of, name) not in _known]
    for update in (False, True):
        if update and wanted:
            _update(of)
        if not wanted:
            return
        done = subprocess.run(
            ["apt-cache", *_options(of), "show", "--no-all-versions", *wanted],
            capture_output=True,
            text=True,
            check=False,
        )
        for text in done.stdout.split("\n\n"):
            fields = dict(re.findall(r"^([A-Za-z0-9-]+): (.*)$", text, re.MULTILINE))
            if "Package" in fields:
                _known.setdefault((of, fields["Package"]), fields)
        wanted = [name for name in wanted if (of, name) not in _known]
    if wanted:
        raise RigError(f"not in the package lists of {of.name} (apt-get update?): {' '.join(wanted)}")


def refresh(*releases: Release, older_than: float = 3600.0) -> None:
    """Read package lists anew if the last time was more than `older_than` seconds ago.

    Those of the rig's release, and of `releases`. What is in an old list may be gone from where it is
    downloaded.
    """
    for release in (OURS, *releases):
        if _update(release, older_than):
            _known.clear()


def _record(package: str, of: Release) -> dict[str, str]:
    look_up([package], of)
    return _known[of, package]


def version(package: str, of: Release = OURS) -> str:
    """Return the version of `package` that is offered."""
    return _record(package, of)["Version"]


def depends(package: str, of: Release = OURS) -> list[str]:
    """Return the names of the packages that `package` depends on, first alternatives only."""
    field = _record(package, of).get("Depends", "")
    return [re.split(r"[ |(:]", part.strip(), maxsplit=1)[0] for part in field.split(",") if part]


def closure(names: Iterable[str]) -> list[str]:
    """Return the packages `names` and all that these depend on, first alternatives only."""
    found: list[str] = []
    wanted = list(names)
    while wanted:
        look_up(wanted)
        found += wanted
        needed = dict.fromkeys(name for package in wanted for name in depends(package))
        wanted = [name for name in needed if name not in found]
    return sorted(found)


def _newest(package: str, of: Release, prefix: str) -> str:
    """Return the package that `package`, which always depends on the newest, depends on."""
    for name in depends(package, of):
        if name.startswith(prefix):
            return name
    raise RigError(f"{package} of {of.name} depends on no {prefix}*")


def kernel_release(kernel: str) -> str:
    """Return the newest release, as `uname -r` prints it, of one of KERNELS."""
    wanted = KERNELS[kernel]
    return _newest(wanted.image, wanted.of, "linux-image-").removeprefix("linux-image-")


def kernel_packages(kernel: str) -> dict[str, str]:
    """Return the packages with the newest release of one of KERNELS, and their versions.

    Debian 12 has all of it in one package; later ones have several, on which that depends.
    """
    release, of = kernel_release(kernel), KERNELS[kernel].of
    image = f"linux-image-{release}"
    names = [image, *(name for name in depends(image, of) if name.endswith(f"-{release}"))]
    look_up(names, of)
    return {name: version(name, of) for name in names}


def kernel_headers(kernel: str) -> list[str]:
    """Return the packages with the headers of one of KERNELS, the one with its Makefile first."""
    wanted = KERNELS[kernel]
    top = _newest(wanted.headers, wanted.of, "linux-headers-")
    parts = ("linux-headers-", "linux-kbuild-")
    return [top, *(name for name in depends(top, wanted.of) if name.startswith(parts))]


def download(package: str, of: Release = OURS) -> Path:
    """Return the .deb of `package` in the cache, downloading it if it is not there."""
    folder = cache_dir() / "debs"
    folder.mkdir(exist_ok=True)
    name = f"{package}_{version(package, of).replace(':', '%3a')}_*.deb"
    found = list(folder.glob(name))
    if not found:
        options = [*_options(of), "-o", "APT::Sandbox::User=root"]
        run(["apt-get", "download", "-q", *options, f"{package}={version(package, of)}"], cwd=folder)
        found = list(folder.glob(name))
    if not found:
        raise RigError(f"apt-get download {package} left no file {name}")
    return found[0]


def download_source(package: str) -> Path:
    """Return the upstream archive of the source of `package`, in the cache, downloading it if need be.

    It is of the newest version that can be had: mirrors do not always keep the sources of security updates.
    """
    source = _record(package, OURS).get("Source", package).split()[0]
    folder = cache_dir() / "sources"
    folder.mkdir(exist_ok=True)
    name = f"{source}_*.orig.tar.*[!c]"
    found = sorted(folder.glob(name))
    if found:
        return found[-1]
    with tempfile.TemporaryDirectory() as work, Step(f"downloading the source of {source}"):
        options = _apt_options(Path(work), sources().replace("deb [", "deb-src ["))
        run(["apt-get", "update", "-q", *options])
        records = run(["apt-cache", *options, "showsrc", "--only-source", source])
        for offered in re.findall(r"^Version: (.*)$", records, re.MULTILINE):
            words = ["source", "-q", "--download-only", "--tar-only", f"{source}={offered}"]
            with contextlib.suppress(RigError):
                run(["apt-get", *options, *words], cwd=folder)
                return next(folder.glob(name))
    raise RigError(f"apt-get source {source}: no archive can be had")


def unpack(package: str, folder: Path, of: Release = OURS) -> None:
    """Unpack `package`, without running its scripts, into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    run(["dpkg-deb", "-x", download(package, of), folder])


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
