"""Every state that the store has had, one after another.

etcd numbers each write of the whole cluster, so one walk through its own history sees what no client between
two looks would have seen, and what a killed API server has told nobody. (Its JSON gateway:
etcd.io/docs/v3.6/dev-guide/api_grpc_gateway; the store keeps JSON, see plane.py.)
"""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]

_SECONDS: Final = 30
_EVERYTHING: Final = base64.b64encode(b"\0").decode()
_PREFIXES: Final = {
    "Workload": "/registry/kueue.x-k8s.io/workloads/",
    "ProvisioningRequest": "/registry/autoscaling.x-k8s.io/provisioningrequests/",
    "PodTemplate": "/registry/podtemplates/",
    "Node": "/registry/minions/",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One write: the object as it was before and after; None where there was none."""

    revision: int
    kind: str
    name: str
    before: Json | None
    after: Json | None


def revision(etcd: str) -> int:
    """The number of the last write."""
    question = {"key": _EVERYTHING, "countOnly": True}
    with urllib.request.urlopen(_post(f"{etcd}/v3/kv/range", question), timeout=_SECONDS) as answer:
        return int(json.loads(answer.read())["header"]["revision"])


def changes(etcd: str, *, since: int, until: int) -> Iterator[Change]:
    """Of the kinds that gangs are about, in their order; first everything as it was at `since`."""
    held: dict[str, Json] = {}
    for name, value in _objects(etcd, since):
        held[name] = value
        yield Change(since, _kind(name), name, None, value)
    for number, name, value in _writes(etcd, since + 1, until):
        kind = _kind(name)
        before = held.pop(name, None)
        if value is not None:
            held[name] = value
        if kind:
            yield Change(number, kind, name, before, value)


def _objects(etcd: str, at: int) -> Iterator[tuple[str, Json]]:
    for prefix in _PREFIXES.values():
        end = prefix[:-1] + chr(ord("/") + 1)
        question = {"key": _text(prefix), "range_end": _text(end), "revision": str(at)}
        with urllib.request.urlopen(_post(f"{etcd}/v3/kv/range", question), timeout=_SECONDS) as answer:
            for pair in json.loads(answer.read()).get("kvs", ()):
                yield base64.b64decode(pair["key"]).decode(), _decoded(pair)


def _writes(etcd: str, start: int, end: int) -> Iterator[tuple[int, str, Json | None]]:
    if start > end:
        return
    create = {"key": _EVERYTHING, "range_end": _EVERYTHING, "start_revision": str(start)}
    with urllib.request.urlopen(
        _post(f"{etcd}/v3/watch", {"create_request": create}), timeout=_SECONDS
    ) as stream:
        for line in stream:
            result = json.loads(line)["result"]
            assert "compact_revision" not in result, "the store has forgotten: this test takes too long"
            for event in result.get("events", ()):
                pair = event["kv"]
                number = int(pair["mod_revision"])
                if number > end:
                    return
                name = base64.b64decode(pair["key"]).decode(errors="replace")
                yield number, name, None if event.get("type") == "DELETE" or not _kind(name) else _decoded(pair)
            if int(result["header"]["revision"]) >= end and result.get("events"):
                last = int(result["events"][-1]["kv"]["mod_revision"])
                if last >= end:
                    return


def _kind(name: str) -> str:
    return next((kind for kind, prefix in _PREFIXES.items() if name.startswith(prefix)), "")


def _decoded(pair: Json) -> Json:
    return dict(json.loads(base64.b64decode(pair["value"])))


def _text(word: str) -> str:
    return base64.b64encode(word.encode()).decode()


def _post(url: str, body: Json) -> urllib.request.Request:
    return urllib.request.Request(url, data=json.dumps(body).encode(), method="POST")  # noqa: S310 - our own
