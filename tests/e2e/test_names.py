"""The names of metrics, statistics and settings are a contract: the documents list what there is."""

import pathlib
import re

import pytest

DOCS = pathlib.Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def cluster(make_cluster):
    return make_cluster(nodes=2, scheme="rep:2", settings=["timing.lease_ms=4321"])


def rows_of(document, heading):
    """The cells of the first table of a section, without its heading."""
    section = (DOCS / document).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\|(.*)\|$", section.partition("|---|")[2], re.MULTILINE)
    return [[cell.strip() for cell in row.split("|")] for row in rows if "---" not in row]


def test_every_metric_is_in_the_table_with_its_labels(cluster):
    documented = {name.strip("`"): set(labels.replace(",", " ").split())
                  for name, labels, _ in rows_of("admin-api.md", "GET /metrics")}
    shown = {}
    for line in cluster.admin("/metrics").splitlines():
        if kind := re.fullmatch(r"# TYPE (\w+) (counter|gauge|histogram)", line):
            family = kind[1]
            shown[family] = set()
        elif line.startswith("# HELP"):
            assert line.endswith("."), "a sentence"
        else:
            shown[family] |= set(re.findall(r'(\w+)="', line)) - {"le"}
    assert shown == documented


def test_every_statistic_of_a_node_is_in_the_table(cluster):
    documented = {name for names, _ in rows_of("node-protocol.md", "Statistics")
                  for name in names.split(", ")}
    shown = {re.sub(r"^(frames|refused)_.*", r"\1_NAME", name.decode())
             for name in cluster.node_client(0).stats("elastripe")}
    assert shown == documented


def test_settings_are_told_by_the_names_of_the_file(cluster):
    told = {name.decode(): value for name, value in cluster.client().stats("settings").items()}
    for line in (DOCS / "config.example.yaml").read_text().split("\nlimits:\n")[1].splitlines():
        if setting := re.match(r"  (\w+): ", line):
            assert setting[1] in told
    assert (told["lease_ms"], told["staged_bytes"]) == (4321, 256 << 20)
    assert told["flush_all"] == b"allow"
