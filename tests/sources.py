"""Other people's tests, out of Debian's source packages."""

import hashlib
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from rig import compiler, packages
from rig.debian import Debian
from rig.packages import BOOKWORM, KERNEL_SOURCE
from rig.paths import cache, making
from rig.progress import Step
from tests import traffic

SELFTESTS = ["kselftest.h", "kselftest_harness.h", "net/tls.c", "net/msg_zerocopy.c", "net/tcp_mmap.c"]
SELFTESTS += ["net/mptcp/mptcp_connect.c"]


def _kept(name: str, wanted: Sequence[str]) -> Path:
    key = hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:12]
    return cache() / f"{name}-{key}"


def _selftests() -> Path:
    """Return the folder tools/testing/selftests of a kernel source, with what is wanted of it."""
    folder = _kept(f"selftests-{BOOKWORM.version(KERNEL_SOURCE)}", [*SELFTESTS, "changed 2"])
    with making(folder) as work:
        if work:
            with Step("unpacking the kernel's self-tests"):
                members = (f"{KERNEL_SOURCE}/tools/testing/selftests/{name}" for name in SELFTESTS)
                packages.unpack_kernel_source(work, *members, strip=4)
                # Tests of later kernels were added to this one that call a function by its later arguments.
                tls = work / "net/tls.c"
                calls = re.compile(r"(tls_crypto_info_init\([^;]*?), [01]\);")
                tls.write_text(calls.sub(r"\1);", tls.read_text()))
                # It would make each connection fall back, by asking for an upper-layer protocol.
                both_ways = work / "net/mptcp/mptcp_connect.c"
                check = "sock_test_tcpulp((s), (p), __LINE__)"
                assert check in both_ways.read_text()
                both_ways.write_text(both_ways.read_text().replace(check, "do { } while (0)"))
                mapped = work / "net/tcp_mmap.c"  # sends 32 GiB: too much for an emulated machine
                mapped.write_text(mapped.read_text().replace("FILE_SZ (1ULL << 35)", "FILE_SZ (1ULL << 27)"))
    return folder


def kernel_selftest(name: str, debian: Debian) -> Path:
    """Build one of the kernel's self-tests, such as "net/tls", and return the program.

    debian: what runs where it is put.
    """
    folder = _selftests()
    program = compiler.folder(debian) / "tests/selftests" / Path(name).name
    program.parent.mkdir(parents=True, exist_ok=True)
    if not program.exists():
        words = [
            *compiler.command(debian),
            "-O2",
            "-w",
            f"-I{folder}",
            f"-I{folder}/net",
            folder / f"{name}.c",
        ]
        subprocess.run([*words, "-o", program, "-pthread", "-lcrypto"], check=True)
    return program


def upstream(debian: Debian, package: str, wanted: Sequence[str]) -> Path:
    """Return a folder with `wanted` files and folders of the upstream sources of Debian package `package`."""
    folder = _kept(f"{package}-{debian.archive.version(package).replace(':', '.')}", wanted)
    with making(folder) as work:
        if work:
            with Step(f"unpacking the tests of {package}"):
                archive = debian.archive.download_source(package)
                words = ["tar", "xf", archive, "-C", work, "--strip-components=1", "--wildcards"]
                subprocess.run([*words, *(f"*/{name}" for name in wanted)], check=True)
    return folder


def go_tests(package: str, debian: Debian) -> Path:
    """Build the tests of a package of Go's library and return the archive of what they need.

    package: its name, such as "net/http". debian: what runs where they are put. In the
    archive, src/PACKAGE/tests is to be run in its folder.
    """
    source = next(Path("/usr/share").glob("go-1.*/src"))
    top = traffic.TOP / "build/tests/go" / package.replace("/", "-")
    archive = top.with_suffix(".tar")
    if not archive.exists():
        folder = top / "src" / package
        folder.mkdir(parents=True, exist_ok=True)
        go = Path("/usr/lib") / source.parent.name / "bin/go"
        env = {**os.environ, "CC": " ".join(compiler.command(debian))}
        subprocess.run([go, "test", "-c", "-o", folder / "tests", package], check=True, env=env)
        subprocess.run(["cp", "-rL", *(source / package).glob("*.go"), folder], check=True)
        subprocess.run(["cp", "-rL", source / package / "testdata", folder], check=True)
        subprocess.run(["cp", "-rL", source / "testdata", top / "src"], check=True)
        subprocess.run(["tar", "cf", archive, "-C", top, "src"], check=True)
    return archive
