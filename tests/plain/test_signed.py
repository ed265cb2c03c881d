"""A kernel that loads signed modules only, as with Secure Boot: what it refuses, and that TCP goes on."""

import subprocess
from pathlib import Path

import pytest

from rig import build
from rig.debian import Debian
from rig.guest import Guest
from rig.host import need_packages
from rig.machine import Machine
from tests import traffic

TALK = (
    traffic.ECHOED
    + r"""
s = echoed(6000)
for _ in range(20):
    s.sendall(b"x" * 1000)
    assert len(s.recv(1000, socket.MSG_WAITALL)) == 1000
"""
)


def sign(debian: Debian, kernel: str, modules: list[Path], folder: Path) -> list[Path]:
    """Sign copies of modules with a key made for that, as dkms does."""
    need_packages(["openssl"])
    key, certificate = folder / "mok.key", folder / "mok.pub"
    words = "req -new -x509 -nodes -days 36500 -newkey rsa:2048 -outform DER -subj".split()
    made = ["-keyout", key, "-out", certificate]
    subprocess.run(["openssl", *words, "/CN=test", *made], check=True, capture_output=True)
    program = build.headers(debian, kernel) / "scripts/sign-file"
    for module in modules:
        subprocess.run([program, "sha256", key, certificate, module, folder / module.name], check=True)
    return [folder / module.name for module in modules]


def refused(guest: Guest, modules: list[Path], error: str, message: str) -> str:
    """See that modules are not loaded and connections work; return what xway says of it."""
    release = guest.run("uname -r").stdout.strip()
    for path in modules:
        guest.put(path, f"/lib/modules/{release}/updates/dkms/{path.name}")
    guest.run(["depmod", release])
    guest.run("dmesg --clear")
    done = guest.run("modprobe xway", check=False)
    assert done.status == 1 and done.stderr == f"modprobe: ERROR: could not insert 'xway': {error}\n"
    assert message in guest.kernel_log()
    assert not guest.run("grep ^xway /proc/modules", check=False).stdout
    guest.run(["python3", "-c", TALK])
    done = guest.run("xway", check=False)
    assert done.status == 1
    return done.stderr


@pytest.mark.rig(kernel="6.12", xway=False, arguments="lockdown=integrity")
def test_modules_without_a_trusted_key_are_refused(machine: Machine, tmp_path: Path) -> None:
    """By lockdown, as Debian's kernel has it where the firmware enforces Secure Boot; and by sig_enforce."""
    guest = machine.guest("g1")
    debian = machine.config.debian
    made = build.products(debian, "6.12")
    guest.put(made.programs["xway"], "/usr/local/bin/xway", mode=0o755)
    # As a system's start does; there the kernel says whether it is locked down.
    guest.run("/rig/busybox mount -t securityfs securityfs /sys/kernel/security")
    unsigned = [path for path in made.modules if "test" not in path.stem]
    signed = sign(debian, "6.12", unsigned, tmp_path)
    locked = "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7"
    said = refused(guest, unsigned, "Operation not permitted", locked)
    assert "and this one is not signed" in said
    said = refused(guest, signed, "Operation not permitted", locked)
    assert "loads only modules that are signed with a key that it trusts" in said and "modprobe" in said

    guest.run("echo Y >/sys/module/module/parameters/sig_enforce")
    rejected = "Key was rejected by service"
    refused(guest, unsigned, rejected, "Loading of unsigned module is rejected")
    refused(guest, signed, rejected, "Loading of module with unavailable key is rejected")
    # Debian's own are signed with a key that its kernel has.
    guest.run("modprobe dummy && grep ^dummy /proc/modules")
