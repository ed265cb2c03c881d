"""Programs of the host that the rig needs, and running them."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path

from rig.errors import RigError
from rig.paths import cache
from rig.progress import Step

# What `rig up`, the build of the tree's own sources and the tests run on the host.
HOST_PACKAGES = (
    "qemu-system-x86",
    "mmdebstrap",
    "squashfs-tools",
    "busybox-static",
    "kmod",
    "zstd",
    "gcc",
    "gcc-12",
    "libc6-dev",
    "make",
    "libxen-dev",
    "libmnl-dev",
    "libjansson-dev",
    "pahole",  # modules of a kernel whose headers bring its types are built with theirs
    "pkg-config",
    "python3-pytest",
    "xz-utils",
)


def run(
    command: Sequence[str | os.PathLike[str]],
    *,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    input_text: str | None = None,
) -> str:
    """Run a program of the host and return its standard output; RigError with its output if it fails."""
    words = [os.fspath(word) for word in command]
    try:
        done = subprocess.run(
            words, cwd=cwd, env=env, input=input_text, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise RigError(f"cannot run {words[0]}: {error.strerror}") from error
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-30:])
        raise RigError(f"{' '.join(words)[:300]} failed with status {done.returncode}:\n{tail}")
    return done.stdout


def missing_packages(packages: Sequence[str] = HOST_PACKAGES) -> list[str]:
    """Return those of `packages` that are not installed on this host."""
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *packages],
        capture_output=True,
        text=True,
        check=False,
    )
    installed = {line.split()[0] for line in done.stdout.splitlines() if line.endswith(" installed")}
    return [package for package in packages if package not in installed]


@contextmanager
def apt_alone() -> Iterator[None]:
    """Keep other commands of the rig and the tests from running apt-get at the same time.

    apt-get fails where it finds another at work: it waits for dpkg's lock only, if asked to.
    """
    with open(cache() / ".apt.lock", "w") as lock:
        flock(lock, LOCK_EX)
        yield


def need_packages(packages: Sequence[str] = HOST_PACKAGES) -> None:
    """Make sure `packages` are installed: install them as root, else RigError naming them."""
    missing = missing_packages(packages)
    if not missing:
        return
    if os.geteuid() != 0:
        raise RigError(f"missing packages; as root: apt-get install {' '.join(missing)}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # Somebody else, such as unattended-upgrades, may be at work.
    apt = ["apt-get", "-o", "DPkg::Lock::Timeout=600"]
    install = [*apt, "install", "-y", "--no-install-recommends", *missing]
    with apt_alone(), Step(f"installing {' '.join(missing)}"):
        try:
            run(install, env=env)
        except RigError:  # package lists may be absent or old
            run([*apt, "update"], env=env)
            run(install, env=env)
