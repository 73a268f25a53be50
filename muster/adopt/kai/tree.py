"""KAI's Queues as departments and teams: a Queue with others below it is a department, any other a team.

A team is in a department, so Queues that have neither parent nor children are teams of a department without a
Queue.
"""

from typing import Any, Final

from muster.adopt.cluster import LiveCluster, title
from muster.adopt.findings import Findings
from muster.adopt.kai.figures import to_shares
from muster.adopt.titles import NameBook
from muster.live.circles import circles
from muster.live.fields import mapping, text
from muster.model.kai import QueueSpec

_INDEPENDENT: Final = "independent"


def to_departments(live: LiveCluster, findings: Findings) -> dict[str, Any]:
    """The value of `muster:departments`."""
    return _Builder(live, findings).build()


class _Builder:
    """Reads the Queues into departments."""

    def __init__(self, live: LiveCluster, findings: Findings) -> None:
        self._findings = findings
        self._queues = {text(each, "metadata", "name"): each for each in live.kai.get("Queue", ())}
        self._parents = self._parents_of_all()
        self._below: dict[str, list[str]] = {}
        for name in sorted(self._queues):
            self._below.setdefault(self._parents[name], []).append(name)
        book = NameBook()
        self._names = {name: book.take(name, suffix="queue") for name in sorted(self._queues)}
        self._independent = book.take(_INDEPENDENT, suffix="queues")

    def build(self) -> dict[str, Any]:
        tops = self._below.get("", [])
        found = {self._names[each]: self._department(each) for each in tops if each in self._below}
        alone = {self._names[each]: self._team(each) for each in tops if each not in self._below}
        if alone:
            found[self._independent] = {"kai": {"queue": "none"}, "teams": alone}
        return found

    def _parents_of_all(self) -> dict[str, str]:
        """Every Queue -> its parent, "" at the top. A missing one is none. A circle is cut at its first."""
        parents = {name: text(each, "spec", "parentQueue") for name, each in self._queues.items()}
        for name in sorted(parents):
            if parents[name] and parents[name] not in self._queues:
                self._cut(name, f"names a Queue {parents[name]!r} that does not exist.")
                parents[name] = ""
        for name in circles(parents):
            self._cut(name, f"is its own ancestor, through {parents[name]!r}: KAI schedules no such Queues.")
            parents[name] = ""
        return parents

    def _cut(self, name: str, reason: str) -> None:
        effect = "written without a parent; the field stays on the object"
        self._findings.lost(title(self._queues[name]), "spec.parentQueue", reason, effect)

    def _department(self, name: str) -> dict[str, Any]:
        below = self._below[name]
        values = {
            "kai": self._settings(name),
            "departments": {
                self._names[each]: self._department(each) for each in below if each in self._below
            },
            "teams": {self._names[each]: self._team(each) for each in below if each not in self._below},
        }
        return {key: value for key, value in values.items() if value}

    def _team(self, name: str) -> dict[str, Any]:
        body = self._queues[name]
        if not mapping(body, "spec", "resources", "cpu").get("limit"):
            reason = "has a CPU limit of 0, which a missing one is as well: KAI starts nothing in it."
            effect = "the stack has no such Queue; the object stays as it is"
            self._findings.lost(title(body), "spec.resources.cpu.limit", reason, effect)
        return {"kai": self._settings(name)}

    def _settings(self, name: str) -> dict[str, Any]:
        body = self._queues[name]
        own_name = {} if name == self._names[name] else {"queue": name}
        return own_name | QueueSpec.adopt(mapping(body, "spec")) | to_shares(body)
