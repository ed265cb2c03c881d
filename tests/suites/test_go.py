"""The tests of Go's own network library."""

import re

import pytest

from tests.sources import go_tests
from tests.suites.conftest import Outcomes, Suite

pytestmark = [pytest.mark.rig(kernel="6.12"), pytest.mark.rig(kernel="6.1")]


@pytest.mark.parametrize("package", ["net", "net/http"])
def test_go(suite: Suite, package: str) -> None:
    suite.guest.put(go_tests(package, suite.guest.debian), "/tmp/go.tar")
    suite.guest.run("tar xf /tmp/go.tar -C /tmp")

    def tell(names: list[str]) -> Outcomes:
        chosen = f"-test.run '^({'|'.join(names)})$'" if names else ""
        done = suite.guest.run(
            f"./tests -test.short -test.v -test.timeout 900s {chosen}",
            timeout=1000,
            check=False,
            cwd=f"/tmp/src/{package}",
        )
        print(done.stdout[-20000:], done.stderr[-5000:])
        return {name: end for end, name in re.findall(r"^--- (\w+): (\S+)", done.stdout, re.MULTILINE)}

    suite.compare(tell, 300_000)
