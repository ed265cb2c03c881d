"""A root of Debian 13 with its compiler, in which modules for the newest kernel are built.

Its headers bring programs that need a newer C library than Debian 12 has, and options of a newer compiler.
"""

import functools
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from rig import packages, rootfs
from rig.host import run
from rig.paths import TREE, cache, making
from rig.progress import Step

# Beside the compiler that the headers ask for; sparse is for tests/style.
PACKAGES = ("libc6-dev", "make", "pahole", "sparse")

# $1: the root. Folders of the host, up to "--", are in it where they are on the host; then comes the command.
ENTER = """set -e
root=$1; shift
while [ "$1" != -- ]; do mkdir -p "$root$1"; mount --rbind "$1" "$root$1"; shift; done
shift
exec /usr/sbin/chroot "$root" "$@"
"""


@functools.cache
def _root(compiler: str) -> Path:
    """Return the root, made if the cache has none with this compiler, of whatever version."""
    names = [compiler, *PACKAGES]
    key = hashlib.sha256(f"{packages.NEWER.name} {names}".encode()).hexdigest()[:12]
    folder = cache() / f"buildroot-{key}"
    with making(folder) as work:
        if work:
            packages.refresh(packages.NEWER)
            with Step(f"making a root of {packages.NEWER.name} with {compiler}"):
                _make(work, names)
    return folder


def _make(work: Path, names: Iterable[str]) -> None:
    """Fill `work`. It belongs to who we are, also if that is not root."""
    tar = work / "root.tar"
    rootfs.debootstrap(packages.NEWER, names, tar)
    run(["tar", "-C", work, "--no-same-owner", "--exclude=./dev/*", "-xf", tar])
    tar.unlink()


def command(*places: Path) -> list[str]:
    """Return the words that run a command in the root, which sees the tree, the cache and `places`.

    As another user than root that needs user namespaces.
    """
    names = packages.depends(packages.kernel_headers("newest")[0], packages.NEWER)
    compiler = next(name for name in names if name.startswith("gcc-"))
    own = [] if os.geteuid() == 0 else ["--map-root-user"]
    folders = [Path("/dev"), Path("/proc"), TREE, cache(), *places]
    return ["unshare", "--mount", *own, "sh", "-c", ENTER, "sh", *map(str, [_root(compiler), *folders]), "--"]
