"""The Python client logs in, over TLS, where a cluster wants both."""

import ssl

import pytest

import elastripe
from cluster import payload


@pytest.fixture(scope="module")
def cluster(make_cluster):
    return make_cluster(nodes=4, scheme="rs:2,1", flags=["--tls", "--auth"])


def connect(cluster, password, **options):
    context = ssl.create_default_context(cafile=str(cluster.dir / "tls" / "ca.pem"))
    return elastripe.Client(cluster.server, tls=context, user="elastripe", password=password, **options)


def test_all_goes_over_tls_once_logged_in(cluster):
    password = (cluster.dir / "users").read_text().strip().split(":")[1]
    with connect(cluster, password) as client:
        for size in (10, 1_000_000):
            value = payload(size, size)
            client.put("key", value)
            assert client.get("key") == value
            client.update("key", 3, b"abc")
            assert client.get_range("key", 0, 8).data == value[:3] + b"abc" + value[6:8]
        assert client.object_info("key")["size"] == 1_000_000


def test_a_wrong_password_is_told(cluster):
    with connect(cluster, "wrong") as client:
        with pytest.raises(elastripe.Error, match="authentication failure"):
            client.put("key", b"value")
