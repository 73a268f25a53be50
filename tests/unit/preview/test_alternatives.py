"""What else a job could ask for before it is submitted, and what of it starts sooner."""

from dataclasses import replace
from pathlib import Path

import yaml

from muster.model import names
from muster.model.queues import Allowance
from muster.preview.replay.forecast_text import (
    Alternative,
    Alternatives,
    Prediction,
    Submitted,
    find_sooner,
    format_forecast,
    load_submitted,
    to_json,
)
from muster.replay.figures import NEVER
from muster.replay.forecast import Forecast, Nodes
from muster.replay.recording import Job
from tests.unit.model.model_stacks import gpus, two_teams
from tests.unit.preview.preview_world import forecast

_STACK = two_teams(Allowance(quota={"l4": gpus(8), "h100": gpus(32)}))


def _submitted(
    tmp_path: Path, *, pods: int, pool: str = "", priority: str = "dev", each: int = 1
) -> Submitted:
    resources = {"requests": {"cpu": "1"}, "limits": {names.GPU_RESOURCE: str(each)}}
    spec = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "i", "resources": resources}],
        **({"nodeSelector": {names.POOL_LABEL: pool}} if pool else {}),
    }
    labels = {names.QUEUE_LABEL: "default", names.PRIORITY_LABEL: priority}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "labels": labels},
        "spec": {"parallelism": pods, "template": {"spec": spec}},
    }
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    return load_submitted(_STACK, file, "team-a", at=0)


def _changes(found: Submitted) -> dict[str, Job]:
    return {each.change: each.job for each in found.alternatives}


def test_a_job_of_one_pool_could_have_half_the_workers_another_pool_or_a_higher_priority(
    tmp_path: Path,
) -> None:
    found = _changes(_submitted(tmp_path, pods=4, pool="l4"))
    assert [*found] == [
        "half the workers (2 pods, 2 GPUs)",
        "twice the workers (8 pods, 8 GPUs)",
        "pool h100",
        "priority prod",
    ]
    assert found["half the workers (2 pods, 2 GPUs)"].devices == 2
    assert found["pool h100"].pod_sets[0].pools == ("h100",)
    assert found["priority prod"].priority_class == "prod"


def test_a_job_of_any_pool_has_no_other_pool(tmp_path: Path) -> None:
    assert not [each for each in _changes(_submitted(tmp_path, pods=4)) if each.startswith("pool")]


def test_what_fits_no_pool_is_no_alternative(tmp_path: Path) -> None:
    """Eight GPUs a pod fit h100 alone, whose quota is four such pods."""
    found = _changes(_submitted(tmp_path, pods=4, pool="h100", each=8, priority="prod"))
    assert [*found] == ["half the workers (2 pods, 16 GPUs)"]


def _forecast(*starts: float) -> Forecast:
    ordered = sorted(starts)
    return forecast(
        earliest=ordered[0],
        median=ordered[len(ordered) // 2],
        latest=ordered[-1],
        starts=starts,
        runs=len(starts),
        unstarted=starts.count(NEVER),
    )


def _tried(tmp_path: Path, own: Forecast, **starts: tuple[float, ...]) -> Alternatives:
    job = _submitted(tmp_path, pods=1).job

    def predict(found: Job, runs: int) -> Forecast:
        return _forecast(*starts[found.name][:runs])

    return find_sooner(own, [Alternative(name, replace(job, name=name)) for name in starts], predict)


def test_only_what_starts_sooner_in_most_futures_is_reported_the_soonest_first(tmp_path: Path) -> None:
    own = _forecast(*[3600.0] * 12)
    found = _tried(
        tmp_path,
        own,
        later=(7200.0,) * 12,
        sooner=(1800.0,) * 11 + (NEVER,),
        half=(10.0,) * 6 + (7200.0,) * 6,
        soonest=(0.0,) * 12,
    )
    assert found.tried == ("later", "sooner", "half", "soonest")
    assert [(each.change, each.futures) for each in found.sooner] == [("soonest", 12), ("sooner", 11)]
    shown = format_forecast(Prediction(own, found))
    assert "What would start sooner:\n  soonest: at once\n    sooner in 12 of 12 futures\n" in shown
    assert "  not sooner: later, half\n" in shown
    written = to_json(Prediction(own, found))["alternatives"]
    assert [(each["change"], each["sooner_in"], each["latest"]) for each in written["sooner"]] == [
        ("soonest", 12, 0.0),
        ("sooner", 11, None),
    ]


def test_nothing_is_tried_for_a_job_that_starts_at_once(tmp_path: Path) -> None:
    assert _tried(tmp_path, _forecast(0.0, 0.0), sooner=(0.0, 0.0)).tried == ()


def test_the_text_names_what_was_tried_in_vain(tmp_path: Path) -> None:
    own = _forecast(10.0, 10.0)
    shown = format_forecast(Prediction(own, _tried(tmp_path, own, later=(20.0, 20.0))))
    assert "Nothing that was tried starts sooner: later\n" in shown


def test_the_text_says_how_much_of_the_wait_is_for_nodes() -> None:
    recorded, given = Nodes(pool="h100", low=240.0, high=540.0), Nodes(pool="l4", low=180.0, high=180.0)
    shown = format_forecast(Prediction(replace(_forecast(900.0, 960.0), nodes=(recorded, given))))
    assert "\n  of this, nodes of h100 took 4 min to 9 min in the recording\n" in shown
    assert "\n  of this, nodes of l4 take 3 min\n" in shown
