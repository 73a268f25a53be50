"""A KAI cluster on paper whose KAI makes room: whole gangs are evicted, as by its preempt and reclaim."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

from muster.controller.gangs.identity import ATTEMPT
from muster.controller.kai.labels import PREEMPTS, is_gated
from muster.controller.kai.objects import GatedPod
from muster.controller.kai.snapshot import ClusterSnapshot
from muster.model.gangpolicy import KaiPolicy, OverQuota
from muster.model.names import KAI_PRIORITY_LABEL
from tests.unit.kai.kai_world import PRIORITIES, Group, queue
from tests.unit.kai.placed_kai_world import PLACED, PlacedWorld, view_of

HEAD = Group("cpu")


@dataclass
class PreemptingWorld(PlacedWorld):
    evicts: bool = True
    most_nodes: int = 0

    def kai(self) -> None:
        super().kai()
        waiting = [name for name in self.clusters if self._may_start(name)]
        for name in sorted(waiting, key=lambda name: -self.priority(name)) if self.evicts else ():
            self._make_room(name)
        super().kai()
        self.most_nodes = max(self.most_nodes, len(self.nodes))

    def _may_start(self, name: str) -> bool:
        pods = self.of(name)
        return bool(pods) and not any(map(is_gated, pods)) and not self.running(name)

    def _make_room(self, name: str) -> None:
        """Victim after victim, until all of the gang has a node; nobody goes for less."""
        for victims in (self._lower(name), self._over_quota(name)):
            before = dict(self.pods)
            for victim in victims:
                for pod in self.of(victim):
                    del self.pods[pod.metadata.name]
                self._place(name)
                if self.running(name):
                    return
            self.pods = before

    def _lower(self, name: str) -> Iterator[str]:
        for other in self.clusters:
            is_lower = self.priority(other) < min(self.priority(name), 100)
            if is_lower and self.queue_of(other) == self.queue_of(name) and self.running(other):
                yield other

    def _over_quota(self, name: str) -> Iterator[str]:
        """Of two queues with one parent."""
        own = self.queue_of(name)
        if self.held(own) + sum(map(self._gpus, self.of(name))) > self.queues[own].spec.resources.gpu.quota:
            return
        for other in self.clusters:
            other_queue = self.queue_of(other)
            is_over = self.held(other_queue) > self.queues[other_queue].spec.resources.gpu.quota
            if other_queue != own and is_over and self.priority(other) < 100 and self.running(other):
                yield other

    def held(self, name: str) -> Fraction:
        return sum((self._gpus(pod) for pod in self.pods.values() if self._counts(pod, name)), Fraction(0))

    def priority(self, name: str) -> int:
        return PRIORITIES[self.clusters[name].metadata.labels[KAI_PRIORITY_LABEL]].value

    def queue_of(self, name: str) -> str:
        return self.clusters[name].metadata.labels["kai.scheduler/queue"]

    def take_away(self, node: str) -> None:
        """Nodes whose request has gone stay as long as pods are on them."""
        if node not in self.places():
            super().take_away(node)

    # The controller

    def snapshot(self, name: str) -> ClusterSnapshot:
        snapshot = super().snapshot(name)
        if not any(map(is_gated, snapshot.pods)):
            return snapshot
        view = view_of(self)
        view.gathering.reconciling(snapshot.cluster.key, now=self.now)
        return dataclasses.replace(snapshot, rivals=view.rivals(snapshot))

    def check_standing(self, pod: GatedPod, notes: Mapping[str, str]) -> None:
        """Nothing is asked for, nor comes, for a gang that KAI makes room for."""
        if PREEMPTS not in notes:
            super().check_standing(pod, notes)
            return
        asked = (*self.requests.values(), *self.placeholders.values(), *self.templates.values())
        assert not any(each.metadata.labels[ATTEMPT] == notes[ATTEMPT] for each in asked)


def world(
    *,
    stock: int = 4,
    quota: float = 4,
    over_quota: OverQuota = OverQuota.DENY,
    after: int = 2,
    most: int = 16,
    made: type[PreemptingWorld] = PreemptingWorld,
) -> PreemptingWorld:
    kai = KaiPolicy(over_quota=over_quota, preempt_after=timedelta(minutes=after))
    flavors = tuple(
        dataclasses.replace(each, max_nodes=most) if each.max_nodes else each for each in PLACED.flavors
    )
    here = made(
        policy=dataclasses.replace(PLACED, kai=kai, flavors=flavors), stock={"l4": stock, "h100": stock}
    )
    here.queues = {
        "dep": queue("dep", quota=8, limit=16),
        "team-a": queue("team-a", quota=quota, limit=12, parent="dep"),
        "team-b": queue("team-b", quota=4, limit=12, parent="dep"),
    }
    return here


def submit(
    here: PreemptingWorld, name: str, pool: str, workers: int, priority: str, *, queue: str = "team-a"
) -> None:
    groups = {"headgroup": HEAD, "workers": Group(pool, workers)}
    here.submit(name, groups, queue=queue, **{KAI_PRIORITY_LABEL: priority})
