"""etcd's JSON gateway (etcd.io/docs/v3.6/dev-guide/api_grpc_gateway): what no API server would tell or do."""

from __future__ import annotations

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


def stream(etcd: str, path: str, body: Json) -> Iterator[Json]:
    """One question and the answers to it as they come; leaving the loop ends the stream."""
    with closing(HTTPConnection(urlsplit(etcd).netloc, timeout=_SECONDS)) as connection:
        connection.request("POST", f"/v3/{path}", json.dumps(body))
        answer = connection.getresponse()
        if answer.status != 200:
            raise ConnectionError(f"etcd says {answer.status} to {path}: {answer.read()[:300]!r}")
        for line in answer:
            yield json.loads(line)
