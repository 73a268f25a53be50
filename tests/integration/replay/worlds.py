"""Small random worlds: trees of queues with all kinds of limits, and jobs that ask for more than there is."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from muster.live.snapshot import PodSet, State, Workload
from muster.model import names
from muster.replay import stored
from muster.replay.player import Entry, World

_START: Final = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
_SPAN: Final = 1_000_000
_API: Final = {"apiVersion": names.KUEUE_API_VERSION}
FLAVORS: Final = ("one", "two")


@dataclass(frozen=True, slots=True)
class RandomWorld:
    """Its names begin with `wNUMBER`, so that several are in one cluster without knowing of each other."""

    number: int
    objects: Sequence[dict[str, Any]]
    workloads: Sequence[Workload]
    entries: Sequence[Entry]

    @property
    def world(self) -> World:
        return World(objects=[*flavors(), *self.objects])


def flavors() -> list[dict[str, Any]]:
    return [{**_API, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": {}} for name in FLAVORS]


def random_world(number: int, *, jobs: int) -> RandomWorld:
    dice = random.Random(number)
    teams = [f"w{number}-{index}" for index in range(dice.randint(2, 4))]
    nested = dice.random() < 0.3
    cohorts = [_cohort(f"w{number}", None)] + ([_cohort(f"w{number}-deep", f"w{number}")] if nested else [])
    homes = [each["metadata"]["name"] for each in cohorts]
    kinds = FLAVORS if dice.random() < 0.4 else FLAVORS[:1]
    objects = [*cohorts, *(each for team in teams for each in _queue(dice, team, dice.choice(homes), kinds))]
    created = sorted(dice.sample(range(0, _SPAN, 10), jobs))
    workloads = [_workload(dice, dice.choice(teams), index, at) for index, at in enumerate(created)]
    entries = [
        Entry(workload=stored.pending(each), seconds=dice.randint(_SPAN // 10, _SPAN)) for each in workloads
    ]
    return RandomWorld(number, objects, workloads, entries)


def _cohort(name: str, parent: str | None) -> dict[str, Any]:
    spec = {} if parent is None else {"parentName": parent}
    return {**_API, "kind": "Cohort", "metadata": {"name": name}, "spec": spec}


def _queue(dice: random.Random, team: str, cohort: str, kinds: Sequence[str]) -> list[dict[str, Any]]:
    quotas = [{"name": kind, "resources": [_quota(dice)]} for kind in kinds]
    spec = {
        "cohortName": cohort,
        "queueingStrategy": dice.choice(("BestEffortFIFO", "BestEffortFIFO", "StrictFIFO")),
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": team}},
        "resourceGroups": [{"coveredResources": [names.GPU_RESOURCE], "flavors": quotas}],
        "preemption": {
            "reclaimWithinCohort": dice.choice(("Any", "Any", "Any", "LowerPriority", "Never")),
            "withinClusterQueue": dice.choice(
                ("LowerPriority", "LowerPriority", "LowerOrNewerEqualPriority", "Never")
            ),
        },
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}},
        {**_API, "kind": "ClusterQueue", "metadata": {"name": team}, "spec": spec},
        {
            **_API,
            "kind": "LocalQueue",
            "metadata": {"name": "default", "namespace": team},
            "spec": {"clusterQueue": team},
        },
    ]


def _quota(dice: random.Random) -> dict[str, Any]:
    quota: dict[str, Any] = {"name": names.GPU_RESOURCE, "nominalQuota": str(dice.randint(1, 6))}
    if dice.random() < 0.3:
        quota["borrowingLimit"] = str(dice.randint(0, 4))
    if dice.random() < 0.2:
        quota["lendingLimit"] = str(dice.randint(0, int(quota["nominalQuota"])))
    return quota


def _workload(dice: random.Random, team: str, index: int, at: int) -> Workload:
    pods = PodSet(name="main", count=1, requests={names.GPU_RESOURCE: dice.choice((1, 2, 2, 3, 4, 5))})
    return Workload(
        namespace=team,
        name=f"job-{index}",
        queue="default",
        created=datetime.fromtimestamp(_START + at, UTC),
        pod_sets=(pods,),
        state=State.PENDING,
        priority=dice.choice((0, 0, 10, 20, 30)),
    )
