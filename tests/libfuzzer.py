"""The compiler that has libFuzzer."""

import subprocess
from pathlib import Path

from rig.errors import RigError
from rig.host import need_packages


def compiler() -> str:
    """Return the newest clang that has libFuzzer; install one if there is none."""

    def found() -> list[str]:
        runtimes = Path("/usr/lib").glob("llvm-*/lib/clang/*/lib/*/libclang_rt.fuzzer*x86_64.a")
        versions = {int(path.parts[3].removeprefix("llvm-")) for path in runtimes}
        return [name for v in sorted(versions) if Path(name := f"/usr/bin/clang-{v}").exists()]

    if not found():
        for version in (19, 14):  # Debian 13's, Debian 12's
            names = [f"clang-{version}", f"libclang-rt-{version}-dev"]
            if (
                subprocess.run(["apt-cache", "show", *names], capture_output=True, check=False).returncode
                == 0
            ):
                need_packages(names)
                break
    if not found():
        raise RigError("libFuzzer is missing: apt-get install clang libclang-rt-dev")
    return found()[-1]
