"""Where things are: the tree, what is built in it, and the cache outside it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent
BUILD = TREE / "build"
RUN = BUILD / "run"
GUESTFS = Path(__file__).resolve().parent / "guestfs"
KEEP = 4  # folders of a kind in the cache


def cache() -> Path:
    """Return the folder for what is built from Debian's packages, creating it."""
    path = Path(os.environ.get("XWAY_CACHE") or "~/.cache/xway").expanduser()
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def making(folder: Path) -> Iterator[Path | None]:
    """Give an empty folder to fill, which becomes `folder` at the end; None if that is there already.

    Several rigs may start at once: one makes it, the others wait. Of folders named PREFIX-anything only
    the KEEP last used stay.
    """
    if folder.exists():
        os.utime(folder)
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
            os.utime(folder)  # what was unpacked may have brought its own date
        finally:
            shutil.rmtree(work, ignore_errors=True)
    alike = folder.parent.glob(folder.name.partition("-")[0] + "-*")
    for old in sorted(alike, key=lambda path: path.stat().st_mtime, reverse=True)[KEEP:]:
        shutil.rmtree(old, ignore_errors=True)
