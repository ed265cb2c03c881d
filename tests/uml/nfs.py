"""NFS in the User-mode kernel, which is server and client: users of sockets inside the kernel."""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from shell import sh

TREE, MOUNTED = Path("/run/tree"), Path("/run/mounted")
FOR_EVER = 2**31 - 1
# Any port of the client's, no check of subtrees, and a number as the file system's name: linux/nfsd/export.h
FLAGS = 0x2 | 0x400 | 0x2000
SIZE = 4 << 20


def put(path: str, text: str) -> None:
    """Write to a file of the kernel's at once."""
    with open(path, "wb", buffering=0) as file:
        file.write(text.encode())


@contextlib.contextmanager
def served(host: str) -> Iterator[None]:
    """Have the kernel serve a folder, as rpc.nfsd and rpc.mountd would ask it to."""
    TREE.mkdir(exist_ok=True)
    sh(f"mount -t tmpfs tree {TREE} && mount -t nfsd nfsd /proc/fs/nfsd")
    for cache, line in (
        ("auth.unix.ip", f"nfsd {host} {FOR_EVER} *"),
        ("nfsd.export", f"* {TREE} {FOR_EVER} {FLAGS} 0 0 0"),
        ("nfsd.fh", f"* 1 \\x00000000 {FOR_EVER} {TREE}"),
    ):
        put(f"/proc/net/rpc/{cache}/channel", f"{line}\n")
    # The others would need rpcbind.
    put("/proc/fs/nfsd/versions", "-3 +4 +4.1\n")
    # Nobody has files open yet, but the server waits for those who have: ten seconds at least.
    for name in ("nfsv4leasetime", "nfsv4gracetime"):
        put(f"/proc/fs/nfsd/{name}", "10\n")
    put("/proc/fs/nfsd/portlist", "tcp 2049\n")
    put("/proc/fs/nfsd/threads", "4\n")
    try:
        yield
    finally:
        put("/proc/fs/nfsd/threads", "0\n")
        sh(f"umount /proc/fs/nfsd; umount {TREE}")


@contextlib.contextmanager
def mounted(host: str) -> Iterator[None]:
    """Mount what is served."""
    MOUNTED.mkdir(exist_ok=True)
    # Without the program that usually does it
    options = f"vers=4.1,proto=tcp,port=2049,sec=sys,addr={host},clientaddr={host}"
    sh(f"mount -i -t nfs4 -o {options} {host}:/ {MOUNTED}")
    try:
        yield
    finally:
        sh(f"umount {MOUNTED}")


def copied(name: str) -> None:
    """Write a file by NFS and read it again, past the client's cache."""
    bytes_ = os.urandom(SIZE)
    file = MOUNTED / name
    file.write_bytes(bytes_)
    assert (TREE / name).read_bytes() == bytes_
    put("/proc/sys/vm/drop_caches", "3\n")
    assert file.read_bytes() == bytes_, name
    file.unlink()


def copied_until(enough: threading.Event, names: list[str]) -> None:
    """Copy files until told to end; append the name of each."""
    while not enough.is_set():
        name = f"moving{len(names)}"
        copied(name)
        names.append(name)
