"""Kernels that check locks and memory, built from Debian's source package.

So are made the User-mode ones of tests/uml, and the guests' kernel "debug".
"""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rig import compiler, packages
from rig.errors import RigError
from rig.host import need_packages, run
from rig.packages import KERNEL_SOURCE
from rig.paths import cache, making
from rig.progress import Step

TOOLS = ["bc", "bison", "flex", "gcc", compiler.GCC, "kmod", "libc6-dev", "libelf-dev", "make", "patch"]
TOOLS += ["xz-utils"]
HERE = Path(__file__).resolve().parent / "debug"
COMMON = HERE / "common.config"

# Parts of the source that none of them needs; their Kconfig files stay.
UNUSED = ["Documentation/*.rst", "Documentation/*.yaml", "tools/testing/*", "sound/*.[ch]"]
UNUSED += [f"drivers/{d}/*.[ch]" for d in ["gpu", "media", "staging", "net/ethernet", "net/wireless"]]


@dataclass(frozen=True)
class Recipe:
    """How to build a kernel.

    name: of its folder in the cache. arch: as make's ARCH. config: a file of options, which go with
    those of COMMON over allnoconfig. targets: of make. keep: what of the tree is kept, besides include/
    and scripts/, to build modules for it. patch: to be applied to the source. instead: a file of options
    that replace those.
    """

    name: str
    arch: str
    config: Path
    targets: Sequence[str]
    keep: Sequence[str]
    patch: Path | None = None
    instead: Path | None = None

    def options(self) -> str:
        """Return the options, one a line."""
        text = COMMON.read_text() + self.config.read_text()
        if not self.instead:
            return text
        lines = {line.partition("=")[0]: line for line in (text + self.instead.read_text()).splitlines()}
        return "\n".join(lines.values()) + "\n"

    def key(self) -> str:
        """Return a short name of the options and the patch."""
        patch = self.patch.read_bytes() if self.patch else b""
        return hashlib.sha256(self.options().encode() + patch + repr(self.keep).encode()).hexdigest()[:12]


XEN = Recipe(
    "debug",
    "x86",
    HERE / "xen.config",
    ["vmlinux", "modules"],
    ["arch/x86", "tools/objtool"],
    HERE / "xen-pv-kasan.patch",
)


def tree(recipe: Recipe) -> Path:
    """Return the tree of the kernel, built if the cache has none by this recipe, of whatever version."""
    need_packages(TOOLS)
    built = sorted(cache().glob(f"{recipe.name}-*-{recipe.key()}"), key=lambda path: path.stat().st_mtime)
    if built:
        return built[-1]
    packages.BOOKWORM.refresh()
    version = packages.BOOKWORM.version(KERNEL_SOURCE)
    folder = cache() / f"{recipe.name}-{version}-{recipe.key()}"
    with making(folder) as work:
        if work:
            with Step(f"building the {recipe.name} kernel of {KERNEL_SOURCE} {version}, once"):
                _build(recipe, work)
    return folder


def release(tree: Path) -> str:
    """Return the release, as `uname -r` prints it, of the kernel in a tree."""
    return (tree / "include/config/kernel.release").read_text().strip()


def _build(recipe: Recipe, work: Path) -> None:
    """Unpack the source into `work`, compile it, and leave what is needed."""
    packages.unpack_kernel_source(work, *(f"--exclude=*/{pattern}" for pattern in UNUSED))
    if recipe.patch:
        run(["patch", "-s", "-p1", "-d", work, "-i", recipe.patch])
    make = ["nice", "-n", "5", "make", "-s", "-C", os.fspath(work)]
    make += [f"ARCH={recipe.arch}", f"CC={compiler.GCC}"]
    with tempfile.NamedTemporaryFile("w", suffix=".config") as file:
        file.write(recipe.options())
        file.flush()
        run([*make, f"KCONFIG_ALLCONFIG={file.name}", "allnoconfig"])
    have = set((work / ".config").read_text().splitlines())
    lost = [o for o in recipe.options().splitlines() if re.match(r"\w+=[^n]", o) and o not in have]
    if lost:
        raise RigError(f"{KERNEL_SOURCE} does not take these options of {recipe.config}: {' '.join(lost)}")
    run([*make, f"-j{os.cpu_count()}", *recipe.targets])
    _prune(work, recipe)


def _prune(work: Path, recipe: Recipe) -> None:
    """Remove what neither runs nor builds a module: most of the tree."""
    keep = [work / name for name in ("include", "scripts", *recipe.keep)]
    for folder in {path.parent for path in keep}:
        for path in folder.iterdir():
            if path.is_dir() and not any(path == kept or path in kept.parents for kept in keep):
                shutil.rmtree(path)
    for path in [*work.glob(".tmp_vmlinux*"), *work.glob("vmlinux.*")]:
        path.unlink()
    run(["find", work / "arch", "-name", "*.[oa]", "-delete"])
