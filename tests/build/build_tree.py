"""The build that is tested, and how to make others."""

import os
import pathlib
import shutil
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("ELASTRIPE_BUILD", SOURCE / "build")).resolve()
BIN = BUILD / "bin"
CC = os.environ.get("ELASTRIPE_CC", "clang-19")
CXX = os.environ.get("ELASTRIPE_CXX", "clang++-19")
PROGRAMS = ("elastripe", "elastripe-node", "elastripe-proxy")


def run(*words, check=True, **options):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False,
                          timeout=280, **options)
    assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done


def write_program(path, text):
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def copy_sources(target):
    """What git tracks, or would track, as it is now."""
    names = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard",
                cwd=SOURCE).stdout.split("\0")
    for name in filter(None, names):
        if (SOURCE / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(SOURCE / name, target / name)
    return target
