"""A recording of a real Kueue replays as it happened: `muster record` watches, then the player plays.

`python -m bench.recorded` measures more jobs, and the error of their waits.
"""

from __future__ import annotations

from pathlib import Path

from bench.recorded import ASSETS, PROGRAMS, compare, kueue, plan, record, stack
from muster.replay.player import PROGRAM
from tests import built

_JOBS = 8


def test_a_recording_of_a_real_kueue_replays_in_its_order(tmp_path: Path) -> None:
    program = built.program(PROGRAM) or built.absent(PROGRAM, build=f"muster local build --only {PROGRAM}")
    programs = built.programs(PROGRAMS, ASSETS)
    described = stack()
    jobs = plan(_JOBS, seed=1, longest=24, described=described, program=program)
    with kueue(described, programs, tmp_path) as plane:
        recording = record(plane, jobs, described, tmp_path / "recording.jsonl.gz")
    found = compare(recording, described, program=program)
    print(found)
    assert len(recording.jobs) == _JOBS
    assert found.starts >= _JOBS
    assert found.order >= 0.99
