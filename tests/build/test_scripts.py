"""scripts/build shows how far it is without a terminal, and the quickstart how long it took."""

import os
import shutil

import pytest

from build_tree import SOURCE, run, write_program


@pytest.fixture()
def checkout(tmp_path):
    """A project of nothing but scripts, and a cmake and a ninja that only talk."""
    shutil.copytree(SOURCE / "scripts", tmp_path / "project/scripts")
    write_program(tmp_path / "path/cmake", "echo configuring")
    return tmp_path


def build(checkout, *words, check=True):
    environment = {**os.environ, "PATH": f"{checkout}/path:{os.environ['PATH']}"}
    return run("bash", checkout / "project/scripts/build", *words, check=check, env=environment)


def ninja(checkout, *lines, status=0):
    said = "\n".join(f"echo '{line}'" for line in lines)
    write_program(checkout / "path/ninja",
                  f"echo \"$NINJA_STATUS/$*\" > {checkout}/words\n{said}\nexit {status}")


def test_steps_are_thinned_out_and_all_else_is_kept(checkout):
    ninja(checkout, "ninja: Entering directory `build", "[1/2] Building CXX object a.o",
          "a.cc:1: warning: odd", "[2/2] Linking b")
    assert build(checkout, "asan", "b").stdout == "a.cc:1: warning: odd\n"
    assert (checkout / "words").read_text().endswith("/-C build/asan b\n")


def test_a_step_is_shown_when_time_has_passed(checkout):
    # the script's own clock goes from 100 s to 120 s while ninja runs
    text = (checkout / "project/scripts/build").read_text()
    assert text.count("last=$SECONDS\n  while") == 1
    (checkout / "project/scripts/build").write_text(
        text.replace("last=$SECONDS\n  while", "last=$((SECONDS - 20))\n  while"))
    ninja(checkout, "[57/183] Building CXX object a.o", "[58/183] Building CXX object b.o")
    assert build(checkout).stdout == "build: 57 of 183 steps, 31%\n"


def test_a_failed_build_fails(checkout):
    ninja(checkout, "[1/2] Building", "FAILED: a.o", "ninja: build stopped: subcommand failed.",
          status=1)
    done = build(checkout, check=False)
    assert done.returncode == 1
    assert done.stdout == "FAILED: a.o\nninja: build stopped: subcommand failed.\n"


def test_the_quickstart_says_when_the_cluster_is_ready(checkout):
    project = checkout / "project"
    calls = checkout / "calls"
    for name in ("install-packages", "build"):
        write_program(project / "scripts" / name, f"echo {name} $* >> {calls}")
    write_program(project / "build/bin/elastripe", f"echo elastripe $* >> {calls}")
    (project / "scripts/quickstart_demo.py").write_text("print('demonstration')")
    done = run("bash", project / "scripts/quickstart", "--port", "12345")
    head, ready, demonstration = done.stdout.rsplit("\n", 3)[:3]
    assert ready.startswith("== ready after ") and ready.endswith(" s")
    assert demonstration == "demonstration"
    assert "build release elastripe elastripe-node elastripe-proxy" in calls.read_text()
