"""What the client does when a proxy refuses, dies, is silent or stops amid an answer."""

import os

import pytest

import elastripe
from cluster import free_ports
from elastripe import (ConnectionFailed, Exists, Invalid, NotFound, NotServing, OutOfRange,
                       PutManyFailed, ServerError, TimedOut, UnknownOutcome)
from elastripe.bounds import Address, parse_address
from elastripe.connection import Connection, Options
from fake_proxy import CLOSE, SILENCE

SILENT_S = 0.5  # in which a server that says nothing is given up
VALUE = b"VALUE key 3 5 77\r\nhello\r\nEND\r\n"
NOT_SERVING = b"SERVER_ERROR not serving: deposed\r\n"
UNKNOWN = b"CLIENT_ERROR outcome unknown: the node died\r\n"


def client_of(*proxies, **options):
    return elastripe.Client([p if isinstance(p, str) else p.address for p in proxies], **options)


def raised(error, call, *arguments, **options):
    """The error, which is exactly of this class."""
    with pytest.raises(error) as caught:
        call(*arguments, **options)
    assert caught.type is error, repr(caught.value)
    return caught.value


# -- what is never sent

@pytest.mark.parametrize("key", ["", b"", "a b", "tab\t", "line\n", b"nul\0", b"del\x7f", "x" * 251,
                                 "ü" * 126, "\udc80"])
def test_a_key_out_of_bounds_is_not_sent(proxy, key):
    server = proxy()
    client = client_of(server)
    calls = [lambda: client.get(key), lambda: client.get_many(["good", key]),
             lambda: client.put(key, b""), lambda: client.put_many({"good": b"", key: b""}),
             lambda: client.add(key, b""), lambda: client.increment(key),
             lambda: client.decrement(key), lambda: client.remove(key),
             lambda: client.append(key, b""),
             lambda: client.touch(key, 0), lambda: client.get_range(key, 0, 1),
             lambda: client.update(key, 0, b""), lambda: client.object_info(key),
             lambda: client.transition(5, key=key)]
    for call in calls:
        assert not raised(Invalid, call).may_have_taken_effect
    assert server.connections == 0


def test_numbers_and_objects_out_of_bounds_are_not_sent(proxy):
    server = proxy()
    client = client_of(server)
    for call in (lambda: client.put("key", b"", flags=1 << 32),
                 lambda: client.put("key", b"", cas=-1),
                 lambda: client.put("key", b"", exptime=1 << 63),
                 lambda: client.add("key", b"", flags=-1),
                 lambda: client.increment("key", -1), lambda: client.decrement("key", 1 << 64),
                 lambda: client.get_range("key", -1, 1),
                 lambda: client.get_range("key", 0, 1 << 64),
                 lambda: client.update("key", -1, b"x"), lambda: client.transition(5),
                 lambda: client.transition(5, key="a", prefix="b"),
                 lambda: client.put("key", memoryview(bytes(elastripe.MAX_OBJECT_BYTES + 1)))):
        raised(Invalid, call)
    for call in (lambda: client.put("key", "text"), lambda: client.put("key", 5),
                 lambda: client.get(5), lambda: client.touch("key", 1.5)):
        raised(TypeError, call)
    assert server.connections == 0


def test_addresses_are_read_as_the_other_clients_read_them():
    assert parse_address("proxy:1") == Address("proxy", 1)
    assert parse_address("proxy") == Address("proxy", 11311)
    assert parse_address(":1") == Address("127.0.0.1", 1)
    assert parse_address("[::1]:2") == Address("::1", 2)
    assert parse_address("[::1]") == Address("::1", 11311)
    assert str(Address("::1", 2)) == "[::1]:2"
    assert str(parse_address("/run/a:b.sock")) == "/run/a:b.sock"
    for text in ("::1", "[::1", "[::1]2", "proxy:0", "proxy:65536", "proxy:x", "proxy:-1", "a..b",
                 "/" + "a" * 107, "/a\0b"):
        raised(Invalid, parse_address, text)
    raised(Invalid, elastripe.Client, [])
    raised(Invalid, elastripe.Client, admin="/run/admin.sock")
    raised(Invalid, elastripe.Client, user="a b")
    raised(Invalid, elastripe.Client, user="a", password="line\n")


def test_a_proxy_is_asked_by_its_unix_socket(proxy, tmp_path):
    path = str(tmp_path / "proxy.sock")
    raised(ConnectionFailed, client_of(path).get, "key")
    proxy(b"STORED\r\n", b"VA 1 c5 s1\r\nx\r\n", path=path)
    with client_of(path) as client:
        client.put("key", b"x")
        assert client.get_range("key", 0, 1).data == b"x"


# -- what a server refuses

@pytest.mark.parametrize("call, answer, error", [
    (lambda c: c.get("key"), b"END\r\n", NotFound),
    (lambda c: c.get("key"), b"SERVER_ERROR lost\r\n", ServerError),
    (lambda c: c.get("key"), b"CLIENT_ERROR no_shards: lost\r\n", ServerError),
    (lambda c: c.get("key"), NOT_SERVING, NotServing),
    (lambda c: c.get_many(["a", "key"]), b"VALUE a 0 1 2\r\nx\r\nCLIENT_ERROR lost\r\n",
     ServerError),
    (lambda c: c.get("key"), b"NONSENSE\r\n", ConnectionFailed),
    (lambda c: c.get("key"), b"VALUE other 0 1 2\r\nx\r\nEND\r\n", ConnectionFailed),
    (lambda c: c.put("key", b""), b"SERVER_ERROR out of memory storing object\r\n", ServerError),
    (lambda c: c.put("key", b""), b"NOT_STORED\r\n", ServerError),
    (lambda c: c.put("key", b""), b"ERROR\r\n", ServerError),
    (lambda c: c.put("key", b""), NOT_SERVING, NotServing),
    (lambda c: c.put("key", b""), UNKNOWN, UnknownOutcome),
    (lambda c: c.put("key", b""), b"NONSENSE\r\n", ConnectionFailed),
    (lambda c: c.put("key", b"", cas=1), b"EXISTS\r\n", Exists),
    (lambda c: c.put("key", b"", cas=1), b"NOT_FOUND\r\n", NotFound),
    (lambda c: c.put("key", b"", cas=1), UNKNOWN, UnknownOutcome),
    (lambda c: c.add("key", b""), b"NOT_STORED\r\n", Exists),
    (lambda c: c.add("key", b""), UNKNOWN, UnknownOutcome),
    (lambda c: c.increment("key"), b"NOT_FOUND\r\n", NotFound),
    (lambda c: c.increment("key"), b"CLIENT_ERROR cannot increment or decrement non-numeric value"
                                   b"\r\n", ServerError),
    (lambda c: c.increment("key"), UNKNOWN, UnknownOutcome),
    (lambda c: c.increment("key"), b"18446744073709551616\r\n", ConnectionFailed),
    (lambda c: c.decrement("key"), b"STORED\r\n", ConnectionFailed),
    (lambda c: c.append("key", b""), b"NOT_STORED\r\n", NotFound),
    (lambda c: c.prepend("key", b""), UNKNOWN, UnknownOutcome),
    (lambda c: c.remove("key"), b"NOT_FOUND\r\n", NotFound),
    (lambda c: c.remove("key"), UNKNOWN, UnknownOutcome),
    (lambda c: c.touch("key", 1), b"NOT_FOUND\r\n", NotFound),
    (lambda c: c.get_range("key", 0, 1), b"EN\r\n", NotFound),
    (lambda c: c.get_range("key", 0, 1), b"HD\r\n", ConnectionFailed),
    (lambda c: c.get_range("key", 0, 1), b"VA 1 c5\r\nxyz", ConnectionFailed),
    (lambda c: c.get_range("key", 0, 1), b"VA 2 c5\r\nxy\r\n", ConnectionFailed),
    (lambda c: c.get_range("key", 0, 1), b"VA 1x c5\r\n", ConnectionFailed),
    (lambda c: c.get_range("key", 0, 1), b"VA -3 c5\r\nxy\r\n", ConnectionFailed),
    (lambda c: c.get_range("key", 0, 1), b"x" * 5000, ConnectionFailed),
    (lambda c: c.update("key", 0, b"x"), b"NF\r\n", NotFound),
    (lambda c: c.update("key", 0, b"x"), b"NS s7\r\n", OutOfRange),
    (lambda c: c.update("key", 0, b"x", cas=1), b"EX\r\n", Exists),
    (lambda c: c.update("key", 0, b"x"), UNKNOWN, UnknownOutcome),
    (lambda c: c.update("key", 0, b"x"), b"SERVER_ERROR object too large for cache\r\n",
     ServerError),
    (lambda c: c.stats("nothing"), b"ERROR\r\n", ServerError),
    (lambda c: c.stats(), b"STAT a 1\r\nNONSENSE\r\n", ConnectionFailed),
])
def test_a_refusal_has_its_kind_and_the_client_goes_on(proxy, call, answer, error):
    is_twice = error is ConnectionFailed  # which is asked again if nothing may have been done by it
    server = proxy(answer, *([answer] if is_twice else []), VALUE, VALUE)
    client = client_of(server)
    failure = raised(error, call, client)
    unknown = error in (ConnectionFailed, UnknownOutcome)
    assert failure.may_have_taken_effect == unknown
    assert "\r" not in str(failure) and "ERROR " not in str(failure)
    assert client.gets("key") == (b"hello", 3, 77)


def test_the_words_of_an_error_are_the_servers(proxy):
    client = client_of(proxy(b"SERVER_ERROR out of memory storing object\r\n", b"NS s700 c5\r\n"))
    assert str(raised(ServerError, client.put, "key", b"")) == "out of memory storing object"
    assert str(raised(OutOfRange, client.update, "key", 0, b"")) == "the object has 700 bytes"
    kinds = (NotFound, OutOfRange, Exists, Invalid, ConnectionFailed, TimedOut, ServerError,
             UnknownOutcome)
    assert [error.kind for error in kinds] == [
        "not_found", "out_of_range", "exists", "invalid", "connection", "timeout", "server",
        "unknown_outcome"]


# -- proxies that die, and others that go on

PARTS_OF_A_VALUE = [(VALUE[:cut], CLOSE) for cut in (0, 9, 20, 24, 26, len(VALUE) - 1)]


@pytest.mark.parametrize("part", PARTS_OF_A_VALUE)
def test_a_read_whose_answer_breaks_off_is_asked_elsewhere(proxy, part):
    dying, other = proxy(part), proxy(VALUE, VALUE)
    client = client_of(dying, other)
    assert client.get("key") == b"hello"
    assert client.get("key") == b"hello"  # where it was answered
    assert (len(dying.requests), len(other.requests)) == (1, 2)


@pytest.mark.parametrize("part", [CLOSE, (b"VA 5 c7 s9\r", CLOSE), (b"VA 5 c7 s9\r\nhel", CLOSE),
                                  (b"VA 5 c7 s9\r\nhello\r", CLOSE)])
def test_a_lone_proxy_is_asked_once_more_for_what_broke_off(proxy, part):
    server = proxy(part, b"VA 5 c7 s9\r\nhello\r\n", part, part)
    client = client_of(server)
    assert client.get_range("key", 2, 5) == (b"hello", 7, 9)
    raised(ConnectionFailed, client.get_range, "key", 2, 5)
    assert server.requests == 4 * [(b"mg key v c s o2 n5",)]


WRITES = [lambda c: c.put("key", b"x"), lambda c: c.add("key", b"x"),
          lambda c: c.append("key", b"x"), lambda c: c.prepend("key", b"x"),
          lambda c: c.remove("key"), lambda c: c.touch("key", 1), lambda c: c.update("key", 0, b"x"),
          lambda c: c.increment("key", 5), lambda c: c.decrement("key", 5)]
ANSWERS = [*4 * [b"STORED\r\n"], b"DELETED\r\n", b"TOUCHED\r\n", b"HD c5 s5\r\n", b"12\r\n",
           b"2\r\n"]


@pytest.mark.parametrize("call", WRITES)
@pytest.mark.parametrize("answer, error", [
    (CLOSE, ConnectionFailed), ((b"STOR", CLOSE), ConnectionFailed), (SILENCE, TimedOut),
    (UNKNOWN, UnknownOutcome)])
def test_a_write_that_may_have_taken_effect_is_never_sent_again(proxy, call, answer, error):
    first, second = proxy(answer), proxy(b"STORED\r\n")
    client = client_of(first, second, request_timeout=SILENT_S)
    assert raised(error, call, client).may_have_taken_effect
    assert (len(first.requests), len(second.requests)) == (1, 0)


def test_a_read_that_is_not_answered_in_time_is_asked_elsewhere(proxy):
    silent, other = proxy(SILENCE), proxy(VALUE)
    client = client_of(silent, other, request_timeout=SILENT_S)
    assert client.get("key") == b"hello"
    silent = proxy((VALUE[:20], SILENCE))
    raised(TimedOut, client_of(silent, request_timeout=SILENT_S).get, "key")
    assert len(silent.requests) == 1


@pytest.mark.parametrize("call, answer", [
    *zip(WRITES, ANSWERS), (lambda c: c.put_many({"a": b"1"}), b"STORED\r\n")])
@pytest.mark.parametrize("silence", [SILENCE, CLOSE])
def test_a_proxy_that_did_not_answer_a_write_is_not_asked_first_again(proxy, call, answer, silence):
    silent, other = proxy(silence), proxy(answer, VALUE, answer)
    client = client_of(silent, other, request_timeout=SILENT_S)
    with pytest.raises((TimedOut, ConnectionFailed, PutManyFailed)):
        call(client)
    call(client)
    assert client.get("key") == b"hello"
    call(client)
    assert (len(silent.requests), len(other.requests)) == (1, 3)


def test_a_proxy_that_refuses_has_answered_and_one_that_does_not_serve_has_not(proxy):
    nobody = f"127.0.0.1:{free_ports(1)}"
    waiting, other = proxy(NOT_SERVING), proxy(b"END\r\n", b"NOT_STORED\r\n", UNKNOWN, VALUE)
    client = client_of(nobody, waiting, other)
    raised(NotFound, client.get, "key")
    raised(Exists, client.add, "key", b"")
    raised(UnknownOutcome, client.increment, "key")
    assert client.get("key") == b"hello"
    assert (len(waiting.requests), len(other.requests)) == (1, 4)


def test_a_proxy_that_is_the_only_one_is_asked_again_after_silence(proxy):
    server = proxy(SILENCE, VALUE)
    client = client_of(server, request_timeout=SILENT_S)
    raised(TimedOut, client.put, "key", b"x")
    assert client.get("key") == b"hello"


def test_a_late_answer_is_no_later_requests(proxy):
    server = proxy(SILENCE, VALUE)
    client = client_of(server, request_timeout=SILENT_S)
    raised(TimedOut, client.update, "key", 0, b"x")
    assert client.get("key") == b"hello"
    assert server.connections == 2


@pytest.mark.parametrize("call", [lambda c: c.increment("key"), lambda c: c.update("key", 0, b"x")])
def test_a_connection_whose_answer_is_not_understood_is_not_used_again(proxy, call):
    server = proxy(b"NONSENSE\r\n", VALUE)
    client = client_of(server)
    raised(ConnectionFailed, call, client)
    assert client.get("key") == b"hello"
    assert server.connections == 2


def test_connections_and_requests_have_limits_of_their_own(proxy):
    server = proxy(VALUE)
    options = Options(connect_timeout=40, request_timeout=50, tls=None, credentials=None)
    connection = Connection(parse_address(server.address), options)
    assert connection._socket.gettimeout() == 50
    connection.close()
    assert server.closed.acquire(timeout=10)


@pytest.mark.parametrize("call, answer", zip(WRITES, ANSWERS))
def test_a_write_that_was_not_done_goes_to_the_next_proxy(proxy, call, answer):
    nobody = f"127.0.0.1:{free_ports(1)}"
    waiting, other = proxy(NOT_SERVING), proxy(answer)
    call(client_of(nobody, waiting, other))
    assert len(waiting.requests) == len(other.requests) == 1
    failure = raised(ConnectionFailed, call, client_of(nobody, nobody))
    assert not failure.may_have_taken_effect and nobody in str(failure)


CAS_WRITES = [(lambda c: c.put("key", b"x", cas=7), b"STORED\r\n", b"EXISTS\r\n", b"NOT_FOUND\r\n"),
              (lambda c: c.update("key", 1, b"x", cas=7), b"HD c8 s5\r\n", b"EX\r\n", b"NF\r\n")]


@pytest.mark.parametrize("call, done, exists, not_found", CAS_WRITES)
def test_a_write_with_a_cas_is_sent_again_and_takes_effect_once_at_most(proxy, call, done, exists,
                                                                       not_found):
    for broken in (CLOSE, SILENCE, UNKNOWN):
        first, second = proxy(broken), proxy(done)
        call(client_of(first, second, request_timeout=SILENT_S))
        assert first.requests == second.requests
    # Nobody knows whose the other cas unique is.
    for broken in (CLOSE, UNKNOWN):
        for refused in (exists, not_found, b"SERVER_ERROR full\r\n"):
            failure = raised(UnknownOutcome, call, client_of(proxy(broken), proxy(refused)))
            assert failure.may_have_taken_effect
    nobody = f"127.0.0.1:{free_ports(1)}"
    assert raised(UnknownOutcome, call, client_of(proxy(UNKNOWN), nobody)).may_have_taken_effect
    lone = proxy(CLOSE, CLOSE)
    assert raised(ConnectionFailed, call, client_of(lone)).may_have_taken_effect
    assert len(lone.requests) == 2
    lone = proxy(CLOSE, done)
    call(client_of(lone))


def test_a_connection_that_was_closed_while_idle_is_replaced(proxy):
    server = proxy((b"STORED\r\n", CLOSE), b"STORED\r\n", VALUE)
    client = client_of(server)
    client.put("key", b"1")
    assert server.closed.acquire(timeout=10)
    client.put("key", b"2")
    assert client.get("key") == b"hello"
    assert server.connections == 2 and len(server.requests) == 3


def test_a_forked_child_has_connections_of_its_own(proxy):
    server = proxy(*6 * [VALUE])
    client = client_of(server)
    client.get("key")
    child = os.fork()
    if child == 0:
        os._exit(0 if client.get("key") == b"hello" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    client.get("key")
    assert server.connections == 2


def test_only_so_many_idle_connections_are_kept(proxy):
    server = proxy(VALUE, VALUE)
    with client_of(server, idle_connections=0) as client:
        client.get("key")
        client.get("key")
    assert server.connections == 2


# -- many at a time

def test_put_many_tells_what_became_of_each(proxy):
    server = proxy(b"STORED\r\n", b"SERVER_ERROR out of memory storing object\r\n", b"STORED\r\n",
                   UNKNOWN, VALUE)
    client = client_of(server)
    failure = raised(PutManyFailed, client.put_many,
                     {"a": b"1", b"b": b"22", "c": bytearray(b"333"), "d": b""}, flags=9, exptime=60)
    assert {key: type(error) for key, error in failure.errors.items()} == {
        b"b": ServerError, "d": UnknownOutcome}
    assert failure.may_have_taken_effect
    assert server.requests == [(b"set a 9 60 1", b"1"), (b"set b 9 60 2", b"22"),
                               (b"set c 9 60 3", b"333"), (b"set d 9 60 0", b"")]
    client.get("key")
    assert server.connections == 1  # all were answered
    client.put_many({})


def test_put_many_knows_what_was_not_sent(proxy):
    first, second = proxy(b"STORED\r\n", b"STORED\r\n", (b"STO", CLOSE)), proxy()
    objects = {f"key{i}": b"x" for i in range(200)}
    failure = raised(PutManyFailed, client_of(first, second).put_many, objects)
    assert list(failure.errors) == list(objects)[2:]
    assert all(type(error) is ConnectionFailed for error in failure.errors.values())
    sent = [key for key, error in failure.errors.items() if error.may_have_taken_effect]
    assert sent == list(objects)[2:128]
    assert second.connections == 0


def test_put_many_goes_to_the_next_proxy_if_nothing_was_done(proxy):
    waiting, other = proxy(NOT_SERVING, NOT_SERVING), proxy(b"STORED\r\n", b"STORED\r\n")
    client = client_of(waiting, other)
    client.put_many({"a": b"1", "b": b"2"})
    assert len(other.requests) == 2
    deposed = proxy(b"STORED\r\n", NOT_SERVING)
    failure = raised(PutManyFailed, client_of(deposed, other).put_many, {"a": b"1", "b": b"2"})
    assert {key: type(error) for key, error in failure.errors.items()} == {"b": NotServing}
    assert not failure.may_have_taken_effect


def test_get_many_asks_for_a_thousand_at_a_time(proxy):
    server = proxy(b"END\r\n", b"END\r\n", VALUE)
    client = client_of(server)
    keys = [f"key{i}" for i in range(2000)]
    assert client.get_many([*keys, "key", b"key"]) == {b"key": b"hello"}
    assert len(server.requests) == 3 and len(server.requests[0][0].split()) == 1001
