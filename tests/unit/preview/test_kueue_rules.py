"""Preemption with Kueue follows the configuration of the queues."""

from dataclasses import replace

import pytest

from muster.model.kueue.tree import to_tree
from muster.model.queues import Allowance, Bound, Department, Limit, Preemption, Reclaim, Share, Within
from muster.model.stack import Stack
from muster.preview.compare.preemption import KueueRules
from muster.preview.compare.preemption_rules import Right
from tests.unit.model.model_stacks import gpus, stack, team, two_teams

_ALL: dict[str, Share] = {"l4": Bound.ALL}
_NOTHING_SAID = Allowance()
_OWNER = Allowance(quota={"l4": gpus(2)})
_BORROWER = Allowance(borrow=Limit(pools=_ALL))


def _may(found: Stack, one: str = "team-a", two: str = "team-b") -> dict[str, Right]:
    rights = KueueRules.of(to_tree(found)).rights(one, two)
    return {pool: right for pool, right in rights.items() if pool != "cpu"}


def _policy(found: Stack, name: str, preemption: Preemption, priorities: tuple[str, ...] = ()) -> Stack:
    """The stack with another policy, and other priorities, of one team of its first department."""
    first = found.departments[0]
    teams = tuple(
        replace(each, preemption=preemption, priorities=priorities) if each.name == name else each
        for each in first.teams
    )
    return replace(found, departments=(replace(first, teams=teams), *found.departments[1:]))


def test_an_owner_reclaims_from_a_borrower_and_not_vice_versa() -> None:
    found = two_teams(_OWNER, _BORROWER)
    assert _may(found) == {"l4": Right.RECLAIM}
    assert _may(found, "team-b", "team-a") == {}


def test_who_may_not_borrow_holds_nothing_that_could_be_reclaimed() -> None:
    assert _may(two_teams(_OWNER, Allowance(quota={"l4": gpus(1)}))) == {}


def test_what_is_not_lent_need_not_be_reclaimed() -> None:
    keeps = replace(_OWNER, lend=Limit(pools={"l4": Bound.NONE}))
    lends = Allowance(quota={"l4": gpus(1)}, borrow=Limit(pools=_ALL))
    assert _may(two_teams(keeps, lends)) == {}


def test_never_means_never() -> None:
    found = _policy(two_teams(_OWNER, _BORROWER), "team-a", Preemption(reclaim=Reclaim.NEVER))
    assert _may(found) == {}


@pytest.mark.parametrize(("theirs", "expected"), [(("prod",), {}), (("dev",), {"l4": Right.RECLAIM})])
def test_reclaiming_from_lower_priority_needs_a_lower_one(
    theirs: tuple[str, ...], expected: dict[str, Right]
) -> None:
    found = _policy(two_teams(_OWNER, _BORROWER), "team-a", Preemption(reclaim=Reclaim.LOWER_PRIORITY))
    assert _may(_policy(found, "team-b", Preemption(), theirs)) == expected


def test_separate_departments_share_nothing() -> None:
    found = stack(
        Department(name="research", teams=(team("team-a", _OWNER),)),
        Department(name="product", teams=(team("team-b", _BORROWER), team("team-c", _OWNER))),
    )
    assert _may(found) == {}
    assert _may(found, "team-c", "team-b") == {"l4": Right.RECLAIM}


def _nested(allowance: Allowance = _NOTHING_SAID) -> Stack:
    vision = Department(
        name="vision", allowance=allowance, teams=(team("team-a", _OWNER), team("mate", _BORROWER))
    )
    speech = Department(name="speech", teams=(team("team-b", _BORROWER),))
    return stack(Department(name="research", departments=(vision, speech)))


def test_a_mate_gets_back_what_its_department_lends_to_others() -> None:
    assert _may(_nested(), "mate", "team-b") == {"l4": Right.RECLAIM}
    assert _may(_nested(), "mate", "team-a") == {}


def test_a_department_that_lends_nothing_has_nothing_outside_to_reclaim() -> None:
    closed = Allowance(lend=Limit(pools={"l4": Bound.NONE}))
    assert _may(_nested(closed), "team-a", "team-b") == {}
    assert _may(_nested(closed), "team-a", "mate") == {"l4": Right.RECLAIM}


def test_a_department_that_borrows_nothing_shields_its_teams_outside() -> None:
    inner = Department(
        name="speech",
        allowance=Allowance(borrow=Limit(pools={"l4": Bound.NONE})),
        teams=(team("team-b", _BORROWER),),
    )
    owners = Department(name="vision", teams=(team("team-a", _OWNER),))
    assert _may(stack(Department(name="research", departments=(owners, inner)))) == {}


def test_fair_sharing_lets_borrowers_preempt_each_other_and_nothing_else_does() -> None:
    def three(weight: int | None) -> Stack:
        borrowers = [team(name, replace(_BORROWER, weight=weight)) for name in ("team-a", "team-b")]
        return stack(Department(name="research", teams=(*borrowers, team("owner", _OWNER))))

    assert _may(three(None)) == {}
    assert _may(three(2)) == {"l4": Right.FAIR}
    assert _may(three(2), "owner", "team-a") == {"l4": Right.RECLAIM}
    assert _may(three(2), "team-a", "owner") == {}


@pytest.mark.parametrize(
    ("within", "priorities", "expected"),
    [
        (Within.NEVER, (), False),
        (Within.LOWER_PRIORITY, (), True),
        (Within.LOWER_PRIORITY, ("dev",), False),
        (Within.LOWER_OR_NEWER, ("dev",), True),
    ],
)
def test_inside_a_team_priorities_decide(within: Within, priorities: tuple[str, ...], expected: bool) -> None:
    found = _policy(two_teams(_OWNER), "team-a", Preemption(within=within), priorities)
    assert KueueRules.of(to_tree(found)).can_preempt_within("team-a") is expected


def _behind(allowance: Allowance, *, outside: Allowance = _BORROWER, weight: int | None = None) -> Stack:
    """team-a beside two departments: in one team-b and an owner behind `allowance`, in the other an owner."""
    inner = Department(
        name="inner", allowance=allowance, teams=(team("team-b", _BORROWER), team("inner-owner", _OWNER))
    )
    other = Department(name="other", teams=(team("other-owner", _OWNER),))
    teams = (team("team-a", replace(outside, weight=weight)),)
    return stack(Department(name="research", departments=(inner, other), teams=teams))


def test_a_victim_in_a_closed_department_is_not_preempted_from_outside() -> None:
    closed = Allowance(borrow=Limit(pools={"l4": Bound.NONE}))
    assert _may(_behind(closed, outside=_OWNER)) == {}
    assert _may(_behind(_NOTHING_SAID, outside=_OWNER)) == {"l4": Right.RECLAIM}
    assert _may(_behind(closed), "inner-owner", "team-b") == {"l4": Right.RECLAIM}


def test_fair_sharing_reaches_behind_a_closed_department_as_far_as_it_lends() -> None:
    borrows_nothing, shut = Limit(pools={"l4": Bound.NONE}), Limit(pools={"l4": Bound.NONE})
    assert _may(_behind(Allowance(borrow=borrows_nothing), weight=1)) == {"l4": Right.FAIR}
    assert _may(_behind(Allowance(borrow=borrows_nothing, lend=shut), weight=1)) == {}


def test_quota_that_stays_in_its_department_is_not_reclaimed_from_outside() -> None:
    closed = Allowance(lend=Limit(pools={"l4": Bound.NONE}))
    found = _behind(closed)
    assert _may(found, "inner-owner", "team-a") == {}
    assert _may(found, "other-owner", "team-a") == {"l4": Right.RECLAIM}


def test_who_neither_lends_nor_borrows_reclaims_nothing_of_its_department() -> None:
    none = Limit(pools={"l4": Bound.NONE})
    alone = Allowance(quota={"l4": gpus(1)}, borrow=none, lend=none)
    vision = Department(name="vision", teams=(team("team-a", alone), team("owner", _OWNER)))
    outside = (team("team-b", _BORROWER),)
    assert _may(stack(Department(name="research", departments=(vision,), teams=outside))) == {}


def test_every_department_on_the_way_out_has_to_lend() -> None:
    none = Limit(pools={"l4": Bound.NONE})
    inner = Department(
        name="inner",
        allowance=Allowance(borrow=none),
        teams=(team("team-b", _BORROWER), team("owner", _OWNER)),
    )

    def found(lend: Limit) -> Stack:
        outer = Department(name="outer", allowance=Allowance(lend=lend), departments=(inner,))
        other = Department(name="other", teams=(team("other-owner", _OWNER),))
        teams = (team("team-a", replace(_BORROWER, weight=1)),)
        return stack(Department(name="research", departments=(outer, other), teams=teams))

    assert _may(found(Limit())) == {"l4": Right.FAIR}
    assert _may(found(none)) == {}
