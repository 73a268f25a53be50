"""A change that deletes a team's data is named in the first line, and `--fail-on loss` refuses it."""

from dataclasses import replace

import pytest

from muster.model.queues import Department, Team
from muster.model.stack import Stack
from muster.model.tenancy import Access, Namespaces, Tenancy, Volume
from muster.preview.failing import FailOn, failures
from muster.preview.json_report import to_json
from muster.preview.markdown import format_comment
from tests.unit.model.model_stacks import stack
from tests.unit.preview.preview_world import diff, report


def _stack(*namespaces: str, volume: str | None) -> Stack:
    """A team in these namespaces, with a volume in the one that is named."""
    first, *further = namespaces
    data = (Volume(name="data", size="1Ti", namespace=volume),) if volume else ()
    team = Team(name="x", namespace=first, further_namespaces=tuple(further), access=Access(volumes=data))
    return stack(Department(name="research", teams=(team,)))


def test_a_volume_that_moves_is_named_with_both_its_places() -> None:
    base, head = _stack("a", "b", volume="a"), _stack("a", "b", volume="b")
    text = format_comment(report(base, head))
    assert "1 volume deleted with the data" in text
    moved = (
        "The volume `data` of team `x` is made anew, empty, in `b`; the one in `a` is deleted with its data."
    )
    assert moved in text
    assert failures([diff(base, head)], [FailOn.LOSS]) == [
        "dev: volume data of team x in namespace a is deleted."
    ]
    (found,) = to_json([diff(base, head)])["stacks"]
    assert found["volumes"] == [{"team": "x", "name": "data", "before": "a", "after": "b"}]


@pytest.mark.parametrize("after", [("b",), ("b", "c")])
def test_a_namespace_that_is_taken_off_the_list_is_named(after: tuple[str, ...]) -> None:
    base, head = _stack("a", "b", volume=None), _stack(*after, volume=None)
    text = format_comment(report(base, head))
    assert "namespace `a` deleted" in text
    assert "Namespace `a` of team `x` is deleted with all that is in it." in text
    assert failures([diff(base, head)], [FailOn.LOSS]) == ["dev: namespace a of team x is deleted."]


def test_a_renamed_namespace_takes_its_volume_with_it() -> None:
    text = format_comment(report(_stack("a", volume="a"), _stack("b", volume="b")))
    assert "namespace `a` deleted, 1 volume deleted with the data" in text


def test_another_order_and_one_more_namespace_lose_nothing() -> None:
    base, head = _stack("a", "b", volume="a"), _stack("c", "b", "a", volume="a")
    assert "no team loses quota" in format_comment(report(base, head))
    assert failures([diff(base, head)], [FailOn.LOSS]) == []


def test_namespaces_that_others_make_and_what_is_in_one_that_is_handed_over_are_not_lost() -> None:
    theirs = Tenancy(namespaces=Namespaces.EXISTING)
    base, head = _stack("a", "b", volume="a"), replace(_stack("a", "b", volume=None), tenancy=theirs)
    assert failures([diff(base, head)], [FailOn.LOSS]) == []
    assert failures([diff(head, replace(_stack("a", volume=None), tenancy=theirs))], [FailOn.LOSS]) == []
