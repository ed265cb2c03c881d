"""Tests in this folder run on a real Xen."""

import pytest

from rig import fixtures


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give tests their machine."""
    fixtures.choose(metafunc)
