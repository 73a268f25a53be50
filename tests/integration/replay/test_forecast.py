"""`muster why --replay`: when a waiting job starts, by Kueue's scheduler in many drawn futures."""

from pathlib import Path

import pytest
import yaml

from muster.cli import main
from muster.model import names
from muster.model.stack import Scheduler
from muster.replay.recording import Header, Job, Recording
from muster.replay.recording_file import write_recording
from tests.integration.lab import recorded_job, run_of, write_stack
from tests.integration.replay.why import why

pytestmark = pytest.mark.usefixtures("program")
_START = 1_764_000_000.0
_HOUR = 3600.0
_NOW = 30 * _HOUR


def _job(
    name: str, *, at: float, gpus: int, priority: str = "dev", seconds: float | None = None, nodes: float = 0
) -> Job:
    """Without `seconds` it has not started; a job that would run beyond the recording still runs. It held
    quota for `nodes` seconds before it was admitted.
    """
    created = _START + at
    run = None
    if seconds is not None:
        ran = None if at + seconds > _NOW else seconds
        run = run_of(created, ran, reserved=created - nodes, flavors=("l4",) if nodes else ())
    level = {"prod": 1000, "dev": 100}[priority]
    return recorded_job(
        name, "vision", run, created=created, gpus=gpus, priority=level, priority_class=priority
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return _world(tmp_path_factory.mktemp("forecast"))


def _world(folder: Path, *, nodes: float = 0.0) -> tuple[Path, Path]:
    """Jobs of all 4 GPUs that take two hours. At the end of the recording one has run for an hour, and two
    wait; for a day before, nothing had come but the first two dozen, whose nodes took `nodes` seconds.
    """
    write_stack(folder / "stack.yaml", {"vision": {"quota": {"l4": 4}}}, nodes=4)
    jobs = [_job(f"past-{index:02}", at=index, gpus=0, seconds=2 * _HOUR, nodes=nodes) for index in range(24)]
    jobs.append(_job("running", at=_NOW - _HOUR, gpus=4, seconds=2 * _HOUR))
    jobs += [_job("first", at=_NOW - 20, gpus=4), _job("second", at=_NOW - 10, gpus=4)]
    header = Header(scheduler=Scheduler.KUEUE, start=_START, end=_START + _NOW, source="test")
    write_recording(folder / "month.jsonl", Recording(header=header, jobs=tuple(jobs)))
    return folder / "stack.yaml", folder / "month.jsonl"


def test_a_waiting_job_starts_when_what_runs_has_ended(world: tuple[Path, Path]) -> None:
    found = why(world, "vision/first")
    assert found["earliest"] == pytest.approx(_HOUR, abs=5)
    assert found["earliest"] == found["latest"]
    assert (found["place"], found["waiting"], found["ahead"]) == (1, 2, [])
    assert found["ends"] == [{"team": "vision", "priority": "dev", "jobs": 1.0, "gpus": 4.0}]


def test_the_job_behind_it_waits_for_both(world: tuple[Path, Path]) -> None:
    found = why(world, "vision/second")
    assert found["median"] == pytest.approx(3 * _HOUR, abs=10)
    assert found["place"] == 2
    assert found["ahead"] == [{"team": "vision", "priority": "dev", "jobs": 1.0, "gpus": 4.0}]


def test_a_job_starts_when_its_nodes_are_there_as_late_as_in_the_recording(
    world: tuple[Path, Path], tmp_path: Path
) -> None:
    """Nodes took ten minutes. The second job waits for those of the first, and for its own."""
    late = _world(tmp_path, nodes=600.0)
    found = why(late, "vision/first")
    assert found["median"] == pytest.approx(_HOUR + 600, abs=5)
    assert found["nodes"] == [{"pool": "l4", "low": 600.0, "high": 600.0}]
    assert any("Nodes of l4 are there after a time drawn" in each for each in found["assumptions"])
    assert why(late, "vision/second")["median"] == pytest.approx(3 * _HOUR + 1200, abs=10)
    assert why(late, "vision/first", "--provisioning", "off") == {**why(world, "vision/first")}
    given = why(world, "vision/first", "--provisioning", "l4=30m")
    assert given["median"] == pytest.approx(1.5 * _HOUR, abs=5)


def test_the_same_seed_gives_the_same_answer(world: tuple[Path, Path]) -> None:
    assert why(world, "vision/second", "--seed", "7") == why(world, "vision/second", "--seed", "7")


def _file(folder: Path, *, priority: str) -> Path:
    """A job of four pods with a GPU each."""
    resources = {"requests": {"cpu": "1"}, "limits": {names.GPU_RESOURCE: "1"}}
    container = {"name": "main", "image": "i", "resources": resources}
    labels = {names.QUEUE_LABEL: "default", names.PRIORITY_LABEL: priority}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "labels": labels},
        "spec": {
            "parallelism": 4,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    return file


def test_an_urgent_job_that_is_not_submitted_starts_at_once_and_preempts(
    world: tuple[Path, Path], tmp_path: Path
) -> None:
    found = why(world, "-f", str(_file(tmp_path, priority="prod")), "--team", "vision")
    assert (found["earliest"], found["latest"], found["place"]) == (0, 0, 1)
    assert found["preempts"] == [{"team": "vision", "priority": "dev", "jobs": 1.0, "gpus": 4.0}]
    assert found["alternatives"] == {"tried": [], "sooner": []}


def test_a_job_that_would_wait_could_start_sooner_at_a_higher_priority(
    world: tuple[Path, Path], tmp_path: Path
) -> None:
    found = why(world, "-f", str(_file(tmp_path, priority="dev")), "--team", "vision")
    assert (found["place"], found["median"]) == (3, pytest.approx(5 * _HOUR, abs=20))
    assert len(found["alternatives"]["tried"]) == 2
    [urgent] = found["alternatives"]["sooner"]
    assert (urgent["change"], urgent["latest"], urgent["sooner_in"]) == ("priority prod", 0, 10)
    assert urgent["preempts"] == [{"team": "vision", "priority": "dev", "jobs": 1.0, "gpus": 4.0}]


def test_all_jobs_that_wait_are_forecast_in_the_same_futures(world: tuple[Path, Path]) -> None:
    each = [why(world, "vision/first"), why(world, "vision/second")]
    found = why(world, "--all")
    assert [{**one, "assumptions": found["assumptions"]} for one in found["forecasts"]] == each
    assert found["left_out"] == {}


def test_the_table_has_a_line_for_each_job_that_waits(
    world: tuple[Path, Path], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    stack, recording = world
    assert main(["why", "--all", "--stack", str(stack), "--replay", str(recording), "--runs", "10"]) == 0
    shown = capfdbinary.readouterr().out.decode()
    assert ": 2 jobs waiting\n" in shown
    assert "job            priority  GPUs  place   starts (80 %)\n" in shown
    assert "vision/second  dev       4     2 of 2  in 3.0 h\n" in shown


def test_an_unknown_job_is_refused_with_those_that_wait(
    world: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    stack, recording = world
    assert main(["why", "vision/gone", "--stack", str(stack), "--replay", str(recording)]) == 2
    assert "vision/first" in capsys.readouterr().err


def test_the_text_names_the_start_the_place_and_the_assumptions(
    world: tuple[Path, Path], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    stack, recording = world
    asked = ["why", "vision/second", "--stack", str(stack), "--replay", str(recording), "--runs", "10"]
    assert main(asked) == 0
    shown = capfdbinary.readouterr().out.decode()
    assert "Starts in 3.0 h" in shown
    assert "Place  2 of 2 in its queue\nAhead of it:\n  vision dev: 1 job, 4 GPUs\n" in shown
    assert "it is an estimate" in shown
