"""The small parts that the machine relies on: identities, reasons, pauses, deletions, templates."""

import dataclasses
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.controller.gangs.actions import Delete
from muster.controller.gangs.deadlines import deadline
from muster.controller.gangs.identity import request_name
from muster.controller.gangs.limits import unsatisfiable_reason
from muster.controller.gangs.objects import PodTemplate
from muster.controller.gangs.reasons import Outcome, loss
from muster.controller.gangs.retry import RetryHistory, backoff, next_attempt, to_annotations
from muster.controller.gangs.templates import pod_template, provisioning_request
from muster.controller.kube.resource import ObjectMeta
from muster.controller.kueue.actions import Deactivate
from muster.controller.kueue.decide import decide
from muster.controller.kueue.identity import WORKLOADS, attempt
from muster.controller.kueue.objects import EvictionCount, SchedulingStats, Workload
from muster.controller.kueue.podsets import gang
from muster.controller.kueue.templates import merged
from muster.model.gangpolicy import FlavorPolicy, GangPolicy, OnStaggered, RetryPolicy
from tests.length import examples
from tests.unit.admission.gang_world import FLAVORS, POLICY, World, assignment, workload
from tests.unit.gangs.paper import START

replace = msgspec.structs.replace


def admitted(pieces: dict[str, tuple[str, int]], notes: dict[str, str] | None = None) -> Workload:
    """A gang with its flavors."""
    made = workload("a", pieces)
    return replace(
        made,
        metadata=replace(made.metadata, annotations=notes or {}),
        status=replace(made.status, admission=assignment(pieces)),
    )


def one_request(pieces: dict[str, tuple[str, int]]) -> tuple[World, str]:
    world = World()
    world.begin("a", pieces)
    return world, next(iter(world.requests))


def test_a_reservation_in_the_same_second_as_the_last_one_is_another_attempt() -> None:
    world, _ = one_request({"main": ("l4", 1)})
    first = world.workloads["a"]
    stats = SchedulingStats(evictions=(EvictionCount(count=1),))
    again = replace(first, status=replace(first.status, scheduling_stats=stats))
    assert attempt(first) != attempt(again)


def test_a_reservation_at_another_time_is_another_attempt() -> None:
    world, _ = one_request({"main": ("l4", 1)})
    first = attempt(world.workloads["a"])
    world.set_condition("a", "QuotaReserved", "False")
    world.now += timedelta(seconds=1)
    world.set_condition("a", "QuotaReserved", "True")
    assert attempt(world.workloads["a"]) != first


def test_shapes_of_one_attempt_and_checks_have_names_of_their_own() -> None:
    names = {request_name("uid", check, "attempt", shape) for check in "ab" for shape in "xy"}
    assert len(names) == 4
    assert max(map(len, names)) < 60


def test_one_decision_notes_the_retreat_first_and_releases_every_sibling_and_template() -> None:
    world, _ = one_request({"big": ("h100", 1), "small": ("l4", 1)})
    world.cloud()
    world.settle()
    assert len(world.requests) == 2
    world.answer(next(iter(world.requests)), "Failed", "CapacityIsNotFound")
    actions = decide(world.snapshot("a")).actions
    assert isinstance(actions[0], Deactivate)
    deleted = {action.name for action in actions if isinstance(action, Delete)}
    assert deleted == set(world.requests) | set(world.templates)


@pytest.mark.parametrize(
    ("condition", "reason", "message", "admitted", "outcome"),
    [
        ("Failed", "CapacityIsNotFound", "", False, Outcome.NEXT_FLAVOR),
        ("Failed", "Whatever", "", False, Outcome.RETRY),
        ("Failed", "ResourcePoolExhausted", "", False, Outcome.NEXT_FLAVOR),
        ("Failed", "Expired", "", False, Outcome.RETRY),
        ("Failed", "Failed", "quota exceeded in region", False, Outcome.NEXT_FLAVOR),
        ("Failed", "Failed", "out of stock: zone b is invalid for a100", False, Outcome.NEXT_FLAVOR),
        ("Failed", "ResourcePoolExhausted", "the offer is invalid by now", False, Outcome.NEXT_FLAVOR),
        ("Failed", "Failed", "the machine type is invalid", False, Outcome.REFUSE),
        ("Failed", "InvalidPodTemplate", "", False, Outcome.REFUSE),
        ("Failed", "Failed", "supports only single PodSet per request", False, Outcome.REFUSE),
        ("Failed", "CapacityIsNotFound", "", True, None),
        ("BookingExpired", "BookingExpired", "", False, Outcome.RETRY),
        ("BookingExpired", "CapacityBookingConsumed", "", False, None),
        ("BookingExpired", "BookingExpired", "", True, None),
        ("CapacityRevoked", "Revoked", "", False, Outcome.RETRY),
        ("CapacityRevoked", "Revoked", "", True, Outcome.REQUEUE),
        ("Provisioned", "Provisioned", "", False, None),
    ],
)
def test_the_autoscalers_words_decide_what_follows(
    condition: str, reason: str, message: str, admitted: bool, outcome: Outcome | None
) -> None:
    world, name = one_request({"main": ("l4", 1)})
    world.answer(name, condition, reason, message)
    found = loss(world.requests[name], admitted=admitted)
    assert (found.outcome if found else None) == outcome


def test_each_request_has_its_whole_time_from_when_it_was_accepted() -> None:
    world, first = one_request({"big": ("h100", 1), "small": ("l4", 1)})
    world.answer(first, "Accepted")
    world.settle()
    (second,) = world.requests.keys() - {first}
    world.now += timedelta(minutes=20)
    world.answer(first, "Provisioned")
    accepted_at = world.now
    world.answer(second, "Accepted")
    policy = dataclasses.replace(POLICY, on_staggered=OnStaggered.HOLD, placeholder_image="pause")
    for answer in ("Accepted", "Provisioned"):
        world.answer(second, answer)
        snapshot = world.snapshot("a")
        found = deadline(
            snapshot.gang, snapshot.current, quota_since=snapshot.began, policy=policy, now=world.now
        )
        assert (found.began, found.clock) == (accepted_at, "provisionTimeout")


def test_a_booking_that_was_consumed_hides_nothing_else() -> None:
    world, name = one_request({"main": ("l4", 1)})
    world.answer(name, "BookingExpired", "CapacityBookingConsumed")
    world.answer(name, "CapacityRevoked", "Revoked")
    found = loss(world.requests[name], admitted=False)
    assert found is not None
    assert found.summary == "capacity revoked"


@settings(deadline=None, max_examples=examples(50))
@given(st.text(max_size=20), st.integers(0, 100))
def test_a_pause_grows_to_its_maximum_within_its_jitter(uid: str, tries: int) -> None:
    policy = RetryPolicy()
    expected = min(policy.max, policy.base * 2 ** min(tries, 20))
    assert abs(backoff(uid, tries, policy) - expected) <= expected * 0.2 + timedelta(milliseconds=1)
    assert backoff(uid, tries, policy) == backoff(uid, tries, policy)


@settings(deadline=None, max_examples=examples(50))
@given(
    st.lists(
        st.dictionaries(st.sampled_from(list(to_annotations(RetryHistory()))), st.text(max_size=30)),
        min_size=1,
    )
)
def test_annotations_that_anybody_may_have_written_never_break_anything(notes: list[dict[str, str]]) -> None:
    for stored in notes:
        world, _ = one_request({"main": ("l4", 1)})
        world._metadata("a", annotations=stored)
        decide(world.snapshot("a"))


def test_a_first_try_in_the_far_future_counts_as_now() -> None:
    far = datetime.max.replace(tzinfo=UTC)
    future = next_attempt(
        RetryHistory(first_try=far), uid="u", began=START, failure="x", now=START, policy=RetryPolicy()
    )
    assert future.first_try == START


def test_there_is_no_try_after_the_deadline() -> None:
    policy = RetryPolicy(deadline=timedelta(minutes=5), jitter_percent=0)
    past = RetryHistory(tries=3, first_try=START)

    def is_given_up(past: RetryHistory, now: datetime) -> bool:
        return bool(next_attempt(past, uid="u", began=START, failure="x", now=now, policy=policy).refused)

    late = START + timedelta(minutes=6)
    assert is_given_up(past, late)
    assert is_given_up(dataclasses.replace(past, tries=2), late)
    assert not is_given_up(dataclasses.replace(past, tries=1), late), "its second try"
    assert not is_given_up(RetryHistory(), START)


def test_a_class_that_takes_several_pod_sets_gets_one_request_a_pool() -> None:
    flavor = FlavorPolicy(
        name="l4", provisioning_class_name="check-capacity.x", one_pod_set_per_request=False
    )
    held = admitted({"x": ("l4", 1), "y": ("l4", 2)})
    (spec,) = gang(held, GangPolicy(flavors=(flavor,)), FLAVORS).request_specs
    assert [demand.pod_set for demand in spec.demands] == ["x", "y"]


def test_a_job_changes_the_parameters_that_the_policy_names_and_adds_none() -> None:
    flavor = FlavorPolicy(name="l4", provisioning_class_name="c", parameters={"maxRunDurationSeconds": "600"})
    notes = {"provreq.kueue.x-k8s.io/maxRunDurationSeconds": "900", "provreq.kueue.x-k8s.io/other": "1"}
    held = admitted({"x": ("l4", 1)}, notes)
    (spec,) = gang(held, GangPolicy(flavors=(flavor,)), FLAVORS).request_specs
    assert spec.parameters == {"maxRunDurationSeconds": "900"}


def test_a_parameter_that_is_too_long_is_refused_in_place_of_cut() -> None:
    flavor = FlavorPolicy(name="l4", provisioning_class_name="c", parameters={"reservation": "r"})
    held = admitted({"x": ("l4", 1)}, {"provreq.kueue.x-k8s.io/reservation": "r" * 256})
    reason = unsatisfiable_reason(gang(held, GangPolicy(flavors=(flavor,)), FLAVORS))
    assert reason is not None
    assert "provreq.kueue.x-k8s.io/reservation has 256 characters" in reason
    assert "takes 255" in reason


def test_the_workload_owns_the_template_and_the_template_owns_the_request() -> None:
    held = admitted({"x": ("l4", 1)})
    (request_spec,) = gang(held, POLICY, FLAVORS).request_specs
    original = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}
    pod = merged(original, request_spec.demands[0], FLAVORS)
    workload_owner = WORKLOADS.of(held)
    template = pod_template(workload_owner, name="t", template=pod, pool="l4", labels={})
    assert [owner["kind"] for owner in template["metadata"]["ownerReferences"]] == ["Workload"]
    spec = template["template"]["spec"]
    assert spec["nodeSelector"] == {"muster.dev/pool": "l4"}
    assert spec["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert spec["containers"][0]["resources"]["requests"] == {"nvidia.com/gpu": "1"}
    assert "nodeSelector" not in original["spec"]
    made = PodTemplate(metadata=ObjectMeta(name="t", uid="u"))
    request = provisioning_request(workload_owner, name="r", spec=request_spec, templates=[made], labels={})
    (owner,) = request["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("PodTemplate", "u")
    assert owner["name"] != held.metadata.name
