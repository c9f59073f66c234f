"""Stale values and their winners: one client of many makes a value anew, whichever threads serve them, and
what happens to the cluster meanwhile takes no mark away."""

import threading

import pytest

from cluster import Raw, payload

SIZES = {"small": 100, "large": 300_000}
CLIENTS = 8


@pytest.fixture(scope="module")
def cluster(make_cluster):
    return make_cluster(nodes=7, scheme="ers:4,2,5", settings=["threads=4"])


@pytest.fixture(scope="module")
def clients(cluster):
    """Of all threads."""
    return [Raw(cluster.port) for _ in range(CLIENTS)]


def answers(clients, command):
    """What all of them read at once."""
    start = threading.Barrier(len(clients))
    lines = [b""] * len(clients)

    def ask(i):
        start.wait()
        lines[i] = clients[i].ask(command).splitlines()[0]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return lines


def flags(line):
    return set(line.split()[1:])


def assert_one_wins(lines, others):
    """One is told to make the value anew, all others that somebody was."""
    wins = [line for line in lines if b"W" in flags(line)]
    assert len(wins) == 1, lines
    assert b"Z" not in flags(wins[0])
    assert all(flags(line) >= others for line in lines if line != wins[0]), lines


def store(client, key, value, *words):
    return client.ask(b"ms %s %d%s\r\n%s\r\n" % (key, len(value), b"".join(b" " + w for w in words), value))


def test_one_client_of_many_makes_what_is_missing(clients):
    for round_ in range(40):
        lines = answers(clients, b"mg missing%d t N30\r\n" % round_)
        assert_one_wins(lines, {b"Z"})


@pytest.mark.parametrize("size", SIZES)
def test_one_client_of_many_makes_a_stale_value_anew(clients, size):
    for round_ in range(15):
        key = b"stale/%s/%d" % (size.encode(), round_)
        value = payload(SIZES[size], round_)
        assert store(clients[0], key, value) == b"HD\r\n"
        assert clients[1].ask(b"md %s I T60\r\n" % key) == b"HD\r\n"
        lines = answers(clients, b"mg %s s t c\r\n" % key)
        assert_one_wins(lines, {b"Z", b"X"})
        winner = next(flags(line) for line in lines if b"W" in flags(line))
        assert b"X" in winner and b"s%d" % SIZES[size] in winner
        cas = next(word[1:] for word in winner if word.startswith(b"c"))
        assert store(clients[2], key, value[::-1], b"C" + cas) == b"HD\r\n"
        assert all(not flags(line) & {b"W", b"X", b"Z"} for line in answers(clients, b"mg %s s t\r\n" % key))


@pytest.mark.parametrize("size", SIZES)
def test_one_client_of_many_refreshes_what_expires_soon(clients, size):
    for round_ in range(10):
        key = b"soon/%s/%d" % (size.encode(), round_)
        assert store(clients[0], key, payload(SIZES[size], round_), b"T40") == b"HD\r\n"
        assert_one_wins(answers(clients, b"mg %s s R60\r\n" % key), {b"Z"})


def test_marks_stay_through_what_happens_to_the_cluster(cluster, clients):
    values = {size: payload(SIZES[size], "marked") for size in SIZES}
    stale = {size: b"marks/" + size.encode() for size in SIZES}
    told = {size: b"marks/told/" + size.encode() for size in SIZES}
    client = clients[0]
    for size, value in values.items():
        for key in (stale[size], told[size]):
            assert store(client, key, value) == b"HD\r\n"
            assert client.ask(b"md %s I\r\n" % key) == b"HD\r\n"
        assert flags(client.ask(b"mg %s s\r\n" % told[size])) >= {b"W", b"X"}

    def check_told():
        for size in SIZES:
            for other in clients[:2]:
                line = other.ask(b"mg %s s\r\n" % told[size])
                assert flags(line) == {b"X", b"Z", b"s%d" % len(values[size])}, line

    check_told()
    for size in SIZES:
        for key in (stale[size], told[size]):
            assert client.ask(b"touch %s 1000\r\n" % key) == b"TOUCHED\r\n"
            assert client.ask(b"ms %s 2 o10\r\nab\r\n" % key) == b"HD\r\n"
        values[size] = values[size][:10] + b"ab" + values[size][12:]
    check_told()
    cluster.cli("recycle")
    cluster.cli("transition", "--all", "--to", "5")
    check_told()
    cluster.kill("n1", "n2")
    cluster.wait_serving(5)
    check_told()
    cluster.restart("n1", "n2")
    cluster.wait_settled()
    check_told()
    for size in SIZES:  # nobody has read these
        line = client.ask(b"mg %s s\r\n" % stale[size])
        assert flags(line) == {b"X", b"W", b"s%d" % len(values[size])}, line
        assert cluster.client().get(stale[size].decode()) == values[size]
