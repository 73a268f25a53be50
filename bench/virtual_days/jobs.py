"""The jobs' pods: bound to nodes of their lease, a head to a node for all; made anew when a node is gone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from bench.virtual_days.kueue import Gang
from bench.virtual_days.server import Server, later
from muster.controller.gangs.indexes import BY_LEASE, BY_NODE, BY_POOL
from muster.controller.gangs.objects import NODE, POD, Node, Pod
from muster.controller.gangs.taints import closed_for
from muster.controller.kube.resource import Key, ObjectMeta
from muster.controller.kueue.objects import PodSetUpdate
from muster.model.names import GKE_LEASE_LABEL, POD_SET_LABEL
from tests.unit.admission.fleet import SPACE
from tests.unit.admission.gang_world import CHECK, pod_spec
from tests.unit.controller_runtime.virtual import now

replace = msgspec.structs.replace

_HEADS_A_NODE: Final = 4
_PODS_READY: Final = 900.0
"""Kueue's waitForPodsReady: the longer of the two bounds that a stack sets by default."""


@dataclass(slots=True)
class _Job:
    gang: Gang
    updates: Mapping[str, PodSetUpdate]
    """What its pods carry, as they were when it was admitted."""
    lacks_since: float
    pods: dict[str, str] = field(default_factory=dict)
    """Name of a pod -> its node."""
    whole_since: float | None = None
    run: int = 0
    """Each stretch in which it is whole has a number: timers of earlier ones are void."""


@dataclass
class Jobs:
    """`turned`: a gang began or ceased to be whole; `finished`: it has run to its end, and is to be stopped;
    `given_up`: for too long not all of its pods had a node.
    """

    server: Server
    turned: Callable[[Gang, bool], None]
    finished: Callable[[Gang], None]
    given_up: Callable[[Gang], None]
    running: dict[Key, _Job] = field(default_factory=dict)

    def start(self, gang: Gang) -> None:
        held = self.server.workload(gang.key)
        entry = held.check_state(CHECK) if held else None
        updates = {each.name: each for each in entry.pod_set_updates} if entry else {}
        self.running[gang.key] = _Job(gang, updates, now())
        self.schedule(gang.key)

    def stop(self, gang: Gang) -> None:
        if (job := self.running.pop(gang.key, None)) is not None:
            self._pause(job)
            for pod in job.pods:
                self.server.remove(POD, Key(SPACE, pod))

    def is_whole(self, gang: Gang) -> bool:
        job = self.running.get(gang.key)
        return job is not None and job.whole_since is not None

    def is_first_run(self, gang: Gang) -> bool:
        """It is whole for the first time since it was admitted."""
        return self.is_whole(gang) and self.running[gang.key].run == 1

    def node_gone(self, name: str) -> None:
        for key in [key for key, job in self.running.items() if name in job.pods.values()]:
            self.schedule(key)

    def schedule(self, key: Key) -> None:
        """Bind what is not bound; it makes progress while every pod has a node."""
        job = self.running.get(key)
        if job is None:
            return
        for pod in [pod for pod, node in job.pods.items() if self._node(node) is None]:
            del job.pods[pod]
            self.server.remove(POD, Key(SPACE, pod))
        for pod_set, (pool, count) in job.gang.pieces.items():
            update = job.updates.get(pod_set)
            for number in range(count):
                pod = f"{key.name}-{pod_set}-{number}"
                lease = update.node_selector.get(GKE_LEASE_LABEL, "") if update else ""
                node = None if pod in job.pods else self._room(pool, lease)
                if node is not None:
                    job.pods[pod] = node.metadata.name
                    notes = dict(update.annotations) if update else {}
                    self._bind(pod, pod_set, node, notes, gpus=int(pool != "cpu"))
        is_whole = len(job.pods) == sum(count for _, count in job.gang.pieces.values())
        if is_whole and job.whole_since is None:
            job.whole_since, job.run = now(), job.run + 1
            self.turned(job.gang, True)
            later(job.gang.left, self._end, key, job.run)
        elif not is_whole:
            self._pause(job)
            later(30, self.schedule, key)
            if now() - job.lacks_since >= _PODS_READY:
                self.given_up(job.gang)

    def _pause(self, job: _Job) -> None:
        if job.whole_since is not None:
            job.gang.left = max(0.0, job.gang.left - (now() - job.whole_since))
            job.whole_since, job.lacks_since = None, now()
            self.turned(job.gang, False)

    def _end(self, key: Key, run: int) -> None:
        job = self.running.get(key)
        if job is not None and job.run == run and job.whole_since is not None:
            self.finished(job.gang)

    def _bind(self, pod: str, pod_set: str, node: Node, notes: dict[str, str], *, gpus: int) -> None:
        meta = ObjectMeta(
            name=pod,
            namespace=SPACE,
            uid=f"{pod}-{self.server.version()}",
            annotations=notes,
            labels={POD_SET_LABEL: pod_set},
        )
        spec = replace(pod_spec(gpus), node_name=node.metadata.name)
        self.server.put(POD, Pod(metadata=meta, spec=spec))

    def _room(self, pool: str, lease: str) -> Node | None:
        nodes, pods = self.server.caches[NODE].store, self.server.caches[POD].store
        found = nodes.by_index(BY_LEASE, lease) if lease else nodes.by_index(BY_POOL, pool)
        most = 1 if lease else _HEADS_A_NODE
        for node in found:
            if closed_for(node):
                continue
            if node.status.holds("Ready") and len(pods.by_index(BY_NODE, node.metadata.name)) < most:
                fitting: Node = node
                return fitting
        return None

    def _node(self, name: str) -> Node | None:
        found: Node | None = self.server.caches[NODE].get(Key("", name))
        return found
