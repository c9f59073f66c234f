"""What a transition puts on the network is what `elastripe plan` counts, whoever counts it."""

import json

import pytest

from cluster import payload, run

LAYOUTS = ["srs", "ers-1", "ers-2"]
K, M, K_PRIME = 4, 2, 5  # the min rule changes the counts of ers-1 and ers-2
SIZE = 4 * 1024 * 1024   # one segment
KEY = {layout: f"{layout}/object" for layout in LAYOUTS}


@pytest.fixture(scope="module")
def cluster(make_cluster):
    cluster = make_cluster(nodes=K_PRIME + M, scheme=f"ers-2:{K},{M},{K_PRIME}",
                           pools={f"{layout}/": f"{layout}:{K},{M},{K_PRIME}"
                                  for layout in LAYOUTS},
                           settings=["timing.read_grace_ms=1000",
                                     # a busy machine is no reason to read more, and what is
                                     # walked beside is asked for in few frames
                                     "timing.hedge_after_ms=7000", "partitions=64"])
    client = cluster.client()
    for layout, key in KEY.items():
        assert client.set(key, payload(SIZE, layout), noreply=False)
    return cluster


@pytest.fixture(scope="module")
def plan():
    words = ["--json", "plan", "--k", K, "--m", M, "--k-prime", K_PRIME]
    return json.loads(run("elastripe", *words).stdout)


def planned(plan, layout, direction, execution):
    """Blocks read and sent for one segment."""
    of = plan["layouts"][layout][direction]
    if execution == "delta":
        read = len(of["data_blocks"])
        return read, of["network"]["delta"] - read
    # the plan counts without the min rule, but for blocks_read_min
    return of["blocks_read_min"], of["network"]["proxy"] - of["blocks_read"]


def on_the_wire(cluster):
    """Bytes since the start, by the proxy's connections and by the nodes' frames."""
    proxy = sum(value for name, value in cluster.metrics().items()
                if name.startswith(("elastripe_node_sent_bytes_total",
                                    "elastripe_node_received_bytes_total")))
    nodes = 0
    for i in range(cluster.nodes):
        stats = cluster.node_client(i).stats("elastripe")
        nodes += int(stats[b"bytes_in"]) + int(stats[b"bytes_out"])
    return proxy, nodes


def transition(cluster, layout, direction, execution):
    to = K_PRIME if direction == "forward" else K
    report = cluster.json("transition", "--key", KEY[layout], "--to", to, "--execution", execution)
    assert report["counts"]["transitioned"] == 1
    return report


@pytest.mark.parametrize("execution", ["delta", "proxy"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_blocks_and_bytes_are_those_of_the_plan(cluster, plan, layout, execution):
    rows, stripes = plan["rows"], plan["stripes"]
    block = -(-SIZE // plan["l"])
    block = -(-block // 16) * 16  # coding blocks are multiples of 16 bytes
    for direction, codewords in (("forward", rows), ("backward", stripes)):
        read, sent = planned(plan, layout, direction, execution)
        if execution == "proxy":
            assert sent == M * codewords
        before = on_the_wire(cluster)
        done = transition(cluster, layout, direction, execution)["done"]
        after = on_the_wire(cluster)
        assert (done["read_blocks"], done["sent_blocks"]) == (read, sent), direction
        assert (done["read_bytes"], done["sent_bytes"]) == (read * block, sent * block)
        for who, old, new in zip(("proxy", "nodes"), before, after):
            # frames, records and heartbeats come on top: far less than one block
            assert (new - old) // block == read + sent, f"{direction}: {who}"


def test_the_plans_differ_as_the_layouts_do(plan):
    for direction in ("forward", "backward"):
        for execution in ("delta", "proxy"):
            srs, ers1, ers2 = (sum(planned(plan, layout, direction, execution))
                               for layout in LAYOUTS)
            assert ers2 < ers1 < srs


def test_the_object_is_the_same_after_all(cluster):
    client = cluster.client()
    for layout, key in KEY.items():
        assert client.get(key) == payload(SIZE, layout)
