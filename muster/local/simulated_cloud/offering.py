"""The cloud's offering: its pools, their stock, and the durations.

Read from `muster/local/pools.yaml` or the ConfigMap `muster-plane/pools`. Every duration is divided by the
clock's scale here, once; the rest of the program counts real seconds, except the bill and
maxRunDurationSeconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import yaml

from muster.local.quantities import milli, seconds
from muster.local.simulated_cloud import names
from muster.paths import LOCAL_POOLS

# A pool that no machine could hold is a slip of the keyboard, and would be a loop without end.
MOST_NODES: Final = 20_000


class OfferingError(ValueError):
    """A pools file that cannot be used: where, what is there, what is allowed."""


class Kind(StrEnum):
    REAL = "real"  # a kubelet and containerd of the local cluster, through the supervisor
    KWOK = "kwok"  # a Node object that KWOK keeps alive


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str

    @staticmethod
    def parse(text: str) -> Taint:
        pair, colon, effect = text.rpartition(":")
        key, _, value = pair.partition("=")
        if not colon or not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
            raise OfferingError(
                f"taint {text!r}: write key=value:NoSchedule (or PreferNoSchedule, NoExecute)"
            )
        return Taint(key, value, effect)

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}"


# What GKE puts on the nodes of a pool with queued provisioning, unless `queuedTaint: false`.
QUEUED_TAINT: Final = Taint(names.QUEUED_LABEL, "true", "NoSchedule")


@dataclass(frozen=True, slots=True)
class Pool:
    """One node pool: a machine type, what it costs, how much of it the cloud has."""

    name: str
    kind: Kind
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    cpu: str
    memory: str
    gpus: int
    max_nodes: int
    stock: int
    provision_delay: float
    jitter: float
    classes: frozenset[str]
    on_demand: bool
    atomic: bool
    price_per_hour: float
    pods: int = 110

    @property
    def allocatable(self) -> dict[str, int]:
        """In thousandths, as a fresh and empty node of the pool offers it."""
        room = {"cpu": milli(self.cpu), "memory": milli(self.memory), "pods": self.pods * 1000}
        return room | ({names.GPU: self.gpus * 1000} if self.gpus else {})


@dataclass(frozen=True, slots=True)
class Times:
    """How long things take, in real seconds; the defaults are the originals' figures."""

    scale: float = 1.0
    accept_delay: float = 1.0
    refusal_delay: float = 120.0  # GKE tries this long before it fails a request that fits nowhere
    booking: float = 600.0  # hard-coded in both autoscalers
    first_backoff: float = 60.0
    last_backoff: float = 600.0
    pod_buffer: float = 2.0  # a pod waits this long before it buys a node ...
    gpu_buffer: float = 30.0  # ... and one that asks for GPUs this long: hard-coded in cluster-autoscaler
    request_expiry: float = 7 * 86400.0
    terminal_ttl: float = 7 * 86400.0
    scale_down: float = 600.0  # --scale-down-unneeded-time of cluster-autoscaler
    scale_down_consumed: float = 600.0  # the original knows no shorter one
    unavailable_for: float = 180.0  # Karpenter asks no second time for what was out of stock (on AWS)
    shortest_run: float = 600.0
    longest_run: float = 7 * 86400.0


_TIMES: Final = {
    "acceptDelay": "accept_delay",
    "refusalDelay": "refusal_delay",
    "booking": "booking",
    "firstBackoff": "first_backoff",
    "lastBackoff": "last_backoff",
    "podBuffer": "pod_buffer",
    "gpuBuffer": "gpu_buffer",
    "requestExpiry": "request_expiry",
    "terminalTTL": "terminal_ttl",
    "scaleDown": "scale_down",
    "scaleDownConsumed": "scale_down_consumed",
    "unavailableFor": "unavailable_for",
    "shortestRun": "shortest_run",
    "longestRun": "longest_run",
}
_POOL_KEYS: Final = frozenset(
    {
        *("name", "enabled", "kind", "labels", "taints", "queuedTaint", "classes", "onDemand", "atomic"),
        *("cpu", "memory", "gpus", "pods", "maxNodes", "stock", "provisionDelay", "jitter", "pricePerHour"),
    }
)


@dataclass(frozen=True, slots=True)
class Offering:
    """The pools by name, in the order in which they are tried."""

    pools: Mapping[str, Pool]
    times: Times = field(default_factory=Times)
    currency: str = "USD"
    # Both originals set BookingExpired ten minutes after Provisioned whether or not pods consume the request;
    # what keeps a node then is that it is in use. True makes this one do the same.
    expire_consumed: bool = False


def read(path: Path = LOCAL_POOLS, *, scale: float = 1.0) -> Offering:
    return parse(path.read_text(encoding="utf-8"), source=str(path), scale=scale)


def parse(text: str, *, source: str, scale: float = 1.0) -> Offering:
    """The offering, with every duration divided by the scale; OfferingError names the path of a mistake."""
    if not scale > 0:
        raise OfferingError(
            f"clock scale {scale}: must be above 0; 60 lets a minute of the cloud pass in a second"
        )
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # also absurd numbers and depths
        raise OfferingError(f"{source}: is not YAML: {error}") from error
    if not isinstance(content, Mapping) or not isinstance(content.get("pools"), list):
        raise OfferingError(f"{source}: must be a mapping with a list `pools`")
    pools: dict[str, Pool] = {}
    for index, entry in enumerate(content["pools"]):
        where = f"{source}: pools[{index}]"
        if not isinstance(entry, Mapping):
            raise OfferingError(f"{where}: must be a mapping")
        if entry.get("enabled", True) is not True:
            continue
        pool = _checked_pool(entry, where)
        if pool.name in pools:
            raise OfferingError(f"{where}.name: {pool.name!r} is there twice")
        pools[pool.name] = replace(
            pool, provision_delay=pool.provision_delay / scale, jitter=pool.jitter / scale
        )
    return Offering(
        pools,
        _times(content.get("times") or {}, scale, source),
        str(content.get("currency", "USD")),
        bool(content.get("expireConsumed", False)),
    )


def _times(entry: Any, scale: float, source: str) -> Times:
    if not isinstance(entry, Mapping) or not set(entry) <= set(_TIMES):
        raise OfferingError(f"{source}: times: allowed are {', '.join(_TIMES)}")
    defaults = Times()
    try:
        real = {
            attribute: (seconds(entry[key]) if key in entry else getattr(defaults, attribute)) / scale
            for key, attribute in _TIMES.items()
        }
    except ValueError as error:
        raise OfferingError(f"{source}: times: {error}") from error
    return Times(scale=scale, **real)


def _checked_pool(entry: Mapping[str, Any], where: str) -> Pool:
    unknown = set(entry) - _POOL_KEYS
    if unknown:
        raise OfferingError(
            f"{where}: knows no {', '.join(sorted(map(str, unknown)))}; "
            f"allowed: {', '.join(sorted(_POOL_KEYS))}"
        )
    try:
        pool = _pool(entry)
        pool.allocatable  # noqa: B018 - evaluated for its check of cpu and memory
    except OfferingError as error:
        raise OfferingError(f"{where}: {error}") from error
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise OfferingError(f"{where}: {type(error).__name__}: {error}") from error
    if not 0 <= pool.max_nodes <= MOST_NODES or not 0 <= pool.stock <= MOST_NODES or pool.gpus < 0:
        raise OfferingError(f"{where}: maxNodes and stock must lie in 0..{MOST_NODES}, gpus be 0 or more")
    wrong = pool.classes - set(names.CLASSES)
    if wrong:
        raise OfferingError(
            f"{where}.classes: {', '.join(sorted(wrong))}; allowed: {', '.join(names.CLASSES)}"
        )
    return pool


def _pool(entry: Mapping[str, Any]) -> Pool:
    name = str(entry["name"])
    labels = {str(key): str(value) for key, value in (entry.get("labels") or {}).items()}
    taints = tuple(Taint.parse(str(text)) for text in entry.get("taints") or ())
    classes = frozenset(map(str, entry.get("classes") or ()))
    return Pool(
        name=name,
        kind=Kind(entry.get("kind", "real")),
        labels={names.POOL_LABEL: name, **labels},
        taints=(*taints, QUEUED_TAINT) if entry.get("queuedTaint", names.QUEUED in classes) else taints,
        cpu=str(entry["cpu"]),
        memory=str(entry["memory"]),
        gpus=int(entry.get("gpus", 0)),
        pods=int(entry.get("pods", 110)),
        max_nodes=int(entry["maxNodes"]),
        stock=int(entry["stock"]),
        provision_delay=seconds(entry.get("provisionDelay", "0s")),
        jitter=seconds(entry.get("jitter", "0s")),
        classes=classes,
        on_demand=bool(entry.get("onDemand", False)),
        atomic=bool(entry.get("atomic", True)),
        price_per_hour=float(entry.get("pricePerHour", 0.0)),
    )
