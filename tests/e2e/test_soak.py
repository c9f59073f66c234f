"""scripts/soak for half a minute: it ends well, and says what it did."""

import json
import os
import pathlib
import subprocess

from cluster import BIN

SOAK = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "soak"


def test_a_soak_prints_one_line_of_figures(tmp_path):
    history = tmp_path / "history.jsonl"
    done = subprocess.run([SOAK, "--hours", "0.008", "--seed", "3", "--to", tmp_path, "--history", history],
                          capture_output=True, text=True, timeout=280, check=False,
                          env=os.environ | {"ELASTRIPE_BIN": str(BIN)})
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1 and " lost 0 " in done.stdout
    words = done.stdout.split()
    assert int(words[words.index("acknowledged") + 1]) > 100
    assert int(words[words.index("kills") + 1]) > 0
    operations = [json.loads(line) for line in history.read_text().splitlines()]
    assert len(operations) >= int(words[words.index("recorded") + 1]) > 100
    assert {"done", "hit", "miss", "exists"} <= {operation["answer"] for operation in operations}
    assert not any("torn" in operation.get("read_value", "") for operation in operations)
