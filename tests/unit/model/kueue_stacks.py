"""Stacks that say something to Kueue, as Hypothesis likes them: sound ones alone, with names of their own."""

from dataclasses import replace
from itertools import count
from types import MappingProxyType

from hypothesis import assume
from hypothesis import strategies as st

from muster.model.kueue import (
    BorrowPreemption,
    BorrowWithinCohort,
    CheckUse,
    ConcurrentAdmission,
    Effect,
    FlavorQuota,
    Fungibility,
    Group,
    LocalQueue,
    Migration,
    Operator,
    PoolOptions,
    Preference,
    QueueOptions,
    Quota,
    Search,
    StopPolicy,
    Taint,
    Toleration,
)
from muster.model.quantities import Quantity
from muster.model.queues import Allowance, Department, Preemption, Queueing, Reclaim, Team, Within
from muster.model.stack import GangAdmission, GangMode, Stack
from muster.validation import check
from tests.unit.model.kueue_files import everything
from tests.unit.model.model_stacks import stacks

# Objects of an earlier example may stand still: a ClusterQueue has fields that never change.
_EXAMPLES = count()
_AMOUNTS = st.sampled_from(["0", "1", "1500m", "2k", "1Gi", "1000", "0.5"]).map(Quantity.parse)
_FUNGIBILITY = st.one_of(
    st.builds(Fungibility, when_can_borrow=st.sampled_from(Search), when_can_preempt=st.sampled_from(Search)),
    st.builds(
        Fungibility,
        when_can_borrow=st.just(Search.TRY_NEXT),
        when_can_preempt=st.just(Search.TRY_NEXT),
        preference=st.sampled_from(Preference),
    ),
)
_BORROW = st.builds(
    BorrowWithinCohort,
    policy=st.just(BorrowPreemption.LOWER_PRIORITY),
    max_priority_threshold=st.none() | st.integers(100, 2000),
)
_TAINTS = st.lists(
    st.builds(
        Taint,
        key=st.sampled_from(["a", "example.com/b"]),
        effect=st.sampled_from(Effect),
        value=st.sampled_from(["", "x"]),
    ),
    max_size=2,
    unique_by=lambda taint: (taint.key, taint.effect),
).map(tuple)
_TOLERATIONS = st.lists(
    st.builds(
        Toleration,
        key=st.sampled_from(["a", "example.com/b"]),
        operator=st.just(Operator.EQUAL),
        value=st.sampled_from(["", "x"]),
        effect=st.none() | st.sampled_from(Effect),
    ),
    max_size=2,
).map(tuple)
_POOLS = st.builds(
    PoolOptions,
    flavor=st.none() | st.sampled_from(["nodes"]).map(lambda word: f"{word}-{next(_EXAMPLES)}"),
    node_labels=st.sampled_from([{}, {"example.com/zone": "a"}]).map(MappingProxyType),
    node_taints=_TAINTS,
    tolerations=_TOLERATIONS,
)


@st.composite
def _group(draw: st.DrawFn) -> tuple[Group, ...]:
    names = draw(
        st.lists(st.sampled_from(["example.com/licence", "example.com/seat"]), unique=True, max_size=2)
    )
    if not names:
        return ()
    quotas = tuple(Quota(name=name, nominal=draw(_AMOUNTS)) for name in names)
    order = tuple(draw(st.permutations(names)))
    return (Group(covered_resources=order, flavors=(FlavorQuota(name="licences", resources=quotas),)),)


@st.composite
def _team(draw: st.DrawFn, team: Team, *, is_weighted: bool) -> Team:
    within, reclaim = draw(st.sampled_from(Within)), draw(st.sampled_from(Reclaim))
    concurrent = draw(st.booleans())
    groups = () if concurrent else draw(_group())
    options = QueueOptions(
        cluster_queue=draw(st.none() | st.just(f"cluster-{team.name}")),
        local_queues=tuple(
            LocalQueue(name=name, stop_policy=draw(st.sampled_from(StopPolicy)))
            for name in draw(st.lists(st.sampled_from(["night", "default"]), unique=True, max_size=2))
        ),
        stop_policy=draw(st.sampled_from(StopPolicy)),
        fungibility=draw(st.none() | _FUNGIBILITY),
        borrow_within_cohort=BorrowWithinCohort()
        if is_weighted or reclaim is Reclaim.NEVER
        else draw(st.just(BorrowWithinCohort()) | _BORROW),
        admission_checks=tuple(draw(st.sampled_from([[], [CheckUse(name="budget")]]))),
        concurrent_admission=ConcurrentAdmission(mode=draw(st.sampled_from(Migration)))
        if concurrent
        else None,
        resource_groups=groups,
    )
    return replace(
        team,
        kueue=options,
        preemption=Preemption(within=within, reclaim=reclaim),
        queueing=Queueing.BEST_EFFORT if concurrent else draw(st.sampled_from(Queueing)),
    )


@st.composite
def kueue_stacks(draw: st.DrawFn) -> Stack:
    """Any tree over three pools, with anything said to Kueue that breaks no rule."""
    some, number = draw(stacks()), next(_EXAMPLES)
    is_weighted = draw(st.booleans())

    def allowance(said: Allowance) -> Allowance:
        return said if is_weighted else replace(said, weight=None)

    def department(said: Department) -> Department:
        return replace(
            said,
            name=f"{said.name}-{number}",
            allowance=allowance(said.allowance),
            departments=tuple(department(child) for child in said.departments),
            teams=tuple(team(each) for each in said.teams),
        )

    def team(said: Team) -> Team:
        name = f"{said.name}-{number}"
        if said.queue is not None:
            return replace(said, name=name, namespace=name, queue=f"{said.queue}-{number}")
        named = replace(said, name=name, namespace=name, allowance=allowance(said.allowance))
        return draw(_team(named, is_weighted=is_weighted))

    (full, _) = everything()
    found = replace(
        some,
        pools=tuple(replace(pool, kueue=draw(_POOLS)) for pool in some.pools),
        departments=tuple(department(each) for each in some.departments),
        kueue=full.kueue,
    )
    # Muster's check takes no concurrent admission.
    is_concurrent = any(each.kueue.concurrent_admission for _, each in found.teams())
    modes = [mode for mode in GangMode if not (is_concurrent and mode is GangMode.MUSTER)]
    found = replace(found, gang_admission=GangAdmission(mode=draw(st.sampled_from(modes))))
    assume(not any(each.level == "error" and ".kueue." in each.path for each in check(found, adjacent={})))
    return found
