"""`muster what-if` with the real Kueue: its result is what Kueue decides."""

import contextlib
import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster import config
from muster.cli import main
from muster.live.snapshot import PodSet, Snapshot, State, Toleration, Workload, format_snapshot
from muster.model import names
from muster.model.stack import Scheduler, Stack
from muster.preview.whatif.kueue import simulate_both
from muster.preview.whatif.scenario import Decision, Scenario, synthetic_snapshot
from muster.replay.player import PROGRAM, ensure_player
from tests import built, envtest
from tests.envtest import ControlPlane, Programs
from tests.integration.lab import write_stack
from tests.integration.whatif import simulate

_TAKEN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module", autouse=True)
def programs() -> Programs:
    """Those of the control plane that the player is checked against."""
    programs = ("etcd", "kube-apiserver", "kueue", PROGRAM)
    built.programs(programs, ("kueue-crds", "provisioningrequest-crd"))
    return envtest.ensure()


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


def _stack(folder: Path, name: str, departments: dict[str, Any], *, nodes: int = 9) -> Path:
    return write_stack(folder / f"Pulumi.{name}.yaml", nodes=nodes, departments=departments)


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


def _snapshot(work: list[Workload]) -> Snapshot:
    return Snapshot(taken=_TAKEN, scheduler=Scheduler.KUEUE, queues=(), workloads=tuple(work))


def _ask(folder: Path, base: Path, head: Path, work: list[Workload], *more: str) -> dict[str, Any]:
    (folder / "snapshot.json").write_text(format_snapshot(_snapshot(work)))
    command = ["what-if", str(head), "--base", str(base), "--snapshot", str(folder / "snapshot.json")]
    comment = folder / "comment.md"
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) as out:
        assert main([*command, "--json", "--markdown", str(comment), *more]) == 0
    out.seek(0)
    found: dict[str, Any] = json.loads(out.read())
    return {**found, "comment": comment.read_text()}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Three departments, each a question of its own: in the first head gives team-a its quota back, which
    team-b borrows; the other two are the same in base and head.
    """
    folder = tmp_path_factory.mktemp("what-if")
    base, head = _stack(folder, "base", _departments(lent=2)), _stack(folder, "head", _departments(lent=0))
    return _ask(folder, base, head, _WORK)


def test_a_restored_quota_preempts_its_borrowers(found: dict[str, Any]) -> None:
    """team-b borrows both GPUs of team-a, who waits; in base team-a has no quota to take back."""
    base, head = found["base"]["decisions"], found["head"]["decisions"]
    assert base["team-a/waits"]["fate"] == "pending"
    assert base["team-a/waits"]["why"]
    assert not [each for each in base.values() if each["how"]]
    assert head["team-a/waits"]["fate"] == "admitted"
    victims = [each for each in head.values() if each["how"]]
    assert len(victims) == 2
    assert {each["preemptor"] for each in victims} == {"team-a/waits"}
    assert "is preempted by `team-a/waits`, which reclaims its own quota" in found["comment"]


def test_what_can_start_by_no_preemption_does_not_hold_up_what_fits_behind_it(found: dict[str, Any]) -> None:
    """The urgent one needs two GPUs of its own team's, whose one is taken by work that is as urgent."""
    decisions = found["head"]["decisions"]
    assert decisions["team-c/urgent"]["fate"] == "pending"
    assert decisions["team-c/small"]["fate"] == "admitted"


def test_higher_priority_goes_before_age(found: dict[str, Any]) -> None:
    decisions = found["head"]["decisions"]
    assert decisions["team-d/urgent"]["fate"] == "admitted"
    assert decisions["team-d/first"]["fate"] == "pending"
    assert not decisions["team-d/first"]["how"]


def test_the_player_decides_what_a_control_plane_does(tmp_path: Path, programs: Programs) -> None:
    """A random world as well: eight teams in two departments, full, with 60 that wait."""
    departments: dict[str, Any] = {
        f"d{department}": {
            "teams": {
                f"t{department}-{team}": {"quota": {"l4": 3 + team}, "priorities": ["prod", "dev"]}
                for team in range(4)
            }
        }
        for department in range(2)
    }
    base = config.load(_stack(tmp_path, "base", departments, nodes=40))
    departments["d0"]["teams"]["t0-1"]["quota"]["l4"] = 8
    departments["d1"]["teams"]["t1-3"]["quota"]["l4"] = 2
    head = config.load(_stack(tmp_path, "head", departments, nodes=40))
    made = synthetic_snapshot(base, running=60, pending=60)
    _compare(base, head, made, programs)


def test_the_player_decides_the_three_questions_as_a_control_plane_does(
    tmp_path: Path, programs: Programs
) -> None:
    base = config.load(_stack(tmp_path, "base", _departments(lent=2)))
    head = config.load(_stack(tmp_path, "head", _departments(lent=0)))
    _compare(
        base, head, _snapshot([*_WORK, replace(_work("team-a", "lost", gpus=1), queue="gone")]), programs
    )


def _compare(base: Stack, head: Stack, snapshot: Snapshot, programs: Programs) -> None:
    scenario = Scenario(snapshot=snapshot)
    played = simulate_both(base, head, scenario, program=ensure_player())
    simulated = [simulate.simulate(stack, scenario, programs) for stack in (base, head)]
    for ours, theirs in zip(played, simulated, strict=True):
        assert {label: _content(each) for label, each in ours.decisions.items()} == {
            label: _content(each) for label, each in theirs.decisions.items()
        }
        assert ours.used == theirs.used


def _content(decision: Decision) -> object:
    """Without Kueue's words, which name the resources that are short in the order of a map."""
    return decision.state, decision.how, decision.preemptor, bool(decision.why)


def test_what_a_kueue_of_few_rights_decides_is_what_a_whole_one_decides(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = config.load(_stack(tmp_path, "head", _departments(lent=0)))
    scenario = Scenario(snapshot=_snapshot(_WORK))
    few = simulate.simulate(head, scenario, programs)
    monkeypatch.setattr(simulate, "grant", _grant_all)
    monkeypatch.setattr(simulate, "stop_counting", lambda plane: None)
    whole = simulate.simulate(head, scenario, programs)
    assert {label: _content(each) for label, each in few.decisions.items()} == {
        label: _content(each) for label, each in whole.decisions.items()
    }
    assert few.gpus == whole.gpus == {"l4": 4 + 3 + 2}


def _grant_all(plane: ControlPlane, *, usage_counts: bool) -> None:
    api = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{api}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "kueue"},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": api, "kind": "User", "name": simulate.USER}],
    }
    plane.apply(binding, f"/apis/{api}/v1/clusterrolebindings/kueue")


def test_waits_are_in_the_jobs_time(tmp_path: Path) -> None:
    """One runs, and two wait for its GPUs, one after the other; each takes an hour."""
    found = _ask(tmp_path, *_hours(tmp_path), "--duration", "1h")
    decisions = found["head"]["decisions"]
    assert [decisions[f"team-a/waits-{index}"]["waited"] for index in range(2)] == [3600 + 1, 7200 + 2]
    assert {each["fate"] for each in decisions.values()} == {"ended"}
    assert "median wait to start" in found["comment"]


def test_what_the_player_refuses_is_said(tmp_path: Path) -> None:
    """A queue that drains evicts its work, which only Kueue's controllers do."""
    stack, _, work = _hours(tmp_path)
    document = yaml.safe_load(stack.read_text())
    departments = document["config"]["muster:departments"]
    departments["speech"] = {
        "teams": {"team-d": {"quota": {"l4": 2}, "kueue": {"stopPolicy": "HoldAndDrain"}}}
    }
    stack.write_text(yaml.safe_dump(document))
    found = _ask(tmp_path, stack, stack, work)
    assert (found["decided"], found["why"]) == (False, "ClusterQueue team-d drains the work that runs.")
    assert "Nothing below is a decision of Kueue." in found["comment"]


def _hours(folder: Path) -> tuple[Path, Path, list[Workload]]:
    team = {"team-a": {"quota": {"l4": 2}, "priorities": ["dev"]}}
    stack = _stack(folder, "same", {"research": {"teams": team}})
    running = _work("team-a", "runs", gpus=2, runs=True)
    work = [running, *(_work("team-a", f"waits-{index}", gpus=2, after=10 + index) for index in range(2))]
    return stack, stack, work
