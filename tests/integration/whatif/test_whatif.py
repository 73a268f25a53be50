"""`preview what-if` with the real Kueue: what it tells is what Kueue decides."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from localplane import bare
from model import names
from preview.__main__ import main
from preview.snapshot import PodSet, Snapshot, State, Toleration, Workload, dump

_TAKEN = datetime(2026, 1, 1, tzinfo=UTC)
_TEAMS = {
    "team-a": {"quota": {"l4": 2}, "priorities": ["prod", "dev"]},
    "team-b": {"quota": {"l4": 2}, "borrow": {"l4": 2}, "priorities": ["dev"]},
}


@pytest.fixture(scope="module", autouse=True)
def programs() -> None:
    if bare.found() is None:
        pytest.skip("no etcd, kube-apiserver and Kueue: build them with `make build`")


def _stack(folder: Path, name: str, teams: dict[str, Any] = _TEAMS) -> Path:
    config = {
        "muster:cluster": {"provider": "existing", "name": "lab", "context": "lab"},
        "muster:pools": {
            "cpu": {"machine": "local-cpu", "minNodes": 1, "maxNodes": 1},
            "l4": {"accelerator": "nvidia-l4", "machine": "local-l4", "maxNodes": 4},
        },
        "muster:priorities": {"prod": 1000, "dev": 100},
        "muster:departments": {"research": {"teams": teams}},
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


def _ask(folder: Path, base: Path, head: Path, work: list[Workload], *more: str) -> dict[str, Any]:
    snapshot = Snapshot(taken=_TAKEN, scheduler="kueue", queues=(), workloads=tuple(work))  # type: ignore[arg-type]
    (folder / "snapshot.json").write_text(dump(snapshot))
    command = [
        "what-if",
        "--base",
        str(base),
        "--head",
        str(head),
        "--snapshot",
        str(folder / "snapshot.json"),
    ]
    out, comment = folder / "answer.json", folder / "comment.md"
    assert main([*command, "--json", str(out), "--markdown", str(comment), *more]) == 0
    found: dict[str, Any] = json.loads(out.read_text())
    return {**found, "comment": comment.read_text()}


def test_a_quota_that_returns_preempts_who_borrowed_it_and_says_so(tmp_path: Path) -> None:
    """team-b borrows both GPUs of team-a, who waits; in base team-a has no quota to take back."""
    poor = {
        "team-a": {"quota": {"l4": 0}, "priorities": ["prod", "dev"]},
        "team-b": {"quota": {"l4": 4}, "priorities": ["dev"]},
    }
    work = [
        *(_work("team-b", f"runs-{index}", gpus=1, runs=True, after=index) for index in range(4)),
        _work("team-a", "waits", gpus=2, after=10),
    ]
    told = _ask(tmp_path, _stack(tmp_path, "base", poor), _stack(tmp_path, "head"), work)
    base, head = told["base"]["decisions"], told["head"]["decisions"]
    assert base["team-a/waits"]["fate"] == "pending"
    assert base["team-a/waits"]["why"]
    assert not [each for each in base.values() if each["how"]]
    assert head["team-a/waits"]["fate"] == "admitted"
    victims = [each for each in head.values() if each["how"]]
    assert len(victims) == 2
    assert {each["preemptor"] for each in victims} == {"team-a/waits"}
    assert told["head"]["gpus"] == {"l4": 4}
    assert "is preempted by `team-a/waits`, which takes its own quota back" in told["comment"]


def test_what_can_start_by_no_preemption_does_not_hold_up_what_fits_behind_it(tmp_path: Path) -> None:
    """The urgent one needs two GPUs of its own team's, whose one is taken by work that is as urgent."""
    stack = _stack(tmp_path, "same", {"team-a": {"quota": {"l4": 3}, "priorities": ["prod", "dev"]}})
    work = [
        _work("team-a", "runs", gpus=2, priority=1000, runs=True),
        _work("team-a", "urgent", gpus=2, priority=1000, after=1),
        _work("team-a", "small", gpus=1, priority=100, after=2),
    ]
    told = _ask(tmp_path, stack, stack, work)
    decisions = told["head"]["decisions"]
    assert decisions["team-a/urgent"]["fate"] == "pending"
    assert decisions["team-a/small"]["fate"] == "admitted"


def test_waits_are_told_in_the_jobs_own_time_with_the_compression_beside_them(tmp_path: Path) -> None:
    """One runs, and two wait for its GPUs, one after the other; each takes an hour."""
    stack = _stack(tmp_path, "same", {"team-a": {"quota": {"l4": 2}, "priorities": ["dev"]}})
    running = _work("team-a", "runs", gpus=2, runs=True)
    work = [running, *(_work("team-a", f"waits-{index}", gpus=2, after=10 + index) for index in range(2))]
    told = _ask(tmp_path, stack, stack, work, "--duration", "1h", "--compress", "720")
    decisions = told["head"]["decisions"]
    first, second = (decisions[f"team-a/waits-{index}"]["waited"] for index in range(2))
    # Kueue's own seconds count 720 times and come on top.
    assert first >= 3600
    assert second - first >= 3600
    assert {each["fate"] for each in decisions.values()} == {"ended"}
    assert "720 times as fast" in told["comment"]
