"""`muster what-if` for kai-prod: KAI's own scheduler decides over a snapshot, for base and for head."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from muster.cli import main
from muster.live.snapshot import GroupPod, Node, PodGroup, Queue, Snapshot, format_snapshot
from muster.model.names import GANG_GATE, GPU_RESOURCE, POOL_LABEL
from muster.model.stack import Scheduler
from muster.replay.kai_player import PROGRAM
from tests import built
from tests.integration.real_kai.programs import SWITCH

_STACK = Path(__file__).resolve().parents[3] / "stacks" / "Pulumi.kai-prod.yaml"
_NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def _gang(name: str, team: str, *, pods: int, first_node: int | None, priority: str = "train") -> PodGroup:
    """Of one GPU a pod, each on a node of its own; first_node None: it waits behind Muster's gate."""
    created = tuple(
        GroupPod(
            name=f"{name}-{index}",
            requests={"cpu": 4000, GPU_RESOURCE: 1},
            node="" if first_node is None else f"gpu-{first_node + index}",
            gates=(GANG_GATE,) if first_node is None else (),
            node_selector={POOL_LABEL: "a10g"},
        )
        for index in range(pods)
    )
    return PodGroup(
        namespace=team,
        name=name,
        queue=team,
        created=_NOW - timedelta(hours=2),
        started=None if first_node is None else _NOW - timedelta(hours=1),
        pods=created,
        min_member=pods,
        priority_class=priority,
    )


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """20 GPUs in use: training has 16, notebooks 4. Serving waits for 12, and notebooks for 4 more."""
    room = {"cpu": 7000, "memory": 2**34, "pods": 58, GPU_RESOURCE: 1}
    nodes = tuple(Node(name=f"gpu-{index}", room=room, labels={POOL_LABEL: "a10g"}) for index in range(20))
    groups = (
        _gang("more", "notebooks", pods=4, first_node=None),
        _gang("own", "notebooks", pods=4, first_node=16),
        _gang("infer", "serving", pods=12, first_node=None, priority="inference"),
        _gang("large", "training", pods=16, first_node=0),
    )
    found = Snapshot(
        taken=_NOW,
        scheduler=Scheduler.KAI,
        queues=(Queue(name="training", parent="research", usage=()),),
        pod_groups=groups,
        nodes=nodes,
    )
    path = tmp_path / "snapshot.json"
    path.write_text(format_snapshot(found), encoding="utf-8")
    return path


def test_a_smaller_pool_evicts_for_work_within_its_quota(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With 32 nodes everything within its quota runs. With 28, and quotas that fit them, training is over
    its quota and gives its GPUs to serving.
    """
    if not os.environ.get(SWITCH):
        pytest.skip(f"KAI is run on demand: `muster local build --only {PROGRAM}`, then {SWITCH}=1")
    if built.program(PROGRAM) is None:
        built.absent(PROGRAM, build=f"muster local build --only {PROGRAM}")
    text = _STACK.read_text(encoding="utf-8")
    head = tmp_path / "Pulumi.kai-prod.yaml"
    head.write_text(
        text.replace("maxNodes: 32", "maxNodes: 28").replace("quota: {a10g: 16}", "quota: {a10g: 12}"),
        encoding="utf-8",
    )
    page = tmp_path / "page.md"
    assert (
        main(
            [
                *("what-if", str(head), "--base", str(_STACK), "--snapshot", str(snapshot)),
                *("--json", "--markdown", str(page)),
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["decided"]
    base, head_side = (found[side]["decisions"] for side in ("base", "head"))
    fates = {label: (base[label]["fate"], head_side[label]["fate"]) for label in base}
    assert fates == {
        "notebooks/more": ("pending", "pending"),
        "notebooks/own": ("running", "running"),
        "serving/infer": ("admitted", "admitted"),
        "training/large": ("running", "pending"),
    }
    assert head_side["training/large"]["preemptor"] == "serving/infer"
    assert found["base"]["gpus"] == {"a10g": 32}
    assert found["head"]["gpus"] == {"a10g": 16}
    said = page.read_text(encoding="utf-8")
    assert "Head preempts `training/large`, which base does not." in said
    assert "is preempted by `serving/infer`, which reclaims the share of its queue; it waits." in said
