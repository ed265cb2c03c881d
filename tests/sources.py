"""Other people's tests, out of Debian's source and source-like packages."""

import re
import subprocess
from pathlib import Path

from rig import packages
from rig.image import making
from rig.paths import cache
from rig.progress import Step
from tests import traffic

KERNEL = "linux-source-6.12"
WANTED = ["kselftest.h", "kselftest_harness.h", "net/tls.c", "net/msg_zerocopy.c", "net/tcp_mmap.c"]
WANTED += ["net/mptcp/mptcp_connect.c"]


def kernel_selftests() -> Path:
    """Return the folder tools/testing/selftests of a kernel source, with what is wanted of it."""
    packages.look_up([KERNEL])
    folder = cache() / f"selftests-{packages.version(KERNEL)}"
    with making(folder) as work:
        if work:
            with Step("unpacking the kernel's self-tests"):
                names = " ".join(f"{KERNEL}/tools/testing/selftests/{name}" for name in WANTED)
                subprocess.run(
                    f"dpkg-deb --fsys-tarfile {packages.download(KERNEL)} |"
                    f" tar xO ./usr/src/{KERNEL}.tar.xz | xz -dc -T0 |"
                    f" tar x -C {work} --strip-components=4 {names}",
                    shell=True,
                    check=True,
                )
                # Tests of later kernels were added to this one that call a function by its later arguments.
                tls = work / "net/tls.c"
                calls = re.compile(r"(tls_crypto_info_init\([^;]*?), [01]\);")
                tls.write_text(calls.sub(r"\1);", tls.read_text()))
    return folder


def kernel_selftest(name: str) -> Path:
    """Build one of the kernel's self-tests, such as "net/tls", and return the program."""
    folder = kernel_selftests()
    program = traffic.TOP / "build/tests/selftests" / Path(name).name
    program.parent.mkdir(parents=True, exist_ok=True)
    if not program.exists():
        words = ["gcc", "-O2", "-w", f"-I{folder}", f"-I{folder}/net", "-o", program, folder / f"{name}.c"]
        subprocess.run([*words, "-pthread", "-lcrypto"], check=True)
    return program
