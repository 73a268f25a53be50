"""A SchedulingShard: the settings of one scheduler.

A stack can set all of them, with KAI's own names (`key`, where ours differ), because KAI's documentation
describes them. Not responsible for the number of shards (partition.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from muster.model.quantities import Bytes


class Strategy(StrEnum):
    """binpack fills a node before the next: free nodes stay free, for gangs and for scaling down. spread uses
    all nodes alike: each job has more of its node's network and disks.
    """

    BINPACK = "binpack"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    gpu: Strategy = Strategy.BINPACK
    cpu: Strategy = Strategy.BINPACK


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """allocate, consolidation, reclaim, preempt, stalegangeviction: whether it runs, and when (higher
    first).
    """

    enabled: bool | None = None
    priority: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """One of the scheduler's plugins; `arguments` replace all of its own."""

    enabled: bool | None = None
    priority: int | None = None
    arguments: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBudgets:
    """How long one round looks for what to evict, in seconds (alpha in KAI 0.17)."""

    per_action: Mapping[str, int] = field(
        default_factory=lambda: MappingProxyType({}), metadata={"key": "maxActionSearchDuration"}
    )
    per_generator: Mapping[str, int] = field(
        default_factory=lambda: MappingProxyType({}), metadata={"key": "maxGeneratorSearchDuration"}
    )
    most_per_job: int | None = field(default=None, metadata={"key": "maxJobSearchDuration"})
    least_per_job: int | None = field(default=None, metadata={"key": "minJobSearchDuration"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Past use, which `k_value` weighs when what is free is divided: where it is read, and how far back.

    `connection` names an environment variable of the scheduler: an address may carry a password, and a stack
    file may not. Durations in seconds; `window_size` is Prometheus' (`1w2d`), `window_start` RFC 3339.
    """

    client: str
    connection: str | None = None
    window_size: str | None = None
    window_type: str | None = None
    window_start: str | None = None
    cron: str | None = None
    half_life: int | None = None
    fetch_interval: int | None = None
    staleness: int | None = None
    wait_timeout: int | None = None
    extra: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSettings:
    """The settings of one scheduler. Runtimes, in seconds, are for queues without their own."""

    placement: Placement = field(default=Placement(), metadata={"key": "placementStrategy"})
    preempt_min_runtime: int | None = field(default=None, metadata={"key": "minRuntime.preemptMinRuntime"})
    reclaim_min_runtime: int | None = field(default=None, metadata={"key": "minRuntime.reclaimMinRuntime"})
    k_value: float | None = None
    args: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    actions: Mapping[str, Action] = field(default_factory=lambda: MappingProxyType({}))
    plugins: Mapping[str, Plugin] = field(default_factory=lambda: MappingProxyType({}))
    queue_depth: Mapping[str, int] = field(
        default_factory=lambda: MappingProxyType({}), metadata={"key": "queueDepthPerAction"}
    )
    memory_limit: Bytes | None = field(default=None, metadata={"key": "goMemLimit"})
    memory_limit_ratio: float | None = field(default=None, metadata={"key": "goMemLimitRatio"})
    budgets: SearchBudgets = field(default=SearchBudgets(), metadata={"key": "scenarioSearchBudgets"})
    usage: Usage | None = field(default=None, metadata={"key": "usageDBConfig"})
