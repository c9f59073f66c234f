"""The installed C++ client builds a program outside the tree, and serves it at a real cluster."""

import os
import re
import shutil
import sys

import pytest

from build_tree import BIN, BUILD, CXX, SOURCE, run

sys.path.insert(0, str(SOURCE / "tests/support"))

from cluster import free_ports  # noqa: E402

HEADERS = {"admin.h", "client.h", "error.h", "options.h", "pool.h"}
README = SOURCE / "client-lib/README.md"
SAID = "new bytes of 1000000\nstored, then exists\ners-2:4,1,5\ndone, 1 transitioned\n"


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """One that has moved since: what is installed finds its parts wherever it is."""
    installed = tmp_path_factory.mktemp("installed") / "there"
    run("cmake", "--install", BUILD / "client-lib", "--prefix", installed)
    return shutil.move(installed, tmp_path_factory.mktemp("moved") / "here")


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The sources of the example, and nothing else of ours."""
    return shutil.copytree(SOURCE / "client-lib/example", tmp_path_factory.mktemp("theirs") / "example")


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    cli = os.path.join(os.environ.get("ELASTRIPE_BIN", BIN), "elastripe")
    directory = tmp_path_factory.mktemp("cluster") / "cluster"
    port = free_ports(9)
    try:
        run(cli, "cluster", "start", "--dir", directory, "--nodes", 7, "--scheme", "ers:4,1,5",
            "--port", port)
        yield f"127.0.0.1:{port}"
    finally:
        run(cli, "cluster", "stop", "--dir", directory)


def library_dir(prefix):
    return next(prefix.rglob("libelastripe_client.so")).parent


def test_headers_and_library_are_in_their_places(prefix):
    assert {path.name for path in (prefix / "include/elastripe").iterdir()} == HEADERS
    library = library_dir(prefix)
    assert (library / "libelastripe_client.so.0.1").is_file()
    dynamic = run("readelf", "-d", library / "libelastripe_client.so").stdout
    assert "[libelastripe_client.so.0.1]" in dynamic and "RUNPATH" not in dynamic


def test_the_library_exports_what_its_headers_declare(prefix):
    symbols = run("nm", "-DC", "--defined-only", library_dir(prefix) / "libelastripe_client.so")
    names = {re.match(r"elastripe::client::(\w+)|.*", line.split(" ", 2)[2])[1]
             for line in symbols.stdout.splitlines()}
    headers = "".join((prefix / "include/elastripe" / name).read_text() for name in HEADERS)
    functions = set(re.findall(r"^(?!inline)[\w:<>]+ (\w+)\(", headers, re.M))
    assert functions > {"parse_address", "name"}
    assert names == functions | {"Admin", "Client", "Error", "Pool", "Transition"}


@pytest.mark.parametrize("header", sorted(HEADERS))
def test_each_header_is_complete(prefix, header):
    run(CXX, "-std=c++23", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++",
        f"-I{prefix}/include", "-include", f"elastripe/{header}", "/dev/null")


def test_a_program_by_find_package(prefix, example, proxy, tmp_path):
    run("cmake", "-G", "Ninja", "-S", example, "-B", tmp_path, f"-DCMAKE_CXX_COMPILER={CXX}",
        f"-DCMAKE_PREFIX_PATH={prefix}")
    run("ninja", "-C", tmp_path)
    assert run(tmp_path / "example", proxy).stdout == SAID


def compile_by_pkg_config(prefix, compiler, source, program):
    library = library_dir(prefix)
    flags = run("pkg-config", "--cflags", "--libs", "elastripe-client",
                env={**os.environ, "PKG_CONFIG_PATH": str(library / "pkgconfig")}).stdout.split()
    run(compiler, "-std=c++23", "-Wall", "-Wextra", "-Werror", source, *flags,
        f"-Wl,-rpath,{library}", "-o", program)


@pytest.mark.parametrize("compiler", [CXX, "g++"])
def test_a_program_by_pkg_config(prefix, example, proxy, tmp_path, compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    compile_by_pkg_config(prefix, compiler, example / "main.cc", tmp_path / "example")
    assert run(tmp_path / "example", proxy).stdout == SAID
    # The next proxy is asked where the first one is gone.
    gone = f"127.0.0.1:{free_ports(1)}"
    assert run(tmp_path / "example", gone, proxy).stdout == SAID


def test_the_program_of_the_reference(prefix, proxy, tmp_path):
    source = tmp_path / "main.cc"
    source.write_text(re.search("```cpp\n(.*?)```", README.read_text(), re.S)[1])
    compile_by_pkg_config(prefix, CXX, source, tmp_path / "program")
    cli = os.path.join(os.environ.get("ELASTRIPE_BIN", BIN), "elastripe")
    assert run(tmp_path / "program", proxy).stdout == "new bytes of 1000000\n1 transitioned\n"
    assert run(cli, "--server", proxy, "get", "list").stdout == "one\ntwo\n"


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The client's sources configured by themselves; nothing is built."""
    build = tmp_path_factory.mktemp("alone")
    run("cmake", "-G", "Ninja", "-S", SOURCE / "client-lib", "-B", build,
        f"-DCMAKE_CXX_COMPILER={CXX}", f"-DCMAKE_INSTALL_PREFIX={build}/prefix")
    return build


def test_the_client_is_built_alone(alone):
    assert "elastripe_client_shared" in run("ninja", "-C", alone, "-t", "targets").stdout


def test_what_is_not_built_is_not_installed(alone):
    assert "The C++ client is not built" in run("cmake", "--install", alone).stdout
    assert not (alone / "prefix").exists()
