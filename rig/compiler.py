"""Compiles on the host what the rig's domains run.

On a host of the domains' own release its compiler does that by itself. On another, programs would come out
linked with libraries that the domains do not have; there the compiler is given the headers and libraries of
the domains' release, which are unpacked into the cache.
"""

import functools
import hashlib
import os
from pathlib import Path

from rig import packages
from rig.host import need_packages
from rig.paths import BUILD, cache, making
from rig.progress import Step

# Debian 12's, which its kernels are built with, too
GCC = "gcc-12"
LIBRARIES = ("libc6-dev", "libjansson-dev", "libmnl-dev", "libssl-dev", "liburing-dev", "libxen-dev")
MULTIARCH = "usr/lib/x86_64-linux-gnu"


def folder() -> Path:
    """Return where programs for the domains are built: in build/, apart from the host's if those differ."""
    return BUILD if packages.host_is_ours() else BUILD / packages.OURS.name


@functools.cache
def _libraries() -> Path:
    """Return a folder with headers and libraries as they lie in the root of a domain."""
    names = packages.closure(LIBRARIES)
    versions = repr([(name, packages.version(name)) for name in names])
    folder = cache() / f"libraries-{hashlib.sha256(versions.encode()).hexdigest()[:16]}"
    with making(folder) as work:
        if work:
            with Step(f"unpacking the libraries of {packages.OURS.name}"):
                for name in names:
                    packages.unpack(name, work)
                _keep_inside(work)
    return folder


def _keep_inside(root: Path) -> None:
    """Have the absolute links under `root` lead to what is there, not to the host's files."""
    for path in root.rglob("*"):
        if path.is_symlink() and path.readlink().is_absolute():
            target = root / path.readlink().relative_to("/")
            path.unlink()
            path.symlink_to(os.path.relpath(target, path.parent))


def command() -> list[str]:
    """Return the words that start the compiler for what goes into domains."""
    if packages.host_is_ours():
        return ["gcc"]
    need_packages([GCC])
    root = _libraries()
    # It looks into the folder of -B before the host's.
    return [GCC, f"--sysroot={root}", f"-B{root}/{MULTIARCH}/"]


def variables(subfolder: str) -> list[str]:
    """Return variables for make, to build for domains in a folder of folder(); none if that is as usual."""
    if packages.host_is_ours():
        return []
    places = f"{_libraries()}/{MULTIARCH}/pkgconfig"
    return [
        f"CC={' '.join(command())}",
        f"PKG_CONFIG=env PKG_CONFIG_LIBDIR={places} pkg-config",
        f"OUT={folder() / subfolder}",
    ]
