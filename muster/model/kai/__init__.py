"""KAI's API as types: the settings of a stack that queues.py does not cover.

    ShardSettings        a SchedulingShard: the settings of one scheduler; so QueueSpec and TopologySpec
    Topology             node labels that describe how close two nodes are
    KaiSettings          settings for the whole stack (`muster:kai`)
    Figure, UNLIMITED    an amount, or no bound at all
    Share, Shares        quota, limit and weight of one resource; of GPUs, CPU and memory
    QueueSettings        settings of a team's or department's Queue (`kai:` in the tree)

tree.py is about whole stacks and is imported by name: every Queue with its figures.

Responsible for units, and for hiding how KAI spells "without bound" and "nothing". The settings of a
scheduler have KAI's own names, because KAI's documentation describes them. A field of QueueSettings that is
None is derived: quota and limit from the allowance, the weight from `weight`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Final, Generic, NewType, TypeAlias, TypeVar

from muster.model.definitions import DURATION, Schema, Spec
from muster.model.keys import declared, read
from muster.model.priorities import Priority
from muster.model.quantities import (
    QUANTITY_PATTERN,
    Bytes,
    Millicores,
    parse_cpu,
    parse_memory,
    parse_quantity,
)
from muster.model.section import Section

# Priorities for KAI.

# docs/priority of KAI 0.17.0: work of 100 or more stays within its queue's quota and is never evicted for
# others.
NON_PREEMPTIBLE: Final = 100
# Of work without a class that exists, where no class is the default of all (pkg/common/constants:
# DefaultPodGroupPriority).
DEFAULT_PRIORITY: Final = 50
OWN_CLASSES: Final[Mapping[str, int]] = MappingProxyType(
    {"inference": 125, "build": 100, "build-preemptible": 75, "train": 50}
)


def is_preemptible(priority: Priority) -> bool:
    """Whether work of it may go over quota, and may then be evicted."""
    return priority.value < NON_PREEMPTIBLE


# A KAI Topology: node labels that describe how close two nodes are.

HOSTNAME_LABEL: Final = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Level:
    """`alias` is a name that work may use in place of the label."""

    node_label: str
    alias: str | None


class TopologySpec(Spec):
    KIND = "kai.scheduler/v1alpha1 Topology"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    name: str
    spec: TopologySpec = declared("", {}, factory=TopologySpec, is_inline=True)

    @property
    def levels(self) -> tuple[Level, ...]:
        """From the widest level to the narrowest."""
        return tuple(Level(each["nodeLabel"], each.get("alias")) for each in self.spec.get("levels", ()))


_PLACEMENT: Final[Schema] = {"enum": ["binpack", "spread"], "default": "binpack"}
ORDER: Final[Schema] = {"minimum": 0, "maximum": 2**31 - 1}
"""Bounds of a priority of KAI's, whose definition has none."""
PASSWORD: Final = (
    "may carry a password, which a stack file may not",
    "put it into an environment variable and name that: `connectionStringEnvVar: ...`",
)


class ShardSettings(Spec):
    """The spec of a SchedulingShard: placement, runtimes of queues without their own, plugins, budgets."""

    KIND = "kai.scheduler/v1 SchedulingShard"
    ADDED: ClassVar[Mapping[str, Schema]] = {
        "partitionLabelValue": {
            "refused": (
                "is the pool's name, which Muster writes",
                "remove it, and write the settings of one pool in `muster:kai.pools`",
            )
        },
        "placementStrategy.gpu": _PLACEMENT,
        "placementStrategy.cpu": _PLACEMENT,
        "kValue": {"minimum": 0, "maximum": 1e9},
        "actions.*.priority": ORDER,
        "plugins.*.priority": ORDER,
        "queueDepthPerAction.*": {"minimum": 1, "maximum": 2**31 - 1},
        # KAI reads these as Go's durations; its definition says text.
        **dict.fromkeys(
            (
                "minRuntime.preemptMinRuntime",
                "minRuntime.reclaimMinRuntime",
                "scenarioSearchBudgets.maxActionSearchDuration.*",
                "scenarioSearchBudgets.maxGeneratorSearchDuration.*",
                "scenarioSearchBudgets.maxJobSearchDuration",
                "scenarioSearchBudgets.minJobSearchDuration",
                "usageDBConfig.usageParams.fetchInterval",
                "usageDBConfig.usageParams.halfLifePeriod",
                "usageDBConfig.usageParams.stalenessPeriod",
                "usageDBConfig.usageParams.waitTimeout",
            ),
            DURATION,
        ),
        "usageDBConfig.connectionString": {"refused": PASSWORD},
    }


# The settings of KAI for the whole stack (`muster:kai`).


class Sharding(StrEnum):
    """one: one scheduler and one Queue a team. per-pool: a scheduler and a Queue a team for every pool, so
    that quotas of two GPU pools stay apart; a gang then runs in one pool, its head included.
    """

    ONE = "one"
    PER_POOL = "per-pool"


@dataclass(frozen=True, slots=True, kw_only=True)
class KaiSettings:
    """`install` false: the cluster has its own KAI operator; shards and queues are still made."""

    install: bool = declared("Whether Muster installs KAI; false where the cluster has it.", True)
    sharding: Sharding | None = declared(
        "One scheduler for all pools, or one for each.",
        None,
        default_text="one where there is at most one GPU pool, per-pool otherwise",
    )
    gpu_sharing: bool = declared(
        "Whether pods may request a part of a GPU; its memory is not isolated.", False
    )
    cluster_autoscaling: bool = declared(
        "Whether an autoscaler sees pods that wait for a part of a GPU.", False
    )
    shard: ShardSettings = declared(
        "Settings of the schedulers.", {}, factory=ShardSettings, definition="kaiShard"
    )
    pools: Mapping[str, ShardSettings] = declared(
        "A pool's own scheduler, in place of `shard`.",
        {},
        definition="kaiShard",
        example={"l4": {"placementStrategy": {"gpu": "spread"}}},
    )
    topologies: tuple[Topology, ...] = declared(
        "Node labels that describe how close two nodes are.",
        (),
        example={"racks": {"levels": [{"nodeLabel": "example.com/rack"}]}},
    )


# Amounts as KAI counts them: a number, or unlimited.
#
# KAI writes "unlimited" as -1, reads a missing figure as 0, and a limit of 0 as "nothing" (docs/queues of
# KAI 0.17.0). Here a figure is a typed amount or UNLIMITED, and only the renderer uses these numbers.

# A queue may have a part of a GPU: 500 is half of one.
MilliGpus = NewType("MilliGpus", int)


class Unlimited(Enum):
    """More than anything."""

    UNLIMITED = "unlimited"


UNLIMITED: Final = Unlimited.UNLIMITED

Amount = TypeVar("Amount", bound=int, covariant=True)
Figure: TypeAlias = Amount | Unlimited


def added(figures: Iterable[Figure[int]]) -> Figure[int]:
    """The sum; one figure without bound makes a sum without bound."""
    total = 0
    for figure in figures:
        if isinstance(figure, Unlimited):
            return UNLIMITED
        total += figure
    return total


def within(figure: Figure[int], bound: Figure[int]) -> bool:
    if isinstance(bound, Unlimited):
        return True
    return not isinstance(figure, Unlimited) and figure <= bound


# KAI's default, written explicitly so that a preview shows it.
DEFAULT_QUEUE_PRIORITY: Final = 100
_NONE: Final = "none"
_RUNTIME: Final[Schema] = {**DURATION, "default": "that of the shard"}
_FIGURE: Final[dict[str, Any]] = {
    "anyOf": [
        {"type": ["number", "string"], "minimum": 0, "pattern": QUANTITY_PATTERN},
        {"const": UNLIMITED.value},
    ]
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Share(Generic[Amount]):
    """One resource of a queue. `over_quota_weight` counts among queues of one priority."""

    quota: Figure[Amount] | None = declared(
        "What is guaranteed.",
        None,
        default_text="from the quota of the team or department",
        example=4,
        schema=_FIGURE,
    )
    limit: Figure[Amount] | None = declared(
        "The most in all, quota included.",
        None,
        default_text="from `quota` and `borrow`",
        example=UNLIMITED.value,
        schema=_FIGURE,
    )
    over_quota_weight: int | None = declared(
        "Its share of what is free beyond all quotas.",
        None,
        default_text="from `weight`",
        example=2,
        maximum=1_000_000,
    )


def _reader(parse: Callable[[str], Amount]) -> Callable[[Section, str], Share[Amount]]:
    """Reads the figures of one resource: amounts in the units of quotas, or `unlimited`."""

    def read_share(above: Section, key: str) -> Share[Amount]:
        section = above.section(key)
        quota, limit = _figure(section, "quota", parse), _figure(section, "limit", parse)
        return read(Share, section, quota=quota, limit=limit) or Share()

    return read_share


def _figure(section: Section, key: str, parse: Callable[[str], Amount]) -> Figure[Amount] | None:
    value = section.get(key)
    if value == UNLIMITED.value:
        return UNLIMITED
    return section.parsed(key, parse, noun=f"an amount or `{UNLIMITED.value}`", fix=_fix(value))


def _fix(value: object) -> str:
    if value in (-1, "-1"):
        return f"write `{UNLIMITED.value}`, which is what KAI means by -1."
    return f"write an amount such as 4 (GPUs, in parts 0.5; CPU 500m; memory 16Gi), or `{UNLIMITED.value}`."


def _parse_gpus(text: str) -> MilliGpus:
    """GPUs and parts of them, to a thousandth."""
    thousandths = parse_quantity(text) * 1000
    if thousandths.denominator != 1:
        raise ValueError(f"{text!r} is finer than a thousandth of a GPU")
    return MilliGpus(int(thousandths))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The three resources that KAI counts."""

    gpu: Share[MilliGpus] = declared("GPUs of the queue.", Share(), read=_reader(_parse_gpus))
    cpu: Share[Millicores] = declared("CPU of the queue.", Share(), read=_reader(parse_cpu))
    memory: Share[Bytes] = declared("Memory of the queue.", Share(), read=_reader(parse_memory))


class QueueSpec(Spec):
    """The spec of a Queue, without what Muster writes from the tree."""

    KIND = "scheduling.run.ai/v2 Queue"
    ADDED: ClassVar[Mapping[str, Schema]] = {
        "parentQueue": {
            "refused": ("follows from the tree of departments", "remove it, and move the team in the tree")
        },
        "resources": {
            "refused": (
                "follows from quota, borrow and weight",
                "write what differs here: `gpu: {limit: 8}`, and so `cpu` and `memory`",
            )
        },
        "priority": {**ORDER, "default": DEFAULT_QUEUE_PRIORITY},
        "preemptMinRuntime": _RUNTIME,
        "reclaimMinRuntime": _RUNTIME,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """`spec` is the rest of the Queue, in KAI's words. `shares` are for the one Queue of a stack with one
    shard, `pools` for each pool's Queue. With `exists=False` (`queue: none`) those below a department have
    the parent that its Queue would have.
    """

    queue: str | None = declared(
        "The name of its Queue; `none` for a department without one, whose teams are a level higher. Where "
        "each pool has a Queue, the pool's name is appended.",
        None,
        default_text="its name",
        example="team.a",
    )
    exists: bool = field(default=True, metadata={"key": "queue"})
    shares: Shares = declared("", Shares(), is_inline=True)
    pools: Mapping[str, Shares] = declared(
        "The figures of each pool's queue, where each pool has one.",
        {},
        example={"l4": {"gpu": {"limit": 8}}},
    )
    # Last: what no key above has is KAI's own.
    spec: QueueSpec = declared("", {}, factory=QueueSpec, is_inline=True)

    @property
    def priority(self) -> int:
        """A queue with a higher one gets capacity over all quotas first and is reclaimed from last; it does
        not affect jobs.
        """
        priority: int = self.spec.get("priority", DEFAULT_QUEUE_PRIORITY)
        return priority

    @staticmethod
    def complete(_section: Section, values: dict[str, Any]) -> dict[str, Any]:
        exists = values["queue"] != _NONE
        return {**values, "queue": values["queue"] if exists else None, "exists": exists}

    def of(self, pool: str | None) -> Shares:
        """The shares of a pool's Queue; None: of the only Queue."""
        return self.shares if pool is None else self.pools.get(pool, Shares())
