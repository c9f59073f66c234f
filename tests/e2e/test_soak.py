"""scripts/soak for a short time: it ends well, says what it did, and what clients saw is in order."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

from cluster import BIN

ROOT = pathlib.Path(__file__).resolve().parents[2]


def judge(history):
    """The word of the simulator's checker."""
    done = subprocess.run([BIN / "elastripe-simulate", "--judge", history], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def ask_porcupine(history, directory):
    """A second opinion, where Go has fetched it before (scripts/porcupine): tests fetch nothing."""
    go = shutil.which("go", path=os.environ["PATH"] + ":/usr/local/go/bin")
    program = directory / "porcupine"
    environment = os.environ | {"GOPROXY": "off", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
    if not go or subprocess.run([go, "-C", ROOT / "tests" / "porcupine", "build", "-o", program, "."],
                                capture_output=True, env=environment, check=False).returncode:
        return "not asked: no Go, or it has not fetched Porcupine"
    done = subprocess.run([program, history], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("words", [["--seed", 3], ["--seed", 4, "--proxies", 3, "--etcd"]],
                         ids=["one proxy", "three proxies and etcd"])
def test_a_soak_prints_one_line_of_figures(words, tmp_path, record_property):
    history = tmp_path / "history.jsonl"
    done = subprocess.run([ROOT / "scripts" / "soak", "--hours", "0.003", *map(str, words), "--to",
                           tmp_path / "logs", "--history", history],
                          capture_output=True, text=True, timeout=280, check=False,
                          env=os.environ | {"ELASTRIPE_BIN": str(BIN)})
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1 and " lost 0 " in done.stdout
    told = done.stdout.split()

    def count(word):
        return int(told[told.index(word) + 1])
    assert count("acknowledged") > 100
    events = ["kills", "proxy_kills", "proxy_suspensions", "added", "transitions", "scrubs"]
    for event in events + ["etcd_kills"] * ("--etcd" in words):
        assert count(event) > 0, event
    operations = [json.loads(line) for line in history.read_text().splitlines()]
    assert len(operations) >= count("recorded") > 100
    assert {"done", "hit", "miss", "exists"} <= {operation["answer"] for operation in operations}
    assert not any("torn" in operation.get("read_value", "") for operation in operations)
    judge(history)
    record_property("Porcupine", ask_porcupine(history, tmp_path))
