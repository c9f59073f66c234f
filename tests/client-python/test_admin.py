"""The Python client at an admin interface that fails, or is not the proxy's."""

import http.server
import json
import threading

import pytest

import elastripe
from elastripe import ConnectionFailed, NotFound, NotServing, ServerError, UnknownOutcome
from fake_proxy import CLOSE

UNAVAILABLE = (503, {"error": "unavailable", "message": "deposed"})
UNKNOWN = (503, {"error": "unknown_outcome", "message": "the decider has died"})
STARTED = (202, {"id": 3, "state": "running"})


class FakeAdmin(http.server.ThreadingHTTPServer):
    """Answers one request after the other, but for the status: a status and JSON or bytes, or CLOSE."""

    daemon_threads = True

    def __init__(self, *answers):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = list(answers)
        self.requests = []
        self.address = f"127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self):
        self.server.requests.append((self.command, self.path, self.headers.get("X-Elastripe"),
                                     self.headers["Host"]))
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        is_status = self.path == "/v1/status"
        answer = (200, {"proxy_id": "ab12"}) if is_status else self.server.answers.pop(0)
        if answer is CLOSE:
            return
        status, body = answer
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


@pytest.fixture
def admin():
    made = []

    def make(*answers):
        made.append(FakeAdmin(*answers))
        return made[-1]

    yield make
    for each in made:
        each.shutdown()
        each.server_close()


def settings(address, proxy_id="ab12"):
    return f"STAT proxy_id {proxy_id}\r\nSTAT admin_addr {address}\r\nEND\r\n".encode()


def test_a_request_goes_on_to_the_proxy_that_serves(proxy, admin):
    waiting, serving = admin(UNAVAILABLE, UNAVAILABLE), admin(STARTED, (200, {"size": 5}))
    client = elastripe.Client([proxy(CLOSE, CLOSE).address,
                               proxy(settings(waiting.address)).address,
                               proxy(*2 * [settings(serving.address)]).address])
    job = client.transition(5, prefix="a/")
    assert job.id == 3
    assert client.object_info("a/%")["size"] == 5
    assert waiting.requests[1:] == [("POST", "/v1/transitions", "transition", waiting.address)]
    assert [request[:2] for request in serving.requests[1::2]] == [
        ("POST", "/v1/transitions"), ("GET", "/v1/objects/a%2F%25")]


@pytest.mark.parametrize("answer, error", [(CLOSE, ConnectionFailed), (UNKNOWN, UnknownOutcome),
                                           ((202, b"<html>"), ConnectionFailed)])
def test_a_transition_that_may_have_started_is_not_started_elsewhere(proxy, admin, answer, error):
    first, second = admin(answer), admin(STARTED)
    client = elastripe.Client([proxy(settings(first.address)).address,
                               proxy(settings(second.address)).address])
    with pytest.raises(error) as caught:
        client.transition(5, all=True)
    assert caught.value.may_have_taken_effect
    assert second.requests == []


def test_an_interface_of_another_proxy_is_asked_nothing(proxy, admin):
    other = admin(STARTED)
    client = elastripe.Client(proxy(settings(other.address, proxy_id="cd34")).address)
    with pytest.raises(ServerError, match="of another proxy"):
        client.transition(5, all=True)
    assert [request[1] for request in other.requests] == ["/v1/status"]


def test_a_proxy_that_listens_everywhere_is_asked_where_it_was_reached(proxy, admin):
    there = admin((200, {"size": 1}))
    told = f"0.0.0.0:{there.server_port}"
    assert elastripe.Client(proxy(settings(told)).address).object_info("key") == {"size": 1}
    assert there.requests[-1][-1] == told  # the interface knows itself by this name


@pytest.mark.parametrize("answer, error", [
    ((404, {"error": "not_found", "message": "no such object"}), NotFound),
    ((409, {"error": "conflict", "message": "transition 3 is running"}), ServerError),
    (UNAVAILABLE, NotServing), ((503, b"<html>"), NotServing), (UNKNOWN, UnknownOutcome),
    ((200, b"<html>"), ConnectionFailed), ((200, []), ConnectionFailed),
    ((501, b"<html>"), ServerError)])
def test_a_refusal_has_its_kind(proxy, admin, answer, error):
    client = elastripe.Client(proxy(settings(admin(answer).address)).address)
    with pytest.raises(error) as caught:
        client.object_info("key")
    assert caught.type is error


def test_the_end_of_a_transition_is_told(proxy, admin):
    running = (200, {"id": 3, "state": "running"})
    failed = (200, {"id": 3, "state": "failed", "reason": "no partition could be walked"})
    there = admin(STARTED, running, running, failed)
    job = elastripe.Client(proxy(*4 * [settings(there.address)]).address).transition(5, all=True)
    with pytest.raises(ServerError, match="no partition could be walked"):
        job.wait()


def test_a_transition_goes_on_without_the_proxy_that_was_asked_for_it(proxy, admin):
    """The other one hears of it a moment later."""
    unknown = (404, {"message": "no such transition"})
    first = admin(STARTED)
    other = admin(unknown, (200, {"state": "running"}), unknown, (200, {"state": "done"}),
                  (202, {"state": "cancelling"}))
    proxies = proxy(settings(first.address)), proxy(*5 * [settings(other.address)])
    job = elastripe.Client([each.address for each in proxies]).transition(5, all=True)
    proxies[0].stop()
    assert job.report()["state"] == "running"
    assert job.wait()["state"] == "done"
    assert job.cancel()["state"] == "cancelling"


@pytest.mark.parametrize("answer", [UNKNOWN, UNAVAILABLE, CLOSE])
def test_a_cancellation_that_was_not_answered_is_asked_for_elsewhere(proxy, admin, answer):
    first, other = admin(STARTED, answer), admin((202, {"state": "cancelling"}))
    job = elastripe.Client([proxy(*2 * [settings(first.address)]).address,
                            proxy(settings(other.address)).address]).transition(5, all=True)
    assert job.cancel()["state"] == "cancelling"
    assert other.requests[1][:3] == ("POST", "/v1/transitions/3/cancel", "transition")


def test_a_transition_is_found_by_its_id(proxy, admin):
    there = admin((200, {"id": 3}), (200, {"id": 3, "state": "done"}), (404, {"message": "no job"}))
    client = elastripe.Client(proxy(*3 * [settings(there.address)]).address)
    job = client.find_transition(3)
    assert job.id == 3 and there.requests[-1][:2] == ("GET", "/v1/transitions/3")
    assert job.wait()["state"] == "done"
    with pytest.raises(NotFound, match="no job"):
        client.find_transition(4)
    with pytest.raises(elastripe.Invalid):
        client.find_transition(-1)
