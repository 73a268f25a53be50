"""`muster what-if` with the real Kueue: its result is what Kueue decides."""

from __future__ import annotations

import contextlib
import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.cli import main
from muster.live.snapshot import PodSet, Snapshot, State, Toleration, Workload, format_snapshot
from muster.local.envtest import ControlPlane
from muster.model import names
from muster.model.stack import Scheduler
from muster.preview.whatif import rights
from tests import built

_TAKEN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module", autouse=True)
def programs() -> None:
    built.programs(("etcd", "kube-apiserver", "kueue"), ("kueue-crds", "provisioningrequest-crd"))


def _departments(*, lent: int) -> dict[str, Any]:
    """`lent`: of team-a's two GPUs, how many are team-b's own."""
    both = ["prod", "dev"]
    return {
        "research": {
            "teams": {
                "team-a": {"quota": {"l4": 2 - lent}, "priorities": both},
                "team-b": {"quota": {"l4": 2 + lent}, "priorities": ["dev"]}
                | ({} if lent else {"borrow": {"l4": 2}}),
            }
        },
        "vision": {"teams": {"team-c": {"quota": {"l4": 3}, "priorities": both}}},
        "speech": {"teams": {"team-d": {"quota": {"l4": 2}, "priorities": both}}},
    }


def _stack(folder: Path, name: str, departments: dict[str, Any]) -> Path:
    config = {
        "muster:cluster": {"provider": "existing", "name": "lab", "context": "lab"},
        "muster:pools": {
            "cpu": {"machine": "local-cpu", "minNodes": 1, "maxNodes": 1},
            "l4": {"accelerator": "nvidia-l4", "machine": "local-l4", "maxNodes": 9},
        },
        "muster:priorities": {"prod": 1000, "dev": 100},
        "muster:departments": departments,
    }
    path = folder / f"Pulumi.{name}.yaml"
    path.write_text(yaml.safe_dump({"config": config}))
    return path


def _work(
    team: str, name: str, *, gpus: int, priority: int = 100, runs: bool = False, after: int = 0
) -> Workload:
    amounts = {names.GPU_RESOURCE: gpus}
    pods = PodSet(
        name="main",
        count=1,
        requests=amounts,
        tolerations=(Toleration(names.GPU_RESOURCE, "Exists", "", ""),),
        flavors={names.GPU_RESOURCE: "l4"} if runs else {},
        usage=amounts if runs else {},
    )
    return Workload(
        namespace=team,
        name=name,
        queue="default",
        created=_TAKEN - timedelta(hours=2) + timedelta(seconds=after),
        pod_sets=(pods,),
        state=State.ADMITTED if runs else State.PENDING,
        priority=priority,
        cluster_queue=team if runs else "",
    )


_WORK = [
    *(_work("team-b", f"runs-{index}", gpus=1, runs=True, after=index) for index in range(4)),
    _work("team-a", "waits", gpus=2, after=10),
    _work("team-c", "runs", gpus=2, priority=1000, runs=True),
    _work("team-c", "urgent", gpus=2, priority=1000, after=1),
    _work("team-c", "small", gpus=1, priority=100, after=2),
    _work("team-d", "first", gpus=2, priority=100, after=1),
    _work("team-d", "urgent", gpus=2, priority=1000, after=2),
]


def _ask(folder: Path, base: Path, head: Path, work: list[Workload], *more: str) -> dict[str, Any]:
    snapshot = Snapshot(taken=_TAKEN, scheduler=Scheduler.KUEUE, queues=(), workloads=tuple(work))
    (folder / "snapshot.json").write_text(format_snapshot(snapshot))
    command = [
        "what-if",
        str(head),
        "--base",
        str(base),
        "--snapshot",
        str(folder / "snapshot.json"),
    ]
    comment = folder / "comment.md"
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) as out:
        assert main([*command, "--json", "--markdown", str(comment), *more]) == 0
    out.seek(0)
    found: dict[str, Any] = json.loads(out.read())
    return {**found, "comment": comment.read_text()}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Three departments, each a question of its own: in the first head gives team-a its quota back, which
    team-b borrows; the other two are the same in base and head.
    """
    folder = tmp_path_factory.mktemp("told")
    base, head = _stack(folder, "base", _departments(lent=2)), _stack(folder, "head", _departments(lent=0))
    return _ask(folder, base, head, _WORK)


def test_a_restored_quota_preempts_its_borrowers(told: dict[str, Any]) -> None:
    """team-b borrows both GPUs of team-a, who waits; in base team-a has no quota to take back."""
    base, head = told["base"]["decisions"], told["head"]["decisions"]
    assert base["team-a/waits"]["fate"] == "pending"
    assert base["team-a/waits"]["why"]
    assert not [each for each in base.values() if each["how"]]
    assert head["team-a/waits"]["fate"] == "admitted"
    victims = [each for each in head.values() if each["how"]]
    assert len(victims) == 2
    assert {each["preemptor"] for each in victims} == {"team-a/waits"}
    assert "is preempted by `team-a/waits`, which reclaims its own quota" in told["comment"]


def test_what_can_start_by_no_preemption_does_not_hold_up_what_fits_behind_it(told: dict[str, Any]) -> None:
    """The urgent one needs two GPUs of its own team's, whose one is taken by work that is as urgent."""
    decisions = told["head"]["decisions"]
    assert decisions["team-c/urgent"]["fate"] == "pending"
    assert decisions["team-c/small"]["fate"] == "admitted"


def test_higher_priority_goes_before_age(told: dict[str, Any]) -> None:
    decisions = told["head"]["decisions"]
    assert decisions["team-d/urgent"]["fate"] == "admitted"
    assert decisions["team-d/first"]["fate"] == "pending"
    assert not decisions["team-d/first"]["how"]


def test_what_is_decided_once_by_a_kueue_of_few_rights_is_what_a_whole_one_decides_about_head(
    told: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Head alone, so that nothing of base answers for it, and Kueue may write whatever it wants to."""
    monkeypatch.setattr(rights, "grant", _grant_all)
    monkeypatch.setattr(rights, "stop_counting", lambda plane: None)
    head = _stack(tmp_path, "head", _departments(lent=0))
    alone = _ask(tmp_path, head, head, _WORK)
    assert _fates(told["head"]) == _fates(alone["head"])
    assert told["head"]["gpus"] == alone["head"]["gpus"] == {"l4": 4 + 3 + 2}


def _grant_all(plane: ControlPlane, *, usage_counts: bool) -> None:
    api = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{api}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "kueue"},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": api, "kind": "User", "name": rights.USER}],
    }
    plane.apply(binding, f"/apis/{api}/v1/clusterrolebindings/kueue")


def _fates(side: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    decisions = side["decisions"].items()
    return {label: (each["fate"], each["how"], each["preemptor"]) for label, each in decisions}


def test_waits_are_in_the_jobs_time_with_the_compression(tmp_path: Path) -> None:
    """One runs, and two wait for its GPUs, one after the other; each takes an hour."""
    team = {"team-a": {"quota": {"l4": 2}, "priorities": ["dev"]}}
    stack = _stack(tmp_path, "same", {"research": {"teams": team}})
    running = _work("team-a", "runs", gpus=2, runs=True)
    work = [running, *(_work("team-a", f"waits-{index}", gpus=2, after=10 + index) for index in range(2))]
    told = _ask(tmp_path, stack, stack, work, "--duration", "1h", "--compress", "1800")
    decisions = told["head"]["decisions"]
    first, second = (decisions[f"team-a/waits-{index}"]["waited"] for index in range(2))
    # Kueue's own seconds count 1800 times and come on top.
    assert first >= 3600
    assert second - first >= 3600
    assert {each["fate"] for each in decisions.values()} == {"ended"}
    assert "1800 times as fast" in told["comment"]
