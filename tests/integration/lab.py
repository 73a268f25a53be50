"""The lab of tests that play recordings: its stack file, and jobs recorded in its pool of GPUs."""

from pathlib import Path
from typing import Any

import yaml

from muster.model import names
from muster.replay.recording import End, Job, PodSet, Run


def write_stack(path: Path, teams: dict[str, Any] | None = None, *, nodes: int = 8, **settings: Any) -> Path:
    """`teams` of one department, on `nodes` of one GPU each; `settings` are keys of the stack."""
    config = {
        "cluster": {"provider": "existing", "name": "lab", "context": "lab"},
        "pools": {
            "cpu": {"machine": "local-cpu", "minNodes": 1, "maxNodes": 1},
            "l4": {"accelerator": "nvidia-l4", "machine": "local-l4", "maxNodes": nodes},
        },
        "priorities": {"prod": 1000, "dev": 100},
        "departments": {"research": {"teams": teams}},
        **settings,
    }
    path.write_text(yaml.safe_dump({"config": {f"muster:{key}": value for key, value in config.items()}}))
    return path


def recorded_job(
    name: str, team: str, run: Run | None, *, created: float, gpus: int, pods: int = 1, **more: Any
) -> Job:
    """One that ended with its run, or runs, or waits. `gpus`: of each of its pods. `more`: fields of Job."""
    pod_set = PodSet(name="main", count=pods, requests={names.GPU_RESOURCE: gpus}, pools=("l4",))
    left = run.ended if run else None
    fields: dict[str, Any] = {
        "priority": 100,
        "priority_class": "dev",
        "left": left,
        "outcome": End.FINISHED if left else None,
        "runs": (run,) if run else (),
        **more,
    }
    return Job(id=name, team=team, created=created, pod_sets=(pod_set,), **fields)


def run_of(start: float, seconds: float | None, **more: Any) -> Run:
    """`seconds`: how long it ran, None where it still runs."""
    ended = None if seconds is None else start + seconds
    fields = {"reserved": start, "end": End.FINISHED if ended else None, **more}
    return Run(admitted=start, ended=ended, **fields)
