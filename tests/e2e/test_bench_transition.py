"""elastripe bench transition runs all its experiments and writes what it measured."""

import json
import xml.etree.ElementTree

import pytest

from cluster import free_ports, run

EXPERIMENTS = ["sizes", "small", "parameters", "bandwidth", "order", "bulk", "beside"]


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The run: what it printed, its JSON, its charts."""
    directory = tmp_path_factory.mktemp("bench")
    done = run("elastripe", "bench", "transition", "--quick", "--port", free_ports(12),
               "--output", directory / "out.json", "--svg", directory / "charts", timeout=240)
    return done.stdout, json.loads((directory / "out.json").read_text()), directory / "charts"


def test_every_experiment_is_measured(quick):
    text, results, _ = quick
    for experiment in EXPERIMENTS:
        if experiment == "bandwidth" and results["network"].startswith("No rates"):
            continue  # this machine permits no network of its own
        assert results[experiment], experiment
    for case in results["sizes"] + results["parameters"] + results["bandwidth"] + results["order"]:
        for direction in ("forward", "backward"):
            assert case[direction]["us"]["repetitions"] == results["repetitions"]
            assert case[direction]["us"]["p10"] > 0
    for case in results["small"]:
        for direction in ("forward", "backward"):
            assert case[direction]["job_us"]["repetitions"] == results["repetitions"]
            assert case[direction]["job_us"]["p10"] > 0
    assert "Object sizes" in text and "All objects of a pool" in text and "goal " in text


def test_what_is_counted_on_the_network_is_what_is_planned(quick):
    _, results, _ = quick
    large = [case for case in results["parameters"] if case["object_bytes"] == 1 << 20]
    assert {case["layout"] for case in large} == {"srs", "ers-1", "ers-2"}
    assert {case["execution"] for case in large} == {"proxy", "delta"}
    for case in large:
        for direction in ("forward", "backward"):
            counted = case[direction]
            blocks = counted["blocks_read"] + counted["blocks_sent"]
            block = counted["block_bytes"] // blocks
            assert counted["proxy_wire_bytes"] // block == blocks, case
            assert counted["node_wire_bytes"] // block == blocks, case
    for bulk in results["bulk"]:
        assert bulk["objects"] == 20
        assert bulk["proxy_wire_bytes"] >= bulk["block_bytes"]


def test_every_chart_is_an_svg_file(quick):
    charts = sorted(path.name for path in quick[2].iterdir())
    assert {"transition-sizes-forward.svg", "transition-bulk.svg"} <= set(charts)
    for name in charts:
        root = xml.etree.ElementTree.parse(quick[2] / name).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_one_experiment_alone(tmp_path):
    done = run("elastripe", "--json", "bench", "transition", "--quick", "--only", "order",
               "--port", free_ports(12), timeout=120)
    results = json.loads(done.stdout)
    assert results["order"] and not results["sizes"] and not results["bulk"]
    on = [case for case in results["order"] if case["order_selection"]]
    off = [case for case in results["order"] if not case["order_selection"]]
    for with_, without in zip(on, off, strict=True):
        assert with_["backward"]["blocks_read"] < without["backward"]["blocks_read"]


@pytest.mark.parametrize("words", [["--only", "nothing"], ["--repetitions", "0"], ["--sizes", "1"]])
def test_wrong_command_lines_are_refused(words):
    assert run("elastripe", "bench", "transition", *words, check=False).returncode == 2
