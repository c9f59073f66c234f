"""Configuring and building write nothing into the sources, and configuring fetches nothing."""

import os
import pathlib
import shutil
import tempfile

import pytest

from build_tree import CC, CXX, copy_sources, run, write_program

CACHE = os.environ.get("ELASTRIPE_MEMCACHED_CACHE", "")
# some of each kind: a library, one that another project may take in, and memcached's sources
TARGETS = ("elastripe_coding", "elastripe_client", "memcached_objects")


def contents(tree):
    return {path: path.lstat().st_mtime_ns for path in tree.rglob("*")}


@pytest.fixture()
def tmp_path():
    """One that another user may enter: pytest's is closed to all but its own."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield pathlib.Path(name)


@pytest.fixture()
def sources(tmp_path):
    tree = copy_sources(tmp_path / "sources")
    for path in [tree, *tree.rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)
    yield tree
    for path in [tree, *(p for p in tree.rglob("*") if p.is_dir())]:
        path.chmod(0o755)


@pytest.fixture()
def unprivileged():
    """What goes before a command so that permissions hold for it."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]


@pytest.fixture()
def tarball(tmp_path):
    found = [name for name in os.listdir(CACHE) if name.endswith(".tar.xz")] if CACHE else []
    if not found:
        pytest.skip("this build has not fetched memcached's source")
    return shutil.copy2(os.path.join(CACHE, found[0]), tmp_path)


def test_sources_stay_as_they_are(tmp_path, sources, unprivileged, tarball):
    build = tmp_path / "elsewhere"
    build.mkdir(mode=0o777)
    build.chmod(0o777)
    write_program(tmp_path / "path/apt-get", f"touch {build}/apt-get-was-run; exit 1")
    environment = {**os.environ, "PATH": f"{tmp_path}/path:{os.environ['PATH']}",
                   "HOME": str(build), "CCACHE_DIR": str(build / "ccache")}
    before = contents(sources)
    run(*unprivileged, "cmake", "-G", "Ninja", "-S", sources, "-B", build,
        f"-DCMAKE_C_COMPILER={CC}", f"-DCMAKE_CXX_COMPILER={CXX}",
        f"-DELASTRIPE_MEMCACHED_TARBALL={tarball}", "-DCMAKE_BUILD_TYPE=Debug",
        env=environment, cwd=build)
    assert not (build / ".memcached-src").exists(), "configuring prepared memcached's source"
    run(*unprivileged, "ninja", "-C", build, *TARGETS, env=environment, cwd=build)
    assert contents(sources) == before
    assert not (build / "apt-get-was-run").exists()


def test_without_network_and_tarball_the_build_says_which_file_it_wants(tmp_path, sources):
    write_program(tmp_path / "path/apt-get", "exit 100")
    done = run(sources / "scripts/fetch-memcached", "--cache", tmp_path / "cache", check=False,
               env={**os.environ, "PATH": f"{tmp_path}/path:{os.environ['PATH']}",
                    "MEMCACHED_TARBALL": ""})
    assert done.returncode != 0
    assert "MEMCACHED_TARBALL" in done.stderr and "sha256" in done.stderr


def test_a_tarball_that_is_another_file_is_refused(tmp_path, sources):
    (tmp_path / "other.tar.xz").write_bytes(b"not memcached")
    done = run(sources / "scripts/fetch-memcached", "--cache", tmp_path / "cache",
               tmp_path / "other.tar.xz", check=False)
    assert done.returncode != 0 and "is not memcached_1.6.18" in done.stderr
