"""Whether pods fit nodes: resources, node selectors, required node affinity, taints. Nothing else.

The scheduler considers more (spread, inter-pod affinity, volumes). What it rejects and this accepts is a
pod that stays Pending on a node provisioned for it, as sometimes with the originals' simulation. Amounts
are thousandths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster.local.quantities import milli
from muster.local.simulated_cloud.offering import Taint

# Asking for nothing, a pod still takes one of the node's pod slots.
_ONE_POD: Final = 1000


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression of a node affinity term."""

    key: str
    operator: str
    values: tuple[str, ...]
    on_field: bool = False

    def met(self, labels: Mapping[str, str], name: str) -> bool:
        value = (name if self.key == "metadata.name" else None) if self.on_field else labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compared(value)
        return False

    def _compared(self, value: str | None) -> bool:
        try:
            left, right = int(value or ""), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return left > right if self.operator == "Gt" else left < right


@dataclass(frozen=True, slots=True)
class Toleration:
    key: str
    operator: str
    value: str
    effect: str

    def covers(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (bool(self.key) and self.value == taint.value)


@dataclass(frozen=True, slots=True)
class PodShape:
    """What the scheduler must find for one pod."""

    requests: Mapping[str, int] = field(default_factory=dict)
    selector: Mapping[str, str] = field(default_factory=dict)
    terms: tuple[tuple[Requirement, ...], ...] | None = None  # any of them; None: no affinity asked for
    tolerations: tuple[Toleration, ...] = ()

    def obstacle(self, labels: Mapping[str, str], taints: Iterable[Taint], name: str = "") -> str | None:
        """Why no pod of this shape may run on such a node whatever its size, in the scheduler's words."""
        for taint in taints:
            hard = taint.effect in ("NoSchedule", "NoExecute")
            if hard and not any(toleration.covers(taint) for toleration in self.tolerations):
                return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
        if any(labels.get(key) != value for key, value in self.selector.items()):
            return "node(s) didn't match Pod's node affinity/selector"
        if self.terms is not None and not any(
            term and all(requirement.met(labels, name) for requirement in term) for term in self.terms
        ):
            return "node(s) didn't match Pod's node affinity/selector"
        return None

    def short_of(self, free: Mapping[str, int]) -> str | None:
        for resource, amount in self.requests.items():
            if amount > free.get(resource, 0):
                return f"Insufficient {resource}"
        return None


def room(shape: PodShape, free: Mapping[str, int], *, most: int) -> int:
    """How many pods of the shape the free amounts hold, at most `most`."""
    count = most
    for resource, amount in shape.requests.items():
        if amount > 0:
            count = min(count, max(0, free.get(resource, 0)) // amount)
    return count


def take(shape: PodShape, free: dict[str, int], count: int) -> None:
    for resource, amount in shape.requests.items():
        free[resource] = free.get(resource, 0) - amount * count


def nodes_needed(
    demand: Sequence[tuple[PodShape, int]], empty: Mapping[str, int], *, most: int
) -> int | None:
    """Fresh nodes that hold the demand, filled one after another; None if not even `most` would."""
    left = [count for _, count in demand]
    for used in range(most + 1):
        if not any(left):
            return used
        free = dict(empty)
        before = sum(left)
        for index, (shape, _) in enumerate(demand):
            placed = room(shape, free, most=left[index])
            take(shape, free, placed)
            left[index] -= placed
        if sum(left) == before:
            return None
        if len(demand) == 1 and left[0]:
            # All nodes of one shape alike: no need to fill a million of them by hand.
            more = -(-left[0] // (before - left[0]))
            return used + 1 + more if used + 1 + more <= most else None
    return None


def pod_shape(spec: Mapping[str, Any]) -> PodShape:
    """The shape of a pod spec; ValueError for amounts that are none."""
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return PodShape(
        requests=_pod_requests(spec),
        selector={str(key): str(value) for key, value in (spec.get("nodeSelector") or {}).items()},
        terms=None
        if affinity is None
        else tuple(_term(term) for term in affinity.get("nodeSelectorTerms") or ()),
        tolerations=tuple(
            Toleration(
                str(entry.get("key") or ""),
                str(entry.get("operator") or "Equal"),
                str(entry.get("value") or ""),
                str(entry.get("effect") or ""),
            )
            for entry in spec.get("tolerations") or ()
        ),
    )


def _term(raw: Mapping[str, Any]) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(
            str(entry["key"]), str(entry["operator"]), tuple(map(str, entry.get("values") or ())), on_field
        )
        for on_field, group in ((False, "matchExpressions"), (True, "matchFields"))
        for entry in raw.get(group) or ()
    )


def _pod_requests(spec: Mapping[str, Any]) -> dict[str, int]:
    """Sum of the containers or the greatest init container, sidecars counted as containers, plus overhead."""
    running: dict[str, int] = {}
    starting: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        own = _container_requests(container)
        if container.get("restartPolicy") == "Always":
            _add(running, own)
            _raise(starting, running)
        else:
            _raise(starting, {key: own.get(key, 0) + running.get(key, 0) for key in {*own, *running}})
    for container in spec.get("containers") or ():
        _add(running, _container_requests(container))
    _raise(running, starting)
    _add(running, {str(key): milli(value) for key, value in (spec.get("overhead") or {}).items()})
    running["pods"] = _ONE_POD
    return running


def _container_requests(container: Mapping[str, Any]) -> dict[str, int]:
    """Limits are used where requests are missing, as in API defaulting."""
    resources = container.get("resources") or {}
    merged = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {str(key): max(0, milli(value)) for key, value in merged.items()}


def _add(total: dict[str, int], own: Mapping[str, int]) -> None:
    for key, value in own.items():
        total[key] = total.get(key, 0) + value


def _raise(total: dict[str, int], own: Mapping[str, int]) -> None:
    for key, value in own.items():
        total[key] = max(total.get(key, 0), value)
