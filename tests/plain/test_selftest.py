"""The module's own tests, kernel/xway/selftest.c, in the kernels it is for."""

import re

import pytest

from rig import build, packages
from rig.machine import Machine


@pytest.mark.rig(kernel="6.1")
@pytest.mark.rig(kernel="6.12")
def test_module_passes_its_own_tests(machine: Machine) -> None:
    kernel, guest = machine.config.kernel, machine.guest("g1")
    module = build.module(kernel, packages.kernel_release(kernel), selftest=True)[0]
    guest.run("modprobe -r xway")
    guest.put(module, "/tmp/xway.ko")
    done = guest.run("insmod /tmp/xway.ko", check=False)
    log = guest.run("dmesg | grep 'xway: selftest' || true").stdout
    assert done.status == 0, done.stderr + log
    assert re.search(r"selftest: [1-9]\d* passed", log), "a module without tests"
    guest.run("rmmod xway")
    assert guest.run("insmod /tmp/xway.ko ring_kib=24", check=False).status
    assert "xway: ring_kib=24: must be a power of two" in guest.run("dmesg | tail -n 3").stdout
