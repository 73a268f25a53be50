"""What can be broken, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from aiohttp import web

_VERBS: Final = {"POST": "create", "PUT": "update", "DELETE": "delete"}


class Fault(StrEnum):
    """What can happen to a call, or to a watch at one of its events."""

    CUT = "cut"  # the connection breaks before the server has heard
    LOST = "lost"  # the server has acted; its answer never comes
    TWICE = "twice"  # the server hears it two times, and answers the second
    DELAY = "delay"  # later
    FREEZE = "freeze"  # nothing comes any more, and nobody closes
    TRUNCATE = "truncate"  # half of the answer
    FORBIDDEN = "403"
    STARTING = "403 of a server that has not read its roles yet"
    NOT_FOUND = "404"
    CONFLICT = "409"
    GONE = "410"
    INVALID = "422"
    TOO_MANY = "429"
    BROKEN = "500"
    UNAVAILABLE = "503"
    DUPLICATE = "duplicate"  # every event of the watch two times
    REORDER = "reorder"  # an event after its successor
    GAP = "gap"  # an event is missing; then the server says that it has forgotten


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the manager. `resource` is the plural, with its subresource; `try` is the verb of a dry
    run.
    """

    verb: str
    resource: str
    path: str

    @property
    def writes(self) -> bool:
        """Of gangs: news (Events) and leases are not part of what is decided, nor is the word on a policy or
        a check, which the next manager writes after any test that changed one.
        """
        told = self.resource.startswith(("events", "leases", "gangpolicies", "admissionchecks"))
        return self.verb not in ("get", "list", "watch", "try") and not told

    @classmethod
    def of(cls, request: web.Request) -> Call:
        """What the path and the method of a request to an API server mean."""
        parts = request.path.strip("/").split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        if parts[0:1] == ["namespaces"] and len(parts) > 2:
            parts = parts[2:]
        plural, name, below = (*parts, "", "", "")[:3]
        verb = _VERBS.get(request.method, "")
        if request.method == "PATCH":
            verb = "apply" if "apply-patch" in request.headers.get("Content-Type", "") else "patch"
        elif "dryRun" in request.query:
            verb = "try"
        elif request.method == "GET":
            verb = "watch" if "watch" in request.query else "get" if name else "list"
        return cls(verb, f"{plural}/{below}" if below else plural, request.path)

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


def _unheard() -> None: ...


@dataclass(frozen=True, slots=True)
class Break:
    """What is to happen; to a watch, after `at` events. `happened` is called when it really does: a watch may
    end before its event comes, and an event may have no successor.
    """

    fault: Fault
    seconds: float = 0.2
    at: int = 0
    happened: Callable[[], None] = field(default=_unheard, compare=False, repr=False)


class Plan(Protocol):
    """Says what happens to a call. Called in the proxy's thread, in the order of arrival."""

    def judge(self, call: Call) -> Break | None: ...

    def done(self, call: Call) -> None:
        """The server has answered."""


class Calm:
    """Everything passes."""

    def judge(self, call: Call) -> Break | None:
        return None

    def done(self, call: Call) -> None: ...
