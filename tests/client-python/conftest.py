import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE.parent.parent / "client-lib/python/src")]

from cluster_fixtures import *  # noqa: E402,F401,F403
from fake_proxy import FakeProxy  # noqa: E402


@pytest.fixture
def proxy():
    """Makes proxies that end with the test."""
    proxies = []

    def make(*answers, **options):
        proxies.append(FakeProxy(*answers, **options))
        return proxies[-1]

    yield make
    for each in proxies:
        each.stop()
