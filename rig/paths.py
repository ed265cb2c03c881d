"""Where things are: the tree, what is built in it, and the cache outside it."""

import os
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent
BUILD = TREE / "build"
RUN = BUILD / "run"
GUESTFS = Path(__file__).resolve().parent / "guestfs"


def cache() -> Path:
    """Return the folder for what is built from Debian's packages, creating it."""
    path = Path(os.environ.get("XWAY_CACHE") or "~/.cache/xway").expanduser()
    path.mkdir(parents=True, exist_ok=True)
    return path
