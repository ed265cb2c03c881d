"""A guest with the module of the version before, and one with this, carry each other's connections."""

import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig import build
from rig.guest import Guest
from rig.host import run
from rig.machine import Machine
from rig.paths import BUILD, TREE
from tests import traffic
from tests.traffic import Ends, linked, until

MIB = 1 << 20
# The last commit with one module, version 0.1.0: what was in use before there were services.
BEFORE = "4389af3974f2ddff23b567f5aafed30781d93b68"

pytestmark = [pytest.mark.rig(type="pv", kernel="6.12")]


def sources() -> Path:
    """Return the sources of the version before, out of the history."""
    folder = BUILD / "before"
    if not (folder / "kernel").is_dir():
        done = subprocess.run(
            ["git", "-C", TREE, "archive", BEFORE, "kernel", "include", "tools"],
            capture_output=True,
            check=False,
        )
        if done.returncode:
            pytest.fail(f"needs the commit {BEFORE[:7]} (git fetch --unshallow): {done.stderr.decode()}")
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(folder)
    return folder


def made(machine: Machine) -> tuple[Path, Path]:
    """Build the module and the command of the version before."""
    folder = sources()
    words = ["CC=gcc-12", "modules"]
    run(["make", "-s", "-C", build.headers(machine.config.kernel), f"M={folder / 'kernel'}", *words])
    run(["make", "-s", "-C", folder / "tools", f"OUT={folder / 'out'}", folder / "out/xway"])
    return folder / "kernel/xway/xway.ko", folder / "out/xway"


def extra(guest: Guest) -> str:
    return f"/lib/modules/{guest.run('uname -r').stdout.strip()}/extra"


@pytest.fixture
def mixed(machine: Machine, ends: Ends) -> Iterator[Ends]:
    """Have the version before in g1, which listens."""
    old = ends.passive
    module, command = made(machine)
    traffic.unload(old)
    place, kept = extra(old), "/tmp/this-version"
    old.run(f"mkdir -p {kept} && mv {place}/xway*.ko /usr/local/bin/xway {kept}")
    old.put(module, f"{place}/xway.ko", mode=0o644)
    old.put(command, "/usr/local/bin/xway", mode=0o755)
    old.run("depmod && modprobe xway")
    try:
        for guest in (ends.passive, ends.active):
            until(lambda guest=guest: linked(guest), f"link of {guest.name}")
        yield ends
    finally:
        old.run("xway off --wait 20; modprobe -r xway", check=False)
        old.run(f"rm {place}/xway.ko && mv {kept}/xway*.ko {place} && mv {kept}/xway /usr/local/bin/xway")
        old.run("depmod && modprobe xway")


def test_version_before_carries(mixed: Ends) -> None:
    """Either end may be the older one; both take the ring."""
    assert mixed.passive.run("cat /sys/module/xway/version").stdout.strip() == "0.1.0"
    assert mixed.active.run("cat /sys/module/xway_core/version").stdout.strip() != "0.1.0"
    for passive, active in ((mixed.passive, mixed.active), (mixed.active, mixed.passive)):
        ends = Ends(passive, active, passive.ip4)
        with traffic.measured(ends) as moved:
            ends.stream(size=8 * MIB, conns=4, at_once=2, settle=60000)
        assert moved.ring_share() > 0.9, moved.seen()


def test_upgrade_under_traffic(mixed: Ends) -> None:
    """The newer end is unloaded and loaded in mid-stream; no connection ends, and new ones are carried."""
    server = mixed.active.start(
        "for i in $(seq 6); do sleep 1; xway off --wait 20; modprobe -r xway; modprobe xway; done"
    )
    try:
        for _ in range(6):
            mixed.stream(size=4 * MIB, conns=4, at_once=2, pause=2)
        assert server.wait(timeout=240).status == 0, server.stderr()
    finally:
        server.kill()
    for guest in (mixed.passive, mixed.active):
        until(lambda guest=guest: linked(guest), f"link of {guest.name}")
    with traffic.measured(mixed) as moved:
        mixed.stream(size=4 * MIB, settle=60000)
    assert moved.ring_share() > 0.9, moved.seen()
