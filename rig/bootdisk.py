"""The disk that the firmware of an HVM guest starts: GRUB, and what it is to do.

QEMU can hand a kernel to the firmware by itself, but on Xen that goes byte by byte, each byte by way of
domain 0: minutes for a kernel. GRUB reads it from a disk.
"""

from pathlib import Path

from rig.host import need_packages, run
from rig.paths import cache, making
from rig.progress import Step

PACKAGES = ("grub-common", "grub-pc-bin")
PARTS = "/usr/lib/grub/i386-pc"
MODULES = ("biosdisk", "boot", "configfile", "linux", "squash4")
# Where on the disk, and how long, in sectors, the commands are; GRUB itself is before them.
PLACE = 2048
LENGTH = 16
SECTOR = 512


def disk(*commands: str) -> bytes:
    """Return a disk that has GRUB run `commands`. Disks of the guest are (hd0), this one, and so on."""
    text = "".join(f"{command}\n" for command in commands)
    return _grub().ljust(PLACE * SECTOR, b"\0") + text.ljust(LENGTH * SECTOR, "\n").encode()


def _grub() -> bytes:
    """Return the beginning of the disk."""
    need_packages(PACKAGES)
    version = run(["dpkg-query", "-W", "-f", "${Version}", "grub-pc-bin"])
    folder = cache() / f"grub-{version}"
    with making(folder) as work:
        if work:
            with Step("making a boot disk with GRUB"):
                (work / "commands").write_text(f"configfile (hd0){PLACE}+{LENGTH}\n")
                words = ["-O", "i386-pc", "-p", "(hd0)", "-c", work / "commands", "-o", work / "core"]
                run(["grub-mkimage", *words, *MODULES])
                boot = Path(PARTS, "boot.img").read_bytes()
                (work / "disk").write_bytes(boot + (work / "core").read_bytes())
    return (folder / "disk").read_bytes()
