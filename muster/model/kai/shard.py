"""A SchedulingShard: the settings of one scheduler, all of them with KAI's own names, because KAI's
documentation describes them. Not responsible for the number of shards (partition.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from muster.model.keys import Parent, Seconds, Word, declared
from muster.model.quantities import Bytes


class Strategy(StrEnum):
    """binpack fills a node before the next: free nodes stay free, for gangs and for scaling down. spread uses
    all nodes alike: each job has more of its node's network and disks.
    """

    BINPACK = "binpack"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    gpu: Strategy = declared("How GPU work is placed.", Strategy.BINPACK)
    cpu: Strategy = declared("How CPU work is placed.", Strategy.BINPACK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """allocate, consolidation, reclaim, preempt, stalegangeviction."""

    enabled: bool | None = declared("Whether it runs.", None)
    priority: int | None = declared("When it runs: higher ones first.", None, example=600)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin(Action):
    arguments: Mapping[str, Word] = declared(
        "Its arguments, in place of all of its own.", {}, example={"kValue": 1.5}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBudgets:
    per_action: Mapping[str, Seconds] = declared(
        "The longest search of an action, by its name.",
        {},
        key="maxActionSearchDuration",
        example={"default": "10s"},
    )
    per_generator: Mapping[str, Seconds] = declared(
        "The longest search of a generator, by its name.",
        {},
        key="maxGeneratorSearchDuration",
        example={"default": "5s"},
    )
    most_per_job: Seconds | None = declared(
        "The longest search for one job.", None, key="maxJobSearchDuration", example="2s"
    )
    least_per_job: Seconds | None = declared(
        "The shortest search for one job.", None, key="minJobSearchDuration", example="1s"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Past use, which `k_value` weighs. `connection` names a variable: an address may carry a password, and a
    stack file may not.
    """

    PARENTS: ClassVar = {"usageParams": Parent("How past use is counted.")}
    REFUSED: ClassVar = {
        "connectionString": (
            "may carry a password, which a stack file may not.",
            "put it into an environment variable and name that: `connectionStringEnvVar: ...`.",
        )
    }

    client: str = declared("The kind of database.", key="clientType", example="prometheus")
    connection: str | None = declared(
        "The environment variable of the scheduler that has the address.",
        None,
        key="connectionStringEnvVar",
        example="PROMETHEUS_URL",
    )
    window_size: str | None = declared(
        "How far back, as Prometheus writes it: 1w2d.", None, key="usageParams.windowSize", example="1w"
    )
    window_type: str | None = declared(
        "The kind of window.", None, key="usageParams.windowType", example="sliding"
    )
    window_start: str | None = declared(
        "The start of a tumbling window, as in RFC 3339.",
        None,
        key="usageParams.tumblingWindowStartTime",
        example="2026-01-01T00:00:00Z",
    )
    cron: str | None = declared(
        "When a cron window begins.", None, key="usageParams.cronString", example="0 0 1 * *"
    )
    half_life: Seconds | None = declared(
        "After this time past use counts half.", None, key="usageParams.halfLifePeriod", example="24h"
    )
    fetch_interval: Seconds | None = declared(
        "How often use is read.", None, key="usageParams.fetchInterval", example="1m"
    )
    staleness: Seconds | None = declared(
        "How long a reading counts.", None, key="usageParams.stalenessPeriod", example="5m"
    )
    wait_timeout: Seconds | None = declared(
        "How long to wait for an answer.", None, key="usageParams.waitTimeout", example="30s"
    )
    extra: Mapping[str, Word] = declared(
        "Further parameters of the client.",
        {},
        key="usageParams.extraParams",
        example={"serverTimeout": "30s"},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSettings:
    """Runtimes are for queues without their own."""

    PARENTS: ClassVar = {"minRuntime": Parent("How long work runs before it can be evicted.")}

    placement: Placement = declared(
        "Whether nodes are filled one after another.", Placement(), key="placementStrategy"
    )
    preempt_min_runtime: Seconds | None = declared(
        "Before work of the same queue preempts it.", None, key="minRuntime.preemptMinRuntime", example="5m"
    )
    reclaim_min_runtime: Seconds | None = declared(
        "Before other queues reclaim its capacity.", None, key="minRuntime.reclaimMinRuntime", example="10m"
    )
    k_value: float | None = declared(
        "How strongly past use counts when free capacity is divided.", None, example=1.5
    )
    args: Mapping[str, Word] = declared("Arguments of the scheduler.", {}, example={"v": 3})
    actions: Mapping[str, Action] = declared(
        "The scheduler's actions, by name.", {}, example={"consolidation": {"enabled": False}}
    )
    plugins: Mapping[str, Plugin] = declared(
        "The scheduler's plugins, by name.", {}, example={"proportion": {"priority": 7}}
    )
    queue_depth: Mapping[str, int] = declared(
        "How many jobs of a queue an action looks at.",
        {},
        key="queueDepthPerAction",
        example={"preempt": 15},
        minimum=1,
    )
    memory_limit: Bytes | None = declared(
        "The memory limit of the scheduler's Go runtime.", None, key="goMemLimit", example="6Gi"
    )
    memory_limit_ratio: float | None = declared(
        "The same as a part of its container's limit.",
        None,
        key="goMemLimitRatio",
        example=0.8,
        minimum=0.01,
        maximum=1,
    )
    budgets: SearchBudgets = declared(
        "How long one round looks for work to evict (alpha in KAI).",
        SearchBudgets(),
        key="scenarioSearchBudgets",
    )
    usage: Usage | None = declared("Where past use is read.", None, key="usageDBConfig")
