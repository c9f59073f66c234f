"""`elastripe cluster start` and other people's files, and how the programs end."""

import json
import os
import signal

import pytest
from pymemcache.client.base import Client

from cluster import Raw, free_ports, payload, run, wait_for


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def refused_start(directory, *words):
    done = run("elastripe", "cluster", "start", "--dir", directory, "--nodes", 3, *words,
               check=False)
    assert done.returncode == 1, done.stdout
    return done.stderr


def running(directory):
    told = json.loads(run("elastripe", "--json", "cluster", "status", "--dir", directory).stdout)
    return [process["name"] for process in told["processes"] if process["running"]]


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
    theirs = {"my.log", "n.log", "nginx.log", "n1x.pid", "proxy.log.1", "app.pid", "pn1.log",
              "n007.log", "n-1.log", "proxy0.log", "proxy1.log", "proxy02.pid"}
    directory = tmp_path / "cluster"
    directory.mkdir()
    for name in theirs:
        (directory / name).write_text("what was here")
    port = free_ports(5)
    start_and_stop(directory, port, nodes=3)
    assert (directory / "n2.log").exists()
    for name in ["n7.pid", "proxy3.pid"]:
        (directory / name).write_text("1000 1\n")
    start_and_stop(directory, port, nodes=2)
    after = contents(directory)
    for name in theirs:
        assert after[name] == b"what was here"
    assert not {"n2.log", "n7.pid", "proxy3.pid"} & set(after)
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


def test_several_proxies_serve_one_cluster_and_end_with_it(make_cluster):
    cluster = make_cluster(nodes=3, scheme="rep:2", flags=["--tls", "--auth"], proxies=3)
    statuses = [cluster.proxy_status(name) for name in cluster.proxies]
    assert [status["state"] for status in statuses] == ["serving"] * 3
    # They begin at once; by now one decides, and the others follow it.
    assert sum(status["decides"] for status in statuses) == 1
    assert len({status["cluster_id"] for status in statuses}) == 1
    assert running(cluster.dir) == ["n0", "n1", "n2", *cluster.proxies]
    ports = [p["port"] for p in
             cluster.json("cluster", "status", "--dir", cluster.dir)["processes"]]
    assert len(set(ports)) == len(ports)
    assert [cluster.proxy_port(name) for name in cluster.proxies] == ports[3:]
    clients = {name: Client(str(cluster.dir / f"{name}.sock"), timeout=30)
               for name in cluster.proxies}
    for name, client in clients.items():
        assert client.set(name, b"by " + name.encode(), noreply=False)
    for client in clients.values():
        for name in cluster.proxies:
            assert client.get(name) == b"by " + name.encode()
    cluster.kill("proxy")
    assert running(cluster.dir) == ["n0", "n1", "n2", "proxy2", "proxy3"]
    for name in ["proxy2", "proxy3"]:
        assert clients[name].get("proxy") == b"by proxy"
        assert clients[name].set("later", b"by " + name.encode(), noreply=False)
        assert {clients[other].get("later") for other in ["proxy2", "proxy3"]} == \
            {b"by " + name.encode()}
    # a restart of a node asks a proxy that runs
    cluster.restart("n1")
    done = cluster.cli("cluster", "kill", "--dir", cluster.dir, "proxy4", check=False)
    assert "the cluster has n0 to n2 and proxy to proxy3" in done.stderr
    cluster.stop()
    assert not running(cluster.dir)


def test_several_proxies_start_again_when_some_were_killed(tmp_path):
    directory = tmp_path / "cluster"
    port = free_ports(8)
    for victims in [["proxy", "proxy3"], ["proxy2"]]:
        done = run("elastripe", "cluster", "start", "--dir", directory, "--nodes", 2, "--scheme",
                   "rep:2", "--port", port, "--proxies", 3, "--tls")
        told = ", ".join(f"127.0.0.1:{at}" for at in (port, port + 4, port + 6))
        assert f"2 nodes and 3 proxies run; clients connect to any of {told}\n" in done.stdout
        run("elastripe", "cluster", "kill", "--dir", directory, *victims)
        run("elastripe", "cluster", "stop", "--dir", directory)
        assert not running(directory)


def test_settings_that_only_one_of_several_proxies_could_have_are_refused_at_once(tmp_path):
    port = free_ports(9)
    listens = f"listeners=[{{host: 127.0.0.1, port: {port + 5}}}]"
    assert f"--set {listens}: several proxies can not listen there" in refused_start(
        tmp_path, "--port", port, "--scheme", "rep:2", "--proxies", 3, "--set", listens)
    assert "--set admin.port=4242: the cluster's addresses follow from --port" in refused_start(
        tmp_path, "--port", port, "--scheme", "rep:2", "--set", "admin.port=4242")
    assert not (tmp_path / "n0.log").exists()


def test_of_several_proxies_one_that_cannot_start_is_named(tmp_path):
    (tmp_path / "proxy2.sock").mkdir()
    message = refused_start(tmp_path, "--port", free_ports(9), "--scheme", "rep:2", "--proxies", 3,
                            "--tls")
    assert message.startswith(f"elastripe: proxy2 ended; the end of {tmp_path / 'proxy2.log'}:\n")
    assert f"can not listen on {tmp_path / 'proxy2.sock'}" in message
    assert not running(tmp_path)


@pytest.mark.parametrize("count", [0, 17])
def test_a_start_refuses_no_proxy_and_too_many(tmp_path, count):
    done = run("elastripe", "cluster", "start", "--dir", tmp_path / "cluster", "--proxies", count,
               check=False)
    assert done.returncode == 2 and "--proxies" in done.stderr
    assert not (tmp_path / "cluster").exists()
