"""elastripe bench becomes elastripe-bench, and builds it in a build tree that lacks it."""

import os
import shutil

import pytest

from build_tree import BIN, run, write_program

SAYS_ITS_WORDS = 'printf "<%s>" "$@"'


@pytest.fixture()
def tree(tmp_path):
    """A directory with the command alone."""
    (tmp_path / "bin").mkdir()
    shutil.copy2(BIN / "elastripe", tmp_path / "bin")
    return tmp_path


def test_its_words_reach_the_other_program_as_they_are(tree):
    write_program(tree / "bin/elastripe-bench", SAYS_ITS_WORDS)
    for words in (["--help"], ["small", "--help"], ["--quick", "small"], ["a b", "-x", "--", "'"],
                  ["ycsb", "--server", "127.0.0.1:1"], []):
        assert run(tree / "bin/elastripe", "bench", *words).stdout == \
            ("".join(f"<{word}>" for word in words) or "<>")
    assert run(tree / "bin/elastripe", "--json", "bench", "small").stdout == "<--json><small>"


def test_its_exit_status_is_the_other_programs(tree):
    write_program(tree / "bin/elastripe-bench", "exit 7")
    assert run(tree / "bin/elastripe", "bench", check=False).returncode == 7


def test_a_build_tree_builds_it_once(tree):
    (tree / "CMakeCache.txt").touch()
    write_program(tree / "path/cmake", f"""echo "$*" >> {tree}/calls; echo progress
printf '#!/bin/sh\\necho measured\\n' > {tree}/bin/elastripe-bench
chmod +x {tree}/bin/elastripe-bench""")
    environment = {**os.environ, "PATH": f"{tree}/path:{os.environ['PATH']}"}
    for _ in range(2):
        done = run(tree / "bin/elastripe", "bench", env=environment)
        assert done.stdout == "measured\n"
    assert (tree / "calls").read_text() == f"--build {tree} --target elastripe-bench\n"


def test_a_build_that_fails_is_an_error(tree):
    (tree / "CMakeCache.txt").touch()
    write_program(tree / "path/cmake", "echo no such target; exit 1")
    environment = {**os.environ, "PATH": f"{tree}/path:{os.environ['PATH']}"}
    done = run(tree / "bin/elastripe", "bench", check=False, env=environment)
    assert done.returncode == 1
    assert "no such target" in done.stderr and "could not be built" in done.stderr


def test_without_a_build_tree_it_says_what_is_missing(tree):
    done = run(tree / "bin/elastripe", "bench", "small", check=False)
    assert done.returncode == 1
    assert f"the benchmarks are not installed: there is no {tree}/bin/elastripe-bench" in done.stderr


def test_the_real_one_has_help():
    assert (BIN / "elastripe-bench").exists()
    done = run(BIN / "elastripe", "bench", "--help")
    assert "Usage: elastripe bench" in done.stdout and "crossover" in done.stdout
    assert "--records" in run(BIN / "elastripe", "bench", "ycsb", "--help").stdout
