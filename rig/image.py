"""The images: one read-only root for every domain, the kernels, Xen, and the small start-up archives.

All of it lies in the cache, in folders named by a hash of what went in.
"""

import gzip
import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from rig import debugkernel, kernels, packages, rootfs
from rig.errors import RigError
from rig.host import run
from rig.paths import GUESTFS, cache, making
from rig.progress import Step

KERNELS = tuple(packages.KERNELS)  # Debian's
DEBUG = "debug"  # ours: see debugkernel

# Modules that the start-up archive loads, by role.
START_MODULES = {
    "plain": ["virtio_pci", "virtio_blk", "squashfs", "overlay"],
    "dom0": ["virtio_pci", "virtio_blk", "squashfs", "overlay"],
    "guest": ["xen-blkfront", "squashfs", "overlay"],
}


@dataclass(frozen=True)
class Base:
    """A folder of the cache with root.sqfs, xen.elf, vmlinux-KERNEL and modules/KERNEL.

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


def _base_folder(programs: str) -> Path:
    """Return the folder of the cache for the packages that the host's sources offer."""
    names = packages.PROGRAMS[programs]
    packages.look_up([*names, packages.XEN_PACKAGE])
    versions = {name: packages.version(name) for name in names}
    key = _hash(
        versions,
        [packages.kernel_packages(kernel) for kernel in KERNELS],
        packages.version(packages.XEN_PACKAGE),
        Path(kernels.__file__).read_bytes(),
        Path(rootfs.__file__).read_bytes(),
    )
    return cache() / f"base-{key}"


def base(programs: str = "base", kernel: str = KERNELS[0]) -> Base:
    """Return Xen, kernels and the root image, made first if the cache has none for today's packages.

    programs: which of packages.PROGRAMS the root has. kernel: the guests'; Debian's are there always.
    """
    debug = debugkernel.tree(debugkernel.XEN) if kernel == DEBUG else None
    folder = _base_folder(programs)
    if not folder.exists():
        packages.refresh(packages.NEWER)
        folder = _base_folder(programs)
    releases = {kernel: packages.kernel_release(kernel) for kernel in KERNELS}
    with making(folder) as work:
        if work:
            with Step("unpacking Xen and the kernels"):
                packages.unpack(packages.XEN_PACKAGE, work / "xen")
                xen = next((work / "xen/boot").glob("xen-*-amd64.gz"))
                (work / "xen.elf").write_bytes(gzip.decompress(xen.read_bytes()))
                shutil.rmtree(work / "xen")
                for kernel in KERNELS:
                    tree = work / f"kernel-{kernel}"
                    for name in packages.kernel_packages(kernel):
                        packages.unpack(name, tree, packages.KERNELS[kernel].of)
                    bzimage = kernels.arrange(tree, releases[kernel])
                    kernels.elf_of_bzimage(bzimage, work / f"vmlinux-{kernel}")
                    kernels.prune_modules(tree, work / "modules" / kernel, releases[kernel])
                    shutil.rmtree(tree)
            modules = [work / "modules" / kernel for kernel in KERNELS]
            rootfs.make(work, packages.PROGRAMS[programs], modules)
            (work / "releases.json").write_text(json.dumps(releases))
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
                plain = ["-noI", "-noD", "-noF", "-noX", "-quiet", "-no-progress"]
                run(["mksquashfs", disk, work / "boot.sqfs", *plain])
                shutil.rmtree(disk)
    return Start(folder)
