"""Decisions compare structured facts: no text that users read, and no list of names, is part of a rule."""

from datetime import timedelta
from functools import cached_property

import msgspec
import pytest

from muster.controller.gangs.objects import PodResourceClaim
from muster.controller.gangs.surroundings import Surroundings
from muster.controller.kueue import without_quota
from muster.controller.kueue.actions import SetCheckState, State
from muster.controller.kueue.decide import decide
from muster.controller.kueue.snapshot import WorkloadSnapshot
from tests.unit.admission.gang_world import CHECK, World, entry_of, pod_spec

replace = msgspec.structs.replace


def provisioning() -> World:
    world = World(stock={"l4": 0}, runtime=timedelta(days=30))
    world.submit("a", {"main": ("l4", 2)})
    world.tick()
    world.still()
    return world


def test_facts_are_computed_once_and_survive_new_surroundings() -> None:
    facts = provisioning().snapshot("a")
    names = [name for name in dir(WorkloadSnapshot) if isinstance(_member(name), cached_property)]
    assert {"gang", "history", "current", "expected_gang"} <= set(names)
    computed = {name: getattr(facts, name) for name in names}
    around = facts.with_surroundings(Surroundings(lacks_pods=True))
    assert around.surroundings.lacks_pods
    assert not facts.surroundings.lacks_pods
    for name, value in computed.items():
        assert vars(around)[name] is value, name


def _member(name: str) -> object:
    return next((vars(each)[name] for each in WorkloadSnapshot.__mro__ if name in vars(each)), None)


def test_a_message_that_merely_looks_like_ours_is_written_again() -> None:
    world = provisioning()
    said = world.workloads["a"].check_state(CHECK)
    assert said is not None
    status, _, rest = said.message.partition(" (")
    for foreign in (f"{status} after 99h of 9m; {rest.partition('; ')[2]}", "Pending"):
        entry = replace(said, message=foreign)
        world._status("a", admission_checks=(entry,))
        (written,) = (each for each in decide(world.snapshot("a")).actions if isinstance(each, SetCheckState))
        assert written.message == said.message


def test_the_wait_message_does_not_change_with_time_alone() -> None:
    world = provisioning()
    world.now += timedelta(minutes=7)
    assert not decide(world.snapshot("a")).actions


def test_pods_that_claim_their_devices_wait_for_nodes_as_those_that_request_them() -> None:
    """By Dynamic Resource Allocation: no container requests what Kueue counts as `nvidia.com/gpu`."""
    world = World(stock={"l4": 0}, runtime=timedelta(days=30))
    world.submit("a", {"main": ("l4", 2)})
    claims = (PodResourceClaim(name="gpu", resource_claim_template_name="one-gpu"),)
    world._pods("a", replace(pod_spec(0), resource_claims=claims))
    world.tick()
    assert entry_of(world).state == State.PENDING
    (request,) = world.requests.values()
    assert request.spec.pod_sets[0].count == 2


@pytest.mark.parametrize("words", ["released everything; try 2 at 10:42 UTC", "in a further language"])
def test_a_gang_that_comes_back_no_longer_says_that_it_backs_off(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(without_quota, "format_backoff", lambda history: words)
    world = provisioning()
    (request,) = world.requests
    world.answer(request, "Failed", reason="OutOfStock")
    world.settle()
    world.tick()
    held = world.workloads["a"]
    assert not held.spec.active
    said = world.workloads["a"].check_state(CHECK)
    assert said is not None
    assert said.message == words
    retry_at = world.snapshot("a").history.retry_at
    assert retry_at is not None
    world.now = retry_at + timedelta(seconds=1)
    found = decide(world.snapshot("a")).actions
    (written,) = (each for each in found if isinstance(each, SetCheckState))
    assert (written.state, written.message) == (State.PENDING, "waits for quota")
