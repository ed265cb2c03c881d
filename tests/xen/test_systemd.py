"""xwayd as its unit starts it, with the rights that the unit leaves it."""

import subprocess
from collections.abc import Iterator

import pytest

from rig.guest import Guest
from rig.machine import Machine
from tests import traffic
from tests.traffic import Ends, linked, until

pytestmark = pytest.mark.rig(type="pv", kernel="6.12")

CONFIG = "/etc/xway/xwayd.conf"
UNITS = traffic.TOP / "tools/systemd"
STATIC = "xwayd-static.service"
# The rig's domains have no service manager: this is the first process of namespaces of its own.
NAMESPACES = "unshare --pid --mount --uts --cgroup --fork --kill-child --mount-proc"
MANAGER = f"""
mkdir -p /sys/fs/cgroup/manager && echo $$ >/sys/fs/cgroup/manager/cgroup.procs
exec {NAMESPACES} sh -ec '
mount -t xenfs xenfs /proc/xen
umount /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
exec env container=other /lib/systemd/systemd --log-target=console --unit=xwayd.service'
"""
# What has joined the service's control group may open what the service may.
INSIDE = "echo $$ >/sys/fs/cgroup$(cut -d: -f3 /proc/$(pgrep -x xwayd)/cgroup)/cgroup.procs"
STOP = "pkill -x xwayd; while pgrep -x xwayd; do sleep 0.1; done"


def systemctl(dom0: Guest, words: str) -> str:
    """Return what systemctl says."""
    return dom0.run(
        f"nsenter -t $(pgrep -o -x systemd) -a systemctl {words} 2>&1", check=False
    ).stdout.strip()


def install_static(dom0: Guest, folder: str) -> None:
    """Put the file that needs no library into a folder of domain 0."""
    subprocess.run(["make", "-s", "-C", traffic.TOP, "xwayd-static"], check=True)
    dom0.put(traffic.TOP / "build/tools/xwayd-static", f"{folder}/xwayd", mode=0o755)


@pytest.fixture(params=["xwayd.service.in"])
def unit(machine: Machine, ends: Ends, request: pytest.FixtureRequest) -> Iterator[Guest]:
    """Have systemd run xwayd in domain 0."""
    dom0 = machine.dom0
    folder = "/run/systemd/system"
    text = (UNITS / request.param).read_text().replace("@SBIN@", "/usr/local/sbin")
    if request.param == STATIC:
        install_static(dom0, "/usr/local/static")
        text = text.replace("/usr/local/sbin", "/usr/local/static")
    dom0.write(f"{folder}/xwayd.service", text)
    # What a whole system starts first is there.
    dom0.write(f"{folder}/xwayd.service.d/alone.conf", "[Unit]\nDefaultDependencies=no\n")
    dom0.run(STOP)
    manager = dom0.start(MANAGER)
    try:
        until(lambda: systemctl(dom0, "is-active xwayd") == "active", "xwayd under systemd", 60)
        yield dom0
    finally:
        print(systemctl(dom0, "status xwayd"), manager.stdout(), manager.stderr())
        manager.kill()
        dom0.run(f"{STOP}; rm -r {folder}; {traffic.START_XWAYD}")


@pytest.mark.parametrize("unit", ["xwayd.service.in", STATIC], indirect=True)
def test_xwayd_has_all_that_it_needs(unit: Guest, ends: Ends) -> None:
    """It tells guests of each other, hears of changes, and an error in its file changes nothing."""
    lines = unit.run("cat /proc/$(pgrep -x xwayd)/status").stdout.splitlines()
    status = dict(line.split(":\t", 1) for line in lines)
    assert status["CapEff"] == "0" * 16 and status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", status
    for device, said in (("gntdev", "not permitted"), ("evtchn", "not permitted"), ("privcmd", "")):
        tried = unit.run(f"{INSIDE}; : </dev/xen/{device}", check=False)
        assert said in tried.stderr and bool(tried.status) == bool(said), tried
    guests = (ends.active, ends.passive)
    policy = unit.read(CONFIG)
    unit.write(CONFIG, "")
    assert not systemctl(unit, "reload xwayd")
    for guest in guests:
        until(lambda guest=guest: not linked(guest), f"no link of {guest.name}")
    unit.write(CONFIG, "allow everything\n")
    assert "failed" in systemctl(unit, "reload xwayd")
    assert systemctl(unit, "is-active xwayd") == "active"
    unit.write(CONFIG, policy)
    assert not systemctl(unit, "reload xwayd")
    for guest in guests:
        until(lambda guest=guest: linked(guest), f"link of {guest.name}")
    with traffic.measured(ends) as moved:
        ends.stream(size=4 << 20, settle=60000)
    assert moved.ring_share() > 0.9, moved.seen()
    again = unit.run("xwayd", check=False)
    assert again.status == 3 and "another xwayd runs already" in again.stderr, again
    systemctl(unit, "stop xwayd")
    assert systemctl(unit, "show -P Result xwayd") == "success"


@pytest.mark.parametrize(("unit", "most"), [("xwayd.service.in", 20), (STATIC, 50)], indirect=["unit"])
def test_the_unit_leaves_little_exposed(unit: Guest, most: int) -> None:
    """The threshold is 2.0; 5.0 for the unit that an old systemd must understand."""
    unit.run(f"systemd-analyze security --offline=yes --threshold={most} /run/systemd/system/xwayd.service")
