"""The Python client as a user has it: a wheel, built and installed without a network, and the
example of its README."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGE = SOURCE / "client-lib/python"


def run(*words, **options):
    done = subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True,
                          timeout=100, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pip(command, *words):
    run("-m", "pip", command, "--no-index", "--no-deps", "--no-cache-dir",
        "--disable-pip-version-check", *words)


def test_the_wheel_runs_the_example_of_the_readme(make_cluster, tmp_path):
    # What a build leaves behind stays outside of the sources.
    copy = shutil.copytree(PACKAGE, tmp_path / "python",
                           ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    pip("wheel", "--no-build-isolation", "--wheel-dir", tmp_path, copy)
    wheel, = tmp_path.glob("elastripe-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"elastripe/__init__.py", "elastripe/py.typed"} <= set(names)
    project = (SOURCE / "CMakeLists.txt").read_text()
    version = re.search(r"project\(elastripe VERSION (\S+)", project)
    assert wheel.name == f"elastripe-{version[1]}-py3-none-any.whl"

    installed = tmp_path / "installed"
    pip("install", "--target", installed, wheel)
    cluster = make_cluster(nodes=7, scheme="ers:4,2,5")
    example = re.search(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)[1]
    assert "127.0.0.1:11311" in example
    script = tmp_path / "example.py"
    script.write_text(example.replace("127.0.0.1:11311", cluster.server)
                      + "print(elastripe.__file__)\n")
    lines = run(script, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(installed)}).splitlines()
    assert lines[0] == "b'new bytes' 1000000"
    assert lines[1] == "ers-2:4,2,5"
    assert "'transitioned': 1" in lines[2]
    assert lines[3].startswith(str(installed))
