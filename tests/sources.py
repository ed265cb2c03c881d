"""Other people's tests, out of Debian's source packages."""

import subprocess
from pathlib import Path

from rig import packages
from rig.image import making
from rig.paths import cache
from rig.progress import Step
from tests import traffic

KERNEL = "linux-source-6.12"
MPTCP_CONNECT = "net/mptcp/mptcp_connect.c"


def mptcp_connect() -> Path:
    """Build the kernel's self-test mptcp_connect and return the program."""
    packages.look_up([KERNEL])
    folder = cache() / f"selftests-{packages.version(KERNEL)}"
    with making(folder) as work:
        if work:
            with Step("unpacking the kernel's self-tests"):
                subprocess.run(
                    f"dpkg-deb --fsys-tarfile {packages.download(KERNEL)} |"
                    f" tar xO ./usr/src/{KERNEL}.tar.xz | xz -dc -T0 |"
                    f" tar x -C {work} --strip-components=4 {KERNEL}/tools/testing/selftests/{MPTCP_CONNECT}",
                    shell=True,
                    check=True,
                )
    program = traffic.TOP / "build/tests/mptcp_connect"
    program.parent.mkdir(parents=True, exist_ok=True)
    if not program.exists():
        subprocess.run(["gcc", "-O2", "-w", "-o", program, folder / MPTCP_CONNECT], check=True)
    return program
