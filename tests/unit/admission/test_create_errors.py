"""What the API server does not let us create ends the attempt, in its words and through the reconciler."""

import asyncio
import dataclasses
from dataclasses import dataclass, field
from datetime import timedelta
from typing import cast

import pytest

from muster.controller.gangs.actions import CreatePlaceholders, CreateRequest, CreateTemplates
from muster.controller.gangs.create_errors import CreateRejected
from muster.controller.gangs.identity import ATTEMPT
from muster.controller.gangs.metrics import reason_of
from muster.controller.gangs.reasons import Outcome, classify_rejection
from muster.controller.gangs.reconciler import GangReconciler
from muster.controller.gangs.retry import LAST_FAILURE, REFUSED, TRIES, RetryHistory, parse_history
from muster.controller.kube.resource import Key
from muster.controller.kueue.actions import SetCheckState, State
from muster.controller.kueue.decide import after_rejection
from muster.controller.kueue.executor import Executor
from muster.controller.kueue.hooks import WorkloadHooks
from muster.controller.kueue.view import View
from muster.model.gangpolicy import OnStaggered
from tests.unit.admission.elastic_world import Elastic
from tests.unit.admission.gang_world import PLAIN, POLICY, World, entry_state, ready
from tests.unit.admission.reconciled import Caches
from tests.unit.admission.test_elastic_losses import in_calm, newest
from tests.unit.admission.test_gang_crossings import noted
from tests.unit.gangs.paper import START

SPLIT = {"head": ("cpu", 1), "big": ("h100", 1), "small": ("l4", 1)}
MINUTE = timedelta(minutes=1)
QUOTA = ("Forbidden", 'podtemplates "muster-0" is forbidden: exceeded quota: few, used: count/podtemplates=9')
PARAMETER = (
    "Invalid",
    'ProvisioningRequest "muster" is invalid: spec.parameters.maxRunDurationSeconds: "abc"',
)
WARDEN = (
    "BadRequest",
    'admission webhook "warden-validating.common-webhooks.networking.gke.io" denied the request: GKE Warden '
    "rejected the request because it violates one or more constraints.",
)


@dataclass
class Guarded(World):
    """A world whose API server judges, and the program's own reconciler before it. `denies`: by action, the
    reason and the message.
    """

    denies: dict[type, tuple[str, str]] = field(default_factory=dict)

    def carry_out(self, name: str, action: object) -> None:
        is_answer_to_none = isinstance(action, SetCheckState) and not action.attempt
        if type(action) in self.denies and not is_answer_to_none:
            assert isinstance(action, CreateTemplates | CreateRequest | CreatePlaceholders | SetCheckState)
            attempt = action.attempt if isinstance(action, SetCheckState) else action.labels[ATTEMPT]
            reason, message = self.denies[type(action)]
            raise CreateRejected("Thing", attempt=attempt, reason=reason, message=message)
        super().carry_out(name, action)

    def settle(self) -> None:
        asyncio.run(self._settle())

    async def _settle(self) -> None:
        caches = Caches(self)
        view, hands = cast(View, caches), cast(Executor, caches)
        reconciler = GangReconciler(
            WorkloadHooks(view, hands), enqueue=lambda _: None, clock=lambda: self.now
        )
        for _ in range(60):
            before = self.writes
            for name in self.workloads:
                await reconciler.reconcile(Key(self.namespace, name))
            if self.writes == before:
                return
        raise AssertionError("the controller writes for ever")


@pytest.mark.parametrize(
    ("reason", "message", "outcome", "summary"),
    [
        (*PARAMETER, Outcome.REFUSE, "request refused"),
        ("BadRequest", "strict decoding error", Outcome.REFUSE, "request refused"),
        (*WARDEN, Outcome.REFUSE, "request refused"),
        ("Forbidden", WARDEN[1], Outcome.REFUSE, "request refused"),
        (*QUOTA, Outcome.RETRY, "namespace quota exhausted"),
        (
            "Forbidden",
            'User "muster" cannot create resource "podtemplates"',
            Outcome.RETRY,
            "creation forbidden",
        ),
        ("Invalid", "ValidatingAdmissionPolicy 'x' denied request: no", Outcome.RETRY, "denied by a policy"),
        ("BadRequest", 'admission webhook "x" denied the request: no', Outcome.RETRY, "denied by a policy"),
        ("ServerError", 'failed calling webhook "x": no endpoints', Outcome.RETRY, "webhook not reached"),
        ("NameTaken", "Workload ns/a has our name", Outcome.RETRY, "name taken"),
    ],
)
def test_the_api_servers_words_decide_what_follows(
    reason: str, message: str, outcome: Outcome, summary: str
) -> None:
    assert classify_rejection(reason, message) == (outcome, summary)
    assert reason_of(f"{summary}: {message}") == summary.replace(" ", "_")


@pytest.mark.parametrize("kind", [CreateTemplates, CreateRequest, SetCheckState])
def test_a_temporary_rejection_releases_everything_and_is_retried(kind: type) -> None:
    world = Guarded(denies={kind: QUOTA})
    world.submit("a", SPLIT)
    while "GangReleased" not in {each.reason for each in world.told}:
        assert world.now < START + timedelta(hours=1)
        world.tick()
    held = world.workloads["a"]
    assert QUOTA[1] in held.metadata.annotations[LAST_FAILURE]
    assert (world.told[-1].kind, world.told[-1].reason) == ("Warning", "GangReleased")
    assert QUOTA[1] in world.told[-1].message
    assert not world.requests
    assert not world.templates
    world.kueue()
    assert not world.workloads["a"].status.holds("QuotaReserved")
    world.denies.clear()
    world.ticks(20)
    assert "a" in world.started


def test_the_time_in_a_long_queue_is_not_part_of_the_deadline() -> None:
    retry = dataclasses.replace(POLICY.retry, deadline=timedelta(hours=3))
    world = Guarded(policy=dataclasses.replace(POLICY, retry=retry), denies={CreateRequest: QUOTA})
    world.submit("a", PLAIN)
    world.tick()
    world.quota = 0
    world.ticks(4 * 60)
    assert world.workloads["a"].spec.active, "it waits for quota"
    world.quota = 1
    world.ticks(60)
    notes = world.workloads["a"].metadata.annotations
    assert int(notes[TRIES]) > 2
    assert REFUSED not in notes
    world.ticks(5 * 60)
    refused = world.workloads["a"].metadata.annotations[REFUSED]
    assert refused.startswith("gave up after")
    assert QUOTA[1] in refused


def test_who_ran_since_in_a_flavor_without_our_check_is_not_given_up_at_its_next_failure() -> None:
    """There nobody ends the history that its first failure has left."""
    world = Guarded(denies={CreateRequest: QUOTA})
    world.submit("a", PLAIN)
    noted(world, RetryHistory(tries=1, first_try=START))
    world.kueue()
    world.set_condition("a", "Admitted", "True")
    world.now += 9 * POLICY.retry.deadline
    world.evict("a", "Preempted")
    world.tick()
    past = parse_history(world.workloads["a"])
    assert (past.tries, past.refused) == (1, "")
    assert past.retry_at


def test_who_is_called_not_admitted_from_its_first_quota_on_has_not_run() -> None:
    """As Kueue does with UnadmittedWorkloadsObservability: the condition is there, a second later."""
    world = Guarded(denies={CreateRequest: QUOTA})
    world.submit("a", PLAIN)
    noted(world, RetryHistory(tries=3, first_try=START))
    world.kueue()
    world.now += timedelta(seconds=1)
    world.set_condition("a", "Admitted", "False")
    world.tick()
    assert parse_history(world.workloads["a"]).tries == 4


@pytest.mark.parametrize("words", [PARAMETER, WARDEN], ids=lambda words: words[0])
def test_a_permanent_rejection_refuses_the_gang_with_its_message(words: tuple[str, str]) -> None:
    world = Guarded(denies={CreateRequest: words})
    world.submit("a", SPLIT)
    world.tick()
    held = world.workloads["a"]
    assert not held.spec.active
    assert words[1] in held.metadata.annotations[REFUSED]
    assert (world.told[-1].kind, world.told[-1].reason) == ("Warning", "GangRefused")
    assert not world.requests
    assert not world.templates


def test_a_rejected_request_releases_the_earlier_ones() -> None:
    world = Guarded()
    world.begin("a", SPLIT)
    assert len(world.requests) == 1
    world.cloud()
    world.denies = {CreateRequest: QUOTA}
    world.settle()
    assert not world.requests
    assert not world.templates
    assert world.workloads["a"].metadata.annotations[TRIES] == "1"


def test_nodes_that_no_placeholder_may_keep_are_given_back() -> None:
    policy = dataclasses.replace(POLICY, on_staggered=OnStaggered.HOLD, placeholder_image="pause")
    world = Guarded(policy=policy, delay={"h100": timedelta(hours=1)}, denies={CreatePlaceholders: QUOTA})
    world.submit("a", SPLIT)
    while LAST_FAILURE not in world.workloads["a"].metadata.annotations:
        world.tick()
        assert world.now < START + timedelta(hours=1)
    assert QUOTA[1] in world.workloads["a"].metadata.annotations[LAST_FAILURE]
    assert not world.requests


def test_a_rejection_after_the_quota_was_lost_writes_nothing() -> None:
    world = World()
    world.submit("a", PLAIN)
    world.kueue()
    attempt = world.snapshot("a").labels[ATTEMPT]
    denied = CreateRejected("PodTemplate", attempt=attempt, reason="Invalid", message="no")
    assert after_rejection(world.snapshot("a"), denied).actions
    held = world.workloads["a"]
    world._spec("a", active=False)
    assert not after_rejection(world.snapshot("a"), denied).actions, (
        "somebody else's word is not written over"
    )
    world.workloads["a"] = held
    world.evict("a", "Preempted")
    assert not after_rejection(world.snapshot("a"), denied).actions
    world.now += MINUTE
    world.kueue()
    assert world.snapshot("a").labels[ATTEMPT] != attempt
    assert not after_rejection(world.snapshot("a"), denied).actions, "this one was not denied anything"


@pytest.mark.parametrize("words", [QUOTA, PARAMETER], ids=lambda words: words[0])
def test_a_rejected_scale_up_reports_it_and_keeps_running_pods(words: tuple[str, str]) -> None:
    world = Elastic(stock={"l4": 20})
    in_calm(world)
    made, pods = set(world.requests), set(world.pods)
    world.scale(3)
    for name in ("job", "kueue", "finish"):
        getattr(world, name)()
    growth = world.slices()[-1].metadata.name
    for action in world.decided(growth).actions:
        world.carry_out(growth, action)  # What runs is counted.
    mine = world.snapshot(growth)
    assert mine.is_scale_up
    denied = CreateRejected("PodTemplate", attempt=mine.labels[ATTEMPT], reason=words[0], message=words[1])
    for action in after_rejection(mine, denied).actions:
        world.carry_out(growth, action)
    state, message = newest(world)
    assert state is State.PENDING
    assert words[1] in message
    assert words[1] in world.told[-1].message
    assert world.told[-1].reason == ("GrowthReleased" if words is QUOTA else "GrowthRefused")
    assert world.workloads[growth].spec.active
    world.settle()
    assert (set(world.requests), set(world.pods)) == (made, pods), "it waits, and what runs goes on"


def test_a_ready_gang_whose_lost_request_is_rejected_is_released() -> None:
    world = Guarded()
    ready(world)
    world.requests.clear()
    world.denies = {CreateRequest: QUOTA}
    world.settle()
    held = world.workloads["a"]
    assert not held.spec.active
    assert QUOTA[1] in held.metadata.annotations[LAST_FAILURE]
    assert entry_state(world, "a") is State.PENDING
    assert not world.templates
