"""What runs when a forecast begins holds quota in the flavors that it was given."""

from dataclasses import replace

from muster.live.fields import items, texts
from muster.model import names
from muster.model.queues import Allowance
from muster.model.stack import Scheduler
from muster.preview.replay.both import queues_of
from muster.replay.assumptions import Assumptions
from muster.replay.moment import Moment, at_moment
from muster.replay.player import Entry
from muster.replay.recording import Header, Job, PodSet, Recording, Run
from muster.replay.side import to_side
from tests.unit.model.model_stacks import gpus, two_teams

_STACK = two_teams(Allowance(quota={"h100": gpus(16), "l4": gpus(4)}))
_NOW = 5000.0
_HEAD = PodSet(name="head", count=1, requests={"cpu": 1000})
_WORKERS = PodSet(name="workers", count=2, requests={"cpu": 2000, names.GPU_RESOURCE: 8})
_RUNS = Job(
    id="runs",
    team="team-a",
    created=1000,
    pod_sets=(_HEAD, _WORKERS),
    runs=(Run(reserved=1900, admitted=2000, flavors=("cpu", "h100")),),
)
_WAITS = Job(id="waits", team="team-a", created=1500, pod_sets=(_WORKERS,))
_LATER = Job(id="later", team="team-a", created=6000, pod_sets=(_WORKERS,))


def _entries(*jobs: Job, provisioning: int = 0) -> dict[str, Entry]:
    """Each job as it is played from `_NOW`, where it is drawn to run for 9000 s. Nodes of h100 take
    `provisioning` seconds.
    """
    header = Header(scheduler=Scheduler.KUEUE, start=0, end=_NOW, source="test")
    drawn = tuple(replace(job, runs=(Run(reserved=0, admitted=0, ended=9000),)) for job in jobs)
    assumed = Assumptions(provisioning={"h100": provisioning} if provisioning else {})
    recording = Recording(header=header, jobs=drawn)
    side = to_side(queues_of(_STACK), recording, assumed, now=_moment(*jobs))
    assert side.left_out == {}
    return {job.key: entry for job, entry in zip(side.jobs, side.entries, strict=True)}


def _moment(*jobs: Job) -> Moment:
    return at_moment(
        Recording(header=Header(scheduler=Scheduler.KUEUE, start=0, end=_NOW, source="test"), jobs=jobs), _NOW
    )


def test_a_running_job_holds_each_flavor_for_the_pods_that_fit_it() -> None:
    entry = _entries(_RUNS)["team-a/runs"]
    assert (entry.at, entry.ran, entry.seconds) == (5000, 3000, 9000)
    assigned = items(entry.workload, "status", "admission", "podSetAssignments")
    assert [texts(each, "flavors") for each in assigned] == [
        {"cpu": "cpu"},
        {"cpu": "h100", names.GPU_RESOURCE: "h100"},
    ]
    assert texts(assigned[1], "resourceUsage") == {"cpu": "4000m", names.GPU_RESOURCE: "16"}


def test_a_job_that_was_admitted_with_fewer_pods_holds_as_many() -> None:
    fewer = replace(_RUNS, runs=(replace(_RUNS.runs[0], counts=(1, 1)),))
    assigned = items(_entries(fewer)["team-a/runs"].workload, "status", "admission", "podSetAssignments")
    assert texts(assigned[1], "resourceUsage")[names.GPU_RESOURCE] == "8"


def test_a_running_job_of_unknown_flavors_is_admitted_before_what_waits() -> None:
    imported = replace(_RUNS, runs=(replace(_RUNS.runs[0], flavors=()),))
    entry = _entries(imported)["team-a/runs"]
    assert "status" not in entry.workload
    assert (entry.at, entry.seconds) == (4999, 6000)


def test_a_waiting_job_keeps_its_age_and_a_later_one_arrives_later() -> None:
    found = _entries(_WAITS, _LATER)
    waits, later = found["team-a/waits"], found["team-a/later"]
    assert (waits.at, waits.workload["metadata"]["creationTimestamp"]) == (5000, "1970-01-01T00:25:00Z")
    assert later.at == 6000


def test_a_job_with_quota_waits_on_for_its_nodes_and_then_runs() -> None:
    """It has waited for 600 s."""
    held = replace(_RUNS, runs=(Run(reserved=_NOW - 600, flavors=("cpu", "h100")),))
    assert _entries(held, provisioning=900)["team-a/runs"].ran == -300
    assert _entries(held, provisioning=500)["team-a/runs"].ran == 0
    assert _entries(_RUNS, provisioning=900)["team-a/runs"].ran == 3000


def test_a_running_job_of_unknown_flavors_waits_for_no_nodes_again() -> None:
    imported = replace(_RUNS, runs=(replace(_RUNS.runs[0], flavors=()),))
    assert _entries(imported, provisioning=900)["team-a/runs"].delays == {}
