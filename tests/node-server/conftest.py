import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from node_frames import NodeProcess  # noqa: E402


@pytest.fixture(scope="session")
def binary():
    path = os.environ.get("ELASTRIPE_NODE")
    assert path, "set ELASTRIPE_NODE to the path of elastripe-node"
    return path


def run_node(binary):
    with NodeProcess(binary) as node:
        yield node
        assert node.is_running(), node.log()
        code = node.terminate()
        assert code == 0, node.log()
        assert "ERROR: " not in node.log() and "WARNING: " not in node.log(), node.log()


@pytest.fixture
def node(binary):
    yield from run_node(binary)


@pytest.fixture(scope="module")
def shared_node(binary):
    yield from run_node(binary)
