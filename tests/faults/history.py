"""Every state that the store has had, one after another.

etcd numbers each write of the whole cluster, so one walk through its own history sees what no client between
two looks would have seen, and what a killed API server has told nobody. The store keeps JSON (see plane.py).
"""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tests.faults import etcd as store

Json = dict[str, Any]

_PREFIXES: Final = {
    "Workload": "/registry/kueue.x-k8s.io/workloads/",
    "ProvisioningRequest": "/registry/autoscaling.x-k8s.io/provisioningrequests/",
    "PodTemplate": "/registry/podtemplates/",
    "Node": "/registry/minions/",
}
KINDS: Final = tuple(_PREFIXES)


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
    return int(store.ask(etcd, "kv/range", {"key": _text("/"), "countOnly": True})["header"]["revision"])


def changes(etcd: str, *, since: int, until: int) -> Iterator[Change]:
    """Of the kinds that gangs are about, in their order; first everything as it was at `since`."""
    held: dict[str, Json] = {}
    for name, value in _objects(etcd, since):
        held[name] = value
        yield Change(since, _kind(name), name, None, value)
    for number, name, written in _writes(etcd, since + 1, until):
        if not _kind(name):
            continue
        before = held.pop(name, None)
        if written is not None:
            held[name] = written
        yield Change(number, _kind(name), name, before, written)


def _objects(etcd: str, at: int) -> Iterator[tuple[str, Json]]:
    for prefix in _PREFIXES.values():
        question = {"key": _text(prefix), "range_end": _text(_after(prefix)), "revision": str(at)}
        for pair in store.ask(etcd, "kv/range", question).get("kvs", ()):
            yield _name(pair), _decoded(pair)


def _writes(etcd: str, start: int, end: int) -> Iterator[tuple[int, str, Json | None]]:
    if start > end:
        return
    everything = {"key": _text("\0"), "range_end": _text("\0"), "start_revision": str(start)}
    for line in store.stream(etcd, "watch", {"create_request": everything}):
        assert "compact_revision" not in line["result"], "the store has forgotten: who compacted it?"
        for event in line["result"].get("events", ()):
            number, name = int(event["kv"]["mod_revision"]), _name(event["kv"])
            if number > end:
                return
            is_gone = event.get("type") == "DELETE" or not _kind(name)
            yield number, name, None if is_gone else _decoded(event["kv"])
            if number == end:
                return


def _kind(name: str) -> str:
    return next((kind for kind, prefix in _PREFIXES.items() if name.startswith(prefix)), "")


def _after(prefix: str) -> str:
    """The first name that does not begin so."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def _name(pair: Json) -> str:
    return base64.b64decode(pair["key"]).decode(errors="replace")


def _decoded(pair: Json) -> Json:
    return dict(json.loads(base64.b64decode(pair["value"])))


def _text(word: str) -> str:
    return base64.b64encode(word.encode()).decode()
