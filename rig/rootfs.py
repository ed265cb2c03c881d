"""Makes roots from Debian's packages: the image that every domain has, and one for buildroot."""

import os
from collections.abc import Iterable
from pathlib import Path

from rig.debian import Debian
from rig.host import run
from rig.packages import Archive
from rig.progress import Step

# Run in the image's root at the end of its making: a key that root of every domain has and trusts.
CUSTOMIZE = r"""set -e
mkdir -p "$1/rig" "$1/root/.ssh" "$1/etc/xway" "$1/etc/ssh/sshd_config.d"
chmod 700 "$1/root/.ssh"
chroot "$1" ssh-keygen -q -t ed25519 -N "" -f /root/.ssh/id_ed25519
cp "$1/root/.ssh/id_ed25519.pub" "$1/root/.ssh/authorized_keys"
echo "StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR" > "$1/root/.ssh/config"
echo "PermitRootLogin yes" > "$1/etc/ssh/sshd_config.d/rig.conf"
cd "$1/usr/lib"; ln -s xen-4.* xen; ln -s /usr/lib/xen/bin/xl ../local/sbin/xl
rm -rf "$1"/usr/share/doc/* "$1"/usr/share/man/* "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/*
"""


def debootstrap(archive: Archive, names: Iterable[str], tar: Path, *words: str) -> None:
    """Make an archive of a root with the packages `names`; words: more for mmdebstrap."""
    checks = [line for line in run(["apt-config", "dump"]).splitlines() if line.startswith("Acquire::Check-")]
    unwanted = ("man", "doc", "locale")
    run(
        [
            "mmdebstrap",
            "--mode=auto",
            "--variant=essential",
            "--format=tar",
            f"--include={','.join(names)}",
            *(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in unwanted),
            *(f"--aptopt={check}" for check in checks),
            *words,
            archive.codename,
            tar,
            "-",
        ],
        input_text=archive.sources(),
        env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"},
    )


def make(debian: Debian, programs: str, work: Path, modules: list[Path]) -> None:
    """Make root.sqfs in `work` from a set of programs and the modules under the roots `modules`."""
    tar = work / "root.tar"
    # Java's packages insist on a folder for manuals.
    hooks = ['--essential-hook=mkdir -p "$1/usr/share/man/man1"']
    hooks += ['--customize-hook=mkdir -p "$1/usr/lib/modules"']
    hooks += [f"--customize-hook=sync-in {root}/lib/modules /usr/lib/modules" for root in modules]
    with Step("making the guests' Debian image"):
        names = debian.programs(programs)
        debootstrap(debian.archive, names, tar, *hooks, f"--customize-hook={CUSTOMIZE}")
    # Not compressed: an emulated CPU reads it faster, and the host has the room.
    plain = ["-noI", "-noD", "-noF", "-noX", "-no-xattrs", "-no-fragments", "-quiet", "-no-progress"]
    squash = f'mksquashfs - "$1" -tar {" ".join(plain)} < "$2"'
    run(["sh", "-c", squash, "sh", work / "root.sqfs", tar])
    tar.unlink()
