"""A recording of a real Kueue replays as it happened: `muster record` watches, then the player plays.

`python -m bench.recorded` measures more jobs.
"""

from pathlib import Path
from typing import Final

from bench.job_actors import PlannedJob
from bench.recorded import ASSETS, PROGRAMS, compare, kueue, record, stack
from muster.replay.player import PROGRAM
from tests import built

# Three teams with four GPUs each. On a busy machine Kueue may decide a second or two late: what happens is
# further apart.
_LATE: Final = 2.0
_JOBS = [
    PlannedJob(name="borrower", team="vision", at=0, gpus=8, seconds=20, priority="dev"),
    PlannedJob(name="short", team="speech", at=4, gpus=4, seconds=10, priority="prod"),
    PlannedJob(name="owner", team="robotics", at=8, gpus=4, seconds=8, priority="dev"),
    PlannedJob(name="late", team="vision", at=22, gpus=4, seconds=6, priority="dev"),
    PlannedJob(name="urgent", team="speech", at=25, gpus=4, seconds=4, priority="prod"),
]


def test_a_recording_of_a_real_kueue_replays_in_its_order(tmp_path: Path) -> None:
    program = built.program(PROGRAM) or built.absent(PROGRAM, build=f"muster local build --only {PROGRAM}")
    programs, described = built.programs(PROGRAMS, ASSETS), stack(4)
    with kueue(described, programs, tmp_path) as plane:
        recording = record(plane, _JOBS, described, tmp_path / "recording.jsonl.gz")
    found = compare(recording, described, program=program)
    assert len(recording.jobs) == len(_JOBS)
    assert found.preemptions >= 1
    assert found.order >= 0.99, found
    assert found.waits
    assert all(error < _LATE for error, _ in found.waits), found
    assert all(job.arrived is not None for job in recording.jobs)
