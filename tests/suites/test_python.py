"""CPython's own tests of sockets."""

import json
from pathlib import Path

import pytest

from tests.suites.conftest import Outcomes, Suite

RUNNER = Path(__file__).with_name("run_unittest.py")
ASYNCIO = "test_server test_streams test_sock_lowlevel test_sendfile test_buffered_proto test_ssl test_events"

pytestmark = [pytest.mark.rig(kernel="6.12"), pytest.mark.rig(kernel="6.1")]


# All it needs is in the base image: the first of them is part of `make check`.
@pytest.mark.parametrize(
    "modules",
    [
        ["test.test_socket"],
        ["test.test_ssl"],
        [f"test.test_asyncio.{name}" for name in ASYNCIO.split()],
    ],
    ids=["socket", "ssl", "asyncio"],
)
def test_python(suite: Suite, modules: list[str]) -> None:
    suite.guest.put(RUNNER, "/tmp/run_unittest.py")

    def tell(names: list[str]) -> Outcomes:
        words = ["python3", "-B", "/tmp/run_unittest.py", "/tmp/outcomes.json", *modules]
        done = suite.guest.run(
            words + (["--", *names] if names else []), timeout=1500, check=False, cwd="/tmp"
        )
        told: Outcomes = json.loads(suite.guest.run("cat /tmp/outcomes.json").stdout)
        print(done.stderr[-20000:])
        return told

    suite.compare(tell, 300_000)
