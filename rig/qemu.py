"""Starts and stops the emulator, and finds out whether KVM works here."""

import contextlib
import functools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rig.errors import RigError
from rig.host import run
from rig.packages import BOOKWORM_BACKPORTS, host_codename
from rig.paths import cache, making
from rig.progress import Step

QEMU = "qemu-system-x86_64"
PACKAGES = ("qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios")
# Runs PV and PVH guests under emulation. Not `max`: domain 0 crashes at once over SMAP, and PVH guests
# over RDTSCP and the state that XSAVE keeps.
XEN_CPU = "qemu64,+svm,+npt,+ssse3,+sse4.1,+sse4.2,+popcnt,-rdtscp"
KVM_TEST_SECONDS = 10.0


@functools.cache
def command(own: bool = False) -> tuple[str, ...]:
    """Return the words that start the emulator.

    Debian 12's own takes twice as long for the same work as that of its backports. So the latter is unpacked
    into the cache; the libraries that it needs are those of the former. own: the machine's own all the same.
    """
    if own or host_codename() != BOOKWORM_BACKPORTS.codename:
        return (QEMU,)
    try:
        folder = _unpacked()
    except RigError as error:
        print(f"rig: {QEMU} is Debian 12's own, which is slow: {error}", file=sys.stderr)
        return (QEMU,)
    share = folder / "usr/share"
    return (f"{folder}/usr/bin/{QEMU}", "-L", f"{share}/qemu", "-L", f"{share}/seabios")


def _unpacked() -> Path:
    """Return the folder with the emulator of Debian 12's backports, making it if it is not there."""
    release = BOOKWORM_BACKPORTS.version(PACKAGES[0]).rpartition(":")[2]
    folder = cache() / f"qemu-{release}"
    with making(folder) as work:
        if work:
            BOOKWORM_BACKPORTS.refresh()
            with Step("unpacking the emulator"):
                for package in PACKAGES:
                    BOOKWORM_BACKPORTS.unpack(package, work)
    return folder


def version(own: bool = False) -> str:
    """Return the emulator's version, as in "10.0.2"."""
    words = run([command(own)[0], "--version"]).split()
    return words[words.index("version") + 1]


def at_least(*wanted: int, own: bool = False) -> bool:
    """Tell whether the emulator's version is this or a later one."""
    return tuple(int(part) for part in re.findall(r"\d+", version(own))) >= wanted


def free_ports(count: int) -> list[int]:
    """Return `count` TCP ports of 127.0.0.1 that nobody has now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()


def kvm_works(vmlinux: Path) -> bool:
    """Tell whether KVM really runs a guest here: start a kernel and wait for its first words.

    The verdict is kept in the cache until the host is started again.
    """
    device = Path("/dev/kvm")
    if not os.access(device, os.R_OK | os.W_OK):
        return False
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    verdict = cache() / "kvm.json"
    with contextlib.suppress(OSError, ValueError, KeyError):
        known = json.loads(verdict.read_text())
        if known["boot"] == boot and known["device"] == device.stat().st_ctime:
            return bool(known["works"])
    with Step("testing whether KVM works here"), tempfile.TemporaryDirectory() as folder:
        serial = Path(folder) / "serial"
        arguments = ["-accel", "kvm", "-cpu", "host", "-m", "256", "-nodefaults", "-display", "none"]
        arguments += ["-no-reboot", "-kernel", os.fspath(vmlinux), "-serial", f"file:{serial}"]
        arguments += ["-append", "console=ttyS0 earlyprintk=ttyS0 panic=-1"]
        process = subprocess.Popen(
            [*command(), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            end = time.monotonic() + KVM_TEST_SECONDS
            works = False
            while not works and time.monotonic() < end and process.poll() is None:
                time.sleep(0.1)
                # Late enough in its start that interrupts and timers have been seen to work.
                works = serial.exists() and b"Kernel panic" in serial.read_bytes()
            if not works and serial.exists():
                works = b"Kernel panic" in serial.read_bytes()
        finally:
            process.kill()
            process.wait()
    verdict.write_text(json.dumps({"boot": boot, "device": device.stat().st_ctime, "works": works}))
    return works


def start_time(pid: int) -> int | None:
    """Return when process `pid` started, in clock ticks since the host's start; None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def launch(
    arguments: Sequence[str], folder: Path, *, die_with_us: bool, own: bool
) -> subprocess.Popen[bytes]:
    """Start QEMU in the background with `folder` as its working folder and its messages in qemu.log there.

    die_with_us: the host's kernel kills it when this process ends, however that comes about. own: as for
    command().
    """
    words = [*command(own), "-name", "debug-threads=on", *arguments]
    if die_with_us:
        words = ["setpriv", "--pdeathsig", "KILL", "--", *words]
    with open(folder / "qemu.log", "wb") as log:
        return subprocess.Popen(
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def pin(pid: int) -> None:
    """Keep each CPU that process `pid` emulates on a CPU of ours, if there are as many.

    One that is moved leaves its cache behind, and figures vary.
    """
    tasks = [task for task in Path(f"/proc/{pid}/task").iterdir() if _is_cpu(task)]
    ours = sorted(os.sched_getaffinity(0))
    if len(tasks) <= len(ours):
        for task, cpu in zip(tasks, ours, strict=False):
            os.sched_setaffinity(int(task.name), {cpu})


def _is_cpu(task: Path) -> bool:
    """Tell whether a thread of the emulator's runs a CPU: that is its name, see launch()."""
    return (task / "comm").read_text().startswith("CPU ")


def running_in(folder: Path) -> list[int]:
    """Return the emulators of ours whose working folder is `folder`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name = (entry / "comm").read_text().strip()
            if QEMU.startswith(name) and os.readlink(entry / "cwd") == os.fspath(folder):
                found.append(int(entry.name))
    return found


def alive(pid: int, started: int) -> bool:
    """Tell whether the process that started then still runs."""
    with contextlib.suppress(ChildProcessError, OSError):
        os.waitpid(pid, os.WNOHANG)  # ours, if we started it: do not leave a zombie
    return start_time(pid) == started


def stop(pid: int, started: int) -> None:
    """Kill the emulator and wait until it is gone: there is nothing in it to save."""
    if not alive(pid, started):
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + 10
    while alive(pid, started):
        if time.monotonic() > end:
            raise RigError(f"process {pid} ({QEMU}) does not end")
        time.sleep(0.02)
