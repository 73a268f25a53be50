"""Which recorded jobs a stack can play, and how many GPUs its queues have."""

from dataclasses import replace

import pytest

from muster.model import names
from muster.model.observability import Budgets
from muster.model.pools import Capacity
from muster.model.prices import BUILT_IN
from muster.model.queues import Allowance, Amount
from muster.model.stack import Scheduler, Stack
from muster.preview.banner import plain
from muster.preview.compare.diff import LoadedSide, diff_stack
from muster.preview.compare.replay import ReplayDiff
from muster.preview.document import Items, Table
from muster.preview.explain import explain
from muster.preview.replay.both import bill_by_team, queues_of
from muster.preview.sections.replay import lead, sections
from muster.replay.figures import Played, Waits, to_figures
from muster.replay.player import Playback, PlayedRun
from muster.replay.recording import Header, Job, PodSet, Recording, Run
from muster.replay.side import NO_POOL, NO_QUEUE, to_side
from tests.unit.model.model_stacks import gpus, pool_of, two_teams
from tests.unit.preview.preview_world import diff, figures

_PODS = PodSet(name="main", count=1, requests={names.GPU_RESOURCE: 1}, pools=("h100",))
_JOB = Job(id="j", team="team-a", created=0, pod_sets=(_PODS,), runs=(Run(reserved=0, admitted=0, ended=9),))
_UNLIMITED = Amount(is_unlimited=True)


def _stack(first: Amount, second: Amount | None = None) -> Stack:
    return two_teams(Allowance(quota={"h100": first}), Allowance(quota={"h100": second}) if second else None)


def _recording(*jobs: Job) -> Recording:
    return Recording(header=Header(scheduler=Scheduler.KUEUE, start=0, end=9, source="test"), jobs=jobs)


def test_jobs_of_unknown_queues_and_pools_are_left_out_and_counted() -> None:
    queue = replace(_JOB, queue="elsewhere")
    pool = replace(_JOB, pod_sets=(replace(_PODS, pools=("b200",)),))
    side = to_side(queues_of(_stack(gpus(8))), _recording(_JOB, queue, pool))
    assert (len(side.jobs), side.left_out) == (1, {NO_QUEUE: 1, NO_POOL: 1})


@pytest.mark.parametrize(("second", "quota"), [(gpus(4), 12), (_UNLIMITED, 32)])
def test_a_quota_without_a_bound_counts_as_the_pool(second: Amount, quota: int) -> None:
    assert to_side(queues_of(_stack(gpus(8), second)), _recording(_JOB)).gpus == quota


def test_pods_without_gpus_and_without_a_selector_tolerate_no_gpu_nodes() -> None:
    """Kueue would otherwise give them quota of GPU pools, which their recorded run never had."""
    on_cpu = replace(_PODS, requests={"cpu": 1000}, pools=())
    of_any = replace(_PODS, pools=())
    listed = replace(_PODS, requests={"cpu": 1000})
    jobs = [replace(_JOB, id=str(n), pod_sets=(each,)) for n, each in enumerate((on_cpu, of_any, listed))]
    side = to_side(queues_of(_stack(gpus(8))), _recording(*jobs))
    found = [
        pod_set["template"]["spec"].get("tolerations", [])
        for entry in side.entries
        for pod_set in entry.workload["spec"]["podSets"]
    ]
    tolerated = [{"key": names.GPU_TAINT_KEY, "operator": "Exists"}]
    assert found == [[], tolerated, tolerated]


def test_explain_words_a_quota_without_a_bound() -> None:
    limited, unlimited = _stack(gpus(8)), _stack(_UNLIMITED)
    for base, head, words in (
        (limited, unlimited, "team-a gains unlimited quota of h100: 8 → unlimited guaranteed."),
        (unlimited, limited, "team-a loses unlimited quota of h100: unlimited → 8 guaranteed."),
    ):
        assert words in map(plain, explain([diff(base, head)], "team-a").stacks[0].summary)


def test_explain_of_a_removed_team_begins_with_that_and_names_no_origin() -> None:
    base = _stack(gpus(8), gpus(4))
    (kept, _) = base.departments[0].teams
    head = replace(base, departments=(replace(base.departments[0], teams=(kept,)),))
    (found,) = explain([diff(base, head)], "team-b").stacks
    assert plain(found.summary[0]) == "team-b is not in head."
    assert "Where the figures come from" not in [each.title for each in found.sections]


def test_a_side_that_lacks_a_team_is_a_dash_and_no_wait_of_zero() -> None:
    waits = Waits(jobs=6, never=0, p50=3600.0, p95=3600.0)
    base, head = (figures(teams, jobs=6) for teams in ({"team-b": waits}, {}))
    replay = ReplayDiff(start=0.0, end=9.0, played=6, base=base, head=head)
    (section,) = lead(replace(diff(_stack(gpus(8)), _stack(gpus(4))), replay=replay))
    table = section.blocks[1]
    assert isinstance(table, Table)
    assert [plain(cell) for cell in table.rows[0]] == ["team-b", "6 → –", "60 min → –", "60 min → –", "0 → –"]


def test_the_months_bill_of_what_was_played_has_the_cost_and_the_share_of_the_budget() -> None:
    queued = _stack(gpus(8))
    # Queued nodes have no price.
    stack = replace(queued, pools=tuple(replace(each, capacity=Capacity.ON_DEMAND) for each in queued.pools))
    played = Played(key="j", label="a/j", team="team-a", queue="team-a", priority="", gpus=4, arrival=0)
    ran = {"a/j": (PlayedRun(start=0, end=7200, usage={"l4": {names.GPU_RESOURCE: 4}}),)}
    playback = Playback(runs=ran, digest="", end=7200, cycles=0, admissions=1, preemptions=0)
    sides = []
    for budget in (None, 288):
        budgets = Budgets(teams={"team-a": budget} if budget else {})
        side = replace(stack, budgets=budgets)
        sides.append(bill_by_team(side, [played], playback, start=0, until=36_000))
    (bill,) = sides[0].values()
    # Eight GPU-hours in ten hours.
    assert bill.hours == pytest.approx(8 * 72)
    pool = pool_of(stack, "l4")
    price = BUILT_IN.of(pool, stack.cluster)
    assert price is not None
    assert bill.costs["USD"] == pytest.approx(8 * 72 * float(price.hourly) / pool.slots_per_node)

    played_side = to_figures([played], playback, {}, gpus=8, start=0, until=36_000)
    replay = ReplayDiff(
        start=0.0, end=36_000.0, played=1, base=played_side, head=played_side, bills=(sides[0], sides[1])
    )
    found = sections(replace(diff(stack, stack), replay=replay))
    table = next(each for each in found if each.title == "Replay: the month's bill by team").blocks[0]
    assert isinstance(table, Table)
    team, hours, cost, share = (plain(cell) for cell in table.rows[0])
    assert (team, hours, share) == ("team-a", "576", "– → 200% of 288")
    assert cost.startswith("USD ")


def test_a_recording_without_a_base_is_said_not_to_be_played() -> None:
    def never(base: Stack, head: Stack) -> ReplayDiff:
        raise AssertionError("there is nothing to compare")

    sides = LoadedSide(), LoadedSide(exists=True, stack=_stack(gpus(8)))
    (section,) = lead(diff_stack("dev", *sides, replay=never))
    (items,) = section.blocks
    assert isinstance(items, Items)
    assert plain(items.texts[0]) == "The recording was not played: there is no base."
