"""Client libraries with all proxies in their list of servers. By a hash each asks one of them for a key, and
no two libraries the same one: any proxy serves any key."""

import itertools
import shutil
import subprocess

import memcache
import pylibmc
import pytest
from pymemcache.client.hash import HashClient
from pymemcache.exceptions import MemcacheError

from cluster import DEADLINE_S, payload, wait_for
from proxies import wait_whole

KEYS = 60
FAILURES = (MemcacheError, OSError, pylibmc.Error)


@pytest.fixture(scope="module")
def cluster(make_cluster):
    made = make_cluster(nodes=4, scheme="rs:2,1", proxies=3)
    wait_whole(made)
    return made


def servers(cluster):
    return [f"127.0.0.1:{cluster.proxy_port(name)}" for name in cluster.proxies]


# As docs/client-protocol.md says, but that a proxy which did not answer is asked again after a second.
LIBRARIES = {
    "pymemcache": lambda cluster: HashClient(
        servers(cluster), connect_timeout=2, timeout=DEADLINE_S, no_delay=True, default_noreply=False,
        retry_attempts=0, dead_timeout=1),
    "pylibmc": lambda cluster: pylibmc.Client(servers(cluster), behaviors={
        "tcp_nodelay": True, "ketama": True, "remove_failed": 1, "failure_limit": 1, "retry_timeout": 1,
        "dead_timeout": 1}),
    "python-memcached": lambda cluster: memcache.Client(servers(cluster), dead_retry=1),
}


def value(key):
    """Every fourth one has shards."""
    return payload(40_000 if int(key.rpartition(".")[2]) % 4 == 0 else 50, key)


def keys_of(library):
    return [f"{library}.{i}" for i in range(KEYS)]


def received(cluster, name):
    """How many bytes that proxy has had of clients."""
    return int(cluster.client(port=cluster.proxy_port(name)).stats()[b"bytes_read"])


def test_what_any_library_writes_by_any_proxy_all_read(cluster):
    clients = {library: make(cluster) for library, make in LIBRARIES.items()}
    for library, client in clients.items():
        before = [received(cluster, name) for name in cluster.proxies]
        assert all(client.set(key, value(key)) for key in keys_of(library))
        for name, had in zip(cluster.proxies, before):
            assert received(cluster, name) > had + 1000, f"{library} asks {name}"
    for client, library in itertools.product(clients.values(), LIBRARIES):
        assert client.get_multi(keys_of(library)) == {key: value(key) for key in keys_of(library)}
    # What one has changed or deleted, none reads as it was.
    for library, client in clients.items():
        changed, gone = keys_of(library)[:2]
        assert client.set(changed, b"changed") and client.delete(gone)
        for other in clients.values():
            assert other.get(changed) == b"changed" and other.get(gone) is None


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_goes_on_when_a_proxy_dies_and_when_it_is_back(cluster, library):
    client = LIBRARIES[library](cluster)
    assert all(client.set(key, value(key)) for key in keys_of(library))
    # This one takes a server that does not answer for one that has nothing.
    misses = [value] if library != "python-memcached" else [value, lambda key: None]

    def goes_on():
        """All keys can be read and written."""
        is_whole = True
        for key in keys_of(library):
            try:
                read = client.get(key)
                assert read in [told(key) for told in misses], key
                is_whole &= read is not None and bool(client.set(key, value(key)))
            except FAILURES:
                is_whole = False
        return is_whole

    cluster.kill("proxy2")
    wait_for(goes_on, "the others are asked")
    cluster.restart("proxy2")
    wait_whole(cluster)
    had = received(cluster, "proxy2")
    wait_for(lambda: goes_on() and received(cluster, "proxy2") > had + 10_000, "it is asked again")


def test_tools_of_libmemcached_take_all_proxies_in_any_order(cluster, tmp_path):
    files = {f"file{i}": payload(50_000, f"file{i}") for i in range(6)}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)

    def tool(order, name, *words):
        path = shutil.which(name)
        assert path, f"{name} is missing: scripts/install-packages"
        subprocess.run([path, f"--servers={','.join(order)}", *words], capture_output=True, cwd=tmp_path,
                       timeout=DEADLINE_S, check=True)

    tool(servers(cluster), "memccp", *files)
    for order in itertools.permutations(servers(cluster)):
        for name, data in files.items():
            tool(order, "memccat", "--file=read", name)
            assert (tmp_path / "read").read_bytes() == data
    library = LIBRARIES["pymemcache"](cluster)
    assert library.get_multi(list(files)) == files
