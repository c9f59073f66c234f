"""Where etcd elects the proxy that decides: it is killed, proxies are, and it wants passwords."""

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import urllib.request

import pytest

from authority import Authority
from cluster import BIN, Raw, another_proxy, free_ports, payload, run, status_at, wait_for
from proxies import Visits, check_service_beside, failures_beside, killed, load, wait_whole


class Etcd:
    """What a client of etcd asks."""

    def __init__(self, url):
        self.url = url
        self.token = None

    def ask(self, path, **body):
        headers = {"Authorization": self.token} if self.token else {}
        request = urllib.request.Request(f"{self.url}/v3/{path}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer)

    def log_in(self, user, password):
        self.token = None
        self.token = self.ask("auth/authenticate", name=user, password=password)["token"]

    def get(self, key):
        """Nothing if there is none, or etcd does not answer."""
        try:
            found = self.ask("kv/range", key=base64.b64encode(key.encode()).decode())
        except OSError:
            return None
        values = [base64.b64decode(pair["value"]).decode() for pair in found.get("kvs", [])]
        return values[0] if values else None


def of_cluster(cluster):
    return Etcd(f"http://127.0.0.1:{cluster.port + cluster.nodes + 2 * len(cluster.proxies)}")


def elected(cluster, etcd):
    """The name of the proxy that etcd has; nothing if it has none."""
    value = etcd.get("/elastripe/elastripe/decider")
    ids = {cluster.proxy_status(name).get("proxy_id"): name for name in cluster.proxies}
    return ids.get(value.split()[0]) if value else None


def wait_elected(cluster, etcd, but=None):
    """One decides, and etcd has it; which is that."""
    def is_agreed():
        name = elected(cluster, etcd)
        return name if name and name != but and cluster.decider() == name else None
    return wait_for(is_agreed, "etcd has the proxy that decides")


@pytest.fixture(name="cluster")
def elected_proxies(make_cluster):
    return make_cluster(nodes=8, scheme="ers:4,2,5", proxies=3, flags=["--etcd"])


def test_whom_etcd_elects_takes_the_place_of_one_that_is_gone(cluster):
    etcd = of_cluster(cluster)
    wait_whole(cluster)
    with load(cluster) as writers:
        for end in [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM]:
            name = wait_elected(cluster, etcd)
            assert wait_whole(cluster) == name
            before = failures_beside(cluster, writers, name)
            pid = cluster.pid(name)
            os.kill(pid, end)
            try:
                wait_elected(cluster, etcd, but=name)
                writers.wait_acks(100)
                assert failures_beside(cluster, writers, name) == before, "others notice nothing"
            finally:
                if end == signal.SIGSTOP:
                    os.kill(pid, signal.SIGCONT)
            if end != signal.SIGSTOP:
                wait_for(lambda named=name: cluster.pid(named) == 0, "it has ended")
                cluster.restart(name)
            assert wait_whole(cluster) != name
    epoch = cluster.status()["epoch"]["number"]
    assert f"epoch {epoch} " in etcd.get("/elastripe/elastripe/map")
    members = etcd.get("/elastripe/elastripe/members").splitlines()
    assert members[0] == f"n0 127.0.0.1:{cluster.port + 1} n0 member" and len(members) == 8


def test_clients_of_other_proxies_are_served_while_etcd_elects(make_cluster, record_property):
    settings = ["timing.suspect_after_ms=2500", "timing.lease_ms=7500"]
    cluster = make_cluster(nodes=8, scheme="ers:4,2,5", proxies=3, flags=["--etcd"], settings=settings)
    with Visits(cluster) as visits:
        service = check_service_beside(cluster, visits, killed)
    record_property("seconds of clients of the others", service)


def test_without_etcd_the_cluster_serves_on_and_nothing_changes_hands(cluster):
    etcd = of_cluster(cluster)
    name = wait_elected(cluster, etcd)
    wait_whole(cluster)
    epoch = cluster.status()["epoch"]["number"]
    with load(cluster) as writers:
        cluster.kill("etcd")
        wait_for(lambda: all(cluster.proxy_status(proxy)["election"]["problem"]
                             for proxy in cluster.proxies), "all know that etcd is away")
        assert "impossible now" in cluster.cli("status").stdout
        writers.wait_acks(300)
        assert (cluster.decider(), cluster.status()["epoch"]["number"]) == (name, epoch)
        assert sum(ledger.failures for ledger in writers.ledgers) == 0
        # A node that dies meanwhile is dealt with as ever: of a write that it was just to commit,
        # the outcome may be unknown.
        cluster.kill("n3")
        writers.wait_acks(100)
        cluster.restart("n3")
        assert wait_whole(cluster) == name
        for ledger in writers.ledgers:
            assert ledger.failures <= 1
            assert all("outcome unknown: node n3: " in reason for reason in ledger.reasons)
        cluster.restart("etcd")
        assert wait_elected(cluster, etcd) == name
        wait_for(lambda: not any(cluster.proxy_status(proxy)["election"]["problem"]
                                 for proxy in cluster.proxies), "all know that etcd is back")
        cluster.kill(name)
        wait_elected(cluster, etcd, but=name)
        writers.wait_acks(100)
        cluster.restart(name)
        wait_whole(cluster)


def test_nobody_begins_while_etcd_is_away(cluster):
    etcd = of_cluster(cluster)
    name = wait_elected(cluster, etcd)
    wait_whole(cluster)
    others = [proxy for proxy in cluster.proxies if proxy != name]
    client = cluster.client(port=cluster.proxy_port(others[0]))
    assert client.set("key", payload(100_000, 1), noreply=False)
    cluster.kill("etcd")
    cluster.kill(name)
    wait_for(lambda: all(cluster.proxy_status(proxy)["state"] == "waiting" for proxy in others),
             "leases have ended, and nobody has begun")
    for proxy in others:
        status = cluster.proxy_status(proxy)
        assert not status["decides"] and "etcd" in status["reason"], status["reason"]
    cluster.restart("etcd")
    assert wait_elected(cluster, etcd) in others
    wait_for(lambda: cluster.proxy_status(others[0])["state"] == "serving", "it serves again")
    assert client.get("key") == payload(100_000, 1)
    cluster.restart(name)
    wait_whole(cluster)


def test_etcd_that_has_lost_its_data_elects_as_ever(make_cluster):
    cluster = make_cluster(nodes=4, scheme="rep:2", proxies=3, flags=["--etcd"])
    etcd = of_cluster(cluster)
    name = wait_elected(cluster, etcd)
    wait_whole(cluster)
    epoch = cluster.status()["epoch"]
    for _ in range(50):
        revision = int(etcd.ask("kv/put", key=base64.b64encode(b"/other").decode())["header"]["revision"])
    cluster.kill("etcd")
    shutil.rmtree(cluster.dir / "etcd")
    cluster.restart("etcd")
    assert wait_elected(cluster, etcd) == name
    members = wait_for(lambda: etcd.get("/elastripe/elastripe/members"), "the nodes are told anew")
    assert len(members.splitlines()) == 4
    assert int(etcd.ask("kv/range", key="YQ==")["header"]["revision"]) < revision
    elected = etcd.get("/elastripe/elastripe/decider")
    wait_for(lambda: all(cluster.proxy_status(proxy)["election"] ==
                         {"by": "etcd", "elected": elected, "problem": ""} for proxy in cluster.proxies),
             "all know of the new one")
    assert cluster.status()["epoch"] == epoch, "nothing has changed hands"
    cluster.kill(name)
    wait_elected(cluster, etcd, but=name)


def test_a_stop_ends_proxies_before_what_they_need(make_cluster):
    cluster = make_cluster(nodes=3, scheme="rs:2,1", proxies=2, flags=["--etcd"],
                           settings=["timing.shutdown_wait_ms=60000"])
    value = payload(24 << 20, "large")
    assert cluster.client().set("large", value, noreply=False)
    reader = Raw(cluster.port)
    reader.send(b"get large\r\n")
    assert reader.line().startswith(b"VALUE large ")

    def running():
        told = cluster.json("cluster", "status", "--dir", cluster.dir)["processes"]
        return {process["name"] for process in told if process["running"]}
    needed = {"n0", "n1", "n2", "etcd"}
    stops = subprocess.Popen([BIN / "elastripe", "cluster", "stop", "--dir", cluster.dir])
    try:
        wait_for(lambda: "proxy2" not in running(), "the proxy ends that has nothing to do")
        assert running() == needed | {"proxy"}
        assert reader.file.read(len(value)) == value
        assert reader.file.read() == b"\r\nEND\r\n"
        assert stops.wait(60) == 0
    finally:
        stops.kill()
        reader.close()
    assert not running()


@contextlib.contextmanager
def etcd_of_its_own(directory, port):
    """One process; it may be killed and started again."""
    def start():
        with open(directory / "etcd.log", "a") as log:
            process = subprocess.Popen(
                ["etcd", f"--data-dir={directory / 'data'}", "--logger=zap",
                 f"--listen-client-urls=http://127.0.0.1:{port}",
                 f"--advertise-client-urls=http://127.0.0.1:{port}",
                 f"--listen-peer-urls=http://127.0.0.1:{port + 1}",
                 f"--initial-advertise-peer-urls=http://127.0.0.1:{port + 1}",
                 f"--initial-cluster=default=http://127.0.0.1:{port + 1}"],
                stdout=log, stderr=subprocess.STDOUT)
        processes.append(process)
        etcd = Etcd(f"http://127.0.0.1:{port}")
        def is_there():
            with contextlib.suppress(OSError):
                return etcd.ask("maintenance/status")
        wait_for(is_there, "etcd answers")
        return etcd

    processes = []
    try:
        yield processes, start
    finally:
        for process in processes:
            process.kill()
            process.wait()


def want_passwords(etcd, user, password, prefix):
    """From now on etcd lets that user read and write under the prefix, and nobody else."""
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    coded = {"key": base64.b64encode(prefix.encode()).decode(),
             "range_end": base64.b64encode(end.encode()).decode()}
    for name, word in [("root", "of root"), (user, password)]:
        etcd.ask("auth/user/add", name=name, password=word)
        etcd.ask("auth/role/add", name=name)
        etcd.ask("auth/user/grant", user=name, role=name)
    etcd.ask("auth/role/grant", name=user, perm={"permType": "READWRITE", **coded})
    etcd.ask("auth/enable")
    etcd.log_in(user, password)


def test_etcd_with_passwords_elects_and_tells_where_the_nodes_are(tmp_path, make_cluster):
    port = free_ports(4)
    with etcd_of_its_own(tmp_path, port) as (processes, start):
        etcd = start()
        want_passwords(etcd, "stripes", "secret words", "/ours/")
        password = tmp_path / "password"
        password.write_text("wrong words\n")
        password.chmod(0o644)
        # The first member is none that answers.
        places = f"http://127.0.0.1:{port + 2},http://127.0.0.1:{port}"
        settings = [f"etcd.endpoints={places}", "etcd.prefix=/ours", "etcd.user=stripes",
                    f"etcd.password_file={password}"]
        refused = run("elastripe", "cluster", "start", "--dir", tmp_path / "refused", "--nodes", 3,
                      "--scheme", "rep:2", "--port", free_ports(5), "--set", settings[0],
                      "--set", "etcd.user=stripes", check=False)
        assert "etcd.user: and password_file are set together" in refused.stderr
        # What it starts with is wrong, and is mended while it waits.
        starts = subprocess.Popen(
            [BIN / "elastripe-proxy", "--config", alone(tmp_path, settings)],
            stdout=open(tmp_path / "alone.log", "w"), stderr=subprocess.STDOUT)
        try:
            told = lambda: (tmp_path / "alone.log").read_text()  # noqa: E731
            wait_for(lambda: "chmod 600" in told(), "others may read the password")
            password.chmod(0o600)
            wait_for(lambda: "can not log in" in told(), "the password is wrong")
            password.write_text("secret words\n")
            wait_for(lambda: "no cluster of that name was formed" in told(), "it may read now")
            cluster = make_cluster(nodes=4, scheme="rep:2", proxies=2, settings=settings)
            wait_for(lambda: "listening on" in told(), lambda: f"it has joined: {told()}")
            name = wait_for(cluster.decider, "one decides")
            before = wait_for(lambda: etcd.get("/ours/decider"), "one is elected")
            # Its tokens are gone with its process.
            processes[0].kill()
            processes[0].wait()
            wait_for(lambda: cluster.proxy_status("proxy")["election"]["problem"], "it is away")
            start()
            etcd.log_in("stripes", "secret words")
            wait_for(lambda: not cluster.proxy_status("proxy")["election"]["problem"], "it is back")
            cluster.kill(name)
            wait_for(lambda: etcd.get("/ours/decider") not in (None, before), "another one is elected")
            cluster.restart(name)
        finally:
            starts.terminate()
            assert starts.wait(30) == 0
        cluster.stop()


def alone(directory, settings):
    """The file of a proxy that knows of etcd and of nothing else."""
    alone.port = free_ports(2)
    file = directory / "alone.yaml"
    tree = {"listen": {"port": alone.port}, "admin": {"port": alone.port + 1},
            "etcd": {key.split(".")[1]: value for key, value in (s.split("=", 1) for s in settings)}}
    file.write_text(json.dumps(tree))
    return file


def test_etcd_speaks_tls_and_no_other_ca_is_believed_until_it_is_in_the_file(tmp_path, make_cluster):
    cluster = make_cluster(nodes=4, scheme="rep:2", proxies=2, flags=["--etcd", "--tls"])
    name = wait_for(cluster.decider, "one decides")
    before = cluster.proxy_status(name)["election"]["elected"]
    other = next(proxy for proxy in cluster.proxies if proxy != name)
    assert before and cluster.proxy_status(other)["election"]["elected"] == before
    cluster.kill(name)
    wait_for(lambda: cluster.decider() == other, "the other one decides")
    assert cluster.proxy_status(other)["election"]["elected"] != before
    cluster.restart(name)
    # Another CA, and those that the system believes.
    Authority(tmp_path / "other")
    port = free_ports(2)
    for ca in [str(tmp_path / "other" / "ca.pem"), ""]:
        words = ["--set", f"etcd.ca={ca}", "--set", f"listen.port={port}", "--set",
                 f"admin.port={port + 1}", "--set", f"listeners.0.path={tmp_path / 'own.sock'}"]
        with another_proxy(cluster, *words):
            wait_for(lambda: "event=no_election" in cluster.log("another"), "it does not believe etcd")
            if ca:
                shutil.copy(cluster.dir / "tls" / "ca.pem", ca)
                wait_for(lambda: status_at(port + 1).get("election", {}).get("elected"), "it does now")
        assert "certificate" in cluster.log("another")
