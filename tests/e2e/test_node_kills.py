"""Any m nodes die: every acknowledged object reads back and new ones can be written."""

import itertools

import pytest

from cluster import payload

COPIES = "copies/"  # the prefix of a pool of whole copies, beside the default pool's stripes
SIZES = [0, 10, 5000, 16 * 1024, 16 * 1024 + 1, 100_000, 1024 * 1024 + 3]


def store(client, name):
    """Objects of all sizes in both pools, each written over an older value."""
    values = {}
    for size in SIZES:
        for pool in ("", COPIES):
            key = f"{pool}{name}/{size}"
            client.set(key, b"an older value", noreply=False)
            values[key] = payload(size, key)
            assert client.set(key, values[key], noreply=False)
    return values


def check(client, values, when):
    for key, value in values.items():
        assert client.get(key) == value, f"{key} {when}"


def kill_and_check(cluster, victims):
    """Store, kill, read, write, overwrite, delete, bring back."""
    name = "-".join(victims)
    client = cluster.client()
    values = store(client, name)
    cluster.kill(*victims)
    check(client, values, f"after {name} died")
    new = store(client, f"{name}/new")
    check(client, new, "written after the kill")
    for key in list(values)[-2:]:  # the largest of each pool
        assert client.set(key, b"overwritten", noreply=False)
        assert client.get(key) == b"overwritten"
        assert client.delete(key, noreply=False)
        assert client.get(key) is None
    cluster.restart(*victims)
    cluster.wait_serving()


def subsets(nodes, m):
    names = [f"n{i}" for i in range(nodes)]
    return [s for size in range(1, m + 1) for s in itertools.combinations(names, size)]


# k' + 2m nodes, so that writes need none of the dead.


@pytest.fixture(scope="module")
def single(make_cluster):
    return make_cluster(nodes=5, scheme="ers:2,1,3", pools={COPIES: "rep:2"},
                        settings=["timing.read_grace_ms=1000"])


@pytest.fixture(scope="module")
def double(make_cluster):
    return make_cluster(nodes=7, scheme="ers:2,2,3", pools={COPIES: "rep:3"},
                        settings=["timing.read_grace_ms=1000"])


@pytest.mark.parametrize("cluster, schemes", [("single", {"ers-2:2,1,3", "rep:2"}),
                                              ("double", {"ers-2:2,2,3", "rep:3"})])
def test_half_of_the_objects_are_striped_and_half_are_copies(cluster, schemes, request):
    cluster = request.getfixturevalue(cluster)
    values = store(cluster.client(), "scheme")
    objects = [cluster.object(key) for key in list(values)[-2:]]
    assert {o["scheme"] for o in objects} == schemes
    assert all(o["missing_shards"] == 0 for o in objects)


@pytest.mark.parametrize("victims", subsets(5, 1), ids="-".join)
def test_one_parity_survives_any_one_node(single, victims):
    kill_and_check(single, victims)


@pytest.mark.parametrize("victims", subsets(7, 2), ids="-".join)
def test_two_parities_survive_any_two_nodes(double, victims):
    kill_and_check(double, victims)
