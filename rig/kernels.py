"""Kernels out of their packages: the bare ELF image and the modules that matter to the rig."""

import lzma
import shutil
import struct
import subprocess
from pathlib import Path

from rig.errors import RigError
from rig.host import run

# Folders of modules that go into the image; what these depend on goes with them.
MODULE_FOLDERS = (
    "arch/x86/crypto/",
    "crypto/",
    "drivers/block/",
    "drivers/char/hw_random/virtio",
    "drivers/net/bonding/",
    "drivers/net/dummy",
    "drivers/net/ifb",
    "drivers/net/tun",
    "drivers/net/veth",
    "drivers/net/virtio_net",
    "drivers/net/vrf",
    "drivers/net/xen-",
    "drivers/nvme/",
    "drivers/scsi/iscsi",
    "drivers/scsi/libiscsi",
    "drivers/scsi/scsi_transport_iscsi",
    "drivers/scsi/sd_mod",
    "drivers/target/",
    "drivers/virtio/",
    "drivers/xen/",
    "fs/ext4/",
    "fs/fuse/",
    "fs/lockd/",
    "fs/nfs/",
    "fs/nfs_common/",
    "fs/nfsd/",
    "fs/nls/",
    "fs/overlayfs/",
    "fs/smb/",
    "fs/squashfs/",
    "lib/",
    "net/8021q/",
    "net/bridge/",
    "net/core/",
    "net/ipv4/",
    "net/ipv6/",
    "net/mptcp/",
    "net/netfilter/",
    "net/netlink/",
    "net/packet/",
    "net/sched/",
    "net/smc/",
    "net/sunrpc/",
    "net/tls/",
    "net/unix/",
    "net/vmw_vsock/",
    "net/xfrm/",
)


def arrange(tree: Path, release: str) -> Path:
    """Have the modules of a kernel that was unpacked into `tree` in lib/modules; return its bzImage.

    Debian 12's packages have them there, Debian 13's in usr/lib/modules; backports for that the bzImage, too.
    """
    if not (tree / "lib").exists():
        (tree / "lib").symlink_to("usr/lib")
    image = tree / "boot" / f"vmlinuz-{release}"
    return image if image.exists() else tree / "lib/modules" / release / "vmlinuz"


def elf_of_bzimage(bzimage: Path, target: Path) -> None:
    """Write the uncompressed kernel inside `bzimage` to `target`.

    Xen and QEMU both start it as it is, and no emulated CPU spends seconds on decompressing.
    """
    data = bzimage.read_bytes()
    setup_sectors = data[0x1F1] or 4
    offset, length = struct.unpack_from("<II", data, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    payload = data[start : start + length]
    if payload.startswith(b"\xfd7zXZ\x00"):
        kernel = lzma.LZMADecompressor().decompress(payload)
    elif payload.startswith(b"\x28\xb5\x2f\xfd"):
        # The last four bytes are the size, not part of the zstd stream.
        kernel = subprocess.run(
            ["zstd", "-dcq"], input=payload[:-4], stdout=subprocess.PIPE, check=True
        ).stdout
    else:
        raise RigError(f"{bzimage.name}: kernel is compressed in a way the rig does not know")
    if not kernel.startswith(b"\x7fELF"):
        raise RigError(f"{bzimage.name}: no ELF kernel inside")
    target.write_bytes(kernel)


def dependencies(modules: Path) -> dict[str, list[str]]:
    """Return what modules.dep in the folder `modules` says, if there is one: path -> paths it needs."""
    table: dict[str, list[str]] = {}
    listed = modules / "modules.dep"
    for line in listed.read_text().splitlines() if listed.exists() else []:
        path, needs = line.split(":", 1)
        table[path] = needs.split()
    return table


def prune_modules(source: Path, target: Path, release: str) -> None:
    """Copy the modules in MODULE_FOLDERS and their dependencies, uncompressed.

    `source` and `target` are roots: the modules are in lib/modules/`release` of each.
    """
    run(["depmod", "-b", source, release])
    table = dependencies(source / "lib/modules" / release)
    wanted = set()
    for path, needs in table.items():
        if path.removeprefix("kernel/").startswith(MODULE_FOLDERS):
            wanted.update([path, *needs])
    from_dir, to_dir = source / "lib/modules" / release, target / "lib/modules" / release
    for path in sorted(wanted):
        place = to_dir / path.removesuffix(".xz")
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".xz"):
            place.write_bytes(lzma.decompress((from_dir / path).read_bytes()))
        else:
            shutil.copyfile(from_dir / path, place)
    for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        shutil.copyfile(from_dir / name, to_dir / name)
    run(["depmod", "-b", target, release])


def load_order(modules: Path, names: list[str]) -> list[str]:
    """Return the paths to load, in order, for the modules `names`; built-in ones are left out."""
    table = dependencies(modules)
    by_name = {Path(path).name.removesuffix(".ko").replace("-", "_"): path for path in table}
    order: list[str] = []
    for name in names:
        path = by_name.get(name.replace("-", "_"))
        if path is None:
            continue
        for step in [*reversed(table[path]), path]:
            if step not in order:
                order.append(step)
    return order
