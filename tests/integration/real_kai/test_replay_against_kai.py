"""A replay decides as the real KAI does: in random worlds the same gangs run after each arrival and each end.

Jobs are played first. Then what happens outside of KAI, at the times that the player found, is written to an
API server step by step: a gang arrives, or one ends. After each step KAI gets the time to settle. A world is
compared until its first difference, because one carries on. MUSTER_KAI_WORLDS is how many worlds.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from muster.live.snapshot.kai import GROUP_ANNOTATION
from muster.preview.whatif.kai import to_config
from muster.replay.kai_player import PROGRAM, KaiCourse, KaiEntry, Shard, play_course
from muster.replay.player import Playback
from tests.integration.real_kai.cluster import KAI, Cluster, Scheduling, running_cluster, scheduler_flags
from tests.integration.real_kai.random_worlds import RandomWorld, priority_classes, random_world
from tests.waiting import eventually

_WORLDS: Final = int(os.environ.get("MUSTER_KAI_WORLDS", "6"))
_FIRST: Final = int(os.environ.get("MUSTER_KAI_FIRST_WORLD", "0"))
_AT_ONCE: Final = 3
_START: Final = 1_764_000_000
_APART: Final = 60
# KAI has these sessions before the pods of an evicted gang are there again, as with the player.
_SESSIONS_BEFORE_RETURN: Final = 2


@dataclass(slots=True)
class Played:
    """A world whose gangs all arrive one after another, and what the player decided. `pods`: by gang."""

    drawn: RandomWorld
    playback: Playback
    groups: Mapping[str, dict[str, Any]]
    pods: Mapping[str, Sequence[dict[str, Any]]]

    @classmethod
    def of(cls, number: int, program: Path) -> Played:
        drawn = random_world(number)
        dice = random.Random(number)
        pods: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for pod in drawn.pods:
            pod["spec"].pop("nodeName", None)
            pods[pod["metadata"]["annotations"][GROUP_ANNOTATION]].append(pod)
        groups = {each["metadata"]["name"]: each for each in drawn.groups}
        entries = [
            KaiEntry(
                label=name,
                group=_created(group, _START + index * _APART),
                pods=[(1, pod) for pod in pods[name]],
                # No end is at the time of an arrival.
                seconds=dice.randint(2, 7) * _APART + dice.randint(1, _APART - 1),
            )
            for index, (name, group) in enumerate(groups.items())
        ]
        course = KaiCourse(
            shards=[
                Shard(
                    args=scheduler_flags(drawn.name), config=to_config({"placementStrategy": drawn.placement})
                )
            ],
            queues=drawn.queues,
            nodes=drawn.nodes,
            priority_classes=priority_classes(),
            flavors={each["metadata"]["name"]: "gpu" for each in drawn.nodes},
        )
        return cls(drawn, play_course(course, entries, program=program), groups, pods)

    def steps(self) -> Iterator[tuple[int, list[str], list[str]]]:
        """(second, gangs that arrive, gangs that end)."""
        arriving = {_START + index * _APART: [name] for index, name in enumerate(self.groups)}
        ending: defaultdict[int, list[str]] = defaultdict(list)
        for name, runs in self.playback.runs.items():
            for run in runs:
                if run.end is not None and not run.is_evicted:
                    ending[int(run.end)].append(name)
        for second in sorted({*arriving, *ending}):
            yield second, arriving.get(second, []), ending[second]

    def running(self, second: int) -> set[str]:
        return {
            name
            for name, runs in self.playback.runs.items()
            if any(run.start <= second and (run.end is None or run.end > second) for run in runs)
        }


def _created(group: dict[str, Any], second: int) -> dict[str, Any]:
    at = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {**group, "metadata": {**group["metadata"], "creationTimestamp": at}}


@dataclass(slots=True)
class Owner:
    """Creates the gangs that have arrived, and the pods that KAI has evicted."""

    cluster: Cluster
    played: Played
    scheduler: Scheduling
    active: set[str] = field(default_factory=set)
    # Since which session a pod is missing.
    _missing: dict[str, int] = field(default_factory=dict)

    def arrive(self, name: str) -> None:
        for pod in self.played.pods[name]:
            self.cluster.plane.call("POST", self._pods, pod)
        self.cluster.plane.call("POST", self._groups, self.played.groups[name])
        self.active.add(name)

    def end(self, name: str) -> None:
        self.active.discard(name)
        self.cluster.plane.call("DELETE", f"{self._groups}/{name}")
        for pod in self.played.pods[name]:
            if pod["metadata"]["name"] in self.present():
                path = f"{self._pods}/{pod['metadata']['name']}?gracePeriodSeconds=0"
                self.cluster.plane.call("DELETE", path)

    def return_evicted(self) -> None:
        present, sessions = self.present(), self.scheduler.sessions
        for pod in (pod for name in self.active for pod in self.played.pods[name]):
            name = pod["metadata"]["name"]
            if name in present:
                self._missing.pop(name, None)
            elif sessions - self._missing.setdefault(name, sessions) > _SESSIONS_BEFORE_RETURN:
                # No garbage collector runs here, and KAI takes the request of the evicted pod for this one's.
                with suppress(OSError):
                    self.cluster.plane.call("DELETE", f"{self._bindings}/{name}")
                self.cluster.plane.call("POST", self._pods, pod)

    def running(self) -> set[str]:
        """Gangs with as many pods on nodes as they need."""
        pods = self.present().values()
        bound = Counter(
            each["metadata"]["annotations"][GROUP_ANNOTATION] for each in pods if "nodeName" in each["spec"]
        )
        groups = self.played.groups
        return {name for name in self.active if bound[name] >= groups[name]["spec"]["minMember"]}

    def present(self) -> dict[str, dict[str, Any]]:
        found = self.cluster.items("/api/v1/pods", self.played.drawn.name)
        return {each["metadata"]["name"]: each for each in found}

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.played.drawn.name}/pods"

    @property
    def _bindings(self) -> str:
        return f"{KAI}/v1alpha2/namespaces/{self.played.drawn.name}/bindrequests"

    @property
    def _groups(self) -> str:
        return f"{KAI}/v2alpha2/namespaces/{self.played.drawn.name}/podgroups"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("kai-replays")) as found:
        yield found


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """`fates`: the gangs after each step. `differing`: the first step that differs, and the gangs that run
    there with the player and with KAI.
    """

    world: str
    steps: int
    fates: int
    preemptions: int
    differing: tuple[int, set[str], set[str]] | None = None

    @property
    def unlike(self) -> int:
        return len(self.differing[1] ^ self.differing[2]) if self.differing else 0


def test_gangs_start_and_end_as_with_the_real_kai(cluster: Cluster) -> None:
    program = Path(cluster.programs.program(PROGRAM))
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        numbers = range(_FIRST, _FIRST + _WORLDS)
        compared = [*pool.map(lambda number: _compare(cluster, number, program), numbers)]
    fates, unlike = sum(each.fates for each in compared), sum(each.unlike for each in compared)
    print(
        f"{len(compared)} worlds, {sum(each.differing is None for each in compared)} equal to the end; "
        f"{sum(each.steps for each in compared)} steps; {fates - unlike} of {fates} fates equal; "
        f"{sum(each.preemptions for each in compared)} evictions of gangs"
    )
    for each in compared:
        if each.differing:
            print(f"{each.world}: {each.differing}")
    assert sum(each.preemptions for each in compared) >= _WORLDS / 3
    assert unlike <= max(2, fates / 100)


def _compare(cluster: Cluster, number: int, program: Path) -> Compared:
    played = Played.of(number, program)
    _create(cluster, played.drawn)
    preemptions, steps, fates = played.playback.preemptions, 0, 0
    with cluster.scheduler(played.drawn.name, played.drawn.placement) as scheduler:
        owner = Owner(cluster, played, scheduler)
        for second, arriving, ending in played.steps():
            for name in ending:
                owner.end(name)
            for name in arriving:
                owner.arrive(name)
            scheduler.settle(owner.return_evicted)
            steps, fates = steps + 1, fates + len(owner.active)
            expected, real = played.running(second), owner.running()
            if expected != real:
                differing = steps, expected, real
                return Compared(
                    world=played.drawn.name,
                    steps=steps,
                    fates=fates,
                    preemptions=preemptions,
                    differing=differing,
                )
    return Compared(world=played.drawn.name, steps=steps, fates=fates, preemptions=preemptions)


def _create(cluster: Cluster, drawn: RandomWorld) -> None:
    """Without work, and each queue in a second of its own: KAI orders equal ones by their age."""
    cluster.create(replace(drawn, queues=[], groups=[], pods=[]))
    second = 0
    for queue in drawn.queues:
        eventually("the next second", partial(_is_later, second))
        second = int(time.time())
        cluster.plane.call("POST", f"{KAI}/v2/queues", queue)


def _is_later(second: int) -> bool:
    return int(time.time()) > second
