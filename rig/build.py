"""Builds the tree's own kernel module and programs, and puts them into the domains."""

import filecmp
import os
import shutil
import signal
import tarfile
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from rig import buildroot, compiler, debugkernel
from rig.client import CommandFailed
from rig.debian import Debian
from rig.errors import EmulatorFault, RigError
from rig.guest import Guest
from rig.host import need_packages, run
from rig.image import DEBUG
from rig.packages import BOOKWORM, host_codename
from rig.paths import BUILD, TREE, cache, making
from rig.progress import Step

LOADED = ("xway_core", "xway")  # by dkms/modules-load.conf; the other modules are there for who wants them


@dataclass(frozen=True)
class Products:
    """What was built: modules for the guests' kernel release, and programs; archive: see pack()."""

    release: str
    modules: list[Path]
    programs: dict[str, Path]
    archive: Path | None = None


def headers(debian: Debian, kernel: str) -> Path:
    """Return KDIR, the folder to build modules against for a kernel that is known by this name in `debian`.

    For Debian's, their headers, unpacked into the cache; the one absolute path in them is rewritten.
    """
    if kernel == DEBUG:
        return debugkernel.tree(debugkernel.XEN)
    archive, parts = debian.kernels[kernel].archive, debian.kernels[kernel].header_packages()
    top = parts[0]
    release = top.removeprefix("linux-headers-")
    folder = cache() / f"headers-{release}_{archive.version(top)}"
    final = folder / "usr/src" / top
    with making(folder) as work:
        if work:
            with Step(f"unpacking the headers of {release}"):
                for name in parts:
                    archive.unpack(name, work)
                makefile = work / "usr/src" / top / "Makefile"
                text = makefile.read_text().replace("/usr/src/", f"{folder}/usr/src/")
                makefile.write_text(text)
    return final


def make(debian: Debian, kernel: str, *places: Path) -> list[str]:
    """Return the words that start make for modules of a kernel, with the compiler that its headers need.

    places: folders, besides the tree and the cache, that it reads or writes.
    """
    words = ["make", "-C", os.fspath(headers(debian, kernel))]
    if kernel == DEBUG or debian.kernels[kernel].archive == BOOKWORM:
        return [*words, f"CC={compiler.GCC}"]
    archive, gcc = debian.kernels[kernel].archive, debian.kernels[kernel].compiler()
    if archive.codename == host_codename():
        need_packages([gcc])
        return words
    return [*buildroot.command(archive, gcc, *places), *words]


def kernel_release(debian: Debian, kernel: str) -> str:
    """Return the release, as `uname -r` prints it, of a kernel that is known by this name in `debian`."""
    if kernel == DEBUG:
        return debugkernel.release(debugkernel.tree(debugkernel.XEN))
    return debian.kernels[kernel].release()


def _mirror(source: Path, target: Path) -> None:
    """Make `target` hold the files of `source`, touching only what differs; products of a build stay."""
    known = target / ".mirrored"
    before = set(known.read_text().splitlines()) if known.exists() else set()
    now = {
        str(path.relative_to(source))
        for path in source.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }
    for name in sorted(now):
        place = target / name
        if not place.exists() or not filecmp.cmp(source / name, place, shallow=False):
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, place)
    for name in before - now:
        (target / name).unlink(missing_ok=True)
    target.mkdir(parents=True, exist_ok=True)
    known.write_text("\n".join(sorted(now)))


def module(debian: Debian, kernel: str, variant: str = "") -> list[Path]:
    """Build kernel/ for a kernel and return the .ko files, in build/kernel/RELEASE; none without sources.

    variant: "selftest", a module that tests itself as it is loaded, or "liar", one that lies to peers. These
    are in build/kernel/RELEASE-VARIANT. The sources are copied there first, so that the tree stays clean and
    releases do not mix; include/ lies beside kernel/ as in the tree. kbuild starts at the first Kbuild or
    Makefile from kernel/ down. A warning is an error.
    """
    source = TREE / "kernel"
    starts = [path.parent for name in ("Kbuild", "Makefile") for path in source.rglob(name)]
    if not starts:
        return []
    start = min(starts, key=lambda path: (len(path.parts), path))
    release = kernel_release(debian, kernel)
    folder = BUILD / "kernel" / (f"{release}-{variant}" if variant else release)
    _mirror(source, folder / "kernel")
    if (TREE / "include").is_dir():
        _mirror(TREE / "include", folder / "include")
    with Step(f"building the module for {release}"):
        jobs = f"-j{os.cpu_count() or 1}"
        place = folder / "kernel" / start.relative_to(source)
        words = ["W=1e", *([f"XWAY_{variant.upper()}=1"] if variant else []), "modules"]
        run([*make(debian, kernel), jobs, f"M={place}", *words])
    built = []
    # Not what an earlier build of other sources has left.
    order = (place / "modules.order").read_text().split()
    for path in sorted((place / name).with_suffix(".ko") for name in order):
        shutil.copyfile(path, folder / path.name)
        built.append(folder / path.name)
    if not built:
        raise RigError(f"building kernel/ for {release} left no module")
    return built


def programs(debian: Debian) -> dict[str, Path]:
    """Build tools/ and return its programs for the domains by name; none without sources."""
    if not (TREE / "tools" / "Makefile").exists():
        return {}
    with Step("building the tools"):
        run(["make", f"-j{os.cpu_count() or 1}", "-C", TREE / "tools", *compiler.variables(debian, "tools")])
    found = {name: compiler.folder(debian) / "tools" / name for name in ("xwayd", "xway")}
    return {name: path for name, path in found.items() if path.is_file()}


def products(debian: Debian, kernel: str) -> Products:
    """Build everything that the domains get."""
    return Products(kernel_release(debian, kernel), module(debian, kernel), programs(debian))


def pack(made: Products, standard: Path) -> Products:
    """Return the products with an archive of all that a guest gets, the index of its modules included.

    standard: the folder of the kernel's own modules, if it has any. A depmod in an emulated guest that reads
    them all takes longer than the rest of loading.
    """
    archive = BUILD / "kernel" / made.release / "guest.tar"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        place = Path(folder) / "lib/modules" / made.release
        if standard.is_dir():
            shutil.copytree(standard, place)
        (place / "extra").mkdir(parents=True)
        for path in made.modules:
            run(["strip", "--strip-debug", "-o", place / "extra" / path.name, path])
        run(["depmod", "-b", folder, made.release])
        modules = (*place.glob("modules.*"), *place.glob("extra/*"))
        files = {path: path.relative_to(folder) for path in modules}
        files |= {path: _place(program) for program, path in made.programs.items()}
        with tarfile.open(archive, "w") as tar:
            for path, name in files.items():
                tar.add(path, name, filter=_plain)
    return replace(made, archive=archive)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Have a file in an archive readable by all, whatever the umask here."""
    member.mode = 0o755 if member.mode & 0o100 else 0o644
    return member


def install(domains: Mapping[str, Guest], made: Products, policy: str) -> None:
    """Put the products into the domains, start xwayd in domain 0 and load the modules in the guests."""
    if "dom0" in domains:
        for program, path in made.programs.items():
            domains["dom0"].put(path, f"/{_place(program)}", mode=0o755)
        if "xwayd" in made.programs:
            start_daemon(domains["dom0"], policy)
    guests = [guest for name, guest in domains.items() if name != "dom0"]
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(load, guest, made) for guest in guests]:
            done.result()


def _place(program: str) -> Path:
    """Return where a program is, from the root of a domain."""
    return Path("usr/local", "sbin" if program == "xwayd" else "bin", program)


def load(guest: Guest, made: Products) -> None:
    """Put the products, which are packed, into a guest and load those modules that a package loads."""
    assert made.archive
    try:
        guest.run(["tar", "-C", "/", "--no-same-owner", "-xf", "-"], stdin=made.archive)
    except CommandFailed as error:
        # Debian's own programs, in a guest that has nothing of ours yet, do not crash by themselves.
        if error.result.status == 128 + signal.SIGSEGV:
            raise EmulatorFault(f"{guest.name}: a program crashed before xway was loaded") from error
        raise
    for path in made.modules:
        if path.stem in LOADED:
            guest.run(["modprobe", path.stem])


def start_daemon(dom0: Guest, policy: str) -> None:
    """Write xwayd's configuration and start it; what it says goes to /var/log/xwayd.log."""
    dom0.write("/etc/xway/xwayd.conf", policy.rstrip("\n") + "\n")
    dom0.run(
        "setsid xwayd </dev/null >>/var/log/xwayd.log 2>&1 &\n"
        "sleep 0.5; pgrep -x xwayd >/dev/null || { cat /var/log/xwayd.log >&2; exit 1; }"
    )
