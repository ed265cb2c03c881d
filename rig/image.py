"""The images: one read-only root for every domain, the kernels, Xen, and the small start-up archives.

All of it lies in the cache, in folders named by a hash of what went in.
"""

import gzip
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path

from rig import kernels, packages
from rig.errors import RigError
from rig.host import run
from rig.paths import GUESTFS, cache
from rig.progress import Step

KERNELS = ("6.12", "6.1")

# Modules that the start-up archive loads, by role.
START_MODULES = {
    "plain": ["virtio_pci", "virtio_blk", "squashfs", "overlay"],
    "dom0": ["virtio_pci", "virtio_blk", "squashfs", "overlay"],
    "guest": ["xen-blkfront", "squashfs", "overlay"],
}

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
ln -sf /usr/lib/xen-4.17/bin/xl "$1/usr/local/sbin/xl"
rm -rf "$1"/usr/share/doc/* "$1"/usr/share/man/* "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/*
"""


@dataclass(frozen=True)
class Base:
    """A folder of the cache with root.sqfs, xen.elf, vmlinux-KERNEL and modules/KERNEL."""

    folder: Path
    releases: dict[str, str]

    @property
    def root(self) -> Path:
        return self.folder / "root.sqfs"

    @property
    def xen(self) -> Path:
        return self.folder / "xen.elf"

    def vmlinux(self, kernel: str) -> Path:
        return self.folder / f"vmlinux-{kernel}"

    def modules(self, kernel: str) -> Path:
        return self.folder / "modules" / kernel / "lib/modules" / self.releases[kernel]


@dataclass(frozen=True)
class Start:
    """A folder of the cache with initrd-KERNEL and boot.sqfs, the disk of kernels for domain 0."""

    folder: Path

    def initrd(self, kernel: str) -> Path:
        return self.folder / f"initrd-{kernel}"

    @property
    def boot_disk(self) -> Path:
        return self.folder / "boot.sqfs"


def _hash(*parts: object) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:16]


@contextmanager
def _making(folder: Path) -> Iterator[Path | None]:
    """Give an empty folder to fill, which becomes `folder` at the end; None if that is there already.

    Several rigs may start at once: one makes it, the others wait.
    """
    if folder.exists():
        yield None
        return
    with open(folder.parent / f".{folder.name}.lock", "w") as lock:
        flock(lock, LOCK_EX)
        if folder.exists():
            yield None
            return
        work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            yield work
            work.chmod(0o755)
            work.rename(folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _make_root(work: Path, modules: list[Path]) -> None:
    """Make root.sqfs from Debian's packages and the modules under the roots `modules`."""
    hook = work / "customize"
    hook.write_text("#!/bin/sh\n" + CUSTOMIZE)
    hook.chmod(0o755)
    tar = work / "root.tar"
    hooks = ["--customize-hook=mkdir -p \"$1/usr/lib/modules\""]
    hooks += [f"--customize-hook=sync-in {root}/lib/modules /usr/lib/modules" for root in modules]
    with Step("making the guests' Debian image"):
        run(
            [
                "mmdebstrap",
                "--mode=auto",
                "--variant=essential",
                "--format=tar",
                f"--include={','.join(packages.GUEST_PACKAGES)}",
                "--dpkgopt=path-exclude=/usr/share/man/*",
                "--dpkgopt=path-exclude=/usr/share/doc/*",
                "--dpkgopt=path-exclude=/usr/share/locale/*",
                *[
                    f"--aptopt={option}"
                    for option in run(["apt-config", "dump"]).splitlines()
                    if option.startswith("Acquire::Check-")
                ],
                *hooks,
                f"--customize-hook={hook}",
                "bookworm",
                tar,
            ],
            env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"},
        )
    # Not compressed: an emulated CPU reads it faster, and the host has the room.
    plain = ["-noI", "-noD", "-noF", "-noX", "-no-xattrs", "-no-fragments", "-quiet", "-no-progress"]
    run(["sh", "-c", 'mksquashfs - "$1" -tar "${@:3}" < "$2"'.replace('"${@:3}"', " ".join(plain)),
         "sh", work / "root.sqfs", tar])
    tar.unlink()
    hook.unlink()


def base() -> Base:
    """Return Xen, kernels and the root image, made first if the cache has none for today's packages."""
    packages.look_up([*packages.GUEST_PACKAGES, packages.XEN_PACKAGE])
    packages.look_up(packages.KERNEL_PACKAGES.values())
    versions = {name: packages.version(name) for name in packages.GUEST_PACKAGES}
    images = {kernel: packages.kernel_image_package(kernel) for kernel in KERNELS}
    releases = {kernel: packages.kernel_release(kernel) for kernel in KERNELS}
    key = _hash(
        versions,
        {name: packages.version(name) for name in images.values()},
        packages.version(packages.XEN_PACKAGE),
        CUSTOMIZE,
        Path(kernels.__file__).read_bytes(),
        Path(__file__).read_bytes().split(b"def base()")[0].split(b"def _make_root")[1],
    )
    folder = cache() / f"base-{key}"
    with _making(folder) as work:
        if work:
            with Step("unpacking Xen and the kernels"):
                packages.unpack(packages.XEN_PACKAGE, work / "xen")
                xen = next((work / "xen/boot").glob("xen-*-amd64.gz"))
                (work / "xen.elf").write_bytes(gzip.decompress(xen.read_bytes()))
                shutil.rmtree(work / "xen")
                for kernel in KERNELS:
                    tree = work / f"kernel-{kernel}"
                    packages.unpack(images[kernel], tree)
                    kernels.elf_of_bzimage(
                        next((tree / "boot").glob("vmlinuz-*")), work / f"vmlinux-{kernel}"
                    )
                    kernels.prune_modules(tree, work / "modules" / kernel, releases[kernel])
                    shutil.rmtree(tree)
            _make_root(work, [work / "modules" / kernel for kernel in KERNELS])
            (work / "releases.json").write_text(json.dumps(releases))
    return Base(folder, releases)


def _cpio(entries: list[tuple[str, int, bytes]]) -> bytes:
    """Return an initramfs archive (cpio, "newc") of (path, mode, content)."""
    out = bytearray()
    for number, (path, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        name = path.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
        out += b"070701" + b"".join(b"%08X" % field for field in fields) + name
        out += b"\0" * (-len(out) % 4) + content
        out += b"\0" * (-len(out) % 4)
    return bytes(out)


def _initrd(made: Base, kernel: str, agent: bytes, hosts: str) -> bytes:
    """Return the start-up archive for `kernel`: busybox, modules for the root, and the rig's files."""
    busybox = Path("/bin/busybox").read_bytes()
    if b"\x7fELF" != busybox[:4]:
        raise RigError("/bin/busybox is not a program (package busybox-static)")
    entries = [(name, 0o040755, b"") for name in ("bin", "modules", "rig")]
    entries += [
        ("init", 0o100755, (GUESTFS / "initramfs-init").read_bytes()),
        ("bin/busybox", 0o100755, busybox),
        ("rig/busybox", 0o100755, busybox),
        ("rig/agent", 0o100755, agent),
        ("rig/hosts", 0o100644, hosts.encode()),
    ]
    for name in ("setup", "dom0", "vif-rig", "block-rig"):
        entries.append((f"rig/{name}", 0o100755, (GUESTFS / name).read_bytes()))
    every: list[str] = []
    for role, names in START_MODULES.items():
        order = kernels.load_order(made.modules(kernel), names)
        every += [path for path in order if path not in every]
        text = "".join(Path(path).name + "\n" for path in order)
        entries.append((f"modules/{role}.list", 0o100644, text.encode()))
    for path in every:
        content = (made.modules(kernel) / path).read_bytes()
        entries.append((f"modules/{Path(path).name}", 0o100644, content))
    return _cpio(entries)


def start(made: Base, hosts: str) -> Start:
    """Return the start-up archives that go with `made`; `hosts` becomes /etc/hosts everywhere."""
    files = [(path.name, path.read_bytes()) for path in sorted(GUESTFS.iterdir())]
    busybox = Path("/bin/busybox").read_bytes()
    key = _hash(made.folder.name, files, busybox, hosts, START_MODULES, Path(__file__).read_bytes())
    folder = cache() / f"start-{key}"
    with _making(folder) as work:
        if work:
            with Step("making the start-up archives"):
                agent = work / "agent"
                run(["gcc", "-O2", "-static", "-o", agent, GUESTFS / "agent.c"])
                disk = work / "boot"
                disk.mkdir()
                for kernel in KERNELS:
                    initrd = work / f"initrd-{kernel}"
                    initrd.write_bytes(_initrd(made, kernel, agent.read_bytes(), hosts))
                    shutil.copyfile(initrd, disk / initrd.name)
                    shutil.copyfile(made.vmlinux(kernel), disk / made.vmlinux(kernel).name)
                plain = ["-noI", "-noD", "-noF", "-noX", "-quiet", "-no-progress"]
                run(["mksquashfs", disk, work / "boot.sqfs", *plain])
                shutil.rmtree(disk)
    return Start(folder)
