"""Packages of Debian, whatever the host is: versions that are offered, downloading and unpacking them.

All that goes into the rig comes from them. Of its own release the host has package lists; of others the rig
has some in the cache, from the mirror of the host's Debian.
"""

import contextlib
import functools
import os
import platform
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from rig.errors import RigError
from rig.host import apt_alone, run
from rig.paths import BUILD
from rig.paths import cache as cache_dir
from rig.progress import Step

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Where Debian's security updates are, for a host that does not say.
SECURITY = "http://security.debian.org/debian-security"
HOST_LISTS = Path("/var/lib/apt/lists")
KERNEL_SOURCE = "linux-source-6.12"


def _host_targets() -> list[tuple[str, str, str]]:
    """Return (address, release, component) of the host's package sources that are Debian's."""
    form = "$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)"
    found = []
    for entry in run(["apt-get", "indextargets", "--format", form, "Created-By: Packages"]).splitlines():
        origin, *target = entry.split("|")
        if origin == "Debian":
            found.append((target[0], target[1], target[2]))
    return list(dict.fromkeys(found))


def _apt_options(folder: Path, text: str, preferred: str = "") -> list[str]:
    """Return options of apt's that have it read the sources `text` alone and keep its lists in `folder`.

    What the host has installed, or prefers, does not matter then: packages of the source `preferred` do.
    """
    (folder / "lists/partial").mkdir(parents=True, exist_ok=True)
    files = {"sources.list": text, "status": ""}
    for name, content in files.items():
        place = folder / name
        if not place.exists() or place.read_text() != content:
            place.write_text(content)
    settings = {
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "Dir::State": folder,
        "Dir::State::Lists": folder / "lists",
        "Dir::State::Status": folder / "status",
        "Dir::Cache": folder,
        "Acquire::Languages": "none",
        "APT::Default-Release": preferred,
        "APT::Sandbox::User": "root",
    }
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


@functools.cache
def host_codename() -> str:
    """Return the codename of the host's own release, as "bookworm"; nothing if it has none."""
    with contextlib.suppress(OSError):
        return platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    return ""


class Archive:
    """The packages of one release of Debian."""

    def __init__(self, codename: str, *, backports: bool = False) -> None:
        """codename: of the release. backports: they are offered, too, and before its own packages."""
        self.codename = codename
        self.backports = backports
        self.is_hosts = codename == host_codename() and not backports  # the host's own lists have them
        self._known: dict[str, dict[str, str]] = {}

    def sources(self) -> str:
        """Return its sources, in the form of sources.list.

        On a host of the same release they are its own, else those of this release on the host's mirrors.
        """
        targets = _host_targets()
        if not targets and os.geteuid() == 0:
            with apt_alone():
                run(["apt-get", "update"])
            targets = _host_targets()
        if not targets:
            raise RigError(
                "this host has no package source of Debian (/etc/apt/sources.list; apt-get update)"
            )
        if not self.is_hosts:
            kinds = {release.endswith("-security"): uri for uri, release, _ in reversed(targets)}
            if False not in kinds:
                raise RigError("this host has no package source of Debian but for security updates")
            parts = ["", "-updates", "-backports"] if self.backports else ["", "-updates"]
            targets = [(kinds[False], self.codename + part, "main") for part in parts]
            targets.append((kinds.get(True, SECURITY), f"{self.codename}-security", "main"))
        return "".join(f"deb [signed-by={KEYRING}] {' '.join(target)}\n" for target in targets)

    @property
    def _lists(self) -> Path:
        """Where its package lists are: the host's own, or some in the cache."""
        if self.is_hosts:
            return HOST_LISTS
        return cache_dir() / "apt" / (self.codename + "-backports" * self.backports) / "lists"

    @functools.cached_property
    def _options(self) -> list[str]:
        """The options with which apt knows these packages: none, if the host's own lists have them."""
        preferred = f"{self.codename}-backports" if self.backports else ""
        return [] if self.is_hosts else _apt_options(self._lists.parent, self.sources(), preferred)

    def _update(self, older_than: float = 0.0) -> bool:
        """Read the package lists anew if that was done more than `older_than` seconds ago; return whether.

        The host's lists are root's; as another user nothing is done about them.
        """
        if self.is_hosts and os.geteuid() != 0:
            return False
        options = self._options
        # apt-get update touches this, even where it finds no list changed.
        updated = self._lists / "partial"
        with apt_alone():
            # Looked at under the lock: who waited for it finds them new.
            known = updated.exists() and any(self._lists.glob("*_Packages*"))
            if known and time.time() - updated.stat().st_mtime < older_than:
                return False
            with Step(f"reading the package lists of {self.codename} anew"):
                run(["apt-get", *options, "update"])
        return True

    def look_up(self, names: Iterable[str]) -> None:
        """Read the records of the packages `names`, of the versions that apt would install, in one go."""
        wanted = [name for name in names if name not in self._known]
        for update in (False, True):
            if update and wanted:
                self._update()
            if not wanted:
                return
            done = subprocess.run(
                ["apt-cache", *self._options, "show", "--no-all-versions", *wanted],
                capture_output=True,
                text=True,
                check=False,
            )
            for text in done.stdout.split("\n\n"):
                fields = dict(re.findall(r"^([A-Za-z0-9-]+): (.*)$", text, re.MULTILINE))
                if "Package" in fields:
                    self._known.setdefault(fields["Package"], fields)
            wanted = [name for name in wanted if name not in self._known]
        if wanted:
            raise RigError(
                f"not in the package lists of {self.codename} (apt-get update?): {' '.join(wanted)}"
            )

    def refresh(self, older_than: float = 3600.0) -> None:
        """Read the package lists anew if the last time was more than `older_than` seconds ago.

        What is in an old list may be gone from where it is downloaded.
        """
        if self._update(older_than):
            self._known.clear()

    def _record(self, package: str) -> dict[str, str]:
        self.look_up([package])
        return self._known[package]

    def version(self, package: str) -> str:
        """Return the version of `package` that is offered."""
        return self._record(package)["Version"]

    def depends(self, package: str) -> list[str]:
        """Return the names of the packages that `package` depends on, first alternatives only."""
        field = self._record(package).get("Depends", "")
        return [re.split(r"[ |(:]", part.strip(), maxsplit=1)[0] for part in field.split(",") if part]

    def closure(self, names: Iterable[str]) -> list[str]:
        """Return the packages `names` and all that these depend on, first alternatives only."""
        found: list[str] = []
        wanted = list(names)
        while wanted:
            self.look_up(wanted)
            found += wanted
            needed = dict.fromkeys(name for package in wanted for name in self.depends(package))
            wanted = [name for name in needed if name not in found]
        return sorted(found)

    def download(self, package: str) -> Path:
        """Return the .deb of `package` in the cache, downloading it if it is not there."""
        folder = cache_dir() / "debs"
        folder.mkdir(exist_ok=True)
        name = f"{package}_{self.version(package).replace(':', '%3a')}_*.deb"
        found = list(folder.glob(name))
        if not found:
            options = [*self._options, "-o", "APT::Sandbox::User=root"]
            run(["apt-get", "download", "-q", *options, f"{package}={self.version(package)}"], cwd=folder)
            found = list(folder.glob(name))
        if not found:
            raise RigError(f"apt-get download {package} left no file {name}")
        return found[0]

    def download_source(self, package: str) -> Path:
        """Return the upstream archive of the source of `package`, in the cache, downloading it if need be.

        It is of the newest version that can be had: mirrors do not always keep security updates' sources.
        """
        source = self._record(package).get("Source", package).split()[0]
        folder = cache_dir() / "sources"
        folder.mkdir(exist_ok=True)
        name = f"{source}_*.orig.tar.*[!c]"
        found = sorted(folder.glob(name))
        if found:
            return found[-1]
        with tempfile.TemporaryDirectory() as work, Step(f"downloading the source of {source}"):
            options = _apt_options(Path(work), self.sources().replace("deb [", "deb-src ["))
            run(["apt-get", "update", "-q", *options])
            records = run(["apt-cache", *options, "showsrc", "--only-source", source])
            for offered in re.findall(r"^Version: (.*)$", records, re.MULTILINE):
                words = ["source", "-q", "--download-only", "--tar-only", f"{source}={offered}"]
                with contextlib.suppress(RigError):
                    run(["apt-get", *options, *words], cwd=folder)
                    return next(folder.glob(name))
        raise RigError(f"apt-get source {source}: no archive can be had")

    def unpack(self, package: str, folder: Path) -> None:
        """Unpack `package`, without running its scripts, into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        run(["dpkg-deb", "-x", self.download(package), folder])

    def unpacked(self, package: str, *needed: str) -> Path:
        """Return a folder with a package that cannot be installed beside others, and with what it needs."""
        folder = BUILD / "packages" / self.codename / package
        for name in (package, *needed):
            self.unpack(name, folder)
        return folder


BOOKWORM = Archive("bookworm")
BOOKWORM_BACKPORTS = Archive("bookworm", backports=True)
TRIXIE = Archive("trixie")
TRIXIE_BACKPORTS = Archive("trixie", backports=True)


def unpack_kernel_source(folder: Path, *words: str, strip: int = 1) -> None:
    """Unpack Debian 12's source of the kernel into `folder`.

    words: for tar, such as members or what to exclude; a member is KERNEL_SOURCE/PATH. strip: how many
    leading folders of each path are left out.
    """
    script = 'dpkg-deb --fsys-tarfile "$1" | tar xO "$2" | xz -dc -T0 | { shift 2; tar x "$@"; }'
    archive = f"./usr/src/{KERNEL_SOURCE}.tar.xz"
    where = ["-C", folder, f"--strip-components={strip}"]
    run(["sh", "-ec", script, "sh", BOOKWORM.download(KERNEL_SOURCE), archive, *where, *words])
