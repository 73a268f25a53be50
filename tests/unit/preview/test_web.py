"""Calls are retried when that can help, with a bound, and the credential goes to no other server."""

import time
from email.utils import formatdate

import pytest

from muster.preview.forge import Web, WebError
from tests.unit.preview.http_world import Asked, Reply, Server, serving

TOKEN = "s3cr3t-token"


def _web(server: Server, waits: list[float]) -> Web:
    return Web(base=server.url, headers={"Authorization": f"Bearer {TOKEN}"}, wait=waits.append)


def _in_turn(*replies: Reply) -> list[Reply]:
    return list(replies)


@pytest.mark.parametrize(
    ("first", "pause"),
    [
        (Reply(502, b"<html>"), 2.0),
        (Reply(503), 2.0),
        (Reply(429, headers={"Retry-After": "7"}), 7.0),
        (Reply(403, headers={"Retry-After": "1"}), 1.0),
        (Reply(is_cut=True), 2.0),
    ],
)
def test_a_retry_waits_as_long_as_the_server_asks(first: Reply, pause: float) -> None:
    replies, waits = _in_turn(first, Reply(body={"fine": True})), list[float]()
    with serving(lambda _: replies.pop(0)) as server:
        assert _web(server, waits).call("GET", "/x").json("x") == {"fine": True}
    assert waits == [pause]


def test_a_date_and_a_reset_time_are_understood() -> None:
    soon = time.time() + 20
    replies = _in_turn(
        Reply(429, headers={"Retry-After": formatdate(soon, usegmt=True)}),
        Reply(403, headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(soon))}),
        Reply(body=1),
    )
    waits = list[float]()
    with serving(lambda _: replies.pop(0)) as server:
        _web(server, waits).call("GET", "/x")
    assert all(0 < wait <= 20 for wait in waits)
    assert len(waits) == 2


def test_a_server_that_stays_silent_is_given_up_with_its_name() -> None:
    with (
        serving(lambda _: Reply(is_cut=True)) as server,
        pytest.raises(WebError, match="no response") as raised,
    ):
        _web(server, []).call("GET", "/some/thing?token=abc")
    assert len(server.asked) == 4
    assert f"{server.url}/some/thing" in str(raised.value)
    assert "abc" not in str(raised.value)


def test_a_delay_that_is_too_long_is_an_error() -> None:
    waits = list[float]()
    busy = Reply(429, {"message": "slow down"}, {"Retry-After": "3600"})
    with serving(lambda _: busy) as server, pytest.raises(WebError, match="answered 429: slow down"):
        _web(server, waits).call("GET", "/x")
    assert waits == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_not_tried_again(status: int) -> None:
    with serving(lambda _: Reply(status, {"message": "no"})) as server, pytest.raises(WebError) as raised:
        _web(server, []).call("GET", "/x")
    assert raised.value.status == status
    assert len(server.asked) == 1


@pytest.mark.parametrize("first", [Reply(is_cut=True), Reply(502), Reply(504)])
def test_what_may_have_been_done_already_is_not_done_again(first: Reply) -> None:
    with serving(lambda _: first) as server, pytest.raises(WebError):
        _web(server, []).call("POST", "/x", {"a": 1})
    assert len(server.asked) == 1


def test_no_redirect_is_followed() -> None:
    with serving(lambda _: Reply(body="taken")) as thief:
        away = Reply(302, headers={"Location": f"{thief.url}/x"})
        with serving(lambda _: away) as server, pytest.raises(WebError, match="answered 302"):
            _web(server, []).call("GET", "/x")
    assert thief.asked == []


def test_the_credential_is_sent_and_never_printed() -> None:
    def echo(asked: Asked) -> Reply:
        return Reply(400, {"message": "bad"}, {"X-Echo": asked.headers["authorization"]})

    with serving(echo) as server, pytest.raises(WebError) as raised:
        _web(server, []).call("GET", "/x")
    assert server.asked[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert TOKEN not in f"{raised.value} {raised.value!r} {_web(server, [])!r}"


def test_a_response_that_is_not_json_is_an_error() -> None:
    with (
        serving(lambda _: Reply(body=b"<html>")) as server,
        pytest.raises(WebError, match="the response is not JSON"),
    ):
        _web(server, []).call("GET", "/x").json("the answer of x")
