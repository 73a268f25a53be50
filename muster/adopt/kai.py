"""KAI's Queues as departments and teams: a Queue with others below it is a department, any other a team.

A team is in a department, so Queues that have neither parent nor children are teams of a department without a
Queue.
"""

from fractions import Fraction
from typing import Any, Final

from muster.adopt.cluster import Findings, LiveCluster, NameBook, title
from muster.adopt.kueue import to_priorities
from muster.adopt.nodes import NodeShape, described, no_nodes, shape_of
from muster.live.fields import items, mapping, text
from muster.live.snapshot.workloads import circles
from muster.model import names
from muster.model.kai import UNLIMITED, QueueSpec, ShardSettings
from muster.model.kai.tree import DEFAULT_SHARD, RESOURCES
from muster.model.quantities import Millicores, format_cpu
from muster.render.manifest import Manifest

# Pools from live nodes: KAI's Queues name none, so all nodes that are alike are one pool.


def to_pools(live: LiveCluster, findings: Findings) -> dict[str, Any]:
    """Name -> pool."""
    if not (live.is_whole or live.nodes):
        no_nodes(findings)
    by_shape: dict[NodeShape, list[Manifest]] = {}
    for each in live.nodes:
        by_shape.setdefault(shape_of(each), []).append(each)
    book, found = NameBook({names.SYSTEM_POOL}), {}
    for shape, nodes in by_shape.items():
        said = described(shape, nodes)
        if said is None:
            reason = f"{len(nodes)} have GPUs that no label names."
            findings.reworded("Nodes", "", reason, "no pool: the report of a change shows no quotas in it")
            continue
        found[book.take(_title(shape), suffix="nodes")] = {**said, "maxNodes": len(nodes)}
    return found


def _title(shape: NodeShape) -> str:
    return shape.accelerator.removeprefix("nvidia-") or "cpu"


# The figures of a KAI Queue as `kai:` of a team or department has them.
# Every figure is written: KAI reads a missing one as 0, and a stack would derive it. A figure that a stack
# cannot have is rounded down, which the comparison with the rendered object shows.

_UNLIMITED: Final = -1
_MOST: Final = 10**15


def is_unlimited(figure: float | Fraction) -> bool:
    """Whether KAI reads the figure as no bound."""
    return figure == _UNLIMITED


def to_shares(queue: Manifest) -> dict[str, Any]:
    resources = mapping(queue, "spec", "resources")
    return {key: _share(key, mapping(resources, key)) for key in RESOURCES}


def _share(key: str, said: Any) -> dict[str, Any]:
    figures = {name: _figure(key, _amount(said.get(name))) for name in ("quota", "limit")}
    return {**figures, "overQuotaWeight": max(0, int(_amount(said.get("overQuotaWeight"))))}


def _figure(key: str, amount: Fraction) -> int | float | str:
    """KAI counts GPUs, thousandths of a CPU and millions of bytes."""
    if is_unlimited(amount):
        return UNLIMITED.value
    amount = max(amount, Fraction(0))
    if key == "gpu":
        return int(amount) if amount.denominator == 1 else int(amount * 1000) / 1000
    whole = int(amount)
    if key == "memory":
        return f"{whole}M" if whole else 0
    return whole // 1000 if whole % 1000 == 0 else format_cpu(Millicores(whole))


def _amount(value: object) -> Fraction:
    """The number as it is written: 0.7 is seven tenths."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _MOST:
        return Fraction(0)
    return Fraction(str(value))


# KAI's own settings: its shard, its topologies and its priority classes.

_USAGE: Final = "usageDBConfig"
_CONNECTION: Final = "connectionString"


def to_settings(live: LiveCluster, findings: Findings) -> dict[str, Any]:
    """The value of `muster:kai`. One shard: then every team has one Queue."""
    values: dict[str, Any] = {
        "shard": _shard(live, findings),
        "topologies": {
            text(each, "metadata", "name"): {
                "levels": [dict(level) for level in items(mapping(each, "spec"), "levels")]
            }
            for each in live.kai("Topology")
        },
    }
    return {"install": False, "sharding": "one", **{key: value for key, value in values.items() if value}}


def _shard(live: LiveCluster, findings: Findings) -> dict[str, Any]:
    """The settings of the default shard, which have the same names in a stack."""
    found: dict[str, Any] = {}
    is_there = False
    for each in live.kai("SchedulingShard"):
        if text(each, "metadata", "name") == DEFAULT_SHARD:
            spec, is_there = mapping(each, "spec"), True
            found = ShardSettings.adopt(spec)
            if _CONNECTION in mapping(found.get(_USAGE)):
                reason = "may carry a password, which a stack file may not."
                findings.lost(
                    title(each), f"spec.{_USAGE}.{_CONNECTION}", reason, "left out; it stays on the object"
                )
                found[_USAGE] = {key: value for key, value in found[_USAGE].items() if key != _CONNECTION}
        else:
            reason = f"a stack that takes Queues over has the shard {DEFAULT_SHARD!r} alone."
            findings.reworded(title(each), "", reason, "left out; the object stays as it is")
    if not (is_there or live.is_whole):
        effect = "the stack has the settings of KAI's own chart"
        findings.reworded(f"SchedulingShard {DEFAULT_SHARD}", "", "is in no file.", effect)
    elif not is_there:
        reason = "does not exist, and every stack with KAI has one."
        effect = (
            "the first `pulumi up` creates it: one more scheduler, for nodes and work without a pool's label"
        )
        findings.lost(f"SchedulingShard {DEFAULT_SHARD}", "", reason, effect)
    return found


_INDEPENDENT: Final = "independent"


def to_departments(live: LiveCluster, findings: Findings) -> dict[str, Any]:
    """The value of `muster:departments`."""
    return _Builder(live, findings).build()


class _Builder:
    """Reads the Queues into departments."""

    def __init__(self, live: LiveCluster, findings: Findings) -> None:
        self._findings = findings
        self._queues = {text(each, "metadata", "name"): each for each in live.kai("Queue")}
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


# The keys of the stack file of a cluster that runs KAI.


def to_values(live: LiveCluster, findings: Findings, *, with_pools: bool) -> dict[str, Any]:
    """`with_pools`: whether the nodes are pools of the stack."""
    return {
        "pools": to_pools(live, findings) if with_pools else {},
        "scheduler": "kai",
        "kai": to_settings(live, findings),
        "priorities": to_priorities(live.kai("PriorityClass")),
        "departments": to_departments(live, findings),
    }
