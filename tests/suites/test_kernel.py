"""The kernel's own tests of what leaves the ring: kTLS, zero-copy send and receive."""

import re
import time

import pytest

from rig import pace
from tests.sources import kernel_selftest
from tests.suites.conftest import Outcomes, Suite

pytestmark = [pytest.mark.rig(kernel="6.12"), pytest.mark.rig(kernel="6.1")]


def test_tls(suite: Suite) -> None:
    suite.guest.put(kernel_selftest("net/tls", suite.guest.debian), "/tmp/tls", mode=0o755)
    suite.guest.run("modprobe tls")

    def tell(names: list[str]) -> Outcomes:
        words = [f"-r {name}" for name in names] or ["-v 12_aes_gcm", "-v 13_aes_gcm"]
        done = suite.guest.run(f"/tmp/tls {' '.join(words)}", timeout=900, check=False)
        told = re.findall(r"^(ok|not ok) \d+ (\S+)(?: # (SKIP|XFAIL))?", done.stdout, re.MULTILINE)
        return {name: directive or outcome for outcome, name, directive in told}

    # Each sets the option as soon as it is connected: nothing is to go by ring.
    suite.compare(tell, 0, "upper-layer-protocol")


def copies(family: int, host: str) -> dict[str, tuple[str, str]]:
    """Return the commands of a receiver and of a sender, by what is copied without copies."""
    server, client = f"/tmp/tcp_mmap -{family} -s -i", f"/tmp/tcp_mmap -{family} -H {host} -i"
    ends = f"-{family} -S {host} -D {host}"
    receiver, sender = f"/tmp/msg_zerocopy {ends} -t 2 -r tcp", f"/tmp/msg_zerocopy {ends} -t 1"
    return {
        f"tcp_mmap, IPv{family}": (server, client),
        f"tcp_mmap, receive, IPv{family}": (f"{server} -z", client),
        f"tcp_mmap, send, IPv{family}": (server, f"{client} -z"),
        f"msg_zerocopy, IPv{family}": (receiver, f"{sender} tcp"),
        f"msg_zerocopy, send, IPv{family}": (receiver, f"{sender} -z tcp"),
    }


COPIES = {**copies(4, "127.0.0.1"), **copies(6, "::1")}


def test_zero_copy(suite: Suite) -> None:
    for name in ("tcp_mmap", "msg_zerocopy"):
        suite.guest.put(kernel_selftest(f"net/{name}", suite.guest.debian), f"/tmp/{name}", mode=0o755)

    def tell(names: list[str]) -> Outcomes:
        told = {}
        for name in names or COPIES:
            server, client = COPIES[name]
            running = suite.guest.start(f"stdbuf -oL {server}")
            suite.guest.run(
                "for i in $(seq 50); do ss -Hltn | grep -q . && break; sleep 0.1; done; sleep 0.5"
            )
            done = suite.guest.run(f"timeout 100 {client}", timeout=120, check=False)
            told[name] = f"status {done.status}: {done.stderr[-300:]}" if done.status else "ok"
            end = time.monotonic() + pace.limit(20)
            while not re.search("SHA256 is correct|rx=", running.stdout() + running.stderr()):
                if time.monotonic() > end:
                    told[name] += f", receiver: {running.stdout()[-300:]} {running.stderr()[-300:]}"
                    break
                time.sleep(0.2)
            running.kill()
        return told

    # They begin with zero-copy, or turn to it.
    suite.compare(tell, 0, "zero-copy")
