"""Compiles on the host what the rig's domains run.

On a host of the domains' own release its compiler does that by itself. On another, programs would come out
linked with libraries that the domains do not have; there the compiler is given the headers and libraries of
the domains' release, which are unpacked into the cache.
"""

import functools
import hashlib
import os
from pathlib import Path

from rig.debian import Debian
from rig.host import need_packages
from rig.paths import BUILD, cache, making
from rig.progress import Step

# Debian 12's, which its kernels are built with, too
GCC = "gcc-12"
LIBRARIES = ("libc6-dev", "libjansson-dev", "libmnl-dev", "libssl-dev", "liburing-dev", "libxen-dev")
MULTIARCH = "usr/lib/x86_64-linux-gnu"


def folder(debian: Debian) -> Path:
    """Return where programs for the domains are built: in build/, apart from the host's if those differ."""
    return BUILD if debian.archive.is_hosts else BUILD / debian.archive.codename


@functools.cache
def _libraries(debian: Debian) -> Path:
    """Return a folder with headers and libraries as they lie in the root of a domain."""
    archive = debian.archive
    names = archive.closure(LIBRARIES)
    versions = repr([(name, archive.version(name)) for name in names])
    folder = cache() / f"libraries{debian.number}-{hashlib.sha256(versions.encode()).hexdigest()[:16]}"
    with making(folder) as work:
        if work:
            with Step(f"unpacking the libraries of Debian {debian.number}"):
                for name in names:
                    archive.unpack(name, work)
                for name in ("lib", "lib64"):  # Debian 13's packages have all in usr
                    if not (work / name).exists():
                        (work / name).symlink_to(f"usr/{name}")
                _keep_inside(work)
    return folder


def _keep_inside(root: Path) -> None:
    """Have the absolute links under `root` lead to what is there, not to the host's files."""
    for path in root.rglob("*"):
        if path.is_symlink() and path.readlink().is_absolute():
            target = root / path.readlink().relative_to("/")
            path.unlink()
            path.symlink_to(os.path.relpath(target, path.parent))


def command(debian: Debian) -> list[str]:
    """Return the words that start the compiler for what goes into domains."""
    if debian.archive.is_hosts:
        return ["gcc"]
    need_packages([GCC])
    root = _libraries(debian)
    # It looks into the folder of -B before the host's.
    return [GCC, f"--sysroot={root}", f"-B{root}/{MULTIARCH}/"]


def variables(debian: Debian, subfolder: str) -> list[str]:
    """Return variables for make, to build for domains in a folder of folder(); none if that is as usual."""
    if debian.archive.is_hosts:
        return []
    places = f"{_libraries(debian)}/{MULTIARCH}/pkgconfig"
    return [
        f"CC={' '.join(command(debian))}",
        f"PKG_CONFIG=env PKG_CONFIG_LIBDIR={places} pkg-config",
        f"OUT={folder(debian) / subfolder}",
    ]
