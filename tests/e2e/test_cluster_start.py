"""`elastripe cluster start` and other people's files, and how the programs end."""

import json
import os
import signal

import pytest

from cluster import Raw, free_ports, payload, run, wait_for


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def refused_start(directory, *words):
    done = run("elastripe", "cluster", "start", "--dir", directory, "--nodes", 3, *words,
               check=False)
    assert done.returncode == 1, done.stdout
    return done.stderr


def start_and_stop(directory, port, nodes=2):
    run("elastripe", "cluster", "start", "--dir", directory, "--nodes", nodes, "--scheme", "rep:2",
        "--port", port)
    run("elastripe", "cluster", "stop", "--dir", directory)


def test_a_refused_start_changes_nothing(tmp_path):
    port = free_ports(5)
    scheme = ["--port", port, "--scheme", "ers:4,2,5"]
    missing = tmp_path / "missing"
    message = refused_start(missing, *scheme)
    assert "needs 7 nodes" in message and str(missing / "elastripe.yaml") in message
    assert not missing.exists()

    used = tmp_path / "used"
    start_and_stop(used, port)
    (used / "my.log").write_text("what was here")
    before = contents(used)
    refused_start(used, *scheme)
    refused_start(used, "--port", port, "--scheme", "rep:3", "--set", "nosuch.key=1")
    assert contents(used) == before


@pytest.mark.parametrize("setting", ["listen.port=1", "listen={port: 1}", "nodes.0.port=1"])
def test_a_start_refuses_addresses_that_it_would_not_ask_at(tmp_path, setting):
    message = refused_start(tmp_path / "cluster", "--port", free_ports(5), "--scheme", "rep:3",
                            "--set", setting)
    assert setting in message and "use --port" in message
    assert not (tmp_path / "cluster").exists()


@pytest.mark.parametrize("theirs", ["elastripe.yaml", "cluster.json", "n0.log", "proxy.pid"])
def test_a_file_of_someone_else_is_not_replaced(tmp_path, theirs):
    (tmp_path / theirs).write_text("listen: {port: 1}\n")
    before = contents(tmp_path)
    message = refused_start(tmp_path, "--port", free_ports(5), "--scheme", "rep:3")
    assert str(tmp_path / theirs) in message and "not written by" in message
    assert contents(tmp_path) == before


def test_a_directory_that_others_can_write_is_not_trusted(tmp_path):
    directory = tmp_path / "cluster"
    port = free_ports(5)
    start_and_stop(directory, port)
    assert not directory.stat().st_mode & 0o022
    for path, mode in [(directory, 0o775), (directory, 0o757), (directory / "cluster.json", 0o666)]:
        before = path.stat().st_mode
        path.chmod(mode)
        for words in (["stop"], ["status"], ["kill", "n0"], ["start", "--port", port]):
            done = run("elastripe", "cluster", words[0], "--dir", directory, *words[1:],
                       check=False)
            assert done.returncode == 1, done.stdout
            assert f"{path} can be written by others" in done.stderr
        path.chmod(before)
    start_and_stop(directory, port)


def test_a_start_removes_only_what_an_earlier_one_left(tmp_path):
    theirs = {"my.log", "n.log", "nginx.log", "n1x.pid", "proxy.log.1", "app.pid", "pn1.log"}
    directory = tmp_path / "cluster"
    directory.mkdir()
    for name in theirs:
        (directory / name).write_text("what was here")
    port = free_ports(5)
    start_and_stop(directory, port, nodes=3)
    assert (directory / "n2.log").exists()
    (directory / "n7.pid").write_text("1000 1\n")
    start_and_stop(directory, port, nodes=2)
    after = contents(directory)
    for name in theirs:
        assert after[name] == b"what was here"
    assert "n2.log" not in after and "n7.pid" not in after
    assert after["proxy.log"].count(b"listening on") == 1


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


def test_a_proxy_that_ends_is_not_ready_and_answers_what_has_begun(make_cluster):
    cluster = make_cluster(nodes=3, scheme="rs:2,1")
    value = payload(24 << 20, "large")
    assert cluster.client().set("large", value, noreply=False)
    assert cluster.ask_admin("/readyz") == (200, "ok\n")
    reader = Raw(cluster.port)
    reader.send(b"get large\r\n")
    assert reader.line().startswith(b"VALUE large ")
    pid = cluster.pid("proxy")
    os.kill(pid, signal.SIGTERM)
    wait_for(lambda: cluster.ask_admin("/readyz") == (503, "shutting down\n"), "it is not ready")
    assert json.loads(cluster.admin("/v1/status"))["state"] == "stopping"
    assert reader.file.read(len(value)) == value
    assert reader.file.read() == b"\r\nEND\r\n"
    reader.close()
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"), "the proxy ends")
