"""What head does not rerun is equal in base, whatever else was changed."""

import copy
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.config import parse
from muster.live.snapshot import Workload
from muster.model.stack import Stack
from muster.preview.whatif import both, job_simulator, simulate
from muster.preview.whatif.both import Rerun, merge_outcomes, queues_to_rerun
from muster.preview.whatif.job_simulator import Probes
from muster.preview.whatif.scenario import Decision, Outcome, WorkloadState, synthetic_snapshot

_CONFIG: dict[str, Any] = {
    "cluster": {"provider": "existing", "name": "lab", "context": "lab"},
    "pools": {
        "cpu": {"machine": "local-cpu", "minNodes": 1, "maxNodes": 1},
        "l4": {"accelerator": "nvidia-l4", "machine": "local-l4", "maxNodes": 40},
        "t4": {"accelerator": "nvidia-tesla-t4", "machine": "g4dn.xlarge", "maxNodes": 40},
    },
    "priorities": {"prod": 1000, "dev": 100},
    "departments": {
        "research": {"teams": {"team-a": {"quota": {"l4": 4}}, "team-b": {"quota": {"l4": 2}}}},
        "vision": {"teams": {"team-c": {"quota": {"l4": 4}}, "team-d": {"quota": {"l4": 2, "t4": 2}}}},
        "speech": {"teams": {"team-e": {"quota": {"t4": 4}}, "team-f": {"quota": {"t4": 2}}}},
    },
}


def _stack(**changes: Any) -> Stack:
    return parse({**copy.deepcopy(_CONFIG), **changes}, source="lab")


def _with_quotas(**quotas: int) -> Stack:
    """Other quotas of l4: team_a=5."""
    departments = copy.deepcopy(_CONFIG["departments"])
    for department in departments.values():
        for name, team in department["teams"].items():
            if (quota := quotas.get(name.replace("-", "_"))) is not None:
                team["quota"]["l4"] = quota
    return _stack(departments=departments)


BASE = _stack()
WORK = synthetic_snapshot(BASE, running=100, pending=40).workloads


def _rerun(head: Stack, work: tuple[Workload, ...] = WORK) -> Rerun:
    return queues_to_rerun(BASE, head, work)


def _teams(rerun: Rerun) -> set[str]:
    return {each.namespace for each in rerun.workloads}


def test_a_change_outside_kueue_needs_no_rerun() -> None:
    assert _rerun(_stack()).is_empty


def test_a_changed_quota_reruns_its_department_only() -> None:
    rerun = _rerun(_with_quotas(team_a=5))
    assert _teams(rerun) == {"team-a", "team-b"}
    there = {manifest["metadata"]["name"] for act in rerun.batches for _, manifest in act}
    assert {"team-a", "team-b", "research", "l4"} <= there
    assert not {"team-c", "vision"} & there


def test_a_team_that_moves_reruns_both_departments() -> None:
    departments = copy.deepcopy(_CONFIG["departments"])
    departments["vision"]["teams"]["team-b"] = departments["research"]["teams"].pop("team-b")
    assert _teams(_rerun(_stack(departments=departments))) == {"team-a", "team-b", "team-c", "team-d"}


def test_a_removed_team_is_rerun() -> None:
    departments = copy.deepcopy(_CONFIG["departments"])
    del departments["speech"]
    rerun = _rerun(_stack(departments=departments))
    assert {"team-e", "team-f"} <= _teams(rerun)
    assert not rerun.is_empty


def test_changed_priorities_rerun_everything() -> None:
    rerun = _rerun(_stack(priorities={"prod": 1001, "dev": 100}))
    assert _teams(rerun) == {f"team-{letter}" for letter in "abcdef"}


def test_the_first_weight_reruns_everything() -> None:
    """With it Kueue shares fairly, everywhere."""
    departments = copy.deepcopy(_CONFIG["departments"])
    departments["research"]["teams"]["team-a"]["weight"] = 2
    assert _teams(_rerun(_stack(departments=departments))) == {f"team-{letter}" for letter in "abcdef"}


def test_any_changed_object_is_rerun() -> None:
    every = [*both.manifest_batches(BASE)]
    before = both.to_trees(every)
    for index, act in enumerate(every):
        path, manifest = act[0]
        other = {**manifest, "spec": {**manifest.get("spec", {}), "other": 1}}
        after = both.to_trees([*every[:index], [(path, other), *act[1:]], *every[index + 1 :]])
        assert both.changed_trees(before, after, []) > {both.NO_TREE}, manifest["kind"]


def test_a_workload_that_holds_elsewhere_ties_the_two_departments() -> None:
    """It was admitted before its LocalQueue was pointed to another ClusterQueue."""
    moved = next(each for each in WORK if each.namespace == "team-c" and each.is_holding)
    tied = replace(moved, cluster_queue="team-a")
    rerun = _rerun(_with_quotas(team_b=3), (*WORK, tied))
    assert _teams(rerun) == {"team-a", "team-b", "team-c", "team-d"}


def test_a_workload_without_a_queue_is_rerun() -> None:
    lost = replace(WORK[0], namespace="nobody", cluster_queue="")
    assert list(_rerun(_stack(), (*WORK, lost)).workloads) == [lost]


@given(st.dictionaries(st.sampled_from(["team_a", "team_b", "team_c", "team_d"]), st.integers(1, 8)))
def test_what_is_not_rerun_is_equal_in_base_and_head(quotas: dict[str, int]) -> None:
    head = _with_quotas(**quotas)
    rerun = _rerun(head)
    before, after = (
        both.to_trees(both.manifest_batches(BASE)),
        both.to_trees(both.manifest_batches(head)),
    )
    asked = {(each.namespace, each.name) for each in rerun.workloads}
    for each in WORK:
        if (each.namespace, each.name) not in asked:
            homes = before.of(each) | after.of(each)
            assert all(before.content[tree] == after.content[tree] for tree in homes)


def test_heads_outcome_is_completed_by_bases() -> None:
    asked = [each for each in WORK if each.namespace == "team-a"]
    base = Outcome(decisions=_all(WorkloadState.PENDING), used=_used(1), is_settled=True, seconds=1.0)
    head = Outcome(
        decisions=_all(WorkloadState.ADMITTED, "team-a"),
        used=_used(2, "team-a"),
        is_settled=True,
        seconds=1.0,
    )
    whole = merge_outcomes(base, head, asked)
    assert {each.state for each in whole.decisions.values() if each.namespace == "team-a"} == {
        WorkloadState.ADMITTED
    }
    assert {each.state for each in whole.decisions.values() if each.namespace != "team-a"} == {
        WorkloadState.PENDING
    }
    assert len(whole.decisions) == len(WORK)
    assert whole.gpus == {"l4": 2 + 5}


def test_head_is_not_settled_where_it_rests_on_a_base_that_is_not() -> None:
    base = Outcome(decisions=_all(WorkloadState.PENDING), used={}, is_settled=False, seconds=1.0)
    head = Outcome(decisions={}, used={}, is_settled=True, seconds=1.0)
    assert not merge_outcomes(base, head, []).is_settled
    assert merge_outcomes(base, head, list(WORK)).is_settled


def _all(fate: WorkloadState, namespace: str = "") -> dict[str, Decision]:
    return {
        f"{each.namespace}/{each.name}": Decision(namespace=each.namespace, name=each.name, state=fate)
        for each in WORK
        if namespace in ("", each.namespace)
    }


def _used(gpus: int, namespace: str = "") -> dict[tuple[str, str], dict[str, int]]:
    lines = {(each.namespace, each.queue) for each in WORK if namespace in ("", each.namespace)}
    return {line: {"l4": gpus} for line in lines}


def test_kueue_may_stop_counting_only_when_every_queue_is_known_to_be_active() -> None:
    def queue(status: str | None, reserving: int = 0) -> dict[str, Any]:
        conditions = [] if status is None else [{"type": "Active", "status": status}]
        return {"status": {"conditions": conditions, "reservingWorkloads": reserving}}

    assert simulate.to_usage_count([queue("True", 2), queue("True", 3)]) == simulate.UsageCount(2, 0, 0, 5)
    assert simulate.to_usage_count([queue("True"), queue("True")]).is_active
    assert not simulate.to_usage_count([queue("True"), queue("False")]).is_active
    assert not simulate.to_usage_count([queue("True"), queue(None)]).is_active


def test_what_a_drained_queue_holds_is_not_waited_for() -> None:
    acts = [*both.manifest_batches(BASE)]
    holding = [each for each in WORK if each.is_holding]
    whole = simulate.expected_usage(acts, holding)
    assert whole == simulate.ExpectedUsage(queues=6, reserving=len(holding))
    drained = [[(path, _drained(each, "team-a")) for path, each in act] for act in acts]
    left = [each for each in holding if each.namespace != "team-a"]
    assert simulate.expected_usage(drained, holding) == simulate.ExpectedUsage(queues=6, reserving=len(left))


def _drained(manifest: dict[str, Any], queue: str) -> dict[str, Any]:
    if (manifest["kind"], manifest["metadata"]["name"]) != ("ClusterQueue", queue):
        return manifest
    return {**manifest, "spec": {**manifest["spec"], "stopPolicy": "HoldAndDrain"}}


def test_only_a_probe_sent_after_the_last_change_counts() -> None:
    probes = Probes()
    assert probes.response_time(0.0) is None
    first = probes.next()
    assert (probes.is_open, probes.response_time(0.0)) == (True, None)
    admitted = {"status": {"conditions": [{"type": "QuotaReserved", "status": "True"}]}}
    probes.observe({**first, "metadata": {**first["metadata"], "name": "probe-0"}, **admitted})
    assert (probes.is_open, probes.response_time(0.0)) == (True, None)
    probes.observe({**first, **admitted})
    assert not probes.is_open
    assert probes.response_time(0.0) is not None
    assert probes.response_time(probes.sent + 1) is None


def test_a_probe_uses_no_quota_of_a_team() -> None:
    pods = Probes().next()["spec"]["podSets"][0]["template"]["spec"]
    asked = set(pods["containers"][0]["resources"]["requests"])
    covered = {
        resource
        for act in both.manifest_batches(BASE)
        for _, each in act
        if each["kind"] == "ClusterQueue"
        for group in each["spec"]["resourceGroups"]
        for resource in group["coveredResources"]
    }
    assert covered
    assert not asked & covered
    assert not any(
        "cohortName" in each.get("spec", {}) for act in job_simulator.manifest_batches() for _, each in act
    )
