"""Elastic gangs on paper: Kueue's slices, a Ray cluster's pods behind their gate, one step at a time.

Each step of Kueue and KubeRay is a method of its own, so that a test can take them in any order: the slice
before is finished, admitted and started when the test says so. As read in pkg/workloadslicing,
pkg/scheduler, pkg/controller/jobframework and pkg/controller/elasticjobs of Kueue 0.19.2.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from muster.controller.gangs.capacity_claims import PodClaim
from muster.controller.kube.resource import Key, OwnerReference
from muster.controller.kueue.actions import PatchAnnotations, RecordRunningPods, RemoveClaims
from muster.controller.kueue.objects import Workload
from muster.controller.kueue.slices import REPLACES, base, earlier_slices, is_live, is_used, record
from muster.controller.kueue.snapshot import EarlierSlice, WorkloadSnapshot, claims_of
from muster.model.names import ELASTIC_JOB, WORKLOAD_UID_LABEL
from tests.unit.admission.gang_world import CHECK, World, assignment, lease_of, workload

replace = msgspec.structs.replace


@dataclass
class Birth:
    """A worker of the Ray cluster. `claim`: what it carries; a pod keeps what it has."""

    claim: PodClaim | None
    is_gated: bool = True


@dataclass
class Elastic(World):
    """One elastic cluster with a head that needs no GPU and `wish` workers. `capacity`: GPUs of quota."""

    wish: int = 1
    capacity: int = 8
    generation: int = 1
    """Of the cluster's spec: Kueue names slices after it."""
    is_started: bool = False
    template: PodClaim | None = None
    births: dict[str, Birth] = field(default_factory=dict)

    # What there is

    def slices(self) -> list[Workload]:
        """Those that are not finished, the oldest first."""
        return [each for each in self.workloads.values() if is_live(each)]

    def find(self, key: Key) -> Workload | None:
        return self.workloads.get(key.name)

    def _plain(self, name: str) -> WorkloadSnapshot:
        held = self.workloads[name]
        return dataclasses.replace(
            super()._plain(name),
            base=base(held, self.find),
            earlier_slices=tuple(
                EarlierSlice(
                    claims=claims, requests=tuple(self.requests[each] for each in self._names(claims))
                )
                for before in earlier_slices(held, self.find)
                if (claims := claims_of(before.check_state(CHECK)))
            ),
            has_running_successor=held.status.holds("Finished") and is_used(held, self.slices()),
        )

    def _names(self, claims: object) -> list[str]:
        assert isinstance(claims, dict)
        return [name for claim in claims.values() if (name := claim.request) in self.requests]

    def scale(self, wish: int) -> None:
        """The Ray autoscaler, or a person."""
        self.generation += wish != self.wish
        self.wish = wish

    def free_pods(self) -> int:
        return sum(not birth.is_gated for birth in self.births.values())

    # The controller's hands

    def carry_out(self, name: str, action: object) -> None:
        held = self.workloads[name]
        match action:
            case RemoveClaims(history=history):
                if self._unclaim(held) and history is not None:
                    super().carry_out(name, PatchAnnotations(history=history))
            case RecordRunningPods(most=most):
                running = {"head": 1, "main": self.free_pods()} if self.is_started else {}
                noted = record(held, running, slices=self._used_slices(), most=most)
                notes = {**held.metadata.annotations, **noted}
                self.workloads[name] = replace(held, metadata=replace(held.metadata, annotations=notes))
            case _:
                super().carry_out(name, action)

    def _used_slices(self) -> Iterator[str]:
        for birth in self.births.values():
            if not birth.is_gated and birth.claim is not None:
                labels = self.requests[birth.claim.request].metadata.labels
                yield labels[WORKLOAD_UID_LABEL].removeprefix("uid-")

    def _unclaim(self, held: Workload) -> bool:
        if not self.is_started:
            return False
        self.template = None
        now = claims_of(held.check_state(CHECK)).get("main")
        for key, birth in list(self.births.items()):
            if birth.is_gated and birth.claim and birth.claim != now:
                del self.births[key]
        return self.free_pods() >= _workers(held)

    def settle(self) -> None:
        """Until a round changes nothing: a slice that looks at its cluster again and again is not one that
        writes for ever.
        """
        for _ in range(6):
            before = (self.writes, dict(self.workloads), dict(self.births))
            for name in sorted(self.workloads):
                self.quietly(name)
            if before == (self.writes, self.workloads, self.births):
                return

    # Kueue

    def job(self) -> None:
        """The slice of what the cluster wants: changed in place, or another one."""
        live = self.slices()
        if not live:
            self._new_slice(None)
        elif self.wish < _workers(live[-1]) or not live[-1].status.holds("QuotaReserved"):
            if self.wish != _workers(live[-1]):
                self._resize(live[-1], {"head": 1, "main": self.wish})
        elif self.wish > _workers(live[-1]) and len(live) == 1:
            self._new_slice(live[-1])

    def _new_slice(self, before: Workload | None) -> None:
        name = f"slice-{self.generation:03}"
        if name in self.workloads:
            return
        made = workload(name, {"head": ("cpu", 1), "main": ("l4", self.wish)})
        notes = {ELASTIC_JOB: "true"} | ({REPLACES: str(before.key)} if before else {})
        owner = OwnerReference(kind="RayCluster", name="cluster", uid="uid-cluster", controller=True)
        meta = replace(
            made.metadata, annotations=notes, creation_timestamp=self.now, owner_references=(owner,)
        )
        self.workloads[name] = replace(made, metadata=meta)

    def _resize(self, held: Workload, counts: dict[str, int]) -> None:
        pod_sets = tuple(replace(each, count=counts[each.name]) for each in held.spec.pod_sets)
        self.workloads[held.metadata.name] = replace(held, spec=replace(held.spec, pod_sets=pod_sets))

    def kueue(self) -> None:
        """Quota for the newest slice, where the whole of it fits in the place of the one before."""
        newest = self.slices()[-1] if self.slices() else None
        if newest and not newest.status.holds("QuotaReserved") and _workers(newest) <= self.capacity:
            name = newest.metadata.name
            pieces = {"head": ("cpu", 1), "main": ("l4", _workers(newest))}
            self._status(name, admission=assignment(pieces))
            self.set_condition(name, "QuotaReserved", "True")

    def finish(self) -> None:
        """The slice before one with quota is over."""
        live = self.slices()
        if live and live[-1].status.holds("QuotaReserved"):
            for each in live[:-1]:
                self.set_condition(each.metadata.name, "Finished", "True", "WorkloadSliceReplaced")

    def admit(self) -> None:
        for each in self.slices():
            entry = each.check_state(CHECK)
            is_ready = entry is not None and entry.state == "Ready"
            if each.status.holds("QuotaReserved") and is_ready and not each.status.holds("Admitted"):
                self.check_ready(each.metadata.name)
                self.set_condition(each.metadata.name, "Admitted", "True")
                self.started[each.metadata.name] = self.now

    def start(self) -> None:
        admitted = [each for each in self.slices() if each.status.holds("Admitted")]
        if admitted and not self.is_started:
            self.is_started = True
            self.template = claims_of(admitted[-1].check_state(CHECK)).get("main")

    def ungate(self) -> None:
        """As many as the newest slice with quota has, once that is admitted, with its claim."""
        active = next((each for each in reversed(self.slices()) if each.status.holds("QuotaReserved")), None)
        if active is None or not active.status.holds("Admitted"):
            return
        claim = claims_of(active.check_state(CHECK)).get("main")
        for birth in self.births.values():
            may = birth.is_gated and birth.claim in (None, claim)
            if may and self.free_pods() < _workers(active):
                birth.claim, birth.is_gated = claim, False

    # KubeRay, the scheduler

    def kuberay(self) -> None:
        if not self.is_started:
            return
        while len(self.births) < self.wish:
            self.births[f"worker-{next(self._numbers):03}"] = Birth(self.template)
        while len(self.births) > self.wish:
            last = max(self.births, key=lambda key: (self.births[key].is_gated, key))
            del self.births[last]
            self.pods.pop(last, None)

    def jobs(self) -> None:
        for key, birth in self.births.items():
            if not birth.is_gated and birth.claim is not None:
                self._bind(key, lease_of(birth.claim), birth.claim.annotations)

    # Oracles

    def check(self) -> None:
        """Every pod that may be scheduled has a node that was asked for it, and none has lost its own."""
        leases: dict[str, int] = {}
        for birth in self.births.values():
            if not birth.is_gated:
                assert birth.claim is not None, "a pod was let go without a claim"
                leases[lease_of(birth.claim)] = leases.get(lease_of(birth.claim), 0) + 1
        for lease, pods in leases.items():
            nodes = sum(lease in node.metadata.labels.values() for node in self.nodes.values())
            assert pods <= nodes, f"{pods} pods were sent to the {nodes} nodes of {lease}"
        for pod in self.pods.values():
            assert pod.spec.node_name in self.nodes, "a node was given back under a pod that runs"
        assert not [each for each in self.workloads.values() if each.status.holds("Evicted")]


STEPS = ("job", "kueue", "finish", "admit", "start", "kuberay", "ungate", "jobs", "cloud", "settle")
"""What can happen next, in the order in which it does when nothing is late."""


def _workers(held: Workload) -> int:
    return next(each.count for each in held.spec.pod_sets if each.name == "main")
