"""The states of a gang and the ways between them, found by running the state machine.

One gang lives through drawn stories in the cluster on paper (tests/unit/admission/gang_world.py): the real
`decide`, `next_step` and `observe` on virtual time, between a Kueue, a cloud and people that act in any
order. Nothing here lists a state or a way.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Final
from unittest.mock import patch

import msgspec

from muster.controller.gangs.assembly import Step, next_step
from muster.controller.gangs.attempt import Attempt
from muster.controller.kueue import decide as machine
from muster.controller.kueue.actions import Deactivate, Reactivate, SetCheckState
from muster.controller.kueue.gang_state import observe
from muster.controller.kueue.objects import Workload
from muster.model.gangpolicy import GangPolicy, OnStaggered
from tests.unit.admission.gang_world import CHECK, PLAIN, POLICY, World

_SPLIT: Final = {"head": ("cpu", 1), "big": ("h100", 1), "small": ("l4", 1)}
_HOLDING: Final = replace(POLICY, on_staggered=OnStaggered.HOLD, placeholder_image="pause")
_STORIES: Final = 120
_ACTS: Final = 120
_CONDITIONS: Final = ("QuotaReserved", "Admitted", "Evicted", "Finished")
FINISHED: Final = "finished"
"""What `observe` has no state for: the gang is over."""


@dataclass(frozen=True, slots=True, order=True)
class Way:
    """From one state to another. `actor` made the write `by`, in the API's or the code's word."""

    before: str
    after: str
    actor: str
    by: str


@dataclass(frozen=True, slots=True)
class Life:
    """`steps`: in which states the controller took which step of `Step`."""

    ways: frozenset[Way]
    steps: frozenset[tuple[str, str]]

    @property
    def states(self) -> frozenset[str]:
        return frozenset(state for way in self.ways for state in (way.before, way.after))


@dataclass(slots=True)
class _Story:
    """One gang, and what happens to it."""

    world: World
    random: random.Random
    steps: list[str]
    """The steps that `next_step` gave back since the last act."""
    is_settled: bool = False
    """Whether the controller had nothing to write when it last looked."""

    @property
    def workload(self) -> Workload:
        return self.world.workloads["a"]

    @property
    def state(self) -> str:
        found = observe(self.workload, (CHECK,))
        return found.state.value if found else FINISHED

    def acts(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """Who acts, and what is done; it returns the write where the conditions do not show it."""
        yield from [("Kueue", self._kueue), ("cloud", self._cloud), ("time", self._time)] * 5
        yield from [("cloud", self._refuse), ("cloud", self._stock), ("cloud", self._lose)]
        yield from [("job", self._job), ("Kueue", self._preempt), ("person", self._reactivate)]

    def controller(self) -> str:
        actions = self.world.reconcile("a").actions
        self.is_settled = not actions
        if self.steps:
            return self.steps[0]
        named = [action for action in actions if isinstance(action, SetCheckState | Deactivate | Reactivate)]
        return _name(named[-1]) if named else ""

    def _kueue(self) -> str:
        self.world.kueue()
        return ""

    def _cloud(self) -> str:
        self.world.cloud()
        return ""

    def _time(self) -> str:
        self.world.now += timedelta(minutes=self.random.choice([1, 5, 30, 600]))
        return ""

    def _refuse(self) -> str:
        for name in self.world.requests:
            if self.random.random() < 0.1:
                self.world.answer(name, "Failed", "InvalidRequest", "not supported")
        return ""

    def _stock(self) -> str:
        self.world.stock[self.random.choice(["l4", "h100"])] = self.random.choice([0, 1])
        return ""

    def _lose(self) -> str:
        if self.random.random() < 0.3:
            self.world.nodes.clear()
        return ""

    def _job(self) -> str:
        self.world.jobs()
        return ""

    def _preempt(self) -> str:
        if self.workload.status.holds("QuotaReserved") and self.random.random() < 0.3:
            self.world.evict("a", "Preempted")
        return ""

    def _reactivate(self) -> str:
        if self.state != "refused" or self.workload.status.holds("QuotaReserved"):
            return ""
        active = msgspec.structs.replace(self.workload.spec, active=True)
        self.world.workloads["a"] = msgspec.structs.replace(self.workload, spec=active)
        return "spec.active: true"


@cache
def walk() -> Life:
    """Every way that the stories took. The same on every machine: the stories are drawn from fixed seeds."""
    ways, steps = set[Way](), set[tuple[str, str]]()
    for seed in range(_STORIES):
        for way, step in _told(seed):
            ways |= {way} if way else set()
            steps |= {step} if step else set()
    return Life(frozenset(ways), frozenset(steps))


def _told(seed: int) -> Iterator[tuple[Way | None, tuple[str, str] | None]]:
    drawn = random.Random(seed)
    stock = {"l4": drawn.choice([0, 1, 1]), "h100": drawn.choice([0, 1, 1])}
    world = World(policy=drawn.choice([POLICY, _HOLDING]), stock=stock)
    world.delay["h100"] = timedelta(minutes=drawn.choice([0, 5, 15]))
    world.submit("a", drawn.choice([PLAIN, _SPLIT]))
    story = _Story(world, drawn, [])
    acts = list(story.acts())

    def recorded(attempt: Attempt, policy: GangPolicy, *, since: datetime) -> Step:
        step = next_step(attempt, policy, since=since)
        story.steps.append(type(step).__name__)
        return step

    with patch.object(machine, "next_step", recorded):
        for _ in range(_ACTS):
            # The controller follows what happens before the next thing does.
            for actor, act in (drawn.choice(acts), *[("controller", story.controller)] * 3):
                if story.state == FINISHED:
                    return
                before, held = story.state, _conditions(story.workload)
                story.steps.clear()
                write = act() or ", ".join(sorted(_conditions(story.workload) - held))
                way = Way(before, story.state, actor, write) if story.state != before else None
                yield way, ((before, story.steps[0]) if story.steps else None)
                if actor == "controller" and story.is_settled:
                    break


def _conditions(workload: Workload) -> frozenset[str]:
    return frozenset(kind for kind in _CONDITIONS if workload.status.holds(kind))


def _name(action: SetCheckState | Deactivate | Reactivate) -> str:
    return f"check {action.state}" if isinstance(action, SetCheckState) else type(action).__name__
