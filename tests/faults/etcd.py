"""etcd's JSON gateway (etcd.io/docs/v3.6/dev-guide/api_grpc_gateway): what no API server would tell or do."""

import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from typing import Any, Final
from urllib.parse import urlsplit

Json = dict[str, Any]

_SECONDS: Final = 60


def ask(etcd: str, path: str, body: Json) -> Json:
    """One question, one answer."""
    (answer,) = stream(etcd, path, body)
    return answer


def size(etcd: str) -> int:
    """Of what it keeps, in bytes."""
    return int(ask(etcd, "maintenance/status", {})["dbSize"])


def be_full(etcd: str) -> None:
    """As if it had no room from here on: it takes only what makes some."""
    member = ask(etcd, "maintenance/status", {})["header"]["member_id"]
    ask(etcd, "maintenance/alarm", {"action": "ACTIVATE", "memberID": member, "alarm": "NOSPACE"})


def be_full_no_more(etcd: str) -> None:
    for alarm in ask(etcd, "maintenance/alarm", {"action": "GET"}).get("alarms", ()):
        ask(etcd, "maintenance/alarm", {**alarm, "action": "DEACTIVATE"})


def stream(etcd: str, path: str, body: Json) -> Iterator[Json]:
    """One question and the answers to it as they come; leaving the loop ends the stream."""
    with closing(HTTPConnection(urlsplit(etcd).netloc, timeout=_SECONDS)) as connection:
        connection.request("POST", f"/v3/{path}", json.dumps(body))
        answer = connection.getresponse()
        if answer.status != 200:
            raise ConnectionError(f"etcd says {answer.status} to {path}: {answer.read()[:300]!r}")
        for line in answer:
            yield json.loads(line)
