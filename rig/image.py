"""The images: one read-only root for every domain, the kernels, Xen, and the small start-up archives.

All of it lies in the cache, in folders named by a hash of what went in.
"""

import gzip
import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from rig import debugkernel, kernels, rootfs
from rig.debian import KERNELS, Debian
from rig.errors import RigError
from rig.host import run
from rig.paths import GUESTFS, cache, making
from rig.progress import Step

DEBUG = "debug"  # the kernel that is ours: see debugkernel

# Modules that the start-up archive loads, by role.
START_MODULES = {
    "plain": ["virtio_pci", "virtio_blk", "squashfs", "overlay"],
    "dom0": ["virtio_pci", "virtio_blk", "squashfs", "overlay"],
    "guest": ["xen-blkfront", "squashfs", "overlay"],
}


@dataclass(frozen=True)
class Base:
    """A folder of the cache with root.sqfs, xen.elf, vmlinux-KERNEL, vmlinuz-KERNEL and modules/KERNEL.

    debug: the tree of the kernel "debug", which is elsewhere and has no modules; None if it is not wanted.
    """

    folder: Path
    releases: dict[str, str]
    debug: Path | None = None

    @property
    def kernels(self) -> list[str]:
        """Names of the kernels."""
        return list(self.releases)

    @property
    def root(self) -> Path:
        """Root file system of every domain."""
        return self.folder / "root.sqfs"

    @property
    def xen(self) -> Path:
        """Xen, as QEMU starts it."""
        return self.folder / "xen.elf"

    def vmlinux(self, kernel: str) -> Path:
        """Return the bare kernel."""
        if kernel == DEBUG and self.debug:
            return self.debug / "vmlinux"
        return self.folder / f"vmlinux-{kernel}"

    def vmlinuz(self, kernel: str) -> Path:
        """Return the kernel as firmware starts it; of "debug" there is none."""
        return self.folder / f"vmlinuz-{kernel}"

    def modules(self, kernel: str) -> Path:
        """Return the folder of a kernel's modules, as /lib/modules/RELEASE in the image."""
        return self.folder / "modules" / kernel / "lib/modules" / self.releases[kernel]


@dataclass(frozen=True)
class Start:
    """A folder of the cache with initrd-KERNEL and boot.sqfs, the disk of kernels for domain 0."""

    folder: Path

    def initrd(self, kernel: str) -> Path:
        """Return the start-up archive for a kernel."""
        return self.folder / f"initrd-{kernel}"

    @property
    def boot_disk(self) -> Path:
        """Disk with the kernels and archives for domain 0's xl."""
        return self.folder / "boot.sqfs"


def _hash(*parts: object) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:16]


def _base_folder(debian: Debian, programs: str) -> Path:
    """Return the folder of the cache for the packages that the host's sources offer."""
    names = debian.programs(programs)
    debian.look_up(names)
    versions = {name: debian.archive.version(name) for name in [*names, debian.hypervisor]}
    images = {name: kernel.packages() for name, kernel in debian.kernels.items()}
    key = _hash(versions, images, Path(kernels.__file__).read_bytes(), Path(rootfs.__file__).read_bytes())
    return cache() / f"base{debian.number}-{key}"


def base(debian: Debian, programs: str = "base", kernel: str = KERNELS[0]) -> Base:
    """Return Xen, kernels and the root image, made first if the cache has none for today's packages.

    programs: which of debian.PROGRAMS the root has. kernel: the guests'; Debian's are there always.
    """
    debug = debugkernel.tree(debugkernel.XEN) if kernel == DEBUG else None
    folder = _base_folder(debian, programs)
    if not folder.exists():
        debian.refresh()
        folder = _base_folder(debian, programs)
    releases = {name: kernel.release() for name, kernel in debian.kernels.items()}
    with making(folder) as work:
        if work:
            with Step("unpacking Xen and the kernels"):
                debian.archive.unpack(debian.hypervisor, work / "xen")
                xen = next((work / "xen/boot").glob("xen-*-amd64.gz"))
                (work / "xen.elf").write_bytes(gzip.decompress(xen.read_bytes()))
                shutil.rmtree(work / "xen")
                for name, one in debian.kernels.items():
                    tree = work / f"kernel-{name}"
                    for package in one.packages():
                        one.archive.unpack(package, tree)
                    bzimage = kernels.arrange(tree, releases[name])
                    shutil.copyfile(bzimage, work / f"vmlinuz-{name}")
                    kernels.elf_of_bzimage(bzimage, work / f"vmlinux-{name}")
                    kernels.prune_modules(tree, work / "modules" / name, releases[name])
                    shutil.rmtree(tree)
            rootfs.make(debian, programs, work, [work / "modules" / name for name in releases])
    if debug:
        releases[DEBUG] = debugkernel.release(debug)
    return Base(folder, releases, debug)


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
    if busybox[:4] != b"\x7fELF":
        raise RigError("/bin/busybox is not a program (package busybox-static)")
    entries = [(name, 0o040755, b"") for name in ("bin", "modules", "rig")]
    entries += [
        ("init", 0o100755, (GUESTFS / "initramfs-init").read_bytes()),
        ("bin/busybox", 0o100755, busybox),
        ("rig/busybox", 0o100755, busybox),
        ("rig/agent", 0o100755, agent),
        ("rig/hosts", 0o100644, hosts.encode()),
    ]
    for name in ("setup", "dom0", "vif-bridge", "block-rig"):
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
    trees = [made.folder.name, made.debug and made.debug.name]
    key = _hash(trees, files, busybox, hosts, START_MODULES, Path(__file__).read_bytes())
    folder = cache() / f"start-{key}"
    with making(folder) as work:
        if work:
            with Step("making the start-up archives"):
                agent = work / "agent"
                run(["gcc", "-O2", "-static", "-o", agent, GUESTFS / "agent.c"])
                disk = work / "boot"
                disk.mkdir()
                for kernel in made.kernels:
                    initrd = work / f"initrd-{kernel}"
                    initrd.write_bytes(_initrd(made, kernel, agent.read_bytes(), hosts))
                    shutil.copyfile(initrd, disk / initrd.name)
                    shutil.copyfile(made.vmlinux(kernel), disk / f"vmlinux-{kernel}")
                    if kernel != DEBUG:
                        shutil.copyfile(made.vmlinuz(kernel), disk / f"vmlinuz-{kernel}")
                plain = ["-noI", "-noD", "-noF", "-noX", "-quiet", "-no-progress"]
                run(["mksquashfs", disk, work / "boot.sqfs", *plain])
                shutil.rmtree(disk)
    return Start(folder)
