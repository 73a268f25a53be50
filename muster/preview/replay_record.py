"""The part of the JSON report on a replay. Times are seconds; null is a wait that never ends."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from muster.preview.banner import plain
from muster.preview.compare.replay import ReplayDiff
from muster.replay.figures import NEVER, Figures, Waits

Record = dict[str, Any]


def replay_record(diff: ReplayDiff) -> Record:
    return {
        "sentence": plain(diff.sentence),
        "start": diff.start,
        "end": diff.end,
        "jobs": diff.played,
        "leftOut": list(diff.left_out),
        "assumptions": [*diff.assumptions, *diff.gaps],
        "base": _figures(diff.base),
        "head": _figures(diff.head),
    }


def _figures(side: Figures) -> Record:
    return {
        "gpus": side.quota,
        "waits": {
            "teams": _waits(side.teams),
            "priorities": _waits(side.priorities),
            "sizes": _waits({str(size): waits for size, waits in side.sizes.items()}),
        },
        "gpuHours": {team: asdict(hours) for team, hours in side.hours.items()},
        "preemptions": [asdict(each) | {"count": count} for each, count in side.preemptions.items()],
        "utilisation": {
            "start": side.utilisation.start,
            "stepSeconds": side.utilisation.step,
            "gpus": [round(value, 2) for value in side.utilisation.used],
        },
        "worst": [asdict(each) | {"wait": _seconds(each.wait)} for each in side.worst],
        "digest": side.digest,
    }


def _waits(found: Mapping[str, Waits]) -> Record:
    return {
        name: {"jobs": each.jobs, "never": each.never, "p50": _seconds(each.p50), "p95": _seconds(each.p95)}
        for name, each in found.items()
    }


def _seconds(wait: float) -> float | None:
    return None if wait == NEVER else wait
