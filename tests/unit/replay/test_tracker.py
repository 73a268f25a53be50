"""What a Workload says about its job, whichever of its states were observed."""

from datetime import datetime
from typing import Any

import pytest

from muster.replay.moment import Tracker
from muster.replay.recording import End, Ids, Job
from tests.unit.preview.snapshot_world import SECRET, workload

UID = "beef0000-0000-0000-0000-000000000000"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
OTHER = "12340000-0000-0000-0000-000000000000"


def _at(minute: int) -> float:
    return datetime.fromisoformat(_text(minute)).timestamp()


def _text(minute: int) -> str:
    return f"2026-11-21T10:{minute:02}:00Z"


def _workload(**conditions: tuple[str, int, str]) -> dict[str, Any]:
    """Conditions by type: status, minute, reason."""
    found = workload(state="admitted")
    found["metadata"]["uid"] = UID
    found["status"]["conditions"] = [
        {
            "type": kind,
            "status": status,
            "lastTransitionTime": _text(minute),
            "reason": reason,
            "message": f"Preempted to accommodate a workload (UID: {OTHER}, JobUID: x)",
        }
        for kind, (status, minute, reason) in conditions.items()
    ]
    return found


def _created(found: dict[str, Any]) -> float:
    return datetime.fromisoformat(found["metadata"]["creationTimestamp"]).timestamp()


def _tracker(*, start: int = 0) -> Tracker:
    return Tracker(ids=Ids(b"key"), start=_at(start))


def _seen(tracker: Tracker, **conditions: tuple[str, int, str]) -> Job:
    job = tracker.observe(_workload(**conditions))
    assert job is not None
    return job


def test_a_job_that_ran_at_the_start_is_dated_by_its_conditions() -> None:
    job = _seen(_tracker(start=30), QuotaReserved=("True", 1, ""), Admitted=("True", 2, ""))
    (run,) = job.runs
    assert (run.reserved, run.admitted, run.ended, run.flavors) == (_at(1), _at(2), None, ("l4",))
    assert (job.team, job.queue, job.cluster_queue, job.tie) == ("team-a", "default", "team-a", 0xBEEF)
    assert job.pod_sets[0].pools == ("l4",)
    assert job.pod_sets[0].name == "p0", "a worker group's name is the user's"
    assert SECRET not in repr(job)
    assert UID not in repr(job)


@pytest.mark.parametrize("with_names", [False, True])
def test_names_of_nodes_are_recorded_only_where_names_are(with_names: bool) -> None:
    found = _workload(QuotaReserved=("True", 1, ""))
    spec = found["spec"]["podSets"][0]["template"]["spec"]
    spec["nodeSelector"] = {"kubernetes.io/hostname": "dgx-7", "muster.dev/pool": "l4"}
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["dgx-8"]}
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
    spec["affinity"] = {
        "nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [here, zone]}]}}
    }
    job = Tracker(ids=Ids(b"key"), start=_at(0), with_names=with_names).observe(found)
    assert job is not None
    (pods,) = job.pod_sets
    assert ("dgx-7" in repr(pods), "dgx-8" in repr(pods)) == (with_names, with_names)
    assert pods.node_selector["muster.dev/pool"] == "l4"
    assert [each.values for term in pods.terms for each in term.expressions][-1] == ("a",)


def test_a_node_that_is_one_of_several_ways_leaves_every_flavor_open() -> None:
    found = _workload(QuotaReserved=("True", 1, ""))
    terms = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": ["x"]}]}
        for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
    ]
    spec = found["spec"]["podSets"][0]["template"]["spec"]
    spec["affinity"] = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}
    job = _tracker().observe(found)
    assert job is not None
    assert job.pod_sets[0].terms == ()


def test_an_eviction_ends_the_run_when_the_quota_is_free() -> None:
    tracker = _tracker()
    _seen(tracker, QuotaReserved=("True", 1, ""), Admitted=("True", 2, ""))
    taken = {"Evicted": ("True", 5, "Preempted"), "Preempted": ("True", 5, "InCohortReclamation")}
    _seen(tracker, QuotaReserved=("True", 1, ""), Admitted=("True", 2, ""), **taken)
    job = _seen(tracker, QuotaReserved=("False", 7, "Pending"), Admitted=("False", 7, ""), **taken)
    (run,) = job.runs
    assert (run.evicted, run.ended, run.end) == (_at(5), _at(7), End.PREEMPTED)
    assert (run.reason, run.by) == ("InCohortReclamation", tracker.ids.of(OTHER))
    assert run.seconds == 180


def test_quota_that_was_lost_and_got_again_between_two_observations_makes_two_runs() -> None:
    tracker = _tracker()
    _seen(tracker, QuotaReserved=("True", 1, ""), Admitted=("True", 2, ""))
    job = _seen(tracker, QuotaReserved=("True", 9, ""), Admitted=("True", 9, ""))
    before, after = job.runs
    assert (before.ended, before.end, after.reserved, after.ended) == (_at(9), End.EVICTED, _at(9), None)


def test_a_job_that_finished_before_the_start_is_not_recorded() -> None:
    tracker = _tracker(start=30)
    finished = _workload(QuotaReserved=("True", 1, ""), Finished=("True", 20, "Succeeded"))
    assert tracker.observe(finished) is None
    assert tracker.remove(UID, at=_at(40)) is None


def test_a_finished_job_is_recorded_once_and_its_later_deletion_changes_nothing() -> None:
    tracker = _tracker()
    job = _seen(tracker, QuotaReserved=("True", 1, ""), Finished=("True", 20, "Failed"))
    assert (job.left, job.outcome, job.runs[0].ended) == (_at(20), End.FAILED, _at(20))
    assert tracker.observe(_workload(QuotaReserved=("True", 1, ""), Finished=("True", 20, "Failed"))) is None
    assert tracker.remove(UID, at=_at(40)) is None


def test_what_a_watch_brings_is_dated_to_the_millisecond_and_keeps_its_date() -> None:
    tracker, waiting = _tracker(), _workload(QuotaReserved=("False", 1, "Pending"))
    arrived = tracker.observe(waiting, at=_created(waiting) + 0.25)
    assert arrived is not None
    assert arrived.arrival == arrived.created + 0.25
    granted = _workload(QuotaReserved=("True", 2, ""), Admitted=("True", 2, ""))
    tracker.observe(granted, at=_at(2) + 0.5)
    taken = {"Evicted": ("True", 5, "Preempted"), "Preempted": ("True", 5, "InCohortReclamation")}
    # Clocks differ, and a watch may be late.
    tracker.observe(
        _workload(QuotaReserved=("True", 2, ""), Admitted=("True", 2, ""), **taken), at=_at(5) - 0.4
    )
    free = _workload(QuotaReserved=("False", 7, "Pending"), Admitted=("False", 7, ""), **taken)
    job = tracker.observe(free, at=_at(7) + 1.2)
    assert job is not None
    (run,) = job.runs
    assert (run.reserved, run.admitted) == (_at(2) + 0.5, _at(2) + 0.5)
    assert (run.evicted, run.ended) == (_at(5) - 0.4, _at(7) + 1.2)
    assert job.arrived == arrived.arrived


def test_what_a_watch_brings_long_after_it_happened_is_dated_by_the_conditions() -> None:
    tracker = _tracker()
    job = tracker.observe(_workload(QuotaReserved=("True", 1, ""), Admitted=("True", 2, "")), at=_at(30))
    assert job is not None
    assert job.arrived is None
    assert (job.runs[0].reserved, job.runs[0].admitted) == (_at(1), _at(2))
    listed = tracker.observe(_workload(QuotaReserved=("True", 1, ""), Finished=("True", 40, "Succeeded")))
    assert listed is not None
    assert listed.left == _at(40)


def test_an_unchanged_workload_is_not_written_again() -> None:
    tracker = _tracker()
    _seen(tracker, QuotaReserved=("True", 1, ""))
    assert tracker.observe(_workload(QuotaReserved=("True", 1, ""))) is None


def test_a_job_that_is_gone_after_a_new_list_was_deleted() -> None:
    tracker = _tracker()
    _seen(tracker, QuotaReserved=("True", 1, ""), Admitted=("True", 2, ""))
    assert tracker.keep_only({UID}, at=_at(30)) == []
    (job,) = tracker.keep_only({OTHER}, at=_at(30))
    assert (job.outcome, job.left, job.runs[0].ended, job.runs[0].end) == (
        End.DELETED,
        _at(30),
        _at(30),
        End.DELETED,
    )


def test_each_pod_sets_flavor_is_kept_where_a_job_has_several() -> None:
    found = _workload(QuotaReserved=("True", 1, ""))
    (first,) = found["spec"]["podSets"]
    (assigned,) = found["status"]["admission"]["podSetAssignments"]
    found["spec"]["podSets"] = [{**first, "name": name} for name in ("a", "b", "c")]
    found["status"]["admission"]["podSetAssignments"] = [
        {**assigned, "name": name, "flavors": flavors}
        for name, flavors in (
            ("a", {"nvidia.com/gpu": "h200", "cpu": "h200"}),
            ("b", {"cpu": "cpu"}),
            ("c", {"nvidia.com/gpu": "h100"}),
        )
    ]
    job = _tracker().observe(found)
    assert job is not None
    assert job.runs[0].device_flavors == ("h200", "", "h100")


def test_a_run_was_idle_from_the_controllers_notice_to_its_end_unless_the_notice_was_taken_back() -> None:
    tracker, running = _tracker(), {"QuotaReserved": ("True", 1, ""), "Admitted": ("True", 2, "")}
    found = _workload(**running)
    found["metadata"]["annotations"] = {"muster.dev/idle-since": _text(5)}
    job = tracker.observe(found)
    assert job is not None
    assert job.runs[0].idle == _at(5)
    assert _seen(tracker, **running).runs[0].idle is None
    tracker.observe(found)
    found["status"]["conditions"] = _workload(
        QuotaReserved=("False", 20, ""), Evicted=("True", 20, "Deactivated")
    )["status"]["conditions"]
    ended = tracker.observe(found)
    assert ended is not None
    assert (ended.runs[0].idle, ended.runs[0].ended) == (_at(5), _at(20))
    # What is left of it on the Workload is not the next run's.
    found["status"]["conditions"] = _workload(QuotaReserved=("True", 30, ""), Admitted=("True", 31, ""))[
        "status"
    ]["conditions"]
    again = tracker.observe(found)
    assert again is not None
    assert [run.idle for run in again.runs] == [_at(5), None]
