"""What the bench of admission reads from the wire and from the API server's metrics."""

import asyncio

import pytest

from bench.admission import Spent, spent, spread
from bench.steady_rate import _answer, request

_NAME = "apiserver_admission_controller_admission_duration_seconds"
_METRICS = "\n".join(
    f'{_NAME}_{what}{{name="{plugin}",operation="{operation}",rejected="{rejected}",type="validate"}} {value}'
    for what, plugin, operation, rejected, value in (
        ("sum", "ValidatingAdmissionPolicy", "CREATE", "false", "1.5"),
        ("count", "ValidatingAdmissionPolicy", "CREATE", "false", "300"),
        ("sum", "ValidatingAdmissionPolicy", "CREATE", "true", "99"),
        ("sum", "ValidatingAdmissionPolicy", "UPDATE", "false", "99"),
        ("sum", "ResourceQuota", "CREATE", "false", "99"),
    )
)


def test_the_time_in_policies_is_that_of_allowed_creations() -> None:
    assert spent(_METRICS) == Spent(1.5, 300)
    assert spent(_METRICS).since(Spent(0.5, 100)) == pytest.approx(5.0)
    assert Spent(1.0, 5).since(Spent(1.0, 5)) == 0


def test_an_answer_is_read_whole_however_it_is_sent() -> None:
    async def read(sent: bytes) -> tuple[int, bytes]:
        reader = asyncio.StreamReader()
        reader.feed_data(sent + b"HTTP/1.1 the next one")
        return await _answer(reader)

    plain = b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nbody"
    chunked = b"HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n"
    assert asyncio.run(read(plain)) == (201, b"body")
    assert asyncio.run(read(chunked)) == (403, b"body")


def test_a_request_names_its_length_and_headers() -> None:
    sent = request("POST", "/apis", b"{}", Host="here", Content_Encoding="identity")
    head, _, body = sent.partition(b"\r\n\r\n")
    assert head.splitlines()[0] == b"POST /apis HTTP/1.1"
    assert b"Host: here" in head
    assert b"Content-Encoding: identity" in head
    assert b"Content-Length: 2" in head
    assert body == b"{}"


def test_a_spread_is_the_median_and_both_ends() -> None:
    assert spread([3.0, 1.0, 2.0]) == "2.0 (1.0 to 3.0)"
    assert spread([0.123, 0.456], digits=2) == "0.29 (0.12 to 0.46)"
