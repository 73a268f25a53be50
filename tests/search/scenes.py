"""What can happen to two gangs, and what must hold: the worlds of tests/unit, one step at a time.

Two controllers act. The first may die after any of its writes. The second decides once from what it has
seen at any moment, and makes each of its writes at any later one, or never: a replica with a stale cache,
or the first one itself while others act between its writes. As in kueue/executor.py a write of the Workload
fails where the Workload has changed, and a deletion where the object is another one.

Time passes when no program has anything to do: the cloud may answer at any moment, or never. One fault may
strike: a node dies or falls silent, a request fails or is revoked, someone deletes one, a gang is
preempted, or the controller is away for a while.

What must hold is asked whenever the controller has nothing left to do, and of the story in which nothing
fails any more, which has to end (`judge`).
"""

import copy
import dataclasses
import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, partial
from operator import methodcaller
from typing import Any, Final

import msgspec

from muster.controller.gangs.actions import CreateRequest, CreateSet, Delete, EmitEvent
from muster.controller.gangs.identity import ATTEMPT
from muster.controller.gangs.placeholder_sets import held_for
from muster.controller.gangs.retry import parse_history
from muster.controller.kai.actions import DeleteUnbound, PatchAnnotations, Ungate
from muster.controller.kai.labels import CLUSTER_UID, is_gated
from muster.controller.kube.resource import ObjectMeta
from muster.controller.kueue.actions import Deactivate, SetCheckState, State
from muster.controller.kueue.executor import CONDITIONAL, needs_confirmation
from muster.model.gangpolicy import GangPolicy, RetryPolicy
from muster.model.names import GKE_LEASE_LABEL, WORKLOAD_UID_LABEL
from tests.search import space
from tests.unit.admission.gang_world import CHECK, POLICY, World, assert_invariants
from tests.unit.admission.placed_world import PLACED, PlacedWorld
from tests.unit.gangs.paper import Paper
from tests.unit.gangs.placed_paper import PlacedPaper
from tests.unit.kai import kai_world, placed_kai_world

STEP: Final = timedelta(minutes=5)
"""How long nothing happens at most; a moment for which a decision asks comes sooner."""
_LONGEST: Final = 400
"""Steps within which all gangs end once nothing fails any more."""
_NOT_STATE: Final = frozenset(
    [
        "policy",
        "flavors",
        "stock",
        "delay",
        "quota",
        "runtime",
        "pieces",
        "queue_flavors",
        "order",
        "told",
        "writes",
        "signs",
        "crash_after",
        "everything_made",
        "_numbers",
        "born",
        "is_late",
        "words",
        "most_requested",
        "schedules",
        "groups",
        "_held",
    ]
)
"""What no later step depends on, or what never changes."""


def hurried(policy: GangPolicy) -> GangPolicy:
    """With deadlines of a few steps: a story ends, by success or by refusal."""
    return dataclasses.replace(
        policy,
        queue_timeout=timedelta(minutes=10),
        provision_timeout=timedelta(minutes=15),
        retry=RetryPolicy(
            base=timedelta(minutes=5), max=timedelta(minutes=5), deadline=timedelta(minutes=20)
        ),
    )


_SNAPSHOTS: Final[dict[tuple[Any, ...], tuple[Any, tuple[object, ...]]]] = {}
_MOST_SNAPSHOTS: Final = 5_000


class _Numbers:
    """The lowest number that no object's name ends with: the same state has the same names."""

    def __init__(self, world: "Paper[Any]") -> None:
        self._world = world

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        named = (*self._world.nodes, *getattr(self._world, "pods", ()), *getattr(self._world, "rivals", ()))
        taken = {int(number) for name in named if (number := name.rpartition("-")[2]).isdigit()}
        return next(number for number in range(1, len(taken) + 2) if number not in taken)


class _Forked(Paper[Any]):
    """A world that can be copied, and whose uids follow from the names."""

    born: dict[str, int]

    def meta(self, name: str, labels: object) -> ObjectMeta:
        self.born[name] = self.born.get(name, 0) + 1
        return msgspec.structs.replace(super().meta(name, labels), uid=f"{name}#{self.born[name]}")

    def fork(self) -> Any:
        made = copy.copy(self)
        for name, value in vars(self).items():
            if type(value) in (dict, list):
                setattr(made, name, type(value)(value))
        made._numbers = _Numbers(made)
        return made

    def known(self, name: str, owner: Any, label: str, build: Callable[[str], Any]) -> Any:
        """What is known of one gang alone, once for all states in which that is made of the same objects."""
        uid = owner.metadata.uid
        made = (
            *self.requests.values(),
            *self.templates.values(),
            *getattr(self, "placeholders", {}).values(),
        )
        own = [each for each in made if each.metadata.labels.get(label) == uid]
        pods = self.pods.values() if isinstance(self, kai_world.World) else ()
        nodes = self.nodes.values() if isinstance(self, PlacedPaper) else ()
        objects = (owner, *own, *pods, *nodes)
        key = (name, self.now, *map(id, objects))
        if key not in _SNAPSHOTS:
            if len(_SNAPSHOTS) > _MOST_SNAPSHOTS:
                _SNAPSHOTS.clear()
            _SNAPSHOTS[key] = build(name), objects  # While the objects live no other has their ids.
        return _SNAPSHOTS[key][0]

    def digest(self) -> bytes:
        held = [
            sorted(value.items()) if isinstance(value, dict) else value
            for name, value in sorted(vars(self).items())
            if name not in _NOT_STATE
        ]
        return msgspec.json.encode(held)


def check_write(world: World, name: str, action: object, *, check_ready: Callable[[str], None]) -> None:
    """What no write may do, whatever follows it. `check_ready`: what has to hold when Ready is written."""
    held = world.workloads[name]
    has_quota = held.status.holds("QuotaReserved") and held.spec.active and not held.status.holds("Finished")
    entry = held.check_state(CHECK)
    match action:
        case CreateRequest():
            assert has_quota, f"{name} requests without quota"
            is_ready = entry is not None and entry.state == State.READY
            assert not is_ready or held.status.holds("Admitted"), f"{name} requests again while it is Ready"
        case Delete(kind="ProvisioningRequest", name=key):
            request = world.requests.get(key)
            has_failed = request is not None and request.status.holds("Failed")
            assert not (has_failed and has_quota), f"{name} deletes what has failed before its try is counted"
        case Deactivate(history=history) if history.last_failure.startswith("bookingWindow"):
            gang = [
                request
                for request in world.requests.values()
                if request.metadata.labels[WORKLOAD_UID_LABEL] == held.metadata.uid
            ]
            scarcest = [request for request in gang if request.metadata.annotations["pool"] == "h100"]
            is_late = any(not request.status.holds("Provisioned") for request in scarcest)
            assert not is_late, f"{name} loses its place for the scarcest pool to a booking of another one"
        case SetCheckState(state=State.READY):
            check_ready(name)
        case SetCheckState(state=State.RETRY):
            assert not held.status.holds("Evicted"), "Retry on a Workload that is evicted"


@dataclass
class _Kueue(_Forked, World):
    born: dict[str, int] = field(default_factory=dict)

    def _plain(self, name: str) -> Any:
        return self.known(name, self.workloads[name], WORKLOAD_UID_LABEL, super()._plain)

    def check_ready(self, name: str) -> None:
        """Judged when Ready is written: no controller sees what is lost between that and Kueue's step."""

    def write(self, name: str, action: object) -> None:
        if not self.is_late:
            check_write(self, name, action, check_ready=super().check_ready)
        super().write(name, action)


@dataclass
class _PlacedKueue(_Forked, PlacedWorld):
    born: dict[str, int] = field(default_factory=dict)

    def check_ready(self, name: str) -> None:
        """As above."""

    def _plain(self, name: str) -> Any:
        return self.known(name, self.workloads[name], WORKLOAD_UID_LABEL, super()._plain)

    def write(self, name: str, action: object) -> None:
        if not self.is_late:
            check_write(self, name, action, check_ready=super().check_ready)
        super().write(name, action)


@dataclass
class _Kai(_Forked, kai_world.World):
    born: dict[str, int] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)

    def _plain(self, name: str) -> Any:
        return self.known(name, self.clusters[name], CLUSTER_UID, super()._plain)

    def check_standing(self, pod: Any, notes: Mapping[str, str]) -> None:
        """Of the first gate that goes, which judges the nodes of all: what has begun to pass is completed."""
        if not self.is_late and not self.has_begun_to_pass(notes[ATTEMPT]):
            super().check_standing(pod, notes)


@dataclass
class _PlacedKai(_Forked, placed_kai_world.PlacedWorld):
    born: dict[str, int] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)

    def _plain(self, name: str) -> Any:
        return self.known(name, self.clusters[name], CLUSTER_UID, super()._plain)

    def check_standing(self, pod: Any, notes: Mapping[str, str]) -> None:
        if not self.is_late:
            super().check_standing(pod, notes)


@dataclass(frozen=True)
class _Late:
    """A decision of which some writes are still to come. `workload`: as its writer knows it."""

    gang: str
    writes: tuple[Any, ...]
    workload: Any
    is_own: bool
    """Of the first controller, which decides nothing else about the gang meanwhile."""
    is_confirmed: bool = False


@dataclass(frozen=True, eq=False)
class Scene(space.State):
    """`ending`: digests of states from which all gangs have been seen to end, of the whole search."""

    world: Any
    faults: int = 1
    others: int = 1
    """Decisions that the second controller may still make."""
    late: _Late | None = None
    is_first: bool = False
    """Nothing has happened yet, so none may be refused where everyone does what is due."""
    ending: set[bytes] = field(default_factory=set)

    def key(self) -> bytes:
        late = self.late and (self.late.gang, self.late.writes, self.late.is_own, self.late.is_confirmed)
        return hashlib.blake2b(
            self._world_key + repr((self.faults, self.others, late)).encode(), digest_size=12
        ).digest()

    @cached_property
    def _world_key(self) -> bytes:
        return hashlib.blake2b(self.world.digest(), digest_size=12).digest()

    def _then(self, change: Callable[[Any], None], **changes: Any) -> "Scene":
        world = self.world.fork()
        change(world)
        return dataclasses.replace(self, world=world, is_first=False, **changes)

    # Steps

    @cached_property
    def _decisions(self) -> Mapping[str, Any]:
        return {name: self.world.decided(name) for name in sorted(self.world.names())}

    def _writes(self, name: str) -> tuple[Any, ...]:
        return tuple(each for each in self._decisions[name].actions if not isinstance(each, EmitEvent))

    def steps(self) -> Iterator[space.Step]:
        due = self._due()
        if due is not None:
            yield *due, False
        for name, step in self._possible():
            if due is None or name != due[0]:
                yield name, step, True

    def _due(self) -> "_Step | None":
        """What happens next where everyone does at once what there is to do."""
        for name in self._decisions:
            if writes := self._writes(name):
                return self._reconciled(name, writes, len(writes))
        if not self._has_ended:
            return (
                next(self.prompt_steps(), None)
                or next(self._changing("cloud", _serve_all), None)
                or self._time()
            )
        return None

    def _possible(self) -> "Iterator[_Step]":
        busy = False
        for name in self._decisions:
            writes = self._writes(name)
            busy |= bool(writes)
            if self.late and self.late.is_own and self.late.gang == name:
                continue
            for count in range(1, len(writes) + 1):
                yield self._reconciled(name, writes, count)
            if writes and self.others and not self.late:
                for is_own in (False, True):
                    late = _Late(name, writes, self.owner(name), is_own)
                    whose = "first" if is_own else "second"
                    yield (
                        f"{whose} decides {name}",
                        partial(dataclasses.replace, self, late=late, others=self.others - 1),
                    )
        if self.late:
            yield "late write", self._late_write
        prompt = list(self.prompt_steps())
        yield from prompt
        yield from self.cloud_steps()
        if self.faults:
            for name, change in self.fault_steps():
                yield name, partial(self._then, change, faults=self.faults - 1)
        if not self._has_ended:
            if not (busy or prompt):
                yield self._time()
            elif self.faults:
                yield "away", partial(self._then, self._pass_time, faults=self.faults - 1)

    def _time(self) -> "_Step":
        return "time", partial(self._then, self._pass_time)

    def _reconciled(self, name: str, writes: tuple[Any, ...], count: int) -> "_Step":
        return f"reconcile {name} {count}/{len(writes)}", partial(self._reconcile, name, writes[:count])

    def _changing(self, name: str, change: Callable[[Any], None]) -> "Iterator[_Step]":
        """This step, where it changes anything."""
        made = self._then(change)
        if made._world_key != self._world_key:
            yield name, lambda: made

    def _reconcile(self, name: str, writes: tuple[Any, ...]) -> "Scene":
        def carry_out(world: Any) -> None:
            for each in writes:
                world.write(name, each)

        return self._then(carry_out)

    def _late_write(self) -> "Scene":
        late = self.late
        assert late is not None
        if not late.is_confirmed:
            is_stale = self.needs_confirmation(late) and late.workload != self.owner(late.gang)
            return dataclasses.replace(
                self, late=None if is_stale else dataclasses.replace(late, is_confirmed=True)
            )
        action, *rest = late.writes
        is_conditional = isinstance(action, CONDITIONAL)
        if is_conditional and late.workload != self.owner(late.gang):
            return dataclasses.replace(self, late=None)
        made = self._then(partial(self._write_late, late.gang, action))
        known = made.owner(late.gang) if is_conditional else late.workload
        left = dataclasses.replace(late, writes=tuple(rest), workload=known) if rest else None
        return dataclasses.replace(made, late=left)

    @staticmethod
    def _write_late(gang: str, action: Any, world: Any) -> None:
        """As the executors and the API server do it: by uid, and a name that is taken is ours."""
        items = {"ProvisioningRequest": "requests", "PodTemplate": "templates", "Pod": "placeholders"}
        if isinstance(action, Delete):
            held = getattr(world, items[action.kind], {}).get(action.name)
            if held is None or held.metadata.uid != action.uid:
                return
        if isinstance(action, DeleteUnbound | Ungate | PatchAnnotations) and hasattr(action, "pod"):
            held = world.pods.get(action.pod.metadata.name)
            if held is None or held.metadata.uid != action.pod.metadata.uid:
                return
            if isinstance(action, DeleteUnbound) and (
                held.spec.node_name or action.request in world.requests
            ):
                return
        is_request = isinstance(action, CreateRequest) and not isinstance(action, CreateSet)
        if is_request and action.name in world.requests:
            return
        if gang not in world.names():
            return
        world.is_late = True
        world.write(gang, action)
        world.is_late = False

    def _pass_time(self, world: Any) -> None:
        due = (each.requeue_at for each in self._decisions.values())
        world.now = min((self.world.now + STEP, *(at for at in due if at and at > self.world.now)))
        self.end_jobs(world)

    def cloud_steps(self) -> "Iterator[_Step]":
        world = self.world
        for name in sorted(world.requests):
            yield from self._changing(f"cloud serves {name}", methodcaller("_serve", name))
        leases = {"", *(f"lease-{name}" for name in world.requests)}
        gone = [
            key
            for key, node in world.nodes.items()
            if node.metadata.labels.get(GKE_LEASE_LABEL, "") not in leases
        ]
        if gone:
            yield "cloud takes nodes back", partial(self._then, partial(_take_away, gone))
        yield from self._changing("cloud", _serve_all)
        if isinstance(world, PlacedPaper):
            for key, waiting in sorted(world.placeholders.items()):
                if waiting.spec.node_name not in world.nodes:
                    yield from self._changing(f"node for {key}", methodcaller("_give", key, waiting))
            yield from self._changing("sweep", methodcaller("sweep"))

    def fault_steps(self) -> Iterator[tuple[str, Callable[[Any], None]]]:
        for key in sorted(self.world.nodes):
            yield f"node {key} dies", partial(_take_away, [key])
            yield f"node {key} falls silent", partial(_silence, key)
        for name, request in sorted(self.world.requests.items()):
            if not request.status.holds("Failed"):
                is_there = request.status.holds("Provisioned")
                kind = ("CapacityRevoked", "Revoked") if is_there else ("Failed", "CapacityIsNotFound")
                yield f"{name}: {kind[0]}", methodcaller("answer", name, *kind)
            yield f"someone deletes {name}", partial(_forget, "requests", name)
        if isinstance(self.world, PlacedPaper):
            for key in sorted(self.world.placeholders):
                yield f"someone deletes {key}", partial(_forget, "placeholders", key)

    # Rules

    def judge(self) -> None:
        """Follow what is due, to its end or to a world that is known to come to one."""
        state, passed = self, dict[bytes, None]()
        while (digest := state._world_key) not in self.ending:
            if digest in passed or len(passed) > _LONGEST:
                raise AssertionError(f"no end in sight: {self.describe(state.world)}")
            passed[digest] = None
            if not any(map(state._writes, state._decisions)):
                state.check()
            if (due := state._due()) is None:
                break
            state = due[1]()
        self.ending.update(passed)
        refused = [name for name in self.gangs(state.world) if self.is_refused(state.world, name)]
        assert not (self.is_first and refused), f"refused without a cause: {refused}"

    @property
    def _has_ended(self) -> bool:
        world = self.world
        return all(name in world.ended or self.is_refused(world, name) for name in self.gangs(world))

    # Schedulers

    @abstractmethod
    def gangs(self, world: Any) -> list[str]:
        """All that were submitted and are not gone."""

    @abstractmethod
    def owner(self, name: str) -> Any:
        """The object whose version a write carries."""

    @abstractmethod
    def needs_confirmation(self, late: _Late) -> bool: ...

    @abstractmethod
    def prompt_steps(self) -> "Iterator[_Step]":
        """What others do at once."""

    @abstractmethod
    def end_jobs(self, world: Any) -> None: ...

    @abstractmethod
    def check(self) -> None:
        """What holds whenever the controller has nothing left to do."""

    @abstractmethod
    def is_refused(self, world: Any, name: str) -> bool: ...

    @abstractmethod
    def describe(self, world: Any) -> str: ...


class KueueScene(Scene):
    def gangs(self, world: Any) -> list[str]:
        return sorted(world.workloads)

    def owner(self, name: str) -> Any:
        return self.world.workloads[name]

    def needs_confirmation(self, late: _Late) -> bool:
        return needs_confirmation(late.writes, late.workload, is_current=late.is_own)

    def prompt_steps(self) -> "Iterator[_Step]":
        for name in sorted(self.world.workloads):
            yield from self._changing(f"kueue {name}", methodcaller("_kueue_one", name))

    def fault_steps(self) -> Iterator[tuple[str, Callable[[Any], None]]]:
        yield from super().fault_steps()
        if isinstance(self.world, PlacedPaper):
            for key in sorted(self.world.nodes):
                yield (
                    f"node {key} is tainted",
                    methodcaller("taint", key, "node.kubernetes.io/disk-pressure"),
                )
        for name, held in sorted(self.world.workloads.items()):
            if held.status.holds("QuotaReserved"):
                yield f"{name} is preempted", methodcaller("evict", name, "Preempted")

    def end_jobs(self, world: Any) -> None:
        world.jobs()

    def check(self) -> None:
        world = self.world
        assert_invariants(world)
        assert world.circles() == [], "gangs hold what the others wait for"
        failed = [name for name, request in world.requests.items() if request.status.holds("Failed")]
        assert not failed, f"what has failed is waited for: {failed}"
        is_placed = isinstance(world, PlacedPaper)
        if is_placed:
            swept = world.fork()
            swept.sweep()
            for node in swept.nodes.values():
                assert not held_for(node) or swept.is_held(held_for(node)), "a taint that no gang needs"

    def is_refused(self, world: Any, name: str) -> bool:
        return bool(parse_history(world.workloads[name]).refused)

    def describe(self, world: Any) -> str:
        entries = ((name, held.check_state(CHECK)) for name, held in sorted(world.workloads.items()))
        return "; ".join(f"{name}: {entry.state} {entry.message}" for name, entry in entries if entry)


class KaiScene(Scene):
    def gangs(self, world: Any) -> list[str]:
        return sorted(world.clusters)

    def owner(self, name: str) -> Any:
        return self.world.clusters.get(name)

    def needs_confirmation(self, late: _Late) -> bool:
        return False

    def prompt_steps(self) -> "Iterator[_Step]":
        yield from self._changing("kuberay", methodcaller("kuberay"))
        yield from self._changing("kai", methodcaller("kai"))

    def end_jobs(self, world: Any) -> None:
        """A cluster whose pods all have nodes is done one step later."""
        for name in list(world.clusters):
            pods = world.of(name)
            if len(pods) == sum(each.replicas for each in world.groups[name].values()) and all(
                pod.spec.node_name for pod in pods
            ):
                world.end(name)
                world.ended.append(name)

    def check(self) -> None:
        world = self.world
        for name, held in world.queues.items():
            quota = held.spec.resources.gpu.quota
            assert world.promised(name) <= quota, f"queue {name} gives more than it has"
        for name in world.clusters:
            gated = {is_gated(pod) for pod in world.of(name)}
            assert len(gated) < 2 or world.running(name), f"{name} passes in part"

    def is_refused(self, world: Any, name: str) -> bool:
        return "refused: " in world.status(name)

    def describe(self, world: Any) -> str:
        return "; ".join(f"{name}: {world.status(name)}" for name in sorted(world.clusters))


_Step = tuple[str, Callable[[], Scene]]


def _serve_all(world: Any) -> None:
    world.cloud()


# Starts

_PAIR = {"big": ("h100", 1), "small": ("l4", 1)}


def _kueue(
    world: type[Any],
    policy: GangPolicy,
    pieces: dict[str, tuple[str, int]],
    stock: dict[str, int],
    *,
    may_be_refused: bool = False,
) -> Scene:
    here = world(policy=hurried(policy), stock=stock, quota=2, runtime=timedelta(minutes=5))
    for name in ("a", "b"):
        here.submit(name, pieces)
    return KueueScene(here.fork(), is_first=not may_be_refused)


def _kai(
    world: type[Any], policy: GangPolicy, groups: dict[str, kai_world.Group], stock: dict[str, int]
) -> Scene:
    here = world(policy=hurried(policy), stock=stock, delay=timedelta())
    here.queues = {"team-a": kai_world.queue("team-a", quota=4)}
    for name in ("a", "b"):
        here.submit(name, groups)
    return KaiScene(here.fork(), is_first=True)


_KAI_SPLIT = {"headgroup": kai_world.Group("l4"), "workers": kai_world.Group("h100")}
_KAI_PAIR = {"headgroup": kai_world.Group("l4"), "workers": kai_world.Group("l4")}

STARTS: Final[Mapping[str, Callable[[], Scene]]] = {
    "kueue-requests": lambda: _kueue(_Kueue, POLICY, _PAIR, {"l4": 1, "h100": 1}),
    "kueue-stock-out": lambda: _kueue(_Kueue, POLICY, _PAIR, {"l4": 1, "h100": 0}, may_be_refused=True),
    "kueue-placeholders": lambda: _kueue(_PlacedKueue, PLACED, {"main": ("l4", 2)}, {"l4": 2, "h100": 0}),
    "kueue-mixed": lambda: _kueue(_PlacedKueue, PLACED, _PAIR, {"l4": 1, "h100": 1}),
    "kai-requests": lambda: _kai(_Kai, kai_world.POLICY, _KAI_SPLIT, {"l4": 1, "h100": 1}),
    "kai-placeholders": lambda: _kai(_PlacedKai, placed_kai_world.PLACED, _KAI_PAIR, {"l4": 2, "h100": 0}),
}
"""Worlds in which two gangs compete for what only one of them can have, or none, by name."""


def _take_away(keys: list[str], world: Any) -> None:
    for key in keys:
        world.take_away(key)


def _forget(kept: str, name: str, world: Any) -> None:
    getattr(world, kept).pop(name)


def _silence(key: str, world: Any) -> None:
    held = world.nodes[key]
    conditions = tuple(
        msgspec.structs.replace(each, status="Unknown") if each.type == "Ready" else each
        for each in held.status.conditions
    )
    status = msgspec.structs.replace(held.status, conditions=conditions)
    world.nodes[key] = msgspec.structs.replace(held, status=status)
