"""What a link lives through on each host, by each XenStore daemon, for each kernel and type of guest."""

import pytest

from rig.machine import Machine
from tests import traffic
from tests.traffic import LINUX_7, Ends
from tests.xen.test_life import goes_on
from tests.xen.test_streams import unloads_and_comes_back

MIB = 1 << 20

pytestmark = [
    pytest.mark.rig(host="12", type="pv"),
    pytest.mark.rig(host="13", type="pv", xenstored="o", deep=True),
    pytest.mark.rig(host="13", type="pvh", deep=True),
    pytest.mark.rig(host="13", type="hvm", deep=True),
    pytest.mark.rig(host="12", type="pv", xenstored="o", deep=True),
    pytest.mark.rig(host="12", type="pvh", deep=True),
    pytest.mark.rig(host="12", type="hvm", deep=True),
    pytest.mark.rig(host="13", type="pv", kernel="6.1", deep=True),
    pytest.mark.rig(host="13", type="pv", kernel="newest", deep=True),
    pytest.mark.rig(host="13", type="pvh", kernel="6.1", deep=True),
    pytest.mark.rig(host="13", type="pvh", kernel="newest", deep=True),
    pytest.mark.rig(host="13", type="hvm", kernel="newest", deep=True),
    pytest.mark.rig(host="12", type="pv", kernel="6.1", deep=True),
]


def test_every_part_is_of_the_release(machine: Machine) -> None:
    debian = machine.config.debian
    assert machine.dom0.run(["xl", "info", "xen_version"]).stdout.startswith(f"{debian.xen}.")
    for name, domain in machine.domains.items():
        kernel = "6.12" if name == "dom0" else machine.config.kernel
        assert domain.read("/etc/debian_version").split(".")[0] == debian.number
        assert domain.run(["uname", "-r"]).stdout.strip() == debian.kernels[kernel].release()
    daemon = {"c": "xenstored", "o": "oxenstored"}[machine.config.xenstored]
    assert machine.dom0.run(["pgrep", "-l", "-x", "o?xenstored"]).stdout.split()[1] == daemon
    for guest in machine.guests:
        seen = guest.run("cat /sys/hypervisor/guest_type").stdout.strip()
        assert seen == machine.config.type.upper()


def test_streams_and_requests(machine: Machine, ends: Ends) -> None:
    size = (32 if machine.config.type == "pv" else 8) * MIB
    with traffic.measured(ends) as moved:
        ends.stream(size=size, settle=60000)
        ends.stream(size=30000, conns=20, at_once=10, max=4000, active="epoll", passive="epoll", settle=60000)
        server = ends.passive.start("redis-server --save '' --protected-mode no")
        try:
            ends.passive.run("until redis-cli ping; do sleep 0.2; done")
            said = ends.active.run(
                f"redis-benchmark -h {ends.address} -n 1000 -c 5 -t set,get -q", timeout=300
            )
        finally:
            server.kill()
    assert said.stdout.count("requests per second") == 2, said
    assert moved.ring_share() > 0.9, moved.seen()


@LINUX_7
def test_save_and_restore(machine: Machine, ends: Ends) -> None:
    goes_on(ends, lambda: machine.dom0.run(traffic.saved("g1"), timeout=400))


# Not of PV guests: see test_life.py.
@pytest.mark.rig(host="13", type="pvh", deep=True)
@pytest.mark.rig(host="13", type="pvh", xenstored="o", deep=True)
@pytest.mark.rig(host="13", type="hvm", deep=True)
@pytest.mark.rig(host="12", type="pvh", deep=True)
@pytest.mark.rig(host="12", type="pvh", xenstored="o", deep=True)
@pytest.mark.rig(host="12", type="hvm", deep=True)
@pytest.mark.rig(host="13", type="pvh", kernel="newest", deep=True)
@LINUX_7
def test_live_migration(machine: Machine, ends: Ends) -> None:
    goes_on(ends, lambda: machine.dom0.run(traffic.migrated("g1"), timeout=400))


def test_modules_unload_and_come_back(ends: Ends) -> None:
    unloads_and_comes_back(ends)
