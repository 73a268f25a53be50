"""A connection is kept for reading, nothing but a read is repeated, and a stream that is cut is an error."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection

import pytest

from muster.kubernetes.client import Client
from muster.kubernetes.errors import ApiError, UnreachableError
from muster.kubernetes.kubeconfig import Access
from tests.unit.preview.http_world import Reply, Server, serving

_PATIENCE = 30.0
_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@contextmanager
def connections(handle: Callable[[int, socket.socket], None]) -> Iterator[str]:
    """A server whose `handle` gets each connection with its number; its address."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        for number in range(10):
            try:
                taken, _ = listener.accept()
            except OSError:
                return
            taken.settimeout(_PATIENCE)
            with taken:
                handle(number, taken)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(_PATIENCE)


class _Ended(HTTPConnection):
    """Kept, and closed by its server, which a call notices only when it writes."""

    def request(self, *_: object, **__: object) -> None:
        raise ssl.SSLEOFError("EOF occurred in violation of protocol")


def test_a_kept_tls_connection_that_its_server_has_closed_is_made_anew() -> None:
    def once(_: int, taken: socket.socket) -> None:
        if taken.recv(65536):
            taken.sendall(_OK)

    with connections(once) as server:
        client = Client(Access(server=f"http://{server}"))
        client._kept.connection = _Ended(server)
        assert client.call("PATCH", "/api", {}) == {}
        client._drop()


def test_reads_share_one_connection_and_outlive_its_end() -> None:
    asked: list[int] = []

    def twice(number: int, taken: socket.socket) -> None:
        for _ in range(2):
            if taken.recv(65536):
                asked.append(number)
                taken.sendall(_OK)

    with connections(twice) as server:
        client = Client(Access(server=f"http://{server}"))
        assert [client.call("GET", "/api") for _ in range(3)] == [{}, {}, {}]
        client._drop()
    assert asked == [0, 0, 1]


def test_a_write_whose_answer_is_lost_is_not_repeated() -> None:
    asked: list[bytes] = []

    def lose(number: int, taken: socket.socket) -> None:
        asked.append(taken.recv(65536))
        if number == 0:
            taken.sendall(_OK)

    with connections(lose) as server:
        client = Client(Access(server=f"http://{server}"))
        client.call("GET", "/api")
        with pytest.raises(UnreachableError, match=f"POST http://{server}/api: no response: "):
            client.call("POST", "/api", {})
    assert [each[:4] for each in asked] == [b"GET ", b"POST"]


def test_a_refusal_has_the_status_and_the_words_of_the_server() -> None:
    body = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "message": "not you"}
    with serving(lambda _: Reply(403, body)) as server, pytest.raises(ApiError, match="not you") as caught:
        Client(Access(server=server.url, token="t")).call("GET", "/api")
    assert (caught.value.status, caught.value.reason) == (403, "Forbidden")
    assert server.asked[0].headers["authorization"] == "Bearer t"


def test_a_stream_gives_its_lines_and_is_an_error_when_it_is_cut() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    def cut(number: int, taken: socket.socket) -> None:
        taken.recv(65536)
        taken.sendall(head + b"6\r\none\ntw\r\n2\r\no\n\r\n" + (b"0\r\n\r\n" if number else b""))

    with connections(cut) as server:
        client = Client(Access(server=f"http://{server}"))
        read: list[str] = []
        with pytest.raises(UnreachableError):
            read.extend(client.lines("/log", silent=_PATIENCE))
        assert list(client.lines("/log", silent=_PATIENCE)) == ["one", "two"]


def test_a_server_behind_a_proxy_is_reached_through_a_tunnel() -> None:
    asked: list[bytes] = []

    def refuse(_: int, taken: socket.socket) -> None:
        asked.append(taken.recv(65536))
        taken.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")

    with connections(refuse) as proxy:
        client = Client(Access(server="https://k8s.example:6443", proxy=f"http://{proxy}"))
        with pytest.raises(UnreachableError, match="403"):
            client.call("GET", "/api")
    assert asked[0].startswith(b"CONNECT k8s.example:6443 ")


def _client(server: Server, waits: list[float], tries: int = 4) -> Client:
    return Client(Access(server=server.url, token="s3cr3t"), tries=tries, wait=waits.append)


@pytest.mark.parametrize(
    ("first", "pause"),
    [(Reply(503), 2.0), (Reply(429, headers={"Retry-After": "7"}), 7.0), (Reply(is_cut=True), 2.0)],
)
def test_a_retry_waits_as_long_as_the_server_asks(first: Reply, pause: float) -> None:
    replies, waits = [first, Reply(body={"fine": True})], list[float]()
    with serving(lambda _: replies.pop(0)) as server:
        assert _client(server, waits).get("/x") == {"fine": True}
    assert waits == [pause]


def test_a_server_that_stays_silent_is_given_up_with_its_name() -> None:
    with (
        serving(lambda _: Reply(is_cut=True)) as server,
        pytest.raises(UnreachableError, match="/some/thing: no response") as raised,
    ):
        _client(server, []).get("/some/thing?token=abc")
    assert len(server.asked) == 4
    assert "abc" not in str(raised.value)


@pytest.mark.parametrize("reply", [Reply(400), Reply(403), Reply(429, headers={"Retry-After": "3600"})])
def test_what_another_try_does_not_help_is_not_tried_again(reply: Reply) -> None:
    with serving(lambda _: reply) as server, pytest.raises(ApiError) as raised:
        _client(server, []).get("/x")
    assert raised.value.message == f"GET {server.url}/x: answered {reply.status}."
    assert len(server.asked) == 1


@pytest.mark.parametrize("first", [Reply(is_cut=True), Reply(502), Reply(504)])
def test_what_may_have_been_done_already_is_not_done_again(first: Reply) -> None:
    with serving(lambda _: first) as server, pytest.raises((ApiError, UnreachableError)):
        _client(server, []).call("POST", "/x", {"a": 1})
    assert len(server.asked) == 1


def test_no_redirect_is_followed_and_no_credential_is_printed() -> None:
    with serving(lambda _: Reply(body="taken")) as thief:
        away = Reply(302, headers={"Location": f"{thief.url}/x"})
        with serving(lambda _: away) as server, pytest.raises(ApiError) as raised:
            _client(server, []).get("/x")
    assert thief.asked == []
    assert "s3cr3t" not in f"{raised.value!r} {raised.value.message}"


def test_a_server_below_a_path_and_an_answer_that_is_not_json_are_named() -> None:
    with serving(lambda _: Reply(body=b"<html>")) as server:
        client = Client(Access(server=f"{server.url}/k8s/clusters/c-1"))
        with pytest.raises(UnreachableError, match="/version: the response is not JSON"):
            client.get("/version")
    assert server.asked[0].path == "/k8s/clusters/c-1/version"
