"""Any KAI stack that Hypothesis likes: trees, figures, shards."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from muster.model.kai import (
    UNLIMITED,
    KaiSettings,
    MilliGpus,
    QueueSettings,
    QueueSpec,
    ShardSettings,
    Share,
    Shares,
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
_DURATIONS = st.integers(0, 10**6).map("{}s".format)


def _specs(kind: Any, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({}, optional=fields).map(kind)


_RUNTIMES = {"preemptMinRuntime": _DURATIONS, "reclaimMinRuntime": _DURATIONS}
_QUEUES = st.builds(
    QueueSettings,
    spec=_specs(
        QueueSpec,
        displayName=st.sampled_from(["A", "Team Ä"]),
        priority=st.integers(0, 2**31 - 1),
        **_RUNTIMES,
    ),
    shares=_THREE,
    pools=st.dictionaries(st.sampled_from(_POOLS), _THREE, max_size=2),
)
_STRATEGIES = st.sampled_from(["binpack", "spread"])
_SHARDS = _specs(
    ShardSettings,
    placementStrategy=st.fixed_dictionaries({"gpu": _STRATEGIES, "cpu": _STRATEGIES}),
    minRuntime=st.fixed_dictionaries({}, optional=_RUNTIMES),
    kValue=st.floats(0, 100),
    queueDepthPerAction=st.dictionaries(st.sampled_from(["preempt", "reclaim"]), st.integers(1, 100)),
    goMemLimitRatio=st.floats(0.01, 1),
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
