"""A root of Debian 13 with its compiler, to build modules for kernels of later releases than Debian 12.

Their headers bring programs that need a newer C library than Debian 12 has, and options of a newer compiler.
"""

import functools
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from rig import rootfs
from rig.host import run
from rig.packages import Archive
from rig.paths import TREE, cache, making
from rig.progress import Step

# Beside the compiler that the headers ask for; sparse is for tests/style, kmod for dkms.
PACKAGES = ("kmod", "libc6-dev", "make", "pahole", "sparse")

# $1: the root. Folders of the host, up to "--", are in it where they are on the host; then comes the command.
ENTER = """set -e
root=$1; shift
while [ "$1" != -- ]; do mkdir -p "$root$1"; mount --rbind "$1" "$root$1"; shift; done
shift
exec /usr/sbin/chroot "$root" "$@"
"""


@functools.cache
def _root(archive: Archive, compiler: str) -> Path:
    """Return the root, made if the cache has none with this compiler, of whatever version."""
    names = [compiler, *PACKAGES]
    key = hashlib.sha256(repr(names).encode()).hexdigest()[:12]
    folder = cache() / f"buildroot-{archive.codename}-{key}"
    with making(folder) as work:
        if work:
            archive.refresh()
            with Step(f"making a root of {archive.codename} with {compiler}"):
                _make(work, archive, names)
    return folder


def _make(work: Path, archive: Archive, names: Iterable[str]) -> None:
    """Fill `work`. It belongs to who we are, also if that is not root."""
    tar = work / "root.tar"
    rootfs.debootstrap(archive, names, tar)
    run(["tar", "-C", work, "--no-same-owner", "--exclude=./dev/*", "-xf", tar])
    tar.unlink()


def command(archive: Archive, compiler: str, *places: Path) -> list[str]:
    """Return the words that run a command in a root with a compiler.

    It sees the tree, the cache and `places`. As another user than root that needs user namespaces.
    """
    own = [] if os.geteuid() == 0 else ["--map-root-user"]
    folders = [Path("/dev"), Path("/proc"), TREE, cache(), *places]
    root = _root(archive, compiler)
    return ["unshare", "--mount", *own, "sh", "-c", ENTER, "sh", *map(str, [root, *folders]), "--"]
