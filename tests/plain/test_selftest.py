"""The modules' own tests, kernel/*/selftest, in the kernels they are for."""

import re

import pytest

from rig import build
from rig.machine import Machine


@pytest.mark.rig(kernel="newest")
@pytest.mark.rig(kernel="6.12")
@pytest.mark.rig(kernel="6.1")
def test_modules_pass_their_own_tests(machine: Machine) -> None:
    kernel, guest = machine.config.kernel, machine.guest("g1")
    made = build.module(machine.config.debian, kernel, "selftest")
    modules = {path.stem: path for path in made}
    guest.run("modprobe -r xway")
    for name in ("xway_core", "xway", "mmnet"):
        guest.put(modules[name], f"/tmp/{name}.ko")
        done = guest.run(f"insmod /tmp/{name}.ko", check=False)
        log = guest.run(f"dmesg | grep '{name}: selftest' || true").stdout
        assert done.status == 0, done.stderr + log
        assert re.search(r"selftest: [1-9]\d* passed", log), f"{name} without tests"
        if name != "xway_core":
            guest.run(f"rmmod {name}")  # each client is alone with the core
    assert guest.run("insmod /tmp/xway.ko ring_kib=24", check=False).status
    assert "xway: ring_kib=24: must be a power of two" in guest.run("dmesg | tail -n 3").stdout
    guest.run("rmmod xway_core")
