"""Pages with every section of a report and of a what-if, and names that try to break them."""

from dataclasses import replace
from datetime import UTC, datetime

from muster.live.snapshot import Queue, Snapshot, Usage
from muster.model.queues import Allowance, Bound, Department, Limit
from muster.model.stack import Scheduler, Stack
from muster.model.violations import Violation
from muster.preview.compare.diff import LoadedSide, StackDiff, diff_stack
from muster.preview.html import format_html
from muster.preview.plan import PolicyViolation
from muster.preview.report import to_report
from muster.preview.whatif import report as whatif
from muster.preview.whatif.scenario import Decision, Outcome, WorkloadState
from tests.unit.model.model_stacks import CPU, H100, L4, gpus, stack, team
from tests.unit.preview.banner_world import changed_stacks
from tests.unit.preview.preview_world import bundle, diff, plan, step

LONG = "a-name-that-nobody-would-break-anywhere-" * 4
HOSTILE = "</code></td><script>document.title='broken'</script><img src=https://evil.example/x.png>"


def _stack(*quotas: int, most: int = 10) -> Stack:
    teams = tuple(
        team(f"team-{index}", Allowance(quota={"l4": gpus(quota)}, borrow=Limit(otherwise=Bound.ALL)))
        for index, quota in enumerate(quotas)
    )
    departments = (
        Department(name="research", teams=teams),
        Department(name="product", teams=(team(f"team-{LONG[:40]}"),)),
    )
    return stack(*departments, pools=(CPU, replace(L4, max_nodes=most), H100))


def everything() -> str:
    """The page of two stacks: one with every part, one that is refused."""
    base, head = _stack(4, 2, 1), _stack(2, 2, 12, most=20)
    snapshot = Snapshot(
        taken=datetime(2026, 11, 21, 12, tzinfo=UTC),
        scheduler=Scheduler.KUEUE,
        queues=(Queue(name="team-0", parent="research", usage=(Usage("l4", "nvidia.com/gpu", 3),)),),
    )
    found = plan(
        step("replace", LONG, replaceReasons=["name"]),
        step("delete", HOSTILE),
        step("create", "new"),
        step("update", "same"),
        bundle("update", "queues", {"team-0": '{"ClusterQueue/x": {"a": 1}}'}, {"team-0": "{}"}),
        errors=(HOSTILE,),
    )
    violations = (
        PolicyViolation(True, "muster/quota", "", HOSTILE),
        PolicyViolation(False, "muster/cost", "", LONG),
    )
    after = LoadedSide(
        exists=True,
        stack=head,
        warnings=(Violation("muster:pools.l4", LONG, "look", "warning"),),
        plan=replace(found, policy_violations=violations),
    )
    before = LoadedSide(exists=True, stack=base, plan=plan(step("update", "same")))
    whole = diff_stack("dev", before, after, snapshot=snapshot)
    broken = StackDiff(name=HOSTILE, changes=None, head_mistakes=(Violation("line 1", LONG, HOSTILE),))
    return format_html(to_report([whole, broken]))


def reviewed() -> str:
    """The page of a realistic change: two teams lose, one is new, so is a priority, and the pool grows."""
    device = "nvidia.com/gpu"
    used = {"vision": ("h100", 30), "notebooks": ("l4", 3)}
    snapshot = Snapshot(
        taken=datetime(2026, 11, 21, 12, tzinfo=UTC),
        scheduler=Scheduler.KUEUE,
        queues=tuple(
            Queue(name=name, parent="company", usage=(Usage(pool, device, amount),))
            for name, (pool, amount) in used.items()
        ),
    )
    sides = changed_stacks("smaller-quotas-new-team-new-priority")
    return format_html(to_report([diff(*sides, name="gke-prod", snapshot=snapshot)]))


def answered() -> str:
    """The page of a what-if in which somebody loses, somebody gains, and many wait."""
    base, head = _stack(4, 2, 1), _stack(2, 2, 12, most=20)
    lost = Decision(
        namespace="team-0",
        name=LONG,
        state=WorkloadState.PENDING,
        why=HOSTILE,
        preemptor=HOSTILE,
        how="InCohortReclamation",
    )
    waiting = [
        Decision(
            namespace=f"team-{index % 3}",
            name=f"job-{index}",
            state=WorkloadState.PENDING,
            why=f"{LONG} {index}",
        )
        for index in range(30)
    ]
    before = _outcome(
        replace(lost, state=WorkloadState.RUNNING, why="", preemptor="", how=""), *waiting, used=3
    )
    after = _outcome(
        lost, *waiting[1:], replace(waiting[0], state=WorkloadState.ADMITTED, waited=60.0), used=12
    )
    answer = whatif.Comparison(name="dev", base=before, head=after, base_stack=base, head_stack=head)
    return format_html(whatif.to_report(answer))


def _outcome(*decisions: Decision, used: int) -> Outcome:
    return Outcome(
        decisions={each.label: each for each in decisions},
        used={("team-0", "default"): {"l4": used}},
        is_settled=False,
        seconds=60.0,
    )
