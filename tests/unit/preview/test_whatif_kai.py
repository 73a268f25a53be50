"""What-if with KAI: the world that the player reads, and what its answer becomes. The decisions are tested
with KAI's own code (tests/integration/real_kai).
"""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from muster import config
from muster.cli import main
from muster.live.snapshot import (
    GroupPod,
    Node,
    PodGroup,
    Queue,
    Snapshot,
    Taint,
    Usage,
    format_snapshot,
    parse_snapshot,
)
from muster.model.names import GANG_GATE, GPU_RESOURCE, HELD_TAINT_KEY, POOL_LABEL
from muster.model.stack import Scheduler, Stack
from muster.preview.compare.kai import queues_at_limit
from muster.preview.markdown import format_comment
from muster.preview.whatif import kai
from muster.preview.whatif.kai import all_nodes, to_config, to_outcome, to_world
from muster.preview.whatif.report import Comparison
from muster.preview.whatif.scenario import WorkloadState
from muster.replay.kai_player import STALE_SECONDS, KaiDecision, KaiGroup, KaiPlayback, KaiWorld
from muster.replay.player import UnplayableError
from tests.unit.preview.preview_world import KAI, KAI_PROD, LOCAL, ROOT, changed_kai

_NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def _holding(**queues: int) -> Snapshot:
    used = (
        Queue(name=name, parent="research", usage=(Usage("", GPU_RESOURCE, amount),))
        for name, amount in queues.items()
    )
    return Snapshot(taken=_NOW, scheduler=Scheduler.KAI, queues=tuple(used))


def _node(name: str) -> Node:
    room = {"cpu": 7910, "memory": 2**34, "pods": 58, GPU_RESOURCE: 1}
    return Node(name=name, room=room, labels={POOL_LABEL: "a10g", "kubernetes.io/hostname": name})


def _group(name: str, *, node: str = "", gates: tuple[str, ...] = ()) -> PodGroup:
    pod = GroupPod(name=f"{name}-0", requests={"cpu": 1000, GPU_RESOURCE: 1}, node=node, gates=gates)
    return PodGroup(
        namespace="training", name=name, queue="training", created=_NOW - timedelta(hours=1), pods=(pod,)
    )


def _snapshot(*groups: PodGroup, nodes: tuple[Node, ...] = ()) -> Snapshot:
    return replace(_holding(training=1), pod_groups=groups, nodes=nodes)


def _world(stack: Stack, snapshot: Snapshot) -> KaiWorld:
    return to_world(stack, snapshot, nodes=all_nodes(stack, snapshot.nodes or ()), seconds=60.0)


def test_a_snapshot_with_pods_is_read_as_it_was_written() -> None:
    found = _snapshot(_group("train", node="n1"), nodes=(_node("n1"),))
    assert parse_snapshot(format_snapshot(found), source="file") == found


def test_nodes_that_a_pool_may_add_are_like_those_that_it_has() -> None:
    nodes = all_nodes(KAI_PROD, [_node("n1")])
    gpus = [each for each in nodes if each.labels[POOL_LABEL] == "a10g"]
    assert len(gpus) == 32
    assert gpus[0].name == "n1"
    assert {tuple(each.room.items()) for each in gpus} == {tuple(_node("n1").room.items())}
    assert len({each.labels["kubernetes.io/hostname"] for each in gpus}) == 32


def test_nodes_that_placeholders_hold_are_free_for_their_gang() -> None:
    held = replace(_node("n1"), taints=(Taint(HELD_TAINT_KEY, "gang-1", "NoSchedule"),))
    assert not any(each.taints for each in all_nodes(KAI_PROD, [held]) if each.labels[POOL_LABEL] == "a10g")


def test_nodes_of_a_pool_without_any_are_those_of_its_machine() -> None:
    found = [each for each in all_nodes(KAI_PROD, []) if each.labels[POOL_LABEL] == "a10g"]
    assert len(found) == 32
    assert found[0].room[GPU_RESOURCE] == 1
    assert found[0].room["cpu"] < 8000
    assert [each.key for each in found[0].taints] == ["nvidia.com/gpu"]


def test_only_the_gate_of_muster_counts_as_removed() -> None:
    pods = _world(KAI_PROD, _snapshot(_group("train", gates=(GANG_GATE, "example.com/mine")))).pods
    assert pods[0]["spec"]["schedulingGates"] == [{"name": "example.com/mine"}]
    assert "nodeName" not in pods[0]["spec"]


def test_with_over_quota_denied_the_quota_of_gpus_is_the_limit() -> None:
    allowed = changed_kai(
        ("  muster:artifacts: upstream", "  muster:gangAdmission: {kai: {overQuota: allow}}")
    )
    limits = {
        word: {
            each["metadata"]["name"]: each["spec"]["resources"]["gpu"]["limit"]
            for each in _world(stack, _snapshot()).queues
        }
        for word, stack in (("deny", KAI_PROD), ("allow", allowed))
    }
    assert limits["deny"]["training"] == 16
    assert limits["allow"]["training"] == 32


def test_time_passes_until_no_minimum_runtime_protects_work() -> None:
    """kai-prod: preemptMinRuntime 5m, reclaimMinRuntime 10m."""
    assert _world(KAI_PROD, _snapshot()).patience == 601


def test_a_stack_without_minimum_runtimes_is_played_until_a_gang_is_stale() -> None:
    stack = config.load(ROOT / "stacks" / "Pulumi.local-kai.yaml")
    assert _world(stack, _snapshot()).patience == STALE_SECONDS


def test_a_scheduler_is_configured_as_kai_s_operator_does() -> None:
    found = to_config(
        {
            "placementStrategy": {"gpu": "spread", "cpu": "binpack"},
            "kValue": 0.5,
            "minRuntime": {"reclaimMinRuntime": "10m"},
            "actions": {"preempt": {"enabled": False}},
        }
    )
    assert found["actions"] == "allocate, reclaim, stalegangeviction"
    plugins = found["tiers"][0]["plugins"]
    assert {"name": "proportion", "arguments": {"kValue": "0.5"}} in plugins
    assert {"name": "nodeplacement", "arguments": {"gpu": "spread", "cpu": "binpack"}} in plugins
    assert plugins[-1] == {"name": "minruntime", "arguments": {"defaultReclaimMinRuntime": "10m"}}
    assert {"name": "gpuspread"} in plugins
    assert {"name": "gpusharingorder"} not in plugins


def test_an_order_of_actions_is_refused_because_kai_0_12_has_none() -> None:
    with pytest.raises(UnplayableError, match="no priority of actions, which reclaim has"):
        to_config({"actions": {"reclaim": {"priority": 9}}})


def test_work_in_a_queue_without_a_parent_is_refused() -> None:
    with pytest.raises(UnplayableError, match="queue platform has no parent"):
        _world(KAI_PROD, _snapshot(replace(_group("train"), queue="platform")))


def _played() -> KaiPlayback:
    evicted = KaiDecision(
        round=1,
        kind="evicted",
        action="reclaim",
        group="training/old",
        pods=("training/old-0",),
        by="serving/infer",
    )
    return KaiPlayback(
        rounds=3,
        is_settled=True,
        decisions=(evicted,),
        groups={
            "training/old": KaiGroup(running={}, waiting=("training/old-0",), why="no room"),
            "training/kept": KaiGroup(running={"training/kept-0": "n2"}, waiting=()),
            "training/new": KaiGroup(running={"training/new-0": "n3"}, waiting=()),
        },
    )


def test_what_kai_decided_becomes_who_runs_waits_and_is_evicted() -> None:
    groups = (_group("old", node="n1"), _group("kept", node="n2"), _group("new"))
    found = to_outcome(groups, _played(), flavors={"n2": "a10g", "n3": "a10g"})
    states = {label: each.state for label, each in found.decisions.items()}
    assert states == {
        "training/old": WorkloadState.PENDING,
        "training/kept": WorkloadState.RUNNING,
        "training/new": WorkloadState.ADMITTED,
    }
    assert found.gpus == {"a10g": 2}
    before = to_outcome(groups, replace(_played(), decisions=()), flavors={})
    compared = Comparison(
        name="kai", base=before, head=found, base_stack=KAI_PROD, head_stack=KAI_PROD, scheduler=Scheduler.KAI
    )
    text = format_comment(kai.to_report(compared, _snapshot(*groups)))
    assert "Head preempts `training/old`, which base does not." in text
    assert (
        "`training/old` is preempted by `serving/infer`, which reclaims the share of its queue; it waits."
        in text
    )
    assert "Reason given by KAI" in text
    assert "KAI 0.12.0 decided." in text
    record = json.loads(json.dumps(kai.to_json(compared, _snapshot(*groups))))
    assert record["decided"] is True
    assert record["head"]["decisions"]["training/old"]["preemptor"] == "serving/infer"


def test_a_gang_that_loses_pods_above_its_minimum_keeps_running() -> None:
    pods = tuple(GroupPod(name=f"big-{index}", requests={}, node="n1") for index in range(2))
    group = replace(_group("big"), pods=pods)
    lost = KaiDecision(
        round=1, kind="evicted", action="reclaim", group=group.label, pods=("training/big-1",), by="a/b"
    )
    after = KaiGroup(running={"training/big-0": "n1"}, waiting=("training/big-1",), why="no room")
    played = KaiPlayback(rounds=2, is_settled=True, decisions=(lost,), groups={group.label: after})
    decision = to_outcome([group], played, flavors={}).decisions[group.label]
    assert decision.state is WorkloadState.RUNNING
    assert decision.is_preempted


# Where nothing can be simulated


def _undecided(base: Stack, head: Stack, snapshot: Snapshot) -> tuple[str, dict[str, Any]]:
    why = kai.why_undecided(base, head, snapshot)
    sides = "kai", base, head, snapshot
    return format_comment(kai.undecided_report(*sides, why=why)), kai.undecided_json(*sides, why=why)


def test_without_pods_overuse_is_listed_and_nothing_is_decided() -> None:
    head = changed_kai(("quota: {a10g: 16}", "quota: {a10g: 12}"))
    text, found = _undecided(KAI_PROD, head, _holding(training=14, notebooks=4))
    assert "Nothing below is a decision of KAI." in text
    assert "record it again with the right to list pods" in text
    assert "`training` holds 14 GPUs and has a quota of 12, only with head" in text
    assert "What only KAI could decide" in text
    assert found["decided"] is False
    assert [each["queue"] for each in found["beyondQuota"]] == ["training"]
    assert found["beyondQuotaBefore"] == []


def test_without_pods_queues_at_their_limit_are_listed() -> None:
    assert [
        each.queue for each in queues_at_limit(KAI_PROD, _holding(training=32, notebooks=1, research=20))
    ] == ["training"]
    text, _ = _undecided(KAI_PROD, KAI_PROD, _holding(training=32))
    assert "`training` holds 32 GPUs and may hold 32: no more work starts in it." in text


def test_a_snapshot_of_kueue_is_not_judged_by() -> None:
    """What Kueue's queues hold is not what KAI's would: "nobody" would be a guess."""
    other = replace(_holding(training=14), scheduler=Scheduler.KUEUE)
    text, found = _undecided(KAI_PROD, KAI_PROD, other)
    assert "The snapshot is not from KAI" in text
    assert "- None" not in text
    assert "beyondQuota" not in found


def test_a_change_of_the_scheduler_is_not_simulated() -> None:
    assert "One side is scheduled by Kueue" in kai.why_undecided(config.load(LOCAL), KAI_PROD, _snapshot())
    assert kai.why_undecided(KAI_PROD, KAI_PROD, _snapshot()) == ""


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--synthetic", "10+5"), "--synthetic makes up work for Kueue alone.\nFix: --snapshot"),
        (("--duration", "2h"), "--duration: with KAI no job ends.\nFix: leave it out."),
    ],
)
def test_options_for_kueue_alone_are_refused(
    option: tuple[str, str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "snapshot.json"
    path.write_text(format_snapshot(_holding()), encoding="utf-8")
    work = () if "--synthetic" in option else ("--snapshot", str(path))
    assert main(["what-if", str(KAI), "--base", str(KAI), *work, *option]) == 2
    assert said in capsys.readouterr().err
