"""The quickstart's demonstration does what it prints (its build is this build)."""

import os
import pathlib
import subprocess

import pytest

from cluster import BIN, payload

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize("own_files", [False, True], ids=["the project", "files given"])
def test_the_demonstration_survives_two_kills(make_cluster, tmp_path, own_files):
    cluster = make_cluster(nodes=9, scheme="ers:4,2,5")
    files = []
    if own_files:
        for name, size in (("large file.bin", 3_000_000), ("small", 10), ("empty", 0)):
            (tmp_path / name).write_bytes(payload(size, name))
            files.append(tmp_path / name)
    done = subprocess.run(
        ["/usr/bin/python3", "-B", ROOT / "scripts/quickstart_demo.py", "--dir", cluster.dir,
         "--port", str(cluster.port), *files],
        capture_output=True, text=True, timeout=100, check=False,
        env={**os.environ, "ELASTRIPE_BIN": str(BIN)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "same SHA-256" in done.stdout and "SIGKILL" in done.stdout
    assert "the parities match the data" in done.stdout
    large = cluster.object("file/0/large_file.bin" if own_files else "project.tar")
    assert {segment["state"] for segment in large["segments"]} == {"k'"}
    assert sum(state == "lost" for state in cluster.node_states().values()) == 2
