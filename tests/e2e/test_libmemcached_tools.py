"""The command-line clients of libmemcached work against the proxy."""

import shutil
import subprocess

import pytest

from cluster import DEADLINE_S, payload


@pytest.fixture(scope="module")
def cluster(make_cluster):
    return make_cluster(nodes=7, scheme="ers:4,2,5")


def tool(cluster, name, *words, check=True):
    path = shutil.which(name)
    assert path, f"{name} is missing: scripts/install-packages"
    done = subprocess.run([path, f"--servers={cluster.server}", *words], capture_output=True,
                          timeout=DEADLINE_S, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("size", [5, 16 * 1024 + 1, 2 * 1024 * 1024])
def test_memccp_stores_and_memccat_reads(cluster, tmp_path, size):
    file = tmp_path / f"file{size}"
    file.write_bytes(payload(size, "file").replace(b"\0", b"x"))
    tool(cluster, "memccp", str(file))
    out = tmp_path / "out"
    tool(cluster, "memccat", f"--file={out}", file.name)
    assert out.read_bytes() == file.read_bytes()


def test_memcexist_and_memcrm_agree(cluster):
    cluster.client().set("present", b"value", noreply=False)
    assert tool(cluster, "memcexist", "present").returncode == 0
    tool(cluster, "memcrm", "present")
    assert tool(cluster, "memcexist", "present", check=False).returncode != 0


def test_memcdump_names_every_key(cluster):
    client = cluster.client()
    client.flush_all(noreply=False)
    stored = {f"dumped{i}" for i in range(200)}
    for key in stored:
        client.set(key, b"x" * 30_000, noreply=False)
    dumped = tool(cluster, "memcdump").stdout.decode().split()
    assert set(dumped) == stored and len(dumped) == len(stored)


def test_memcping_and_memcstat_are_answered(cluster):
    tool(cluster, "memcping")
    assert b"pid" in tool(cluster, "memcstat").stdout


@pytest.mark.parametrize("dialect", ["-a", "-b"])
def test_memccapable_finds_what_it_looks_for(cluster, dialect):
    path = shutil.which("memccapable")
    assert path, "memccapable is missing: scripts/install-packages"
    host, port = cluster.server.split(":")
    done = subprocess.run([path, "-h", host, "-p", port, dialect], capture_output=True, timeout=DEADLINE_S,
                          check=False)
    assert b"All tests passed" in done.stdout, done.stdout.decode()


def test_memcslap_runs_its_sets_and_gets(cluster):
    for test in ("set", "get"):
        done = tool(cluster, "memcslap", f"--test={test}", "--concurrency=4",
                    "--execute-number=200", "--initial-load=200")
        assert b"failed" not in done.stderr.lower()
