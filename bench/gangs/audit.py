"""The API server's audit log: which client called what, when, and what was written.

Responsible for what is logged (POLICY) and for reading it. Times are the server's own, in microseconds, so
they do not depend on when a watcher received a change.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

WRITES: Final = ("create", "update", "patch")
LEASES: Final = "leases"
# https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/: the body of what is written, and of everything
# else that it happened. One line a call, when it was answered.
POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "omitManagedFields": True,
    "rules": [{"level": "Request", "verbs": list(WRITES)}, {"level": "Metadata"}],
}

# By default the server starts a new file after 100 MB (lumberjack's own limit), which two thousand gangs
# write. The first calls would be lost.
_MOST_MEGABYTES: Final = 100_000


def flags(folder: Path) -> tuple[str, ...]:
    """The flags with which the API server logs into `log_of(folder)`."""
    policy = folder / "audit-policy.yaml"
    policy.write_text(yaml.safe_dump(POLICY))
    return (
        f"--audit-policy-file={policy}",
        f"--audit-log-path={log_of(folder)}",
        f"--audit-log-maxsize={_MOST_MEGABYTES}",
    )


def log_of(folder: Path) -> Path:
    return folder / "audit.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One answered call. `agent` is the program's name, `raw` what it sent, `sent` the size of that."""

    agent: str
    verb: str
    resource: str
    namespace: str
    name: str
    code: int
    at: datetime
    raw: bytes = b""
    sent: int = 0

    @property
    def body(self) -> Mapping[str, Any]:
        """Decoded on access, because a log has millions of them and few are read."""
        body = msgspec.json.decode(self.raw) if self.raw else {}
        return body if isinstance(body, dict) else {}

    @property
    def is_done(self) -> bool:
        return 200 <= self.code < 300

    @property
    def is_write(self) -> bool:
        return self.verb in WRITES or self.verb.startswith("delete")


class _Object(msgspec.Struct, frozen=True, rename="camel"):
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class _Status(msgspec.Struct, frozen=True):
    code: int = 0


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    stage: str
    verb: str
    stage_timestamp: datetime
    user_agent: str = ""
    object_ref: _Object | None = None
    response_status: _Status | None = None
    request_object: msgspec.Raw = msgspec.Raw()


def calls(lines: Iterable[bytes]) -> Iterator[Call]:
    """The calls in the order in which they were answered. A line that is cut off ends the log."""
    decode = msgspec.json.Decoder(_Event).decode
    for line in lines:
        try:
            event = decode(line)
        except msgspec.DecodeError:
            return
        if event.stage == "ResponseComplete" and event.object_ref is not None:
            yield _call(event, event.object_ref)


def _call(event: _Event, about: _Object) -> Call:
    raw = bytes(event.request_object)
    resource = f"{about.resource}/{about.subresource}" if about.subresource else about.resource
    return Call(
        agent=event.user_agent.partition("/")[0],
        verb=event.verb,
        resource=resource,
        namespace=about.namespace,
        name=about.name or (_own_name(raw) if event.verb == "create" else ""),
        code=event.response_status.code if event.response_status else 0,
        at=event.stage_timestamp,
        raw=raw,
        sent=len(raw),
    )


class _Named(msgspec.Struct, frozen=True):
    name: str = ""


class _Created(msgspec.Struct, frozen=True):
    metadata: _Named = _Named()


def _own_name(raw: bytes) -> str:
    """A creation names its object in the body alone."""
    return msgspec.json.decode(raw, type=_Created).metadata.name if raw else ""
