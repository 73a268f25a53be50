"""Plays jobs through KAI's own scheduler in logical time, as player.py does through Kueue's.

The same program plays snapshots (kai_player.py). Responsible for the input of a replay. Not responsible for
which queues, nodes and jobs there are (muster/preview/replay/kai_side.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from muster.replay.kai_player import STALE_SECONDS, KaiCluster, cluster_document
from muster.replay.playback import Playback
from muster.replay.player import Manifest, play_lines

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
