"""Tests in this folder run on a real Xen."""

from collections.abc import Iterator

import pytest

from rig import fixtures
from rig.machine import Machine
from tests import traffic
from tests.traffic import Ends


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give tests their machine. Its guests are small: domain 0 keeps the image of one in memory."""
    fixtures.choose(metafunc, memory=256)


@pytest.fixture
def ends(machine: Machine) -> Iterator[Ends]:
    """Return g1, which listens, and g2, joined by a link that is up."""
    g1, g2 = machine.guest("g1"), machine.guest("g2")
    for guest in (g1, g2):
        guest.run("modprobe xway; xway on")
        traffic.until(lambda guest=guest: traffic.linked(guest), f"link of {guest.name}")
    ends = Ends(g1, g2, g1.ip4)
    ends.put()
    yield ends
