"""The oracle of the fault suite sees what must never be, also when it lasts for one revision only, and finds
nothing in stories that are as they should be.
"""

import pytest

from tests.faults.oracle import judge
from tests.unit.faults.stories import (
    FIRST,
    Step,
    evicted,
    node,
    request,
    story,
    template,
    without_quota,
    workload,
)

_WHOLE: tuple[Step, ...] = (
    ("Workload", workload(), "gang"),
    ("PodTemplate", template(), "a-0"),
    ("ProvisioningRequest", request(), "a"),
    ("Node", node(), "n0"),
    ("Node", node(), "n1"),
)
_READY: Step = ("Workload", workload("Ready"), "gang")
_LOST: Step = ("Workload", without_quota(), "gang")
_GONE: tuple[Step, ...] = (("ProvisioningRequest", None, "a"), ("PodTemplate", None, "a-0"))


def _sees(match: str, *steps: Step) -> None:
    with pytest.raises(AssertionError, match=match):
        judge(story(*steps), since=FIRST - 1)


def _passes(*steps: Step) -> None:
    judge(story(*steps), since=FIRST - 1)


# A gang's story


def test_a_whole_gang_may_be_ready_and_lose_everything_later() -> None:
    _passes(*_WHOLE, _READY, ("Node", None, "n0"), *_GONE)


def test_a_gang_that_loses_its_quota_may_come_back_on_requests_of_its_own() -> None:
    _passes(
        *_WHOLE,
        ("Workload", evicted(), "gang"),
        _LOST,
        *_GONE,
        ("Workload", workload(since="10:05:00"), "gang"),
        ("ProvisioningRequest", request(attempt="second"), "b"),
        ("Workload", workload("Ready", since="10:05:00"), "gang"),
    )


def test_a_name_that_is_free_again_is_another_requests() -> None:
    again = ("Workload", workload(since="10:05:00"), "gang")
    ready = ("Workload", workload("Ready", since="10:05:00"), "gang")
    _passes(*_WHOLE, _LOST, *_GONE, again, ("ProvisioningRequest", request(), "a"), ready)


# Ready


@pytest.mark.parametrize(
    "step",
    [
        ("Node", None, "n0"),
        ("Node", node(ready=False), "n0"),
        ("Node", node(lease="another"), "n0"),
        ("ProvisioningRequest", None, "a"),
        ("ProvisioningRequest", request(provisioned=False), "a"),
        ("ProvisioningRequest", request(owner="two"), "a"),
    ],
    ids=["no node", "not ready", "not its lease", "no request", "not provisioned", "not its own"],
)
def test_ready_without_all_of_it_is_seen(step: Step) -> None:
    _sees("gang is Ready with", *_WHOLE, step, _READY)


def test_a_request_that_names_no_lease_stands_on_no_node() -> None:
    bare = [("Node", node(lease=""), f"n{number}") for number in range(2)]
    _sees("gang is Ready with", *_WHOLE, ("ProvisioningRequest", request(lease=""), "a"), *bare, _READY)


@pytest.mark.parametrize("label", ["first", "second"])
def test_ready_on_a_request_of_an_earlier_reservation_is_seen_whatever_its_label_says(label: str) -> None:
    again = ("Workload", workload(since="10:05:00"), "gang")
    relabelled = ("ProvisioningRequest", request(attempt=label), "a")
    ready = ("Workload", workload("Ready", since="10:05:00"), "gang")
    _sees("without a provisioned request of this reservation", *_WHOLE, _LOST, again, relabelled, ready)


def test_an_eviction_within_the_second_begins_another_reservation() -> None:
    away = ("Workload", evicted(), "gang")
    again = ("Workload", workload(), "gang")
    _sees("without a provisioned request of this reservation", *_WHOLE, away, _LOST, again, _READY)


def test_two_reservations_of_one_second_without_an_eviction_are_one() -> None:
    _passes(*_WHOLE, _LOST, ("Workload", workload(), "gang"), _READY)


def test_ready_without_any_reservation_is_seen() -> None:
    never = (("Workload", without_quota(), "gang"), *_WHOLE[1:])
    _sees("gang is Ready with", *never, ("Workload", without_quota(state="Ready"), "gang"))


# Asked once


@pytest.mark.parametrize("label", ["first", "second"])
def test_a_second_request_of_a_shape_is_seen_though_it_is_gone_at_once(label: str) -> None:
    """Also under a label of another attempt, or of another try within the reservation."""
    twin = ("ProvisioningRequest", request(attempt=label), "b")
    _sees("more than one live request", *_WHOLE, twin, ("ProvisioningRequest", None, "b"))


def test_what_is_being_deleted_is_not_live() -> None:
    going = ("ProvisioningRequest", request(deletionTimestamp="10:01:00"), "a")
    _passes(*_WHOLE, going, ("ProvisioningRequest", request(), "b"))


def test_another_reservation_may_ask_while_the_requests_of_the_last_one_go() -> None:
    again = ("Workload", workload(since="10:05:00"), "gang")
    _passes(*_WHOLE, _LOST, again, ("ProvisioningRequest", request(), "b"), *_GONE)


# Until when


@pytest.mark.parametrize(
    "message", ["", "asked for 2 l4 nodes", "asked for 2 l4 nodes (limit 30m); releases at some time"]
)
def test_a_check_that_says_something_else_than_until_when_is_seen(message: str) -> None:
    _sees("does not say until when", *_WHOLE, ("Workload", workload(message=message), "gang"))


def test_a_check_that_says_nothing_yet_and_then_until_when_is_as_it_should_be() -> None:
    silent = ("Workload", workload(message=""), "gang")
    _passes(silent, silent, *_WHOLE)


@pytest.mark.parametrize(
    "step",
    [
        without_quota(message="waits for quota"),
        evicted(message="Reset to Pending after eviction. Previously: Ready"),
        workload("Retry", "capacity revoked; the gang queues again"),
        workload(message="released everything", spec={"active": False}),
    ],
    ids=["no quota", "evicted", "retried", "inactive"],
)
def test_who_does_not_gather_need_not_say_until_when(step: dict[str, object]) -> None:
    _passes(*_WHOLE, ("Workload", step, "gang"))


def test_who_runs_need_not_say_until_when() -> None:
    said = (workload(message=message, holds={"Admitted": True}) for message in ("", "ran before"))
    _passes(*_WHOLE, *(("Workload", each, "gang") for each in said))


# Left over


def _another(state: str) -> Step:
    return ("Workload", workload(state, name="other", uid="two"), "other")


_OTHER: tuple[Step, ...] = (
    _another("Pending"),
    ("ProvisioningRequest", request(owner="two", lease="two"), "b"),
    ("Node", node(lease="two"), "m0"),
    ("Node", node(lease="two"), "m1"),
    _another("Ready"),
)


@pytest.mark.parametrize(
    "end",
    [
        None,
        workload(holds={"Finished": True}),
        workload(meta={"deletionTimestamp": "10:05:00"}),
        workload(spec={"active": False}),
        evicted(),
        without_quota(),
    ],
    ids=["gone", "finished", "being deleted", "inactive", "evicted", "without quota"],
)
@pytest.mark.parametrize("kept", _GONE, ids=["request", "template"])
def test_what_outlives_its_right_to_be_by_a_later_gangs_whole_story_is_seen(
    end: dict[str, object] | None, kept: Step
) -> None:
    over = ("Workload", end, "gang")
    others = [step for step in _GONE if step is not kept]
    _sees("nobody has a right to", *_WHOLE, over, *others, *_OTHER)
    _passes(*_WHOLE, over, *_GONE, *_OTHER)


def test_who_had_its_quota_before_says_nothing_about_how_long_that_took() -> None:
    _passes(*_WHOLE, *_OTHER[:1], ("Workload", None, "gang"), *_OTHER[1:])


def test_what_a_gang_had_in_an_earlier_reservation_is_seen_when_it_stands_again() -> None:
    again: tuple[Step, ...] = (
        ("Workload", workload(since="10:05:00"), "gang"),
        ("ProvisioningRequest", request(), "b"),
        ("Workload", workload("Ready", since="10:05:00"), "gang"),
    )
    _sees("nobody has a right to", *_WHOLE, _LOST, *again)


def test_what_was_made_of_nobody_is_seen() -> None:
    _sees("nobody has a right to", ("ProvisioningRequest", request(owner="nobody"), "x"), *_OTHER)


def test_what_a_running_gang_was_bought_with_may_stay() -> None:
    runs = ("Workload", workload("Ready", holds={"Admitted": True}), "gang")
    _passes(*_WHOLE, _READY, runs, *_OTHER)
