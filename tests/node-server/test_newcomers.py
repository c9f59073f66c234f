"""Connections on which nothing is served: they are few, and for a short time."""

import contextlib
import select

import node_frames as nf
import pytest
from authority import Authority
from cluster import wait_for

LIMIT = 512


@pytest.fixture(params=["clear", "tls"])
def node(request, binary, tmp_path):
    options = []
    if request.param == "tls":
        authority = Authority(tmp_path / "ca")
        authority.issue("node")
        options = ["--tls-certificate", authority.file("node.pem"),
                   "--tls-key", authority.file("node.key"), "--tls-ca", authority.file("ca.pem")]
    with nf.NodeProcess(binary, options=options) as node:
        yield node
        assert node.terminate() == 0, node.log()


def is_cut(connection):
    """Whether the node has closed it; it says nothing by itself."""
    if not select.select([connection], [], [], 0)[0]:
        return False
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_who_only_connects_gives_way_to_others_and_is_cut(node):
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(node.text_connection()) for _ in range(LIMIT + 50)]
        wait_for(lambda: all(map(is_cut, silent[:50])), "the first to give way")
        assert not any(map(is_cut, silent[-100:]))
        wait_for(lambda: all(map(is_cut, silent[50:])), "all to be cut")


def test_who_has_been_served_may_be_silent(binary):
    with nf.NodeProcess(binary) as node, contextlib.ExitStack() as stack:
        frames = stack.enter_context(node.connect())
        frames.join_cluster()
        text = stack.enter_context(node.text_connection())
        text.sendall(b"version\r\n")
        assert text.recv(100).startswith(b"VERSION")
        binary_client = stack.enter_context(node.text_connection())
        binary_client.sendall(b"\x80\x0a" + bytes(22))  # noop
        assert binary_client.recv(100).startswith(b"\x81\x0a")
        begun = stack.enter_context(node.connect()).adopt(frames)
        frame = begun.shard_frame(nf.shard_name(1), bytes(100_000))
        begun.socket.sendall(frame[:1000])
        wait_for(lambda: int(node.statistics()["partial_data_bytes"]) > 0, "the frame to begin")
        silent = [stack.enter_context(node.text_connection()) for _ in range(LIMIT)]
        assert node.statistics()["newcomers"] == str(LIMIT - 1)  # the one that asks has displaced one
        assert is_cut(silent[0])
        wait_for(lambda: is_cut(silent[-1]), "the last one to be cut")
        assert node.statistics()["newcomers_cut"] == str(LIMIT)
        begun.socket.sendall(frame[1000:])
        assert begun.receive().status == nf.OK
        assert frames.hello().status == nf.OK
        text.sendall(b"version\r\n")
        assert text.recv(100).startswith(b"VERSION")
        assert not is_cut(binary_client)
