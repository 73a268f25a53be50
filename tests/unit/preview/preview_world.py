"""Plans as the engine prints them, reports of two stacks, and repositories that hold one side."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from muster import config
from muster.live.snapshot import Snapshot
from muster.model.capacity import Capacity
from muster.model.machines import MACHINES
from muster.model.pools import Pool
from muster.model.prices import BUILT_IN, PriceTable
from muster.model.queues import Department
from muster.model.stack import Stack
from muster.preview.compare.diff import LoadedSide, StackDiff, diff_stack
from muster.preview.document import Report
from muster.preview.plan import Plan, parse_plan
from muster.preview.report import to_stack_report
from muster.replay.figures import Curve, Figures, Waits
from muster.replay.forecast import Forecast
from tests.unit.model.model_stacks import CPU, EKS, L4, parsed, stack, team

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
LOCAL = ROOT / "stacks" / "Pulumi.local.yaml"
KAI = ROOT / "stacks" / "Pulumi.kai-prod.yaml"
KAI_PROD = config.load(KAI)
# A stack file up to its departments: a pool of eight GPUs.
LAB = """\
config:
  muster:cluster: {provider: existing, name: lab, context: lab}
  muster:pools:
    cpu: {machine: local-cpu, minNodes: 1, maxNodes: 1}
    l4: {accelerator: nvidia-l4, machine: local-l4, maxNodes: 8}
  muster:priorities: {prod: 1000, dev: 100}
  muster:departments:
"""
# What `pulumi preview --json` (3.200) printed for stack `local` with one team changed, one new, one gone and
# one priority of another value; stack traces and unchanged inputs are left out.
PLAN = HERE / "plan.json"


def step(
    op: str, name: str = "thing", *, kind: str = "kubernetes:core/v1:Secret", **more: object
) -> dict[str, object]:
    urn = f"urn:pulumi:dev::muster::muster:index:Platform${kind}::{name}"
    return {"op": op, "urn": urn, **more}


def bundle(op: str, name: str, old: dict[str, str] | None, new: dict[str, str] | None) -> dict[str, object]:
    """A step of a Bundle; None is a side that is not there."""
    states = {"oldState": old, "newState": new}
    written = {
        key: {"inputs": {"manifests": manifests}}
        for key, manifests in states.items()
        if manifests is not None
    }
    return step(op, name, kind="muster:k8s:Bundle", **written)


def plan(*steps: dict[str, object], errors: tuple[str, ...] = ()) -> Plan:
    diagnostics = [{"message": f"error: {message}\n", "severity": "error"} for message in errors]
    return parse_plan(
        json.dumps({"config": {}, "steps": steps, "diagnostics": diagnostics}), source="plan.json"
    )


def diff(
    base: Stack | None,
    head: Stack | None,
    head_plan: Plan | None = None,
    *,
    name: str = "dev",
    snapshot: Snapshot | None = None,
    prices: PriceTable = BUILT_IN,
) -> StackDiff:
    """Two valid sides, compared. None is a side that does not have the stack."""
    before = LoadedSide(exists=base is not None, stack=base)
    after = LoadedSide(exists=head is not None, stack=head, plan=head_plan)
    return diff_stack(name, before, after, prices=prices, snapshot=snapshot)


def report(
    base: Stack | None, head: Stack | None, head_plan: Plan | None = None, *, name: str = "dev"
) -> Report:
    return Report((to_stack_report(diff(base, head, head_plan, name=name)),))


def git(folder: Path, *arguments: str) -> str:
    """The output of git. The author is the same on every machine."""
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def commit(folder: Path) -> None:
    """A repository with all that is in the folder as its one commit, on main."""
    for arguments in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "first")):
        git(folder, *arguments)


def changed_kai(*pairs: tuple[str, str]) -> Stack:
    """KAI_PROD with pieces of its file replaced."""
    return parsed(_replaced(KAI, *pairs))


def local_without_l4(folder: Path) -> Path:
    """The file of stack local in which team-a has no quota of l4."""
    path = folder / LOCAL.name
    path.write_text(
        _replaced(LOCAL, ("quota: {l4: 1, h100: 1}, borrow", "quota: {h100: 1}, borrow")), "utf-8"
    )
    return path


def _replaced(file: Path, *pairs: tuple[str, str]) -> str:
    text = file.read_text(encoding="utf-8")
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def priced(most: int, *further: Pool) -> Stack:
    """On EKS: up to `most` nodes of a machine that has a price, and further pools."""
    g5 = replace(L4, machine=MACHINES["g5.xlarge"], capacity=Capacity.ON_DEMAND, provisioning_class=None)
    pools = (CPU, replace(g5, max_nodes=most, min_nodes=1), *further)
    return replace(stack(Department(name="research", teams=(team("team-a"),)), pools=pools), cluster=EKS)


def figures(teams: Mapping[str, Waits], **more: Any) -> Figures:
    """A side that was played, of which the waits of teams matter."""
    plain = Figures(
        jobs=1,
        quota=1,
        teams=teams,
        priorities={},
        sizes={},
        hours={},
        preemptions={},
        utilisation=Curve(start=0, step=60.0, used=()),
        worst=(),
        digest="",
    )
    return replace(plain, **more)


def forecast(**more: Any) -> Forecast:
    """Of the one job that waits."""
    plain = Forecast(
        job="team-a/submitted",
        team="team-a",
        priority="dev",
        gpus=4,
        at=0,
        learned_until=0,
        earliest=0,
        median=0,
        latest=0,
        starts=(),
        runs=0,
        unstarted=0,
        seconds=9000,
        seed=0,
        place=1,
        waiting=1,
        ahead=(),
        ends=(),
        preempts=(),
        left_out={},
    )
    return replace(plain, **more)


def schema_errors(schema: str, *files: Path) -> str:
    """What a forge's own schema refuses in CI files."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    if schema == "gitlab-ci":
        command += ["--data-transform", "gitlab-ci"]
    done = subprocess.run(
        [*command, *map(str, files)], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout if done.returncode else ""
