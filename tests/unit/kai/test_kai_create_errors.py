"""What the API server does not let us create ends a batch's attempt, in its words, through the reconciler."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import cast

import pytest

from muster.controller.gangs.actions import CreateRequest, CreateTemplates
from muster.controller.gangs.create_errors import CreateRejected, GateKept
from muster.controller.gangs.identity import ATTEMPT
from muster.controller.gangs.reconciler import GangReconciler
from muster.controller.gangs.requests import Requests
from muster.controller.gangs.retry import LAST_FAILURE, REFUSED, TRIES
from muster.controller.kai.actions import Action, Ungate
from muster.controller.kai.decide import after_rejection
from muster.controller.kai.executor import Executor
from muster.controller.kai.hooks import RayClusterHooks
from muster.controller.kai.objects import GangOwner
from muster.controller.kai.pod_groups import PodGroupDemand
from muster.controller.kai.view import View
from muster.controller.kube.resource import Key
from tests.unit.kai.kai_world import Group, World, queue
from tests.unit.kai.test_kai_rate_limit import Caches

GANG = {"headgroup": Group("l4"), "workers": Group("h100", 2)}
QUOTA = ("Forbidden", 'podtemplates "muster-0" is forbidden: exceeded quota: few, used: count/podtemplates=9')
PARAMETER = (
    "Invalid",
    'ProvisioningRequest "muster" is invalid: spec.parameters.maxRunDurationSeconds: "abc"',
)


@dataclass
class Guarded(World):
    """A world whose API server judges, and the program's own reconciler before it. `denies`: by action, the
    reason and the message.
    """

    denies: dict[type, tuple[str, str]] = field(default_factory=dict)
    keeps: dict[str, str] = field(default_factory=dict)
    """The pods whose gate it does not let us remove, and its words."""

    def settle(self) -> None:
        asyncio.run(self._settle())

    async def _settle(self) -> None:
        caches = _Judged(self)
        view, hands, requests = cast(View, caches), cast(Executor, caches), cast(Requests, None)
        reconciler = GangReconciler(
            RayClusterHooks(view, hands, requests), enqueue=lambda _: None, clock=lambda: self.now
        )
        for _ in range(60):
            before = self.writes
            for name in self.clusters:
                await reconciler.reconcile(Key(self.namespace, name))
            if self.writes == before:
                return
        raise AssertionError("the controller writes for ever")


class _Judged(Caches):
    async def run(
        self, actions: Sequence[Action], *, cluster: GangOwner, pod_group_demands: Sequence[PodGroupDemand]
    ) -> None:
        assert isinstance(self.world, Guarded)
        for action in actions:
            if isinstance(action, Ungate) and action.pod.metadata.name in self.world.keeps:
                attempt, message = action.annotations[ATTEMPT], self.world.keeps[action.pod.metadata.name]
                raise GateKept(
                    f"gate of pod {action.pod.key}", attempt=attempt, reason="Forbidden", message=message
                )
            if isinstance(action, CreateTemplates | CreateRequest) and type(action) in self.world.denies:
                reason, message = self.world.denies[type(action)]
                raise CreateRejected("Thing", attempt=action.labels[ATTEMPT], reason=reason, message=message)
            await super().run((action,), cluster=cluster, pod_group_demands=pod_group_demands)


def asking(kind: type, words: tuple[str, str]) -> Guarded:
    here = Guarded(denies={kind: words})
    here.queues = {"team-a": queue("team-a", quota=4)}
    here.submit("a", GANG)
    return here


def notes(here: World) -> dict[str, str]:
    """Of whichever pod leads."""
    return {key: value for pod in here.of("a") for key, value in pod.metadata.annotations.items()}


@pytest.mark.parametrize("kind", [CreateTemplates, CreateRequest])
def test_a_temporary_rejection_releases_everything_and_is_retried(kind: type) -> None:
    here = asking(kind, QUOTA)
    here.tick()
    assert QUOTA[1] in notes(here)[LAST_FAILURE]
    assert QUOTA[1] in here.status("a")
    assert (here.told[-1].kind, here.told[-1].reason) == ("Warning", "GangReleased")
    assert QUOTA[1] in here.told[-1].message
    assert not here.requests
    assert not here.templates
    here.denies.clear()
    here.ticks(10)
    assert here.running("a") == 3


def test_a_permanent_rejection_refuses_the_gang_with_its_message() -> None:
    here = asking(CreateRequest, PARAMETER)
    here.tick()
    assert PARAMETER[1] in notes(here)[REFUSED]
    assert PARAMETER[1] in here.status("a")
    assert here.told[-1].reason == "GangRefused"
    assert not here.requests
    assert not here.templates
    here.denies.clear()
    here.tick()
    assert not here.requests, "until a person acts"


def test_a_rejected_request_releases_the_earlier_ones() -> None:
    here = asking(CreateRequest, QUOTA)
    here.denies.clear()
    here.tick()
    assert len(here.requests) == 2
    here.requests.popitem()
    here.denies = {CreateRequest: QUOTA}
    here.settle()
    assert not here.requests
    assert notes(here)[TRIES] == "1"


def test_of_a_batch_that_tries_again_nothing_is_written() -> None:
    here = asking(CreateRequest, QUOTA)
    here.kuberay()
    denied = _denied(here)
    assert after_rejection(here.snapshot("a"), denied).actions
    here.settle()
    assert not after_rejection(here.snapshot("a"), denied).actions, "the next attempt was not denied anything"


def test_of_a_batch_that_has_begun_to_pass_nothing_is_taken() -> None:
    here = asking(CreateRequest, QUOTA)
    here.denies.clear()
    here.kuberay()
    denied = _denied(here)
    lifts: list[Ungate] = []
    while not lifts:
        here.now += timedelta(minutes=1)
        here.cloud()
        lifts = [action for action in here.decided("a").actions if isinstance(action, Ungate)]
        if not lifts:
            here.settle()
    here.carry_out("a", lifts[0])
    assert not after_rejection(here.snapshot("a"), denied).actions


def _denied(here: World) -> CreateRejected:
    """Of the attempt that it is in."""
    (mine,) = here.snapshot("a").batch_snapshots
    return CreateRejected("PodTemplate", attempt=mine.batch.attempt, reason="Invalid", message="no")


@pytest.mark.parametrize("kept", range(3))
def test_a_gang_of_which_a_gate_stays_gives_everything_back_and_says_why(kept: int) -> None:
    here = Guarded()
    here.queues = {"team-a": queue("team-a", quota=4)}
    here.submit("a", GANG)
    here.kuberay()
    names = sorted(pod.metadata.name for pod in here.of("a"))
    here.keeps = {names[kept]: "ValidatingAdmissionPolicy 'x' denied request: no updates"}
    for _ in range(6):
        here.tick()
        if TRIES in notes(here):
            break
    assert here.keeps[names[kept]] in notes(here)[LAST_FAILURE]
    assert "GangReleased" in {each.reason for each in here.told}
    assert here.gated("a") == len(here.of("a")), "no part of it may pass"
    assert not here.requests
    assert not here.templates
    here.keeps.clear()
    here.ticks(10)
    assert here.running("a") == 3
