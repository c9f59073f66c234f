"""`elastripe cluster start` and other people's files, and how the programs end."""

import os
import signal

import pytest

from cluster import free_ports, run


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def refused_start(directory, *words):
    done = run("elastripe", "cluster", "start", "--dir", directory, "--nodes", 3, *words,
               check=False)
    assert done.returncode == 1, done.stdout
    return done.stderr


def test_a_refused_start_changes_nothing(tmp_path):
    port = free_ports(5)
    scheme = ["--port", port, "--scheme", "ers:4,2,5"]
    missing = tmp_path / "missing"
    message = refused_start(missing, *scheme)
    assert "needs 7 nodes" in message and str(missing / "elastripe.yaml") in message
    assert not missing.exists()

    used = tmp_path / "used"
    used.mkdir()
    for name in ("n0.log", "n0.pid", "proxy.log", "elastripe.yaml", "cluster.json", "my.log"):
        (used / name).write_text("what was here")
    before = contents(used)
    refused_start(used, *scheme)
    refused_start(used, "--port", port, "--scheme", "rep:3", "--set", "nosuch.key=1")
    assert contents(used) == before


def test_a_start_removes_only_what_an_earlier_one_left(tmp_path):
    ours = {"n0.log", "n7.pid", "n12.log", "proxy.pid"}
    theirs = {"my.log", "n.log", "nginx.log", "n1x.pid", "proxy.log.1", "app.pid", "pn1.log"}
    directory = tmp_path / "cluster"
    directory.mkdir()
    for name in ours | theirs:
        (directory / name).write_text("what was here")
    port = free_ports(4)
    run("elastripe", "cluster", "start", "--dir", directory, "--nodes", 2, "--scheme", "rep:2",
        "--port", port)
    try:
        after = contents(directory)
        for name in theirs:
            assert after[name] == b"what was here"
        assert "n7.pid" not in after and "n12.log" not in after
        assert after["n0.log"] != b"what was here"
    finally:
        run("elastripe", "cluster", "stop", "--dir", directory)


@pytest.mark.parametrize("words", [["elastripe", "nonsense"], ["elastripe-proxy"],
                                   ["elastripe-proxy", "--config", "x", "--nonsense"],
                                   ["elastripe-node", "--port", "x"]], ids=" ".join)
def test_a_usage_error_ends_with_two(words):
    assert run(*words, check=False).returncode == 2


@pytest.mark.parametrize("program", ["elastripe", "elastripe-proxy", "elastripe-node"])
def test_help_and_version_end_with_zero(program):
    assert "Usage" in run(program, "--help").stdout
    assert run(program, "--version").stdout.startswith(program + " ")


def test_a_directory_is_no_configuration(tmp_path):
    done = run("elastripe-proxy", "--config", tmp_path, check=False)
    assert done.returncode == 1
    assert done.stderr == f"elastripe-proxy: {tmp_path}: is a directory, must be a file\n"


def test_a_terminal_that_goes_away_ends_no_proxy(make_cluster):
    cluster = make_cluster(nodes=2, scheme="rep:2")
    pid = cluster.pid("proxy")
    os.kill(pid, signal.SIGHUP)
    client = cluster.client()
    assert client.set("key", b"value", noreply=False) and client.get("key") == b"value"
    assert cluster.pid("proxy") == pid
