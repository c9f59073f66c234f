"""The command finds a proxy's admin interface through its client port, and takes no other for it."""

import contextlib
import socketserver
import threading

import pytest

from cluster import run


@contextlib.contextmanager
def proxy_elsewhere(admin_addr):
    """A port that answers as a proxy of another machine."""
    answers = {b"version": b"VERSION 1.6.18-elastripe-0.1.0\r\n",
               b"stats settings": f"STAT admin_addr {admin_addr}\r\n"
                                  "STAT proxy_id 0123456789abcdef\r\nEND\r\n".encode()}

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            for line in self.rfile:
                self.wfile.write(answers.get(line.strip(), b"ERROR\r\n"))

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def refused(port, *words):
    done = run("elastripe", "--server", f"127.0.0.1:{port}", *words, check=False)
    assert done.returncode != 0, done.stdout
    return done.stderr


@pytest.fixture(scope="module")
def cluster(make_cluster):
    return make_cluster(nodes=2, scheme="rep:2")


def test_another_proxy_at_the_same_address_is_told_nothing(cluster):
    admin = f"127.0.0.1:{cluster.port + 1 + cluster.nodes}"
    everywhere = f"0.0.0.0:{cluster.port + 1 + cluster.nodes}"  # told as the host that was asked
    with proxy_elsewhere(everywhere) as port:
        assert "is of another proxy" in refused(port, "status")
    with proxy_elsewhere(admin) as port:
        for words in (["status"], ["accept-loss"], ["node", "declare-dead", "n1", "--yes"],
                      ["transition", "--all", "--to", "2"]):
            assert "is of another proxy" in refused(port, *words)
        assert "is of another proxy" in refused(port, "--admin", admin, "status")
    log = cluster.log("proxy")
    assert "event=serves" in log
    assert "event=declared_dead" not in log and "event=loss_accepted" not in log


def test_an_admin_interface_that_is_not_reached_is_named(cluster):
    with proxy_elsewhere("127.0.0.1:9") as port:
        assert "run this there, or name its address with --admin" in refused(port, "status")


def test_the_admin_interface_may_be_named(cluster):
    admin = f"localhost:{cluster.port + 1 + cluster.nodes}"
    assert "serving" in cluster.cli("--admin", admin, "status").stdout
