"""A SchedulingShard: the settings of one scheduler, all of them with KAI's own names, because KAI's
documentation describes them. Not responsible for the number of shards (partition.py).
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from muster.model.definitions import DURATION, Schema, Spec

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
