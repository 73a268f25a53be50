"""Any KAI stack that Hypothesis likes: trees, figures, shards."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from muster.model.kai import (
    UNLIMITED,
    KaiSettings,
    MilliGpus,
    Placement,
    QueueSettings,
    ShardSettings,
    Share,
    Shares,
    Strategy,
)
from muster.model.quantities import Bytes, Millicores
from muster.model.queues import Department
from muster.model.stack import Scheduler, Stack
from tests.unit.model.model_stacks import CPU, H100, L4, stacks

_POOLS = ("cpu", "l4", "h100")


def _figures(most: int, kind: Any) -> st.SearchStrategy[Any]:
    return st.none() | st.just(UNLIMITED) | st.integers(0, most).map(kind)


def _shares(most: int, kind: Any) -> st.SearchStrategy[Share[Any]]:
    figures, weights = _figures(most, kind), st.none() | st.integers(0, 9)
    return st.builds(Share, quota=figures, limit=figures, over_quota_weight=weights)


_THREE = st.builds(
    Shares, gpu=_shares(64_000, MilliGpus), cpu=_shares(10**6, Millicores), memory=_shares(10**15, Bytes)
)
_SECONDS = st.none() | st.integers(0, 10**6)
_QUEUES = st.builds(
    QueueSettings,
    display_name=st.none() | st.sampled_from(["A", "Team Ä"]),
    priority=st.none() | st.integers(0, 2**31 - 1),
    preempt_min_runtime=_SECONDS,
    reclaim_min_runtime=_SECONDS,
    shares=_THREE,
    pools=st.dictionaries(st.sampled_from(_POOLS), _THREE, max_size=2),
)
_SHARDS = st.builds(
    ShardSettings,
    placement=st.builds(Placement, gpu=st.sampled_from(Strategy), cpu=st.sampled_from(Strategy)),
    preempt_min_runtime=_SECONDS,
    reclaim_min_runtime=_SECONDS,
    k_value=st.none() | st.floats(0, 100),
    queue_depth=st.dictionaries(st.sampled_from(["preempt", "reclaim"]), st.integers(1, 100), max_size=2),
    memory_limit_ratio=st.none() | st.floats(0.01, 1),
)


@st.composite
def kai_stacks(draw: st.DrawFn) -> Stack:
    """One GPU pool or two, so one shard or one a pool; everybody may say anything about their Queues. Figures
    may contradict each other: the rules judge that, the API server does not.
    """

    def spoken(department: Department) -> Department:
        teams = tuple(replace(team, kai=draw(_QUEUES)) for team in department.teams)
        below = tuple(spoken(child) for child in department.departments)
        return replace(department, kai=draw(_QUEUES), teams=teams, departments=below)

    plain = draw(stacks())
    return replace(
        plain,
        pools=draw(st.sampled_from([(CPU, L4), (CPU, L4, H100)])),
        departments=tuple(spoken(department) for department in plain.departments),
        scheduler=Scheduler.KAI,
        kai=draw(st.builds(KaiSettings, shard=_SHARDS)),
    )
