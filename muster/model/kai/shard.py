"""A SchedulingShard: the settings of one scheduler, all of them with KAI's own names, because KAI's
documentation describes them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, Final

from muster.model.definitions import DURATION, Schema, Spec
from muster.model.keys import declared
from muster.model.priorities import Priority

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


def effective(named: Iterable[Priority]) -> list[Priority]:
    """The stack's priorities and those of KAI's own that it does not name, highest first."""
    said = list(named)
    taken = {priority.name for priority in said}
    own = [Priority(value, name) for name, value in OWN_CLASSES.items() if name not in taken]
    return sorted([*said, *own], reverse=True)


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
