"""The own tests of client libraries pass against the proxy."""

import os
import re
import subprocess
import sys
import tarfile

import pytest

from cluster import BIN, DEADLINE_S

SCRIPTS = os.path.abspath(f"{__file__}/../../../scripts")


@pytest.fixture(scope="module")
def cluster(make_cluster):
    # Large values are what memcached takes for large. Most tests flush, which takes two heartbeats.
    return make_cluster(nodes=4, scheme="rs:2,1",
                        settings=["max_object_bytes=1MiB", "timing.profile=local"])


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Unpacks the source of a library."""
    cache = subprocess.run([f"{SCRIPTS}/fetch-client-suites", "--cache", BIN.parent / ".client-suites"],
                           stdout=subprocess.PIPE, text=True, timeout=DEADLINE_S, check=True).stdout.strip()
    directory = tmp_path_factory.mktemp("suites")

    def unpack(name):
        archive, = (path for path in os.listdir(cache) if path.startswith(f"{name}-"))
        with tarfile.open(f"{cache}/{archive}") as opened:
            opened.extractall(directory)
        return directory / archive.removesuffix(".tar.gz")

    return unpack


def run_suite(source, *words, **environment):
    """How many tests have passed; all that were not left out have to."""
    done = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "-c", os.devnull,
         "--rootdir", source, *words], cwd=source, env=os.environ | environment, capture_output=True, text=True,
        timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return int(re.search(r"(\d+) passed", done.stdout)[1])


def test_pymemcache(cluster, sources):
    source = sources("pymemcache")
    # Its other files talk to no server, or measure how fast the library is (test_benchmark,
    # test_compression). It skips its test of TLS itself: tests/e2e/test_security.py has one.
    passed = run_suite(source, "pymemcache/test/test_integration.py", "--server", "127.0.0.1", "--port",
                       str(cluster.port), PYTHONPATH=str(source))
    assert passed >= 100


def test_pylibmc(cluster, sources):
    source = sources("pylibmc")
    # The address that these tests say is nowhere else to be set.
    (source / "conftest.py").write_text(
        f"import tests\ntests.PylibmcTestCase.memcached_port = '{cluster.port}'\n")
    passed = run_suite(
        source, "tests",
        # It asks 127.0.0.1:11211, whatever it is told.
        "--deselect", "tests/test_autoconf.py::AutoConfTests::test_no_autoconf", MEMCACHED_PORT=str(cluster.port))
    assert passed >= 40
