"""Runs the actions of KAI's own scheduler over a snapshot, round after round, until nothing changes.

The program `kai-player` (muster/local/builder/programs) holds KAI 0.12.0.
"""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from muster.errors import ExitCode
from muster.local.builder import everything
from muster.replay.player import UNPLAYABLE, Manifest, Playback, PlayerError, UnplayableError, play_lines

PROGRAM: Final = "kai-player"
VERSION: Final = "0.12.0"
STALE_SECONDS: Final = 61
"""KAI gives up on a gang that lacks pods of its minimum for a minute (--default-staleness-grace-period)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One of KAI's schedulers. `args`: flags of its program. `config`: its configuration file; None is KAI's
    default.
    """

    args: Sequence[str] = ()
    config: Manifest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KaiCluster:
    """KAI's schedulers, the queues and the nodes. The objects are those of the API server."""

    shards: Sequence[Shard]
    queues: Sequence[Manifest]
    nodes: Sequence[Manifest]
    priority_classes: Sequence[Manifest] = ()
    topologies: Sequence[Manifest] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KaiWorld(KaiCluster):
    """What KAI decides by, at the moment `taken`.

    `returns`: whether an evicted pod is created again by its owner. `patience`: seconds that pass once
    nothing changes, so that work is no longer protected by a minimum runtime. `seconds` limits the whole
    run.
    """

    taken: datetime
    pod_groups: Sequence[Manifest]
    pods: Sequence[Manifest]
    returns: bool = False
    patience: int = 0
    seconds: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KaiDecision:
    """About pods of one group. `kind`: allocated, pipelined or evicted. `by`: the group for which they were
    evicted, "" for none.
    """

    round: int
    kind: str
    action: str
    group: str
    pods: tuple[str, ...]
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KaiGroup:
    """How a group stands in the end. `running`: pod -> node. `why`: KAI's reason while a pod waits."""

    running: Mapping[str, str]
    waiting: tuple[str, ...]
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KaiPlayback:
    """Groups by `namespace/name`. `is_settled` is False where the last round still changed something."""

    rounds: int
    is_settled: bool
    decisions: tuple[KaiDecision, ...]
    groups: Mapping[str, KaiGroup] = field(default_factory=dict)
    digest: str = ""


def ensure_kai_player() -> Path:
    """The program; it is built the first time, which takes some minutes."""
    return everything.ensure(programs=(PROGRAM,), assets=())[0][PROGRAM]


def play_kai(world: KaiWorld, *, program: Path) -> KaiPlayback:
    """Play the world. UnplayableError where the player cannot play it as KAI would."""
    try:
        done = subprocess.run(
            [program],
            input=json.dumps(_kai_player_document(world)),
            capture_output=True,
            text=True,
            timeout=world.seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PlayerError(
            f"KAI was not done after {world.seconds:.0f} s.",
            fix="give it more with --seconds.",
            exit_code=ExitCode.OUTSIDE,
        ) from None
    if done.returncode == UNPLAYABLE:
        raise UnplayableError(done.stderr.strip())
    if done.returncode:
        raise PlayerError(
            f"The player of KAI ended with code {done.returncode}: {done.stderr.strip()[-600:]}",
            exit_code=ExitCode.OUTSIDE,
        )
    return _read(json.loads(done.stdout))


def cluster_document(cluster: KaiCluster) -> dict[str, Any]:
    """The part of the program's input that stays during a play."""
    return {
        "shards": [{"args": list(each.args), "config": each.config} for each in cluster.shards],
        "nodes": list(cluster.nodes),
        "topologies": list(cluster.topologies),
        "priorityClasses": list(cluster.priority_classes),
        "queues": list(cluster.queues),
    }


def _kai_player_document(world: KaiWorld) -> dict[str, Any]:
    return {
        **cluster_document(world),
        "taken": world.taken.isoformat(),
        "returns": world.returns,
        "patienceSeconds": world.patience,
        "podGroups": list(world.pod_groups),
        "pods": list(world.pods),
    }


def _read(found: Mapping[str, Any]) -> KaiPlayback:
    return KaiPlayback(
        rounds=found["rounds"],
        is_settled=found["settled"],
        decisions=tuple(
            KaiDecision(
                round=each["round"],
                kind=each["kind"],
                action=each["action"],
                group=each["group"],
                pods=tuple(each["pods"]),
                by=each.get("by", ""),
            )
            for each in found["decisions"]
        ),
        groups={
            label: KaiGroup(running=each["running"], waiting=tuple(each["waiting"]), why=each.get("why", ""))
            for label, each in found["groups"].items()
        },
        digest=found["digest"],
    )


# Plays jobs through KAI's own scheduler in logical time, as player.py does through Kueue's.
# The same program plays snapshots.

PROCESSOR_SECONDS: Final = 1800
"""A thousand jobs take two minutes of a processor, and a cycle of KAI longer the more jobs wait and run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KaiCourse(KaiCluster):
    """Where jobs are played. `flavors`: node -> flavor, by which use is counted. `grace`: seconds between an
    eviction and the end of its pods. `horizon`: seconds after the first arrival when the play ends; 0 plays
    until nothing is left to happen. KAI looks again when a time of its own is over: `protected` seconds
    after work has started, and `stale` seconds after a gang has become incomplete. `processor_seconds`: the
    play is refused once the program has used so many.
    """

    flavors: Mapping[str, str]
    grace: int = 0
    horizon: int = 0
    protected: Sequence[int] = ()
    stale: int = STALE_SECONDS
    processor_seconds: int = PROCESSOR_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class KaiEntry:
    """A job to play: its PodGroup, and how many pods of which kind. Pods that name a node run there.

    It arrives `at` this second, None for that of its creation. `seconds` are those that it runs without
    interruption; without them it never ends. `ran`: those of its first run that are over when it begins.
    `delays`: flavor -> seconds that it holds nodes before they are there.
    """

    label: str
    group: Manifest
    pods: Sequence[tuple[int, Manifest]]
    seconds: int | None
    at: int | None = None
    ran: int = 0
    delays: Mapping[str, int] = field(default_factory=dict)


def play_course(course: KaiCourse, entries: Iterable[KaiEntry], *, program: Path) -> Playback:
    """Play the jobs. UnplayableError where the player cannot play them as KAI would."""
    return play_lines([program, "replay"], _document(course), map(_line, entries))


def _document(course: KaiCourse) -> dict[str, Any]:
    return {
        **cluster_document(course),
        "flavors": course.flavors,
        "graceSeconds": course.grace,
        "horizonSeconds": course.horizon,
        "protectedSeconds": list(course.protected),
        "staleSeconds": course.stale,
        "processorSeconds": course.processor_seconds,
    }


def _line(entry: KaiEntry) -> dict[str, Any]:
    return {
        "job": entry.label,
        "group": entry.group,
        "podSets": [{"count": count, "pod": pod} for count, pod in entry.pods],
        "seconds": entry.seconds,
        "at": entry.at,
        "ran": entry.ran,
        "delays": entry.delays,
    }
